"""What a process has pipelined and lowered before: the same module becomes the same again, nothing else
does, and no handle of an earlier context is kept.

Covers: api.py, cache.py, bindings/run_on_copy.py
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe import cache
from mlir_async_pipe.api import KEPT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import functions, walk_named
from mlir_async_pipe.bindings.run_on_copy import become_bytes, bytes_of, stands_alone
from mlir_async_pipe.lowering import lower as lowering
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Report

GEMM = (ROOT / "examples" / "gemm.mlir").read_text()
ADD_ONE = (ROOT / "examples" / "add_one.mlir").read_text()
TARGET = "nvvm:sm_80"


@pytest.fixture(autouse=True)
def keeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Results are kept in this process, none of earlier tests and none in a folder."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "on")
    monkeypatch.setattr(cache, "folder", lambda: None)
    cache.RECENT.clear()
    yield
    cache.RECENT.clear()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes that ran."""
    ran: list[str] = []
    find = passes.find
    monkeypatch.setattr(passes, "find", lambda name: (ran.append(name), find(name))[1])
    return ran


def pipelined(text: str, target: str = TARGET, **options: Any) -> tuple[str, Report]:
    """The module that comes out, places included, and the report, in a context of its own."""
    with new_context():
        module = ir.Module.parse(text)
        report = mlir_async_pipe.pipeline(module, target, **options)
        return module.operation.get_asm(enable_debug_info=True), report


def was_kept(report: Report) -> bool:
    return list(report.seconds) == [KEPT]


@pytest.mark.parametrize("text", [ADD_ONE, GEMM], ids=["add_one", "gemm"])
def test_the_same_module_becomes_the_same_without_a_pass(text: str, runs: list[str]) -> None:
    first, reported = pipelined(text)
    assert runs and not was_kept(reported)
    runs.clear()
    gc.collect()
    again, kept = pipelined(text)
    assert (again, kept) == (first, reported)
    assert kept.records == reported.records and was_kept(kept)
    assert runs == []


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (ADD_ONE, {"num_stages": 4}),
        (ADD_ONE, {"target": "nvvm:sm_90"}),
        (ADD_ONE, {"witnesses": False}),
        (ADD_ONE, {"check": "warn"}),
        (ADD_ONE, {"cost": "latency=300"}),
        ("\n" + ADD_ONE, {}),
        (ADD_ONE.replace("add_one", "add_two"), {}),
    ],
    ids=["stages", "target", "witnesses", "check", "cost", "place", "name"],
)
def test_another_module_or_other_options_are_computed(text: str, options: dict[str, Any]) -> None:
    pipelined(ADD_ONE)
    assert not was_kept(pipelined(text, **options)[1])


def test_what_is_made_of_a_kept_module_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def code() -> str:
        with new_context():
            module = ir.Module.parse(GEMM)
            mlir_async_pipe.pipeline(module, TARGET)
            answer = mlir_async_pipe.lower(module, target=TARGET, resources=False, cache=False)
            return answer.text

    first, second = code(), code()
    assert first == second


@pytest.mark.parametrize("how", ["option", "environment"])
def test_nothing_is_kept_where_it_is_switched_off(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "environment":
        monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "off")
    options = {"cache": False} if how == "option" else {}
    for _ in range(2):
        assert not was_kept(pipelined(ADD_ONE, **options)[1])


def test_an_error_is_found_each_time(runs: list[str]) -> None:
    wrong = ADD_ONE.replace("num_stages = 3", 'num_stages = "three"')
    counts = []
    for _ in range(2):
        runs.clear()
        with pytest.raises(AsyncPipeError):
            pipelined(wrong)
        counts.append(len(runs))
    assert counts[0] == counts[1] > 0


def test_functions_stay_the_operations_that_they_were() -> None:
    pipelined(ADD_ONE)
    with new_context():
        module = ir.Module.parse(ADD_ONE)
        before = functions(module)
        report = mlir_async_pipe.pipeline(module, TARGET)
        assert was_kept(report)
        assert functions(module) == before
        assert walk_named(module, "nvgpu.device_async_wait".__eq__)
        assert module.operation.verify()


def test_who_changes_a_report_changes_no_other_one() -> None:
    pipelined(ADD_ONE)
    _, one = pipelined(ADD_ONE)
    one.records.clear()
    assert pipelined(ADD_ONE)[1].of("waits")


@pytest.mark.parametrize("kind", ["kernels", "nested"])
def test_what_does_not_stand_alone_is_computed(kind: str) -> None:
    for _ in range(2):
        with new_context():
            module = ir.Module.parse("module {\n module {\n" + ADD_ONE + "}\n}")
            (_, inner, *_) = walk_named(module, "builtin.module".__eq__)
            (kernels,) = walk_named(module, "gpu.module".__eq__)
            root = inner if kind == "nested" else kernels
            assert not stands_alone(root) and stands_alone(module.operation)
            assert not was_kept(mlir_async_pipe.pipeline(root, TARGET))


def test_code_of_the_same_module_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    original = lowering.lower

    def lower(*given: Any, **options: Any) -> Any:
        calls.append(options["emit"])
        return original(*given, **options)

    monkeypatch.setattr(lowering, "lower", lower)
    with new_context():
        module = ir.Module.parse(ADD_ONE)
        mlir_async_pipe.pipeline(module, TARGET)
        first = mlir_async_pipe.lower(module, target=TARGET, emit="llvm")
        assert mlir_async_pipe.lower(module, target=TARGET, emit="llvm") == first
        assert calls == ["llvm"]
        mlir_async_pipe.lower(module, target="nvvm:sm_90", emit="llvm")
        mlir_async_pipe.lower(module, target=TARGET, emit="llvm", bare_pointers=False, cache=False)
        assert len(calls) == 3


def test_what_was_asked_for_least_recently_is_dropped() -> None:
    recent = cache.Recent(most=100)
    for key in "abc":
        recent.put(key, b"x" * 20)
    # 35 bytes each, pickled: three do not fit, and "a" was asked for after "b".
    assert recent.get("a") is None
    assert recent.get("b") == b"x" * 20
    recent.put("d", b"y" * 20)
    assert recent.get("c") is None and recent.get("b") is not None
    recent.put("d", b"z" * 20)
    assert recent.get("b") is not None and recent.get("d") == b"z" * 20
    recent.put("d", 1)
    assert recent.get("d") == 1
    recent.put("too large", b"x" * 1000)
    assert recent.get("too large") is None
    recent.put("a handle", lambda: 0)
    assert recent.get("a handle") is None


def test_bytes_that_a_context_cannot_read_change_nothing() -> None:
    with new_context():
        module = ir.Module.parse(ADD_ONE)
        before = str(module)
        content = bytes_of(module)
        assert not become_bytes(module.operation, b"no bytecode")
        assert str(module) == before
        other = ir.Module.parse("module {}")
        assert become_bytes(other.operation, content) and str(other) == before
