"""Gives a buffer its versions: memory with a slot dimension in front.

    memref.alloc : memref<128x32xf16>    -->     memref.alloc : memref<3x128x32xf16>
                                                 memref.subview %b[0, 0, 0] [1, 128, 32]

    llvm.mlir.global @s : array<512 x i8>    -->     llvm.mlir.global @s_versions : array<1536 x i8>

Users outside the loop (and the loop's own copy for short trips) see slot 0 under the old
type. The distance of two slots keeps every access aligned: a 40-byte buffer with 16-byte
accesses gets slots of 48 bytes, by padding its outermost dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    FUNCTION_OPS,
    Operation,
    OpWriter,
    Value,
    after,
    again,
    before,
    create,
    enclosing,
    grow_group,
    integer_attribute,
    is_used,
    operations,
    remap,
    retype,
    set_integer,
    source_op,
    symbol_name,
    users,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import address_of, fresh_name
from mlir_async_pipe.facts.loops.annotations import (
    DYNAMIC_SHARED_BYTES,
    carried_attributes,
    retyped,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.memory_roots import end_of_windows, is_pointer, root_of
from mlir_async_pipe.pipeliner.dependence.privatise import find_global
from mlir_async_pipe.pipeliner.plan.buffer_plan import (
    REINTERPRET,
    WIDEST,
    BufferPlan,
    buffer_type,
    buffer_value,
    is_movable,
    slot_bytes,
    slot_shape,
)
from mlir_async_pipe.vocabulary import Access, accesses, groups_of, row_of
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, strided_type
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OPS,
    GLOBAL_OPS,
    POINTER_OF_ADDRESS,
    global_name,
)
from mlir_async_pipe.vocabulary.operator_table import is_operator


@dataclass(frozen=True)
class VersionedBuffer:
    """A buffer whose memory has been replaced: `value` has the slot dimension in front,
    `slot_zero` is its first slot under the old type."""

    plan: BufferPlan
    value: Value
    shape: tuple[int, ...]
    slot_zero: Value


class Rooms:
    """The memory of all versioned buffers of one round of loops.

    Loops of one function that version the same buffer share its versions: each begins when the
    contents of the one before it are dead, or lie in slot 0 alone."""

    def __init__(self, plans: list[tuple[Operation, tuple[BufferPlan, ...]]]) -> None:
        """Make room for the buffers of each loop, as many versions as any of its loops needs.

        Windows of dynamic shared memory that grow are laid out anew after those that stay."""
        self._rooms: dict[Any, VersionedBuffer] = {}
        functions: dict[Any, list[tuple[Operation, BufferPlan]]] = {}
        for loop, buffers in plans:
            versioned = [(loop, buffer) for buffer in buffers if buffer.versions > 1]
            functions.setdefault(_body_of_function(loop), []).extend(versioned)
        for body, wanted in functions.items():
            for buffer in _allocate_in_function(wanted):
                self._rooms[body, buffer.plan.root.identity] = buffer

    def of(self, loop: Operation, plans: Iterable[BufferPlan]) -> list[VersionedBuffer]:
        body = _body_of_function(loop)
        return [
            replace(self._rooms[body, plan.root.identity], plan=plan)
            for plan in plans
            if plan.versions > 1
        ]

    def close(self, module: Any) -> None:
        """When all loops are written: erase what nobody uses any more."""
        for buffer in self._rooms.values():
            _simplify_view(buffer.slot_zero)
        roots = [buffer.plan.root for buffer in self._rooms.values()]
        _drop_unused_globals({root.key for root in roots if root.kind == "global"}, module)


def _body_of_function(loop: Operation) -> Any:
    """The block that stands for the function: blocks can be distinguished over edits."""
    function = enclosing(loop, FUNCTION_OPS)
    return loop.block if function is None else function.regions[0].blocks[0]


def _allocate_in_function(wanted: list[tuple[Operation, BufferPlan]]) -> list[VersionedBuffer]:
    of_buffers: dict[Any, list[tuple[Operation, BufferPlan]]] = {}
    for loop, plan in wanted:
        of_buffers.setdefault(plan.root.identity, []).append((loop, plan))
    start = 0
    if any(plan.root.kind == "dynamic" for _, plan in wanted):
        function = enclosing(wanted[0][0], FUNCTION_OPS)
        assert function is not None
        start = end_of_windows(function, frozenset(of_buffers))
    made = []
    for entries in of_buffers.values():
        (loop, plan), *others = entries
        if others:
            # Room for the versions of all loops, with slots for the accesses of each.
            regions = tuple(region for _, each in entries for region in each.regions)
            versions = max(each.versions for _, each in entries)
            plan = replace(plan, regions=regions, versions=versions, slot_bytes=slot_bytes(regions))
        if plan.root.kind == "dynamic":
            # The first slot begins where the others do: at a period of the layout.
            period = max(region.period for region in plan.regions)
            unit = max(WIDEST, period * element_bytes(buffer_type(plan.regions)))
            start = -(-start // unit) * unit
        made.append(_allocate(plan, loop, start))
        if plan.root.kind == "dynamic":
            start += plan.versions * plan.slot_bytes
    return made


def _allocate(plan: BufferPlan, loop: Operation, window: int) -> VersionedBuffer:
    """Make room for one buffer's versions, and let every present user see slot 0 of it.

    The accesses of the pipelined loop are moved to their slots afterwards.
    """
    old = buffer_value(plan.regions)
    if is_pointer(old):
        return _widen_llvm_global(plan, old, loop)
    kind = ir.MemRefType(old.type)
    versioned = ir.MemRefType.get(
        [plan.versions, *slot_shape(plan.regions)],
        kind.element_type,
        memory_space=kind.memory_space,
        loc=loop.location,
    )
    if plan.root.kind == "attribution":
        # The block argument itself changes its type.
        ip = before(operations(ir.BlockArgument(old).owner)[0])
        view = retype(old, versioned, lambda: slot_zero(old, kind, ip))
        return VersionedBuffer(plan, old, tuple(kind.shape), view)
    if plan.root.kind == "global":
        ip, name = _declare_versions(plan, {"type": ir.TypeAttr.get(versioned, loop.context)}, loop)
        new = address_of(name, versioned, ip, loop.location)
        view = slot_zero(new, kind, ip)
        _replace_addresses(plan, loop, view)
        return VersionedBuffer(plan, new, tuple(kind.shape), view)
    made = source_op(old)
    dynamic = plan.root.kind == "dynamic"
    new = _new_window(made, versioned, window) if dynamic else retyped(made, versioned)
    view = slot_zero(new, kind, after(source_op(new)))
    old.replace_all_uses_with(view)
    made.erase()
    return VersionedBuffer(plan, new, tuple(kind.shape), view)


def _replace_addresses(plan: BufferPlan, loop: Operation, view: Value) -> None:
    """Let the function around a loop have a view for the address of a global."""
    for op in walk(enclosing(loop, FUNCTION_OPS) or loop):
        if global_name(op) == plan.root.key:
            op.results[0].replace_all_uses_with(view)


def _widen_llvm_global(plan: BufferPlan, old: Value, loop: Operation) -> VersionedBuffer:
    """Bytes for all versions: a pointer to them is one to slot 0."""
    context = loop.context
    kind = ir.Type.parse(f"!llvm.array<{plan.versions * plan.slot_bytes} x i8>", context)
    ip, name = _declare_versions(plan, {"global_type": ir.TypeAttr.get(kind, context)}, loop)
    named = {"global_name": ir.FlatSymbolRefAttr.get(name, context)}
    new = OpWriter(ip, loop.location).make("llvm.mlir.addressof", (), old.type, named)
    _replace_addresses(plan, loop, new)
    return VersionedBuffer(plan, new, (), new)


def _new_window(view: Operation, versioned: Any, start: int) -> Value:
    """A window of dynamic shared memory from byte `start` on; what the function needs grows."""
    function = enclosing(view, FUNCTION_OPS)
    assert function is not None
    write = IntegerWriter.before(view)
    made = write.make("memref.view", [view.operands[0], write.constant(start)], versioned)
    size = prod(versioned.shape) * element_bytes(versioned)
    needed = max(start + size, integer_attribute(function, DYNAMIC_SHARED_BYTES) or 0)
    set_integer(function, DYNAMIC_SHARED_BYTES, needed, 64)
    return made


def versions_of(name: str) -> str:
    return f"{name}_versions"


def _declare_versions(plan: BufferPlan, kind: dict[str, Any], loop: Operation) -> tuple[Any, str]:
    """Declare a global like the buffer's, but for its type; returns where the function around the loop begins,
    and the name."""
    declared = find_global(plan.root)
    assert declared is not None
    context = declared.context
    name = fresh_name(declared.parent.operation, versions_of(plan.root.key))
    attributes = {
        **carried_attributes(declared),
        **kind,
        "sym_name": ir.StringAttr.get(name, context),
    }
    if "global_type" in kind:
        alignment = max(WIDEST, integer_attribute(declared, "alignment") or 1)
        i64 = ir.IntegerType.get_signless(64, context)
        attributes["alignment"] = ir.IntegerAttr.get(i64, alignment)
    regions = len(declared.regions)
    ip, loc = before(declared), declared.location
    create(declared.name, (), (), attributes, regions=regions, ip=ip, loc=loc)
    return before(operations(_body_of_function(loop))[0]), name


def slot_zero(value: Value, kind: Any, ip: Any) -> Value:
    """Slot 0 under the old type: its offset is 0, so the dense layout fits."""
    write = OpWriter(ip, ir.Location.unknown(kind.context))
    return write.make("memref.cast", [_slot_view(value, None, tuple(kind.shape), write)], kind)


def _slot_view(value: Value, slot: Value | None, shape: tuple[int, ...], write: OpWriter) -> Value:
    """A rank-reducing subview of one slot, None for slot 0."""
    kind = ir.MemRefType(value.type)
    context = kind.context
    strides = [prod(kind.shape[i + 2 :]) for i in range(len(shape))]
    result = strided_type(kind, shape, strides, "0" if slot is None else "?")
    offsets = [0 if slot is None else DYNAMIC, *[0] * len(shape)]
    dynamic = [] if slot is None else [slot]
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(offsets, context),
        "static_sizes": ir.DenseI64ArrayAttr.get([1, *shape], context),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * (len(shape) + 1), context),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(dynamic), 0, 0], context),
    }
    return write.make("memref.subview", [value, *dynamic], result, attributes)


def _simplify_view(slot_zero: Value) -> None:
    """Erase what nobody outside the pipeline needs of a view of slot 0: the whole view, or
    only its cast to the old type where every user is an access, which takes any layout."""
    if is_pointer(slot_zero):
        return
    cast = source_op(slot_zero)
    view = cast.operands[0]
    for user in users(slot_zero):
        found = [access for access in accesses(user) if access.memory == slot_zero]
        if not found or not all(access.takes_slot_index for access in found):
            return
    slot_zero.replace_all_uses_with(view)
    cast.erase()
    if not users(view):
        source_op(view).erase()


def _drop_unused_globals(names: set[str], module: Any) -> None:
    """Erase globals that the versioned ones replaced, where nobody refers to them now."""
    live: set[str] = set()
    for op in walk(module) if names else ():
        name = global_name(op)
        if name in names and is_used(op.results[0]):
            live.add(name)
        elif name in names:
            op.erase()
    for op in walk(module) if names else ():
        if op.name in GLOBAL_OPS and symbol_name(op) in names - live:
            op.erase()


# Accesses of slots -------------------------------------------------------------------------------
#
# Lets the ops of a loop's body use one slot of the versions of their buffers.
#
#     memref.load %b[%i, %j]                 -->    memref.load %b[%slot, %i, %j]
#     llvm.load %p                           -->    llvm.load (llvm.getelementptr %p[%slot * bytes])
#     memref.subview %b[0, 0] [16, 32]       -->    memref.subview %b[%slot, 0, 0] [1, 16, 32]
#     memref.expand_shape %b …               -->    %s = memref.subview %b[%slot, 0, 0] …
#                                                   memref.expand_shape %s …
#     memref.reinterpret_cast %b to offset: [8]     … to offset: [%slot * 4096 + 8]
#
# Accesses that take subscripts get a leading one, all others a view of their slot, as do ops whose value
# describes memory to a copy; a pointer goes on by whole slots, wherever in its slot it points to.
# A reinterpret_cast begins at the allocation whatever its source's offset is, so the slot is
# added to its own offset, in elements. All result types of views lose their constant offset.


def move_accesses(
    buffers: list[VersionedBuffer], slots: dict[int, Value], ops: list[Operation]
) -> list[list[Operation]]:
    """Let the accesses of the pipelined loop's body use their slots.

    `ops` are the top-level ops of the body in textual order, `slots` the slot index for each
    number of versions. Returns, for each of them, the ops that now stand in its place.
    """
    by_key = {root_of(buffer.value).identity: buffer for buffer in buffers}
    moved: set[Value] = set()
    result = []
    for op in ops:
        current, extra = op, []
        for inner in list(walk(op)) if len(op.regions) else [op]:
            if is_movable(inner.name):
                buffer = by_key.get(root_of(inner.operands[0]).identity)
                if buffer is None:
                    continue
                slot = slots[buffer.plan.versions]
                *before_it, now = move_view(inner, buffer, slot, inner.operands[0] in moved)
                moved.add(now.results[0])
            else:
                before_it, now = _move_accesses_of(inner, by_key, slots, moved)
            if inner is op:
                extra, current = before_it, now
        result.append([*extra, current])
    return result


def _move_accesses_of(
    op: Operation, by_key: dict[Any, VersionedBuffer], slots: dict[int, Value], moved: set[Value]
) -> tuple[list[Operation], Operation]:
    """Let the accesses of one op use their slots; returns what stands before it now, and the op
    that stands in its place."""
    made = _describe_slots(op, by_key, slots, moved)
    # Those that name the buffer itself, last operand first: moving one shifts the operands after it.
    found = [a for a in accesses(op) if a.named_by == op and a.memory not in moved]
    for access in sorted(found, key=lambda access: -access.memory_operand):
        buffer = by_key.get(root_of(access.memory).identity)
        if buffer is None:
            continue
        slot = slots[buffer.plan.versions]
        if access.takes_slot_index and not is_pointer(access.memory):
            # The op of an access before this one may have been written again.
            op = _with_leading_index(op, buffer, access, slot)
            continue
        if is_pointer(access.memory):
            write = IntegerWriter.before(op)
            bytes_ = write.multiply(slot, buffer.plan.slot_bytes)
            pointer = _stepped(write, access.memory, bytes_)
            ops = [*write.made, source_op(pointer)]
        else:
            ops = [whole_slot(buffer, slot, op)]
        op.operands[access.memory_operand] = ops[-1].results[0]
        made += ops
    return made, op


def _describe_slots(
    op: Operation, by_key: dict[Any, VersionedBuffer], slots: dict[int, Value], moved: set[Value]
) -> list[Operation]:
    """Let a value that describes a buffer describe its slot; returns the views that stand before it."""
    made: list[Operation] = []
    row = row_of(op)
    groups = groups_of(op) if row.describes else {}
    for number in (n for name in row.describes for n in groups[name]):
        memory = op.operands[number]
        buffer = by_key.get(root_of(memory).identity)
        if buffer is not None and memory not in moved:
            slot = slots[buffer.plan.versions]
            made.append(whole_slot(buffer, slot, op))
            op.operands[number] = made[-1].results[0]
    return made


def _with_leading_index(
    op: Operation, buffer: VersionedBuffer, access: Access, slot: Value
) -> Operation:
    row = row_of(op)
    groups = groups_of(op)
    of_memory = {groups[rule.memory].start: rule.indices for rule in row.accesses}
    indices = of_memory[access.memory_operand]
    operands = list(op.operands)
    operands[access.memory_operand] = buffer.value
    operands.insert(groups[indices].start, slot)
    attributes = carried_attributes(op)
    if "operandSegmentSizes" in attributes:
        # By name: the ranges of two groups without operands are equal.
        sizes = [len(group) + (name == indices) for name, group in groups.items()]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    return again(op, operands, attributes=attributes)


# Views of a slot -----------------------------------------------------------------------------


def move_view(
    op: Operation, buffer: VersionedBuffer, slot: Value, of_moved: bool
) -> list[Operation]:
    """Let a view show `slot` of a buffer. `of_moved`: its source is a view that was moved before. Returns
    the ops that stand in its place, the view last."""
    if op.name == REINTERPRET:
        return _move_reinterpret(op, buffer.value, slot)
    if of_moved:
        op.results[0].set_type(freed(op.results[0].type))
        return [op]
    if op.name == "memref.subview":
        return [_move_subview(op, buffer.value, slot)]
    view = whole_slot(buffer, slot, op)
    op.operands[0] = view.results[0]
    op.results[0].set_type(freed(op.results[0].type))
    return [view, op]


def whole_slot(buffer: VersionedBuffer, slot: Value, op: Operation) -> Operation:
    """A view of one slot, for an op that cannot take a slot index."""
    return source_op(_slot_view(buffer.value, slot, buffer.shape, OpWriter.before(op)))


def _move_subview(op: Operation, value: Value, slot: Value) -> Operation:
    attributes = carried_attributes(op)
    added = {"static_offsets": DYNAMIC, "static_sizes": 1, "static_strides": 1}
    for name, dimension in added.items():
        values = [dimension, *ir.DenseI64ArrayAttr(attributes[name])]
        attributes[name] = ir.DenseI64ArrayAttr.get(values, op.context)
    grow_group(attributes, 1, 1)
    return again(op, [value, slot, *list(op.operands)[1:]], [freed(op.results[0].type)], attributes)


def _move_reinterpret(op: Operation, value: Value, slot: Value) -> list[Operation]:
    """offset + slot * elements of a slot."""
    attributes = carried_attributes(op)
    (static,) = ir.DenseI64ArrayAttr(attributes["static_offsets"])
    sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
    write = IntegerWriter.before(op)
    start = write.multiply(slot, prod(ir.MemRefType(value.type).shape[1:]))
    offset = write.add(start, op.operands[1] if static == DYNAMIC else static)
    rest = list(op.operands)[1 + sizes[1] :]
    sizes[1] = 1
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    attributes["static_offsets"] = ir.DenseI64ArrayAttr.get([DYNAMIC], op.context)
    made = again(op, [value, offset, *rest], [freed(op.results[0].type)], attributes)
    return [*write.made, made]


def freed(kind: Any) -> Any:
    """The memref type with an unknown offset."""
    memref = ir.MemRefType(kind)
    strides, _ = memref.get_strides_and_offset()
    return strided_type(memref, memref.shape, strides, "?")


# Uses of slot 0, whatever they do with it ----------------------------------------------------
#
#     tma.async.load … to %tile                   %s = memref.subview %tile[%slot, 0, 0] …
#     generate.descriptor %tile           -->     generate.descriptor %s
#     vector.load %view[…]                        vector.load of a view of %s
#     extract_aligned_pointer_as_index %tile      … + %slot * bytes of a slot


def show_slot(buffers: list[VersionedBuffer], slot: Value, ops: list[Operation]) -> None:
    """Let the uses of slot 0 of the buffers in `ops` be uses of `slot`. Handles of views in `ops`
    are dead afterwards."""
    of_value = {buffer.slot_zero: buffer for buffer in buffers}
    for inner in (inner for op in ops for inner in list(walk(op))):
        named = [n for n, value in enumerate(inner.operands) if value in of_value]
        if named and is_movable(inner.name):
            made = move_view(inner, of_value[inner.operands[0]], slot, of_moved=False)
            _free_views_of(made[-1].results[0])
            continue
        for number in named:
            buffer = of_value[inner.operands[number]]
            if inner.name not in ADDRESS_OPS:
                inner.operands[number] = whole_slot(buffer, slot, inner).results[0]
                continue
            # The pointer of an allocation is that of slot 0, whatever view it is asked of.
            kind = ir.MemRefType(buffer.value.type)
            size = prod(kind.shape[1:]) * element_bytes(kind)
            inner.operands[0] = buffer.value
            write = IntegerWriter(after(inner), inner.location)
            _go_on(inner.results[0], write.multiply(slot, write.constant(size)), write)


def _free_views_of(view: Value) -> None:
    """Views of a moved view lose their constant offset too."""
    for user in users(view):
        if is_movable(user.name):
            user.results[0].set_type(freed(user.results[0].type))
            _free_views_of(user.results[0])


def _go_on(address: Value, offset: Value, write: IntegerWriter) -> None:
    """Let the users of an address use what lies `offset` bytes on: of a pointer that is made of it the same pointer
    and a step, which tells whose memory it is, of others the sum. `write` writes after both."""
    plain = []
    for user in users(address):
        if user.name == POINTER_OF_ADDRESS or is_operator(user.name, "cast"):
            _go_on(user.results[0], offset, IntegerWriter(after(user), user.location))
        else:
            plain.append(user)
    if plain:
        moved = _stepped(write, address, offset)
        for user in plain:
            remap(user, {address: moved})


def _stepped(write: IntegerWriter, address: Value, offset: Value) -> Value:
    if not is_pointer(address):
        if offset.type != address.type:
            offset = write.cast("arith.index_cast", offset, address.type)
        return write.add(address, offset)
    number = write.cast("arith.index_cast", offset, ir.IntegerType.get_signless(64, write.context))
    return LlvmBuilder(write.ip, write.location).at(address, number)
