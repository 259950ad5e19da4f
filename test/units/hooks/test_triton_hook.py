"""Kernels that Triton compiles inside of the hook are proven, or refused at the user's line.

Covers: hooks/triton_hook.py, hooks/checked_kernel.py, examples/embedding/triton_kernels.py
"""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mlir_async_pipe
from helpers.documented import run_script
from helpers.paths import ROOT
from mlir_async_pipe.session.diagnostics import HazardError, HazardWarning, UsageError

triton = pytest.importorskip("triton", reason="Triton is not installed")
sys.path.insert(0, str(ROOT / "examples" / "embedding"))
kernels: Any = importlib.import_module("triton_kernels")


def line_of(kernel: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.fixture(autouse=True)
def in_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    "compile_one", [kernels.compile_product, partial(kernels.compile_doubled, 1)]
)
def test_a_right_kernel_is_compiled_and_proven(compile_one: Callable[[], Any]) -> None:
    with warnings.catch_warnings(), mlir_async_pipe.hooks.triton(noalias=True) as hook:
        warnings.simplefilter("error", HazardWarning)
        made = compile_one()
    assert "cp.async.wait_group" in made.asm["ptx"]
    (found,) = hook.reports
    assert found.kernel == made.metadata.name
    (summary,) = found.report.of("checks")
    assert summary.accesses > 0
    assert (summary.unsafe, summary.unknown) == (0, 0)


def test_a_wait_too_weak_is_an_error_at_the_line_that_reads() -> None:
    with mlir_async_pipe.hooks.triton(noalias=True) as hook, pytest.raises(HazardError) as error:
        kernels.compile_doubled(2)
    assert error.value.code == "read-in-flight"
    place = error.value.diagnostic.place
    assert (place.file, place.line) == (
        kernels.__file__,
        line_of(kernels.doubled, "slots.index(k % 2).load"),
    )
    assert hook.reports[0].report.of("checks")[0].unsafe > 0


def test_errors_are_warnings_where_that_is_asked_for() -> None:
    with (
        mlir_async_pipe.hooks.triton("warn", noalias=True) as hook,
        pytest.warns(HazardWarning, match=r"doubled: .*\[read-in-flight\]") as reported,
    ):
        made = kernels.compile_doubled(2)
    assert made.asm["ptx"]
    assert reported[0].lineno == line_of(kernels.doubled, "slots.index(k % 2).load")
    assert hook.reports[0].diagnostics[0].severity == "error"


def test_what_is_unknown_is_a_warning_at_its_line() -> None:
    """Nothing says that what is stored is not what later copies read."""
    with (
        mlir_async_pipe.hooks.triton() as hook,
        pytest.warns(HazardWarning, match="unknown-hazard") as reported,
    ):
        kernels.compile_doubled(1)
    assert [(one.filename, one.lineno) for one in reported] == [
        (kernels.__file__, line_of(kernels.doubled, "gl.store"))
    ]
    assert hook.reports[0].report.of("checks")[0].unknown == 1


def test_a_kernel_that_was_compiled_before_is_checked_too() -> None:
    kernels.compile_doubled(2)
    with mlir_async_pipe.hooks.triton("warn", noalias=True) as hook, pytest.warns(HazardWarning):
        kernels.compile_doubled(2)
        kernels.compile_doubled(2)
    assert len(hook.reports) == 2


def test_what_the_user_promises_is_taken_as_said() -> None:
    """Rows of an argument's stride, numbered in 32 bits: only who gives the stride knows that they lie apart."""

    def unknown(**promises: bool) -> int:
        with warnings.catch_warnings(), mlir_async_pipe.hooks.triton(**promises) as hook:
            warnings.simplefilter("ignore", HazardWarning)
            kernels.compile_rows()
        return int(hook.reports[0].report.of("checks")[0].unknown)

    assert unknown(noalias=True) > 0
    assert unknown(noalias=True, no_overflow=True) > 0
    assert unknown(noalias=True, no_overflow=True, independent=True) == 0


class Driver:
    """Of a GPU that is not there: what a launch asks before it compiles."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device

    def get_current_target(self) -> Any:
        return kernels.CHIP


def test_a_launch_compiles_a_kernel_that_is_in_memory_anew_for_each_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once a hook: what it has checked it takes from memory itself."""
    halves = triton.MockTensor(kernels.tl.float16)
    sums = triton.MockTensor(kernels.tl.float32)
    monkeypatch.setattr(triton.runtime.driver, "_active", Driver())
    hooks = [mlir_async_pipe.hooks.triton(noalias=True) for _ in range(2)]
    for hook in hooks:
        with hook:
            for _ in range(2):
                kernels.product.warmup(halves, halves, sums, 64, 32, 32, 32, grid=(1,))
    assert [[found.kernel for found in hook.reports] for hook in hooks] == [["product"]] * 2


def test_nothing_is_left_behind() -> None:
    before = dict(vars(triton.knobs.runtime))
    hook = mlir_async_pipe.hooks.triton()
    with hook:
        assert triton.knobs.compilation.always_compile
    assert vars(triton.knobs.runtime) == {**before, "add_stages_inspection_hook": None}
    assert not triton.knobs.compilation.always_compile
    kernels.compile_doubled(2)
    assert hook.reports == []


def test_a_hook_that_was_there_is_still_asked() -> None:
    asked = []

    def there(*given: Any) -> tuple[str, str] | None:
        asked.append(len(given))
        return None if given else ("key", "hash")

    triton.knobs.runtime.add_stages_inspection_hook = there
    try:
        with mlir_async_pipe.hooks.triton(noalias=True) as hook:
            kernels.compile_doubled(1)
    finally:
        triton.knobs.runtime.add_stages_inspection_hook = None
    assert asked == [0, 5]
    assert len(hook.reports) == 1


def test_a_kernel_that_the_bindings_cannot_read_is_not_called_proven() -> None:
    """A chip that is not known is told in the same way."""
    chip = kernels.GPUTarget("cuda", 75, 32)
    unread = r"product: not checked: .*\[unknown-target\]"
    with mlir_async_pipe.hooks.triton() as hook, pytest.warns(HazardWarning, match=unread):
        kernels.compile_product(chip)
    assert hook.reports[0].report is None


@pytest.mark.parametrize("wanted, code", [("triton", 1), ("triton=warn", 0)])
def test_the_environment_asks_for_the_hook_where_the_package_is_imported(
    wanted: str, code: int
) -> None:
    script = "import mlir_async_pipe, triton_kernels; triton_kernels.compile_doubled(left=2)"
    folders = [str(ROOT / "examples" / "embedding"), *filter(None, sys.path)]
    asked = {"MLIR_ASYNC_PIPE_CHECK": wanted, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, env={**os.environ, **asked}, timeout=300,
    )  # fmt: skip
    assert done.returncode == code
    assert "[read-in-flight]" in done.stderr


def test_check_false_checks_nothing() -> None:
    with mlir_async_pipe.hooks.triton(check=False) as hook:
        kernels.compile_doubled(2)
    assert hook.reports == []
    with pytest.raises(UsageError) as error:
        mlir_async_pipe.hooks.triton(check="loudly")
    assert error.value.code == "bad-argument"


def test_what_the_documentation_shows_runs_as_written(tmp_path: Path) -> None:
    done = run_script("embedding.md", "### Triton", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "· proven: " in done.stdout
