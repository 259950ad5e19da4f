"""Attention with the warps of FlashAttention-4: machine code.

Covers: examples/generate_blackwell_attention.py, lowering/nvvm/to_nvvm.py, lowering/nvvm/cubin.py
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from helpers.hopper_attention import BlackwellAttention
from helpers.machine_programs import parse
from helpers.paths import ROOT
from mlir_async_pipe import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

SMALL = BlackwellAttention()
NEEDS_PTXAS = pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")


@NEEDS_PTXAS
@pytest.mark.parametrize(
    ("made", "spilled"),
    [
        (SMALL, 0),
        (replace(SMALL, groups=2), 0),
        (BlackwellAttention(features=128, keys=128, groups=2, overlaid=True), 24),
    ],
    ids=["one group", "two groups", "of FlashAttention-4"],
)
def test_each_role_has_its_loop(made, spilled):
    (kernel,) = lower(parse(made.module()), target="nvvm:sm_100a", emit="cubin").kernels
    loops = kernel.machine.loops
    (products,) = [found for found in loops if found.multiplications]
    steps = (made.features + made.keys) // 16
    assert products.multiplications == steps * made.groups
    assert products.commits == 2 * made.groups + 1
    assert products.phase_waits == (3 if made.overlaid else 2) * made.groups + 1
    (copies,) = [found for found in loops if found.tensor_copies]
    assert (copies.tensor_copies, copies.expects, copies.phase_waits) == (2, 1, 1)
    arriving = [(found.phase_waits, found.arrivals) for found in loops if found.arrivals]
    assert arriving == [(2, 2)] * made.groups + [(2 * made.groups, 2 * made.groups)]
    assert kernel.resources.spill_store_bytes <= spilled


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--features=128", "--keys=128", "--groups=2"], "do not fit tensor memory"),
        (["--slots=1"], "two slots at least"),
    ],
)
def test_what_cannot_be_made_is_said(arguments, why):
    script = ROOT / "examples" / "generate_blackwell_attention.py"
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert why in done.stderr
