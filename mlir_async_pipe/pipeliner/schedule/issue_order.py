"""Where in an iteration the copies are issued, and fragments loaded.

    first     wait, barrier, copies, loads, products            distance S - 1 iterations
    spread    wait, barrier, loads, product, copy, product, …   between S - 2 and S - 1
    last      wait, barrier, loads, products, copies            S - 2

Copies that come first keep the tensor cores waiting for them and for their addresses. Copies that
come later arrive later: by the cycles p before the last of them. With T cycles an iteration and
L cycles from issue to arrival a step takes max(T, (L + p) / (S - 1)) cycles, so the default spreads
copies where that makes no step longer (docs/latency.md).

Copies stand after the last load from workgroup memory: which slot they fill is known here, but not
to a back end that wants to load earlier.

Fragments are loaded one step of products ahead, also over the seam of two iterations:

    loads 0; products 0; loads 1; products 1         the iteration as its author wrote it

    wait; barrier; loads 0                           stage S - 1
    products 1 of the iteration before, copies       stage S, and 0
    loads 1; products 0                              stage S - 1

Without this the first products of an iteration wait for their fragments, since no back end moves a
load over a barrier. With the last step of products a stage later, what it multiplies travels in
registers from iteration to iteration. Waits, versions and the distance of copies stay those of S
stages. The price is one stage more: a step of the prologue, and of the epilogue.

Loads that all stand before the products are shared out to the products that need them (`_links`): a step for each product
that a sum is made of. Else a back end has nothing that the products of an iteration wait for, multiplies at once, and then loads
and copies in one run. Copies that cannot be spread come before the first loads, beside the last products of the iteration before.

A thread then holds the fragments of two steps and all that the loop carries at a time. The chip
has to have so many registers, and some more for addresses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Literal, NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    captured,
    defining_op,
    type_text,
    walk,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.flow.algorithms import joined
from mlir_async_pipe.facts.loops.annotations import NUM_STAGES, LoopAnnotations, static_trip_count
from mlir_async_pipe.facts.loops.statements import (
    ARGUMENT,
    Body,
    Statement,
    only_reads,
    read_body,
    synchronisation_in,
    value_producers,
)
from mlir_async_pipe.facts.values.integer_ops import bits_of_text
from mlir_async_pipe.facts.values.memory_roots import may_meet, roots_in, touched
from mlir_async_pipe.facts.values.thread_numbers import ThreadAddresses
from mlir_async_pipe.pipeliner.plan.legality import check_values
from mlir_async_pipe.pipeliner.plan.memory_limit import register_budget, registers_of
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace, Units, rematerialisable
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.diagnostics import Place as SourcePlace
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, is_pure, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size
from mlir_async_pipe.vocabulary.products import is_product

Issue = Literal["first", "spread", "last"]
Asked = Literal["auto", "first", "spread", "last"]
Pairs = Collection[tuple[Operation, Operation]]


@dataclass(frozen=True)
class IssueOptions:
    """`issue` replaces what the loop says ("auto" keeps it); `cost` and `target` are for what both leave open."""

    issue: Asked = "auto"
    cost: str = ""
    target: Target | None = None


def with_products(body: Body) -> Body:
    """The body, in which products are statements: what is issued between two of them."""
    return read_body(body.loop, {*(s.op for s in body.statements), *filter(is_product, body.pure)})


@dataclass(frozen=True)
class ExtraStages:
    """A loop has more stages than the number that it `asked` for, and `why`."""

    place: SourcePlace
    asked: int
    why: str

    def __str__(self) -> str:
        return f"{self.asked} asked for, {self.why}"


@dataclass(frozen=True)
class FragmentsPlaced:
    """Whether the fragments of a loop's products are loaded a step `ahead`, and `why`."""

    place: SourcePlace
    ahead: bool
    why: str

    def __str__(self) -> str:
        where = "a step of products ahead" if self.ahead else "where they are multiplied"
        return f"fragments are loaded {where}: {self.why}"


class Arrangement(NamedTuple):
    """The order of all statements, and the stage of those that do not run ahead."""

    order: dict[int, int]
    stage: dict[int, int]


