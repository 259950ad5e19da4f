"""Rows whose length only the launch knows, as nvcc writes them: proven where each block and thread stays in its own row, and no
wrong one is. The machine runs all of them and meets the race of each wrong one, and none of a right one.

`test/helpers/cuda/rows.cu` is the text; `rows.ptx` is what nvcc wrote.

Covers: checker/two_ends.py, checker/owners.py, checker/footprints.py, checker/iterations.py, checker/paths.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.nvcc_kernels import kernels_of, verdict
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx

PROMISES = {"assume_noalias_arguments": True, "assume_no_overflow": True}
# n and m of each kernel, by what its name begins with; where others are needed to meet its race.
NUMBERS = {"block": (130, 5), "thread": (3, 400), "softmax": (300, 0), "tile": (20, 40)}
OTHERS = {"block_shorter_wrong": (130, 100), "tile_swapped_wrong": (20, 40)}


def kernels() -> dict[str, str]:
    return kernels_of("rows.ptx")


def _threads(name: str) -> tuple[int, int, int]:
    return (16, 16, 1) if name.startswith("tile") else (256, 1, 1)


@pytest.mark.parametrize("name", kernels())
def test_right_ones_are_proven_and_no_wrong_one(name: str) -> None:
    block = "x".join(map(str, _threads(name)[:2]))
    found = verdict(kernels()[name], **PROMISES, assume_block_size=block)
    assert found == "proven" if name.endswith("right") else found != "proven"


@pytest.mark.parametrize("name", ["block_right", "thread_once_right", "tile_right"])
def test_products_may_wrap_unless_said_otherwise(name: str) -> None:
    block = "x".join(map(str, _threads(name)[:2]))
    text = kernels()[name]
    assert verdict(text, assume_noalias_arguments=True, assume_block_size=block) == "unknown"


@pytest.mark.parametrize("name", kernels())
def test_the_machine_meets_the_race_of_each_wrong_one(name: str) -> None:
    n, m = OTHERS.get(name, NUMBERS[name.split("_")[0]])
    x = np.arange(16384, dtype=np.float32) % 7 - 3
    # Along what a kernel does not read there is one block.
    text = kernels()[name]
    grid = tuple(
        n if f"%ctaid.{axis}" in text else 1 for axis, n in zip("xyz", (2, 3, 2), strict=True)
    )
    module = raise_ptx(text, new_context(), "rows.ptx")
    given = [np.zeros(16384, np.float32), x, n, m]
    result = machine.run(module, None, given, threads=_threads(name), grid=grid)
    assert bool(result.race_codes) == name.endswith("wrong")
