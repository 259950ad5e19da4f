"""Loops that are pipelined already: slots counted by hand, prologues, tokens in iter_args.

Every result runs on the machine against NumPy with copies that arrive as late as the waits
allow, is proven by the checker, and its PTX goes through ptxas.

Covers: pipeliner/ask_checker/attach_tokens.py, pipeliner/dependence/surroundings.py, pipeliner/normalise/own_buffers.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import ancestors, integer_attribute, symbol_name, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, PipelineError
from mlir_async_pipe.session.report import Report, Session

HANDWRITTEN = ROOT / "examples" / "handwritten"
TARGET = Target.parse("nvvm:sm_80")


def text_of(name: str) -> str:
    return (HANDWRITTEN / f"{name}.mlir").read_text()


def parse(text: str, **annotation: object) -> ir.Module:
    """The module, with its outermost loop annotated."""
    module = ir.Module.parse(text, bindings.new_context())
    if annotation:
        outer = [
            op
            for op in walk(module)
            if op.name == "scf.for" and not any(a.name == "scf.for" for a in ancestors(op))
        ]
        # The epilogue of the examples is a loop too: the first one is the pipeline.
        mlir_async_pipe.annotate(outer[0], **annotation)
    return module


def run_tile(module: ir.Module, completion: str = "late") -> None:
    """A 16 x 16 tile of a product of 128, against NumPy."""
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((16, 128), (128, 16)))
    (kernel,) = [op for op in walk(module) if op.name == "gpu.func"]
    arguments = [a, b, np.zeros((16, 16), np.float32)]
    result = machine.run(
        module, symbol_name(kernel), arguments, threads=64, completion=completion, target=TARGET
    )
    assert not result.races
    np.testing.assert_allclose(result.arrays[2], a @ b, atol=1e-4)


def proven(module: ir.Module) -> bool:
    checks = mlir_async_pipe.check(module, TARGET).of("checks")
    return bool(checks) and all(c.unsafe == c.unknown == 0 for c in checks)


def ptx_waits(module: ir.Module) -> tuple[int, ...]:
    if find_tool("ptxas") is None:
        pytest.skip("ptxas is not installed")
    (kernel,) = lower(module, target=TARGET, emit="cubin").kernels
    assert kernel.resources.stack_frame_bytes == 0
    return kernel.ptx.waits


def codes(report: Report) -> list[str]:
    return [entry.code for entry in report.diagnostics]


# -- (a) slots that the author counts ---------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "counts"), [(2, [0, 0]), (3, [1, 1, 0]), (4, [2, 2, 1, 0]), (6, [4, 4, 3, 2, 1, 0])]
)
def test_two_slots_by_hand_become_as_many_as_the_pipeline_needs(stages, counts):
    module = parse(text_of("gemm_two_slots"), num_stages=stages)
    report = mlir_async_pipe.pipeline(module, TARGET)
    (loop,) = report.of("loops")
    assert [buffer.versions for buffer in loop.buffers] == [stages, stages]
    assert [buffer.slot_bytes for buffer in loop.buffers] == [1024, 1024]
    assert [record.count for record in report.of("waits")] == counts
    assert codes(report).count("hand-made-slots") == 2
    assert proven(module)
    run_tile(module)
    run_tile(module, "random:5")


def test_ptx_of_deepened_slots_has_the_counts():
    module = parse(text_of("gemm_two_slots"), num_stages=4)
    mlir_async_pipe.pipeline(module, TARGET)
    # The loop of 5 iterations waits for all but 2, and is unrolled by LLVM; then the epilogue.
    assert ptx_waits(module) == (2,) * 5 + (2, 1, 0)


# The slot as other hands write it: in iter_args, by a mask, through a view of the slot.
CARRIED = (
    ("      %slot = arith.remui %i, %c2 : index\n", ""),
    ("iter_args(%acc = %zero) -> (vector<4xf32>) {\n      %k =", "iter_args(%acc = %zero, %slot = %c0) -> (vector<4xf32>, index) {\n      %other = arith.subi %c1, %slot : index\n      %k ="),
    ("scf.yield %acc1 : vector<4xf32>\n    }\n    vector.store %sum,", "scf.yield %acc1, %other : vector<4xf32>, index\n    }\n    vector.store %sum#0,"),
    ("%sum = scf.for", "%sum:2 = scf.for"),
)  # fmt: skip
MASKED = (("%slot = arith.remui %i, %c2", "%slot = arith.andi %i, %c1"),)
SLOT = "memref<16x16xf32, strided<[16, 1], offset: ?>, #gpu.address_space<workgroup>>"
VIEWED = (
    ("%slot = arith.remui %i, %c2 : index\n",
     "%slot = arith.remui %i, %c2 : index\n"
     f"%va = memref.subview %sa[%slot, 0, 0] [1, 16, 16] [1, 1, 1] : memref<2x16x16xf32, #gpu.address_space<workgroup>> to {SLOT}\n"),
    ("%sa[%slot, %row, %column], 4 : memref<16x128xf32> to memref<2x16x16xf32, #gpu.address_space<workgroup>>",
     f"%va[%row, %column], 4 : memref<16x128xf32> to {SLOT}"),
    ("memref.load %sa[%slot, %row, %kk] : memref<2x16x16xf32, #gpu.address_space<workgroup>>",
     f"memref.load %va[%row, %kk] : {SLOT}"),
)  # fmt: skip


def edited(name: str, edits: tuple[tuple[str, str], ...]) -> str:
    text = text_of(name)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("edits", [CARRIED, MASKED, VIEWED], ids=["carried", "masked", "viewed"])
def test_slots_are_recognised_however_they_are_counted(edits):
    text = edited("gemm_two_slots", edits)
    run_tile(parse(text))
    module = parse(text, num_stages=4)
    report = mlir_async_pipe.pipeline(module, TARGET)
    assert codes(report).count("hand-made-slots") == 2
    assert [record.count for record in report.of("waits")] == [2, 2, 1, 0]
    assert proven(module)
    run_tile(module)


def test_arrays_of_stages_deepen_too():
    # Copy A, copy B, the loop that multiplies: three statements.
    module = parse(text_of("gemm_two_slots"), stage=[0, 0, 2], async_stages=[0])
    report = mlir_async_pipe.pipeline(module, TARGET)
    (loop,) = report.of("loops")
    assert [buffer.versions for buffer in loop.buffers] == [3, 3]
    assert proven(module)
    run_tile(module)


def test_a_trip_count_that_may_be_short_falls_back_to_one_slot_and_two_barriers():
    text = text_of("gemm_two_slots").replace(
        "%C: memref<16x16xf32> {llvm.noalias})", "%C: memref<16x16xf32> {llvm.noalias}, %n: index)"
    ).replace("to %c8 step", "to %n step")  # fmt: skip
    module = parse(text, num_stages=4)
    mlir_async_pipe.pipeline(module, TARGET)
    assert proven(module)
    random = np.random.default_rng(4)
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((16, 128), (128, 16)))
    for trips in range(9):
        arguments = [a, b, np.zeros((16, 16), np.float32), trips]
        result = machine.run(
            module, "gemm_two_slots", arguments, threads=64, completion="late", target=TARGET
        )
        assert not result.races
        expected = a[:, : 16 * trips] @ b[: 16 * trips]
        np.testing.assert_allclose(result.arrays[2], expected, atol=1e-4)


# What looks like a slot and is none: nothing may be taken away.
KEPT = {
    # The slot before is read: values pass from one iteration to the next.
    "flows": (("%x = memref.load %sa[%slot,", "%before = arith.subi %c1, %slot : index\n        %x = memref.load %sa[%before,"),),
    # Every thread has a slot of its own.
    "differs": (("%slot = arith.remui %i, %c2", "%slot = arith.remui %t, %c2"),),
    # The same plane in all iterations.
    "constant": (("%slot = arith.remui %i, %c2", "%slot = arith.remui %c1, %c2"),),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_slot_stays(case):
    module = parse(edited("gemm_two_slots", KEPT[case]), num_stages=3)
    session = Session(target=TARGET)
    found = passes.find("async-pipe-normalise-slots")
    found.run(module.operation, found.options(), session)
    kept = 1 if case == "flows" else 2
    assert [d.code for d in session.diagnostics.items].count("hand-made-slots") == 2 - kept
    assert str(module).count("memref<2x16x16xf32, #gpu.address_space<workgroup>>") >= kept


def test_a_short_loop_keeps_its_slots():
    text = text_of("gemm_two_slots").replace("%c8 = arith.constant 8", "%c8 = arith.constant 2")
    module = parse(text, num_stages=4)
    report = mlir_async_pipe.pipeline(module, TARGET)
    assert "short-trip" in codes(report)
    assert "hand-made-slots" not in codes(report)
    assert "memref<2x16x16xf32" in str(module)


def test_slots_that_others_see_stay():
    text = text_of("gemm_two_slots").replace(
        "    vector.store %sum, %C",
        "    gpu.barrier\n    %seen = vector.load %sa[%c1, %row, %column] : memref<2x16x16xf32, #gpu.address_space<workgroup>>, vector<4xf32>\n"
        "    vector.store %seen, %C",
    )  # fmt: skip
    module = parse(text, num_stages=3)
    with pytest.raises(AsyncPipeError):
        mlir_async_pipe.pipeline(module, TARGET)
    assert "memref<2x16x16xf32" in str(module)


# -- (b), (c) prologues and carried tokens ----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm_prologue", "gemm_carried_tokens"])
def test_a_pipeline_with_a_prologue_keeps_it_and_gets_larger_counts(name):
    module = parse(text_of(name), num_stages=4)
    report = mlir_async_pipe.pipeline(module, TARGET)
    (remark,) = [entry for entry in report.diagnostics if entry.code == "recounted"]
    assert "0 -> 1" in remark.message
    assert not report.of("loops")
    assert "async_pipe." not in str(module)
    assert proven(module)
    run_tile(module)
    assert ptx_waits(module) == (1, 0)


def test_tokens_with_relax_name_the_group_that_is_needed():
    module = parse(text_of("gemm_prologue"))
    session = Session(target=TARGET)
    for name, options in (("async-pipe-tokens", {"relax": True}), ("async-pipe-count-waits", {})):
        found = passes.find(name)
        found.run(module.operation, found.options(**options), session)
    waits = [op for op in walk(module) if op.name == "nvgpu.device_async_wait"]
    assert [integer_attribute(op, "numGroups") for op in waits] == [1, 0]
    (relaxed,) = session.report().of("relaxed")
    assert (relaxed.queue, relaxed.before, relaxed.after) == ("cp.async", 0, 1)
    assert proven(module)
    run_tile(module)


@pytest.mark.parametrize("name", ["ring_tokens", "swapped_buffers", "slots_by_subview"])
def test_a_pipeline_that_cannot_gain_is_refused_with_its_prologue(name):
    text = text_of(name)
    module = parse(text, num_stages=3)
    before = str(module)
    with pytest.raises(PipelineError) as raised:
        mlir_async_pipe.pipeline(module, TARGET)
    assert raised.value.code == "already-pipelined"
    assert str(module) == before
    first, goes_on, *_ = raised.value.diagnostic.notes
    loop = text[: text.index("scf.for")].count("\n") + 1
    assert first.message == "the prologue that it has"
    assert first.place.line < loop < goes_on.place.line


def test_relaxing_stops_where_the_checker_does():
    """Group i + 1 is in flight after the wait of the ring: a count of 1 is all there is."""
    module = parse(text_of("ring_tokens").replace("numGroups = 1", "numGroups = 0"))
    report = mlir_async_pipe.count_waits(module, TARGET)
    assert [record.count for record in report.of("waits")] == [1, 0]


def test_nothing_is_relaxed_in_a_kernel_that_races():
    text = text_of("gemm_prologue").replace("      gpu.barrier\n      scf.yield", "      scf.yield")
    module = parse(text)
    session = Session(target=TARGET)
    found = passes.find("async-pipe-tokens")
    found.run(module.operation, found.options(relax=True), session)
    assert not session.report().of("relaxed")


def test_a_copy_that_the_loop_overwrites_is_no_prologue():
    """One slot, and a copy before the loop that nobody reads."""
    copy = "%a0 = nvgpu.device_async_copy %A[%row, %column], %sa[%row, %column], 4 : memref<16x128xf32> to memref<16x16xf32, #gpu.address_space<workgroup>>"
    text = text_of("gemm_two_slots").replace("2x16x16", "16x16").replace("%slot, ", "")
    text = text.replace(
        "      scf.yield %acc1 : vector<4xf32>", "      gpu.barrier\n      scf.yield %acc1 : vector<4xf32>"
    ).replace(
        "    %sum = scf.for",
        f"    {copy}\n    nvvm.cp.async.commit.group\n    nvvm.cp.async.wait.group 0\n"
        "    gpu.barrier\n    %sum = scf.for",
    )  # fmt: skip
    module = parse(text, num_stages=3)
    report = mlir_async_pipe.pipeline(module, TARGET)
    assert len(report.of("loops")) == 1
    assert proven(module)
    run_tile(module)


# A loop that cannot be pipelined as it stands, after a copy to its buffer; @PLACES@ orders them.
COPY_AND_LOOP = """
gpu.module @kernels {
  gpu.func @k(%A: memref<17x64xf32> {llvm.noalias}, %C: memref<16x64xf32> {llvm.noalias}, %p: i1)
      workgroup(%rows: memref<2x64xf32, 3>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    @PLACES@
    gpu.return
  }
}
"""
COPY = """
    %first = nvgpu.device_async_copy %A[%c0, %t], %rows[%c0, %t], 1 : memref<17x64xf32> to memref<2x64xf32, 3>
    nvvm.cp.async.commit.group
