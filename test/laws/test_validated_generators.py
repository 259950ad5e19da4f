"""What the pipeline makes of generated kernels computes what the kernel did, for all data.

Covers: machine/validation.py, machine/terms.py
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

import mlir_async_pipe
from helpers.gemm_kernels import EXAMPLES
from helpers.hopper_gemms import HopperGemm
from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm
from mlir_async_pipe.chips.target import CHIPS
from mlir_async_pipe.machine import Data

sys.path.insert(0, str(EXAMPLES))
from generate_attention import Attention
from generate_gemm import TYPES, Gemm

pytestmark = pytest.mark.slow

HOPPER, BLACKWELL = HopperGemm(tile_m=64, tile_n=64), BlackwellGemm(tile_n=64)


def validated(text: str, target: str, arguments: list[Any], **launch: Any) -> Any:
    before, after = parse(text), parse(text)
    mlir_async_pipe.pipeline(after, target=target, check="none")
    return mlir_async_pipe.validate(before, after, None, arguments, target=target, **launch)


@pytest.mark.parametrize("types", ["f16", "bf16"])
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950", "gfx1250"])
def test_amd_s_matrix_cores(chip: str, types: str) -> None:
    gemm = Gemm(chip=chip, tile_m=16, tile_n=16, warps=(1, 1), types=TYPES[types])
    arguments = [Data((16, 64)), Data((16, 64)), Data((16, 16))]
    lanes = CHIPS[chip].lanes
    found = validated(gemm.module(), f"rocdl:{chip}", arguments, threads=gemm.threads, warp=lanes)
    assert found.is_equal, found.diagnostic()


@pytest.mark.parametrize(
    "gemm",
    [HOPPER, replace(HOPPER, roles="specialised"), replace(HOPPER, types="s8", tile_k=128)],
    ids=["together", "roles", "s8"],
)
def test_products_of_warpgroups(gemm: HopperGemm) -> None:
    stored, sums = ("int8", "int32") if gemm.types == "s8" else ("float16", "float32")
    operands = [Data((64, 200), stored), Data((64, 200), stored), Data((64, 64), sums)]
    found = validated(gemm.module(), "nvvm:sm_90a", [*operands, 200])
    assert found.is_equal, found.diagnostic()


def test_products_in_tensor_memory() -> None:
    operands = [Data((128, 200), "float16"), Data((64, 200), "float16"), Data((128, 64), "float32")]
    found = validated(BLACKWELL.module(), "nvvm:sm_100a", [*operands, 200])
    assert found.is_equal, found.diagnostic()


@pytest.mark.parametrize("chip", ["", "gfx942", "gfx950", "gfx1250"])
def test_flash_attention(chip: str) -> None:
    made, target = Attention(chip=chip), f"rocdl:{chip}" if chip else "nvvm:sm_80"
    arguments = [Data((1, 256, 64))] * 4
    lanes = made.tiles.lanes
    found = validated(made.module(), target, arguments, threads=4 * lanes, warp=lanes)
    assert found.is_equal, found.diagnostic()


@pytest.mark.parametrize("depth", [0, 32, 64, 160])
def test_gemm_of_a_depth(depth: int) -> None:
    text = (EXAMPLES / "gemm.mlir").read_text()
    arguments = [Data((128, depth)), Data((128, depth)), Data((128, 128))]
    found = validated(text, "nvvm:sm_80", arguments, threads=128)
    assert found.is_equal, found.diagnostic()
