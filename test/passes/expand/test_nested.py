"""Nested pipelines: a GEMM with shared memory four deep and registers two deep.

Covers: pipeliner/plan/make_plan.py, pipeliner/expand/write/write_loop.py,
pipeliner/expand/write/versioned_buffers.py
"""

from __future__ import annotations

import pytest

from helpers.gemm_kernels import gemm_text, run_gemm
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow

ARRAYS = gemm_text("--nested")
OUTER_ARRAYS = (
    "async_pipe.stage = array<i64: 0, 0, 2, 3, 3>, "
    "async_pipe.order = array<i64: 0, 1, 3, 2, 4>, async_pipe.async_stages = array<i64: 0>"
)
INNER_ARRAYS = "async_pipe.stage = array<i64: 0, 0, 1>, async_pipe.order = array<i64: 0, 1, 2>"
NUMBERS = ARRAYS.replace(OUTER_ARRAYS, "async_pipe.num_stages = 4 : i64").replace(
    INNER_ARRAYS, "async_pipe.num_stages = 2 : i64"
)
FORMS = {"arrays": ARRAYS, "numbers": NUMBERS}


def pipelined(text: str, session: Session) -> ir.Module:
    module = ir.Module.parse(text)
    found = passes.find("async-pipe")
    found.run(module.operation, found.options(), session)
    assert module.operation.verify()
    return module


def counts(module: ir.Module) -> list[int | None]:
    return [
        integer_attribute(op, "numGroups")
        for op in walk(module)
        if op.name == "nvgpu.device_async_wait"
    ]


def test_arrays_were_replaced() -> None:
    assert "num_stages" not in ARRAYS
    assert NUMBERS.count("num_stages") == 2
    assert "async_pipe.stage" not in NUMBERS


def test_arrays_give_four_versions_and_the_counts_of_the_rfc() -> None:
    session = Session()
    with new_context():
        module = pipelined(ARRAYS, session)
        # Prologue 2, kernel 2, epilogue 1 and 0; its last step needs no wait. The loop for
        # short trips waits for all.
        assert counts(module) == [2, 2, 1, 0, 0]
    inner, outer = session.report().of("loops")
    assert (inner.stages, inner.buffers) == (2, ())
    assert [b.versions for b in outer.buffers] == [4, 4]


def test_numbers_give_four_versions_and_one_barrier_an_iteration() -> None:
    session = Session()
    with new_context():
        module = pipelined(NUMBERS, session)
        assert counts(module) == [2, 2, 1, 0, 0]
    *_, outer = session.report().of("loops")
    assert [b.versions for b in outer.buffers] == [4, 4]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("completion", ["eager", "late", "random"])
def test_nested_gemm_computes_the_product(form: str, completion: str) -> None:
    with new_context():
        module = pipelined(FORMS[form], Session())
        for iterations in (1, 3, 4, 6):
            result, right = run_gemm(module, (128, 128, 32 * iterations), completion=completion)
            assert right
            assert result.races == ()


@pytest.mark.parametrize("form", FORMS)
def test_checker_knows_everything_about_it(form: str) -> None:
    session = Session()
    with new_context():
        pipelined(FORMS[form], session)
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("form", FORMS)
def test_registers_hold_both_versions_without_local_memory(form: str) -> None:
    with new_context():
        module = pipelined(FORMS[form], Session())
        made = lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    (kernel,) = made.kernels
    assert kernel.resources is not None and kernel.machine is not None
    assert kernel.resources.stack_frame_bytes == 0
    assert kernel.resources.spill_store_bytes == 0
    pipeline = kernel.machine.pipelined_loops[0]
    assert (pipeline.waits, pipeline.barriers) == ((2,), 1)


def test_an_error_in_the_outer_loop_leaves_the_inner_one_untouched() -> None:
    # The inner loop in stage 0, before the copies in stage 1 that it reads.
    broken = ARRAYS.replace("0, 0, 2, 3, 3", "1, 1, 0, 0, 0").replace(
        "async_stages = array<i64: 0>", "async_stages = []"
    )
    with new_context():
        module = ir.Module.parse(broken)
        schedule = passes.find("async-pipe-schedule")
        schedule.run(module.operation, schedule.options(), Session())
        before = str(module)
        expand = passes.find("async-pipe-expand")
        with pytest.raises(AsyncPipeError) as raised:
            expand.run(module.operation, expand.options(), Session())
        assert raised.value.code == "dependence-violated"
        assert str(module) == before
