"""Sizes and member offsets of LLVM types, read from their text.

    !llvm.array<4 x struct<(i8, f32, array<3 x f16>)>>      4 elements of 16 bytes

Alignment is the natural one of each scalar, 16 bytes at most for vectors, 1 in packed structs:
the data layout that NVPTX and AMDGPU share for these types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary.memory_names import BY_VALUE

_SCALAR_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "index": 64}
_ARRAY = re.compile(r"array<(\d+) x (.*)>$", re.DOTALL)
_VECTOR = re.compile(r"(?:vec|vector)<(\d+) ?x ?(.*)>$", re.DOTALL)


@dataclass(frozen=True)
class Layout:
    """`size` and `alignment` in bytes; structs and arrays list the types of their members, a
    struct their offsets too; `element` is the type of an array's or vector's elements."""

    size: int
    alignment: int
    members: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    element: str = ""
    is_struct: bool = False

    @property
    def stride(self) -> int:
        """Bytes from one element of an array to the next: 16 for 3 x f32, 4 for i24."""
        return -(-self.size // self.alignment) * self.alignment


@lru_cache(maxsize=512)
def layout_of(text: str) -> Layout:
    """The layout of a type; raises MachineError (unsupported-type)."""
    name = text.strip().removeprefix("!llvm.")
    if name.startswith("ptr"):
        space = pointer_space(text)
        size = 16 if space in (7, 8) else 8
        return Layout(size, size)
    if match := _ARRAY.match(name):
        element = layout_of(match[2])
        count = int(match[1])
        return Layout(count * element.stride, element.alignment, (match[2],) * count, (), match[2])
    if match := _VECTOR.match(name):
        element = layout_of(match[2])
        size = int(match[1]) * element.size
        return Layout(size, min(16, 1 << max(0, (size - 1).bit_length())), (), (), match[2])
    if name.startswith("struct<"):
        return _struct(name)
    if name in _SCALAR_BITS:
        return Layout(_SCALAR_BITS[name] // 8, _SCALAR_BITS[name] // 8)
    if re.fullmatch(r"i\d+", name):
        size = max(1, -(-int(name[1:]) // 8))
        return Layout(size, 1 << (size - 1).bit_length())
    if name.startswith("f8"):
        return Layout(1, 1)
    raise MachineError(f"the machine knows no layout of '{text}'", code="unsupported-type")


def pointer_space(text: str) -> int:
    """The address space of `!llvm.ptr<3>`, 0 if none is given."""
    match = re.match(r"(?:!llvm\.)?ptr<(\d+)>", text.strip())
    return int(match[1]) if match else 0


def _struct(name: str) -> Layout:
    packed = "packed (" in name
    body = name[name.index("(") + 1 : name.rindex(")")]
    members = tuple(_split(body))
    offsets, end, alignment = [], 0, 1
    for member in members:
        layout = layout_of(member)
        step = 1 if packed else layout.alignment
        end = -(-end // step) * step
        offsets.append(end)
        # The size that an array would give it: 16 bytes for 3 x f32 (LLVM, DataLayout.cpp, StructLayout).
        end += layout.stride
        alignment = max(alignment, step)
    return Layout(-(-end // alignment) * alignment, alignment, members, tuple(offsets), "", True)


def _split(body: str) -> list[str]:
    """Cut at the commas outside brackets."""
    parts, depth, current = [], 0, ""
    for character in body:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [part for part in (*parts, current.strip()) if part]


def bytes_by_value(function: Any) -> tuple[int, ...]:
    """Of each argument of a function the bytes that it is passed by value, 0 for others; () where
    there are none."""
    if "arg_attrs" not in function.attributes:
        return ()
    sizes = []
    for given in map(ir.DictAttr, ir.ArrayAttr(function.attributes["arg_attrs"])):
        kind = ir.TypeAttr(given[BY_VALUE]).value if BY_VALUE in given else None
        sizes.append(0 if kind is None else layout_of(str(kind)).stride)
    return tuple(sizes) if any(sizes) else ()
