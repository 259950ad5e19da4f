"""Views of a versioned buffer show the slot of their iteration.

Covers: expand/write/slot_views.py, expand/write/versioned_buffers.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

KERNEL = ROOT / "lit-tests" / "expand" / "views.mlir"
PASSES = ("async-pipe-schedule", "async-pipe-expand", "async-pipe-count-waits")


@pytest.mark.parametrize("completion", ["eager", "late", "random"])
@pytest.mark.parametrize("tiles", [0, 1, 2, 5])
def test_subviews_reshapes_and_reinterpret_casts_follow_to_their_slot(
    tiles: int, completion: str
) -> None:
    given = np.arange(tiles * 128, dtype=np.float32)
    with new_context():
        module = ir.Module.parse(KERNEL.read_text())
        for name in PASSES:
            found = passes.find(name)
            found.run(module.operation, found.options(), Session())
        result = machine.run(
            module,
            "views",
            [given, np.zeros_like(given)],
            threads=128,
            completion=completion,
        )
    tile, half = given.reshape(-1, 128), np.arange(128) % 64
    expected = (tile[:, 1 + 2 * half] + tile[:, 64 + half]).reshape(-1)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], expected)
