"""The examples' PTX, run by the machine of ptx_machine: right under every completion, as it is
and pipelined; and wrong as soon as one wait lets one more group in flight.

Covers: lowering/nvvm/lower_nvvm.py, examples
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from helpers.paths import ROOT
from helpers.ptx_machine import COMPLETIONS, Array, Program, PtxFault, launch, memref, parse
from helpers.ptx_of import Ptx, ptx_of

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


def whole(data: np.ndarray, align: int, read_only: bool = True) -> tuple[Array, list]:
    array = Array(np.ascontiguousarray(data), align, read_only)
    strides = [stride // data.itemsize for stride in array.data.strides]
    return array, memref(array, data.shape, strides)


def integers(shape: tuple[int, ...], kind: type) -> np.ndarray:
    return np.random.default_rng(3).integers(-4, 5, shape).astype(kind)


Launch = tuple[list, Array, np.ndarray]


def add_one(_: int) -> Launch:
    data = integers((8192,), np.float32)
    to, to_arguments = whole(np.zeros_like(data), 16, read_only=False)
    return [*whole(data, 16)[1], *to_arguments], to, data + 1


def reverse(rows: int) -> Launch:
    data = integers((rows, 64), np.float32)
    to, to_arguments = whole(np.zeros_like(data), 4, read_only=False)
    return [*whole(data, 4)[1], *to_arguments], to, 2 * data[:, ::-1]


def dot(rows: int) -> Launch:
    a, b = integers((rows, 64), np.float32), integers((rows, 64), np.float32) + 1
    to, to_arguments = whole(np.zeros(64, np.float32), 4, read_only=False)
    arguments = [*whole(a, 4)[1], *whole(b, 4)[1], *to_arguments]
    return arguments, to, (a[:, ::-1] * b).sum(axis=0)


def attention(depth: int) -> Launch:
    q, k = integers((32, depth), np.float32), integers((32, depth), np.float32) - 1
    v = integers((32, 32), np.float32)
    to, to_arguments = whole(np.zeros((32, 32), np.float32), 4, read_only=False)
    inputs = [argument for data in (q, k, v.T) for argument in whole(data, 8)[1]]
    return [*inputs, *to_arguments], to, q @ k.T @ v


def gemm(depth: int) -> Launch:
    a, b = integers((128, depth), np.float16), integers((128, depth), np.float16)[::-1]
    to, to_arguments = whole(np.zeros((128, 128), np.float32), 8, read_only=False)
    arguments = [*whole(a, 16)[1], *whole(b, 16)[1], *to_arguments]
    return arguments, to, a.astype(np.float32) @ b.T.astype(np.float32)


def gemm_contract(depth: int) -> Launch:
    a, b = integers((64, depth), np.float32), integers((64, depth), np.float32)[::-1]
    to, to_arguments = whole(np.zeros((64, 64), np.float32), 16, read_only=False)
    return [*whole(a, 16)[1], *whole(b, 16)[1], *to_arguments], to, a @ b.T


CASES: dict[str, tuple[str, int, Callable[[int], Launch], tuple[int, ...]]] = {
    "add_one": ("add_one", 128, add_one, (0,)),
    "reverse": ("small_kernels", 64, reverse, (7, 1, 2, 3, 4, 5, 6)),
    "dot": ("small_kernels", 64, dot, (7, 1, 2, 3, 4, 5, 6, 8)),
    "attention_tile": ("attention_tile", 128, attention, (40, 8, 16, 24, 32)),
    "gemm": ("gemm", 128, gemm, (128, 32, 64, 96, 160)),
    "gemm_contract": ("gemm_contract", 256, gemm_contract, (64, 16)),
}
NAMES = {"gemm_contract": "gemm"}


@cache
def ptx(file: str, pipelined: bool) -> Ptx:
    return ptx_of((EXAMPLES / f"{file}.mlir").read_text(), pipelined=pipelined)


def run(case: str, found: Ptx, completions: tuple[str, ...], size: int, *, text: str = "") -> None:
    _, threads, make, _ = CASES[case]
    name = NAMES.get(case, case)
    program = Program(parse(text or found.text), name)
    for completion in completions:
        arguments, to, expected = make(size)
        launch(
            program.module, name, arguments, block=(threads, 1, 1), completion=completion,
            dynamic_bytes=found.dynamic_bytes[name], program=program,
        )  # fmt: skip
        assert np.array_equal(to.data, expected)


@pytest.mark.parametrize("case", CASES)
def test_examples_are_right_before_they_are_pipelined(case: str) -> None:
    found = ptx(CASES[case][0], False)
    assert "wait_group \t0" in found.text
    run(case, found, ("late",), CASES[case][3][0])


@pytest.mark.parametrize("case", CASES)
def test_pipelined_examples_are_right_under_every_completion(case: str) -> None:
    found = ptx(CASES[case][0], True)
    assert re.search(r"wait_group \t[1-9]", found.text)
    for size in CASES[case][3][:2]:
        run(case, found, COMPLETIONS, size)


def larger_by_one(text: str, kernel: str) -> list[str]:
    """The PTX with each wait of the kernel, in turn, letting one more group in flight."""
    start = text.index(f".entry {kernel}(")
    end = text.index("\n}\n", start)
    found = re.finditer(r"(?<=cp\.async\.wait_group \t)\d+", text)
    waits = [wait for wait in found if start < wait.start() < end]
    return [f"{text[: w.start()]}{int(w[0]) + 1}{text[w.end() :]}" for w in waits]


def is_wrong(case: str, found: Ptx, text: str, sizes: tuple[int, ...]) -> bool:
    for size in sizes:
        try:
            run(case, found, ("late",), size, text=text)
        except PtxFault as fault:
            assert fault.kind == "in-flight"
            return True
    return False


@pytest.mark.parametrize("case", ["add_one", "reverse", "dot", "attention_tile", "gemm"])
def test_each_wait_with_one_group_more_in_flight_is_wrong(case: str) -> None:
    """The counts are exact: for some size, some thread reads what is still in flight."""
    found = ptx(CASES[case][0], True)
    mutants = larger_by_one(found.text, NAMES.get(case, case))
    assert len(mutants) >= 3
    assert all(is_wrong(case, found, text, CASES[case][3]) for text in mutants)
