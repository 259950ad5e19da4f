"""Kernels of Pallas that are lowered for Mosaic GPU inside of the hook are checked.

Covers: hooks/pallas_hook.py, examples/embedding/pallas_kernels.py
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

import mlir_async_pipe
from helpers.documented import run_script
from helpers.paths import ROOT
from mlir_async_pipe import bindings
from mlir_async_pipe.session.diagnostics import HazardError, HazardWarning

pytest.importorskip("jax", reason="JAX is not installed")
if bindings.current().name != "jaxlib":
    pytest.skip(
        f"its bindings are asked for by {bindings.ENVIRONMENT_VARIABLE}=jaxlib",
        allow_module_level=True,
    )

sys.path.insert(0, str(ROOT / "examples" / "embedding"))
kernels: Any = importlib.import_module("pallas_kernels")
core: Any = importlib.import_module("jax.experimental.mosaic.gpu.core")


def line_of(text: str) -> int:
    source = inspect.getsource(kernels).split("\n")
    return 1 + next(number for number, line in enumerate(source) if text in line)


@pytest.mark.filterwarnings("ignore::mlir_async_pipe.session.diagnostics.HazardWarning")
def test_right_kernels_are_lowered_and_have_no_error() -> None:
    with mlir_async_pipe.hooks.pallas(noalias=True) as hook:
        kernels.lower_rows()
        assert "mosaic_gpu" in kernels.lower_two_copies(left=1).as_text()
    assert [found.kernel for found in hook.reports] == ["rows", "two_copies"]
    for found in hook.reports:
        (summary,) = found.report.of("checks")
        assert summary.accesses > 0
        assert summary.unsafe == 0


@pytest.mark.filterwarnings("ignore::mlir_async_pipe.session.diagnostics.HazardWarning")
def test_a_wait_too_weak_is_an_error_at_the_line_of_the_code() -> None:
    with pytest.raises(HazardError) as error, mlir_async_pipe.hooks.pallas(noalias=True) as hook:
        kernels.lower_two_copies(left=2)
    assert error.value.code == "read-in-flight"
    place = error.value.diagnostic.place
    assert (place.file, place.line) == (kernels.__file__, line_of("copies(x, y, slots)"))
    assert hook.reports[0].report.of("checks")[0].unsafe == 1


def test_errors_are_warnings_where_that_is_asked_for() -> None:
    with (
        pytest.warns(HazardWarning, match=r"two_copies: .*\[read-in-flight\]"),
        mlir_async_pipe.hooks.pallas("warn", noalias=True),
    ):
        assert kernels.lower_two_copies(left=2) is not None


def test_what_is_unknown_is_a_warning_at_a_line_of_the_kernel() -> None:
    with (
        pytest.warns(HazardWarning, match="unknown-hazard") as reported,
        mlir_async_pipe.hooks.pallas(),
    ):
        kernels.lower_rows()
    assert {one.filename for one in reported} == {kernels.__file__}


def test_nothing_is_left_behind() -> None:
    before = core._run_serde_pass
    with mlir_async_pipe.hooks.pallas() as hook:
        assert core._run_serde_pass is not before
    assert core._run_serde_pass is before
    kernels.lower_two_copies(left=2)
    assert hook.reports == []


def test_what_the_documentation_shows_runs_as_written(tmp_path: Path) -> None:
    done = run_script("embedding.md", "### Pallas", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accesses in 1 kernel" in done.stdout
