"""The tiles of a loop of tensor copies: whether each iteration may have one of its own, and whether it may be
copied before what the input does before it.

It may where nobody but the loop touches the buffer, and the loop only reads what it copies. Then
nothing is left of a tile when its products are over, and V slots take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    ancestors,
    defining_op,
    enclosing,
    operations,
    remembered,
    walk,
)
from mlir_async_pipe.facts.loops.annotations import INDEPENDENT
from mlir_async_pipe.facts.loops.statements import Body, barriers_of
from mlir_async_pipe.facts.loops.transactions import Transaction
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, is_pointer, overlapping_windows, root_of
from mlir_async_pipe.lowering.nvvm.shared_memory import asked_of, tensor_alignments
from mlir_async_pipe.pipeliner.dependence.regions import (
    CoveredRegion,
    by_root,
    is_opaque,
    regions_of,
)
from mlir_async_pipe.pipeliner.plan.buffer_plan import (
    BufferPlan,
    Pairs,
    buffer_type,
    buffer_value,
    can_move,
    slot_bytes,
)
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import (
    VIEW_OPS,
    accesses,
    flag_order,
    is_barrier,
    row_of,
    tensor_use,
    use_of,
)
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, is_dense
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, DEALLOCATION_OPS, is_set
from mlir_async_pipe.vocabulary.rows import BULK_STORE

_KINDS = ("allocation", "attribution", "global", "dynamic")


def ring_buffers(
    body: Body,
    transactions: tuple[Transaction, ...],
    versions: int,
    sharing: tuple[Operation, ...] = (),
) -> tuple[BufferPlan, ...]:
    """The buffers that the copies fill, with V versions each; `sharing` are the other loops of the
    same ring.

    Raises PipelineError (buffer-not-versionable, not-privatisable, escapes)."""
    function = enclosing(body.loop, FUNCTION_OPS)
    assert function is not None
    copies = [copy for transaction in transactions for copy in transaction.copies]
    filled = [region for region in regions_of(copies, Arithmetic()) if region.writes]
    made = tile_buffers(filled, function, versions)
    for buffer in made:
        _check_users(buffer.root, function, (body.loop, *sharing), copies)
    return made


def tile_buffers(
    regions: list[CoveredRegion], function: Operation, versions: int
) -> tuple[BufferPlan, ...]:
    """The buffers that tensor copies fill, or read, with so many versions each.

    Raises PipelineError (buffer-not-versionable)."""
    asked = tensor_alignments(function)
    buffers = []
    for found in map(tuple, by_root(map(_of_window, regions)).values()):
        root = found[0].root
        assert root is not None
        _check_memory(root, found)
        period = asked_of(root.key, asked) // element_bytes(buffer_type(found))
        own = tuple(replace(region, period=max(1, period)) for region in found)
        none: Pairs = frozenset()
        buffers.append(BufferPlan(root, own, versions, slot_bytes(own), False, none, none))
    return tuple(buffers)


def _of_window(region: CoveredRegion) -> CoveredRegion:
    """A region of dynamic shared memory as one of the window that it lies in."""
    if region.root is None or region.root.kind != "dynamic" or region.access is None:
        return region
    memory = region.access.memory
    while (op := defining_op(memory)) is not None and op.name in VIEW_OPS:
        if root_of(op.operands[0]).offset is None:
            return replace(region, base=memory)
        memory = op.operands[0]
    return replace(region, base=region.access.memory)


def _check_memory(root: Root, found: tuple[CoveredRegion, ...]) -> None:
    named = root.kind in _KINDS and not is_pointer(buffer_value(found))
    kind = buffer_type(found) if named else None
    if root.kind == "dynamic" and (root.offset is None or overlapping_windows(found[0].op, root)):
        kind = None
    if kind is None or root.space != "workgroup" or not kind.has_static_shape or not is_dense(kind):
        raise PipelineError(
            f"cannot pipeline: the tiles that go to {root} need slots, and it is no dense buffer "
            "in workgroup memory of static shape",
            code="buffer-not-versionable",
            at=found[0].op,
            advice="make it a workgroup attribution, an allocation or a memref.global",
        )


def _check_users(
    root: Root, function: Operation, loops: tuple[Operation, ...], copies: list[Operation]
) -> None:
    """Every op of the function that names the buffer is in the loop, and can show a slot of it; or
    in a loop of the same ring, of which that is asked too."""
    loop, sharing = loops[0], set(loops[1:])
    for op in users_of_memory(function).get(root.identity, ()):
        above = list(ancestors(op))
        if loop not in above:
            if op.name in DEALLOCATION_OPS or not sharing.isdisjoint(above):
                continue
            raise PipelineError(
                f"cannot pipeline: {root} gets a tile an iteration, and '{op.name}' outside of the "
                "loop uses it too",
                code="not-privatisable",
                at=op,
                notes=(("the loop", loop),),
                advice="give the loop a buffer of its own, and make views of it inside of the loop",
            )
        if op not in copies and any(a.writes for a in accesses(op)):
            raise PipelineError(
                f"cannot pipeline: '{op.name}' writes to {root}, which tensor copies fill",
                code="not-privatisable",
                at=op,
                advice="write to another buffer",
            )
        if not shows_slots(op):
            raise PipelineError(
                f"cannot pipeline: {root} gets slots, and '{op.name}' names it in a way that cannot "
                "take one",
                code="escapes",
                at=op,
            )


@remembered
def users_of_memory(root: Operation) -> dict[Any, list[Operation]]:
    """The ops of `root` of which an operand is a buffer or a view of it, by its identity."""
    found: dict[Any, list[Operation]] = {}
    for op in walk(root):
        for identity in {root_of(value).identity for value in op.operands if _is_memory(value)}:
            found.setdefault(identity, []).append(op)
    return found


def shows_slots(op: Operation) -> bool:
    """Whether an op that names a buffer can name one slot of it instead."""
    if op.name in VIEW_OPS:
        return can_move(op)
    row = row_of(op)
    return op.name in ADDRESS_OPS or (bool(row.accesses) or bool(row.swizzled))


def _is_memory(value: Any) -> bool:
    return str(value.type).startswith("memref<")


def barriers_to_drop(
    body: Body,
    buffers: tuple[BufferPlan, ...],
    copies_first: bool,
    meetings: tuple[Operation, ...] = (),
) -> tuple[Operation, ...]:
    """The barriers of the body that the one before the copies replaces.

    Those that only kept the copies from the slot of the iteration before: all, where nothing in
    the loop writes memory that another thread could read. Else those at the end of an iteration,
    if the copies come there."""
    copies = {region.op for buffer in buffers for region in buffer.regions}
    found = [op for op in body.synchronisation if is_barrier(op)]
    copies.update(meetings)
    if not any(_may_write(op) for op in walk(body.loop) if op not in copies):
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
    row = row_of(op)
    if is_opaque(op):
        return True
    if row.queue:
        return True
    return any(
        not root.owned or root.identity in planned
        for root in (root_of(a.memory) for a in accesses(op))
        if root.kind != "argument"
    )


def _may_write(op: Operation) -> bool:
    if flag_order(op).orders or (is_opaque(op) and not touches_no_tensor(op)):
        return True
    if tensor_use(op) in ("load", "store", "alloc", "dealloc"):
        return True
    return any(a.writes and root_of(a.memory).space != "private" for a in accesses(op))


# What copies read ----------------------------------------------------------------------------
#
# Whether tensor copies may be issued before what the input does before them: that must not write
# what they read.
#
#     store %A                       warps of their own do not wait for it: apart, whatever is asserted
#     scf.for %tile = … {
#       scf.for %k = … {
#         store %B                   before the copy of its own iteration: apart
#         copy %A; store %C          S - 1 iterations ahead: apart, or independent
#       }
#       store %C                     with warps of their own: apart, or both loops independent
#     }
#
# Which tensor a map describes is not to be seen, so only memory that no other pointer reaches is
# apart: not global memory, or an argument with `llvm.noalias`.


@dataclass(frozen=True)
class _Overtaken:
    """`ops` come before copies of later iterations of `loops`, outermost first, or, where there are
    none, before those of the same iteration: of that no loop's independence says anything."""

    ops: list[Operation]
    loops: tuple[Operation, ...]

    @property
    def vouched(self) -> bool:
        """Whether the author says that no two iterations meet."""
        return bool(self.loops) and all(is_set(loop.attributes, INDEPENDENT) for loop in self.loops)


