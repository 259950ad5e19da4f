"""One loop without a word of a chip: right on each, proven, and the table that shows what it becomes is that of now.

Covers: examples/one_loop.mlir, docs/targets.md, cmake-free-scripts/write_targets.py, cmake-free-scripts/demo.sh
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.paths import ROOT
from mlir_async_pipe import bindings, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool


def _loaded() -> ModuleType:
    path = ROOT / "cmake-free-scripts" / "write_targets.py"
    spec = importlib.util.spec_from_file_location("write_targets", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["write_targets"] = module
    spec.loader.exec_module(module)
    return module


WRITER = _loaded()


@pytest.mark.parametrize("target", WRITER.TARGETS)
def test_the_loop_is_right_and_proven_on_each_chip(target: str) -> None:
    module = ir.Module.parse((ROOT / WRITER.LOOP).read_text(), new_context())
    pipeline(module, target=target)
    checked = check_module(module, target)
    assert not checked.unsafe
    assert not checked.unknown
    for tiles in (0, 1, 5):
        a = np.random.default_rng(tiles).integers(-8, 8, (32, 64 * tiles)).astype(np.float16)
        result = machine.run(module, "sum", [a, np.zeros((32, 64), np.float32)], completion="late")
        assert result.race_codes == set()
        np.testing.assert_array_equal(
            result.arrays[1], a.reshape(32, tiles, 64).sum(axis=1, dtype=np.float32)
        )


@pytest.mark.slow
@pytest.mark.skipif(
    find_tool("ptxas") is None or not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="needs both back ends",
)
def test_the_table_is_what_the_commands_say() -> None:
    """`cmake-free-scripts/write_targets.py` writes it anew."""
    assert WRITER.table() in WRITER.PAGE.read_text()
