"""The kernels of examples/pipeline_object: as short as is said, right on both vendors' chips.

Each `judge` runs its kernel on the machine under every completion, compares it with NumPy, and
lowers it.

Covers: examples/pipeline_object, builder
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from helpers.paths import ROOT

FOLDER = ROOT / "examples" / "pipeline_object"
KERNELS = sorted(FOLDER.glob("object_*.py"))
MOST_LINES = 40


def loaded(path: Path) -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


def lines_of(text: str) -> int:
    """Lines of `build` and of the constants above it: no docstrings, comments and empty lines."""
    lines = text.splitlines()
    counted = set[int]()
    for part in ast.parse(text).body:
        if isinstance(part, ast.Assign) or getattr(part, "name", "") == "build":
            counted |= set(range(part.lineno, (part.end_lineno or 0) + 1))
        for node in ast.walk(part):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                counted -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    code = [lines[number - 1].strip() for number in counted]
    return sum(bool(line) and not line.startswith("#") for line in code)


def test_there_is_an_example_of_each() -> None:
    assert {path.stem.removeprefix("object_") for path in KERNELS} >= {
        "sum",
        "gemm",
        "stencil",
        "attention",
        "softmax",
    }


# Tiles in pieces of 16 bytes, where the chip copies 4.
THROUGH_REGISTERS = {("object_attention", "rocdl:gfx942"), ("object_softmax", "rocdl:gfx942")}


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_kernel_has_at_most_forty_lines(path: Path) -> None:
    assert 20 < lines_of(path.read_text()) <= MOST_LINES


def test_without_the_object_the_softmax_is_longer_and_just_as_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_hand = FOLDER / "softmax_by_hand.py"
    with_object = FOLDER / "object_softmax.py"
    assert (lines_of(with_object.read_text()), lines_of(by_hand.read_text())) == (34, 55)
    loaded(by_hand).main()
    assert "nvvm:sm_80: waits [1" in capsys.readouterr().out


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_kernel_is_right_on_every_chip(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded(path).main()
    said = capsys.readouterr().out
    for target in ("nvvm:sm_80", "rocdl:gfx950", "rocdl:gfx942"):
        line = next(line for line in said.splitlines() if line.startswith(target))
        # Something is in flight, and copied asynchronously where copies are no more than loads.
        asynchronous = (path.stem, target) not in THROUGH_REGISTERS
        assert ("waits [1" in line) == asynchronous
        assert line.endswith(" 0 copies") != asynchronous
