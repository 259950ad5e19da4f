"""Buffers whose slots a loop counts itself: recognised, and reduced to one slot.

    %s = arith.remui %i, %c2                       (gone)
    copy %A[%i] -> %b[%s, %t]                      copy %A[%i] -> %b[%t]
    wait, barrier                          -->     wait, barrier
    use %b[%s, %u]                                 use %b[%u]
                                                   barrier

The leading subscript of all accesses of an iteration is a slot if it moves with the iteration and is
the same in all threads, however it is computed. If every iteration overwrites what it reads, nothing
depends on which slot that is, and one is enough; the pipeliner gives it as many versions as its
schedule needs. A second slot had made the barrier at the end unnecessary: without it the copy of the
next iteration would overwrite what is still being read.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    Operation,
    OpWriter,
    Value,
    again,
    ancestors,
    before,
    defining_op,
    operations,
    unchanged,
    users,
    walk,
)
from mlir_async_pipe.chips.target import target_for
from mlir_async_pipe.facts.loops.annotations import (
    carried_attributes,
    in_latency_form,
    in_op_form,
    read_loop,
    requested_loops,
    retyped,
    static_trip_count,
)
from mlir_async_pipe.facts.loops.statements import Body, read_body
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, root_of
from mlir_async_pipe.facts.values.sums import ZERO
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.privatise import SameEachTime, unproven_read
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, by_root, regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.normalise.normalise_pass import NormaliseOptions
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, groups_of, is_barrier, row_of
from mlir_async_pipe.vocabulary.barriers import write_fence
from mlir_async_pipe.vocabulary.memory_layout import if_known, is_dense, strided_type
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS


@register(
    "async-pipe-normalise-slots",
    "take the slots off buffers whose slots a loop counts itself",
    NormaliseOptions,
)
def run(module: Any, options: NormaliseOptions, session: Session) -> None:
    """Recognise all before the first rewrite."""
    target = target_for(options, session)
    around = Surroundings(None if target is None else target.chip)
    with unchanged():
        bodies = [read_body(loop) for loop in requested_loops(module) if _is_to_run(loop, options)]
        found = [(b.loop, _recognise(b, around)) for b in bodies if _may_have_slots(b)]
    for loop, roots in found:
        for root in roots:
            _reduce_to_one(root, loop, session)


def _is_to_run(loop: Operation, options: NormaliseOptions) -> bool:
    """Whether a loop has as many iterations as its schedule, at most, keeps in flight."""
    found = read_loop(loop)
    if found.num_stages is not None:
        last = (options.num_stages or found.num_stages) - 1
        if last == 0:
            return False
    elif found.in_loop_form:
        last = max(found.stage or (), default=0)
    elif in_latency_form(loop) and not in_op_form(loop):
        last = options.max_stages - 1
    else:
        return False
    trips = static_trip_count(loop)
    return trips is None or trips >= last


# Tiles have more rows than pipelines have slots: most loops need no closer look.
MOST_SLOTS = 16


def _may_have_slots(body: Body) -> bool:
    """Whether some buffer of the loop has a leading dimension that may be one of slots."""
    written = {
        access.memory
        for statement in body.statements
        for op in walk(statement.op)
        if any(rule.kind != "read" for rule in row_of(op).accesses)
        for access in accesses(op)
        if access.writes
    }
    return any(_shape_has_slots(root) for root in map(root_of, written) if _is_ours(root))


def _is_ours(root: Root) -> bool:
    return root.is_buffer and root.kind in ("allocation", "attribution") and root.space != "global"


def _recognise(body: Body, around: Surroundings) -> list[Root]:
    """The buffers of a loop that have slots of the author's."""
    loop = body.loop
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    tops = list(dict.fromkeys(statement.op for statement in body.statements))
    regions = regions_of(tops, arithmetic, around.lanes(loop))
    if any(region.opaque for region in regions):
        return []
    found = []
    for own in by_root(regions).values():
        root = own[0].root
        assert root is not None
        if (
            _is_ours(root)
            and _shape_has_slots(root)
            and _rotate_together(own, index)
            and not any(side for side in around.touches_outside(loop, root.identity))
            and _can_lose_slot(root.value, loop)
            and _overwrites(own, root, arithmetic)
        ):
            found.append(root)
    return found


def _shape_has_slots(root: Root) -> bool:
    kind = ir.MemRefType(root.value.type)
    return bool(kind.has_static_shape and kind.rank >= 2 and 2 <= kind.shape[0] <= MOST_SLOTS)


def _rotate_together(own: list[CoveredRegion], index: LoopIndex) -> bool:
    """Whether all have one leading subscript, which moves with the iteration only."""
    if not any(region.writes for region in own):
        return False
    leading = []
    for region in own:
        if region.subscripts is None or region.extent is None or region.extent[0] != 1:
            return False
        if region.root is None or region.base != region.root.value:
            return False
        leading.append(region.subscripts[0])
    first, uniformity = leading[0], Uniformity()
    rotates = SameEachTime(index.loop).what_changes(first.symbols) is not None
    uniform = all(uniformity.difference(symbol) is None for symbol in first.symbols)
    return rotates and uniform and all(each == first for each in leading)


