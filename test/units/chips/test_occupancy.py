"""Blocks that a multiprocessor holds: each limit, by figures of the vendors' calculators.

Covers: chips/occupancy.py
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_async_pipe.chips.occupancy import resident_blocks
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.tuning.tune import Outcome

KIB = 1024


@pytest.mark.parametrize(
    ("chip", "threads", "registers", "memory", "blocks"),
    [
        # 65536 / (4 warps * 32 * 200 = 25600), 232 registers are rounded to 232 * 32 = 7424.
        ("sm_80", 128, 200, 0, 2),
        ("sm_80", 128, 232, 0, 2),
        ("sm_80", 128, 32, 48 * KIB, 3),  # (163 + 1) / (48 + 1)
        ("sm_86", 128, 32, 48 * KIB, 2),  # (99 + 1) / (48 + 1)
        ("sm_80", 1024, 32, 0, 2),  # 2048 threads
        ("sm_86", 1024, 32, 0, 1),  # 1536 threads
        ("sm_80", 32, 16, 0, 32),  # 32 blocks
        ("sm_86", 32, 16, 0, 16),
        ("sm_80", 33, 16, 0, 32),  # two warps: 2048 / 64
        ("sm_80", 128, 32, 164 * KIB, 0),
        # A quarter has 16384 registers, and warps have 6400 of them: 8 warps, not 10.
        ("sm_80", 64, 200, 0, 4),
        ("sm_80", 32, 168, 0, 12),
        ("gfx942", 256, 128, 0, 4),  # 512 / 128 waves a SIMD, 4 SIMDs, 4 waves a block
        ("gfx942", 256, 129, 0, 3),  # 136 registers: 3 waves a SIMD
        ("gfx942", 256, 64, 32 * KIB, 2),
        ("gfx950", 256, 64, 32 * KIB, 5),
    ],
)
def test_blocks_by_each_limit(chip, threads, registers, memory, blocks):
    assert resident_blocks(CHIPS[chip], threads, registers, memory) == blocks


def test_what_is_not_known_is_not_guessed():
    assert resident_blocks(CHIPS["gfx1250"], 64, 64, 0) is None
    assert resident_blocks(CHIPS["sm_80"], 64, None, 0) is None


@pytest.mark.parametrize(
    ("blocks", "cycles"), [(None, 1000), (1, 1000), (2, 500), (3, 400), (8, 400)]
)
def test_blocks_hide_each_others_stalls(blocks, cycles):
    outcome = Outcome({}, blocks=blocks, cycles=1000, stalls=600)
    assert outcome.cycles_of_work == cycles
    assert replace(outcome, work=4).cycles_of_work == cycles / 4
