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
    constant,
    create,
    defining_op,
    enclosing,
    integer_attribute,
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
        """The versioned buffers of one loop, each with the loop's own plan."""
        body = _body_of_function(loop)
        return [
            replace(self._rooms[body, plan.root.identity], plan=plan)
            for plan in plans
            if plan.versions > 1
        ]

    def close(self, module: Any) -> None:
        """When all loops are written: erase what nobody uses any more."""
        made = list(self._rooms.values())
        simplify_views(made)
        drop_unused_globals(made, module)


def _body_of_function(loop: Operation) -> Any:
    """The block that stands for the function: blocks can be distinguished over edits."""
    function = enclosing(loop, FUNCTION_OPS)
    return loop.block if function is None else function.regions[0].blocks[0]


def _allocate_in_function(wanted: list[tuple[Operation, BufferPlan]]) -> list[VersionedBuffer]:
    loops: dict[Any, Operation] = {}
    plans: dict[Any, list[BufferPlan]] = {}
    for loop, plan in wanted:
        key = plan.root.identity
        loops.setdefault(key, loop)
        plans.setdefault(key, []).append(plan)
    merged = {key: _together(of_loops) for key, of_loops in plans.items()}
    start = 0
    if any(plan.root.kind == "dynamic" for plan in merged.values()):
        function = enclosing(next(iter(loops.values())), FUNCTION_OPS)
        assert function is not None
        start = end_of_windows(function, frozenset(merged))
    made = []
    for key, plan in merged.items():
        if plan.root.kind == "dynamic":
            # The first slot begins where the others do: at a period of the layout.
            period = max(region.period for region in plan.regions)
            unit = max(WIDEST, period * element_bytes(buffer_type(plan.regions)))
            start = -(-start // unit) * unit
        made.append(_allocate(plan, loops[key], start))
        if plan.root.kind == "dynamic":
            start += plan.versions * plan.slot_bytes
    return made


def _together(plans: list[BufferPlan]) -> BufferPlan:
    """Room for the versions of all loops, with slots for the accesses of each."""
    if len(plans) == 1:
        return plans[0]
    regions = tuple(region for plan in plans for region in plan.regions)
    return replace(
        plans[0],
        regions=regions,
        versions=max(plan.versions for plan in plans),
        slot_bytes=slot_bytes(regions),
    )


def _allocate(plan: BufferPlan, loop: Operation, window: int) -> VersionedBuffer:
    """Make room for one buffer's versions, and let every present user see slot 0 of it.

    The accesses of the pipelined loop are moved to their slots afterwards.
    """
    old = buffer_value(plan.regions)
    if is_pointer(old):
        return _widen_llvm_global(plan, old, loop)
    kind = ir.MemRefType(old.type)
    shape = tuple(kind.shape)
    versioned = ir.MemRefType.get(
        [plan.versions, *slot_shape(plan.regions)],
        kind.element_type,
        memory_space=kind.memory_space,
        loc=loop.location,
    )
    if plan.root.kind == "attribution":
        view = _widen_attribution(old, versioned, kind, shape)
        return VersionedBuffer(plan, old, shape, view)
    if plan.root.kind == "dynamic":
        new, ip = _new_window(source_op(old), versioned, window)
        replaced = [old]
    elif plan.root.kind == "global":
        new, ip = _new_global(plan, versioned, loop)
        replaced = _addresses(plan, loop)
    else:
        new = retyped(source_op(old), versioned)
        ip = after(source_op(new))
        replaced = [old]
    view = slot_zero(new, kind, shape, ip)
    for value in replaced:
        value.replace_all_uses_with(view)
    if plan.root.kind in ("allocation", "dynamic"):
        old.owner.operation.erase()
    return VersionedBuffer(plan, new, shape, view)


def _addresses(plan: BufferPlan, loop: Operation) -> list[Value]:
    """What the function around a loop has for the address of a global."""
    function = enclosing(loop, FUNCTION_OPS) or loop
    return [op.results[0] for op in walk(function) if global_name(op) == plan.root.key]


def _widen_llvm_global(plan: BufferPlan, old: Value, loop: Operation) -> VersionedBuffer:
    """Bytes for all versions: a pointer to them is one to slot 0."""
    replaced = _addresses(plan, loop)
    context = loop.context
    kind = ir.Type.parse(f"!llvm.array<{plan.versions * plan.slot_bytes} x i8>", context)
    name = _declare_versions(plan, {"global_type": ir.TypeAttr.get(kind, context)})
    write = OpWriter(before(operations(_body_of_function(loop))[0]), loop.location)
    named = {"global_name": ir.FlatSymbolRefAttr.get(name, context)}
    new = write.make("llvm.mlir.addressof", (), old.type, named)
    for value in replaced:
        value.replace_all_uses_with(new)
    return VersionedBuffer(plan, new, (), new)


def _widen_attribution(old: Value, versioned: Any, kind: Any, shape: tuple[int, ...]) -> Value:
    """Change the type of the block argument itself; returns the view of slot 0."""
    ip = before(operations(ir.BlockArgument(old).owner)[0])
    return retype(old, versioned, lambda: slot_zero(old, kind, shape, ip))


def _new_window(view: Operation, versioned: Any, start: int) -> tuple[Value, Any]:
    """A window of dynamic shared memory from byte `start` on; what the function needs grows."""
    function = enclosing(view, FUNCTION_OPS)
    assert function is not None
    ip, loc, index = before(view), view.location, ir.IndexType.get(view.context)
    offset = constant(start, index, ip, loc)
    made = create("memref.view", [view.operands[0], offset], [versioned], ip=ip, loc=loc)
    size = prod(versioned.shape) * element_bytes(versioned)
    needed = max(start + size, integer_attribute(function, DYNAMIC_SHARED_BYTES) or 0)
    set_integer(function, DYNAMIC_SHARED_BYTES, needed, 64)
    return made.results[0], after(made)


def _new_global(plan: BufferPlan, versioned: Any, loop: Operation) -> tuple[Value, Any]:
    """A global of its own for the versions, and its address before the loop."""
    name = _declare_versions(plan, {"type": ir.TypeAttr.get(versioned, loop.context)})
    ip = before(operations(_body_of_function(loop))[0])
    return address_of(name, versioned, ip, loop.location), ip


def versions_of(name: str) -> str:
    """The symbol of the versions of a global."""
    return f"{name}_versions"


def _declare_versions(plan: BufferPlan, kind: dict[str, Any]) -> str:
    """Declare a global like the buffer's, but for its type; returns the name."""
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
    return name


def slot_zero(value: Value, kind: Any, shape: tuple[int, ...], ip: Any) -> Value:
    """Slot 0 under the old type: its offset is 0, so the dense layout fits."""
    loc = ir.Location.unknown(kind.context)
    view = slot_subview(value, [0] * (1 + len(shape)), [], shape, offset="0", ip=ip, loc=loc)
    return OpWriter(ip, loc).make("memref.cast", [view], kind)


def slot_subview(
    value: Value,
    offsets: list[int],
    dynamic: list[Value],
    shape: tuple[int, ...],
    *,
    offset: str,
    ip: Any,
    loc: Any,
) -> Value:
    """A rank-reducing subview of one slot; `offset` is "0" or "?" (in the result's layout)."""
    kind = ir.MemRefType(value.type)
    context = kind.context
    strides = [prod(kind.shape[i + 2 :]) for i in range(len(shape))]
    result = strided_type(kind, shape, strides, offset)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(offsets, context),
        "static_sizes": ir.DenseI64ArrayAttr.get([1, *shape], context),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * (len(shape) + 1), context),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(dynamic), 0, 0], context),
    }
    return OpWriter(ip, loc).make("memref.subview", [value, *dynamic], result, attributes)


