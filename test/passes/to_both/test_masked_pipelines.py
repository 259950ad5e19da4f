"""A pipelined loop of masked copies over a ragged row, in the copies of both vendors, on the
machine: what NumPy computes, whatever is left for the last copy.

Covers: lowering/scopes/masked_loads.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

SOURCE = ROOT / "lit-tests" / "to-nvvm" / "masked-loop.mlir"
THREADS = 32
TILE = 128
"""Elements that an iteration copies; thread t uses element 31 - t of them."""


def expected(size: int) -> np.ndarray:
    """C[i + t] = A[i + 31 - t] for each tile i, 0 where A has ended."""
    tiles = -(-size // TILE)
    row = np.zeros(tiles * TILE, np.float32)
    row[:size] = np.arange(1, size + 1)
    result = np.zeros(tiles * TILE, np.float32)
    for start in range(0, tiles * TILE, TILE):
        result[start : start + THREADS] = row[start : start + THREADS][::-1]
    return result


def pipelined(chip: str, more: str):
    """The loop after the whole pass, with its copies in the form that the chip lowers."""
    asked = f'num_stages = 3 : i64, async_pipe.stage_through = "async"{more}'
    text = SOURCE.read_text().replace("num_stages = 3 : i64", asked)
    module = ir.Module.parse(text)
    session = Session(target=Target.of_chip(chip))
    found = passes.find("async-pipe")
    found.run(module.operation, found.options(chip=chip), session)
    lower_abstract_ops(module.operation, CHIPS[chip], session, strict=True)
    assert module.operation.verify()
    return module


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("more", ["", ', async_pipe.short_trip = "predicate"'])
def test_ragged_rows_are_right_on_both_vendors(chip, more):
    with new_context():
        module = pipelined(chip, more)
        names = {op.name for op in walk(module.operation)}
        assert "nvgpu.device_async_copy" in names
        for size in (0, 1, 127, 128, 129, 300, 511, 640):
            for completion in ("late", "random"):
                arrays = [np.arange(1, size + 1, dtype=np.float32), np.zeros_like(expected(size))]
                run = machine.run(
                    module, "ragged", [*arrays, size], threads=THREADS, completion=completion
                )
                assert run.races == ()
                np.testing.assert_array_equal(run.arrays[1], expected(size))
