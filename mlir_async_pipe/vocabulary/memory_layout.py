"""How memory and registers hold values: bytes from element to element, bytes in all, alignment.

    memref<32x32xf16, strided<[40, 1]>>   2 bytes an element, 31 * 40 + 31 + 1 elements: 2544 bytes
    memref<64xi4>                         1 byte an element (LLVM packs vectors, not arrays)
    memref<8xvector<3xf32>>               16 bytes an element: 12 and 4 of padding
    llvm.struct<(ptr, i32)>               16 bytes an element: 8, 4, and 4 of padding

The rules are those of LLVM's data layout for both vendors' GPUs, where an array's elements lie
as far apart as their size rounded up to their alignment. All that reserves memory, compares
places in it, or executes it asks here.

In registers of 32 bits a value takes in each thread:

    vector<2x2xf32>                                                      4
    !llvm.struct<(f32, f32, vector<2xf16>)>                              3
    !nvgpu.warpgroup.accumulator<fragmented = vector<64x128xf32>>        64: those of 128 threads
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, type_text


class UnknownLayoutError(ValueError):
    """Nobody but its dialect knows how a type lies in memory, or no GPU can hold it."""


Answer = TypeVar("Answer")


def if_known(function: Callable[..., Answer], *given: Any) -> Answer | None:
    """What a function says of types; None where it raises UnknownLayoutError."""
    try:
        return function(*given)
    except UnknownLayoutError:
        return None


@dataclass(frozen=True)
class TypeLayout:
    """A type in memory: the bits of its value, the bytes from one to the next, its alignment."""

    bits: int
    stride_bytes: int
    alignment: int


def layout_of(kind: Any) -> TypeLayout:
    """The layout of a scalar, complex, pointer, vector or LLVM array or struct type.

    Raises UnknownLayoutError for any other, also for f80 and tf32: registers of other machines
    and of tensor cores, which a GPU's memory does not hold.
    """
    text = type_text(kind)
    if text not in _KNOWN:
        _KNOWN[text] = _find_layout(kind, text)
    known = _KNOWN[text]
    if known is None:
        raise UnknownLayoutError(f"no layout in memory is known for {kind}")
    return known


# A type's text says all about it, in every context; None: no layout.
_KNOWN: dict[str, TypeLayout | None] = {}


def _find_layout(kind: Any, text: str) -> TypeLayout | None:
    bits = _FLOAT_BITS.get(text)
    if bits is not None:
        return _scalar(bits)
    if (array := _LLVM_ARRAY.match(text)) is not None:
        return _times(int(array[1]), layout_of(_named(array[2], kind.context)), array=True)
    if (members := _members(kind, text)) is not None:
        return _struct(members)
    if (integer := as_kind(ir.IntegerType, kind)) is not None:
        return _scalar(int(integer.width))
    if (vector := as_kind(ir.VectorType, kind)) is not None:
        return _vector(vector)
    if text.startswith("!llvm.ptr") or text == BARRIER_STATE:
        return _scalar(64)
    pair = as_kind(ir.ComplexType, kind)
    return None if pair is None else _times(2, layout_of(pair.element_type))


def _times(count: int, part: TypeLayout, array: bool = False) -> TypeLayout:
    """So many parts side by side; the elements of an `array` have all their bytes as bits."""
    bits = 8 * part.stride_bytes if array else part.bits
    return TypeLayout(count * bits, count * part.stride_bytes, part.alignment)


# An mbarrier of AMD: 29 bits of pending arrivals, 3 of its phase, 32 of arrivals a phase (AMDGPU.td, MLIR).
BARRIER_STATE = "!amdgpu.ds_barrier_state"
# Floats of less than a byte are integers for LLVM, and integers are bytes in an array.
_FLOAT_BITS = {
    "index": 64,
    **{"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f128": 128},
    **dict.fromkeys("f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU".split(), 8),
    **{"f6E2M3FN": 6, "f6E3M2FN": 6, "f4E2M1FN": 4},
}  # fmt: skip
_LLVM_ARRAY = re.compile(r"^!llvm\.array<(\d+) x (.+)>$")
_LLVM_STRUCT = re.compile(r'^!llvm\.struct<(?:"[^"]*", )?(packed )?\((.*)\)>$')
# Inside of a type of LLVM the names of others have no prefix.
_LLVM_NAMES = ("ptr", "array<", "struct<", "target<")


def _named(text: str, context: Any) -> Any:
    if text.startswith(("vec<", "func<", "ppc_", "x86_", "void", "label", "token", "metadata")):
        raise UnknownLayoutError(f"no layout in memory is known for !llvm.{text}")
    return ir.Type.parse(f"!llvm.{text}" if text.startswith(_LLVM_NAMES) else text, context)


def members_of(kind: Any) -> tuple[Any, ...] | None:
    """The types of the members of an LLVM struct or array, None for other types."""
    text = type_text(kind)
    array, struct = _LLVM_ARRAY.match(text), _LLVM_STRUCT.match(text)
    if array is not None:
        return (_named(array[2], kind.context),) * int(array[1])
    parts = None if struct is None else _split(struct[2])
    return None if parts is None else tuple(_named(part, kind.context) for part in parts)


@dataclass(frozen=True)
class _Members:
    """The types of a struct, and where each begins, in bytes; `packed`: without padding."""

    kinds: tuple[Any, ...]
    offsets: tuple[int, ...]
    packed: bool


def _members(kind: Any, text: str) -> _Members | None:
    """The members of an LLVM struct, None for other types. Raises UnknownLayoutError where the chips
    differ: pointers of other spaces have 4 bytes or 8, integers of more than 64 bits their own
    alignments."""
    found, kinds = _LLVM_STRUCT.match(text), members_of(kind)
    if found is None or kinds is None:
        return None
    offsets, end = [], 0
    for member in kinds:
        layout = layout_of(member)
        if _depends_on_chip(type_text(member), layout):
            raise UnknownLayoutError(f"chips differ in the layout of {member} in {kind}")
        start = end if found[1] else rounded(end, layout.alignment)
        offsets.append(start)
        end = start + layout.stride_bytes
    return _Members(kinds, tuple(offsets), bool(found[1]))


def _depends_on_chip(text: str, layout: TypeLayout) -> bool:
    if text.startswith("!llvm.ptr<"):
        return text not in ("!llvm.ptr<1>", "!llvm.ptr<4>")
    return layout.bits > 64 and not text.startswith(("!llvm.struct<", "!llvm.array<", "vector<"))


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()] if text else []


def _struct(members: _Members) -> TypeLayout:
    layouts = [layout_of(kind) for kind in members.kinds]
    alignment = 1 if members.packed else max((row.alignment for row in layouts), default=1)
    end = members.offsets[-1] + layouts[-1].stride_bytes if layouts else 0
    size = rounded(end, alignment)
    return TypeLayout(8 * size, size, alignment)


def steps_of(gep: Any) -> tuple[int, tuple[tuple[int, int], ...]]:
    """What a getelementptr adds: bytes, and bytes for each operand by its number.

        %q = getelementptr %p[%i, 1]  of !llvm.struct<(ptr, i32)>     8 and 16 %i

    Raises UnknownLayoutError."""
    kind = ir.TypeAttr(gep.attributes["elem_type"]).value
    total, operand = 0, 1
    dynamic: list[tuple[int, int]] = []
    indices = list(ir.DenseI32ArrayAttr(gep.attributes["rawConstantIndices"]))
    for place, index in enumerate(indices):
        if not any(indices[place:]):
            # The first member of each thing that follows begins where that does.
            break
        members = _members(kind, type_text(kind)) if place else None
        if members is not None:
            total += members.offsets[index]
            kind = members.kinds[index]
            continue
        kind = kind if not place else _element(kind)
        step = layout_of(kind).stride_bytes
        if index == _DYNAMIC_INDEX:
            dynamic.append((operand, step))
            operand += 1
        else:
            total += index * step
    return total, tuple(dynamic)


# What stands for an operand among constant indices.
_DYNAMIC_INDEX = -(2**31)


def _element(kind: Any) -> Any:
    array = _LLVM_ARRAY.match(type_text(kind))
    if array is not None:
        return _named(array[2], kind.context)
    vector = as_kind(ir.VectorType, kind)
    if vector is None or layout_of(vector.element_type).bits % 8:
        raise UnknownLayoutError(f"nothing is known of the elements of {kind}")
    return vector.element_type


# Integers of more than 64 bits are aligned to 16 bytes on NVIDIA and to 8 on AMD.
_LARGEST_SCALAR_ALIGNMENT = 16


def _scalar(bits: int) -> TypeLayout:
    size = -(-bits // 8)
    alignment = min(_power_of_two_above(size), _LARGEST_SCALAR_ALIGNMENT)
    return TypeLayout(bits, rounded(size, alignment), alignment)


def _vector(kind: Any) -> TypeLayout:
    """The rows of a vector of several dimensions are elements of an array."""
    *outer, length = [int(size) for size in kind.shape] or [1]
    return _times(prod(outer), row_layout(layout_of(kind.element_type).bits * length))


def row_layout(bits: int) -> TypeLayout:
    """A vector of one dimension: packed bits, in a power of two of bytes."""
    size = _power_of_two_above(-(-bits // 8))
    return TypeLayout(bits, size, size)


def element_layout(memref: Any) -> TypeLayout:
    """The layout of one element of a memref type. Raises UnknownLayoutError."""
    return layout_of(ir.ShapedType(memref).element_type)


def element_bytes(memref: Any) -> int:
    """Bytes from one element to its neighbour at stride 1. Raises UnknownLayoutError."""
    return element_layout(memref).stride_bytes


def is_packed(memory: Any) -> bool:
    """Whether the elements of a memref value are as close as those of a vector in a register:
    not those of i4, i24 or vector<3xf32>, nor any of unknown layout."""
    layout = if_known(element_layout, memory.type)
    return layout is not None and layout.bits == 8 * layout.stride_bytes


def span_bytes(memref: Any) -> int | None:
    """Bytes from the start of a buffer of this type to the end of its last element; None where
    sizes, strides or offset are dynamic.

    Raises UnknownLayoutError for an element of unknown layout, for a map that is no strides, and
    where strides lead to before the start.
    """
    kind = ir.MemRefType(memref)
    strides, offset = strides_and_offset(kind)
    if 0 in kind.shape:
        return 0
    if not kind.has_static_shape or offset is None or None in strides:
        return None
    steps = [(s - 1) * t for s, t in zip(kind.shape, strides, strict=True) if t is not None]
    if offset + sum(step for step in steps if step < 0) < 0:
        raise UnknownLayoutError(f"elements of {kind} lie before its start")
    last = offset + sum(step for step in steps if step > 0)
    return int(last + 1) * element_bytes(kind)


def is_dense(memref: Any) -> bool:
    """Whether elements lie one after the other from the start on, in the order of subscripts."""
    kind = ir.MemRefType(memref)
    strides, offset = strides_and_offset(kind)
    step = 1
    for size, stride in zip(reversed(kind.shape), reversed(strides), strict=True):
        if stride != step:
            return False
        step *= size
    return offset == 0


def strides_and_offset(kind: Any) -> tuple[list[int | None], int | None]:
    """Strides and offset of a memref type in elements, None for each that is dynamic.

    Raises UnknownLayoutError for a map that is no strides.
    """
    try:
        strides, offset = kind.get_strides_and_offset()
    except (ValueError, RuntimeError) as error:
        raise UnknownLayoutError(f"the map of {kind} is more than strides") from error
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    known = [None if stride == dynamic else int(stride) for stride in strides]
    return known, None if offset == dynamic else int(offset)


def strides_and_bytes(kind: Any) -> tuple[list[int | None], int] | None:
    """The strides of a memref type in elements, and the bytes of one; None where they are not known."""
    return if_known(lambda: (strides_and_offset(kind)[0], element_bytes(kind)))


def offset_bytes(kind: Any) -> int | None:
    """Bytes from the buffer of a memref type to its first element, None where they are dynamic or not known."""
    offset = if_known(lambda: strides_and_offset(kind)[1])
    return offset and if_known(lambda: offset * element_bytes(kind))


def strided_type(kind: Any, shape: Sequence[int], strides: Sequence[Any], offset: Any) -> Any:
    """The memref type of a part of `kind` with this layout, where "?" stands for what is not known."""
    steps = ", ".join(map(str, strides))
    layout = ir.Attribute.parse(f"strided<[{steps}], offset: {offset}>", kind.context)
    loc = ir.Location.unknown(kind.context)
    return ir.MemRefType.get(list(shape), kind.element_type, layout, kind.memory_space, loc=loc)


def _power_of_two_above(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def rounded(size: int, alignment: int) -> int:
    """The first multiple of `alignment` that is not below `size`."""
    return -(-size // alignment) * alignment


REGISTER_BITS, WARPGROUP = 32, 128
_ACCUMULATOR = re.compile(r"!nvgpu\.warpgroup\.accumulator<fragmented = vector<(\d+)x(\d+)xf32>>")


def registers_of_type(kind: Any) -> int:
    """0 for what takes none or is not known: tokens, memory."""
    text = type_text(kind)
    if text not in _KNOWN_REGISTERS:
        _KNOWN_REGISTERS[text] = _registers(kind, text)
    return _KNOWN_REGISTERS[text]


# A type's text says all about it, in every context.
_KNOWN_REGISTERS: dict[str, int] = {}


def _registers(kind: Any, text: str) -> int:
    accumulator = _ACCUMULATOR.match(text)
    if accumulator is not None:
        return prod(map(int, accumulator.groups())) // WARPGROUP
    if _LLVM_STRUCT.match(text):
        return sum(map(registers_of_type, members_of(kind) or ()))
    layout = if_known(layout_of, kind)
    return 0 if layout is None else -(-layout.bits // REGISTER_BITS)