def simplify_views(buffers: list[VersionedBuffer]) -> None:
    """Erase what nobody outside the pipeline needs of the views of slot 0: the whole view, or
    only its cast to the old type where every user is an access, which takes any layout."""
    for buffer in buffers:
        cast = defining_op(buffer.slot_zero)
        assert cast is not None
        if is_pointer(buffer.slot_zero):
            continue
        view = defining_op(cast.operands[0])
        assert view is not None
        if all(_takes_any_layout(user, buffer.slot_zero) for user in users(buffer.slot_zero)):
            buffer.slot_zero.replace_all_uses_with(view.results[0])
            cast.erase()
            if not users(view.results[0]):
                view.erase()


def _takes_any_layout(user: Operation, memory: Value) -> bool:
    found = [access for access in accesses(user) if access.memory == memory]
    return bool(found) and all(access.takes_slot_index for access in found)


def drop_unused_globals(buffers: list[VersionedBuffer], module: Any) -> None:
    """Erase globals that the versioned ones replaced, where nobody refers to them now."""
    old_names = {b.plan.root.key for b in buffers if b.plan.root.kind == "global"}
    if not old_names:
        return
    found: dict[str, list[Operation]] = {}
    for op in walk(module):
        name = global_name(op)
        if name is not None and name in old_names:
            found.setdefault(name, []).append(op)
    live: set[str] = set()
    for name, ops in found.items():
        for op in ops:
            if list(op.results[0].uses):
                live.add(name)
            else:
                op.erase()
    for op in list(walk(module)):
        if op.name in GLOBAL_OPS and symbol_name(op) in old_names - live:
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
    for access in _direct_accesses(op, by_key, moved):
        buffer = by_key[root_of(access.memory).identity]
        slot = slots[buffer.plan.versions]
        if access.takes_slot_index and not is_pointer(access.memory):
            # The op of an access before this one may have been written again.
            op = _with_leading_index(op, buffer, access, slot)
            continue
        if is_pointer(access.memory):
            ops = _further(op, access, slot, buffer.plan.slot_bytes)
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


