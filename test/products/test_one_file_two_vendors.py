"""One file of kernels for every vendor: the same counts and results, and code for each chip.

Covers: lowering/lower.py, examples/small_kernels.mlir
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.gemm_kernels import EXAMPLES
from helpers.rocdl_kernels import COPYING, lowered, parse
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.target import CHIPS, Target
from mlir_async_pipe.lowering.lower import lower

pytestmark = pytest.mark.slow

TARGETS = ["nvvm:sm_80", *(f"rocdl:{chip}" for chip in COPYING)]
needs_flydsl = pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="no AMDGPU back end: pip install flydsl",
)
needs_nvptx = pytest.mark.skipif(
    not any(stack.name == "numba-cuda-mlir" for stack in bindings.installed()),
    reason="no NVPTX back end",
)


@functools.cache
def pipelined_text(name: str, target: str) -> str:
    """An example after the pass async-pipe."""
    module = parse((EXAMPLES / name).read_text())
    mlir_async_pipe.pipeline(module, target)
    return str(module)


def pipelined(name: str, target: str) -> Any:
    """The same as a module of its own."""
    return parse(pipelined_text(name, target))


def counts(module: Any, function: str) -> list[int]:
    """The counts of all waits of a function, in textual order."""
    (found,) = (
        op
        for op in walk(module)
        if op.name == "gpu.func" and function in str(op.attributes["sym_name"])
    )
    return [
        integer_attribute(op, "numGroups") or 0
        for op in walk(found)
        if op.name == "nvgpu.device_async_wait"
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_the_counts_are_the_same_for_every_target(target):
    small = pipelined("small_kernels.mlir", target)
    # S - 2 iterations in the loop, then down to zero; `dot` commits two groups an iteration.
    assert counts(small, "reverse")[:3] == [1, 1, 0]
    assert counts(small, "dot")[:4] == [4, 4, 2, 0]
    contract = pipelined("gemm_contract.mlir", target)
    assert counts(contract, "gemm")[:3] == [1, 1, 0]


def run_small(module: Any, lanes: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Run both small kernels; returns their results, and whether any of them races."""
    random = np.random.default_rng(7)
    a, b = (random.integers(-9, 10, (9, 64)).astype(np.float32) for _ in range(2))
    reverse = machine.run(
        module, "reverse", [a, np.zeros_like(a)], threads=64, warp=lanes, completion="late"
    )
    dot = machine.run(
        module, "dot", [a, b, np.zeros(64, np.float32)], threads=64, warp=lanes, completion="late"
    )
    first, second = reverse.arrays[1], dot.arrays[2]
    assert np.array_equal(first, 2 * a[:, ::-1])
    assert np.array_equal(second, (a[:, ::-1] * b).sum(axis=0))
    return first, second, bool(reverse.races or dot.races)


@pytest.mark.parametrize("target", TARGETS)
def test_the_small_kernels_give_the_same_results_on_every_target(target):
    module = pipelined("small_kernels.mlir", target)
    chip = CHIPS[target.partition(":")[2]]
    if chip.lowering == "rocdl":
        lowered(module, chip.name)
    assert not run_small(module, chip.lanes)[2]


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx942", "rocdl:gfx1250"])
def test_the_contraction_gives_the_product_on_every_target(target):
    module = pipelined("gemm_contract.mlir", target)
    chip = CHIPS[target.partition(":")[2]]
    if chip.lowering == "rocdl":
        lowered(module, chip.name)
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (64, 48)).astype(np.float32) for _ in range(2))
    arguments = [a, b, np.zeros((64, 64), np.float32)]
    result = machine.run(module, "gemm", arguments, threads=256, warp=chip.lanes, completion="late")
    assert not result.races
    assert np.array_equal(result.arrays[2], a @ b.T)


@needs_nvptx
@pytest.mark.parametrize("name", ["small_kernels.mlir", "gemm_contract.mlir"])
def test_the_file_becomes_ptx(name):
    code = lower(pipelined(name, "nvvm:sm_80"), target=Target.of_chip("sm_80"), emit="ptx")
    assert "cp.async.wait_group \t1;" in code.text or "cp.async.wait_group 1;" in code.text


@needs_flydsl
@pytest.mark.parametrize("chip", COPYING)
def test_the_small_kernels_keep_their_counts_in_the_instructions(chip):
    code = lower(
        pipelined("small_kernels.mlir", f"rocdl:{chip}"), target=Target.of_chip(chip), emit="isa"
    )
    for kernel in code.kernels:
        looped = [w for w in code.waits if w.wait.count and w.wait.function == kernel.name]
        assert looped and {wait.verdict for wait in looped} == {"kept"}
        # vmcnt may count stores of older iterations too, never fewer than the copies.
        assert all(min(wait.left) >= wait.wait.count for wait in looped)


@needs_flydsl
@pytest.mark.parametrize("chip", ["gfx942", "gfx950", "gfx1250"])
def test_the_contraction_keeps_its_count_in_the_instructions(chip):
    code = lower(
        pipelined("gemm_contract.mlir", f"rocdl:{chip}"), target=Target.of_chip(chip), emit="isa"
    )
    (kernel,) = code.kernels
    # 8 copies a group, one group left in flight; the loop for short trips waits for all. Where lanes copy 4 bytes at
    # once, the loop has a version for short rows, which waits alike.
    versions = 2 if chip == "gfx942" else 1
    assert sorted(kernel.loop_counts().values()) == [(0,), *[(8,)] * versions]
