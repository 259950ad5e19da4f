"""memref views: other names, shapes and strides for the same memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.affine_maps import parse_map
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.scf import packer
from mlir_async_pipe.machine.dialects.tma import TENSOR_MAP, passed_tensor
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import kind_of
from mlir_async_pipe.machine.lane_values import (
    UNKNOWN_GROUP,
    MemRef,
    Token,
    uniform,
)
from mlir_async_pipe.machine.memory import DYNAMIC, MemRefShape, memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE

Array = np.ndarray


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


def fill(static: tuple[int, ...], dynamic: tuple[Array, ...]) -> list[Array]:
    """Static numbers, with the dynamic ones in their places."""
    given = iter(dynamic)
    return [next(given) if value == DYNAMIC else uniform(value) for value in static]


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
    return lambda unit, memory, *dynamic: _expand(memory, groups, fill(shape, dynamic))


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


# LLVM's form of a vector of more than one dimension: an array of vectors.
_ARRAY = "!llvm.array<"


def _depth(text: str) -> int:
    """The arrays around the vectors of `!llvm.array<4 x array<2 x vector<2xf32>>>`: 2."""
    return text.count("array<")


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
        depth = _depth(targets[0])
        return lambda unit, value: _parted(value, depth)
    if plain and sources[0].startswith(_ARRAY):
        return lambda unit, value: pack([_joined(value)])
    if plain and kind_of(site.result_type(), site.op).dtype == site.operand_kind().dtype:
        return lambda unit, value: pack([value])
    raise site.unsupported(f"from {sources} to {targets}")
