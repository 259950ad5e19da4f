"""memref (and affine.load, store, apply): loads, stores, allocation, copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.facts.values.affine_expressions import parts_of, weights_of
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.access import ByteSpan
from mlir_async_pipe.machine.affine_maps import parse_map
from mlir_async_pipe.machine.clocked_detector import ClockedDetector
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.arith import dense_array, on_unsigned
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import MemRef, lanes_of, uniform
from mlir_async_pipe.machine.memory import GLOBAL, PRIVATE, WORKGROUP, MemRefShape, memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary.barriers import FENCE_ROWS
from mlir_async_pipe.vocabulary.memory_names import is_dynamic_memory

Array = np.ndarray


# Loads and stores -----------------------------------------------------------------------


@semantics("memref.load", "affine.load", "vector.load")
def load(site: Site) -> Execute:
    """One element for each lane, or neighbouring ones in the trailing dimensions."""
    subscripts, extent, kind = _moved(site, 0, site.result_kind())

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, subscripts(indices), extent)
        return access.read(unit, site, where, kind)

    return execute


@semantics("memref.store", "affine.store", "vector.store")
def store(site: Site) -> Execute:
    """One element for each lane, or neighbouring ones in the trailing dimensions."""
    subscripts, extent, kind = _moved(site, 1, site.operand_kind(0))

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> None:
        where = access.locate(unit, site, memory, subscripts(indices), extent)
        access.write(unit, site, where, value, kind)

    return execute


def _moved(
    site: Site, number: int, kind: Kind
) -> tuple[Callable[[Any], tuple[Array, ...]], tuple[int, ...], Kind]:
    """Subscripts from operands (of affine ops by a map), how many elements, and their kind."""
    element = memref_shape(site.operand_type(number), site.op).element
    mapped = parse_map(site.text("map")) if site.has("map") else tuple
    extent = () if element.shape else kind.shape
    return lambda operands: tuple(mapped(operands)), extent, kind.element


@semantics("affine.apply")
def affine_apply(site: Site) -> Execute:
    """The one result of a map."""
    function = parse_map(site.text("map"))
    return lambda unit, *operands: function(operands)[0]


@semantics("affine.delinearize_index")
def split_index(site: Site) -> Execute:
    """One number for each size, the innermost running fastest."""
    parts = parts_of(site.op)
    if parts is None:
        raise site.unsupported("a size that is no constant")

    def execute(unit: Unit, index: Array) -> tuple[Array, ...]:
        divided = (np.floor_divide(index, part.stride) for part in parts)
        return tuple(
            number if part.modulus is None else np.mod(number, part.modulus)
            for number, part in zip(divided, parts, strict=True)
        )

    return execute


@semantics("affine.linearize_index")
def join_index(site: Site) -> Execute:
    """The sum of the indices, each times the sizes inside it."""
    weights = weights_of(site.op)
    if weights is None:
        raise site.unsupported("a size that is no constant")
    return lambda unit, *indices: sum(i * w for i, w in zip(indices, weights, strict=True))


@semantics("affine.min", "affine.max")
def affine_extremum(site: Site) -> Execute:
    """The smallest or largest result of a map."""
    function = parse_map(site.text("map"))
    pick = np.minimum if site.name == "affine.min" else np.maximum

    def execute(unit: Unit, *operands: Array) -> Array:
        best, *others = function(operands)
        for other in others:
            best = pick(best, other)
        return best

    return execute


# Allocation -----------------------------------------------------------------------------


@semantics("memref.alloc", "memref.alloca", "gpu.alloc")
def allocate(site: Site) -> Execute:
    """Workgroup memory exists once a block; any other allocation once a thread."""
    shape = memref_shape(site.result_type(), site.op)
    *tokens, dynamic, _ = site.segments()
    first = sum(tokens)

    def execute(unit: Unit, *operands: Array) -> MemRef:
        view = shape.over(uniform(0), list(operands[first : first + dynamic]))
        size = int(shape.extent_bytes(view).max())
        name = f"{site.name} at {site.place}"
        if shape.space == WORKGROUP:
            buffer = unit.launch.shared_buffer(unit, site.number, size, name, site.place)
            return replace(view, base=uniform(buffer.base))
        space = PRIVATE if unit.width > 1 or shape.space == PRIVATE else GLOBAL
        base = unit.launch.private_memory(unit, size, name, site.place, space)
        return replace(view, base=base)

    return execute


@semantics("memref.dealloc")
def deallocate(site: Site) -> Execute:
    """The end of a buffer; whatever touches it afterwards is out of bounds."""

    def execute(unit: Unit, memory: MemRef) -> None:
        for base in np.unique(memory.base):
            buffer = unit.launch.memory.buffer_at(int(base))
            if buffer is not None and unit.launch.may_free(unit, buffer):
                unit.launch.memory.free(buffer)

    return execute


@semantics("memref.get_global")
def get_global(site: Site) -> Execute:
    """Workgroup globals exist once a block, others once a run, with their initial value."""
    name = ir.FlatSymbolRefAttr(site.op.attributes["name"]).value
    shape = memref_shape(site.result_type(), site.op)
    declaration = site.decoder.symbol(name, site.op)
    if declaration is None:
        raise site.unsupported(f"no global '{name}'")
    contents = _initial_bytes(site, declaration, shape)
    where = {"is_shared": shape.space == WORKGROUP, "is_dynamic": is_dynamic_memory(site.op)}

    def execute(unit: Unit) -> MemRef:
        view = shape.over(uniform(0), [])
        size = int(shape.extent_bytes(view)[0])
        buffer = unit.launch.variable(site, name, size, contents, **where)
        return replace(view, base=uniform(buffer.base))

    return execute


def _initial_bytes(site: Site, declaration: Any, shape: MemRefShape) -> Array | None:
    if "initial_value" not in declaration.attributes:
        return None
    value = declaration.attributes["initial_value"]
    if str(value) == "unit":
        return None
    array = dense_array(site, value, shape.element.element)
    return np.ascontiguousarray(shape.element.encode(array)).reshape(-1).view(np.uint8)


@semantics("memref.copy")
def copy(site: Site) -> Execute:
    """Every element, by every lane."""
    source_shape = memref_shape(site.operand_type(0), site.op)
    target_shape = memref_shape(site.operand_type(1), site.op)

    def execute(unit: Unit, source: MemRef, target: MemRef) -> None:
        extent = tuple(int(size.max()) for size in source.sizes)
        start = tuple(uniform(0) for _ in extent)
        values = access.read(
            unit, site, access.locate(unit, site, source, start, extent), source_shape.element
        )
        where = access.locate(unit, site, target, start, extent)
        access.write(unit, site, where, values, target_shape.element)

    return execute


@semantics("memref.atomic_rmw")
def atomic(site: Site) -> Execute:
    """Read, combine, write in one step, lane after lane; gives the old value."""
    kind = memref_shape(site.operand_type(1), site.op).element
    # The numbers behind the attribute differ between versions of MLIR, its words do not.
    combine = ATOMIC_KINDS[str(site.op).split("memref.atomic_rmw")[1].split()[0]]

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices)
        return atomic_update(unit, site, where, kind, combining(unit, combine, value))

    return execute


ATOMIC_KINDS: dict[str, Any] = {
    "addf": np.add, "addi": np.add, "mulf": np.multiply, "muli": np.multiply,
    "assign": lambda old, new: new, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "maximumf": np.maximum, "minimumf": np.minimum,
    "maxnumf": np.fmax, "minnumf": np.fmin, "maxs": np.maximum, "mins": np.minimum,
    "maxu": on_unsigned(np.maximum), "minu": on_unsigned(np.minimum),
}  # fmt: skip


def atomic_update(
    unit: Unit, site: Site, where: ByteSpan, kind: Kind, change: Callable[[int, Array], Array]
) -> Array:
    """Apply `change(lane, old)` to one element for each lane in turn; returns old values."""
    access.update(unit, site, where)
    memory = unit.launch.memory
    lanes, _, addresses = where.rows(unit)
    before = memory.zeros((unit.width, *addresses.shape[1:]), kind.dtype)
    for row, number in enumerate(lanes):
        old = memory.load(addresses[row : row + 1], kind)
        before[number] = old[0]
        if unit.deferred is None or not unit.deferred.recording:
            new = kind.settle(change(number, old))
            # What does not change memory lets nobody go on who waits for a change.
            if kind.encode(new).tobytes() != kind.encode(old).tobytes():
                memory.store(addresses[row : row + 1], new, kind)
    return before


def combining(unit: Unit, combine: Any, value: Array) -> Callable[[int, Array], Array]:
    """A change that combines the old value with the lane's own."""
    return lambda lane, old: combine(old, own(unit, value, lane))


def own(unit: Unit, value: Array, lane: int) -> Array:
    """A value's entry of one lane."""
    return lanes_of(value, unit.width)[lane : lane + 1]


@semantics("memref.generic_atomic_rmw")
def generic_atomic(site: Site) -> Execute:
    """An atomic whose region computes the new value."""
    kind = memref_shape(site.operand_type(0), site.op).element
    region = site.region()

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        def change(lane: int, old: Array) -> Array:
            (new,) = unit.under(np.arange(unit.width) == lane, region, (old,))
            return own(unit, new, lane)

        where = access.locate(unit, site, memory, indices)
        return atomic_update(unit, site, where, kind, change)

    return execute


@semantics(*(row.op for row in FENCE_ROWS if not row.shows_writes))
def fence(site: Site) -> Execute:
    """Orders what its threads do in memory, and changes nothing."""

    def execute(unit: Unit, *operands: Array) -> None:
        refuse_in_scope(unit, site)
        detector = unit.launch.detector
        if isinstance(detector, ClockedDetector):
            detector.fence_order(site.number, unit.grid_threads(unit.active()))

    return execute
