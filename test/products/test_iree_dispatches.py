"""Kernels that IREE made (examples/iree): proven, run against NumPy, pipelined and lowered.

What IREE pipelined itself is counted and checked as it is; its sequential loops are annotated
with `num_stages` and must give the same results under late completion.

Covers: pipeliner/async_pipe_pass.py, examples/iree
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import symbol_name, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow

KERNELS = ROOT / "examples" / "iree" / "kernels"
# Half precision in, single precision sums of 1024 products: the order of additions differs.
TOLERANCE = 5e-4


@dataclass(frozen=True)
class Dispatch:
    """One kernel: what it computes, and the threads and blocks that run it."""

    name: str
    computes: str
    threads: int
    blocks: int

    @property
    def target(self) -> Target:
        chip = "_".join(self.name.split("_")[: 2 if self.name.startswith("sm") else 1])
        return Target.parse(f"{'nvvm' if chip.startswith('sm') else 'rocdl'}:{chip}")

    def text(self) -> str:
        return (KERNELS / f"{self.name}.mlir").read_text()


SEQUENTIAL = (
    Dispatch("sm_80_matmul", "nn", 128, 2),
    Dispatch("sm_80_conv", "conv", 256, 4),
    Dispatch("gfx942_matmul_transposed", "nt", 256, 1),
    Dispatch("gfx942_conv", "conv", 512, 2),
    Dispatch("gfx950_matmul", "nn", 256, 1),
    Dispatch("gfx950_matmul_transposed", "nt", 256, 1),
    Dispatch("gfx950_conv", "conv", 512, 2),
    Dispatch("sm_80_matmul_multibuffered", "nt", 128, 2),
)
PIPELINED_BY_IREE = (
    Dispatch("sm_80_matmul_pipelined", "nt", 128, 2),
    Dispatch("gfx950_matmul_prefetched", "nt", 256, 1),
)


def of_name(name: str) -> Dispatch:
    return next(d for d in (*SEQUENTIAL, *PIPELINED_BY_IREE) if d.name == name)


def parse(dispatch: Dispatch, num_stages: int = 0) -> ir.Module:
    module = ir.Module.parse(dispatch.text(), bindings.new_context())
    if num_stages:
        (loop,) = [op for op in walk(module) if op.name == "scf.for"]
        mlir_async_pipe.annotate(loop, num_stages=num_stages)
    return module


def arguments_and_result(computes: str) -> tuple[list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)

    def half(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float16)

    if computes == "conv":
        image, filters = half(18, 18, 64), half(3, 3, 64, 64)
        wide, weights = image.astype(np.float32), filters.astype(np.float32)
        result = sum(
            wide[y : y + 16, x : x + 16] @ weights[y, x] for y in range(3) for x in range(3)
        )
        return [image, filters, np.zeros((16, 16, 64), np.float32)], result
    left, right = half(64, 1024), half(*(64, 1024) if computes == "nt" else (1024, 64))
    factor = right.T if computes == "nt" else right
    result = left.astype(np.float32) @ factor.astype(np.float32)
    return [left, right, np.zeros((64, 64), np.float32)], result


def kernel_name(module: ir.Module) -> str:
    (kernel,) = [op for op in walk(module) if op.name == "gpu.func"]
    return symbol_name(kernel)


def check_on_machine(dispatch: Dispatch, module: ir.Module, completion: str = "late") -> None:
    arguments, expected = arguments_and_result(dispatch.computes)
    result = machine.run(
        module,
        kernel_name(module),
        arguments,
        threads=dispatch.threads,
        grid=dispatch.blocks,
        completion=completion,
        target=dispatch.target,
    )
    assert not result.races
    np.testing.assert_allclose(result.arrays[2], expected, atol=TOLERANCE, rtol=0)


def counts(report: mlir_async_pipe.report.Report) -> list[int]:
    return [record.count for record in report.of("waits")]


def summary(dispatch: Dispatch, module: ir.Module) -> tuple[int, int]:
    """Unsafe and unknown accesses."""
    (found,) = mlir_async_pipe.check(module, dispatch.target).of("checks") or [None]
    return (0, 0) if found is None else (found.unsafe, found.unknown)


@pytest.mark.parametrize("dispatch", [*SEQUENTIAL, *PIPELINED_BY_IREE], ids=lambda d: d.name)
def test_transcribed_dispatch_computes_what_it_did(dispatch: Dispatch) -> None:
    check_on_machine(dispatch, parse(dispatch))


@pytest.mark.parametrize("dispatch", PIPELINED_BY_IREE, ids=lambda d: d.name)
def test_pipeline_of_iree_is_proven(dispatch: Dispatch) -> None:
    module = parse(dispatch)
    assert summary(dispatch, module) == (0, 0)


def test_token_counts_of_iree_are_exact() -> None:
    dispatch = of_name("sm_80_matmul_pipelined")
    module = parse(dispatch)
    before = [
        record.given for record in mlir_async_pipe.count_waits(module.operation.clone()).of("waits")
    ]
    report = mlir_async_pipe.count_waits(module, dispatch.target)
    assert counts(report) == before == [2, 2, 1, 0]


def test_one_group_more_in_flight_than_iree_has_is_unsafe() -> None:
    dispatch = of_name("gfx950_matmul_prefetched")
    text = dispatch.text().replace("rocdl.wait.asyncmark 2", "rocdl.wait.asyncmark 3")
    module = ir.Module.parse(text, bindings.new_context())
    unsafe, unknown = summary(dispatch, module)
    assert unsafe > 0
    assert unknown == 0


@pytest.mark.parametrize(
    ("name", "stages", "expected"),
    [
        # Fragments run a step ahead, with a step of their own in prologue and epilogue.
        ("sm_80_matmul", 3, [1, 1, 1, 0]),
        ("sm_80_matmul", 4, [2, 2, 2, 1, 0]),
        ("sm_80_conv", 3, [1, 1, 1, 0]),
        # Through registers.
        ("gfx942_conv", 2, []),
        ("gfx950_matmul", 3, [1, 1, 0]),
        ("gfx950_matmul_transposed", 3, [1, 1, 0]),
        ("gfx950_matmul_transposed", 4, [2, 2, 1, 0]),
        # Its rows are padded, which no copy of a wave is: through registers.
        ("gfx950_conv", 3, []),
    ],
)
def test_annotated_dispatch_is_pipelined(name: str, stages: int, expected: list[int]) -> None:
    dispatch = of_name(name)
    module = parse(dispatch, stages)
    report = mlir_async_pipe.pipeline(module, dispatch.target)
    assert counts(report) == expected
    assert summary(dispatch, module) == (0, 0)
    check_on_machine(dispatch, module)


@pytest.mark.parametrize("stages", [2, 3])
def test_tiles_of_gfx942_go_through_registers(stages: int) -> None:
    dispatch = of_name("gfx942_matmul_transposed")
    module = parse(dispatch, stages)
    report = mlir_async_pipe.pipeline(module, dispatch.target)
    (remark,) = report.diagnostics
    assert remark.code == "through-registers"
    assert "a copy of 16 bytes takes 4 instructions, and a load 1" in remark.message
    assert summary(dispatch, module) == (0, 0)
    check_on_machine(dispatch, module)
    code = lower(module, target=dispatch.target, emit="isa")
    (kernel,) = code.kernels
    # A store into the tile waits for its own load, not for those of later iterations.
    assert max(wait.left for wait in kernel.waits if wait.loop) >= 5
    assert kernel.vector_spills == 0


def test_tiles_that_do_not_fit_twice_are_refused_where_copies_are_asked_for() -> None:
    dispatch = of_name("gfx942_matmul_transposed")
    module = parse(dispatch, 2)
    (loop,) = [op for op in walk(module) if op.name == "scf.for"]
    mlir_async_pipe.annotate(loop, stage_through="async")
    with pytest.raises(PipelineError) as raised:
        mlir_async_pipe.pipeline(module, dispatch.target)
    assert raised.value.code == "smem-limit"


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_ptx_of_a_pipelined_dispatch_has_the_counts(chip: str) -> None:
    if find_tool("ptxas") is None:
        pytest.skip("ptxas is not installed")
    module = parse(of_name("sm_80_matmul"), 3)
    target = Target.parse(f"nvvm:{chip}")
    mlir_async_pipe.pipeline(module, target)
    result = lower(module, target=target, emit="cubin")
    (kernel,) = result.kernels
    assert kernel.ptx.waits == (1, 1, 1, 0)
    # Rows of 264 bytes: copies of 16 bytes would not be aligned, so each became two of 8; of four tiles, one in the step
    # whose fragments the loop begins with.
    assert kernel.ptx.copies == 4 * 2 * 12
    assert kernel.resources.stack_frame_bytes == 0


def test_isa_of_a_pipelined_dispatch_keeps_eight_copies_in_flight() -> None:
    dispatch = of_name("gfx950_matmul_transposed")
    module = parse(dispatch, 3)
    mlir_async_pipe.pipeline(module, dispatch.target)
    text = lower(module, target=dispatch.target, emit="isa").text
    assert "vmcnt(8)" in text


def test_loop_copies_to_lds_become_asynchronous() -> None:
    dispatch = of_name("gfx950_matmul_transposed")
    module = parse(dispatch, 3)
    passes.find("async-pipe-schedule").run(
        module, passes.parse_options(passes.find("async-pipe-schedule"), ""), Session()
    )
    assert "gather_to_lds async" not in str(module)
    mlir_async_pipe.pipeline(module, dispatch.target)
    copies = [op for op in walk(module) if op.name == "amdgpu.gather_to_lds"]
    # Eight an iteration, in two steps of the prologue and in the kernel.
    assert len(copies) == 3 * 8
    assert all("async" in op.attributes for op in copies)


def test_marks_of_iree_are_exact_and_cannot_be_relaxed() -> None:
    dispatch = of_name("gfx950_matmul_prefetched")
    module = parse(dispatch)
    session = Session(target=dispatch.target)
    for name, options in (("async-pipe-tokens", {"relax": True}), ("async-pipe-count-waits", {})):
        found = passes.find(name)
        found.run(module.operation, found.options(**options), session)
    report = session.report()
    assert not report.of("relaxed")
    assert [(record.given, record.count) for record in report.of("waits")] == [(2, 2), (0, 0)]


@pytest.mark.parametrize("dispatch", PIPELINED_BY_IREE, ids=lambda d: d.name)
def test_a_pipeline_of_iree_is_not_pipelined_again(dispatch: Dispatch) -> None:
    module = parse(dispatch, 4)
    with pytest.raises(PipelineError) as raised:
        mlir_async_pipe.pipeline(module, dispatch.target)
    assert raised.value.code == "already-pipelined"


def test_slots_that_iree_counts_are_deepened() -> None:
    dispatch = of_name("sm_80_matmul_multibuffered")
    module = parse(dispatch, 4)
    report = mlir_async_pipe.pipeline(module, dispatch.target)
    assert [d.code for d in report.diagnostics].count("hand-made-slots") == 2
    (loop,) = report.of("loops")
    assert [buffer.versions for buffer in loop.buffers] == [4, 4]
    # The first wait is for the fragments that are loaded a step ahead.
    assert counts(report) == [2, 2, 2, 1, 0]
    check_on_machine(dispatch, module)
