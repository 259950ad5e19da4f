"""Kernels that are compiled inside the hook do what they do without it, and wait exactly.

Covers: hooks/numba_cuda_mlir_hook.py, hooks/pipelined_kernel.py, bindings/raw_ops.py,
examples/embedding/numba_kernels.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import ptx_machine
from helpers.numba_child import compiled
from helpers.paths import ROOT
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir, new_context, passmanager

pytestmark = pytest.mark.skipif(
    "numba-cuda-mlir" not in {found.name for found in bindings.installed()},
    reason="numba-cuda-mlir is not installed",
)
Array = np.ndarray


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


# The arguments of each kernel, its block, its grid, and what NumPy makes of the arguments.
INPUTS: dict[str, tuple[list[Array], tuple[int, ...], int | tuple[int, int], Any]] = {
    "matmul": (
        [numbers(32, 80), numbers(80, 32), zeros(32, 32)], (16, 16), (2, 2),
        lambda a, b, _: a @ b,
    ),
    "stencil": (
        [numbers(7, 258), zeros(7, 256)], (128,), 2,
        lambda x, _: (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3,
    ),
    "reduction": ([numbers(128 * 9), zeros(1)], (128,), 1, lambda x, _: x.sum(keepdims=True)),
    "softmax": (
        [numbers(2, 384), zeros(2, 384)], (128,), 2,
        lambda x, _: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    ),
}  # fmt: skip
COUNTS = {"matmul": [1, 1, 0], "stencil": [1, 1, 0], "reduction": [1, 1, 0], "softmax": [1, 1, 0]}


def run(text: str, name: str, **options: Any) -> machine.RunResult:
    arguments, block, grid, _ = INPUTS[name]
    with new_context():
        module = ir.Module.parse(text)
        return machine.run(module, None, arguments, threads=block, grid=grid, **options)


def without_arrays_of_its_own(text: str) -> str:
    """The same blocks with variables in registers: the machine is slow with an array a variable."""
    with new_context():
        module = ir.Module.parse(text)
        names = "canonicalize,sroa,mem2reg,canonicalize"
        passmanager.PassManager.parse(f"any({names})").run(module.operation)
        return str(module)


@pytest.mark.parametrize("name", INPUTS)
def test_a_kernel_does_what_it_does_without_the_hook(name: str) -> None:
    made = compiled()[name]
    arguments, _, _, reference = INPUTS[name]
    assert "cf.cond_br" in made["before"]
    assert "scf.for" not in made["before"]
    before = run(without_arrays_of_its_own(made["before"]), name).arrays[-1]
    for completion in machine.COMPLETIONS:
        after = run(made["module"], name, completion=completion, target="nvvm:sm_80")
        assert after.races == ()
        assert np.array_equal(after.arrays[-1], before)
    assert np.allclose(before, reference(*arguments), atol=1e-4)


@pytest.mark.parametrize("name", INPUTS)
def test_its_loops_are_pipelined_with_exact_waits(name: str) -> None:
    made = compiled()[name]
    assert made["loops"] == {"softmax": 2}.get(name, 1)
    assert made["counts"] == COUNTS[name]
    in_ptx = [int(entry) for entry in read_waits(made["ptx"])]
    # ptxas' input may have the loop several times (unrolled), and the same counts.
    assert set(in_ptx) == set(COUNTS[name])
    assert ("cp.async.ca" in made["ptx"]) == bool(COUNTS[name])
    assert ("through-registers" in made["codes"]) == (name == "softmax")


def descriptor(array: ptx_machine.Array) -> list[Any]:
    strides = [stride // 4 for stride in array.data.strides]
    return ptx_machine.memref(array, array.data.shape, strides)


def read_waits(ptx: str) -> list[str]:
    return [line.split()[-1].rstrip(";") for line in ptx.splitlines() if "wait_group" in line]


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("completion", ptx_machine.COMPLETIONS)
def test_the_ptx_has_the_parameters_of_the_stack_and_computes_the_same(
    name: str, completion: str
) -> None:
    arguments, block, grid, reference = INPUTS[name]
    module = ptx_machine.parse(compiled()[name]["ptx"])
    (kernel,) = module.functions
    arrays = [ptx_machine.Array(array.copy(), 16) for array in arguments]
    ptx_machine.launch(
        module,
        kernel,
        [entry for array in arrays for entry in descriptor(array)],
        block=(*block, 1, 1)[:3],
        grid=(*(grid if isinstance(grid, tuple) else (grid,)), 1, 1)[:3],
        completion=completion,
    )
    assert np.allclose(arrays[-1].data, reference(*arguments), atol=1e-4)


def test_stages_are_for_all_kernels_or_by_name_or_by_loop() -> None:
    options = {"num_stages": {"softmax": [0, 4], "matmul": 2}, "kernels": ["softmax", "matmul"]}
    made = compiled(json.dumps(options))
    assert made["softmax"]["loops"] == 1
    assert made["softmax"]["counts"] == []
    assert made["matmul"]["counts"] == [0, 0]


def test_a_kernel_that_may_race_is_left_to_its_stack() -> None:
    """Without a block size it might be larger than a tile, and blocks then share elements of c."""
    made = compiled(json.dumps({"threads": False, "kernels": ["matmul"]}))["matmul"]
    assert made["loops"] == 0
    assert made["codes"] == ["cross-block"]


def test_nothing_is_changed_outside_of_the_hook() -> None:
    program = """
