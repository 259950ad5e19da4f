"""Loops over memory that threads and blocks share, as nvcc strides and unrolls them: proven where each thread stays at its own
places, and no wrong one is. The machine runs all of them and meets the race of each wrong one, and none of a right one.

`test/helpers/cuda/strides.cu` is the text; `strides.ptx` is what nvcc wrote.

Covers: checker/iterations.py, checker/path_values.py, checker/owners.py, checker/footprints.py, checker/promises.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.nvcc_kernels import kernels_of, verdict
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import UsageError

BLOCK = {"assume_noalias_arguments": True, "assume_block_size": "256"}
GRID = {**BLOCK, "assume_no_overflow": True}
# n and m of each kernel, where others than these are needed to meet its race.
NUMBERS, OTHERS = (
    (2048, 300),
    {
        "block_begun_wrong": (2048, 100),
        "block_later_wrong": (2048, 100),
        "row_part_wrong": (4400, 0),
    },
)


def kernels() -> dict[str, str]:
    return kernels_of("strides.ptx")


@pytest.mark.parametrize("name", kernels())
def test_right_ones_are_proven_and_no_wrong_one(name: str) -> None:
    found = verdict(kernels()[name], **GRID)
    assert found == "proven" if name.endswith("right") else found != "proven"


@pytest.mark.parametrize("name", ["grid_right", "each_shifted_right", "grid_pairs_right"])
def test_places_of_blocks_may_wrap_unless_said_otherwise(name: str) -> None:
    assert verdict(kernels()[name], **BLOCK) == "unknown"


@pytest.mark.parametrize("name", kernels())
def test_the_machine_meets_the_race_of_each_wrong_one(name: str) -> None:
    n, m = OTHERS.get(name, NUMBERS)
    module = raise_ptx(kernels()[name], new_context(), "strides.ptx")
    x = np.arange(16384, dtype=np.float32) % 7 - 3
    blocks = 1 if name.startswith("block") else 2
    given = [np.zeros(16384, np.float32), x, n, m]
    result = machine.run(module, None, given, threads=256, grid=blocks)
    assert bool(result.race_codes) == name.endswith("wrong")


def test_a_kernel_may_be_given_memory_that_it_does_not_touch() -> None:
    text = kernels()["each_right"].replace(
        "ld.global.f32 \t%f1, [%rd5];", "mov.f32 %f1, 0f3F800000;"
    )
    module = raise_ptx(text, new_context(), "strides.ptx")
    o, x = np.zeros(256, np.float32), np.zeros(4, np.float32)
    assert (machine.run(module, None, [o, x, 256, 0], threads=256).arrays[0] == 1).all()


def test_memory_is_no_number_of_32_bits() -> None:
    module = raise_ptx(kernels()["each_right"], new_context(), "strides.ptx")
    memory = np.zeros(256, np.float32)
    with pytest.raises(UsageError, match=r"argument 2 has shape \(256,\), expected i32") as error:
        machine.run(module, None, [memory, memory, memory, 0], threads=256)
    assert error.value.code == "bad-argument"
