"""Gives a buffer its versions: memory with a slot dimension in front.

    memref.alloc : memref<128x32xf16>    -->     memref.alloc : memref<3x128x32xf16>
                                                 memref.subview %b[0, 0, 0] [1, 128, 32]

Users outside the loop (and the loop's own copy for short trips) see slot 0 under the old
type. The distance of two slots keeps every access aligned: a 40-byte buffer with 16-byte
accesses gets slots of 48 bytes, by padding its outermost dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.memory_globals import address_of, fresh_name
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
from mlir_async_pipe.dependence.privatise import find_global
from mlir_async_pipe.expand.plan.buffer_plan import (
    BufferPlan,
    buffer_value,
    slot_bytes,
    slot_shape,
)
from mlir_async_pipe.expand.write.slot_views import carried_attributes, retyped, slot_subview
from mlir_async_pipe.loops.annotations import DYNAMIC_SHARED_BYTES
from mlir_async_pipe.values.integer_ops import product
from mlir_async_pipe.values.shared_windows import end_of_windows
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.memory_layout import element_bytes


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
    """The block that stands for the function: blocks can be told apart over edits."""
    function = enclosing(loop, FUNCTION_OPS)
    return loop.block if function is None else function.regions[0].blocks[0]


def _allocate_in_function(wanted: list[tuple[Operation, BufferPlan]]) -> list[VersionedBuffer]:
    loops: dict[Any, Operation] = {}
    merged: dict[Any, BufferPlan] = {}
    for loop, plan in wanted:
        key = plan.root.identity
        loops.setdefault(key, loop)
        merged[key] = _both(merged[key], plan) if key in merged else plan
    start = 0
    if any(plan.root.kind == "dynamic" for plan in merged.values()):
        function = enclosing(next(iter(loops.values())), FUNCTION_OPS)
        assert function is not None
        start = end_of_windows(function, frozenset(merged))
    made = []
    for key, plan in merged.items():
        made.append(_allocate(plan, loops[key], start))
        if plan.root.kind == "dynamic":
            start += -(-plan.versions * plan.slot_bytes // 16) * 16
    return made


def _both(a: BufferPlan, b: BufferPlan) -> BufferPlan:
    """Room for the versions of two loops, with slots for the accesses of both."""
    regions = a.regions + b.regions
    return replace(
        a,
        regions=regions,
        versions=max(a.versions, b.versions),
        slot_bytes=slot_bytes(regions),
    )


def _allocate(plan: BufferPlan, loop: Operation, window: int) -> VersionedBuffer:
    """Make room for one buffer's versions, and let every present user see slot 0 of it.

    The accesses of the pipelined loop are moved to their slots afterwards.
    """
    old = buffer_value(plan.regions)
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
        replaced = [
            op.results[0]
            for op in walk(enclosing(loop, FUNCTION_OPS) or loop)
            if op.name == "memref.get_global"
            and str(ir.FlatSymbolRefAttr(op.attributes["name"]).value) == plan.root.key
        ]
    else:
        new = _new_allocation(defining_op(old), versioned)
        ip = after(source_op(new))
        replaced = [old]
    view = _slot_zero(new, kind, shape, ip)
    for value in replaced:
        value.replace_all_uses_with(view)
    if plan.root.kind in ("allocation", "dynamic"):
        old.owner.operation.erase()
    return VersionedBuffer(plan, new, shape, view)


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
    return retyped(op, versioned)


def _new_window(view: Operation | None, versioned: Any, start: int) -> tuple[Value, Any]:
    """A window of dynamic shared memory from byte `start` on; what the function needs grows."""
    assert view is not None
    function = enclosing(view, FUNCTION_OPS)
    assert function is not None
    ip, loc, index = before(view), view.location, ir.IndexType.get(view.context)
    offset = constant(start, index, ip, loc)
    made = create("memref.view", [view.operands[0], offset], [versioned], ip=ip, loc=loc)
    size = product(versioned.shape) * element_bytes(versioned)
    needed = max(start + size, integer_attribute(function, DYNAMIC_SHARED_BYTES) or 0)
    set_integer(function, DYNAMIC_SHARED_BYTES, needed, 64)
    return made.results[0], after(made)


def _new_global(plan: BufferPlan, versioned: Any, loop: Operation) -> tuple[Value, Any]:
    """A global of its own for the versions, and its address before the loop."""
    declared = find_global(plan.root)
    assert declared is not None
    attributes = carried_attributes(declared)
    context = declared.context
    name = fresh_name(declared.parent.operation, f"{plan.root.key}_versions")
    attributes["sym_name"] = ir.StringAttr.get(name, context)
    attributes["type"] = ir.TypeAttr.get(versioned, context)
    create("memref.global", (), (), attributes, ip=before(declared), loc=declared.location)
    function = enclosing(loop, FUNCTION_OPS)
    assert function is not None
    ip = before(operations(function.regions[0].blocks[0])[0])
    return address_of(name, versioned, ip, loop.location), ip


def _slot_zero(value: Value, kind: Any, shape: tuple[int, ...], ip: Any) -> Value:
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
    old_names = {b.plan.root.key for b in buffers if b.plan.root.kind == "global"}
    if not old_names:
        return
    found: dict[str, list[Operation]] = {}
    for op in walk(module):
        if op.name == "memref.get_global":
            name = str(ir.FlatSymbolRefAttr(op.attributes["name"]).value)
            if name in old_names:
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
            if name in old_names - live:
                op.erase()
