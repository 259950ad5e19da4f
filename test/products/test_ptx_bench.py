"""Every NVIDIA kernel of bench/code.py as PTX, run by the machine of ptx_machine: NumPy's numbers
under every completion, and wrong as soon as one wait lets one more group in flight.

Covers: examples/generate_attention.py, examples/generate_gemm.py, lowering/nvvm/lower_nvvm.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest

from helpers.paths import ROOT
from helpers.ptx_machine import COMPLETIONS, Array, Program, launch, memref, parse
from helpers.ptx_of import Ptx, ptx_of, reads_in_flight

sys.path.insert(0, str(ROOT / "bench"))

from code_kernels import KERNELS

pytestmark = pytest.mark.slow

LISTED = {kernel.name: kernel for kernel in KERNELS if kernel.target == "nvvm:sm_80"}
HEADS = 2
UNWRITTEN = -77


@dataclass
class Launch:
    """What one run is given, and what its result is compared with: up to `distance`."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    arguments: list
    results: list[tuple[Array, np.ndarray]]
    distance: float = 0.0

    def run(self, program: Program, completion: str, dynamic_bytes: int) -> None:
        for array, _ in self.results:
            array.data[...] = UNWRITTEN
        launch(
            program.module, self.kernel, self.arguments, block=(self.threads, 1, 1), grid=self.grid,
            completion=completion, dynamic_bytes=dynamic_bytes, program=program,
        )  # fmt: skip
        for array, wanted in self.results:
            assert float(np.abs(array.data - wanted).max()) <= self.distance


def given(data: np.ndarray, align: int = 16) -> list:
    return _memref(Array(np.ascontiguousarray(data), align, read_only=True))


def result(wanted: np.ndarray, kind: type = np.float32) -> tuple[Array, np.ndarray]:
    return Array(np.full(wanted.shape, UNWRITTEN, kind), 16), wanted


