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
    FUNCTION_OPS,
    Operation,
    Value,
    after,
    before,
    constant,
    create,
    defining_op,
    enclosing,
    integer_attribute,
    operations,
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
from mlir_async_pipe.facts.values.memory_roots import end_of_windows
from mlir_async_pipe.facts.values.pointers import is_pointer
from mlir_async_pipe.pipeliner.dependence.privatise import find_global
from mlir_async_pipe.pipeliner.plan.buffer_plan import (
    WIDEST,
    BufferPlan,
    buffer_type,
    buffer_value,
    slot_bytes,
    slot_shape,
)
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.memory_layout import element_bytes
from mlir_async_pipe.vocabulary.memory_names import GLOBAL_OPS, global_name


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
        new, ip = _new_window(defining_op(old), versioned, window)
        replaced = [old]
    elif plan.root.kind == "global":
        new, ip = _new_global(plan, versioned, loop)
        replaced = _addresses(plan, loop)
    else:
        new = _new_allocation(defining_op(old), versioned)
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
    function = enclosing(loop, FUNCTION_OPS)
    assert function is not None
    new = create(
        "llvm.mlir.addressof",
        (),
        [old.type],
        {"global_name": ir.FlatSymbolRefAttr.get(name, context)},
        ip=before(operations(function.regions[0].blocks[0])[0]),
        loc=loop.location,
    ).results[0]
    for value in replaced:
        value.replace_all_uses_with(new)
    return VersionedBuffer(plan, new, (), new)


def _widen_attribution(old: Value, versioned: Any, kind: Any, shape: tuple[int, ...]) -> Value:
    """Change the type of the block argument itself; returns the view of slot 0."""
    uses = [(use.owner.operation, use.operand_number) for use in old.uses]
    old.set_type(versioned)
    block = ir.BlockArgument(old).owner
    ip = before(operations(block)[0])
    view = slot_zero(old, kind, shape, ip)
    for user, number in uses:
        user.operands[number] = view
    return view


def _new_allocation(op: Operation | None, versioned: Any) -> Value:
    assert op is not None
    return retyped(op, versioned)


def _new_window(view: Operation | None, versioned: Any, start: int) -> tuple[Value, Any]:
    """A window of dynamic shared memory from byte `start` on; what the function needs grows."""
    assert view is not None
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
    function = enclosing(loop, FUNCTION_OPS)
    assert function is not None
    ip = before(operations(function.regions[0].blocks[0])[0])
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
    view = slot_subview(
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
    result = strided(kind, shape, strides, offset)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(offsets, context),
        "static_sizes": ir.DenseI64ArrayAttr.get([1, *shape], context),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * (len(shape) + 1), context),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(dynamic), 0, 0], context),
    }
    return create(
        "memref.subview", [value, *dynamic], [result], attributes, ip=ip, loc=loc
    ).results[0]


def strided(kind: Any, shape: tuple[int, ...], strides: list[int], offset: str) -> Any:
    """The memref type of a part of `kind` with this layout."""
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