def check_independent(
    loop: Operation,
    outer: tuple[Operation, ...],
    ready: tuple[Operation, ...],
    transactions: tuple[Transaction, ...],
    noalias_arguments: bool,
    meetings: tuple[Operation, ...] = (),
    by_others: str = "",
) -> None:
    """Nothing that copies overtake writes what they read; `outer` are the ops between the mbarriers,
    of which the last of `ready` are the initialisation, and the loop; `by_others`: which
    others copy than the threads that run the loop, if some do. Of a loop without writes `meetings` of the cluster order nothing.
    Raises PipelineError (unproven-independence)."""
    copies = [copy for transaction in transactions for copy in transaction.copies]
    parts = _overtaken(loop, outer, ready, copies) if by_others else _inside(loop, (loop,), copies)
    for part in parts:
        for op in (op for top in part.ops for op in _ordering(top)):
            if op not in meetings:
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' orders memory for other threads, and a tensor "
                    "copy of a later iteration would run before it",
                    code="memory-order",
                    at=op,
                    notes=(("the copy", transactions[0].copies[0]),),
                )
        if part.vouched:
            continue
        for op in (op for top in part.ops for op in _writers(top)):
            if op not in meetings and _may_write_tensor(op, noalias_arguments):
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' may write what a tensor copy "
                    + ("of a later iteration reads" if part.loops else "after it reads")
                    + (f", which {by_others} do not order" if by_others else ""),
                    code="unproven-independence",
                    at=op,
                    notes=(("the copy", transactions[0].copies[0]),),
                    advice=_advice(part, loop),
                )


