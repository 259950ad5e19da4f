"""Which barriers of a loop of tensor copies its pipeline does without, and which order memory that no copy fills.

store %P[%t]                                          one of the loop's barriers stays
for { copy; wait; products; barrier }
load %P[127 - %t]

for { for { copy; wait; products; barrier }           none is needed: no two rounds store to one place,
      store %C[%tile, %t] }                           which the checker proves of the kernel without them
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, operations, walk
from mlir_async_pipe.checker.without_copies import are_proven_apart
from mlir_async_pipe.facts.loops.statements import Body, barriers_of
from mlir_async_pipe.facts.values.memory_roots import Space, root_of
from mlir_async_pipe.pipeliner.dependence.regions import is_opaque
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.tensor_tiles import touches_no_tensor, writes_shared
from mlir_async_pipe.vocabulary import accesses, flag_order, is_barrier, row_of, tensor_use
from mlir_async_pipe.vocabulary.rows import ALL_SPACES


def ordered_outside(
    body: Body,
    buffers: tuple[BufferPlan, ...],
    meetings: tuple[Operation, ...],
    around: Surroundings,
    noalias_arguments: bool,
    beside: tuple[Operation, ...],
    *,
    keeps_barrier: bool,
) -> frozenset[Space]:
    """The memory for which a barrier of the body, or one of its `meetings` of a cluster, may be needed although no iteration
    writes it: it is written outside of the loop, and read there or in the loop, with no other barrier in between.
    `keeps_barrier`: one between accesses before and after the loop stays whatever happens. `beside`: the other loops of tensor
    copies, which may lose their barriers, too.

        store %P[%t]; for { copy; wait; products; barrier }; load %P[127 - %t]
        store %P[%t]; for { copy; wait; barrier; load %P[127 - %t]; products }"""
    loop, planned = body.loop, {buffer.root.identity for buffer in buffers}
    found = set[Space]()
    if not keeps_barrier:
        found |= around.conflicts_across(loop, noalias_arguments=noalias_arguments)
        if found and around.once(
            loop, lambda: are_proven_apart((loop, *beside), noalias_arguments)
        ):
            found.clear()
    for access in (access for op in walk(loop) for access in accesses(op)):
        root = root_of(access.memory)
        if not access.writes and root.identity not in planned:
            sides = around.conflicts_outside(
                loop, root, writes=False, noalias_arguments=noalias_arguments
            )
            found |= sides[0] | sides[1]
    barriers = (op for op in body.synchronisation if is_barrier(op))
    fenced = set[str](ALL_SPACES if meetings else ())
    fenced.update(*(spaces(op) for op in barriers if (spaces := row_of(op).barrier)))
    return frozenset(found & fenced)


def barriers_to_drop(
    body: Body,
    buffers: tuple[BufferPlan, ...],
    copies_first: bool,
    meetings: tuple[Operation, ...],
    ordered: frozenset[Space],
) -> tuple[Operation, ...]:
    """The barriers of the body that the one before the copies replaces.

    Those that only kept the copies from the slot of the iteration before: all, where nothing in
    the loop writes memory that another thread could read, and none is needed for memory that is written outside (`ordered`).
    Else those at the end of an iteration, if the copies come there."""
    copies = {*meetings, *(region.op for buffer in buffers for region in buffer.regions)}
    found = [op for op in body.synchronisation if is_barrier(op)]
    if not ordered and not any(_may_write(op) for op in walk(body.loop) if op not in copies):
        return tuple(found)
    if copies_first:
        return ()
    order = list(body.ops)
    last = max(order.index(s.op) for s in body.statements if s.op not in copies)
    return tuple(op for op in found if order.index(op) > last)


def ends_after_barrier(
    body: Body, buffers: tuple[BufferPlan, ...], dropped: tuple[Operation, ...]
) -> bool:
    """Whether a barrier that stays comes after all that an iteration does with its tiles: it
    promises to the next iteration what a barrier before its copies would."""
    kept = [op for op in barriers_of(body) if op not in dropped and not len(op.regions)]
    order = list(operations(body.block))
    after_last = order[order.index(kept[-1]) + 1 :] if kept else order
    planned = {buffer.root.identity for buffer in buffers}
    return bool(kept) and not any(_may_use(op, planned) for top in after_last for op in walk(top))


def _may_use(op: Operation, planned: set[Any]) -> bool:
    """Products, waits and arrivals, and what may touch the tiles."""
    return bool(is_opaque(op) or row_of(op).queue) or any(
        not root.owned or root.identity in planned
        for root in (root_of(a.memory) for a in accesses(op))
        if root.kind != "argument"
    )


def _may_write(op: Operation) -> bool:
    if flag_order(op).orders or (is_opaque(op) and not touches_no_tensor(op)):
        return True
    return tensor_use(op) in ("load", "store", "alloc", "dealloc") or writes_shared(op)
