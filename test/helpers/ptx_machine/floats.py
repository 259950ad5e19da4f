"""Floating point values as bits in registers: `decode` to NumPy floats, `encode` back, rounding
to nearest even. f16 and bf16 are computed as f64, in which sums and products of two are exact.
"""

from __future__ import annotations

import numpy as np

WORK = {"f16": np.float64, "bf16": np.float64, "f32": np.float32, "tf32": np.float32,
        "f64": np.float64}  # fmt: skip


def decode(bits: np.ndarray, kind: str) -> np.ndarray:
    """Unsigned bits to floats of the type that `kind` is computed in."""
    if kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if kind == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return bits.view(WORK[kind])


def encode(value: np.ndarray, kind: str) -> np.ndarray:
    """Floats to the bits of `kind`."""
    value = np.asarray(value)
    if kind == "f16":
        return value.astype(np.float16).view(np.uint16)
    if kind == "bf16":
        return _bf16(value)
    if kind == "f64":
        return value.astype(np.float64).view(np.uint64)
    return value.astype(np.float32).view(np.uint32)


def _bf16(value: np.ndarray) -> np.ndarray:
    bits = _to_odd(value).view(np.uint32)
    up = ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    rounded = ((bits + up) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(value), np.uint16(0x7FFF), rounded)


def _to_odd(value: np.ndarray) -> np.ndarray:
    """To f32 with the last bit set where it is inexact, so that rounding twice does no harm."""
    near = value.astype(np.float32)
    if value.dtype == np.float32:
        return near
    bits, error = near.view(np.uint32), value - near.astype(np.float64)
    even = (bits & np.uint32(1)) == 0
    finite = np.isfinite(near) & (error != 0)
    outward = (error > 0) == (value > 0)
    step = np.where(outward, np.uint32(1), np.uint32(0xFFFFFFFF))
    return np.where(finite & even, bits + step, bits).astype(np.uint32).view(np.float32)