def _overtaken(
    loop: Operation,
    outer: tuple[Operation, ...],
    ready: tuple[Operation, ...],
    copies: list[Operation],
) -> Iterator[_Overtaken]:
    """What warps that only copy may be ahead of: all that comes before the loop, and, in a loop
    around, all that comes after it, too."""
    before = list(operations((*outer, loop)[0].block))
    first = max((before.index(op) + 1 for op in ready if op in before), default=0)
    before = before[first:]
    loops: tuple[Operation, ...] = ()
    above = [op.block for op in (*outer, loop)]
    for holder in (*outer, loop):
        place = before.index(holder)
        yield _Overtaken(before[:place], ())
        if loops:
            yield _Overtaken(before[place + 1 :], loops)
        if holder.name == "scf.for":
            loops = (*loops, holder)
        if holder == loop:
            break
        for block in (block for region in holder.regions for block in region.blocks):
            if block in above:
                before = operations(block)
            elif loops:
                yield _Overtaken(operations(block), loops)
    yield from _inside(loop, loops, copies)


def _inside(
    loop: Operation, loops: tuple[Operation, ...], copies: list[Operation]
) -> Iterator[_Overtaken]:
    """What copies are ahead of in their loop: what comes before one of them in its iteration, too."""
    body = list(operations(loop.regions[0].blocks[0]))
    copying = {op for copy in copies for op in (copy, *ancestors(copy))}
    last = max(number for number, op in enumerate(body) if op in copying)
    yield _Overtaken(body[: last + 1], ())
    yield _Overtaken([loop], loops)


@remembered
def _ordering(top: Operation) -> list[Operation]:
    """What nothing moves above, of an op and all in it."""
    return [op for op in walk(top) if flag_order(op).acquire]


@remembered
def _writers(top: Operation) -> list[Operation]:
    """What may write some map's tensor, of an op and all in it: of loops in a row each is asked for all
    before it."""
    return [op for op in walk(top) if _may_write_tensor(op, False)]


def _may_write_tensor(op: Operation, noalias_arguments: bool) -> bool:
    """Whether it may write what a tensor map describes."""
    written = [root_of(a.memory) for a in accesses(op) if a.writes]
    harmless = noalias_arguments or all(r.space != "global" or r.noalias for r in written)
    return not harmless or _stores_tensor(op) or (is_opaque(op) and not touches_no_tensor(op))


def _stores_tensor(op: Operation) -> bool:
    row = row_of(op)
    return row.queue == BULK_STORE and bool(row.swizzled)


def touches_no_tensor(op: Operation) -> bool:
    """Ops that no row describes, and that leave global memory alone."""
    return use_of(op) is not None or tensor_use(op) is not None


def _advice(part: _Overtaken, loop: Operation) -> str:
    if not part.loops:
        return (
            "write it after the copies, or through an argument with `llvm.noalias` that no tensor map "
            "describes"
        )
    if part.loops == (loop,):
        return f"assert `{INDEPENDENT}` on this loop if they never overlap"
    return f"assert `{INDEPENDENT}` on each loop around this op if they never overlap"
