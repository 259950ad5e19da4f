"""Gives a buffer its versions: a leading slot dimension, and a slot index in each access.

    memref.alloc : memref<128x32xf16>            memref.alloc : memref<3x128x32xf16>
    memref.load %b[%i, %j]               -->     memref.load %b[%slot, %i, %j]
    memref.subview %b[0, 0] [16, 32]             memref.subview %b[%slot, 0, 0] [1, 16, 32]

Users outside the loop (and the loop's own copy for short trips) see slot 0 under the old
type. The distance of two slots keeps every access aligned: a 40-byte buffer with 16-byte
accesses gets slots of 48 bytes, by padding its outermost dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.affine import product
from mlir_async_pipe.annotations import DYNAMIC_SHARED_BYTES, PRIVATE, attribute_names
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.buffers import root_of
from mlir_async_pipe.dependence.privatise import find_global
from mlir_async_pipe.dependence.regions import DYNAMIC
from mlir_async_pipe.dynamic_shared import end_of_windows
from mlir_async_pipe.expand.buffers import BufferPlan, buffer_value
from mlir_async_pipe.ir_helpers import (
    FUNCTION_OPS,
    Operation,
    Value,
    after,
    before,
    create,
    defining_op,
    enclosing,
    integer_attribute,
    operations,
    set_integer,
    symbol_name,
    users,
    walk,
)
from mlir_async_pipe.vocabulary import Access, accesses, operand_groups, row_of
from mlir_async_pipe.vocabulary.extents import element_bits


@dataclass(frozen=True)
class VersionedBuffer:
    """A buffer whose memory has been replaced: `value` has the slot dimension in front,
    `slot_zero` is its first slot under the old type."""

    plan: BufferPlan
    value: Value
    shape: tuple[int, ...]
    slot_zero: Value


def allocate_all(plans: list[BufferPlan], loop: Operation) -> list[VersionedBuffer]:
    """Make room for all versions of all buffers.

    Windows of dynamic shared memory that grow are laid out anew behind those that stay."""
    function = enclosing(loop, FUNCTION_OPS)
    start = 0
    if any(plan.root.kind == "dynamic" for plan in plans):
        assert function is not None
        start = end_of_windows(function, frozenset(plan.root.identity for plan in plans))
    made = []
    for plan in plans:
        made.append(_allocate(plan, loop, start))
        if plan.root.kind == "dynamic":
            start += -(-plan.versions * plan.slot_bytes // 16) * 16
    return made


def _allocate(plan: BufferPlan, loop: Operation, window: int) -> VersionedBuffer:
    """Make room for one buffer's versions, and let every present user see slot 0 of it.

    The accesses of the pipelined loop are moved to their slots afterwards.
    """
    old = buffer_value(plan.regions)
    kind = ir.MemRefType(old.type)
    shape = tuple(kind.shape)
    versioned = ir.MemRefType.get(
        [plan.versions, *_padded(shape, plan, kind)],
        kind.element_type,
        memory_space=kind.memory_space,
        loc=loop.location,
    )
    if plan.root.kind == "attribution":
        view = _widen_attribution(old, versioned, kind, shape)
        return VersionedBuffer(plan, old, shape, view)
    if plan.root.kind == "dynamic":
        new, ip = _new_window(defining_op(old), versioned, window)
        replaced = [old]
    elif plan.root.kind == "global":
        new, ip = _new_global(plan, versioned, loop)
        replaced = [
            op.results[0]
            for op in walk(enclosing(loop, FUNCTION_OPS) or loop)
            if op.name == "memref.get_global"
            and str(ir.FlatSymbolRefAttr(op.attributes["name"]).value) == plan.root.key
        ]
    else:
        new = _new_allocation(defining_op(old), versioned)
        ip = after(defining_op(new))
        replaced = [old]
    view = _slot_zero(new, kind, shape, ip)
    for value in replaced:
        value.replace_all_uses_with(view)
    if plan.root.kind in ("allocation", "dynamic"):
        old.owner.operation.erase()
    return VersionedBuffer(plan, new, shape, view)


def _padded(shape: tuple[int, ...], plan: BufferPlan, kind: Any) -> list[int]:
    """The shape with its outermost dimension grown until a slot is `slot_bytes` or more and
    a multiple of the widest access."""
    row = product(shape[1:]) * element_bits(kind)
    if not shape or plan.slot_bytes * 8 == row * shape[0]:
        return list(shape)
    widest = max(r.extent[-1] * element_bits(kind) for r in plan.regions if r.extent)
    outer = shape[0]
    while outer * row % widest:
        outer += 1
    return [outer, *shape[1:]]


def _widen_attribution(old: Value, versioned: Any, kind: Any, shape: tuple[int, ...]) -> Value:
    """Change the type of the block argument itself; returns the view of slot 0."""
    uses = [(use.owner.operation, use.operand_number) for use in old.uses]
    old.set_type(versioned)
    block = ir.BlockArgument(old).owner
    ip = before(operations(block)[0])
    view = _slot_zero(old, kind, shape, ip)
    for user, number in uses:
        user.operands[number] = view
    return view


def _new_allocation(op: Operation | None, versioned: Any) -> Value:
    assert op is not None
    return create(
        op.name,
        list(op.operands),
        [versioned],
        _attributes(op),
        ip=before(op),
        loc=op.location,
    ).results[0]


def _new_window(view: Operation | None, versioned: Any, start: int) -> tuple[Value, Any]:
    """A window of dynamic shared memory from byte `start` on; what the function needs grows."""
    assert view is not None
    function = enclosing(view, FUNCTION_OPS)
    assert function is not None
    ip, loc, index = before(view), view.location, ir.IndexType.get(view.context)
    offset = create(
        "arith.constant", (), [index], {"value": ir.IntegerAttr.get(index, start)}, ip=ip, loc=loc
    ).results[0]
    made = create("memref.view", [view.operands[0], offset], [versioned], ip=ip, loc=loc)
    size = product(versioned.shape) * element_bits(versioned) // 8
    needed = max(start + size, integer_attribute(function, DYNAMIC_SHARED_BYTES) or 0)
    set_integer(function, DYNAMIC_SHARED_BYTES, needed, 64)
    return made.results[0], after(made)


def _new_global(plan: BufferPlan, versioned: Any, loop: Operation) -> tuple[Value, Any]:
    """A global of its own for the versions, and its address before the loop."""
    declared = find_global(plan.root)
    assert declared is not None
    attributes = _attributes(declared)
    context = declared.context
    name = f"{plan.root.key}_versions"
    taken = {
        str(ir.StringAttr(op.attributes["sym_name"]).value)
        for op in operations(declared.block)
        if "sym_name" in op.attributes
    }
    while name in taken:
        name += "_"
    attributes["sym_name"] = ir.StringAttr.get(name, context)
    attributes["type"] = ir.TypeAttr.get(versioned, context)
    create("memref.global", (), (), attributes, ip=before(declared), loc=declared.location)
    function = enclosing(loop, FUNCTION_OPS)
    assert function is not None
    ip = before(operations(function.regions[0].blocks[0])[0])
    value = create(
        "memref.get_global",
        (),
        [versioned],
        {"name": ir.FlatSymbolRefAttr.get(name, context)},
        ip=ip,
        loc=loop.location,
    ).results[0]
    return value, ip


def _attributes(op: Operation) -> dict[str, Any]:
    return {name: op.attributes[name] for name in attribute_names(op) if name != PRIVATE}


def _slot_zero(value: Value, kind: Any, shape: tuple[int, ...], ip: Any) -> Value:
    """Slot 0 under the old type: its offset is 0, so the dense layout fits."""
    view = _subview(
        value,
        [0] + [0] * len(shape),
        [],
        shape,
        offset="0",
        ip=ip,
        loc=ir.Location.unknown(kind.context),
    )
    return create(
        "memref.cast", [view], [kind], ip=ip, loc=ir.Location.unknown(kind.context)
    ).results[0]


def _subview(
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
    strides = [product(kind.shape[i + 2 :]) for i in range(len(shape))]
    result = _strided(kind, shape, strides, offset)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(offsets, context),
        "static_sizes": ir.DenseI64ArrayAttr.get([1, *shape], context),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * (len(shape) + 1), context),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(dynamic), 0, 0], context),
    }
    return create(
        "memref.subview", [value, *dynamic], [result], attributes, ip=ip, loc=loc
    ).results[0]


def _strided(kind: Any, shape: tuple[int, ...], strides: list[int], offset: str) -> Any:
    layout = ir.Attribute.parse(
        f"strided<[{', '.join(map(str, strides))}], offset: {offset}>", kind.context
    )
    return ir.MemRefType.get(
        list(shape),
        kind.element_type,
        layout=layout,
        memory_space=kind.memory_space,
        loc=ir.Location.unknown(kind.context),
    )


def move_accesses(
    buffers: list[VersionedBuffer], slots: dict[int, Value], ops: list[Operation]
) -> list[list[Operation]]:
    """Let the accesses of the pipelined loop's body use their slots.

    `ops` are the top-level ops of the body in textual order, `slots` the slot index for each
    number of versions. Returns, for each of them, the ops that now stand in its place.
    """
    by_key = {root_of(buffer.value).identity: buffer for buffer in buffers}
    result = []
    for op in ops:
        current, extra = op, []
        for inner in list(walk(op)) if len(op.regions) else [op]:
            if inner.name == "memref.subview":
                moved = _move_subview(inner, by_key, slots)
                current = moved if inner is op else current
                continue
            for access in _direct_accesses(inner, by_key):
                buffer = by_key[root_of(access.memory).identity]
                slot = slots[buffer.plan.versions]
                if access.takes_slot_index:
                    moved = _with_leading_index(buffer, access, slot)
                    current = moved if inner is op else current
                    inner = moved
                else:
                    view = _slot_view(buffer, access, slot)
                    extra += [view] if inner is op else []
        result.append([*extra, current])
    return result


def _direct_accesses(op: Operation, by_key: dict[Any, VersionedBuffer]) -> list[Access]:
    """Accesses that name the buffer itself, last operand first: each is moved on its own,
    and moving one shifts the operands behind it."""
    found = [
        access
        for access in accesses(op)
        if root_of(access.memory).identity in by_key and not _is_subview(access.memory)
    ]
    return sorted(found, key=lambda access: -access.memory_operand)


def _is_subview(memory: Value) -> bool:
    op = defining_op(memory)
    return op is not None and op.name == "memref.subview"


def _slot_view(buffer: VersionedBuffer, access: Access, slot: Value) -> Operation:
    """A view of one slot for an access that cannot take a slot index."""
    op = access.op
    view = _subview(
        buffer.value,
        [DYNAMIC] + [0] * len(buffer.shape),
        [slot],
        buffer.shape,
        offset="?",
        ip=before(op),
        loc=op.location,
    )
    op.operands[access.memory_operand] = view
    made = defining_op(view)
    assert made is not None
    return made


def _with_leading_index(buffer: VersionedBuffer, access: Access, slot: Value) -> Operation:
    op = access.op
    row = row_of(op)
    assert row is not None
    groups = operand_groups(op, row)
    operands = list(op.operands)
    operands[access.memory_operand] = buffer.value
    operands.insert(access.index_operands.start, slot)
    attributes = _attributes(op)
    if "operandSegmentSizes" in attributes:
        sizes = [len(g) + (1 if g == access.index_operands else 0) for g in groups.values()]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    return _replaced(op, operands, [result.type for result in op.results], attributes)


def _move_subview(
    op: Operation, by_key: dict[Any, VersionedBuffer], slots: dict[int, Value]
) -> Operation:
    """Put the slot in front of a subview of the buffer itself; a subview further down the
    chain only learns that its offset is not known."""
    buffer = by_key.get(root_of(op.operands[0]).identity)
    if buffer is None:
        return op
    if _is_subview(op.operands[0]):
        op.results[0].set_type(_freed(op.results[0].type))
        return op
    attributes = _attributes(op)
    for name, front in (("static_offsets", DYNAMIC), ("static_sizes", 1), ("static_strides", 1)):
        values = [front, *ir.DenseI64ArrayAttr(attributes[name])]
        attributes[name] = ir.DenseI64ArrayAttr.get(values, op.context)
    sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
    sizes[1] += 1
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    operands = [buffer.value, slots[buffer.plan.versions], *list(op.operands)[1:]]
    return _replaced(op, operands, [_freed(op.results[0].type)], attributes)


def _replaced(
    op: Operation, operands: list[Value], results: list[Any], attributes: dict[str, Any]
) -> Operation:
    made = create(op.name, operands, results, attributes, ip=before(op), loc=op.location)
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return made


def _freed(kind: Any) -> Any:
    """The memref type with an unknown offset."""
    memref = ir.MemRefType(kind)
    strides, _ = memref.get_strides_and_offset()
    return _strided(memref, tuple(memref.shape), list(strides), "?")


def simplify_views(buffers: list[VersionedBuffer]) -> None:
    """Erase what nobody outside the pipeline needs of the views of slot 0: the whole view, or
    only its cast to the old type where every user is an access, which takes any layout."""
    for buffer in buffers:
        cast = defining_op(buffer.slot_zero)
        assert cast is not None
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
    replaced = {b.plan.root.key for b in buffers if b.plan.root.kind == "global"}
    if not replaced:
        return
    found: dict[str, list[Operation]] = {}
    for op in walk(module):
        if op.name == "memref.get_global":
            name = str(ir.FlatSymbolRefAttr(op.attributes["name"]).value)
            if name in replaced:
                found.setdefault(name, []).append(op)
    live: set[str] = set()
    for name, ops in found.items():
        for op in ops:
            if list(op.results[0].uses):
                live.add(name)
            else:
                op.erase()
    for op in list(walk(module)):
        if op.name == "memref.global":
            name = symbol_name(op)
            if name in replaced - live:
                op.erase()
