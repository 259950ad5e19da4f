"""The schedule that a number of stages stands for.

    scf.for … { load A; store tile; load tile; … } {num_stages = S}

    copies from global to workgroup memory, and what they need     stage 0, async, `issue_order`
    copies whose addresses are loaded (`chain_stages`)             later stages
    everything else                                                stage S - 1

with one wait and one barrier at the top of the iteration. A loop without such copies takes its loads from global
memory ahead instead, into registers (global -> register -> whatever the loop makes of it: values travel S - 1
iterations, or S - 2 and then through a buffer, `early_stores`), and one without these its loads of fragments from
workgroup memory. `async_pipe.stage_through` asks for one of the forms.

Where loads run ahead into registers, the stores of what they loaded run an iteration ahead too.

    load i + 2; store i; barrier; read i         S = 3, all but the loads in stage 2
        -->  barrier; store i + 1; load i + 2; read i          the stores in stage 1

What is loaded is carried from iteration to iteration in registers. Carried over two of them it is
copied from one register to the next, and a copy waits for the load: the loop would be as long as
with S = 2, and have a move for each register. The buffers take a second version instead. Stores come
before loads, which can fill the same registers again.

Tried as a plan: where the buffers can have no second version, or there is no room, all stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, set_integer, walk
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import LoopAnnotations, Roles
from mlir_async_pipe.facts.loops.statements import (
    Body,
    Copies,
    Statement,
    copies_of,
    made_from,
    numbering,
    only_reads,
    read_body,
    value_producers,
    with_producers,
)
from mlir_async_pipe.facts.loops.transactions import (
    has_transactions,
    in_flight,
    products_of,
    transactions_of,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import may_meet, roots_in, touched
from mlir_async_pipe.lowering.scopes.masked_loads import NotCopies, loaded_value
from mlir_async_pipe.pipeliner.dependence.memory_dependences import analyse, are_ordered
from mlir_async_pipe.pipeliner.dependence.regions import regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.normalise.guarded_stores import not_issued
from mlir_async_pipe.pipeliner.plan.legality import ORDER_ADVICE
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, plan_places
from mlir_async_pipe.pipeliner.plan.memory_limit import register_budget, registers_of
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace
from mlir_async_pipe.pipeliner.schedule.issue_order import (
    IssueOptions,
    arrange,
    touches_tiles,
    with_products,
)
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import flag_order, is_store, opaque_of
from mlir_async_pipe.vocabulary.rows import UNORDERED


@dataclass(frozen=True)
class Decision:
    """The schedule of one loop: a slot for each statement. `else_registers`: in how many stages its
    loads may go through registers, if its buffers cannot have the versions that copies need. `roles`:
    which ones the schedule chose for it."""

    body: Body
    slots: tuple[SchedulePlace, ...]
    wait_at: Literal["consumer", "iteration"]
    else_registers: int | None = None
    roles: Roles | None = None

    @property
    def stores_run_ahead(self) -> bool:
        """Whether workgroup memory is filled before the iteration that reads it (`with_early_stores`)."""
        return any(self.slots[n].stage < self.last_stage for n in _stores(self.body))

    @property
    def last_stage(self) -> int:
        return max((slot.stage for slot in self.slots), default=0)


def write(decision: Decision) -> None:
    """Put a decision on the ops and take the arrays off the loop."""
    loop = decision.body.loop
    names.remove(loop, (names.STAGE, names.ORDER, names.ASYNC_STAGES, names.NUM_STAGES))
    names.remove(loop, (names.SCHEDULE, names.STAGE_THROUGH, names.FRAGMENTS, names.SWIZZLE))
    if decision.else_registers:
        # Where the copies are issued, loads into registers are: ISSUE stays.
        set_integer(loop, names.ELSE_REGISTERS, decision.else_registers, 64)
    else:
        names.remove(loop, (names.ISSUE, names.ELSE_REGISTERS))
    loop.attributes[names.WAIT_AT] = ir.StringAttr.get(decision.wait_at, loop.context)
    if decision.roles is not None:
        loop.attributes[names.ROLES] = ir.StringAttr.get(decision.roles, loop.context)
    # The three parts of each inner loop that is pipelined itself.
    parts: dict[Operation, list[SchedulePlace]] = {}
    for statement, slot in zip(decision.body.statements, decision.slots, strict=True):
        if statement.part:
            parts.setdefault(statement.op, []).append(slot)
            continue
        set_integer(statement.op, names.STAGE, slot.stage, 64)
        set_integer(statement.op, names.ORDER, slot.order, 64)
        if slot.asynchronous:
            statement.op.attributes[names.ASYNC] = ir.UnitAttr.get(loop.context)
    for inner, slots in parts.items():
        stages, orders = [slot.stage for slot in slots], [slot.order for slot in slots]
        inner.attributes[names.PART_STAGES] = ir.DenseI64ArrayAttr.get(stages, loop.context)
        inner.attributes[names.PART_ORDERS] = ir.DenseI64ArrayAttr.get(orders, loop.context)


def with_early_stores(
    decision: Decision,
    first: set[int],
    found: LoopAnnotations,
    around: Surroundings,
    limits: Limits,
) -> Decision:
    """The decision with its stores to workgroup memory a stage before what is left, if the loop can
    be planned so; `first` are the loads and what they need."""
    body, slots, last = decision.body, decision.slots, decision.last_stage
    stores = _stores(body) - first
    stores |= with_producers(body, stores) - first
    if (
        last < 2
        or not stores
        or any(touches_tiles(body.statements[n], writes=False) for n in stores)
        or "predicate" in (found.epilogue, found.short_trip)
        or any(statement.part for statement in body.statements)
    ):
        return decision

    def place(number: int) -> tuple[int, int]:
        return (0 if number in stores else 1 if number in first else 2), slots[number].order

    order = {number: rank for rank, number in enumerate(sorted(range(len(slots)), key=place))}
    early = tuple(
        slot._replace(order=order[n], stage=last - 1 if n in stores else slot.stage)
        for n, slot in enumerate(slots)
    )
    places = {s.op: slot for s, slot in zip(body.statements, early, strict=True)}
    try:
        analysis = analyse(body, found.independent, limits.noalias_arguments, around)
        plan_places(analysis, places, decision.wait_at, found, limits)
    except PipelineError:
        return decision
    return replace(decision, slots=early)


def _stores(body: Body) -> set[int]:
    return {s.number for s in body.statements if touches_tiles(s, writes=True)}


@dataclass(frozen=True)
class Ahead:
    """The statements that run ahead. `why` says why they are no asynchronous copies, "" if
    they are; `at` is the op that it is about, `space` the memory that they load from. `pairs` are loads and stores that make one copy."""

    statements: list[Statement]
    why: str = ""
    at: Operation | None = None
    space: str = "global"
    pairs: tuple[tuple[Operation, Operation], ...] = ()


def decide_by_count(
    body: Body,
    stages: int,
    found: LoopAnnotations,
    session: Session,
    options: IssueOptions,
    around: Surroundings,
    limits: Limits,
) -> Decision | None:
    """The schedule of a loop that carries `num_stages`; None leaves it as it is. Raises InputError:
    num-stages-too-small, conflicting-annotations, no-copies, no-consumers; of tensor copies what
    `decide_transactions` raises."""
    names.check_num_stages(stages, body.loop)
    if found.order is not None or found.async_stages is not None:
        why = f"'{names.NUM_STAGES}' makes its own order and async stages"
        raise InputError(why, code="conflicting-annotations", at=body.loop)
    tensors = has_transactions(body.loop)
    ahead = Ahead([]) if tensors else _ahead(body, found.stage_through, session)
    if stages == 1:
        session.diagnostics.remark(
            "one stage needs no pipelining; the loop stays as it is", code="one-stage", at=body.loop
        )
        return None
    if tensors:
        return decide_transactions(body, stages, found)
    running = {s.op for s in ahead.statements}
    if ahead.why:
        body = _with_users(body, ahead)
        stages = stages_in_budget(body.loop, running, stages, session)
    else:
        body = with_products(body)
    # In a body with more statements they have other numbers.
    numbers = {s.number for s in body.statements if s.op in running}
    needed = with_producers(body, numbers)
    first = _with_what_orders(body, needed)
    if len(first) == len(body.statements) > len(needed):
        raise _all_ordered(body, needed)
    if len(first) == len(body.statements):
        why = "cannot pipeline: every statement of the loop is needed by its copies, so nothing is left to overlap with them"
        raise InputError(why, code="no-consumers", at=body.loop, notes=numbering(body))
    copies = set() if ahead.why else numbers
    arranged = arrange(body, first, copies, ahead.pairs, stages, found, options, session)
    stage = arranged.stage | chain_stages(body, first, ahead.pairs, stages)
    slots = tuple(
        SchedulePlace(stage[s.number], arranged.order[s.number], s.number in copies)
        for s in body.statements
    )
    decision = Decision(body, slots, found.wait_at or "iteration")
    if not ahead.why:
        return replace(decision, else_registers=stages if found.stage_through == "auto" else None)
    decision = with_early_stores(decision, first, found, around, limits)
    stay = _stores_that_stay(body) if found.stage_through == "auto" else []
    if only_reads(ahead.statements[0], "workgroup"):
        stay += _loads_that_stay(body)
    remark_registers(decision, ahead.why, ahead.at, session, stay, ahead.space)
    return decision


def through_registers(
    loop: Operation, asked: LoopAnnotations, session: Session, around: Surroundings, limits: Limits
) -> Decision | None:
    """The schedule through registers for a loop that was to copy asynchronously; None if no loads could run ahead alone."""
    body = read_body(loop)
    if not _loads(body, "global") or asked.num_stages is None:
        return None
    quiet = Session(target=session.target)
    try:
        options = IssueOptions()
        decision = decide_by_count(body, asked.num_stages, asked, quiet, options, around, limits)
    except InputError:
        return None
    reported = quiet.diagnostics.items
    session.diagnostics.items += [entry for entry in reported if entry.code == "stages-reduced"]
    return decision


def remark_registers(
    decision: Decision,
    why: str,
    at: Any,
    session: Session,
    stay: list[tuple[str, Operation]] | None = None,
    space: str = "global",
) -> None:
    """Tell which form was taken instead of copies, and why; `stay` are ops that do not run ahead, and why not."""
    loads = "the loads of this loop" + (" from workgroup memory" if space == "workgroup" else "")
    stores = ", their stores 1 ahead" if decision.stores_run_ahead else ""
    said = f"{loads} run {decision.last_stage} iterations ahead, into registers{stores}: {why}"
    notes = (("because of this", at), *(stay or ()))
    loop = decision.body.loop
    session.diagnostics.remark(said, code="through-registers", at=loop, notes=notes)


def _ahead(body: Body, through: str, session: Session) -> Ahead:
    """What runs ahead; raises InputError (no-copies) if the loop has nothing of what is asked."""
    copies = copies_of(body) if through != "registers" else Copies([], ())
    hindered = not_issued(copies, session) if through == "auto" else None
    if copies.statements and hindered is None:
        return Ahead(copies.statements, pairs=copies.pairs)
    if hindered is not None:
        why, at = hindered
    elif through == "registers":
        why, at = f"'{names.STAGE_THROUGH}' asks for it", None
    else:
        why, at = "nothing that it loads goes to workgroup memory unchanged", None
    for space in ("global", "workgroup") if through != "async" else ():
        loads = _loads(body, space)
        if space == "workgroup" and through == "registers" and _loads_that_stay(body):
            # What fills the tiles that these loads read would run ahead in one piece with its stores.
            break
        if loads:
            return Ahead(loads, why, at if at is not None else loads[0].op, space)
    if copies.statements:
        # They run in place, which the lowering says where it finds it.
        return Ahead(copies.statements, pairs=copies.pairs)
    stay = _loads_that_stay(body)
    copied, loaded = (
        "copies nothing from global to workgroup memory",
        "has no statement that only loads",
    )
    nothing = {
        "async": copied,
        "registers": loaded + " from global memory" * bool(stay),
        "auto": f"{copied}, and {loaded}",
    }
    advice = f"give the schedule yourself with '{names.STAGE}' and '{names.ASYNC_STAGES}'"
    if any(s.op.name == "scf.for" and names.is_requested(s.op) for s in body.statements):
        advice = f"take '{names.NUM_STAGES}' off this loop: what it loads, a loop inside loads, which has its own"
    why, notes = f"cannot pipeline: the loop {nothing[through]}", (*stay, *numbering(body))
    raise InputError(why, code="no-copies", at=body.loop, notes=notes, advice=advice)


def _loads(body: Body, space: str) -> list[Statement]:
    """The statements that only load from a space; what the loop writes, too, stays where it is if there are others."""
    loads = [s for s in body.statements if only_reads(s, space)]
    if space != "global":
        return loads
    written = roots_in([body.loop], writes=True)
    return [s for s in loads if not may_meet(roots_in([s.op], writes=False), written)] or loads


def _with_users(body: Body, ahead: Ahead) -> Body:
    """What is computed from the loads becomes statements too: it must not follow the loads to
    where they are issued, and a sum that the loop carries has no statement to go with."""
    first = with_producers(body, {s.number for s in ahead.statements})
    addresses: set[Value] = set()
    for number in first:
        value_producers(body.statements[number].op, {}, addresses)
    users = made_from((result for s in ahead.statements for result in s.op.results), body.pure)
    return read_body(body.loop, [op for op in users if addresses.isdisjoint(op.results)])


def _with_what_orders(body: Body, first: set[int]) -> set[int]:
    """`first`, and what must not come later for other threads: a spin on a flag runs ahead with the copies after it."""
    if all(flag_order(op) == UNORDERED for s in body.statements for op in walk(s.op)):
        return first
    number = {s.op: s.number for s in body.statements}
    regions = regions_of(list(number), Arithmetic())

    def before(own: int) -> set[int]:
        here = [b for b in regions if number[b.top] == own]
        ordered = (a for a in regions for b in here if a.op != b.op and are_ordered(a, b))
        return with_producers(body, {number[a.top] for a in ordered})

    return reached(first, before)


def _all_ordered(body: Body, needed: set[int]) -> PipelineError:
    """Every statement has to come before the copies of later iterations."""
    # It may stand in the copies' own statement: those are looked at last.
    statements = sorted(body.statements, key=lambda s: s.number in needed)
    inside = (op for s in statements for op in walk(s.op))
    ordering = next(op for op in inside if flag_order(op) != UNORDERED)
    opaque = opaque_of(ordering)
    notes = [(f"nothing moves above an acquire or below a release: {ORDER_ADVICE}", body.loop)]
    if opaque:
        notes.insert(0, (f"'{ordering.name}' may order any memory: {opaque.why}", ordering))
    return PipelineError(
        f"cannot pipeline: '{ordering.name}' orders memory for other threads, so that the copies of "
        "the next iteration cannot be issued before this one is over",
        code="memory-order",
        at=ordering,
        notes=tuple(notes),
    )


def _loads_that_stay(body: Body) -> list[tuple[str, Operation]]:
    """Loads from global memory in statements that do more than load."""
    return [
        (f"this loads from global memory, but its statement '{top.name}' does more than that", op)
        for top in dict.fromkeys(s.op for s in body.statements)
        for op in walk(top)
        if op != top and ("read", "global") in touched(op)
    ]


def _stores_that_stay(body: Body) -> list[tuple[str, Operation]]:
    """The first store that fills workgroup memory, with what makes it no copy."""
    for op in filter(is_store, walk(body.loop)):
        found = loaded_value(op) if ("write", "workgroup") in touched(op) else None
        if isinstance(found, NotCopies):
            return [(f"this store fills workgroup memory, but {found.reason}", op)]
    return []


# Loops of tensor copies ----------------------------------------------------------------------
#
# The schedule that a number of stages stands for in a loop of tensor copies.
#
#     expect, copy, wait, use            {num_stages = S}        copies: stage 0, all else: S - 1
#
# S slots hold what S - 1 iterations copy ahead in either order. Where the products of p iterations stay in flight,
# the copies come last: the barrier before them follows the wait that leaves p, and d + p slots do. Without such
# products that would copy when all is computed, so they come first, and d + p + 1 slots do (docs/phases.md).


def decide_transactions(body: Body, stages: int, found: LoopAnnotations) -> Decision:
    """Copies in stage 0, everything else in the last one. Raises PipelineError (what `transactions_of` raises),
    InputError (no-consumers, products-in-use)."""
    copies = {copy for transaction in transactions_of(body.loop) for copy in transaction.copies}
    last = found.issue == "last" or (
        found.issue == "auto" and in_flight(products_of(body.loop), found.in_flight, body.loop) > 0
    )
    issued = [s.number for s in body.statements if s.op in copies]
    others = [s.number for s in body.statements if s.op not in copies]
    if not others:
        why = "cannot pipeline: nothing in the loop uses what it copies"
        raise InputError(why, code="no-consumers", at=body.loop, notes=numbering(body))
    order = others + issued if last else issued + others
    slots = tuple(
        SchedulePlace(0 if s.op in copies else stages - 1, order.index(s.number), s.op in copies)
        for s in body.statements
    )
    return Decision(body, slots, found.wait_at or "iteration")


# Loads whose address is loaded ---------------------------------------------------------------
#
# index of an index, index, copy, use      S = 7: stages 0, 2, 4, 6
# index, copy, use                         S = 5: stages 0, 2, 4
# copy, use                                        stages 0,    4


def chain_stages(
    body: Body, ahead: set[int], pairs: tuple[tuple[Operation, Operation], ...], stages: int
) -> dict[int, int]:
    """The stage of each statement that runs ahead: a chain of loads, each of which needs what the one before
    it loaded, shares out the S - 1 iterations evenly, so that each has the time that memory takes. The halves of
    a copy (`pairs`: load and store) are of one stage."""
    by_op = {s.op: s.number for s in body.statements}
    holder = {inner: s.number for s in body.statements for inner in walk(s.op)}
    halves = {(holder[load], holder[store]) for load, store in pairs}
    makers = {n: value_producers(body.statements[n].op, by_op, set()) & ahead for n in ahead}
    needs = {n: {producer for producer in made if producer < n} for n, made in makers.items()}

    def is_step(producer: int, user: int) -> bool:
        # Whether values of a statement come from memory.
        reads = bool(roots_in([body.statements[producer].op], writes=False))
        return reads and (producer, user) not in halves

    level: dict[int, int] = {}
    for number in sorted(ahead):
        level[number] = max((level[p] + is_step(p, number) for p in needs[number]), default=0)
    # A guard may hold the stores of several loads: all go where the latest of them does.
    for load, store in halves:
        level[load] = level[store]
    after = dict.fromkeys(ahead, 1)
    for number in sorted(ahead, reverse=True):
        for p in needs[number]:
            after[p] = max(after[p], after[number] + is_step(p, number))
    found = {n: level[n] * (stages - 1) // (level[n] + after[n]) for n in ahead}
    for load, store in halves:
        found[load] = found[store]
    return found


# What fits into registers --------------------------------------------------------------------

FEWEST = 2


def stages_in_budget(
    loop: Operation, loads: Iterable[Operation], stages: int, session: Session
) -> int:
    """The most of `stages`, 2 at least, whose loaded values fit; a remark where they are fewer. Without a chip all do."""
    chip = None if session.target is None else session.target.chip
    if chip is None or stages <= FEWEST:
        return stages
    budget = register_budget(loop, chip)
    each = registers_of((value.type for op in loads for value in op.results), ())
    carried = registers_of((value.type for value in loop.results), ())
    fitting = stages if not each else min(stages, (budget - carried) // each + 1)
    taken = max(fitting, FEWEST)
    if taken < stages:
        why = f"each iteration ahead takes {each} registers of a thread, the loop carries {carried}"
        said = f"{taken} stages instead of {stages}: {why}, and {chip.name} has {budget}"
        session.diagnostics.remark(said, code="stages-reduced", at=loop)
    return taken
