"""memref (and affine.load, store, apply): loads, stores, allocation, copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import mul
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.facts.values.domains import parts_of_split, weights_of_join
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.access import AffineMap, ByteSpan, fill
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.arith import COMBINE, constant_array
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.dialects.scf import packer
from mlir_async_pipe.machine.dialects.tma import TENSOR_MAP, passed_tensor
from mlir_async_pipe.machine.kinds import Kind, kind_of
from mlir_async_pipe.machine.lane_values import (
    UNKNOWN_GROUP,
    Array,
    MemRef,
    Token,
    lanes_of,
    uniform,
)
from mlir_async_pipe.machine.memory import GLOBAL, PRIVATE, WORKGROUP, MemRefShape, memref_shape
from mlir_async_pipe.machine.warp_clock import ClockedDetector
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE
from mlir_async_pipe.vocabulary.barriers import FENCE_ROWS
from mlir_async_pipe.vocabulary.memory_names import is_dynamic_memory

# Loads and stores -----------------------------------------------------------------------


@semantics("memref.load", "affine.load", "vector.load")
def load(site: Site) -> Execute:
    """One element for each lane, or neighbouring ones in the trailing dimensions."""
    subscripts, extent, kind = _moved(site, 0, site.result_kind())

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, subscripts(indices), extent)
        return access.read(unit, site, access.aligned(unit, site, where), kind)

    return execute


@semantics("memref.store", "affine.store", "vector.store")
def store(site: Site) -> Execute:
    """One element for each lane, or neighbouring ones in the trailing dimensions."""
    subscripts, extent, kind = _moved(site, 1, site.operand_kind(0))

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> None:
        where = access.locate(unit, site, memory, subscripts(indices), extent)
        access.write(unit, site, access.aligned(unit, site, where), value, kind)

    return execute


def _moved(
    site: Site, number: int, kind: Kind
) -> tuple[Callable[[Any], tuple[Array, ...]], tuple[int, ...], Kind]:
    """Subscripts from operands (of affine ops by a map), how many elements, and their kind."""
    element = memref_shape(site.operand_type(number), site.op).element
    mapped = AffineMap(site.op.attributes["map"]) if site.has("map") else tuple
    extent = () if element.shape else kind.shape
    return lambda operands: tuple(mapped(operands)), extent, kind.element


@semantics("affine.apply")
def affine_apply(site: Site) -> Execute:
    function = AffineMap(site.op.attributes["map"])
    return lambda unit, *operands: function(operands)[0]


@semantics("affine.delinearize_index")
def split_index(site: Site) -> Execute:
    """One number for each size, the innermost running fastest."""
    parts = parts_of_split(site.op)
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
    weights = weights_of_join(site.op)
    if weights is None:
        raise site.unsupported("a size that is no constant")
    return lambda unit, *indices: sum(i * w for i, w in zip(indices, weights, strict=True))


@semantics("affine.min", "affine.max")
def affine_extremum(site: Site) -> Execute:
    function = AffineMap(site.op.attributes["map"])
    pick = np.minimum if site.name == "affine.min" else np.maximum
    return lambda unit, *operands: reduce(pick, function(operands))


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
    contents = initial_bytes(site, declaration, "initial_value", shape.element.element)
    where = {"is_shared": shape.space == WORKGROUP, "is_dynamic": is_dynamic_memory(site.op)}

    def execute(unit: Unit) -> MemRef:
        view = shape.over(uniform(0), [])
        size = int(shape.extent_bytes(view)[0])
        buffer = unit.launch.variable(site, name, size, contents, **where)
        return replace(view, base=uniform(buffer.base))

    return execute


def initial_bytes(site: Site, declaration: Any, name: str, kind: Kind) -> Array | None:
    """What an attribute of a global says that it holds, None where it says nothing."""
    if name not in declaration.attributes or str(declaration.attributes[name]) == "unit":
        return None
    array = constant_array(site, declaration.attributes[name], kind)
    return np.ascontiguousarray(kind.encode(array)).reshape(-1).view(np.uint8)


@semantics("memref.copy")
def copy(site: Site) -> Execute:
    """Every element, by every lane."""

    def execute(unit: Unit, source: MemRef, target: MemRef) -> None:
        extent = tuple(int(size.max()) for size in source.sizes)
        start = (uniform(0),) * len(extent)
        where = access.locate(unit, site, source, start, extent)
        values = access.read(unit, site, where, source.element)
        where = access.locate(unit, site, target, start, extent)
        access.write(unit, site, where, values, target.element)

    return execute


@semantics("memref.atomic_rmw")
def atomic(site: Site) -> Execute:
    """Read, combine, write in one step, lane after lane; gives the old value."""
    # The numbers behind the attribute differ between versions of MLIR, its words do not.
    combine = COMBINE[str(site.op).split("memref.atomic_rmw")[1].split()[0]]

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices)
        return atomic_update(unit, site, where, memory.element, combining(unit, combine, value))

    return execute


def atomic_update(
    unit: Unit, site: Site, where: ByteSpan, kind: Kind, change: Callable[[int, Array], Array]
) -> Array:
    """Apply `change(lane, old)` to one element for each lane in turn; returns old values."""
    access.enter(unit, site, where, "atomic")
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
    return lanes_of(value, unit.width)[lane : lane + 1]


@semantics("memref.generic_atomic_rmw")
def generic_atomic(site: Site) -> Execute:
    region = site.region()

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        def change(lane: int, old: Array) -> Array:
            (new,) = unit.under(np.arange(unit.width) == lane, region, (old,))
            return own(unit, new, lane)

        where = access.locate(unit, site, memory, indices)
        return atomic_update(unit, site, where, memory.element, change)

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


# Views -------------------------------------------------------------------------------------------
#
# memref views: other names, shapes and strides for the same memory.


@semantics("memref.subview")
def subview(site: Site) -> Execute:
    """Offsets, sizes and strides, static or dynamic; unit dimensions may be dropped."""
    box = _box(site)
    kept = _kept_dimensions(
        site.integers("static_sizes"), memref_shape(site.result_type(), site.op)
    )

    def execute(unit: Unit, memory: MemRef, *dynamic: Array) -> MemRef:
        at, lengths, steps = box(dynamic)
        scaled = [step * stride for step, stride in zip(steps, memory.strides, strict=True)]
        return replace(
            memory,
            offset=memory.linear(at),
            sizes=tuple(lengths[number] for number in kept),
            strides=tuple(scaled[number] for number in kept),
        )

    return execute


def _box(site: Site) -> Callable[[tuple[Array, ...]], list[list[Array]]]:
    """A function that gives offsets, sizes and strides, from those operands that are dynamic."""
    static = [site.integers(f"static_{name}") for name in ("offsets", "sizes", "strides")]
    # After the memref come the offsets, the sizes and the strides.
    ends = np.cumsum(site.segments())
    places = [slice(first - 1, last - 1) for first, last in pairwise(ends)]
    return lambda dynamic: [
        fill(numbers, dynamic[place]) for numbers, place in zip(static, places, strict=True)
    ]


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
    box = _box(site)

    def execute(unit: Unit, memory: MemRef, *dynamic: Array) -> MemRef:
        (offset, *_), sizes, strides = box(dynamic)
        return replace(memory, offset=offset, sizes=tuple(sizes), strides=tuple(strides))

    return execute


@semantics("memref.view")
def view(site: Site) -> Execute:
    """Bytes seen as another type, from a byte offset on."""
    shape = memref_shape(site.result_type(), site.op)
    return lambda unit, memory, shift, *sizes: shape.over(memory.address + shift, list(sizes))


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
    return lambda unit, memory, *dynamic: _expand(memory, groups, fill(shape, dynamic))


def _collapse(memory: MemRef, groups: list[list[int]]) -> MemRef:
    sizes = (reduce(mul, (memory.sizes[n] for n in group), uniform(1)) for group in groups)
    strides = (memory.strides[group[-1]] if group else uniform(1) for group in groups)
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
    order = AffineMap(site.op.attributes["permutation"]).permutation()

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
    return lambda unit, memory: uniform(memory.rank)


@semantics("memref.extract_strided_metadata")
def metadata(site: Site) -> Execute:
    def execute(unit: Unit, memory: MemRef) -> tuple[Any, ...]:
        base = replace(memory, offset=uniform(0), sizes=(), strides=())
        return (base, memory.offset, *memory.sizes, *memory.strides)

    return execute


@semantics("memref.extract_aligned_pointer_as_index")
def aligned_pointer(site: Site) -> Execute:
    return lambda unit, memory: memory.base


# LLVM's form of a vector of more than one dimension: an array of vectors.
_ARRAY = "!llvm.array<"


def _parted(value: Any, depth: int) -> Any:
    """The rows of a vector as a tuple."""
    if not depth:
        return value
    return tuple(_parted(value[:, row], depth - 1) for row in range(value.shape[1]))


def _joined(value: Any) -> Any:
    """The vector of which these are the rows."""
    if not isinstance(value, tuple):
        return value
    return np.stack(np.broadcast_arrays(*map(_joined, value)), axis=1)


@semantics("builtin.unrealized_conversion_cast")
def conversion_cast(site: Site) -> Execute:
    """Between types that mean the same value; anything that changes form is refused."""
    pack = packer(site)
    sources = [str(value.type) for value in site.op.operands]
    targets = [str(value.type) for value in site.op.results]
    plain = len(sources) == len(targets) == 1
    if plain and sources[0].startswith("!llvm.ptr") and targets[0].startswith(TENSOR_MAP):
        return passed_tensor(site)
    if plain and sources[0].startswith(TENSOR_MAP) and targets[0].startswith("!llvm.ptr"):
        return lambda unit, value: value
    if plain and sources[0].startswith("memref<") and targets[0].startswith("!llvm.struct<"):
        return lambda unit, memory: (
            (memory.base, memory.base, memory.offset, memory.sizes, memory.strides)
        )
    if plain and targets[0] == TOKEN_TYPE:
        # A number in the place of a token denotes no group.
        return lambda unit, value: Token("", uniform(UNKNOWN_GROUP))
    if plain and all(text.startswith("memref<") for text in (*sources, *targets)):
        return lambda unit, value: value
    if plain and targets[0].startswith(_ARRAY):
        # The arrays around the vectors: 2 in `!llvm.array<4 x array<2 x vector<2xf32>>>`.
        depth = targets[0].count("array<")
        return lambda unit, value: _parted(value, depth)
    if plain and sources[0].startswith(_ARRAY):
        return lambda unit, value: pack([_joined(value)])
    if plain and kind_of(site.result_type(), site.op).dtype == site.operand_kind().dtype:
        return lambda unit, value: pack([value])
    raise site.unsupported(f"from {sources} to {targets}")
