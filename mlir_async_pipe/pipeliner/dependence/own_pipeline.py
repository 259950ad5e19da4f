"""Loops with a pipeline of their own: they go on with what is issued before them.

    copy A[0] -> %b[0]; %g = group                 the prologue's copy
    scf.for … iter_args(%t = %g) {
      wait %t                                      of the iteration before, or of the prologue
      copy A[i + 1] -> %b[(i + 1) mod 2]; group    of the next iteration
      use %b[i mod 2]                              what the iteration before copied

Pipelining such a loop once more would delay copies that are early already; where they cannot be
proven to fit, the error says that rather than which two accesses stand in each other's way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    defining_op,
    is_block_argument,
    parent,
    type_text,
    users,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.region_flow import OUT, successors, targets
from mlir_async_pipe.facts.values.memory_roots import Root, root_of
from mlir_async_pipe.session.diagnostics import AsyncPipeError, PipelineError
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS, SCOPE, UNKNOWN
from mlir_async_pipe.waits.count import TOKEN_TYPE

if TYPE_CHECKING:
    # The expander asks this module why it has to refuse a loop.
    from mlir_async_pipe.pipeliner.dependence.surroundings import RootAccess, Surroundings

# What a schedule is refused with where it does not fit the accesses.
_MISFITS = frozenset(
    "dependence-violated unproven-independence not-privatisable escapes no-consumers no-copies "
    "wait-before-commit".split()
)


@dataclass(frozen=True)
class OwnPipeline:
    """What makes a loop a pipeline: `prologue` is issued before it, `goes_on` in it."""

    prologue: Operation
    goes_on: Operation


def own_pipeline(loop: Operation, around: Surroundings) -> OwnPipeline | None:
    """The pipeline that a loop is already, None if every iteration stands for itself."""
    return _by_tokens(loop) or _by_copies(loop, around)


def _by_tokens(loop: Operation) -> OwnPipeline | None:
    """A wait of the loop on a group of the iteration before, or of the prologue."""
    arguments = list(loop.regions[0].blocks[0].arguments)[1:]
    for argument, initial in zip(arguments, list(loop.operands)[3:], strict=True):
        if type_text(argument.type) != TOKEN_TYPE:
            continue
        waits = [user for user in users(argument) if _waits(user)]
        group = defining_op(initial)
        if group is not None and (waits or not users(argument)):
            return OwnPipeline(group, waits[0] if waits else loop)
    return None


def _by_copies(loop: Operation, around: Surroundings) -> OwnPipeline | None:
    """A copy whose control goes on to the loop, to a buffer that the loop copies to and reads from."""
    touching = [(op, access) for op in walk(loop) for access in accesses(op)]
    read = {r.identity for _, a in touching if not a.writes for r in _roots(a.memory, loop)}
    for op, access in touching:
        if not access.writes or not _in_flight(op, access.asynchronous):
            continue
        for root in _roots(access.memory, loop):
            if root.space == "global" or root.identity not in read:
                continue
            before, _ = around.touches_outside(loop, root.identity)
            copies = [touch for touch in before if _is_copy_ahead(touch)]
            reading = _loops_that_read(before, loop) if copies else set()
            ahead = (
                touch
                for touch in copies
                if not _is_of(touch, reading, loop) and _may_precede(touch.op, loop)
            )
            prologue = next(ahead, None)
            if prologue is not None:
                return OwnPipeline(prologue.op, op)
    return None


def _roots(memory: Value, loop: Operation) -> list[Root]:
    """What an access of the loop may touch; of buffers that it carries each that comes in."""
    root = root_of(memory)
    if root.kind != "unknown" or not is_block_argument(root.value):
        return [root]
    if ir.BlockArgument(root.value).owner.owner.operation != loop:
        return [root]
    return [root_of(v) for v in list(loop.operands)[3:] if type_text(v.type).startswith("memref<")]


def _is_copy_ahead(touch: RootAccess) -> bool:
    asynchronous = any(access.asynchronous for access in accesses(touch.op))
    return touch.writes and _in_flight(touch.op, asynchronous)


def _loops_that_read(before: list[RootAccess], loop: Operation) -> set[Operation]:
    return {
        each
        for touch in before
        if touch.reads
        for each in ancestors(touch.op)
        if each.name == loop.name
    }


def _is_of(copy: RootAccess, reading: set[Operation], loop: Operation) -> bool:
    """Whether another loop copies and reads: what it copies is its own, and no prologue of this one, for
    which a loop of copies alone may stand."""
    around = [loop, *ancestors(loop)]
    others = [each for each in ancestors(copy.op) if each.name == loop.name and each not in around]
    return bool(others) and others[-1] in reading


def _may_precede(op: Operation, loop: Operation) -> bool:
    """Whether control may go on from `op`, which stands before the loop, to the loop: from a branch it
    does not go to another one."""
    path = {parent(each): each for each in (loop, *ancestors(loop))}
    for first in (op, *ancestors(op)):
        holder = parent(first)
        if holder not in path or holder is None:
            continue
        second = path[holder]
        if first.block == second.block:
            return True
        start, end = (_region_number(holder, each) for each in (first, second))
        if start == end:
            return second.block in reached([first.block], successors)
        return end in reached([start], _regions_after(holder))
    return False


def _region_number(holder: Operation, op: Operation) -> int:
    return next(n for n, region in enumerate(holder.regions) if op.block in list(region.blocks))


def _regions_after(holder: Operation) -> Callable[[int], list[int]]:
    row, count = REGION_ROWS.get(holder.name, UNKNOWN), len(holder.regions)
    return lambda place: [to for to in targets(row, place, count) if to != OUT]


def _in_flight(op: Operation, asynchronous: bool) -> bool:
    """Whether an access is part of an async copy: by itself, or inside a scope."""
    return asynchronous or any(above.name == SCOPE for above in ancestors(op))


def _waits(op: Operation) -> bool:
    row = row_of(op)
    return row.wait is not None


def refusal(error: AsyncPipeError, loop: Operation, around: Surroundings) -> AsyncPipeError:
    """What to raise where a loop cannot be scheduled: `error`, or what lies behind it."""
    found = own_pipeline(loop, around) if error.code in _MISFITS else None
    if found is None:
        return error
    return PipelineError(
        f"cannot pipeline: the loop goes on with '{found.prologue.name}' before it, so it "
        "is pipelined already",
        code="already-pipelined",
        at=loop,
        notes=(
            ("the prologue that it has", found.prologue),
            ("what goes on with it", found.goes_on),
            (f"taken as a loop of its own: {error.diagnostic.message}", error.diagnostic.place),
        ),
        advice="take the annotation away and make its waits exact (async-pipe-tokens{relax}, "
        "async-pipe-count-waits), or take its prologue away and copy in each iteration what "
        "that iteration uses",
    )
