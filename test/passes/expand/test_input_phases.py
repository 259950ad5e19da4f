"""Waits of the input must ask for the phases of their tiles: what is wrong before the pipeline takes
their place is refused, and the machine or the checker agrees that it was wrong.

Covers: pipeliner/plan/mbarrier_setup.py
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe import pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

LOADS = TensorLoop((Box(2, 32),), trips=5)
AGAIN = replace(LOADS, executions=3)
FLIP = "%flip = arith.xori %phase, %true : i1"
RIGHT = {
    "as it is": (LOADS, "", ""),
    "in a loop": (AGAIN, "", ""),
    "in every other iteration of one": (replace(AGAIN, executed="odd"), "", ""),
    "a sum": (LOADS, FLIP, "%flip = arith.addi %phase, %true : i1"),
    "a difference": (LOADS, FLIP, "%flip = arith.subi %true, %phase : i1"),
    "even trips that start again": (
        replace(AGAIN, trips=4, static=True),
        "%phase = %phase0",
        "%phase = %false",
    ),
    "one iteration": (replace(LOADS, trips=1, static=True), FLIP, FLIP.replace("%true", "%false")),
}
WRONG = {
    "never flips": (LOADS, FLIP, "%flip = arith.xori %phase, %false : i1", "same in each"),
    "starts at 1": (LOADS, "%phase = %false", "%phase = %true", "asks for 1"),
    "asks for the other": (
        LOADS,
        "nvgpu.mbarrier.try_wait.parity %full[%i0], %phase",
        "%not = arith.xori %phase, %true : i1\nnvgpu.mbarrier.try_wait.parity %full[%i0], %not",
        "asks for 1",
    ),
    "a constant": (
        LOADS,
        "try_wait.parity %full[%i0], %phase",
        "try_wait.parity %full[%i0], %false",
        "same in each",
    ),
    "starts again": (AGAIN, "%phase = %phase0", "%phase = %false", "starts again"),
    "outer loop starts at 1": (AGAIN, "%phase0 = %false", "%phase0 = %true", "asks for 1"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_phases_are_taken(name: str) -> None:
    loop, old, new = RIGHT[name]
    assert old in loop.text()
    module = parse(loop.text().replace(old, new))
    report = pipeline(module, check="error")
    assert not [d for d in report.diagnostics if d.code == "input-phase-unknown"]
    assert not loop.right(module, "late")


@pytest.mark.parametrize("name", WRONG)
def test_wrong_phases_are_refused_at_their_wait(name: str) -> None:
    loop, old, new, words = WRONG[name]
    text = loop.text().replace(old, new)
    assert text != loop.text()
    with pytest.raises(AsyncPipeError, match=words) as refused:
        pipeline(parse(text), check="none")
    assert refused.value.code == "input-phase"
    (check,) = check_module(parse(text)).report.of("checks")
    assert check.unsafe


def test_a_phase_that_is_computed_is_reported() -> None:
    """Of quotients nothing is known here; the pipeline is right all the same."""
    wait = "nvgpu.mbarrier.try_wait.parity %full[%i0], %phase"
    made = (
        f"%low = arith.index_cast %i : index to i32\n%bit = arith.trunci %low : i32 to i1\n{wait}"
    )
    text = LOADS.text().replace(wait, made.replace("%phase", "%bit"))
    module = parse(text)
    report = pipeline(module, check="error")
    assert [d for d in report.diagnostics if d.code == "input-phase-unknown"]
    assert not LOADS.right(module, "late")


GEMM = BlackwellGemm(tile_n=32)
OVER = "try_wait.parity %done[%c0], %phase"
NOT = "%not = arith.xori %phase, %true : i1\nnvgpu.mbarrier."
# A phase of the products' own, beside that of the copies.
OWN = [
    ("%total = scf.for", "%total:2 = scf.for"),
    ("iter_args(%phase = %false) -> (i1)", "iter_args(%phase = %false, %over = FIRST) -> (i1, i1)"),
    (OVER, OVER.replace("%phase", "%over")),
    (
        "scf.yield %flip : i1",
        "%flip2 = arith.xori %over, BY : i1\nscf.yield %flip, %flip2 : i1, i1",
    ),
]


def own(first: str, by: str) -> list[tuple[str, str]]:
    return [(old, new.replace("FIRST", first).replace("BY", by)) for old, new in OWN]


def products(gemm: BlackwellGemm, changes: list[tuple[str, str]]) -> str:
    text = gemm.module()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def counted(text: str) -> str:
    """With a number of iterations that is known, so that a path to its end is one."""
    return text.replace("to %K step", "to %end step", 1).replace(
        "%total", "%end = arith.constant 192 : i32\n%total", 1
    )


WRONG_PRODUCTS = {
    "asks for the other": (
        GEMM,
        [("nvgpu.mbarrier." + OVER, NOT + OVER.replace("%phase", "%not"))],
        "asks for 1",
    ),
    "a constant": (GEMM, [(OVER, OVER.replace("%phase", "%false"))], "same in each"),
    "never flips": (GEMM, own("%false", "%false"), "same in each"),
    "starts at 1": (GEMM, own("%true", "%true"), "asks for 1"),
    "starts again in each tile": (
        replace(GEMM, persistent=True),
        [
            ("%total = scf.for", "%total:2 = scf.for"),
            (") -> (i1) : i32", ", %over = %false) -> (i1, i1) : i32"),
            *own("%false", "%true")[2:],
            ("scf.yield %total : i1", "scf.yield %total#0 : i1"),
        ],
        "starts again",
    ),
}


@pytest.mark.parametrize("name", WRONG_PRODUCTS)
def test_wrong_phases_of_products_are_refused_at_their_wait(name: str) -> None:
    gemm, changes, words = WRONG_PRODUCTS[name]
    text = products(gemm, changes)
    with pytest.raises(AsyncPipeError, match=words) as refused:
        pipeline(parse(text), check="none")
    assert refused.value.code == "input-phase"
    line = refused.value.diagnostic.place.line
    assert "try_wait.parity %done" in text.split("\n")[line - 1]
    (found,) = check_module(parse(counted(text))).report.of("checks")
    assert found.unsafe


def test_a_phase_of_their_own_is_taken_for_products() -> None:
    module = parse(products(GEMM, own("%false", "%true")))
    report = pipeline(module, check="error")
    assert not [d for d in report.diagnostics if d.code == "input-phase-unknown"]
    right, result = run_gemm(module, GEMM, 5 * GEMM.line, completion="late")
    assert right and not result.races


def test_a_phase_of_products_that_is_computed_is_reported() -> None:
    bit = "%low = arith.divui %k32, %i32_1 : i32\n%bit = arith.trunci %low : i32 to i1\nnvgpu.mbarrier."
    module = parse(
        products(GEMM, [("nvgpu.mbarrier." + OVER, bit + OVER.replace("%phase", "%bit"))])
    )
    report = pipeline(module, check="error")
    assert [d for d in report.diagnostics if d.code == "input-phase-unknown"]
    right, result = run_gemm(module, GEMM, 5 * GEMM.line, completion="late")
    assert right and not result.races
