"""How each MLIR type is computed with and stored: NumPy types, and rounding where NumPy has none.

A value of `vector<4x8xf16>` is an array of shape (lanes, 4, 8); scalars have shape (lanes,).
Types without a NumPy twin are computed in float32 and rounded after every operation:

| type    | computed as | stored as | rounding                                      |
|---------|-------------|-----------|-----------------------------------------------|
| bf16    | float32     | uint16    | to nearest, ties to even, on the upper 16 bits |
| f8E*    | float32     | uint8     | to the nearest of the 256 values, ties to even |
| tf32    | float32     | float32   | none; mma cuts its operands to 19 bits         |

Signless integers are held as signed NumPy integers; unsigned ops take an unsigned view. An i4 is 0 to 15, in a byte of memory
too, as LLVM stores one: ops that would ask for its sign are refused, and so are vectors, which LLVM packs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind
from mlir_async_pipe.machine.terms import Symbols, as_array, contiguous, is_symbolic
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary.memory_layout import BARRIER_STATE, row_layout

# bf16 and 8-bit floats: decoding tables and rounding to nearest, ties to even.
#
# Layouts: OCP 8-bit floating point specification (E4M3FN, E5M2); the FNUZ forms have one
# NaN (0x80), no infinities and an exponent bias larger by one.

Array = np.ndarray


def round_bf16(values: Array) -> Array:
    """Round float32 to bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    # Adding 0x7FFF plus the lowest kept bit carries exactly when the cut part is above one
    # half, or equal to it with an odd result.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32))


@dataclass(frozen=True, eq=False)
class SmallFloat:
    """An 8-bit float: `table` holds the value of each of the 256 codes; `codes`, in the order of their values, those of the numbers up
    to each of the `ends`, and last those above all of them; `nan` is the code of a NaN."""

    table: Array
    codes: Array
    ends: Array
    nan: int

    def encode(self, values: Any) -> Array:
        """The codes of the nearest values, ties to the even code; beyond half a step over the largest value infinity or NaN."""
        flat = np.asarray(values, np.float32)
        code = self.codes[np.searchsorted(self.ends, flat.astype(np.float64))]
        negative_zero = (flat == 0) & np.signbit(flat) & (self.table[0x80] == 0)
        code = np.where(negative_zero, 0x80, code)
        return np.where(np.isnan(flat), self.nan, code).astype(np.uint8)

    def round(self, values: Array) -> Array:
        """The nearest values of this type, as float32."""
        return self.table[self.encode(values)]


def _small_float(exponent_bits: int, bias: int, *, ieee: bool, fnuz: bool) -> SmallFloat:
    mantissa_bits = 7 - exponent_bits
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits)
    table = sign * np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias)
    )
    largest_exponent = (1 << exponent_bits) - 1
    if ieee:
        table = np.where((exponent == largest_exponent) & (mantissa == 0), sign * np.inf, table)
        table = np.where((exponent == largest_exponent) & (mantissa != 0), np.nan, table)
    elif fnuz:
        table = np.where(code == 0x80, np.nan, table)
    else:
        table = np.where(code & 0x7F == 0x7F, np.nan, table)
    table = table.astype(np.float32)
    finite = np.flatnonzero(np.isfinite(table) & ~((table == 0) & (code == 0x80)))
    codes = finite[np.argsort(table[finite], kind="stable")]
    nan = int(np.flatnonzero(np.isnan(table))[-1])
    infinity = int(np.flatnonzero(np.isposinf(table))[0]) if ieee else nan
    ordered = table[codes].astype(np.float64)
    largest = ordered[-1] + (ordered[-1] - ordered[-2]) / 2
    ends = np.array([-largest, *(ordered[1:] + ordered[:-1]) / 2, largest])
    codes = np.array([infinity | 0x80 if ieee else nan, *codes, infinity])
    # What lies in the middle goes up where the code above is even, and so does what is too large.
    up = np.append(codes[1:-1] % 2 == 0, True)
    up[0] = False
    return SmallFloat(table, codes, np.where(up, np.nextafter(ends, -np.inf), ends), nan)


SMALL_FLOATS: dict[str, SmallFloat] = {
    "f8E4M3FN": _small_float(4, 7, ieee=False, fnuz=False),
    "f8E5M2": _small_float(5, 15, ieee=True, fnuz=False),
    "f8E4M3FNUZ": _small_float(4, 8, ieee=False, fnuz=True),
    "f8E5M2FNUZ": _small_float(5, 16, ieee=False, fnuz=True),
}


# Poison for floats is a NaN and for integers -1: both are one byte pattern, all ones.
POISON_BYTE = 0xFF


