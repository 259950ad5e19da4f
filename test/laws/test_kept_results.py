"""Law: what is kept of a call of `pipeline` is what the next one computes, on random programs: text with
places, report, and what is told.

Covers: api.py, cache.py, bindings/run_on_copy.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from helpers.random_pipelines import FEATURES, program
from mlir_async_pipe import cache, pipeline
from mlir_async_pipe.api import KEPT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

pytestmark = pytest.mark.slow

MODULES = 500


@pytest.fixture(autouse=True)
def keeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Results are kept in this process, none of earlier tests."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "on")
    cache.RECENT.clear()
    yield
    cache.RECENT.clear()


def result(given: Any, keep: bool) -> tuple[str, bool]:
    """What is printed and told of a program, and whether it was kept."""
    with new_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(given.text)
        try:
            report = pipeline(module, given.target, check="warn", cache=keep, **given.options)
        except AsyncPipeError as error:
            return f"{module}\n{error}", False
        text = module.operation.get_asm(enable_debug_info=True)
        return f"{text}\n{report.to_json()}", list(report.seconds) == [KEPT]


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_kept_results_are_those_that_are_computed(feature: str) -> None:
    kept, programs = 0, MODULES // len(FEATURES)
    for seed in range(programs):
        given = program(seed, feature)
        computed, _ = result(given, keep=False)
        assert result(given, keep=True)[0] == computed
        again, was_kept = result(given, keep=True)
        assert again == computed
        kept += was_kept
    # Programs that are refused are computed each time.
    assert kept > programs // 4