"""
READ = """
    nvvm.cp.async.wait.group 0
    gpu.barrier
    %seen = memref.load %rows[%c0, %mirror] : memref<2x64xf32, 3>
    memref.store %seen, %C[%c0, %t] : memref<16x64xf32>
    gpu.barrier
"""
LOOP = """
    scf.for %i = %c0 to %c16 step %c1 {
      nvvm.cp.async.wait.group 0
      gpu.barrier
      %next = arith.addi %i, %c1 : index
      %to = arith.remui %next, %c2 : index
      %from = arith.remui %i, %c2 : index
      %copy = nvgpu.device_async_copy %A[%next, %t], %rows[%to, %t], 1 : memref<17x64xf32> to memref<2x64xf32, 3>
      nvvm.cp.async.commit.group
      %x = memref.load %rows[%from, %mirror] : memref<2x64xf32, 3>
      memref.store %x, %C[%i, %t] : memref<16x64xf32>
    } {async_pipe.num_stages = 3 : i64}
"""
GOES_ON = {
    "guarded": f"scf.if %p {{ {COPY} }} {LOOP}",
    "blocks": f"cf.cond_br %p, ^a, ^b\n^a: {COPY} cf.br ^b\n^b: {LOOP}",
    "loop of copies": f"scf.for %s = %c0 to %c1 step %c1 {{ {COPY} }} {LOOP}",
    "condition of a while": f"scf.while : () -> () {{ {COPY} scf.condition(%p) }} do {{ {LOOP} scf.yield }}",
}
ELSEWHERE = {
    "other branch": f"scf.if %p {{ {COPY} }} else {{ {LOOP} }}",
    "other case": f"scf.index_switch %t case 0 {{ {COPY} scf.yield }} default {{ {LOOP} }}",
    "loop that reads it": f"scf.for %s = %c0 to %c2 step %c1 {{ {COPY} {READ} }} {LOOP}",
    "other block": f"cf.cond_br %p, ^a, ^b\n^a: {COPY} cf.br ^c\n^b: {LOOP} cf.br ^c\n^c:",
}


def code_of(places: str) -> str:
    module = ir.Module.parse(COPY_AND_LOOP.replace("@PLACES@", places), bindings.new_context())
    with pytest.raises(PipelineError) as raised:
        mlir_async_pipe.pipeline(module, TARGET)
    return raised.value.code


@pytest.mark.parametrize("case", GOES_ON)
def test_a_copy_that_the_loop_goes_on_with_is_its_prologue(case):
    assert code_of(GOES_ON[case]) == "already-pipelined"


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_copy_in_another_branch_is_no_prologue(case):
    assert code_of(ELSEWHERE[case]) == "not-privatisable"
