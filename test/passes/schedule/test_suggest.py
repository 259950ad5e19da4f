"""What is suggested for a loop is what annotating it gives.

Covers: pipeliner/schedule/suggest.py, facts/loops/annotations.py
"""

from __future__ import annotations

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import annotate, find_loops, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

KERNELS = ROOT / "examples" / "iree" / "kernels"
TRIED = ("sm_80_matmul", "gfx942_matmul_transposed", "gfx950_conv")


def suggested(module: ir.Module, **given: object) -> list:
    session = Session()
    found = passes.find("async-pipe-suggest")
    before = str(module)
    found.run(module.operation, found.options(**given), session)
    assert str(module) == before
    return list(session.report().of("suggestions"))


@pytest.mark.parametrize("name", TRIED)
def test_the_suggestion_is_what_the_annotation_gives(name):
    chip = name.partition("_conv")[0] if "conv" in name else "sm_80"
    chip = "gfx942" if name.startswith("gfx942") else chip
    with new_context():
        module = ir.Module.parse((KERNELS / f"{name}.mlir").read_text())
        (found,) = suggested(module, chip=chip, num_stages=2)
        (loop,) = find_loops(module, annotated=False)
        annotate(loop, num_stages=2)
        assert find_loops(module, annotated=False) == []
        report = pipeline(module, f"{'nvvm' if chip.startswith('sm') else 'rocdl'}:{chip}")
        (made,) = report.of("loops")
        loads = any(entry.code == "through-registers" for entry in report.diagnostics)
        assert found.form == ("loads" if loads else "copies")
        assert found.bytes == sum(buffer.bytes for buffer in made.buffers)
        assert found.registers == made.carried_registers


def test_a_loop_is_tried_alone():
    text = (KERNELS / "sm_80_matmul.mlir").read_text()
    with new_context():
        module = ir.Module.parse(text)
        (loop,) = find_loops(module, annotated=False)
        annotate(loop, num_stages=2)
        assert suggested(module) == []


def test_too_many_stages_are_reported_with_the_reason():
    with new_context():
        module = ir.Module.parse((KERNELS / "sm_80_matmul.mlir").read_text())
        (found,) = suggested(module, chip="sm_80", num_stages=40)
        assert found.form == ""
        assert "[short-trip]" in found.reason