def _overwrites(own: list[CoveredRegion], root: Root, arithmetic: Arithmetic) -> bool:
    """Whether an iteration writes what it reads; inside of its slot, wherever that is."""
    inside = [replace(each, subscripts=(ZERO, *(each.subscripts or ())[1:])) for each in own]
    return unproven_read(root, inside, arithmetic.block_size, written_elsewhere=False) is None


def _reduce_to_one(root: Root, loop: Operation, session: Session) -> None:
    """Take the slots away. Handles to accesses of the buffer are dead afterwards."""
    slots = ir.MemRefType(root.value.type).shape[0]
    said = f"the loop counts {slots} slots of a buffer itself; they go, the pipeline makes as many as it needs"
    notes = (("the buffer", root.value),)
    session.diagnostics.remark(said, code="hand-made-slots", at=loop, notes=notes)
    _lose_slot(root.value, loop)
    *body, end = operations(loop.regions[0].blocks[0])
    barriers = [op for op in body if is_barrier(op)]
    if barriers and barriers[-1] != body[-1]:
        write_fence([root.space], before(end), loop.location)


# The buffer without its leading dimension ----------------------------------------------------

_SUBVIEW = "memref.subview"


def _can_lose_slot(buffer: Value, loop: Operation) -> bool:
    """Whether every user of a buffer can do without its leading subscript: accesses and views in the loop, deallocs."""
    return if_known(is_dense, buffer.type) is True and all(
        user.name in DEALLOCATION_OPS or _can_do_without(user, buffer, loop)
        for user in users(buffer)
    )


def _can_do_without(user: Operation, buffer: Value, loop: Operation) -> bool:
    if loop not in list(ancestors(user)):
        return False
    if user.name == _SUBVIEW:
        sizes = list(ir.DenseI64ArrayAttr(user.attributes["static_sizes"]))
        strides = list(ir.DenseI64ArrayAttr(user.attributes["static_strides"]))
        shape = list(ir.MemRefType(user.results[0].type).shape)
        return sizes[0] == 1 and strides[0] == 1 and shape == sizes[1:]
    own = [access for access in accesses(user) if access.memory == buffer]
    return bool(own) and all(a.takes_slot_index and len(a.index_operands) > 1 for a in own)


def _lose_slot(buffer: Value, loop: Operation) -> None:
    """Rewrite the buffer and all its users. Their handles are dead afterwards."""
    kind = ir.MemRefType(buffer.type)
    reduced = ir.MemRefType.get(
        list(kind.shape)[1:], kind.element_type, memory_space=kind.memory_space, loc=loop.location
    )
    old = defining_op(buffer)
    new = buffer if old is None else retyped(old, reduced)
    for user in users(buffer):
        if user.name in DEALLOCATION_OPS:
            user.operands[len(user.operands) - 1] = new
        elif user.name == _SUBVIEW:
            _rewrite_subview(user, new)
        else:
            _rewrite_access(user, buffer, new)
    if old is None:
        buffer.set_type(reduced)
    else:
        old.erase()


def _rewrite_access(op: Operation, buffer: Value, new: Value) -> None:
    own = [access for access in accesses(op) if access.memory == buffer]
    operands: list[Any] = list(op.operands)
    for access in own:
        operands[access.memory_operand] = new
    gone = {access.index_operands.start for access in own}
    attributes = carried_attributes(op)
    if "operandSegmentSizes" in attributes:
        sizes = [len(group) - len(gone.intersection(group)) for group in groups_of(op).values()]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    kept = [operand for number, operand in enumerate(operands) if number not in gone]
    again(op, kept, attributes=attributes)


def _rewrite_subview(op: Operation, new: Value) -> None:
    attributes = carried_attributes(op)
    offsets = list(ir.DenseI64ArrayAttr(attributes["static_offsets"]))
    operands = [new, *list(op.operands)[1:]]
    if offsets[0] == DYNAMIC:
        del operands[1]
        sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
        sizes[1] -= 1
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    for name in ("static_offsets", "static_sizes", "static_strides"):
        rest = list(ir.DenseI64ArrayAttr(attributes[name]))[1:]
        attributes[name] = ir.DenseI64ArrayAttr.get(rest, op.context)
    old, write = op.results[0].type, OpWriter.before(op)
    value = write.make(_SUBVIEW, operands, _view_type(op, offsets[1:]), attributes)
    if value.type != old:
        value = write.make("memref.cast", [value], old)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _view_type(op: Operation, offsets: list[int]) -> Any:
    """What a subview without the leading dimension infers as its type."""
    old = ir.MemRefType(op.results[0].type)
    source = list(ir.MemRefType(op.operands[0].type).shape)[1:]
    strides, _ = old.get_strides_and_offset()
    start: int | str = "?"
    if DYNAMIC not in offsets:
        start = sum(o * prod(source[n + 1 :]) for n, o in enumerate(offsets))
    return strided_type(old, old.shape, strides, start)
