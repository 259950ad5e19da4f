"""Element types of the kernels: how they are stored, and the arithmetic that each has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Element:
    """`bits` as MLIR counts them, `stored` as NumPy keeps them; `wide` is what sums are made in."""

    name: str
    bits: int
    stored: type
    wide: str = ""

    @property
    def is_float(self) -> bool:
        return self.name.startswith(("f", "bf"))

    @property
    def bytes(self) -> int:
        return np.dtype(self.stored).itemsize

    def literal(self, value: int) -> str:
        return f"{value}.0" if self.is_float else str(value)

    def wrap(self, value: np.ndarray) -> np.ndarray:
        """Integers modulo the width, small integers of floats as they are; as int64."""
        if self.is_float:
            return value
        width = min(self.bits, 64)
        if width == 64:
            return value
        low = value & ((1 << width) - 1)
        return np.where(low >> (width - 1), low - (1 << width), low)

    def to_memory(self, value: np.ndarray) -> np.ndarray:
        """Whole numbers as their stored bytes; floats narrower than f32 by truncated f32 bits."""
        if self.name == "bf16":
            bits = value.astype(np.float32).view(np.uint32)
            assert not (bits & 0xFFFF).any()
            return (bits >> 16).astype(np.uint16)
        if self.bits < 8:
            return (value & ((1 << self.bits) - 1)).astype(np.uint8)
        return value.astype(self.stored)


ELEMENTS = {
    e.name: e
    for e in (
        Element("f16", 16, np.float16, "f32"),
        Element("bf16", 16, np.uint16, "f32"),
        Element("f32", 32, np.float32),
        Element("f64", 64, np.float64),
        Element("i1", 1, np.uint8),
        Element("i4", 4, np.uint8),
        Element("i8", 8, np.int8, "i32"),
        Element("i16", 16, np.int16, "i32"),
        Element("i32", 32, np.int32, "i64"),
        Element("i64", 64, np.int64),
        Element("index", 64, np.int64),
    )
}