def arrange(
    body: Body,
    first: set[int],
    copies: set[int],
    pairs: Pairs,
    stages: int,
    found: LoopAnnotations,
    options: IssueOptions,
    session: Session,
) -> Arrangement:
    """The order of an iteration: `first` are the copies and what they need, `copies` the asynchronous ones (if any)."""
    issue = found.issue if options.issue == "auto" else options.issue
    if found.roles == "ping-pong" and issue == "auto":
        # Groups of waves in turn place them themselves.
        issue = "first"
    place = SourcePlace.of(body.loop)
    fragments: FragmentsAhead | str = "copies come first" if copies else "nothing is copied"
    if copies and issue != "first":
        fragments = fragments_ahead(body, first, stages, found, options.target)
    if isinstance(fragments, FragmentsAhead):
        ahead = _arranged_ahead(fragments, body, first, pairs, stages, issue)
        illegal = _illegal(body, ahead, copies)
        if not illegal:
            more = "1 more for the last products, whose fragments are loaded a step ahead"
            session.record("extra_stages", ExtraStages(place, stages, more))
            session.record("fragments", FragmentsPlaced(place, ahead=True, why=fragments.why))
            return ahead
        fragments = illegal
    if copies and any(map(_multiplies, body.statements)):
        session.record("fragments", FragmentsPlaced(place, ahead=False, why=fragments))
    if found.fragments == "ahead":
        said = f"the fragments are loaded in the iteration that multiplies them: {fragments}"
        session.diagnostics.remark(said, code="fragments-in-place", at=body.loop)
    if issue == "auto":
        issue = default_issue(body, stages, copies, options) if copies else "first"
    rest = [s.number for s in body.statements if s.number not in first]
    order = ranks(body, first, pairs, issue, [], rest, [])
    return Arrangement(order, dict.fromkeys(rest, stages - 1))


def _arranged_ahead(
    fragments: FragmentsAhead, body: Body, first: set[int], pairs: Pairs, stages: int, issue: Asked
) -> Arrangement:
    """The last products a stage later than what does not run ahead, and first in order after the first loads. Copies
    that cannot be spread come first of all: beside these products nothing waits for them."""
    place: Issue = "last" if issue == "last" else "spread"
    parts = fragments.first_loads, fragments.last, fragments.between
    stage = dict.fromkeys(chain(*parts), stages - 1) | dict.fromkeys(fragments.last, stages)
    if issue == "auto" and len(_pieces(body, first, pairs)) == 1:
        place, parts = "first", ([], [*chain(*parts)], [])
    return Arrangement(ranks(body, first, pairs, place, *parts), stage)


def _illegal(body: Body, arranged: Arrangement, copies: set[int]) -> str:
    """Why values would be used before they are made, "" if not. What copies need runs in the first stages."""
    places = {
        s.op: SchedulePlace(
            arranged.stage.get(s.number, 0), arranged.order[s.number], s.number in copies
        )
        for s in body.statements
        if not s.part
    }
    if len(places) < len(body.statements):
        return ""
    try:
        check_values(Units(body, places))
    except PipelineError as error:
        return error.diagnostic.message.removeprefix("cannot pipeline: ")
    return ""


def ranks(
    body: Body,
    first: set[int],
    pairs: Pairs,
    issue: Issue,
    before: list[int],
    among: list[int],
    after: list[int],
) -> dict[int, int]:
    """The order of each statement: `before`, then `first` among others, then `after`."""
    if issue == "first":
        ranked = [*sorted(first), *among]
    elif issue == "last":
        ranked = [*among, *sorted(first)]
    else:
        ranked = _spread(body, among, _pieces(body, first, pairs))
    return {number: rank for rank, number in enumerate([*before, *ranked, *after])}


