"""Laws are slow: `pytest -m "not slow"` leaves them out, with what else is marked."""

from __future__ import annotations

import gc
import os

import pytest

from helpers.paths import ROOT

# What is kept from an earlier run would hide what a test changes.
os.environ["MLIR_ASYNC_PIPE_CACHE"] = "off"

LAWS = ROOT / "test" / "laws"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if LAWS in item.path.parents:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """The 10^4 tests live to the end: each full collection of garbage would walk them, which is a
    tenth of the time of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
