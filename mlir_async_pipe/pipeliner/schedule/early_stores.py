"""Where loads run ahead into registers, the stores of what they loaded run an iteration ahead too.

    load i + 2; store i; barrier; read i         S = 3, all but the loads in stage 2
        -->  barrier; store i + 1; load i + 2; read i          the stores in stage 1

What is loaded is carried from iteration to iteration in registers. Carried over two of them it is
copied from one register to the next, and a copy waits for the load: the loop would be as long as
with S = 2, and have a move for each register. The buffers take a second version instead. Stores come
before loads, which can fill the same registers again.

Tried as a plan: where the buffers can have no second version, or there is no room, all stays.
"""

from __future__ import annotations

from dataclasses import replace

from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.annotations import LoopAnnotations
from mlir_async_pipe.facts.loops.statements import Body, Statement, with_producers
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.analysis import analyse
from mlir_async_pipe.pipeliner.plan.legality import check_memory, check_values
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, plan_schedule
from mlir_async_pipe.pipeliner.plan.statement_places import Place, StatementPlaces
from mlir_async_pipe.pipeliner.plan.units import Units
from mlir_async_pipe.pipeliner.schedule.decision import Decision
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError
from mlir_async_pipe.vocabulary import accesses


def with_early_stores(
    decision: Decision,
    first: set[int],
    found: LoopAnnotations,
    around: Surroundings,
    limits: Limits,
) -> Decision:
    """The decision with its stores to workgroup memory a stage before what is left, if the loop can
    be planned so; `first` are the loads and what they need."""
    body, last = decision.body, decision.last_stage
    stores = _stores(body) - first
    stores |= with_producers(body, stores) - first
    if last < 2 or not stores or any(_reads(body.statements[n]) for n in stores):
        return decision
    early = _moved(decision, stores, first, last - 1)
    if "predicate" in (found.epilogue, found.short_trip):
        return decision
    return early if _can_be_planned(early, found, around, limits) else decision


def _stores(body: Body) -> set[int]:
    return {s.number for s in body.statements if "workgroup" in _spaces(s, writes=True)}


def _reads(statement: Statement) -> bool:
    return "workgroup" in _spaces(statement, writes=False)


def _spaces(statement: Statement, *, writes: bool) -> set[str]:
    return {
        root_of(access.memory).space
        for op in walk(statement.op)
        for access in accesses(op)
        if access.writes == writes
    }


def _moved(decision: Decision, stores: set[int], first: set[int], stage: int) -> Decision:
    """The same with the stores in a stage, and before what runs ahead."""
    slots = decision.slots

    def place(number: int) -> tuple[int, int]:
        return (0 if number in stores else 1 if number in first else 2), slots[number].order

    order = {number: rank for rank, number in enumerate(sorted(range(len(slots)), key=place))}
    moved = (
        replace(slot, order=order[n], stage=stage if n in stores else slot.stage)
        for n, slot in enumerate(slots)
    )
    return replace(decision, slots=tuple(moved))


def _can_be_planned(
    decision: Decision, found: LoopAnnotations, around: Surroundings, limits: Limits
) -> bool:
    body = decision.body
    if any(statement.part for statement in body.statements):
        return False
    places = {
        s.op: Place(slot.stage, slot.order)
        for s, slot in zip(body.statements, decision.slots, strict=True)
    }
    units = Units(body, StatementPlaces(places, frozenset()))
    try:
        check_values(units)
        analysis = analyse(body, found.independent, limits.noalias_arguments, around)
        check_memory(analysis.dependences, analysis.privatisation.obstacles, units)
        plan_schedule(analysis, units, decision.wait_at, found, limits, Diagnostics())
    except PipelineError:
        return False
    return True
