"""How long the steps of a run took.

Covers: session/report.py
"""

from __future__ import annotations

import pytest

import mlir_async_pipe
from helpers.double_buffered import DOUBLE_BUFFERED
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.pipeliner.async_pipe_pass import MEMBERS
from mlir_async_pipe.session.report import Session


def test_a_report_says_how_long_each_pass_took():
    with new_context():
        module = ir.Module.parse(DOUBLE_BUFFERED)
        report = mlir_async_pipe.pipeline(module, "nvvm:sm_80")
    names = [name for name in report.seconds if name.startswith("async-pipe-")]
    assert names == list(MEMBERS)
    assert "seconds" not in report.to_json()


def test_a_step_that_runs_twice_or_fails_is_counted():
    session = Session()
    with session.measured("step"):
        pass
    first = session.seconds["step"]
    with pytest.raises(ValueError), session.measured("step"):
        raise ValueError
    assert session.seconds["step"] > first
    assert session.report().seconds == session.seconds


def test_times_make_no_two_reports_differ():
    session = Session()
    before = session.report()
    session.seconds["step"] = 1.0
    assert session.report() == before
