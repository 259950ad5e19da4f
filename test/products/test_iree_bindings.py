"""The package on IREE's own bindings gives what it gives on ours.

Needs iree-base-compiler: in this environment, or in the one whose interpreter the variable
MLIR_ASYNC_PIPE_IREE_PYTHON names.

Covers: bindings/__init__.py, test/helpers/iree_child.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context

HANDWRITTEN = sorted((ROOT / "examples" / "handwritten").glob("*.mlir"))


def interpreter() -> str | None:
    given = os.environ.get("MLIR_ASYNC_PIPE_IREE_PYTHON")
    if given is not None:
        return given
    return sys.executable if importlib.util.find_spec("iree.compiler") is not None else None


def has_iree() -> bool:
    try:
        return interpreter() is not None
    except ModuleNotFoundError:
        return False


pytestmark = pytest.mark.skipif(not has_iree(), reason="iree-base-compiler is not installed")


def generic(path: Path, folder: Path) -> Path:
    """The kernel as IREE's younger parser reads it: generic ops, ids in double brackets."""
    with new_context():
        text = ir.Module.parse(path.read_text()).operation.get_asm(print_generic_op_form=True)
    for axis in "xyz":
        text = text.replace(f"#gpu<dim {axis}>", f"#gpu<dim<{axis}>>")
    written = folder / path.name
    written.write_text(text)
    return written


def on_iree(paths: list[Path], *options: str) -> dict:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.run(
        [
            str(interpreter()),
            str(ROOT / "test" / "helpers" / "iree_child.py"),
            *options,
            *map(str, paths),
        ],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def test_checker_says_the_same_of_every_handwritten_kernel(tmp_path):
    found = on_iree([generic(path, tmp_path) for path in HANDWRITTEN])
    for path in HANDWRITTEN:
        chip = "rocdl:gfx950" if path.name.startswith("amd") else "nvvm:sm_80"
        with new_context():
            module = ir.Module.parse(path.read_text())
            checks = mlir_async_pipe.check(module, chip).of("checks")
        assert found[path.stem] == [[c.accesses, c.unsafe, c.unknown] for c in checks]


@pytest.mark.parametrize(
    ("name", "counts", "relaxed"),
    [
        ("gemm_two_slots", [2, 2, 1, 0], []),
        ("gemm_prologue", [], [[0, 1]]),
        ("gemm_carried_tokens", [1, 0], []),
    ],
)
def test_pipelines_are_the_same_and_run(tmp_path, name, counts, relaxed):
    path = generic(ROOT / "examples" / "handwritten" / f"{name}.mlir", tmp_path)
    found = on_iree([path], "--pipeline")[name]
    assert found["counts"] == counts
    assert found["relaxed"] == relaxed
    assert all(unsafe == unknown == 0 for _, unsafe, unknown in found["checks"])
    assert found["races"] == 0
    assert found["error"] < 1e-4
