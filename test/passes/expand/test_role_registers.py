"""How many registers the warps of each role get, by how many blocks run at once.

Covers: pipeliner/plan/role_block.py, pipeliner/plan/role_plan.py, vocabulary/memory_layout.py
"""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.pipeliner.plan.role_block import registers_of_roles
from mlir_async_pipe.vocabulary.memory_layout import registers_of_type

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_gemm import HopperGemm

# Tiles of A and B of 64 k, f16, on S slots; 228 KiB hold two blocks of up to 113 KiB.
EXPECTED = {
    "128 sums, 2 x 96 KiB": ({"stages": 3}, 216),
    "128 sums, 1 x 128 KiB": ({"stages": 4}, 232),
    "64 sums, 2 x 96 KiB": ({"tile_m": 64, "stages": 4}, 216),
    # Three or four blocks leave 120 and 88 registers; 32 sums and 80 more are 112.
    "32 sums, 3 of 4 x 48 KiB": ({"tile_m": 64, "tile_n": 64, "stages": 3}, 120),
    "two warpgroups, 1 x 144 KiB": ({"tile_n": 256, "warpgroups": 2}, 232),
    # Two blocks of 384 threads leave 104 registers.
    "two warpgroups, 2 x 96 KiB": ({"tile_n": 256, "warpgroups": 2, "stages": 2}, 232),
}


def increased(made: HopperGemm, target: str | None) -> tuple[list[str], list[str]]:
    with new_context():
        module = ir.Module.parse(made.module())
        pipeline(module, target=target, check="none")
        text = str(module)
    return re.findall(r"setmaxregister \w+ \d+", text), re.findall(r"nvvm\.maxnreg = \d+", text)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_block_leaves_registers_to_those_that_the_memory_has_room_for(name: str) -> None:
    more, consumer = EXPECTED[name]
    made = HopperGemm(roles="specialised", **more)
    moved, entry = increased(made, "nvvm:sm_90a")
    assert moved == [f"setmaxregister increase {consumer}", "setmaxregister decrease 40"]
    threads = made.threads
    needed = consumer * threads + 40 * (made.launched - threads)
    assert entry == [f"nvvm.maxnreg = {-(-needed // (made.launched * 8)) * 8}"]


def test_without_a_chip_one_block_takes_all() -> None:
    moved, _ = increased(HopperGemm(roles="specialised"), None)
    assert moved[0] == "setmaxregister increase 232"


@pytest.mark.parametrize("threads", [128, 256, 384, 512])
@pytest.mark.parametrize("added", [32, 128])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_what_is_taken_is_there(threads: int, added: int, blocks: int) -> None:
    made = registers_of_roles(threads, added, blocks)
    assert made.consumer * threads + made.producer * added <= made.entry * (threads + added)
    assert made.entry * (threads + added) * blocks <= 1 << 16
    assert {made.entry % 8, made.producer % 8, made.consumer % 8} == {0}
    assert made.consumer <= 232


@pytest.mark.parametrize(
    ("kind", "registers"),
    [
        ("f32", 1),
        ("f16", 1),
        ("i64", 2),
        ("vector<2x2xf32>", 4),
        ("vector<2xf16>", 1),
        ("!llvm.struct<(f32, f32, vector<2xf16>)>", 3),
        ("!nvgpu.warpgroup.accumulator<fragmented = vector<64x128xf32>>", 64),
        ("!nvgpu.warpgroup.accumulator<fragmented = vector<128x64xf32>>", 64),
        ("!nvgpu.device.async.token", 0),
        ("memref<4xf32>", 0),
    ],
)
def test_registers_of_a_type(kind: str, registers: int) -> None:
    with new_context():
        parsed: Any = ir.Type.parse(kind)
        assert registers_of_type(parsed) == registers