def _direct_accesses(
    op: Operation, by_key: dict[Any, VersionedBuffer], moved: set[Value]
) -> list[Access]:
    """Accesses that name the buffer itself, last operand first: each is moved on its own,
    and moving one shifts the operands after it."""
    found = [
        access
        for access in accesses(op)
        if access.named_by == op
        and root_of(access.memory).identity in by_key
        and access.memory not in moved
    ]
    return sorted(found, key=lambda access: -access.memory_operand)


def _further(op: Operation, access: Access, slot: Value, bytes_: int) -> list[Operation]:
    """The ops that compute the pointer of an access `slot` slots further."""
    write = IntegerWriter.before(op)
    pointer = _stepped(write, access.memory, write.multiply(slot, bytes_))
    return [*write.made, source_op(pointer)]


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
    offsets = [DYNAMIC] + [0] * len(buffer.shape)
    at = {"ip": before(op), "loc": op.location}
    return source_op(slot_subview(buffer.value, offsets, [slot], buffer.shape, offset="?", **at))


def _move_subview(op: Operation, value: Value, slot: Value) -> Operation:
    attributes = carried_attributes(op)
    for name, dimension in (
        ("static_offsets", DYNAMIC),
        ("static_sizes", 1),
        ("static_strides", 1),
    ):
        values = [dimension, *ir.DenseI64ArrayAttr(attributes[name])]
        attributes[name] = ir.DenseI64ArrayAttr.get(values, op.context)
    sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
    sizes[1] += 1
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
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
    for op in ops:
        for inner in list(walk(op)):
            named = [n for n, value in enumerate(inner.operands) if value in of_value]
            if named and is_movable(inner.name):
                made = move_view(inner, of_value[inner.operands[0]], slot, of_moved=False)
                _free_views_of(made[-1].results[0])
                continue
            for number in named:
                buffer = of_value[inner.operands[number]]
                if inner.name in ADDRESS_OPS:
                    _show_address(buffer, slot, inner)
                else:
                    inner.operands[number] = whole_slot(buffer, slot, inner).results[0]


def _free_views_of(view: Value) -> None:
    """Views of a moved view lose their constant offset too."""
    for user in users(view):
        if is_movable(user.name):
            user.results[0].set_type(freed(user.results[0].type))
            _free_views_of(user.results[0])


def _show_address(buffer: VersionedBuffer, slot: Value, op: Operation) -> None:
    """The pointer of an allocation is that of slot 0, whatever view it is asked of."""
    kind = ir.MemRefType(buffer.value.type)
    size = prod(kind.shape[1:]) * element_bytes(kind)
    op.operands[0] = buffer.value
    write = IntegerWriter(after(op), op.location)
    _go_on(op.results[0], write.multiply(slot, write.constant(size)), write)


def _go_on(address: Value, offset: Value, write: IntegerWriter) -> None:
    """Let the users of an address use what lies `offset` bytes on: of a pointer that is made of it
    the same pointer and a step, which tells whose memory it is, of others the sum. `write` writes
    after both."""
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
        same = offset.type == address.type
        return write.add(
            address, offset if same else write.cast("arith.index_cast", offset, address.type)
        )
    number = write.cast("arith.index_cast", offset, ir.IntegerType.get_signless(64, write.context))
    return LlvmBuilder(write.ip, write.location).at(address, number)
