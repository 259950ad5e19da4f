"""llvm: constants, aggregates, pointers, loads and stores, calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, integer_attribute
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics, size_in_memory
from mlir_async_pipe.machine.dialects.arith import COMBINE
from mlir_async_pipe.machine.dialects.memref import atomic_update, combining, initial_bytes, own
from mlir_async_pipe.machine.kinds import BYTE, Kind, kind_of
from mlir_async_pipe.machine.lane_values import Array, lanes_of, uniform
from mlir_async_pipe.machine.terms import is_array
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, members_of, steps_of
from mlir_async_pipe.vocabulary.memory_names import is_dynamic_memory, taken_member
from mlir_async_pipe.vocabulary.products import stays_in_place


@semantics("llvm.mlir.zero")
def zero(site: Site) -> Execute:
    """All zeros: numbers and the null pointer."""
    value = aggregate(site.result_type(), site, lambda kind: np.zeros((1, *kind.shape), kind.dtype))
    return lambda unit: _wrote(unit, site, value)


@semantics("llvm.mlir.undef", "llvm.mlir.poison", "ub.poison")
def undefined(site: Site) -> Execute:
    """All bits set; a struct or array of such."""

    def fill(kind: Kind) -> Array:
        count = max(1, int(np.prod(kind.shape)))
        raw = np.full(count * kind.item_bytes, 0xFF, np.uint8).view(kind.stored)
        return kind.decode(raw).reshape((1, *kind.shape))

    value = aggregate(site.result_type(), site, fill)
    return lambda unit: value


def aggregate(kind: Any, site: Site, fill: Callable[[Kind], Array]) -> Any:
    """A value of an LLVM type: structs and arrays are tuples of their members' values."""
    members = members_of(kind)
    if members is None:
        return fill(kind_of(kind, site.op))
    return tuple(aggregate(member, site, fill) for member in members)


@semantics("llvm.extractvalue")
def extract_value(site: Site) -> Execute:
    position = site.integers("position")
    # What was put there in sight is the register that was put.
    stays = stays_in_place(site.op.results[0]) or taken_member(site.op) is not None

    def execute(unit: Unit, value: Any) -> Any:
        for index in position:
            value = value[index]
        if not (stays or isinstance(value, tuple)):
            _wrote(unit, site, value)
        return value

    return execute


@semantics("llvm.insertvalue")
def insert_value(site: Site) -> Execute:
    position = site.integers("position")
    stays = stays_in_place(site.op.operands[1])

    def put(container: Any, value: Any, path: tuple[int, ...]) -> Any:
        if not path:
            return value
        index, *rest = path
        changed = put(container[index], value, tuple(rest))
        return (*container[:index], changed, *container[index + 1 :])

    def execute(unit: Unit, container: Any, value: Any) -> Any:
        if is_array(value) and unit.registers is not None and not stays:
            # A register of its own.
            value = _wrote(unit, site, value.view())
        return put(container, value, position)

    return execute


def _wrote(unit: Unit, site: Site, value: Any) -> Any:
    """A thread writes registers that may be those of sums, or reads them."""
    if unit.registers is not None:
        unit.registers.touch(unit, site, value)
    return value


@semantics("llvm.freeze", "llvm.inttoptr", "llvm.ptrtoint", "llvm.addrspacecast")
def same_value(site: Site) -> Execute:
    """Pointers are byte addresses whatever their space."""
    kind = site.result_kind()
    return lambda unit, value: kind.settle(value)


# Memory ---------------------------------------------------------------------------------


@semantics("llvm.getelementptr")
def element_pointer(site: Site) -> Execute:
    """Address arithmetic by the layout of the element type."""
    try:
        offset, steps = steps_of(site.op)
    except UnknownLayoutError as error:
        raise site.unsupported(str(error)) from error

    def execute(unit: Unit, *operands: Array) -> Array:
        moved = (step * operands[number].astype(np.int64) for number, step in steps)
        return sum(moved, operands[0] + offset)

    return execute


def pointer_span(unit: Unit, site: Site, pointer: Array, kind: Kind) -> access.ByteSpan:
    """The elements of `kind` from a pointer on; lanes that are off go to the null page."""
    addresses = pointer.reshape(-1, *(1,) * len(kind.shape)) + kind.byte_offsets()
    addresses = access.within_memory(unit, addresses)
    return access.aligned(unit, site, access.span(unit, addresses, kind.item_bytes, unit.mask))


@semantics("llvm.load")
def load(site: Site) -> Execute:
    kind = site.result_kind()
    return lambda unit, pointer: access.read(
        unit, site, pointer_span(unit, site, pointer, kind), kind.element
    )


@semantics("llvm.store")
def store(site: Site) -> Execute:
    kind = site.operand_kind(0)

    def execute(unit: Unit, value: Array, pointer: Array) -> None:
        access.write(unit, site, pointer_span(unit, site, pointer, kind), value, kind.element)

    return execute


