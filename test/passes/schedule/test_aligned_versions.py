"""Loops with a version for arrays whose rows are aligned for wide copies.

Covers: pipeliner/normalise/aligned_versions.py, facts/values/linear.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import set_integer, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower

ROWS = 32
WAIT = "async_pipe.wait_queue"


def kernel(load: str, promise: str = "") -> str:
    """Each thread sums up the row that its neighbour copied, 8 columns at a time."""
    return f"""
#wg = #gpu.address_space<workgroup>
gpu.module @m {{
gpu.func @k(%A : memref<?x?xf16> {{llvm.noalias}}, %C : memref<32xf16> {{llvm.noalias}}, %n : index)
    workgroup(%tile : memref<32x8xf16, #wg> {{llvm.align = 16 : i64}})
    kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c31 = arith.constant 31 : index
  %t = gpu.thread_id x
  %other = arith.subi %c31, %t : index
  %zero = arith.constant 0.0 : f16
  %zeros = arith.constant dense<0.0> : vector<8xf16>
  %sum = scf.for %k = %c0 to %n step %c8 iter_args(%s = %zeros) -> (vector<8xf16>) {{
    %v = {load.replace("PROMISE", promise)}
    vector.store %v, %tile[%t, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
    gpu.barrier
    %x = vector.load %tile[%other, %c0] : memref<32x8xf16, #wg>, vector<8xf16>
    %next = arith.addf %s, %x : vector<8xf16>
    gpu.barrier
    scf.yield %next : vector<8xf16>
  }} {{async_pipe.num_stages = 3 : i64}}
  %total = vector.reduction <add>, %sum : vector<8xf16> into f16
  memref.store %total, %C[%t] : memref<32xf16>
  gpu.return
}}
}}"""


LOADS = {
    "vector": "vector.load %A[%t, %k] PROMISE : memref<?x?xf16>, vector<8xf16>",
    "transfer": "vector.transfer_read %A[%t, %k], %zero {in_bounds = [true]} : memref<?x?xf16>, vector<8xf16>",
    "masked": "vector.transfer_read %A[%t, %k], %zero : memref<?x?xf16>, vector<8xf16>",
}


def pipelined(text: str):
    module = ir.Module.parse(text)
    return module, mlir_async_pipe.pipeline(module, target="nvvm:sm_80")


@pytest.mark.parametrize("load", LOADS)
def test_both_versions_are_right_and_proven(load: str) -> None:
    """Rows of 48 elements are multiples of 16 bytes, rows of 50 of 4."""
    with new_context():
        module, report = pipelined(kernel(LOADS[load]))
        assert [(c.unsafe, c.unknown) for c in report.of("checks")] == [(0, 0)]
        codes = [entry.code for entry in report.diagnostics]
        assert (codes.count("alignment-versions"), codes.count("through-registers")) == (1, 1)
        for columns, wide in ((48, True), (50, False)):
            data = np.arange(ROWS * columns).reshape(ROWS, columns).astype(np.float16) % 7
            for trips in (0, 1, 5):
                arguments = [data, np.zeros(ROWS, np.float16), 8 * trips]
                done = machine.run(module, "k", arguments, threads=ROWS, completion="late")
                assert not done.races
                expected = data[::-1, : 8 * trips].sum(axis=1)
                np.testing.assert_array_equal(done.arrays[1], expected)
            # The version for wide copies has its wait; with one group more in flight it races.
            waits = [op for op in walk(module) if op.name == WAIT]
            assert waits
            for wait in waits:
                set_integer(wait, "count", 3, 64)
            arguments = [data, np.zeros(ROWS, np.float16), 40]
            races = machine.run(module, "k", arguments, threads=ROWS, completion="late").races
            assert bool(races) == wide
            module, _ = pipelined(kernel(LOADS[load]))


@pytest.mark.parametrize("load", LOADS)
def test_copies_of_the_aligned_version_have_16_bytes(load: str) -> None:
    with new_context():
        module, _ = pipelined(kernel(LOADS[load]))
        text = lower(module, target=Target.parse("nvvm:sm_80"), emit="ptx").text
    copies = [line for line in text.splitlines() if "cp.async.cg" in line]
    # Two of the prologue and one of the kernel. Columns of iterations that may wrap go on in their line all the same.
    assert len(copies) == 3
    assert all("cp.async.cg.shared.global.L2::128B" in line for line in copies)


def test_who_states_the_alignment_gets_one_version() -> None:
    with new_context():
        module, report = pipelined(kernel(LOADS["vector"], "{alignment = 16 : i64}"))
        text = lower(module, target=Target.parse("nvvm:sm_80"), emit="ptx").text
    assert not [entry for entry in report.diagnostics if entry.code == "alignment-versions"]
    assert "ld.global.nc.b16" not in text
    assert text.count("cp.async.cg.shared.global") == 3


def test_without_a_chip_there_is_one_version() -> None:
    with new_context():
        module = ir.Module.parse(kernel(LOADS["vector"]))
        report = mlir_async_pipe.pipeline(module)
    assert not [entry for entry in report.diagnostics if entry.code == "alignment-versions"]
