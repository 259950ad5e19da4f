"""Records find their witness when it is read, and hold no handle of the module until then.

Covers: waits/records.py, waits/detach.py, waits/collector.py, flow/items.py,
flow/flow_graph.py
"""

import copy
import gc
import json
import pickle

import pytest

from helpers.counted_text import function, run
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.flow.flow_graph import FlowGraph
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.waits.algebra.solve import Solution
from mlir_async_pipe.waits.algebra.summaries import Summaries
from mlir_async_pipe.waits.collector import MANY, collector_paused
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.detach import OpText, detach
from mlir_async_pipe.waits.records import WaitRecord, WitnessStep

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


def test_witness_read_behind_later_passes_and_without_the_module_is_the_same():
    text = function(LOOPS)
    told = run(text, explain=True)[0].of("waits")
    found = passes.find("async-pipe-count-waits")
    session = Session()
    with new_context():
        module = ir.Module.parse(text)
        found.run(module.operation, passes.parse_options(found, ""), session)
        passmanager.PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        del module
        gc.collect()
    assert len(told) == 4
    assert session.report().of("waits") == told
    assert all(record.witness for record in told)


def test_detached_analysis_holds_text_for_every_op():
    with new_context():
        module = ir.Module.parse(function(LOOPS))
        analysis = Analysis(module.operation)
        analysis.count()
        items = list(analysis.graph.items.values())
        detach(analysis)
    assert {type(item.op) for item in items} == {OpText}
    assert {"scf.for", "scf.while"} <= {item.op.name for item in items}
    assert {type(found.op) for found in analysis.values.defs.values()} <= {OpText, type(None)}
    assert not analysis.graph.items and not analysis.graph.nodes


def later(calls: list[int]) -> WaitRecord:
    def explain() -> tuple[str, tuple[WitnessStep, ...]]:
        calls.append(1)
        return "exact", (WitnessStep("a younger group is committed", Place("f", 1, 2), 1),)

    return WaitRecord.explained_later(Place("f", 3, 1), "queue", 1, 1, None, explain)


def test_witness_is_looked_for_once_and_only_when_it_is_read():
    calls: list[int] = []
    record = later(calls)
    assert (record.count, record.exact, record.given, calls) == (1, 1, None, [])
    assert record.reason == "exact"
    assert record.witness[0].groups == 1
    assert calls == [1]


def test_record_that_is_explained_later_equals_one_that_was_made_at_once():
    record = later([])
    assert record == WaitRecord(Place("f", 3, 1), "queue", 1, 1, None, "exact", later([]).witness)
    assert hash(record) == hash(later([]))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_hold_the_explanation(copied):
    assert copied(later([])) == later([])


def test_unknown_attribute_of_a_record_is_no_reason_to_look_for_the_witness():
    calls: list[int] = []
    with pytest.raises(AttributeError, match="no attribute 'reasons'"):
        _ = later(calls).reasons
    assert calls == []


def test_json_of_a_record_has_all_fields():
    (entry,) = run(function("%a = GROUP\nWAIT %a\nreturn"))[0].to_json()["waits"]
    assert json.loads(json.dumps(entry)).keys() == {
        "place", "queue", "count", "exact", "given", "reason", "witness",
    }  # fmt: skip


def test_dropped_report_frees_its_graph_without_the_collector():
    found = passes.find("async-pipe-count-waits")
    with new_context(), collector_paused():
        module = ir.Module.parse(function(LOOPS))
        session = Session()
        found.run(module.operation, passes.parse_options(found, ""), session)
        for record in session.report().of("waits")[::2]:
            assert record.witness
        assert objects_of_a_graph()
        del session, record
        assert not objects_of_a_graph()


def objects_of_a_graph() -> list[object]:
    kinds = (FlowGraph, Item, Node, Frame, Solution, Summaries)
    return [thing for thing in gc.get_objects() if isinstance(thing, kinds)]


@pytest.mark.parametrize("made", [10, 3 * MANY])
def test_collector_runs_again_behind_a_pause_and_nothing_is_frozen(made):
    with collector_paused():
        kept = [[] for _ in range(made)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert len(kept) == made


def test_collector_that_was_off_stays_off():
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
