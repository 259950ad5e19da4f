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


def lines_of(function: ast.FunctionDef) -> int:
    """Lines of code of a function: no docstrings, comments and empty lines."""
    unparsed = ast.unparse(function).splitlines()
    docstrings = [
        node.value.value
        for node in ast.walk(function)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return len([line for line in unparsed if line.strip()]) - len(docstrings)


def test_there_is_an_example_of_each() -> None:
    assert {path.stem.removeprefix("object_") for path in KERNELS} >= {
        "sum",
        "gemm",
        "stencil",
        "attention",
        "softmax",
    }


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_kernel_has_at_most_forty_lines(path: Path) -> None:
    for function in ast.parse(path.read_text()).body:
        if isinstance(function, ast.FunctionDef) and function.name == "build":
            assert lines_of(function) <= MOST_LINES
            # As it is laid out, too.
            assert function.end_lineno is not None
            assert function.end_lineno - function.lineno <= MOST_LINES + 12


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_kernel_is_right_on_every_chip(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded(path).main()
    said = capsys.readouterr().out
    for target in ("nvvm:sm_80", "rocdl:gfx950", "rocdl:gfx942"):
        line = next(line for line in said.splitlines() if line.startswith(target))
        # Something is in flight, and copied asynchronously.
        assert "waits [1" in line
        assert not line.endswith(" 0 copies")
