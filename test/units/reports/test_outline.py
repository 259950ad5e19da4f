"""The outline of a pipeline: its parts, which commits a wait is for, and the stage of each line.

Covers: reports/limits.py
"""

from __future__ import annotations

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import count_waits, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.reports.limits import Outline, record_outlines
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.waits.witness_paths import FEW

EXAMPLES = ROOT / "examples"


def outlined(text: str, pipeline: str = "async-pipe", options: str = "") -> Session:
    with new_context():
        module = ir.Module.parse(text)
        session = Session(target=Target.parse("nvvm:sm_80"))
        found = passes.find(pipeline)
        found.run(module.operation, passes.parse_options(found, options), session)
        record_outlines(module, session)
    return session


@pytest.fixture(scope="module")
def add_one() -> Session:
    return outlined((EXAMPLES / "add_one.mlir").read_text())


def reported(outline: Outline, part: str) -> str:
    return " ".join(
        entry.kind if entry.count is None else f"{entry.kind}({entry.count})"
        for entry in outline.of(part)
    )


def test_the_parts_are_distinguished_in_the_order_of_the_text(add_one: Session) -> None:
    (outline,) = add_one.records["outlines"]
    assert reported(outline, "prologue") == "copy commit copy commit"
    assert reported(outline, "kernel") == "wait(1) copy commit statement statement"
    assert reported(outline, "epilogue") == " ".join(
        f"wait({count}) statement statement" for count in (1, 0)
    )
    assert [entry.number for entry in outline.entries] == list(range(len(outline.entries)))


def test_a_wait_knows_the_commits_of_its_token_and_its_record(add_one: Session) -> None:
    (outline,) = add_one.records["outlines"]
    waits = [entry for entry in outline.entries if entry.kind == "wait"]
    for wait in waits:
        assert {outline.entries[number].kind for number in wait.commits} == {"commit"}
    # The kernel waits for a group of the prologue first, for one of its own later.
    assert {outline.entries[number].part for number in waits[0].commits} == {"prologue", "kernel"}
    records = [add_one.records["waits"][wait.record] for wait in waits]
    assert [record.count for record in records] == [wait.count for wait in waits] == [1, 1, 0]


def test_stages_of_lines_are_those_of_the_annotation() -> None:
    session = outlined((EXAMPLES / "copy_compute.mlir").read_text())
    found = {}
    for record, outline in zip(session.records["loops"], session.records["outlines"], strict=True):
        for place, stage in outline.stages(record.stages).items():
            found[place.line - outline.place.line, outline.place.line] = stage
    # @two_stages_async: stage = [0, 0, 1, 1]; @three_stages: stage = [0, 0, 1, 1, 2, 2].
    assert {line: stage for (line, loop), stage in found.items() if loop == 34} == {
        1: 0, 3: 0, 4: 1, 6: 1
    }  # fmt: skip
    assert {line: stage for (line, loop), stage in found.items() if loop == 55} == {
        1: 0, 3: 0, 4: 1, 6: 1, 7: 2, 9: 2
    }  # fmt: skip


def test_the_loop_as_it_was_beside_the_pipeline_is_no_kernel() -> None:
    session = outlined((EXAMPLES / "gemm.mlir").read_text())
    (record,) = session.records["loops"]
    assert record.short_trip == "version"
    (outline,) = session.records["outlines"]
    assert [entry.count for entry in outline.of("kernel") if entry.kind == "wait"] == [1]


def test_a_loop_of_the_computation_stands_in_the_epilogue_too() -> None:
    session = outlined((EXAMPLES / "attention_tile.mlir").read_text())
    for outline in session.records["outlines"]:
        assert reported(outline, "kernel").split().count("statement") == 2
        assert reported(outline, "epilogue").split().count("statement") == 4


def test_ir_without_pipelined_loops_has_no_outlines() -> None:
    text = (EXAMPLES / "handwritten" / "ring_tokens.mlir").read_text()
    assert "outlines" not in outlined(text, "async-pipe-count-waits").records


def test_the_records_of_waits_say_in_which_part_they_stand() -> None:
    text = (EXAMPLES / "add_one.mlir").read_text()
    with new_context():
        report = pipeline(ir.Module.parse(text), "nvvm:sm_80")
        written = count_waits(ir.Module.parse(text))
    assert [wait.part for wait in report.of("waits")] == ["kernel", "epilogue", "epilogue"]
    assert [wait.part for wait in written.of("waits")] == [""]


def test_waits_that_drain_or_serve_few_iterations_have_no_advice() -> None:
    session = outlined((EXAMPLES / "gemm.mlir").read_text())
    waits = session.records["waits"]
    assert [wait.part for wait in waits][-2:] == ["epilogue", FEW]
    assert [bool(wait.remedy("do so")) for wait in waits[-2:]] == [False, False]
    assert waits[0].remedy("do so") == "; to raise it: do so"
    assert waits[0].remedy("") == ""
