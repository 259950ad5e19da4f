"""bf16 and 8-bit floats: decoding tables and rounding to nearest, ties to even.

Layouts: OCP 8-bit floating point specification (E4M3FN, E5M2); the FNUZ forms have one
NaN (0x80), no infinities and an exponent bias larger by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """An 8-bit float: `table` holds the value of each of the 256 codes."""

    table: Array
    ordered: Array
    codes: Array
    overflow: float

    def encode(self, values: Array) -> Array:
        """The codes of the nearest values, ties to the even code."""
        flat = np.asarray(values, np.float32)
        upper = np.clip(np.searchsorted(self.ordered, flat), 1, len(self.ordered) - 1)
        low, high = self.ordered[upper - 1], self.ordered[upper]
        to_low, to_high = flat - low, high - flat
        even_low = self.codes[upper - 1] % 2 == 0
        take_low = (to_low < to_high) | ((to_low == to_high) & even_low)
        code = np.where(take_low, self.codes[upper - 1], self.codes[upper])
        nan_code = int(np.flatnonzero(np.isnan(self.table))[-1])
        # Beyond half a step over the largest value the result is the type's overflow value.
        step = self.ordered[-1] - self.ordered[-2]
        too_large = np.abs(flat) >= self.ordered[-1] + step / 2
        if np.isnan(self.overflow):
            code = np.where(too_large, nan_code, code)
        else:
            infinity = int(np.flatnonzero(np.isposinf(self.table))[0])
            code = np.where(too_large, np.where(flat < 0, infinity | 0x80, infinity), code)
        negative_zero = (flat == 0) & np.signbit(flat) & (self.table[0x80] == 0)
        code = np.where(negative_zero, 0x80, code)
        return np.where(np.isnan(flat), nan_code, code).astype(np.uint8)

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
    finite = finite[np.argsort(table[finite], kind="stable")]
    return SmallFloat(table, table[finite], finite, np.inf if ieee else np.nan)


SMALL_FLOATS: dict[str, SmallFloat] = {
    "f8E4M3FN": _small_float(4, 7, ieee=False, fnuz=False),
    "f8E5M2": _small_float(5, 15, ieee=True, fnuz=False),
    "f8E4M3FNUZ": _small_float(4, 8, ieee=False, fnuz=True),
    "f8E5M2FNUZ": _small_float(5, 16, ieee=False, fnuz=True),
}
