"""The net under the graph: what stands where no path that is followed comes.

    "my.region"() ({ copy to %b; load %b })     in which order, how often, by whom?
    "my.jump"()[^next]                          ^next is in no path

An op whose control flow is in no row of the vocabulary is reported itself; so is every op that issues, commits, waits,
is a barrier or touches memory and does not stand in a block to which some path leads, unless a path leads to no such
block in the IR either. Code of the target that the IR does not show (inline assembly, calls of intrinsics) may be a
copy, a wait or a barrier itself, so it is reported wherever it stands. All are `unknown`, reason
`unfollowed-control-flow`. So is a copy of which no row says what it touches or who waits for it, reason
`unfollowed-copy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlir_async_pipe.bindings.raw_ops import KERNEL_OPS, ancestors, operations, walk, walk_named
from mlir_async_pipe.checker.selection import Callees, callee_of
from mlir_async_pipe.checker.step_graph import Bracket, Flow, Lost, Run
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.region_flow import successors
from mlir_async_pipe.facts.values.memory_roots import space_of
from mlir_async_pipe.vocabulary import Row, accesses, is_unseen_copy, named_row, row_of
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    REGION_ROWS,
    leaves_region,
)
from mlir_async_pipe.vocabulary.pure_ops import OPAQUE_CODE, is_opaque_code

REASON = "unfollowed-control-flow"
COPY_REASON = "unfollowed-copy"


def is_quiet(op: Any) -> bool:
    """Whether nothing inside an op's regions matters to the checker: the arithmetic of a
    linalg.generic, of an atomic op."""
    return len(op.regions) > 0 and all(_is_silent(inner) for inner in walk(op) if inner != op)


def _is_silent(op: Any) -> bool:
    row = row_of(op)
    if row.described:
        return False
    if row.pure:
        return len(op.regions) == 0
    return leaves_region(op) or op.name in BRANCH_ROWS or op.name in REGION_ROWS


def unfollowed(kernel: Any, flow: Flow, callees: Callees) -> list[Any]:
    """The ops of a kernel, and of the functions that it calls, that no path comes to, and those
    that nobody can look into."""
    followed = _followed(flow)
    missing = list(_noisy(kernel, followed))
    calls = {step.op for step in flow.steps() if isinstance(step, Bracket) and step.kind == "call"}
    bodies = dict.fromkeys(callee_of(call, callees) for call in calls)
    for body in bodies:
        missing += _noisy(body, followed)
    if not missing:
        return []
    possible: set[Any] = set()
    for function in (kernel, *bodies):
        possible |= set(_possible(function.regions[0]))
    return [op for op in dict.fromkeys(missing) if op in possible]


def _followed(flow: Flow) -> set[Any]:
    """The ops in blocks to which edges lead."""
    return {
        step.op
        for number in reached([0], flow.after)
        for step in flow.blocks[number].steps
        if isinstance(step, Lost | Bracket) or (isinstance(step, Run) and not step.makes_values)
    }


def lost_steps(flow: Flow) -> Iterator[Lost]:
    """The ops of a graph that move control as no row says, whether paths come to them or not."""
    return (step for step in flow.steps() if isinstance(step, Lost))


def _noisy(kernel: Any, followed: set[Any]) -> Iterator[Any]:
    """The ops of a kernel that it matters to follow, and that are not or cannot be looked into."""
    names = (*CALL_OPS, *OPAQUE_CODE)
    for op in walk_named(kernel, lambda name: named_row(name).described or name in names):
        if is_opaque_code(op) or is_unseen_copy(op):
            yield op
        elif op not in followed:
            row = row_of(op)
            called = op.name in CALL_OPS and not row.pure
            if called or _matters(op, row):
                yield op


def reason_of(op: Any) -> str:
    """Why nothing is reported of an op that is not followed."""
    return COPY_REASON if is_unseen_copy(op) else REASON


def _matters(op: Any, row: Row) -> bool:
    if row.asynchronous(op) or row.commits or row.wait or row.barrier is not None:
        return True
    return any(space_of(access.memory) != "private" for access in accesses(op))


def _possible(region: Any) -> Iterator[Any]:
    """The ops of a region that control may come to: nothing leads to the others."""
    for block in reached(list(region.blocks)[:1], successors):
        for op in operations(block):
            yield op
            row = REGION_ROWS.get(op.name)
            if row is None or row.flow != "isolated":
                for inner in op.regions:
                    yield from _possible(inner)


def homeless(module: Any) -> Iterable[Any]:
    """The async ops, commits, waits and barriers that stand in no function and no launch."""
    outside = walk_named(
        module, lambda name: named_row(name).described or name in KERNEL_OPS, inside=False
    )
    for op in (inner for found in outside if found.name not in KERNEL_OPS for inner in walk(found)):
        row = row_of(op)
        if not (row.asynchronous(op) or row.commits or row.wait or row.barrier):
            continue
        if not any(above.name in KERNEL_OPS for above in ancestors(op)):
            yield op
