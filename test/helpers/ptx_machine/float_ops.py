"""Floating point instructions, and packed halves lane by lane of the register."""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.floats import decode, encode
from helpers.ptx_machine.registers import Operands, Step, type_of
from helpers.ptx_machine.syntax import BITS, Instruction


def float_operand(ops: Operands, operand, kind: str):
    """The operand's values; a packed type has a leading axis of two."""
    if kind.endswith("x2"):
        packed, half = ops.get(operand, 32), kind[:-2]

        def both(machine):
            bits = packed(machine)
            low = (bits & np.uint32(0xFFFF)).astype(np.uint16)
            return decode(np.stack((low, (bits >> np.uint32(16)).astype(np.uint16))), half)

        return both
    get = ops.get(operand, BITS[kind])
    return lambda machine: decode(get(machine), kind)


def float_bits(value: np.ndarray, kind: str) -> np.ndarray:
    """Values as the bits of a register, packed where the type is."""
    if not kind.endswith("x2"):
        return encode(value, kind)
    halves = encode(value, kind[:-2]).astype(np.uint32)
    return halves[0] | (halves[1] << np.uint32(16))


def _make(compute, inputs: int, down=None):
    """`down` computes with `.rm`, rounding towards minus infinity."""

    def make(ops: Operands, op: Instruction) -> Step:
        kind = type_of(op.parts)
        if any(part in ("rz", "rp") for part in op.parts):
            raise unknown(op.text)
        rounded = down if "rm" in op.parts else compute
        flush = _flush if "ftz" in op.parts else lambda value: value
        if rounded is None or ("ftz" in op.parts and kind != "f32"):
            raise unknown(op.text)
        put = ops.put(op.operands[0])
        gets = [float_operand(ops, operand, kind) for operand in op.operands[1 : 1 + inputs]]
        saturate, relu = "sat" in op.parts, "relu" in op.parts

        def step(machine, mask):
            value = flush(rounded(*(flush(get(machine)) for get in gets)))
            if saturate:
                value = np.clip(np.nan_to_num(value, nan=0.0), 0, 1)
            if relu:
                value = np.maximum(np.nan_to_num(value, nan=0.0), 0)
            put(machine, float_bits(value, kind), mask)

        return step

    return make


def _fma(x, y, z):
    """One rounding: products of f32 are exact as f64, those of f64 nearly in 64 bits."""
    if x.dtype == np.float32 or y.dtype == np.float32:
        exact = x.astype(np.float64) * y + z
        return np.asarray(exact).astype(np.float32)
    return np.asarray(x.astype(np.longdouble) * y + z).astype(np.float64)


def _fma_down(x, y, z):
    if x.dtype != np.float32:
        raise unknown("fma.rm.f64")
    exact = x.astype(np.float64) * y + z
    near = exact.astype(np.float32)
    return np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)


def _flush(value):
    """Zero, of the same sign, for numbers below the smallest normal f32."""
    small = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(small, np.copysign(np.float32(0), value), value)


def _min(x, y):
    """-0.0 is smaller than 0.0, as in max (PTX ISA, min)."""
    return np.where((x == 0) & (y == 0), -(-x - y), np.fmin(x, y))


def _max(x, y):
    return np.where((x == 0) & (y == 0), x + y, np.fmax(x, y))


def _copysign(x, y):
    """copysign d, a, b has the sign of a and the size of b."""
    return np.copysign(y, x)


def _divide(x, y):
    return x / y


MAKERS = {
    "add": _make(lambda x, y: x + y, 2),
    "sub": _make(lambda x, y: x - y, 2),
    "mul": _make(lambda x, y: x * y, 2),
    "div": _make(_divide, 2),
    "fma": _make(_fma, 3, _fma_down),
    "mad": _make(_fma, 3),
    "min": _make(_min, 2),
    "max": _make(_max, 2),
    "abs": _make(np.abs, 1),
    "neg": _make(np.negative, 1),
    "copysign": _make(_copysign, 2),
    "rcp": _make(lambda x: x.dtype.type(1) / x, 1),
    "sqrt": _make(np.sqrt, 1),
    "rsqrt": _make(lambda x: (1 / np.sqrt(x)).astype(x.dtype), 1),
    "ex2": _make(np.exp2, 1),
    "lg2": _make(np.log2, 1),
    "sin": _make(np.sin, 1),
    "cos": _make(np.cos, 1),
    "tanh": _make(np.tanh, 1),
}
