"""Matrix instructions of AMD: which element each lane holds, and products of what they hold.

Sources: CDNA 3 and CDNA 4 ISA (matrix fused multiply-add), AMD matrix instruction calculator; gfx1250: as WMMA of gfx12,
of whose 8 elements of k a lane has two runs. Sums are exact where all numbers are small integers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from helpers.amd_isa.memory import held_bytes
from helpers.amd_isa.program import Instruction
from helpers.amd_isa.registers import Unsupported

if TYPE_CHECKING:
    from helpers.amd_isa.machine import Wave

# Elements of k that stand side by side in a lane of WMMA, at most.
RUN = 8


def floats(data: np.ndarray, kind: str) -> np.ndarray:
    """The numbers of the last axis' bytes as float32."""
    data = np.ascontiguousarray(data)
    if kind == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return data.view({"f16": np.float16, "f32": np.float32}[kind]).astype(np.float32)


def product(a: np.ndarray, b: np.ndarray, m: int, n: int, k: int, lanes: int) -> np.ndarray:
    """A times B, of (…, lanes, elements) as lanes hold them; the result as they hold it, m * n / lanes each."""
    lane, j = np.arange(lanes)[:, None], np.arange(m * k // lanes)
    run = min(RUN, len(j)) if lanes == 32 else len(j)
    depth = j // run * run * (lanes // m) + lane // m * run + j % run
    rows_of_a = np.zeros((*a.shape[:-2], m, k), np.float32)
    rows_of_b = np.zeros((*b.shape[:-2], n, k), np.float32)
    rows_of_a[..., lane % m, depth] = a
    rows_of_b[..., lane % n, depth] = b
    i = np.arange(m * n // lanes)
    row = 8 * (lane // 16) + i
    if lanes == 64:
        row = i // 4 * 4 * (64 // n) + 4 * (lane // n) + i % 4
    whole = rows_of_a @ np.swapaxes(rows_of_b, -1, -2)
    return np.asarray(whole[..., row, lane % n])


def matrix_step(wave: Wave, i: Instruction) -> None:
    """D = A B + C on whole waves, whatever lanes are on."""
    found = re.fullmatch(r"v_(?:mfma|wmma)_f32_(\d+)x(\d+)x(\d+)_?(f16|bf16|f32)(?:_1k)?", i.name)
    if found is None or i.modifiers:
        raise Unsupported(" ".join([i.name, *i.modifiers]))
    m, n, k = map(int, found.groups()[:3])
    lanes, size = wave.lanes, {"f32": 4}.get(found[4], 2)
    target, *operands, added = i.operands
    a, b = (
        floats(held_bytes(wave, operand, size * m * k // lanes), found[4]) for operand in operands
    )
    result = product(a, b, m, n, k, lanes)
    if wave.numbers(added):
        result = result + floats(held_bytes(wave, added, 4 * m * n // lanes), "f32")
    elif added != "0":
        raise Unsupported(f"{i.name} with {added}")
    registers = wave.numbers(target)
    for register in registers:
        wave.needs(register)
    wave.v[registers] = result.astype(np.float32).view(np.uint32).T
