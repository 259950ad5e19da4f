"""Steps of AMD's scalar and vector units: branches, comparisons, carries, and what `amd_isa.alu` has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.amd_isa.alu import M32, PLAIN, bit_table, compare, on_lanes, signed
from helpers.amd_isa.floats import float_step
from helpers.amd_isa.program import Instruction
from helpers.amd_isa.registers import Unsupported

if TYPE_CHECKING:
    from helpers.amd_isa.machine import Wave


def scalar_step(wave: Wave, i: Instruction) -> None:
    name, operands = i.name[2:], i.operands
    if name in ("branch",) or name.startswith("cbranch_"):
        vcc, execute = wave.special["vcc"], wave.special["exec"]
        taken = {
            "branch": True,
            "cbranch_scc0": not wave.scc,
            "cbranch_scc1": wave.scc,
            "cbranch_vccz": vcc == 0,
            "cbranch_vccnz": vcc != 0,
            "cbranch_execz": execute == 0,
            "cbranch_execnz": execute != 0,
        }[name]
        if taken:
            wave.position = wave.program.labels[operands[0]]
        return
    if name.startswith(("cmp_", "cmpk_")):
        what = name.split("_", 1)[1]
        bits = 64 if what.endswith("64") else 32
        right = wave.scalar(operands[1], bits)
        if name.startswith("cmpk_") and "_i" in what:
            right = signed(right, 16) & M32
        wave.scc = compare(what, wave.scalar(operands[0], bits), right)
        return
    if found := re.fullmatch(r"bitcmp([01])_b(32|64)", name):
        bits = int(found[2])
        bit = wave.scalar(operands[0], bits) >> (wave.scalar(operands[1]) % bits) & 1
        wave.scc = bit == int(found[1])
        return
    if found := re.fullmatch(r"bitset([01])_b32", name):
        bit = 1 << (wave.scalar(operands[1]) & 31)
        before = wave.scalar(operands[0])
        wave.set_scalar(operands[0], before | bit if found[1] == "1" else before & ~bit)
        return
    if found := re.fullmatch(r"cselect_b(32|64)", name):
        bits = int(found[1])
        wave.set_scalar(operands[0], wave.scalar(operands[1 if wave.scc else 2], bits), bits)
        return
    if name in ("movk_i32",):
        wave.set_scalar(operands[0], signed(wave.scalar(operands[1]), 16))
        return
    if name in ("addk_i32", "addk_co_i32", "mulk_i32"):
        before, number = wave.scalar(operands[0]), signed(wave.scalar(operands[1]), 16)
        wave.set_scalar(operands[0], before * number if "mul" in name else before + number)
        return
    if name in ("addc_u32", "add_co_ci_u32", "subb_u32", "sub_co_ci_u32"):
        a, b = (wave.scalar(o) for o in operands[1:3])
        total = a + b + wave.scc if "add" in name else a - b - wave.scc
        wave.set_scalar(operands[0], total)
        wave.scc = not 0 <= total <= M32
        return
    if found := re.fullmatch(r"(and|or|andn2|and_not1)_saveexec_b(32|64)", name):
        bits = int(found[2])
        before, given = wave.special["exec"], wave.scalar(operands[1], bits)
        wave.set_scalar(operands[0], before, bits)
        after = {"and": before & given, "or": before | given}.get(found[1], given & ~before)
        wave.special["exec"] = after
        wave.scc = after != 0
        return
    rule = PLAIN.get(name)
    if rule is None:
        raise Unsupported(i.name)
    sources = [wave.scalar(o, b) for o, b in zip(operands[1:], rule[1], strict=True)]
    exact = rule[2](*sources)
    value = exact & ((1 << rule[0]) - 1)
    wave.set_scalar(operands[0], value, rule[0])
    if re.match(r"(add|sub)_(co_)?u32", name):
        wave.scc = not 0 <= exact <= M32
    elif re.match(r"(and|or|xor|not|lsh|ashr|bfe)", name):
        wave.scc = value != 0


def vector_step(wave: Wave, i: Instruction) -> None:
    name, operands = i.name[2:], i.operands
    if name.startswith(("cmp_", "cmpx_")):
        _compare(wave, name, operands)
        return
    if name == "readfirstlane_b32":
        lanes = np.flatnonzero(wave.active())
        first = int(lanes[0]) if len(lanes) else 0
        wave.set_scalar(operands[0], int(wave.spread(operands[1])[first]))
        return
    if name == "cndmask_b32":
        mask = wave.scalar(operands[3], 64) if len(operands) > 3 else wave.special["vcc"]
        chosen = wave.chosen_by(mask)
        no, yes = (wave.spread(o) for o in operands[1:3])
        wave.set_vector(operands[0], np.where(chosen, yes, no))
        return
    if re.fullmatch(r"(add|sub|subrev)(_co|c_co|b_co|_co_ci)_u32|subbrev_co_u32", name):
        _carrying(wave, name, operands)
        return
    if float_step(wave, name, i):
        return
    if name == "mad_u64_u32":
        operands = (operands[0], *operands[2:])
        name = "mad_nc_u64_u32"
    if name.startswith("mbcnt_"):
        _count_lower(wave, name, operands)
        return
    rule = PLAIN.get(name)
    if name in ("bitop2_b32", "bitop3_b32"):
        rule = bit_table(int(i.modifiers["bitop3"], 0))
        operands = operands if name == "bitop3_b32" else (*operands, "0")
    if rule is None:
        raise Unsupported(i.name)
    sources = [wave.source(o, b) for o, b in zip(operands[1:], rule[1], strict=True)]
    if i.modifiers.get("dst_sel", "DWORD") != "DWORD":
        raise Unsupported(f"{i.name} dst_sel:{i.modifiers['dst_sel']}")
    sources = [_part(s, i.modifiers.get(f"src{n}_sel", "DWORD")) for n, s in enumerate(sources)]
    wave.set_vector(operands[0], on_lanes(rule, sources, wave.lanes), rule[0])


def _compare(wave: Wave, name: str, operands: tuple[str, ...]) -> None:
    kind, what = name.split("_", 1)
    bits = 64 if what.endswith("64") else 32
    target, *pair = operands if len(operands) == 3 else ("vcc", *operands)
    a, b = (wave.source(o, bits) for o in pair)
    held = on_lanes((32, (bits, bits), lambda x, y: int(compare(what, x, y))), [a, b], wave.lanes)
    chosen = wave.active()
    value = sum(1 << lane for lane in range(wave.lanes) if held[lane] and chosen[lane])
    if kind == "cmpx":
        wave.special["exec"] = value
        return
    wave.set_scalar(target, value, wave.lanes)


def _carrying(wave: Wave, name: str, operands: tuple[str, ...]) -> None:
    target, carry_out, a, b, *carry_in = operands
    if "rev" in name:
        a, b = b, a
    carries = (
        wave.chosen_by(wave.scalar(carry_in[0], 64)) if carry_in else np.zeros(wave.lanes, int)
    )
    sign = -1 if name.startswith("sub") else 1
    exact = wave.spread(a).astype(np.int64) + sign * (
        wave.spread(b).astype(np.int64) + carries.astype(np.int64)
    )
    out = (exact < 0) | (exact > M32)
    wave.set_vector(target, (exact & M32).astype(np.uint32))
    chosen = wave.active()
    mask = sum(1 << n for n in range(wave.lanes) if out[n] and chosen[n])
    wave.set_scalar(carry_out, mask, wave.lanes)


def _count_lower(wave: Wave, name: str, operands: tuple[str, ...]) -> None:
    mask, add = wave.scalar(operands[1]), wave.spread(operands[2])
    shift = 32 if "hi" in name else 0
    below = [
        ((mask << shift) & ((1 << lane) - 1) & (M32 << shift)).bit_count()
        for lane in range(wave.lanes)
    ]
    wave.set_vector(operands[0], add + np.array(below, np.uint32))


def _part(value: Any, part: str) -> Any:
    """The byte or half of a source that an SDWA instruction takes."""
    if part == "DWORD":
        return value
    unit, _, number = part.partition("_")
    bits = {"BYTE": 8, "WORD": 16}[unit]
    mask, shift = (1 << bits) - 1, bits * int(number)
    if isinstance(value, np.ndarray):
        return (value >> np.uint32(shift)) & np.uint32(mask)
    return (value >> shift) & mask
