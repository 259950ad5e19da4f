"""Ops that stand between the copies of a loop and its computation: hints, and ops that are opaque.

Covers: vocabulary/memory_ops.py, vocabulary/pure_ops.py, pipeliner/plan/legality.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import PipelineError

KERNEL = """
func.func @f(%A: memref<1024xf32>, %B: memref<1024xf32> {llvm.noalias})
    attributes {gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %c1024 = arith.constant 1024 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant 1.0 : f32
  %tile = memref.alloc() : memref<128xf32, #gpu.address_space<workgroup>>
  %t = gpu.thread_id x
  %mine = arith.muli %t, %c4 : index
  scf.for %i = %c0 to %c1024 step %c128 {
    %at = arith.addi %i, %mine : index
    %v = vector.load %A[%at] : memref<1024xf32>, vector<4xf32>
    vector.store %v, %tile[%mine] : memref<128xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    gpu.barrier
    BETWEEN
    %w = vector.load %tile[%mine] : memref<128xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    vector.store %w, %B[%at] : memref<1024xf32>, vector<4xf32>
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64}
  return
}"""


@pytest.mark.parametrize(
    "hint",
    [
        "rocdl.s.setprio 1",
        "rocdl.sched.barrier 0",
        "amdgpu.sched_barrier allow = <none>",
        'gpu.printf "%f", %one : f32',
        "memref.prefetch %A[%at], read, locality<3>, data : memref<1024xf32>",
    ],
)
def test_a_hint_hinders_nothing_and_stays(hint):
    given = np.arange(1024, dtype=np.float32)
    with new_context():
        module = ir.Module.parse(KERNEL.replace("BETWEEN", hint))
        report = pipeline(module)
        name = hint.split()[0]
        # Prologue, kernel, epilogue: as often as what it stands beside.
        assert str(module).count(name) == 3
        result = machine.run(module, "f", [given, np.zeros(1024, np.float32)], completion="late")
    assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], given)


@pytest.mark.parametrize(
    "op, code, why",
    [
        (
            "%q = gpu.all_reduce add %one {} : (f32) -> f32",
            "unproven-independence",
            "threads of the block meet at it",
        ),
        ("amdgpu.memory_counter_wait load(0)", "memory-order", "it waits for a hardware counter"),
    ],
)
def test_an_opaque_op_is_refused_with_the_reason_why_it_is_opaque(op, code, why):
    with new_context(), pytest.raises(PipelineError) as error:
        pipeline(ir.Module.parse(KERNEL.replace("BETWEEN", op)))
    assert error.value.code == code
    assert any(why in note.message for note in error.value.diagnostic.notes)


def test_nothing_moves_over_a_fence_for_other_threads():
    with new_context(), pytest.raises(PipelineError) as error:
        pipeline(ir.Module.parse(KERNEL.replace("BETWEEN", "nvvm.memory.barrier <gpu>")))
    assert error.value.code == "memory-order"
