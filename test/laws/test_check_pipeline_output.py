"""Our own output is proven: never unsafe, never unknown, whatever the schedule.

Forty legal schedules of the small programs, and the examples with all their passes.

Covers: checker/explore.py, checker/iterations.py
"""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from helpers import pipeline_programs
from helpers.check_harness import check_module
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

EXAMPLES = ROOT / "examples"
CASES = 40


def legal_cases() -> list[tuple[str, str]]:
    """(name, annotated text) of schedules that break no dependence."""
    random = Random(7)
    cases = [
        (program, schedule)
        for program in pipeline_programs.PROGRAMS.values()
        for schedule in pipeline_programs.schedules(len(program.statements), 2)
        if schedule.async_stages
    ]
    random.shuffle(cases)
    legal = ((p, s) for p, s in cases if not pipeline_programs.violated(p, s))
    return [
        (f"{p.name} {s.stage} {s.order} {s.async_stages}", pipeline_programs.text(p, s))
        for p, s in islice(legal, CASES)
    ]


@pytest.mark.parametrize(("name", "text"), legal_cases(), ids=lambda value: None)
def test_pipelined_program_is_proven(name: str, text: str) -> None:
    with new_context():
        module = ir.Module.parse(text)
        found = passes.find("async-pipe")
        try:
            found.run(module.operation, found.options(check="none"), Session())
        except AsyncPipeError as refused:
            pytest.skip(f"{name}: {refused.code}")
        checked = check_module(module)
        assert not checked.unsafe, name
        assert not checked.unknown, name


@pytest.mark.parametrize("name", ["gemm", "add_one", "copy_compute", "small_kernels"])
def test_pipelined_example_is_proven(name: str) -> None:
    target = "nvvm:sm_80"
    with new_context():
        module = ir.Module.parse((EXAMPLES / f"{name}.mlir").read_text())
        found = passes.find("async-pipe")
        session = Session(target=Target.parse(target))
        found.run(module.operation, found.options(check="none"), session)
        checked = check_module(module, target)
        assert checked.accesses > 0
        assert not checked.unsafe
        assert not checked.unknown