@dataclass(frozen=True)
class Kind:
    """One scalar or vector type.

    `dtype` is what values are computed in, `stored` how one element lies in memory, `shape`
    the vector's shape, () for scalars. `encode`/`decode` go between the two.
    """

    name: str
    dtype: np.dtype
    stored: np.dtype
    shape: tuple[int, ...] = ()

    @property
    def item_bytes(self) -> int:
        return int(self.stored.itemsize)

    @property
    def stride_bytes(self) -> int:
        """Bytes from one value of this kind to the next in memory: 16 for vector<3xf32>."""
        return self.shape[0] * self.byte_strides[0] if self.shape[1:] else self._row_bytes

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """For each dimension of a vector the bytes from one subscript to the next in memory."""
        strides: list[int] = []
        step = self._row_bytes
        for size in reversed(self.shape[:-1]):
            strides.insert(0, step)
            step *= size
        return (*strides, self.item_bytes) if self.shape else ()

    @property
    def _row_bytes(self) -> int:
        if not self.shape:
            return self.item_bytes
        return row_layout(8 * self.item_bytes * self.shape[-1]).stride_bytes

    def byte_offsets(self) -> Array:
        """The place of each element of a vector in memory, an array of the vector's shape."""
        steps = zip(self.shape, self.byte_strides, strict=True)
        each = np.ix_(*(np.arange(size) * step for size, step in steps))
        return sum(each, np.zeros(self.shape, np.int64))

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    @property
    def element(self) -> Kind:
        return self.with_shape(())

    def with_shape(self, shape: tuple[int, ...]) -> Kind:
        """The vector kind of this element type and the given shape."""
        return Kind(self.name, self.dtype, self.stored, shape)

    def settle(self, values: Any) -> Array:
        """Bring computed values back into this type: wrap integers, round floats."""
        array = as_array(values)
        if self.name == "i4":
            return array.astype(self.dtype, copy=False) & self.dtype.type(15)
        round_values = ROUND.get(self.name)
        if round_values is not None and is_symbolic(array):
            return array.astype(np.float32).kept(self.name, round_values)
        if round_values is not None:
            return round_values(array.astype(np.float32, copy=False))
        return array.astype(self.dtype, copy=False)

    def decode(self, stored: Any) -> Array:
        """Values from their memory form (an array of `stored`)."""
        if isinstance(stored, Symbols) and (self.name in ROUND or self.name == "i1"):
            return stored.terms().decoded(self.name, self.dtype, self.decode)
        if self.name == "bf16":
            return (stored.astype(np.uint32) << 16).view(np.float32)
        if self.name in SMALL_FLOATS:
            return SMALL_FLOATS[self.name].table[stored]
        if self.name == "i1":
            return stored != 0
        return stored.view(self.dtype)

    def encode(self, values: Array) -> Array:
        """The memory form of values of this kind."""
        if isinstance(values, Symbols) and self.name in ROUND:
            return values.terms().encoded(self.name, self.stored, self.encode)
        if self.name == "bf16":
            bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
            return (bits >> 16).astype(np.uint16)
        if self.name in SMALL_FLOATS:
            return SMALL_FLOATS[self.name].encode(values)
        return contiguous(values, self.dtype).view(self.stored)


ROUND: dict[str, Callable[[Array], Array]] = {
    "bf16": round_bf16,
    **{name: small.round for name, small in SMALL_FLOATS.items()},
}

# What each is computed in, and stored as.
_SCALARS = {
    name: (np.dtype(computed), np.dtype(stored))
    for name, computed, stored in (
        *(("i1", "?", "u1"), ("bf16", "f4", "u2"), *((name, "f4", "u1") for name in SMALL_FLOATS)),
        *(("index", "i8", "i8"), ("i4", "u1", "u1"), ("f16", "f2", "f2"), ("f32", "f4", "f4")),
        *(("tf32", "f4", "f4"), ("f64", "f8", "f8")),
        *((f"{s}i{8 * n}", f"i{n}", f"i{n}") for n in (1, 2, 4, 8) for s in ("", "s")),
        *((f"ui{8 * n}", f"u{n}", f"u{n}") for n in (1, 2, 4, 8)),
    )
}


def stored_kind(dtype: Any, name: str = "") -> Kind:
    """Elements that are computed in what memory holds."""
    return Kind(name, np.dtype(dtype), np.dtype(dtype))


BOOL = Kind("i1", np.dtype(np.bool_), np.dtype(np.uint8))
# Memory as bytes.
BYTE = stored_kind(np.int8, "i8")
POINTER_NAME = "!llvm.ptr"


def kind_of(mlir_type: Any, at: Any = None) -> Kind:
    """The kind of a scalar or vector type; raises MachineError (unsupported-type)."""
    text = str(mlir_type)
    found = _scalar(text)
    if found is not None:
        return found
    vector = as_kind(ir.VectorType, mlir_type)
    if vector is not None and not vector.scalable:
        element = _scalar(str(vector.element_type))
        if element is not None and element.name != "i4":
            return element.with_shape(tuple(int(size) for size in vector.shape))
    matrix = _WAVE_MATRIX.match(text)
    element = _scalar(matrix[3]) if matrix is not None else None
    if matrix is not None and element is not None:
        # Which lane holds what is the hardware's secret: each lane has the whole matrix here.
        return element.with_shape((int(matrix[1]), int(matrix[2])))
    raise MachineError(
        f"the machine cannot represent values of type '{text}'", code="unsupported-type", at=at
    )


_WAVE_MATRIX = re.compile(r"!gpu\.mma_matrix<(\d+)x(\d+)x(\w+),")


@lru_cache(maxsize=256)
def _scalar(text: str) -> Kind | None:
    if text.startswith(POINTER_NAME):
        return stored_kind(np.int64, "ptr")
    if text == BARRIER_STATE:
        return stored_kind(np.int64, "state")
    pair = _SCALARS.get(text)
    return None if pair is None else Kind(text, *pair)


FACTOR_KINDS = {
    name: Kind(text, *_SCALARS[text])
    for name, text in (
        *((text, text) for text in ("f16", "bf16", "tf32", "f64")),
        *(("e4m3", "f8E4M3FN"), ("e5m2", "f8E5M2"), ("s8", "i8"), ("u8", "ui8")),
    )
}
"""The elements of matrices, by the names that PTX and NVVM's attributes give them."""


def unsigned(array: Array) -> Array:
    """The same bits as unsigned integers (booleans stay)."""
    if array.dtype == np.bool_ or array.dtype.kind == "u":
        return array
    return array.view(np.dtype(f"uint{array.dtype.itemsize * 8}"))


def cut_tf32(values: Array) -> Array:
    """Keep the upper 19 bits of float32: what mma reads of a tf32 operand (PTX ISA, mma)."""
    bits = contiguous(values, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)
