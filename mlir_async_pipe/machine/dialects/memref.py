"""memref (and affine.load/store/apply): allocation, views, loads, stores, atomics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.affine_maps import parse_map
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.arith import dense_array
from mlir_async_pipe.machine.dialects.scf import packer
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import kind_of
from mlir_async_pipe.machine.memory import GLOBAL, PRIVATE, WORKGROUP
from mlir_async_pipe.machine.memref_types import DYNAMIC, MemRefShape, memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.machine.values import MemRef, lanes_of, uniform

Array = np.ndarray


# Loads and stores -----------------------------------------------------------------------


@semantics("memref.load")
def load(site: Site) -> Execute:
    """One element for each lane."""
    kind = memref_shape(site.operand_type(0), site.op).element

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        return access.read(unit, site, access.locate(unit, site, memory, indices), kind)

    return execute


@semantics("memref.store")
def store(site: Site) -> Execute:
    """One element for each lane."""
    kind = memref_shape(site.operand_type(1), site.op).element

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> None:
        access.write(unit, site, access.locate(unit, site, memory, indices), value, kind)

    return execute


@semantics("affine.load")
def affine_load(site: Site) -> Execute:
    """A load at the results of a map."""
    subscripts = parse_map(site.text("map"))
    kind = memref_shape(site.operand_type(0), site.op).element

    def execute(unit: Unit, memory: MemRef, *operands: Array) -> Array:
        where = access.locate(unit, site, memory, tuple(subscripts(operands)))
        return access.read(unit, site, where, kind)

    return execute


@semantics("affine.store")
def affine_store(site: Site) -> Execute:
    """A store at the results of a map."""
    subscripts = parse_map(site.text("map"))
    kind = memref_shape(site.operand_type(1), site.op).element

    def execute(unit: Unit, value: Array, memory: MemRef, *operands: Array) -> None:
        where = access.locate(unit, site, memory, tuple(subscripts(operands)))
        access.write(unit, site, where, value, kind)

    return execute


@semantics("affine.apply")
def affine_apply(site: Site) -> Execute:
    """The one result of a map."""
    function = parse_map(site.text("map"))
    return lambda unit, *operands: function(operands)[0]


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


@semantics("memref.alloc", "memref.alloca")
def allocate(site: Site) -> Execute:
    """Workgroup memory exists once a block; any other allocation once a thread."""
    shape = memref_shape(site.result_type(), site.op)
    dynamic = site.segments()[0]

    def execute(unit: Unit, *operands: Array) -> MemRef:
        view = shape.over(uniform(0), list(operands[:dynamic]))
        size = int(shape.extent_bytes(view).max())
        name = f"{site.name} at {site.place}"
        if shape.space == WORKGROUP:
            buffer = unit.launch.shared_buffer(unit, site.number, size, name, site.place)
            return replace(view, base=uniform(buffer.base))
        stride = -(-size // 256) * 256
        space = PRIVATE if unit.width > 1 or shape.space == PRIVATE else GLOBAL
        total = stride * (unit.width - 1) + size
        buffer = unit.launch.memory.allocate(total, space, name, site.place)
        return replace(view, base=buffer.base + stride * np.arange(unit.width))

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
    declaration = site.decoder.symbols.get(name)
    if declaration is None:
        raise site.unsupported(f"no global '{name}'")
    contents = _initial_bytes(site, declaration, shape)

    def execute(unit: Unit) -> MemRef:
        view = shape.over(uniform(0), [])
        size = int(shape.extent_bytes(view)[0])
        if shape.space == WORKGROUP:
            buffer = unit.launch.shared_once(("global", name), size, f"@{name}", site.place)
        else:
            buffer = unit.launch.global_once(name, size, site.place, contents)
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


@semantics("memref.global", "func.func", "llvm.mlir.global")
def declaration(site: Site) -> Execute:
    """A symbol inside a function body declares and does nothing."""
    return lambda unit: None


# Views ----------------------------------------------------------------------------------


@semantics("memref.subview")
def subview(site: Site) -> Execute:
    """Offsets, sizes and strides, static or dynamic; unit dimensions may be dropped."""
    offsets = site.integers("static_offsets")
    sizes = site.integers("static_sizes")
    strides = site.integers("static_strides")
    _, offset_count, size_count, _ = site.segments()
    kept = _kept_dimensions(sizes, memref_shape(site.result_type(), site.op))

    def execute(unit: Unit, memory: MemRef, *dynamic: Array) -> MemRef:
        at = _fill(offsets, dynamic[:offset_count])
        lengths = _fill(sizes, dynamic[offset_count : offset_count + size_count])
        steps = _fill(strides, dynamic[offset_count + size_count :])
        start = memory.offset
        for position, stride in zip(at, memory.strides, strict=True):
            start = start + position * stride
        scaled = [step * stride for step, stride in zip(steps, memory.strides, strict=True)]
        return MemRef(
            memory.base,
            start,
            tuple(lengths[number] for number in kept),
            tuple(scaled[number] for number in kept),
            memory.element,
        )

    return execute


def _fill(static: tuple[int, ...], dynamic: tuple[Array, ...]) -> list[Array]:
    given = iter(dynamic)
    return [next(given) if value == DYNAMIC else uniform(value) for value in static]


def _kept_dimensions(sizes: tuple[int, ...], result: MemRefShape) -> list[int]:
    """Which dimensions of a subview are left in its result type, first fit from the left."""
    kept: list[int] = []
    spare = len(sizes) - len(result.sizes)
    for number, size in enumerate(sizes):
        wanted = result.sizes[len(kept)] if len(kept) < len(result.sizes) else None
        if spare and size == 1 and wanted != 1:
            spare -= 1
            continue
        kept.append(number)
    return kept[: len(result.sizes)]


@semantics("memref.cast", "memref.memory_space_cast", "memref.assume_alignment")
def same_memory(site: Site) -> Execute:
    """Another type for the same memory."""
    return lambda unit, memory: memory


@semantics("memref.reinterpret_cast")
def reinterpret(site: Site) -> Execute:
    """New offset, sizes and strides over the same aligned pointer."""
    offsets = site.integers("static_offsets")
    sizes = site.integers("static_sizes")
    strides = site.integers("static_strides")
    _, offset_count, size_count, _ = site.segments()

    def execute(unit: Unit, memory: MemRef, *dynamic: Array) -> MemRef:
        return MemRef(
            memory.base,
            _fill(offsets, dynamic[:offset_count])[0],
            tuple(_fill(sizes, dynamic[offset_count : offset_count + size_count])),
            tuple(_fill(strides, dynamic[offset_count + size_count :])),
            memory.element,
        )

    return execute


@semantics("memref.view")
def view(site: Site) -> Execute:
    """Bytes seen as another type, from a byte offset on."""
    shape = memref_shape(site.result_type(), site.op)

    def execute(unit: Unit, memory: MemRef, shift: Array, *sizes: Array) -> MemRef:
        return shape.over(memory.address + shift, list(sizes))

    return execute


@semantics("memref.collapse_shape", "memref.expand_shape")
def reshape(site: Site) -> Execute:
    """Groups of dimensions joined, or one dimension split."""
    groups = [
        [int(ir.IntegerAttr(entry).value) for entry in ir.ArrayAttr(group)]
        for group in ir.ArrayAttr(site.op.attributes["reassociation"])
    ]
    if site.name == "memref.collapse_shape":
        return lambda unit, memory: _collapse(memory, groups)
    shape = site.integers("static_output_shape")
    return lambda unit, memory, *dynamic: _expand(memory, groups, _fill(shape, dynamic))


def _collapse(memory: MemRef, groups: list[list[int]]) -> MemRef:
    sizes, strides = [], []
    for group in groups:
        total = uniform(1)
        for number in group:
            total = total * memory.sizes[number]
        sizes.append(total)
        strides.append(memory.strides[group[-1]] if group else uniform(1))
    return replace(memory, sizes=tuple(sizes), strides=tuple(strides))


def _expand(memory: MemRef, groups: list[list[int]], shape: list[Array]) -> MemRef:
    strides: list[Any] = [None] * len(shape)
    for source, group in enumerate(groups):
        step = memory.strides[source]
        for number in reversed(group):
            strides[number] = step
            step = step * shape[number]
    return replace(memory, sizes=tuple(shape), strides=tuple(strides))


@semantics("memref.transpose")
def transpose(site: Site) -> Execute:
    """Dimensions in another order."""
    order = parse_map(site.text("permutation")).permutation()

    def execute(unit: Unit, memory: MemRef) -> MemRef:
        return replace(
            memory,
            sizes=tuple(memory.sizes[number or 0] for number in order),
            strides=tuple(memory.strides[number or 0] for number in order),
        )

    return execute


@semantics("memref.dim")
def dimension(site: Site) -> Execute:
    """One size; the dimension may differ by lane."""

    def execute(unit: Unit, memory: MemRef, number: Array) -> Array:
        result = memory.sizes[0]
        for candidate, size in enumerate(memory.sizes):
            result = np.where(number == candidate, size, result)
        return result

    return execute


@semantics("memref.rank")
def rank(site: Site) -> Execute:
    """The number of dimensions."""
    return lambda unit, memory: uniform(memory.rank)


@semantics("memref.extract_strided_metadata")
def metadata(site: Site) -> Execute:
    """Base buffer, offset, sizes and strides."""

    def execute(unit: Unit, memory: MemRef) -> tuple[Any, ...]:
        base = replace(memory, offset=uniform(0), sizes=(), strides=())
        return (base, memory.offset, *memory.sizes, *memory.strides)

    return execute


@semantics("memref.extract_aligned_pointer_as_index")
def aligned_pointer(site: Site) -> Execute:
    """The aligned pointer as a byte address."""
    return lambda unit, memory: memory.base


# Whole buffers and atomics --------------------------------------------------------------


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
        return atomic_update(unit, site, where, kind, lambda lane, old: combine(old, lane(value)))

    return execute


def _as_unsigned(function: Any) -> Any:
    from mlir_async_pipe.machine.kinds import unsigned

    return lambda a, b: function(unsigned(a), unsigned(b)).view(a.dtype)


ATOMIC_KINDS: dict[str, Any] = {
    "addf": np.add, "addi": np.add, "mulf": np.multiply, "muli": np.multiply,
    "assign": lambda old, new: new, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "maximumf": np.maximum, "minimumf": np.minimum,
    "maxnumf": np.fmax, "minnumf": np.fmin, "maxs": np.maximum, "mins": np.minimum,
    "maxu": _as_unsigned(np.maximum), "minu": _as_unsigned(np.minimum),
}  # fmt: skip


def atomic_update(unit: Unit, site: Site, where: Any, kind: Any, change: Any) -> Array:
    """Apply `change(lane, old)` to one element for each lane in turn; returns old values.

    `lane(value)` gives a value's entry of the running lane.
    """
    access.update(unit, site, where)
    memory = unit.launch.memory
    lanes, _, addresses = where.rows(unit)
    before = np.zeros((unit.width, *addresses.shape[1:]), kind.dtype)
    for row, number in enumerate(lanes):
        old = memory.load(addresses[row : row + 1], kind)
        before[number] = old[0]

        def lane(value: Array, number: int = number) -> Array:
            return lanes_of(value, unit.width)[number : number + 1]

        if unit.deferred is None or not unit.deferred.recording:
            memory.store(addresses[row : row + 1], kind.settle(change(lane, old)), kind)
    return before


@semantics("memref.generic_atomic_rmw")
def generic_atomic(site: Site) -> Execute:
    """An atomic whose region computes the new value."""
    kind = memref_shape(site.operand_type(0), site.op).element
    region = site.region()

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices)
        access.update(unit, site, where)
        lanes, _, addresses = where.rows(unit)
        before = np.zeros(unit.width, kind.dtype)
        for row, number in enumerate(lanes):
            old = unit.launch.memory.load(addresses[row : row + 1], kind)
            before[number] = old[0]
            only = np.arange(unit.width) == number
            (new,) = unit.under(only, region, (old,))
            value = lanes_of(new, unit.width)[number : number + 1]
            unit.launch.memory.store(addresses[row : row + 1], value, kind)
        return before

    return execute


@semantics("builtin.unrealized_conversion_cast")
def conversion_cast(site: Site) -> Execute:
    """Between types that mean the same value; anything that changes form is refused."""
    pack = packer(site)
    sources = [str(value.type) for value in site.op.operands]
    targets = [str(value.type) for value in site.op.results]
    plain = len(sources) == len(targets) == 1
    if plain and all(text.startswith("memref<") for text in (*sources, *targets)):
        return lambda unit, value: value
    if plain and kind_of(site.result_type(), site.op).dtype == site.operand_kind().dtype:
        return lambda unit, value: pack([value])
    raise site.unsupported(f"from {sources} to {targets}")