import sys, mlir_async_pipe
assert not any(name.startswith("numba") for name in sys.modules)
from numba_cuda_mlir import mlir_optimization, mlir_lowering, tools
from numba_cuda_mlir import _whole_function_planners
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import plain_values
from numba_cuda_mlir.mlir.dialect_exts.arith import ArithValue
before = (mlir_optimization.optimize, mlir_lowering.get_max_ptx_version, tools._cached_cc)
methods = (ArithValue.__eq__, ArithValue.__ne__, ArithValue.__hash__)
with mlir_async_pipe.hooks.numba_cuda_mlir(3) as hook:
    assert mlir_optimization.optimize is not before[0]
    assert _whole_function_planners._planner_registry.has_planners
    with plain_values(), plain_values():
        assert ArithValue.__eq__ is ir.Value.__eq__
    assert ArithValue.__eq__ is methods[0]
assert (mlir_optimization.optimize, mlir_lowering.get_max_ptx_version, tools._cached_cc) == before
assert (ArithValue.__eq__, ArithValue.__ne__, ArithValue.__hash__) == methods
hook.install(); hook.uninstall()
assert mlir_optimization.optimize is before[0]
assert not _whole_function_planners._planner_registry.has_planners
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=120)


def test_a_launch_tells_the_sizes_of_its_block_and_grid() -> None:
    """The native launcher needs a driver, so it is a double here that notes what is launched."""
    program = """
import numpy, mlir_async_pipe
from numba_cuda_mlir import cuda, descriptor, types
launched = []
class Launcher:
    def __init__(self, kernel, grid, block, *others):
        self.kernel = kernel
    def __call__(self, *arguments):
        launched.append(self.kernel)
descriptor.LaunchConfiguration = Launcher
class OnDevice:
    def __init__(self, array):
        self.__cuda_array_interface__ = dict(array.__array_interface__)
@cuda.jit
def largest(x, out):
    tile = cuda.shared.array(128, types.int32)
    t = cuda.threadIdx.x
    best = types.int32(0)
    for start in range(0, x.shape[0], 128):
        tile[t] = x[start + t]
        cuda.syncthreads()
        best = max(best, tile[127 - t])
        cuda.syncthreads()
    cuda.atomic.max(out, 0, best)
x, out = OnDevice(numpy.zeros(640, "int32")), OnDevice(numpy.zeros(1, "int32"))
with mlir_async_pipe.hooks.numba_cuda_mlir(num_stages=3) as hook:
    for grid in (1, 2, 1):
        largest[grid, 128](x, out)
for grid, made in zip((1, 2), hook.reports, strict=True):
    assert made.report.of("hazards") == () and made.loops == 1
    assert "known_block_size = array<i32: 128, 1, 1>" in made.module
    assert f"known_grid_size = array<i32: {grid}, 1, 1>" in made.module
assert launched[0] is launched[2] is not launched[1]
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=120)


def test_the_cache_on_disk_has_nothing_of_the_hook(tmp_path: Path) -> None:
    """What is compiled for one block, without a test of its arrays, must not be found by others."""
    source = tmp_path / "kernels.py"
    source.write_text("""
import mlir_async_pipe
from numba_cuda_mlir import cuda, types
line = types.float32[::1]
@cuda.jit(cache=True)
def sums(x, out):
    tile = cuda.shared.array(128, types.float32)
    t = cuda.threadIdx.x
    total = types.float32(0.0)
    for start in range(0, x.shape[0], 128):
        tile[t] = x[start + t]
        cuda.syncthreads()
        total += tile[127 - t]
        cuda.syncthreads()
    out[t] = total
with mlir_async_pipe.hooks.numba_cuda_mlir(3, threads=128, grid=1, noalias=True) as hook:
    sums.compile(types.void(line, line))
assert hook.reports[0].loops == 1
""")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, source], check=True, env=environment, timeout=120)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= {".py", ".pyc"}


def test_the_calls_work_on_values_of_a_language() -> None:
    """In numba-cuda-mlir `==` on two values builds an op; sets and dicts ask it."""
    program = """
import numba_cuda_mlir.cuda, mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context
with new_context():
    module = ir.Module.parse(open("examples/add_one.mlir").read())
    (loop,) = mlir_async_pipe.find_loops(module)
    mlir_async_pipe.annotate(loop, num_stages=4)
    mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
    assert [w.count for w in mlir_async_pipe.count_waits(module).of("waits")] == [2, 2, 1, 0]
    assert mlir_async_pipe.check(module).of("hazards") == ()
    assert "cp.async" in mlir_async_pipe.lower(module, target="nvvm:sm_80").text
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=120)
