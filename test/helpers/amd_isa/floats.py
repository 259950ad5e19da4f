"""Steps of AMD's vector unit on numbers in single and half precision, and what lanes of a wave swap.

Results are rounded once from double precision. Of division only what needs no scaling is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.amd_isa.program import Instruction
from helpers.amd_isa.registers import Unsupported

if TYPE_CHECKING:
    from helpers.amd_isa.machine import Wave

Array = np.ndarray


def _exp2(x: Array) -> Array:
    """v_exp_f32 gives no denormals."""
    power = np.exp2(x)
    return np.where(power < 2.0**-126, 0, power)


_ON_FLOATS: dict[str, Callable[..., Array]] = {
    "add_f32": np.add,
    "mul_f32": np.multiply,
    "max_f32": np.fmax,
    "max3_f32": lambda a, b, c: np.fmax(np.fmax(a, b), c),
    "fma_f32": lambda a, b, c: a * b + c,
    "exp_f32": _exp2,
    "rcp_f32": np.reciprocal,
    # vcc is 0 where no operand was scaled.
    "div_fmas_f32": lambda a, b, c: a * b + c,
    "div_fixup_f32": lambda quotient, below, above: quotient,
}
_HALVES = {
    "cvt_f16_f32": lambda a: _bits(a, np.float16),
    "cvt_pk_f16_f32": lambda a, b: _bits(a, np.float16) | _bits(b, np.float16) << 16,
}


def float_step(wave: Wave, name: str, i: Instruction) -> bool:
    """Run an instruction whose name begins with `v_`; False for one that is none of these."""
    target, *operands = i.operands
    if name == "permlane32_swap_b32":
        _swap_halves(wave, *i.operands)
    elif name == "pack_b32_f16":
        low, high = (wave.spread(operand) & 0xFFFF for operand in operands)
        wave.set_vector(target, low | high << 16)
    elif name == "pk_mov_b32":
        chosen = _listed(i, "op_sel", [0, 1])
        parts = [_half(operand, n) for operand, n in zip(operands, chosen, strict=True)]
        _set_pair(wave, target, [wave.spread(part) for part in parts])
    elif name.startswith("pk_") and name[3:] in _ON_FLOATS:
        _set_pair(wave, target, [_packed(wave, name[3:], operands, i, high) for high in (0, 1)])
    elif name in _HALVES:
        values = [_number(wave, operand) for operand in operands]
        wave.set_vector(target, _HALVES[name](*values).astype(np.uint32))
    elif name == "fmac_f32":
        a, b, c = (_number(wave, operand) for operand in (*operands, target))
        wave.set_vector(target, _bits(a * b + c))
    elif name == "div_scale_f32":
        _scale(wave, target, operands)
    elif name in _ON_FLOATS:
        _plain(i)
        values = [_number(wave, operand) for operand in operands]
        wave.set_vector(target, _bits(_ON_FLOATS[name](*values)))
    else:
        return False
    return True


def _plain(i: Instruction) -> None:
    if i.modifiers:
        raise Unsupported(" ".join([i.name, *i.modifiers]))


def _bits(values: Array, kind: Any = np.float32) -> Array:
    """The bits of numbers in another precision, as 32."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(kind)
    return rounded.view(f"u{rounded.itemsize}").astype(np.uint32)


def _number(wave: Wave, name: str) -> Array:
    """An operand in double precision, with its sign changed or taken away."""
    if name.startswith("-") and not name[1:2].isdigit():
        return -_number(wave, name[1:])
    if name.startswith("|"):
        return np.abs(_number(wave, name.strip("|")))
    if "." in name:
        return np.full(wave.lanes, float(name))
    return wave.spread(name).view(np.float32).astype(np.float64)


def _listed(i: Instruction, name: str, default: list[int]) -> list[int]:
    """A modifier with a digit for each operand: `op_sel_hi:[1,0]`."""
    return list(json.loads(i.modifiers[name])) if name in i.modifiers else default


def _half(name: str, number: int) -> str:
    """One of the two registers of `v[4:5]`."""
    if "[" not in name:
        return name
    kind, _, numbers = name.partition("[")
    return f"{kind}{int(numbers.split(':')[0]) + number}"


def _packed(wave: Wave, name: str, operands: list[str], i: Instruction, high: int) -> Array:
    """The bits of one of two results: of each operand one of its two registers, its sign changed where `neg` says so."""
    if set(i.modifiers) - {"op_sel", "op_sel_hi", "neg_lo", "neg_hi"}:
        raise Unsupported(" ".join([i.name, *i.modifiers]))
    chosen = _listed(i, ("op_sel", "op_sel_hi")[high], [high] * len(operands))
    changed = _listed(i, ("neg_lo", "neg_hi")[high], [0] * len(operands))
    values = [_number(wave, _half(operand, n)) for operand, n in zip(operands, chosen, strict=True)]
    signed = [-value if sign else value for value, sign in zip(values, changed, strict=True)]
    return _bits(_ON_FLOATS[name](*signed))


def _set_pair(wave: Wave, target: str, values: list[Array]) -> None:
    for number, value in enumerate(values):
        wave.set_vector(_half(target, number), value)


def _scale(wave: Wave, target: str, operands: list[str]) -> None:
    """v_div_scale: its first source, which is left alone where divisor and dividend are neither large nor small."""
    mask, *sources = operands
    value, *pair = (_number(wave, source) for source in sources)
    if any((np.abs(np.log2(np.abs(each[wave.active()]))) > 60).any() for each in pair):
        raise Unsupported("a division whose operands are scaled")
    wave.set_vector(target, _bits(value))
    wave.set_scalar(mask, 0, wave.lanes)


def _swap_halves(wave: Wave, first: str, second: str) -> None:
    """The upper half of the lanes of the first register and the lower half of the second change places."""
    if not wave.active().all():
        raise Unsupported("lanes that are off in v_permlane32_swap")
    a, b = (wave.spread(name).copy() for name in (first, second))
    wave.set_vector(first, np.concatenate([a[:32], b[:32]]))
    wave.set_vector(second, np.concatenate([a[32:], b[32:]]))