def _spread(body: Body, rest: list[int], pieces: list[list[int]]) -> list[int]:
    """`rest` with piece j of n after product j P / n of the P that no load from workgroup memory follows."""
    loads = (i for i, n in enumerate(rest) if touches_tiles(body.statements[n], writes=False))
    last_load = max(loads, default=-1)
    products = [i for i, n in enumerate(rest) if _multiplies(body.statements[n]) and i > last_load]
    gaps = products or [last_load]
    after: dict[int, list[int]] = {}
    for j, piece in enumerate(pieces):
        gap = gaps[j * len(gaps) // len(pieces)]
        after.setdefault(gap, []).extend(piece)
    ranked = after.get(-1, [])
    for i, number in enumerate(rest):
        ranked += [number, *after.get(i, [])]
    return ranked


def _pieces(body: Body, first: set[int], pairs: Pairs) -> list[list[int]]:
    """What runs ahead, in parts that no value leaves; one part where a copy is made of two ops, or where the input
    commits no group, since such copies are committed together only if nothing stands between them."""
    if pairs or not any(row_of(op).commits == "group" for op in body.ops):
        return [sorted(first)]
    by_op, ahead = {s.op: s.number for s in body.statements}, sorted(first)
    links = (
        (number, producer)
        for number in ahead
        for producer in value_producers(body.statements[number].op, by_op, set()) & first
    )
    return joined(ahead, links)


def _multiplies(statement: Statement) -> bool:
    return any(map(is_product, walk(statement.op)))


def default_issue(body: Body, stages: int, copies: set[int], options: IssueOptions) -> Issue:
    """What the cost model says: "spread" where that makes no step longer. `body` has its products as statements,
    `copies` are the numbers of its copies."""
    if stages < 3 or not any(map(_multiplies, body.statements)):
        return "first"
    # The tables are needed by few loops, and importing them by none.
    from mlir_async_pipe.facts.costs.cost_model import CostModel
    from mlir_async_pipe.pipeliner.schedule.modulo.read import UnitCosts

    model = CostModel.parse(options.cost, options.target)
    costs = UnitCosts(model, options.target)
    barrier = model.barrier if body.synchronisation else 0
    held = {s.number: costs.held_by(s.op) for s in body.statements if s.number not in copies}
    step = barrier + sum(held.values()) + sum(map(costs.held_by, body.pure))
    order = ranks(body, copies, (), "spread", [], list(held), [])
    issued = max(order[number] for number in copies)
    before = barrier + sum(cycles for number, cycles in held.items() if order[number] < issued)
    issuing = [body.statements[number].op for number in copies]
    arrival = max(copy.latency for op in issuing for copy in costs.copies_of((op,), ""))
    late, early = ((arrival + cycles) / (stages - 1) for cycles in (before, barrier))
    return "spread" if max(step, late) <= max(step, early) else "first"


# Counters, bases, and what the back end moves them with. The GEMM 128x128x32 of the examples holds 128
# registers of sums, 64 of fragments and 20 of addresses, and takes 246.
RESERVE = 32
POINTER = 2


class ProductStep(NamedTuple):
    """One step of products: statements that load its fragments, and all others up to the next step's loads."""

    loads: list[Statement]
    others: list[Statement]


class FragmentsAhead(NamedTuple):
    """The statements that do not copy, by number and in kernel order: the first loads, the last
    products, which are those of the iteration before, and all that stands between them; and why."""

    first_loads: list[int]
    last: list[int]
    between: list[int]
    why: str


def fragments_ahead(
    body: Body, copies: set[int], stages: int, found: LoopAnnotations, target: Target | None
) -> FragmentsAhead | str:
    """The order that loads fragments a step ahead, or why they are loaded where they are used. `copies` are the
    statements that copy and what they need, `found` what the loop says."""
    if found.fragments == "in-place":
        return "the loop asks for it"
    trips = static_trip_count(body.loop)
    if trips is not None and trips < stages:
        return f"the loop runs {trips} times, and the pipeline has {stages} steps to fill it"
    steps = _steps([s for s in body.statements if s.number not in copies])
    links = [link for step in steps for link in _links(body, step)]
    steps = steps if _why_not(body, links) else links
    why = _why_not(body, steps)
    if why:
        return why
    wanted = "the loop asks for it"
    if found.fragments == "auto":
        fit, wanted = _registers_fit(body, steps, copies, found, target)
        if not fit:
            return wanted
    between = [
        s.number for step, following in pairwise(steps) for s in (*following.loads, *step.others)
    ]
    first, last = steps[0].loads, steps[-1].others
    return FragmentsAhead([s.number for s in first], [s.number for s in last], between, wanted)


def _steps(statements: list[Statement]) -> list[ProductStep]:
    """A load after a product begins a step; so does the end of an inner loop, which multiplies what its kernel loaded."""
    steps = [ProductStep([], [])]
    for statement in statements:
        loads = statement.part == "prologue" or (
            not statement.part and only_reads(statement, "workgroup")
        )
        if statement.part == "epilogue" or (loads and any(map(_multiplies, steps[-1].others))):
            steps.append(ProductStep([], []))
        (steps[-1].loads if loads else steps[-1].others).append(statement)
    return steps


def _links(body: Body, step: ProductStep) -> list[ProductStep]:
    """A step whose products add to each other's sums as one step for each link of the longest chain, each with the
    loads that it is the first to need; whole if anything but products follows its loads.

    load a, b, c, d; s = a b; t = s + c d    -->    load a, b; s = a b;   load c, d; t = s + c d
    """
    statements = (*step.loads, *step.others)
    if any(s.part for s in statements) or not all(map(_multiplies, step.others)):
        return [step]
    by_op = {s.op: s.number for s in statements}
    link: dict[int, int] = {}
    first: dict[int, int] = {}
    for s in step.others:
        needed = value_producers(s.op, by_op, set())
        link[s.number] = max((link[n] + 1 for n in needed if n in link), default=0)
        for number in needed - link.keys():
            first[number] = min(first.get(number, link[s.number]), link[s.number])
    links = [ProductStep([], []) for _ in range(max(link.values(), default=0) + 1)]
    for s in step.loads:
        links[first.get(s.number, -1)].loads.append(s)
    for s in step.others:
        links[link[s.number]].others.append(s)
    return links


def _why_not(body: Body, steps: list[ProductStep]) -> str:
    """What forbids it, "" if nothing does."""
    if not steps[0].loads or not any(map(_multiplies, steps[-1].others)):
        return "no products follow loads from workgroup memory"
    loads = [s for step in steps for s in step.loads]
    others = [s for step in steps for s in step.others]
    table, closed = body.table, rematerialisable(body)
    for statement in loads:
        if statement.part and NUM_STAGES not in statement.op.attributes:
            return "the stages of the inner loop are given one by one"
        if not statement.part and not table.follows_induction(table.number[statement.op], closed):
            return "what the loop computes decides which fragments are loaded"
    yielded = set(body.terminator.operands)
    if any(result in yielded for s in loads if not s.part for result in s.op.results):
        return "the loop carries fragments itself"
    if any(not _is_known(s.op) for s in others):
        return "nothing is known of the memory that a statement touches"
    by_op = {s.op: s.number for s in body.statements}
    late = [s.op for s in steps[-1].others if not s.part]
    used = {number for op in late for number in value_producers(op, by_op, set())}
    if used & {s.number for step in steps[:-1] for s in step.loads}:
        return "the last products need fragments of more than one step"
    theirs = roots_in((s.op for s in others), writes=True) | roots_in(late, writes=False)
    if may_meet(roots_in((s.op for s in loads), writes=False), theirs):
        return "statements between the products touch the memory that fragments are loaded from"
    return ""


def _is_known(op: Operation) -> bool:
    return synchronisation_in(op) is None and all(
        accesses(inner) or is_pure(inner) or inner.name in REGION_ROWS for inner in walk(op)
    )


def touches_tiles(statement: Statement, *, writes: bool) -> bool:
    """Whether a statement writes, or reads, workgroup memory."""
    return any(root.space == "workgroup" for root in roots_in([statement.op], writes=writes))


def _registers_fit(
    body: Body,
    steps: list[ProductStep],
    copies: set[int],
    found: LoopAnnotations,
    target: Target | None,
) -> tuple[bool, str]:
    """Whether fragments are loaded ahead where nobody asks for it, since registers suffice, and why (not)."""
    if found.epilogue != "peel" or found.short_trip != "version":
        return False, "one stage more would change what the loop asks of its trip count"
    if target is None:
        return False, "the registers of the chip are not known"
    if target.chip.copy_form is not None:
        return False, "the back end waits for copies to LDS before the loads after them"
    following = [*steps[1:], steps[0]]
    fragments = max(
        _fragment_registers(step.loads) + _fragment_registers(after.loads)
        for step, after in zip(steps, following, strict=True)
    )
    loads = [s for step in steps for s in step.loads]
    needed = _held(body, loads) + fragments + _addresses(body, loads, copies, target) + RESERVE
    budget = register_budget(body.loop, target.chip)
    why = f"{needed} registers are needed, and {target.chip.name} has {budget} for a thread"
    return needed <= budget, why


def registers_beside(body: Body, copies: Collection[int], target: Target) -> int:
    """Registers for values from outside, and addresses. `copies` are numbers of statements."""
    loads = [s for s in body.statements if touches_tiles(s, writes=False)]
    return _from_outside(body) + _addresses(body, loads, copies, target)


def _held(body: Body, loads: list[Statement]) -> int:
    """The most registers that values of the loop take at a time, in the order in which it is written, with
    those that it uses from outside; without what `loads` load and numbers, which are counted by themselves.

        attention of 64 x 64, D = 128: 64 of sums and 4 of the softmax, 32 of scores, 32 of Q
    """
    table = body.table
    fragments = {result for s in loads for result in s.op.results}
    sizes = [0] * len(table.maker)
    # What is only taken out of fragments takes no more registers.
    for op in table.ops:
        used = registers_of([value.type for value in op.operands], ())
        taken = len(op.operands) > 0 and fragments.issuperset(op.operands)
        for result, number in zip(op.results, table.results[table.number[op]], strict=True):
            size = _value_registers(result)
            if taken and size <= used:
                fragments.add(result)
            sizes[number] = 0 if result in fragments else size
    for number, argument in enumerate(body.block.arguments):
        sizes[number] = _value_registers(argument)
    ends = [max(users, default=ARGUMENT) for users in table.users]
    begins = [0 if maker == ARGUMENT else maker for maker in table.maker]
    change = [0] * (len(table.ops) + 1)
    for size, begin, end in zip(sizes, begins, ends, strict=True):
        if end > begin:
            change[begin] += size
            change[end] -= size
    return _from_outside(body) + max(accumulate(change))


def _from_outside(body: Body) -> int:
    ops = body.table.ops
    inside = {*body.block.arguments, *(result for op in ops for result in op.results)}
    outside = {v for op in ops for v in captured(op) if v not in inside}
    constants = {
        v for v in outside if (made_by := defining_op(v)) is not None and not made_by.operands
    }
    return sum(map(_value_registers, outside - constants))


def _value_registers(value: Value) -> int:
    """Registers of a value, 0 of one number: those are addresses and counters."""
    return 0 if bits_of_text(type_text(value.type)) else registers_of((value.type,), ())


def _addresses(body: Body, loads: list[Statement], copies: Collection[int], target: Target) -> int:
    """Registers of the addresses that a loop steps or keeps: a pointer to global memory for each copy, and one for
    all loads of fragments whose addresses differ by a constant, which is an immediate of the load.

        ldmatrix %sa[%r, %c xor (%r / 2 mod 4) * 8]            one register:
        ldmatrix %sa[%r + 16, %c xor ((%r + 16) / 2 mod 4) * 8]   16 rows further for every thread
    """
    # Where nothing says how many threads a block has, 128.
    block = enclosing_launch_size(body.loop) or (128, 1, 1)
    addresses = ThreadAddresses(block, target.chip.lanes)
    copying = (op for s in body.statements if s.number in copies for op in walk(s.op))
    pointers = sum(touched(op).count(("read", "global")) for op in copying)
    loaded = (access for s in loads for op in walk(s.op) for access in accesses(op))
    found = map(addresses.of, loaded)
    apart = {(memory, (bytes_ - bytes_[0]).tobytes()) for memory, bytes_ in found}
    return POINTER * pointers + len(apart)


def _fragment_registers(loads: list[Statement]) -> int:
    """Registers of all that statements load; those of an inner loop are loaded twice at a time."""
    return sum(
        (2 if s.part else 1) * registers_of((result.type for result in op.results), ())
        for s in loads
        for op in walk(s.op)
        if any(not access.writes for access in accesses(op))
    )
