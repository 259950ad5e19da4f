"""The loops of a kernel: which need following, where paths meet, steady counters."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    constant_value,
    defining_op,
    walk,
)
from mlir_async_pipe.checker.step_graph import Flow
from mlir_async_pipe.checker.type_kinds import is_data
from mlir_async_pipe.facts.flow.ways import starts
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, COUNTED_LOOPS, REGION_ROWS
from mlir_async_pipe.vocabulary.operator_table import is_operator

# A prologue written as a loop has as many iterations as a ring has slots.
SHORT_LOOP = 16


def needs_iterations(loop: Any) -> bool:
    """Whether a loop must be followed iteration by iteration.

    It need not if all it does is to read and write memory, or to issue copies, in straight
    code, and it carries nothing but data: then its body once, with any value of the induction
    variable, says it all.
    """
    has_async = has_sync = conditions = False
    for op in walk(loop):
        flow = REGION_ROWS.get(op.name)
        if flow is not None and any(not is_data(value.type) for value in starts(op, flow)):
            return True
        if op.name in CALL_OPS:
            return True
        if len(op.regions) and op != loop and op.name not in (*COUNTED_LOOPS, "scf.if"):
            return True
        conditions = conditions or op.name == "scf.if"
        row = row_of(op)
        if row is None:
            continue
        if row.phase is not None or row.swizzled or row.descriptors:
            return True
        if row.commits or row.wait or row.barrier is not None:
            return True
        has_async = has_async or row.asynchronous(op)
        has_sync = has_sync or (bool(row.accesses) and not row.asynchronous(op))
    return has_async and (has_sync or (conditions and _is_short(loop)))


def _is_short(loop: Any) -> bool:
    """Whether a loop surely has few iterations: those are followed, conditions and all."""
    trips = REGION_ROWS[loop.name].trips(loop)
    return trips is not None and trips <= SHORT_LOOP


def find_merges(flow: Flow) -> None:
    """Mark the blocks in which paths meet: those of all iterations after a loop, too."""
    seen: set[int] = set()
    for block in flow.blocks:
        for edge in flow.edges(block):
            if edge.target in seen or any(kind != "enter" for kind, _ in edge.loops):
                flow.blocks[edge.target].merges = True
            seen.add(edge.target)


def find_inductions(flow: Flow) -> None:
    """Header arguments that every back edge sets to themselves plus one constant."""
    added: dict[tuple[int, int], set[int | None]] = {}
    handed_on = _handed_on(flow)
    for block in flow.blocks:
        for edge in flow.edges(block):
            for kind, loop in edge.loops:
                if kind == "back":
                    for target, source in edge.assigns:
                        step = _step_between(flow, target, source, handed_on)
                        added.setdefault((loop, target), set()).add(step)
    for (loop, target), steps in added.items():
        if len(steps) == 1:
            (step,) = steps
            if step is not None:
                flow.loops[loop].inductions[target] = step


def _handed_on(flow: Flow) -> dict[int, int]:
    """The block arguments that are given one value only, and which: an scf.while hands the
    values of its condition region to its body."""
    given: dict[int, set[int]] = {}
    for block in flow.blocks:
        for edge in flow.edges(block):
            for target, source in edge.assigns:
                given.setdefault(target, set()).add(source)
    return {target: next(iter(s)) for target, s in given.items() if len(s) == 1}


def _step_between(flow: Flow, target: int, source: int, handed_on: dict[int, int]) -> int | None:
    """c if source = target + c, else None."""
    frame, value = flow.values[_origin(source, handed_on, target)]
    op = defining_op(value)
    if op is None or not is_operator(op.name, "add"):
        return None
    for argument, other in (op.operands, reversed(list(op.operands))):
        if _origin(flow.number(frame, argument), handed_on, target) == target:
            return constant_value(other)
    return None


def _origin(number: int, handed_on: dict[int, int], target: int) -> int:
    """What a value is before block arguments hand it on, as far back as `target`."""
    seen = set()
    while number != target and number in handed_on and number not in seen:
        seen.add(number)
        number = handed_on[number]
    return number
