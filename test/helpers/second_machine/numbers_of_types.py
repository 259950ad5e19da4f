"""Types as text, and the numbers that they hold: width, wrapping, rounding, bytes.

Integers are Python integers in two's complement range (i1: 0 and 1), floats are Python floats
rounded to their type, vectors are tuples in row-major order.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite, prod

from helpers.second_machine.syntax import NotJudged

FLOAT_CODES = {"f16": "<e", "f32": "<f", "f64": "<d"}
INTEGER_CODES = {1: "<B", 8: "<b", 16: "<h", 32: "<i", 64: "<q"}


@dataclass(frozen=True)
class Element:
    """A number type: an integer of `bits` (index has 64) or the float type `name`."""

    name: str
    bits: int
    is_float: bool

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return max(1, self.bits // 8)

    @property
    def code(self) -> str:
        """The struct code of one number."""
        return FLOAT_CODES[self.name] if self.is_float else INTEGER_CODES[self.bits]

    def settle(self, value):
        """A number brought into the type: integers wrap, floats round."""
        if not self.is_float:
            return wrap(value, self.bits)
        if self.name == "f64" or not isfinite(value):
            return float(value)
        try:
            return struct.unpack(self.code, struct.pack(self.code, value))[0]
        except OverflowError:
            return inf if value > 0 else -inf


@dataclass(frozen=True)
class Value:
    """A number or vector type: `shape` is () for a number."""

    element: Element
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Elements of a vector, 1 for a number."""
        return prod(self.shape)


@dataclass(frozen=True)
class Memory:
    """A memref type; None stands for a dynamic size, stride or offset."""

    element: Element
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    offset: int | None
    space: str


def wrap(value: int, bits: int) -> int:
    """Two's complement; i1 is 0 or 1."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    """The same bits read without a sign."""
    return value & ((1 << bits) - 1)


@cache
def element(text: str) -> Element:
    """A number type by its text."""
    if text == "index":
        return Element("index", 64, False)
    if text in FLOAT_CODES:
        return Element(text, int(text[1:]), True)
    if re.fullmatch(r"i\d+", text) and int(text[1:]) in INTEGER_CODES:
        return Element(text, int(text[1:]), False)
    raise NotJudged(f"type {text}")


@cache
def value(text: str) -> Value:
    """A number or a fixed vector."""
    if not text.startswith("vector<"):
        return Value(element(text), ())
    *sizes, kind = text[len("vector<") : -1].split("x")
    if not all(size.isdigit() for size in sizes):
        raise NotJudged(f"type {text}")
    return Value(element(kind), tuple(map(int, sizes)))


@cache
def memory(text: str) -> Memory:
    """A memref with identity or strided layout."""
    if not text.startswith("memref<"):
        raise NotJudged(f"type {text}")
    inside = text[len("memref<") : -1]
    shape, *rest = _split(inside)
    found = re.fullmatch(r"((?:(?:\d+|\?)x)*)(\w+)", shape)
    if found is None:
        raise NotJudged(f"type {text}")
    sizes, kind = found[1].split("x")[:-1], found[2]
    strides, offset, space = None, 0, "global"
    for part in rest:
        if part.startswith("strided<"):
            strides, offset = _strided(part)
        elif part.startswith("affine_map<"):
            raise NotJudged(f"type {text}")
        else:
            space = _space(part)
    return Memory(element(kind), tuple(map(_size, sizes)), strides, offset, space)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<[(") - (char in ">])")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _size(text: str) -> int | None:
    return None if text.strip() == "?" else int(text)


def _strided(text: str) -> tuple[tuple[int | None, ...], int | None]:
    listed = text[text.index("[") + 1 : text.index("]")]
    strides = tuple(_size(part) for part in listed.split(",") if part.strip())
    found = re.search(r"offset: (\?|-?\d+)", text)
    return strides, _size(found[1]) if found else 0


def _space(text: str) -> str:
    number = text.split(":")[0].strip()
    if "workgroup" in text or number == "3":
        return "workgroup"
    return "private" if "private" in text or number == "5" else "global"
