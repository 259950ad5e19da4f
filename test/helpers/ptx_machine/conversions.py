"""cvt: between integers, floats, and both, with the rounding that the opcode names."""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.float_ops import float_bits, float_operand
from helpers.ptx_machine.registers import SIGNED, UNSIGNED, Operands, Step, types_of
from helpers.ptx_machine.syntax import BITS, Instruction

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def cvt(ops: Operands, op: Instruction) -> Step:
    to, from_ = types_of(op.parts[1:])[:2]
    if len(op.operands) == 3:
        return _packed(ops, op, to, from_)
    to_float, from_float = "f" in to, "f" in from_
    put = ops.put(op.operands[0])
    if "pack" in op.parts or any(part in ("rz", "rm", "rp") for part in op.parts):
        raise unknown(op.text)
    if not from_float:
        get = ops.integers(op.operands[1], from_)
        if to_float:
            return lambda machine, mask: put(machine, _from_integer(get(machine), to), mask)
        limit = _limits(to) if "sat" in op.parts else None
        kind = (SIGNED if to[0] == "s" else UNSIGNED)[BITS[to]]

        def resize(machine, mask):
            value = get(machine)
            if limit is not None:
                value = np.clip(value, *limit)
            put(machine, value.astype(kind), mask)

        return resize
    source = float_operand(ops, op.operands[1], from_)
    rounding = next((part for part in op.parts if part in _TO_INTEGER), None)
    if to_float:

        def convert(machine, mask):
            value = source(machine)
            if rounding is not None:
                value = _TO_INTEGER[rounding](value)
            if "sat" in op.parts:
                value = np.clip(np.nan_to_num(value, nan=0.0), 0, 1)
            put(machine, _rounded(value, to, op), mask)

        return convert
    if rounding is None:
        raise unknown(op.text)
    return lambda machine, mask: put(
        machine, _integer(_TO_INTEGER[rounding](source(machine)), to), mask
    )


def _from_integer(value: np.ndarray, to: str) -> np.ndarray:
    kind = np.float32 if to == "f32" else np.float64
    return float_bits(value.astype(kind), to)


def _rounded(value: np.ndarray, to: str, op: Instruction) -> np.ndarray:
    if to != "tf32":
        return float_bits(value, to)
    if "rna" not in op.parts:
        raise unknown(op.text)
    # 10 bits of mantissa are kept, ties go away from zero.
    bits = value.astype(np.float32).view(np.uint32)
    return (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)


def _limits(kind: str) -> tuple[int, int]:
    info = np.iinfo((SIGNED if kind[0] == "s" else UNSIGNED)[BITS[kind]])
    return int(info.min), int(info.max)


def _integer(value: np.ndarray, to: str) -> np.ndarray:
    """Clamped to the type's range, a NaN is 0."""
    low, high = _limits(to)
    kind = (SIGNED if to[0] == "s" else UNSIGNED)[BITS[to]]
    exact = np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
    inside = (exact > low) & (exact < high)
    whole = np.where(inside, exact, 0).astype(kind)
    return np.where(exact <= low, kind(low), np.where(exact >= high, kind(high), whole))


def _packed(ops: Operands, op: Instruction, to: str, from_: str) -> Step:
    """cvt.rn.f16x2.f32 d, high, low."""
    if to not in ("f16x2", "bf16x2") or from_ != "f32":
        raise unknown(op.text)
    put = ops.put(op.operands[0])
    high, low = (float_operand(ops, operand, from_) for operand in op.operands[1:])

    def step(machine, mask):
        both = np.stack(np.broadcast_arrays(low(machine), high(machine)))
        if "relu" in op.parts:
            both = np.maximum(both, 0)
        put(machine, float_bits(both, to), mask)

    return step


MAKERS = {"cvt": cvt}
