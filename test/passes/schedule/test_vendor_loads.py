"""Loads and copies of the vendors' dialects in loops with `num_stages`: matrices of a wave from global
memory, guarded copies to LDS, transposing loads.

Covers: pipeliner/schedule/by_count.py, pipeliner/dependence/privatise.py, checker/overlap.py, vocabulary/memory_ops.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import HazardError, MachineError, PipelineError

WG = "#gpu.address_space<workgroup>"
SM_80, GFX950, GFX1250 = map(Target.parse, ("nvvm:sm_80", "rocdl:gfx950", "rocdl:gfx1250"))
COMPLETIONS = ("eager", "late", "random:3")


def mma(kind: str, operand: str) -> str:
    return f'!gpu.mma_matrix<16x16x{kind}, "{operand}">'


PRODUCT = f"""
gpu.module @m {{
  gpu.func @f(%A: memref<16x128xf16> {{llvm.noalias}}, %B: memref<128x16xf16> {{llvm.noalias}},
              %C: memref<16x16xf32> {{llvm.noalias}}) kernel
      attributes {{known_block_size = array<i32: THREADS, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %start = gpu.subgroup_mma_constant_matrix %zero : {mma("f32", "COp")}
    %r = scf.for %k = %c0 to %c128 step %c16 iter_args(%acc = %start) -> ({mma("f32", "COp")}) {{
      %x = gpu.subgroup_mma_load_matrix %A[%c0, %k] {{leadDimension = 128 : index}}
        : memref<16x128xf16> -> {mma("f16", "AOp")}
      %y = gpu.subgroup_mma_load_matrix %B[%k, %c0] {{leadDimension = 16 : index}}
        : memref<128x16xf16> -> {mma("f16", "BOp")}
      %n = gpu.subgroup_mma_compute %x, %y, %acc
        : {mma("f16", "AOp")}, {mma("f16", "BOp")} -> {mma("f32", "COp")}
      scf.yield %n : {mma("f32", "COp")}
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.subgroup_mma_store_matrix %r, %C[%c0, %c0] {{leadDimension = 16 : index}}
      : {mma("f32", "COp")}, memref<16x16xf32>
    gpu.return
  }}
}}"""


def test_matrices_of_a_wave_are_loaded_two_iterations_ahead():
    random = np.random.default_rng(2)
    a, b = (random.integers(-3, 4, s).astype(np.float16) for s in ((16, 128), (128, 16)))
    with new_context():
        module = ir.Module.parse(PRODUCT.replace("THREADS", "32"))
        report = pipeline(module, SM_80)
        names = [op.name for op in walk(module.operation)]
        result = machine.run(module, "f", [a, b, np.zeros((16, 16), np.float32)], threads=32)
    assert [entry.code for entry in report.diagnostics] == ["through-registers"]
    # Two of each before the loop, one of each in it.
    assert names.count("gpu.subgroup_mma_load_matrix") == 6
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[2], a.astype(np.float32) @ b.astype(np.float32))


def test_two_waves_that_store_one_matrix_race():
    with new_context(), pytest.raises(HazardError, match="writes to one place at once"):
        pipeline(ir.Module.parse(PRODUCT.replace("THREADS", "64")), SM_80)


GUARDED = f"""
gpu.module @m {{
  gpu.func @f(%A: memref<1024xf32> {{llvm.noalias}}, %C: memref<1024xf32> {{llvm.noalias}}, %n: index)
      workgroup(%s : memref<64xf32, {WG}>) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %c1024 = arith.constant 1024 : index
    %t = gpu.thread_id x
    %other = arith.subi %c63, %t : index
    scf.for %k = %c0 to %c1024 step %c64 {{
      %at = arith.addi %k, %t : index
      %some = arith.cmpi ult, CONDITION, %n : index
      scf.if %some {{
        COPY
      }}
      gpu.barrier
      scf.if %some {{
        %y = memref.load %s[READ] : memref<64xf32, {WG}>
        memref.store %y, %C[%at] : memref<1024xf32>
      }}
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}"""
GATHER = (
    f"amdgpu.gather_to_lds ASYNC %A[%at], %s[%c0] : f32, memref<1024xf32>, memref<64xf32, {WG}>"
)
COPIES = {
    "gather-async": (GATHER.replace("ASYNC", "async"), GFX950),
    "gather": (GATHER.replace("ASYNC", ""), GFX950),
    "of-a-lane": (
        "amdgpu.global_load_async_to_lds %A[%at], %s[%t]"
        f" : vector<1xf32>, memref<1024xf32>, memref<64xf32, {WG}>",
        GFX1250,
    ),
}


@pytest.mark.parametrize("read", ["%t", "%other"])
@pytest.mark.parametrize("name", COPIES)
def test_a_guard_on_which_all_threads_agree_leaves_a_copy_asynchronous(name, read):
    copy, target = COPIES[name]
    text = GUARDED.replace("COPY", copy).replace("READ", read).replace("CONDITION", "%k")
    given = np.arange(1, 1025, dtype=np.float32)
    options = {"threads": 64, "target": target}
    with new_context():
        before = machine.run(
            ir.Module.parse(text), "f", [given, given * 0, 640], completion="eager", **options
        )
        module = ir.Module.parse(text)
        report = pipeline(module, target, check="warn")
        assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
        for completion in COMPLETIONS:
            after = machine.run(
                module, "f", [given, given * 0, 640], completion=completion, **options
            )
            assert after.races == ()
            np.testing.assert_array_equal(after.arrays[1], before.arrays[1])
    assert np.count_nonzero(before.arrays[1]) == 640


def test_a_guard_that_differs_between_threads_does_not_prove_that_a_wave_has_copied():
    """Lane 5 reads what lane 3 copied, which may have been under another condition."""
    copy, target = COPIES["gather"]
    text = GUARDED.replace("COPY", copy).replace("READ", "%other").replace("CONDITION", "%at")
    with new_context(), pytest.raises(PipelineError) as error:
        pipeline(ir.Module.parse(text), target)
    assert error.value.code == "not-privatisable"


GLOBAL = "memref<1024xf16, #gpu.address_space<global>>"
TRANSPOSED = f"""
gpu.module @m {{
  gpu.func @f(%A: {GLOBAL} {{llvm.noalias}}, %C: {GLOBAL} {{llvm.noalias}}) kernel
      attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c256 = arith.constant 256 : index
    %c1024 = arith.constant 1024 : index
    %t = gpu.thread_id x
    %o = arith.muli %t, %c8 : index
    scf.for %k = %c0 to %c1024 step %c256 {{
      %at = arith.addi %k, %o : index
      %x = amdgpu.global_transpose_load %A[%at] : {GLOBAL} -> vector<8xf16>
      %y = arith.addf %x, %x : vector<8xf16>
      vector.store %y, %C[%at] : {GLOBAL}, vector<8xf16>
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}"""


def test_a_transposing_load_runs_ahead_into_registers_and_the_machine_names_it():
    """Which lane gets what is not known to the machine, which says so."""
    with new_context():
        module = ir.Module.parse(TRANSPOSED)
        report = pipeline(module, GFX1250)
        names = [op.name for op in walk(module.operation)]
        with pytest.raises(MachineError, match=r"amdgpu\.global_transpose_load"):
            machine.run(module, "f", [np.zeros(1024, np.float16)] * 2, threads=32)
    assert names.count("amdgpu.global_transpose_load") == 3
    assert [entry.code for entry in report.diagnostics] == ["through-registers"]
