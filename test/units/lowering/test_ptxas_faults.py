"""What ptxas is known to do wrong is said, with the version at hand.

Covers: lowering/nvvm/lower_nvvm.py
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import lower
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.nvvm import lower_nvvm
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_attention import HopperAttention
from generate_hopper_gemm import HopperGemm

DESCRIPTOR = 0x4000004000010000
OLD, NEW = "13.0.88", "13.1.80"
SUMS = f"!llvm.struct<({', '.join(['f32'] * 32)})>"
KERNEL = f"""
gpu.module @kernels {{
  gpu.func @one(%x: i64, %b: i64, %to: memref<?xf32>) kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %none = llvm.mlir.zero : {SUMS}
    %bits = arith.constant NUMBER : i64
    %a = arith.addi %x, %bits : i64
    nvvm.wgmma.fence.aligned
    %sums = nvvm.wgmma.mma_async %a, %b, %none, <m = 64, n = 64, k = 16>, D[<f32>, <zero>],
      A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : {SUMS} -> {SUMS}
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0
    %one = llvm.extractvalue %sums[0] : {SUMS}
    %t = gpu.thread_id x
    memref.store %one, %to[%t] : memref<?xf32>
    gpu.return
  }}
}}
"""


def of_version(number: str, folder: Path) -> str:
    """A ptxas that says it is this version, and assembles as the installed one does."""
    real = find_tool("ptxas")
    if real is None:
        pytest.skip("ptxas is not installed")
    script = folder / "ptxas"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "release, V{number}" && exit\nexec {real} "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def said(text: str, ptxas: str, monkeypatch: Any) -> list[str]:
    monkeypatch.setattr(lower_nvvm, "require_tool", lambda _: ptxas)
    with new_context():
        code = lower(ir.Module.parse(text), target="nvvm:sm_90a", emit="cubin")
    return [each.message for each in code.diagnostics if each.code == "ptxas-fault"]


@pytest.mark.parametrize(
    ("version", "number", "warned"),
    [
        (OLD, DESCRIPTOR, True),
        ("12.9.86", DESCRIPTOR, True),
        (NEW, DESCRIPTOR, False),
        (OLD, 1 << 20, False),
        (OLD, -(1 << 20), False),
    ],
)
def test_a_sum_that_may_lose_its_upper_half(
    version: str, number: int, warned: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    found = said(KERNEL.replace("NUMBER", str(number)), of_version(version, tmp_path), monkeypatch)
    assert [version in each and "0x4000004000010000" in each for each in found] == [True] * warned


@pytest.mark.parametrize(
    "made",
    [
        HopperGemm(tile_m=128, tile_n=64, warpgroups=2),
        HopperGemm(tile_m=64, tile_n=64, roles="specialised"),
        HopperAttention(warpgroups=2),
    ],
)
def test_our_generators_add_in_the_lower_half(made: Any, tmp_path: Path, monkeypatch: Any) -> None:
    assert said(made.module(), of_version(OLD, tmp_path), monkeypatch) == []


def test_an_unknown_version_is_taken_to_be_new(tmp_path: Path) -> None:
    script = of_version("", tmp_path)
    wide = f"wgmma.mma_async\nadd.s64 \t%rd1, %rd2, {DESCRIPTOR};"
    assert lower_nvvm.fault_in(wide, script) == ""
    assert lower_nvvm.version(script) > (13, 1)