@semantics("llvm.intr.memcpy", "llvm.intr.memmove", "llvm.intr.memcpy.inline")
def copy_bytes(site: Site) -> Execute:
    """Bytes from one pointer to another, as many in each lane as its size says."""
    always = site.integer("len")

    def execute(unit: Unit, target: Array, source: Array, *size: Array) -> None:
        for count, lanes in _sizes(unit, always, size):
            values = access.read(unit, site, _bytes(unit, source, count, lanes), BYTE)
            access.write(unit, site, _bytes(unit, target, count, lanes), values, BYTE)

    return execute


@semantics("llvm.intr.memset", "llvm.intr.memset.inline")
def fill_bytes(site: Site) -> Execute:
    """The same byte, as often in each lane as its size says."""
    always = site.integer("len")

    def execute(unit: Unit, target: Array, value: Array, *size: Array) -> None:
        for count, lanes in _sizes(unit, always, size):
            values = np.repeat(value.reshape(-1, 1), count, axis=1)
            access.write(unit, site, _bytes(unit, target, count, lanes), values, BYTE)

    return execute


def _sizes(unit: Unit, always: int | None, size: tuple[Array, ...]) -> list[tuple[int, Array]]:
    """Each number of bytes, and the active lanes that have it; none of those that have 0."""
    counts = lanes_of(size[0] if size else uniform(always), unit.width)
    active = unit.active()
    return [(int(n), active & (counts == n)) for n in np.unique(counts[active]) if n]


def _bytes(unit: Unit, pointer: Array, count: int, lanes: Array) -> access.ByteSpan:
    addresses = pointer.reshape(-1, 1) + np.arange(count)
    return access.span(unit, access.within_memory(unit, addresses), 1, lanes)


@semantics("llvm.alloca")
def allocate(site: Site) -> Execute:
    """Memory of each thread's own."""
    size = size_in_memory(ir.TypeAttr(site.op.attributes["elem_type"]).value, site.op)

    def execute(unit: Unit, count: Array) -> Array:
        name, bytes_ = f"{site.name} at {site.place}", int(count.max()) * size
        return np.asarray(unit.launch.private_memory(unit, bytes_, name, site.place))

    return execute


@semantics("llvm.mlir.addressof")
def address_of(site: Site) -> Execute:
    """A global: workgroup ones exist once a block, others once a run."""
    name = ir.FlatSymbolRefAttr(site.op.attributes["global_name"]).value
    declaration = site.decoder.symbol(name, site.op)
    if declaration is None or declaration.name != "llvm.mlir.global":
        raise site.unsupported(f"no global '{name}'")
    kind = ir.TypeAttr(declaration.attributes["global_type"]).value
    size = size_in_memory(kind, site.op)
    shared = integer_attribute(declaration, "addr_space") == 3
    contents = None if shared else _initial_bytes(site, declaration, kind)
    where = {"is_shared": shared, "is_dynamic": shared and is_dynamic_memory(site.op)}
    return lambda unit: uniform(unit.launch.variable(site, name, size, contents, **where).base)


def _initial_bytes(site: Site, declaration: Any, held: Any) -> Array | None:
    if "value" not in declaration.attributes:
        return None
    value = declaration.attributes["value"]
    dense = as_kind(ir.DenseElementsAttr, value)
    element = held if dense is None else ir.ShapedType(dense.type).element_type
    return initial_bytes(site, declaration, "value", kind_of(element, site.op))


@semantics("llvm.atomicrmw")
def atomic(site: Site) -> Execute:
    """Read, combine, write in one step, lane after lane."""
    kind = site.result_kind()
    words = str(site.op).split("llvm.atomicrmw")[1].split()
    combine = COMBINE[words[0] if words[0] != "volatile" else words[1]]

    def execute(unit: Unit, pointer: Array, value: Array) -> Array:
        where = pointer_span(unit, site, pointer, kind)
        return atomic_update(unit, site, where, kind, combining(unit, combine, value))

    return execute


@semantics("llvm.cmpxchg")
def compare_exchange(site: Site) -> Execute:
    """Writes where the old value is the expected one; gives the old value and whether it wrote."""
    kind = kind_of(site.op.operands[1].type, site.op)

    def execute(unit: Unit, pointer: Array, expected: Array, value: Array) -> tuple[Array, Array]:
        where = pointer_span(unit, site, pointer, kind)

        def change(lane: int, old: Array) -> Array:
            return np.where(old == own(unit, expected, lane), own(unit, value, lane), old)

        old = atomic_update(unit, site, where, kind, change)
        return old, old == lanes_of(expected, unit.width)

    return execute


def wave_base(unit: Unit, pointer: Array) -> Array:
    """Each lane's value replaced by that of the first active lane of its wave."""
    values = lanes_of(pointer, unit.width).copy()
    waves = unit.threads // unit.warp
    for lane in unit.first_lanes():
        values[waves == waves[lane]] = values[lane]
    return values