def _memref(array: Array) -> list:
    data = array.data
    return memref(array, data.shape, [stride // data.itemsize for stride in data.strides])


def gemm(name: str, steps: int) -> Launch:
    """One tile of C over `steps` tiles of k, or three of a persistent kernel by two blocks: small integers, whose sums
    are exact. With edges, a few rows and columns fewer; with a residual, C is max(A B^T + bias, 0) + R."""
    _, tile, kind, *label = name.split()
    m, n, k = (int(size) for size in tile.split("x"))
    edge = 3 if label[-1] == "edges" else 0
    persistent = label[-1] == "persistent"
    m *= 3 if persistent else 1
    draw = np.random.default_rng(steps)
    left, right = (draw.integers(-4, 5, (rows, steps * k)) for rows in (m - edge, n - 2 * edge))
    product, of_c, after = left @ right.T, np.int32 if kind == "s8" else np.float32, []
    if "residual" in label:
        bias, more = draw.integers(-9, 10, n), draw.integers(-9, 10, (m, n))
        product, of_c = np.maximum(product + bias, 0) + more, np.float16
        after = [*given(bias.astype(np.float32)), *given(more.astype(np.float16))]
    wanted = result(product, of_c)
    arguments = [*given(_as(kind, left)), *given(_as(kind, right)), *_memref(wanted[0]), *after]
    return Launch("gemm", (1 + persistent, 1, 1), 32 * _warps(name), arguments, [wanted])


def _as(kind: str, numbers: np.ndarray) -> np.ndarray:
    if kind == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype({"f16": np.float16, "tf32": np.float32, "s8": np.int8}[kind])


def _warps(name: str) -> int:
    peer = LISTED[name].triton
    return peer["warps"] if peer else 4


def attention(name: str, tiles: int) -> Launch:
    """All rows of two heads, `tiles` tiles of keys each."""
    match = re.search(r"D=(\d+)", name)
    assert match is not None
    features, draw = int(match[1]), np.random.default_rng(tiles)
    shape = (HEADS, 64 * tiles, features)
    q, k, v = (draw.normal(size=shape).astype(np.float16) for _ in range(3))
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) / np.sqrt(features)
    if "causal" in name:
        scores = np.where(np.tri(64 * tiles, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    wanted = result(weights / weights.sum(axis=2, keepdims=True) @ v.astype(float))
    arguments = [*given(q), *given(k), *given(v), *_memref(wanted[0])]
    # Weights of at most 1 are rounded to f16, 2^-11; elements of V are below 5.
    return Launch("attention", (tiles, HEADS, 1), 128, arguments, [wanted], 5 * 2**-11)


def attention_tile(_: str, steps: int) -> Launch:
    draw = np.random.default_rng(steps)
    q, k = (draw.integers(-4, 5, (32, 8 * steps)).astype(np.float32) for _ in range(2))
    v = draw.integers(-4, 5, (32, 32)).astype(np.float32)
    wanted = result(q @ k.T @ v)
    arguments = [*given(q), *given(k), *given(v.T), *_memref(wanted[0])]
    return Launch("attention_tile", (1, 1, 1), 128, arguments, [wanted])


def softmax(_: str, tiles: int) -> Launch:
    data = np.random.default_rng(tiles).normal(size=512 * tiles).astype(np.float32)
    columns = data.reshape(-1, 128).astype(float)
    largest = columns.max(axis=0)
    results = [result(largest), result(np.exp2(columns - largest).sum(axis=0))]
    arguments = [*given(data), *_memref(results[0][0]), *_memref(results[1][0])]
    # Sums of 4 numbers a tile, each at most 1, with the roundings of f32.
    return Launch("softmax", (1, 1, 1), 128, arguments, results, 8 * tiles * 2**-23)


def stencil(_: str, rows: int) -> Launch:
    data = np.random.default_rng(rows).integers(-99, 99, (rows, 128)).astype(np.float32)
    wanted = result(np.roll(data, 1, axis=1) + 2 * data + np.roll(data, -1, axis=1))
    arguments = [*given(data), *_memref(wanted[0])]
    return Launch("stencil", (1, 1, 1), 128, arguments, [wanted])


MAKERS: dict[str, Callable[[str, int], Launch]] = {
    "GEMM": gemm, "attention 64x64": attention, "attention tile": attention_tile,
    "softmax": softmax, "stencil": stencil,
}  # fmt: skip


@cache
def launch_of(name: str, steps: int) -> Launch:
    return next(make for start, make in MAKERS.items() if name.startswith(start))(name, steps)


@cache
def ptx(name: str) -> Ptx:
    return ptx_of(LISTED[name].text(), **dict(LISTED[name].options))


@cache
def program_of(name: str) -> Program:
    return Program(parse(ptx(name).text), launch_of(name, 1).kernel)


def run(name: str, steps: int, completion: str, program: Program) -> None:
    made = launch_of(name, steps)
    made.run(program, completion, ptx(name).dynamic_bytes[made.kernel])


@pytest.mark.parametrize("name", LISTED)
def test_it_gives_numpys_numbers_under_every_completion(name: str) -> None:
    assert "cp.async.wait_group" in ptx(name).text
    for completion in COMPLETIONS:
        run(name, 3, completion, program_of(name))
    run(name, 1, "late", program_of(name))


@pytest.mark.parametrize("name", LISTED)
def test_every_wait_with_one_group_more_in_flight_is_wrong(name: str) -> None:
    """For some number of steps some thread reads what is still in flight; but for the last wait of a persistent kernel, for
    what fills slots with zeros where a next tile would be."""
    programs = program_of(name).with_looser_waits()
    assert len(programs) >= 2
    unseen = 0
    for program in programs:
        runs = [partial(run, name, steps, "late", program) for steps in (3, 1, 2, 4, 5, 6, 7)]
        unseen += not any(map(reads_in_flight, runs))
    assert unseen == name.endswith("persistent")
