"""What a session of an attempt gathers is taken over once, or not at all.

Covers: session/report.py, pipeliner/ask_checker/attach_tokens.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.report import Session

ATTENTION = Path(__file__).resolve().parents[3] / "examples" / "attention_tile.mlir"


def test_a_silent_session_has_the_settings_and_nothing_else() -> None:
    session = Session(explain=True, witnesses=False, hazards="warning")
    session.record("loops", 1)
    with session.measured("a"):
        pass
    quiet = session.silent()
    quiet.record("loops", 2)
    assert (quiet.explain, quiet.witnesses, quiet.hazards) == (True, False, "warning")
    assert quiet.records == {"loops": [2]} and quiet.seconds == {}
    assert session.records == {"loops": [1]} and list(session.seconds) == ["a"]


def test_what_is_taken_comes_after_what_is_there() -> None:
    session, other = Session(), Session()
    session.record("loops", 1)
    other.record("loops", 2)
    other.record("waits", 3)
    session.seconds["a"], other.seconds["a"] = 1.0, 2.0
    session.take(other)
    assert session.records == {"loops": [1, 2], "waits": [3]}
    assert session.seconds == {"a": 3.0}


@pytest.mark.parametrize("witnesses", [True, False])
def test_a_module_that_could_have_been_refused_is_pipelined_and_reported_once(witnesses) -> None:
    """Copies before the attention tile's loop look like a prologue: it is tried on a copy."""
    with new_context():
        module = ir.Module.parse(ATTENTION.read_text())
        report = mlir_async_pipe.pipeline(module, "nvvm:sm_80", witnesses=witnesses)
        assert module.operation.verify()
    places = [record.place for record in report.of("loops")]
    assert len(places) == len(set(places)) > 0
    remarks = [(item.code, str(item.place)) for item in report.diagnostics]
    assert len(remarks) == len(set(remarks))
