"""Kernels that CuTe DSL compiles inside of the hook are proven, or refused at the user's line.

Covers: hooks/cutlass_hook.py, examples/embedding/cute_kernels.py
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import mlir_async_pipe
from helpers.documented import run_script
from helpers.paths import ROOT
from mlir_async_pipe import bindings
from mlir_async_pipe.session.diagnostics import HazardError, HazardWarning

if "cutlass" not in {found.name for found in bindings.installed()}:
    pytest.skip("CuTe DSL is not installed", allow_module_level=True)
if bindings.current().name != "cutlass":
    pytest.skip(
        f"its bindings are asked for by {bindings.ENVIRONMENT_VARIABLE}=cutlass",
        allow_module_level=True,
    )

sys.path.insert(0, str(ROOT / "examples" / "embedding"))
kernels: Any = importlib.import_module("cute_kernels")
language = kernels.cute.jit.__self__._get_dsl()


def line_of(text: str) -> int:
    source = inspect.getsource(kernels).split("\n")
    return 1 + next(number for number, line in enumerate(source) if text in line)


def test_a_right_kernel_is_compiled_and_proven() -> None:
    with warnings.catch_warnings(), mlir_async_pipe.hooks.cutlass(noalias=True) as hook:
        warnings.simplefilter("error", HazardWarning)
        assert kernels.compile_reversed() is not None
    (found,) = hook.reports
    assert "reversed_tiles" in found.kernel
    (summary,) = found.report.of("checks")
    assert summary.function == found.kernel
    assert summary.accesses > 0
    assert (summary.unsafe, summary.unknown) == (0, 0)


@pytest.mark.parametrize(
    "fault, code, line",
    [
        ({"left": 2}, "read-in-flight", "y[j, t, k] ="),
        ({"meet": False}, "missing-barrier", "cute.copy(copy, x[None, t, k + 1]"),
    ],
)
def test_a_fault_is_an_error_at_its_line(fault: dict[str, Any], code: str, line: str) -> None:
    with pytest.raises(HazardError) as error, mlir_async_pipe.hooks.cutlass(noalias=True) as hook:
        kernels.compile_reversed(**fault)
    assert error.value.code == code
    place = error.value.diagnostic.place
    assert (place.file, place.line) == (kernels.__file__, line_of(line))
    assert hook.reports[0].report.of("checks")[0].unsafe > 0


def test_inside_of_the_block_the_language_s_error_has_ours_as_its_cause() -> None:
    with (
        mlir_async_pipe.hooks.cutlass(noalias=True),
        pytest.raises(Exception, match="Trace finalize hook failed") as error,
    ):
        kernels.compile_reversed(left=2)
    assert isinstance(error.value.__cause__, HazardError)


def test_errors_are_warnings_where_that_is_asked_for() -> None:
    with (
        pytest.warns(HazardWarning, match=r"\[read-in-flight\]") as reported,
        mlir_async_pipe.hooks.cutlass("warn", noalias=True),
    ):
        assert kernels.compile_reversed(left=2) is not None
    assert reported[0].lineno == line_of("y[j, t, k] =")


def test_what_is_unknown_is_a_warning_at_its_line() -> None:
    """Nothing says that what is stored is not what later copies read."""
    with (
        pytest.warns(HazardWarning, match="unknown-hazard") as reported,
        mlir_async_pipe.hooks.cutlass(),
    ):
        kernels.compile_reversed()
    assert {one.lineno for one in reported} == {line_of("y[j, t, k] =")}


def test_each_compilation_is_checked() -> None:
    with mlir_async_pipe.hooks.cutlass(noalias=True) as hook:
        kernels.compile_reversed()
        kernels.compile_reversed()
    assert len(hook.reports) == 2


def test_nothing_is_left_behind() -> None:
    before = [*language._trace_finalize_hooks], language.envar.lineinfo
    with mlir_async_pipe.hooks.cutlass() as hook:
        assert len(language._trace_finalize_hooks) == len(before[0]) + 1
    assert ([*language._trace_finalize_hooks], language.envar.lineinfo) == before
    kernels.compile_reversed(left=2)
    assert hook.reports == []


@pytest.mark.parametrize("last", ["no-such-pass", "canonicalize"])
def test_a_kernel_that_cannot_be_lowered_as_the_language_does_is_not_called_proven(
    monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """The one pipeline is none, the other one has no pass after which loops are still loops."""
    broken = f"builtin.module({last})"
    monkeypatch.setattr(language, "preprocess_pipeline", lambda given, chip: given)
    monkeypatch.setattr(language, "_get_pipeline", lambda given: broken)
    with (
        pytest.warns(HazardWarning, match="not checked"),
        mlir_async_pipe.hooks.cutlass("warn") as hook,
        suppress(Exception),
    ):
        kernels.compile_reversed()
    assert hook.reports[0].report is None


def test_what_the_documentation_shows_runs_as_written(tmp_path: Path) -> None:
    done = run_script("embedding.md", "### CuTe DSL", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "· proven: " in done.stdout
