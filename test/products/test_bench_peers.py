"""The comparison with TVM: without it a plain message, with it the outcomes that we print.

Covers: bench/peers_tvm.py, bench/tvm_pipelines.py, bench/tvm_trace.py
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from helpers.paths import ROOT

BENCH = ROOT / "bench"
WITH_TVM = pytest.mark.skipif(
    importlib.util.find_spec("tvm") is None, reason="needs apache-tvm (pip install apache-tvm)"
)


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("peers_tvm")


def test_without_tvm_it_says_so_and_measures_nothing(peers, monkeypatch, capsys) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["peers_tvm.py"])
    assert peers.main() == 0
    assert capsys.readouterr().out == (
        "bench/peers_tvm.py: TVM is not installed (pip install apache-tvm): nothing measured\n"
    )


def test_samples_are_legal_async_schedules_without_an_async_result(peers) -> None:
    drawn = peers.sample(50, 1)
    assert len(drawn) == 50
    for program, schedule in drawn:
        assert schedule.async_stages
        assert not peers.violated(program, schedule)
        for number, statement in enumerate(program.statements):
            assert statement.target.buffer in program.local or not schedule.is_async(number)


def outcome_of_tvm(peers, pipeline) -> str:
    """The outcome of TVM's result for an example, judged by the unpipelined loop."""
    given = peers.arguments(pipeline)
    with peers.new_context():
        file = next(f for f, found in peers.RFC_EXAMPLES.items() if pipeline in found)
        whole = (BENCH.parent / "lit-tests" / "rfc-0077" / f"{file}.mlir").read_text()
        wanted = peers.machine.run(peers.ir.Module.parse(whole), pipeline.name, given).arrays
        return peers.theirs(pipeline, [a for a in wanted if a is not None]).split()[-1]


@WITH_TVM
def test_a_safe_result_of_tvm_is_called_safe(peers) -> None:
    assert outcome_of_tvm(peers, peers.TWO_STAGES) == "safe"


@WITH_TVM
def test_a_buffer_with_a_version_too_few_is_called_a_race(peers) -> None:
    assert outcome_of_tvm(peers, peers.THREE_STAGES) == "races"
