"""GEMMs of `examples/generate_hopper_gemm.py`: run on the machine beside NumPy's, and as code."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np

from helpers.descriptor_products import NUMPY, stored
from helpers.paths import ROOT
from mlir_async_pipe import lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.nvvm.lower_nvvm import NvidiaKernel
from mlir_async_pipe.machine.kinds import round_bf16

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_gemm import HopperGemm

__all__ = ["HopperGemm", "code_of", "multiply", "run_gemm"]


def lines_of(b: np.ndarray, line: int = 64) -> np.ndarray:
    """B[K, N], or C[M, N], as its tensor map has it: by lines of so many n."""
    return np.ascontiguousarray(b.reshape(len(b), -1, line).transpose(1, 0, 2))


def multiply(
    made: HopperGemm,
    completion: str,
    tiles: tuple[int, int] = (1, 1),
    k: int = 200,
    schedule: str = "lockstep",
    *,
    checked: bool = True,
) -> tuple[bool, set[str]]:
    """Whether what the pipelined kernel gives is right, and what raced."""
    with new_context():
        module = ir.Module.parse(pipelined_text(made, checked))
        return run_gemm(module, made, completion, tiles, k, schedule)


@cache
def pipelined_text(made: HopperGemm, checked: bool) -> str:
    """Proven right if `checked`; the orders and completions of one shape share it."""
    with new_context():
        module = ir.Module.parse(made.module())
        # An error where the checker proves that something is wrong, or cannot tell.
        report = pipeline(module, check="error" if checked else "none")
        assert [check.unknown for check in report.of("checks")] == [0] * checked
        return str(module)


def run_gemm(
    module: ir.Module,
    made: HopperGemm,
    completion: str,
    tiles: tuple[int, int] = (1, 1),
    k: int = 200,
    schedule: str = "lockstep",
) -> tuple[bool, set[str]]:
    """The same of a kernel that is pipelined already."""
    rows, columns = tiles[0] * made.tile_m, tiles[1] * made.tile_n
    numbers = np.random.default_rng(0)
    least = 0 if made.types == "u8" else -3
    a, b = (numbers.integers(least, 4, (n, k)).astype(np.float32) for n in (rows, columns))
    given = b if made.b == "k" else lines_of(np.ascontiguousarray(b.T))
    expected = as_stored(a @ b.T, made.result.out)
    arguments = [stored(a, made.types), stored(given, made.types), np.zeros_like(expected), k]
    if made.store == "tma":
        tile = made.result.tile
        expected = lines_of(expected, tile.per_line) if tile.has_panels else expected
        arguments[2:3] = [np.zeros_like(expected), rows, columns]
    result = machine.run(
        module,
        None,
        arguments,
        threads=made.launched,
        grid=(2, made.cluster, 1) if made.persistent else (tiles[1], tiles[0], 1),
        completion=completion,
        schedule=schedule,
    )
    return np.array_equal(result.arrays[2], expected), set(result.race_codes)


def as_stored(values: np.ndarray, out: str) -> np.ndarray:
    """Sums as C of that type holds them."""
    if out == "bf16":
        return stored(round_bf16(values), out)
    return values.astype(NUMPY[out])


def code_of(made: HopperGemm) -> NvidiaKernel:
    """The pipelined kernel as a cubin."""
    with new_context():
        module = ir.Module.parse(made.module())
        pipeline(module, target="nvvm:sm_90a", check="none")
        (kernel,) = lower(module, target="nvvm:sm_90a", emit="cubin").kernels
    return kernel
