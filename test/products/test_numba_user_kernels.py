"""Kernels as Numba's users write them: pipelined, proven, and the same to the last bit.

Covers: examples/embedding/numba_user_kernels.py, hooks/numba_cuda_mlir_hook.py,
hooks/pipelined_kernel.py, pipeliner/normalise/guarded_stores.py, facts/loops/statements.py
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from helpers import ptx_machine
from helpers.numba_child import compiled
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir, new_context, passmanager

pytestmark = pytest.mark.skipif(
    "numba-cuda-mlir" not in {found.name for found in bindings.installed()},
    reason="numba-cuda-mlir is not installed",
)
Array = np.ndarray


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def halves(*shape: int) -> Array:
    """Halves, which are 16 bits to the stack."""
    return numbers(*shape).astype(np.float16).view(np.int16)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


INTEGERS = np.random.default_rng(0).integers(-999, 999, 700, dtype=np.int32)[:640]
# The arguments of each kernel; blocks and grids as the example has them.
INPUTS: dict[str, list[Any]] = {
    "row_sums": [numbers(2, 2048), zeros(2)],
    "row_sums_tree": [numbers(2, 2048), zeros(2)],
    "matmul": [numbers(40, 40), numbers(40, 40), zeros(40, 40)],
    "matmul_return": [numbers(32, 80), numbers(80, 32), zeros(32, 32)],
    "matmul_f16": [halves(32, 80), halves(80, 32), zeros(32, 32)],
    "dot": [numbers(1280), numbers(1280), zeros(1)],
    "dot_plain": [numbers(1157), numbers(1157), zeros(2)],
    "softmax_rows": [numbers(7, 128), zeros(7, 128)],
    "tail": [numbers(649), zeros(128)],
    "tail_n": [numbers(649), 649, zeros(128)],
    "scale": [numbers(1280), zeros(1280), 2.0],
    "saxpy": [numbers(1157), numbers(1157), 2.0],
    "largest": [INTEGERS, np.full(1, -(2**31), np.int32)],
    "column_sums": [numbers(40, 256), zeros(256)],
    "convolution": [numbers(2, 648), numbers(9), zeros(2, 640)],
}
LAUNCHES = {"matmul": ((16, 16), (3, 3)), "tail": ((128,), (1,)), "tail_n": ((128,), (1,))} | {
    "matmul_return": ((16, 16), (2, 2)),
    "matmul_f16": ((16, 16), (2, 2)),
    "largest": ((128,), (1,)),
}
LOADS = {"matmul_f16", "dot_plain", "saxpy"}
# What is not proven, with the sizes of the launch alone.
UNKNOWN = {"matmul_return": {"divergent-branch", "divergent-barrier", "budget"}}


def made(**options: object) -> dict[str, dict[str, Any]]:
    return compiled(json.dumps({"example": "numba_user_kernels", **options}))


def run(text: str, name: str, **options: Any) -> machine.RunResult:
    threads, grid = LAUNCHES.get(name, ((128,), (2,)))
    arguments = [given.copy() if isinstance(given, Array) else given for given in INPUTS[name]]
    with new_context():
        module = ir.Module.parse(text)
        names = "canonicalize,sroa,mem2reg,canonicalize"
        passmanager.PassManager.parse(f"any({names})").run(module.operation)
        return machine.run(module, None, arguments, threads=threads, grid=grid, **options)


@pytest.mark.parametrize("name", INPUTS)
def test_a_kernel_is_pipelined_and_proven(name: str) -> None:
    found = made()[name]
    assert found["loops"] == 1
    assert ("through-registers" in found["codes"]) == (name in LOADS)
    assert found["counts"] == ([] if name in LOADS else [1, 1, 0])
    assert set(found["unknown"]) == UNKNOWN.get(name, set())


@pytest.mark.parametrize("name", INPUTS)
def test_a_kernel_computes_what_it_did(name: str) -> None:
    found = made()[name]
    before = run(found["before"], name)
    after = run(found["module"], name, completion="late", target="nvvm:sm_80")
    assert after.races == ()
    for ours, theirs in zip(after.arrays, before.arrays, strict=True):
        assert np.array_equal(ours, theirs)


CHUNK, CHUNKS = 128, 5
# How many elements after the source the result of `scale` begins: itself, a chunk after or before, half
# a chunk, and at the end of the source or later.
DISTANCES = (0, CHUNK, -CHUNK, CHUNK // 2, CHUNK * CHUNKS, CHUNK * (CHUNKS + 1))


def scaled(memory: Array, source: int, target: int) -> None:
    """What `scale` does with one block: chunk after chunk, each read before it is written."""
    for chunk in range(CHUNKS):
        at = chunk * CHUNK
        read = memory[source + at : source + at + CHUNK].copy()
        memory[target + at : target + at + CHUNK] = 2 * read[::-1]


def launch_scale(ptx: str, memory: Array, source: int, target: int) -> None:
    module = ptx_machine.parse(ptx)
    (kernel,) = module.functions
    array = ptx_machine.Array(memory, 16)
    size = [CHUNK * CHUNKS]
    given = [
        *ptx_machine.memref(array, size, [1], source),
        *ptx_machine.memref(array, size, [1], target),
    ]
    two = int(np.float32(2.0).view(np.uint32))
    ptx_machine.launch(module, kernel, [*given, two], block=(CHUNK, 1, 1), completion="late")


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_launch_runs_the_version_for_its_arrays(distance: int) -> None:
    """One compiled kernel, launched with arrays that overlap in every way, and with some that do not."""
    made = made_for_one_block()
    assert made["unknown"] == []
    assert "plain-version" in made["codes"]
    memory = numbers(CHUNK * (2 * CHUNKS + 4))
    expected = memory.copy()
    source = CHUNK * 2
    scaled(expected, source, source + distance)
    launch_scale(made["ptx"], memory, source, source + distance)
    assert np.array_equal(memory, expected)


def test_the_plain_version_has_no_shared_memory_of_its_own() -> None:
    made = made_for_one_block()
    assert len(re.findall(r"memref\.global .*workgroup", made["module"])) == 1
    assert made["ptx"].count(".shared .align") == 1


def test_without_a_plain_version_the_same_launch_goes_wrong() -> None:
    made = made_for_one_block(noalias=True)
    assert "plain-version" not in made["codes"]
    with pytest.raises(ptx_machine.PtxFault):
        launch_scale(made["ptx"], numbers(CHUNK * 14), CHUNK * 2, CHUNK * 3)


def made_for_one_block(**options: object) -> dict[str, Any]:
    return made(kernels=["scale"], grids={"scale": [1]}, **options)["scale"]


# Refusals that an option of the hook answers: the option that was left out, and the reason.
ANSWERED = {"matmul_f16": ({"grid": False}, "may-wrap", "grid=…")}


@pytest.mark.parametrize("name", ANSWERED)
def test_the_advice_of_a_refusal_helps(name: str) -> None:
    left_out, reason, option = ANSWERED[name]
    without = made(kernels=[name], **left_out)[name]
    assert reason in without["said"]
    assert f"{option} of the hook" in without["said"]
    proven = made()[name]
    assert proven["loops"] == 1
    assert proven["unknown"] == []
    assert f"{option} of the hook" not in proven["said"]
