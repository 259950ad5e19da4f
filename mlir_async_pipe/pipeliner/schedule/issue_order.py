"""Where in an iteration the copies are issued.

    first     wait, barrier, copies, loads, products            distance S - 1 iterations
    spread    wait, barrier, loads, product, copy, product, …   between S - 2 and S - 1
    last      wait, barrier, loads, products, copies            S - 2

Copies that come first keep the tensor cores waiting for them and for their addresses. Copies that
come later arrive later: by the cycles p before the last of them. With T cycles an iteration and
L cycles from issue to arrival a step takes max(T, (L + p) / (S - 1)) cycles, so the default spreads
copies where that makes no step longer (docs/latency.md).

Copies stand after the last load from workgroup memory: which slot they fill is known here, but not
to a back end that wants to load earlier.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.loops.annotations import LoopAnnotations
from mlir_async_pipe.facts.loops.statements import Body, Statement, read_body, value_producers
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.pipeliner.plan.legality import check_values
from mlir_async_pipe.pipeliner.plan.statement_places import Place, StatementPlaces
from mlir_async_pipe.pipeliner.plan.units import Units
from mlir_async_pipe.pipeliner.schedule.fragments_ahead import FragmentsAhead, fragments_ahead
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.diagnostics import Place as SourcePlace
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.products import is_product

Issue = Literal["first", "spread", "last"]
Asked = Literal["auto", "first", "spread", "last"]
Pairs = Collection[tuple[Operation, Operation]]


@dataclass(frozen=True)
class IssueOptions:
    """`issue` replaces what the loop says ("auto" keeps it); `cost` and `target` are for what is
    left open by both. `overlapped`: the loop may take in the one around it."""

    issue: Asked = "auto"
    cost: str = ""
    target: Target | None = None
    overlapped: bool = False


DEFAULT = IssueOptions()


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
class Arrangement:
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
    """The order of an iteration, of which `first` are the copies and what they need, and `copies`
    those that are asynchronous (none where loads run ahead into registers)."""
    issue = found.issue if options.issue == "auto" else options.issue
    fragments: FragmentsAhead | str = "copies come first" if copies else "nothing is copied"
    if copies and issue != "first":
        fragments = fragments_ahead(body, first, stages, found, options.target, options.overlapped)
    if isinstance(fragments, FragmentsAhead):
        place: Issue = "last" if issue == "last" else "spread"
        parts = fragments.first_loads, fragments.last, fragments.between
        stage = dict.fromkeys(chain(*parts), stages - 1)
        stage.update(dict.fromkeys(fragments.last, stages))
        ahead = Arrangement(ranks(body, first, pairs, place, *parts), stage)
        fragments = _illegal(body, ahead, first, copies)
        if not fragments:
            why = "1 more for the last products, whose fragments are loaded a step ahead"
            session.record("extra_stages", ExtraStages(SourcePlace.of(body.loop), stages, why))
            return ahead
    if found.fragments == "ahead":
        session.diagnostics.remark(
            f"the fragments are loaded in the iteration that multiplies them: {fragments}",
            code="fragments-in-place",
            at=body.loop,
        )
    if issue == "auto":
        issue = default_issue(body, stages, copies, options) if copies else "first"
    rest = [s.number for s in body.statements if s.number not in first]
    order = ranks(body, first, pairs, issue, [], rest, [])
    return Arrangement(order, dict.fromkeys(rest, stages - 1))


def _illegal(body: Body, arranged: Arrangement, first: set[int], copies: set[int]) -> str:
    """Why values would be used before they are made, "" if they are not. What copies need runs
    in the first stages, before all users."""
    places = {
        s.op: Place(arranged.stage.get(s.number, 0), arranged.order[s.number])
        for s in body.statements
        if not s.part
    }
    asynchronous = frozenset(s.op for s in body.statements if s.number in copies)
    if len(places) < len(body.statements):
        return ""
    try:
        check_values(Units(body, StatementPlaces(places, asynchronous)))
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
    """`rest` with the pieces after its products: piece j of n after product j P / n of the P that
    no load from workgroup memory follows."""
    last_load = max((i for i, n in enumerate(rest) if _loads(body.statements[n])), default=-1)
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
    """What runs ahead, in parts that no value leaves; one part where a copy is made of two ops, or
    where the input commits no group, since such copies are committed together only if nothing
    stands between them."""
    if pairs or not any(map(_commits_group, body.ops)):
        return [sorted(first)]
    by_op = {s.op: s.number for s in body.statements}
    part = {number: {number} for number in first}
    for number in sorted(first):
        for producer in value_producers(body.statements[number].op, by_op, set()) & first:
            joined = part[number] | part[producer]
            part.update(dict.fromkeys(joined, joined))
    return [sorted(numbers) for number, numbers in part.items() if number == min(numbers)]


def _commits_group(op: Operation) -> bool:
    row = row_of(op)
    return row.commits == "group"


def _loads(statement: Statement) -> bool:
    return any(
        not access.writes and root_of(access.memory).space == "workgroup"
        for op in walk(statement.op)
        for access in accesses(op)
    )


def _multiplies(statement: Statement) -> bool:
    return any(map(is_product, walk(statement.op)))


def default_issue(body: Body, stages: int, copies: set[int], options: IssueOptions) -> Issue:
    """What the cost model says: "spread" where that makes no step longer.

    `body` has its products as statements, `copies` are the numbers of its copies."""
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
    rest = [s.number for s in body.statements if s.number not in copies]
    order = ranks(body, copies, (), "spread", [], rest, [])
    issued = max(order[number] for number in copies)
    before = barrier + sum(cycles for number, cycles in held.items() if order[number] < issued)
    arrival = max(
        copy.latency
        for number in copies
        for copy in costs.copies_of((body.statements[number].op,), "")
    )
    late, early = ((arrival + cycles) / (stages - 1) for cycles in (before, barrier))
    return "spread" if max(step, late) <= max(step, early) else "first"
