"""Records are plain data: with witnesses where the session wants them, and without else.

Covers: waits/count_pass.py, facts/flow/flow_graph.py
"""

import gc
import json

import pytest

from helpers.counted_text import function, run
from mlir_async_pipe import count_waits
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph, Frame, Item, Node
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.waits.summaries import Summaries

LOOPS = """
  %a = GROUP
  %b = GROUP
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (TOK, TOK) {
    WAIT %x
    %t = GROUP
    %s = arith.select %c, %y, %t : TOK
    scf.yield %s, %t : TOK, TOK
  }
  %w = scf.while (%z = %r#0) : (TOK) -> TOK {
    %g = "test.truth"() : () -> i1
    scf.condition(%g) %z : TOK
  } do {
  ^bb0(%z: TOK):
    %t = GROUP
    scf.yield %t : TOK
  }
  WAIT %w
  cf.cond_br %c, ^yes(%r#1 : TOK), ^no
^yes(%p: TOK):
  %h = GROUP
  WAIT %p
  cf.br ^no
^no:
  WAIT %r#1
  return
"""


def counted(witnesses: bool, options: str = "") -> Session:
    found = passes.find("async-pipe-count-waits")
    session = Session(witnesses=witnesses)
    with new_context():
        module = ir.Module.parse(function(LOOPS))
        found.run(module.operation, passes.parse_options(found, options), session)
    return session


def test_without_witnesses_the_records_are_the_same_but_for_reason_and_path():
    asked, unasked = (counted(wanted).report().of("waits") for wanted in (True, False))
    assert len(asked) == 4
    assert all(record.witness and record.reason for record in asked)
    assert {(record.reason, record.witness) for record in unasked} == {("", ())}
    fields = ("place", "queue", "count", "exact", "given")
    assert [[getattr(record, name) for name in fields] for record in asked] == [
        [getattr(record, name) for name in fields] for record in unasked
    ]


@pytest.mark.parametrize("witnesses", [True, False])
def test_call_hands_the_wish_on(witnesses):
    with new_context():
        report = count_waits(ir.Module.parse(function(LOOPS)), witnesses=witnesses)
    assert all(bool(record.witness) == witnesses for record in report.of("waits"))


def test_explain_and_run_time_counts_find_their_reasons_without_being_asked_for_witnesses():
    assert all(record.reason for record in counted(False, "mode=dynamic").report().of("waits"))
    assert counted(False, "mode=dynamic").report().diagnostics == (
        counted(True, "mode=dynamic").report().diagnostics
    )


def test_verified_counts_show_the_path_without_being_asked_for_witnesses():
    found = passes.find("async-pipe-count-waits")
    session = Session(witnesses=False)
    with new_context():
        text = function("%a = GROUP\n%b = GROUP\nWAIT %a\nreturn").replace(
            "device_async_wait %a", "device_async_wait %a {numGroups = 2 : i32}"
        )
        module = ir.Module.parse(text)
        found.run(module.operation, passes.parse_options(found, "check"), session)
    (error,) = session.diagnostics.with_severity("error")
    assert [note.message for note in error.notes][:2] == [
        "the awaited group is committed",
        "a younger group is committed",
    ]


def test_json_of_a_record_has_all_fields():
    (entry,) = run(function("%a = GROUP\nWAIT %a\nreturn"))[0].to_json()["waits"]
    assert json.loads(json.dumps(entry)).keys() == {
        "place", "queue", "count", "exact", "given", "reason", "witness", "part",
    }  # fmt: skip


def test_records_keep_no_graph_alive_and_it_needs_no_collector():
    gc.collect()
    gc.disable()
    try:
        session = counted(True)
        kinds = (FlowGraph, Item, Node, Frame, Summaries)
        assert not [thing for thing in gc.get_objects() if isinstance(thing, kinds)]
    finally:
        gc.enable()
    assert session.report().of("waits")
