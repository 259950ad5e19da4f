"""One loop of each kind that the pipeliner takes: right on the machine under every completion,
accepted by the checker without an unknown, and by ptxas.

Covers: lowering/nvvm/to_nvvm.py, lowering/nvvm/nvidia_ops.py, pipeliner/plan/buffer_plan.py, pipeliner/dependence/memory_dependences.py, pipeliner/plan/choose_versions.py, pipeliner/expand/write/kernel_units.py, pipeliner/plan/units.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow

THREADS = 128

KERNEL = """
#workgroup = #gpu.address_space<workgroup>
module attributes {{gpu.container_module}} {{
gpu.module @kernels {{
  gpu.func @kernel(%A: memref<?xf32> {{llvm.noalias, llvm.align = 16 : i64}},
                   %B: memref<?xf32> {{llvm.noalias, llvm.align = 16 : i64}},
                   %D: memref<?xf32> {{llvm.noalias, llvm.align = 16 : i64}}, %end: index)
      workgroup(%x: memref<512xf32, #workgroup> {{llvm.align = 16 : i64}},
                %y: memref<512xf32, #workgroup> {{llvm.align = 16 : i64}})
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c508 = arith.constant 508 : index
    %c512 = arith.constant 512 : index
    %c1024 = arith.constant 1024 : index
    %one = arith.constant 1.0 : f32
    %ones = arith.constant dense<1.0> : vector<4xf32>
    %zeros = arith.constant dense<0.0> : vector<4xf32>
    %tid = gpu.thread_id x
    %t = arith.muli %tid, %c4 : index
    %o = arith.subi %c508, %t : index
    {loop}
    gpu.return
  }}
}}
}}
"""

COPY_X = """
      %here = arith.addi %i, %t : index
      %cx = nvgpu.device_async_copy %A[%here], %x[%t], 4 {bypassL1} : memref<?xf32> to memref<512xf32, #workgroup>
      %gx = nvgpu.device_async_create_group %cx
"""
COPY_Y = """
      %cy = nvgpu.device_async_copy %B[%here], %y[%t], 4 {bypassL1} : memref<?xf32> to memref<512xf32, #workgroup>
      %gy = nvgpu.device_async_create_group %cy
"""
WAIT_X = "      nvgpu.device_async_wait %gx\n      gpu.barrier\n"
WAIT_Y = "      nvgpu.device_async_wait %gy\n      gpu.barrier\n"
READ_X = "      %vx = vector.load %x[%o] : memref<512xf32, #workgroup>, vector<4xf32>\n"
READ_Y = "      %vy = vector.load %y[%o] : memref<512xf32, #workgroup>, vector<4xf32>\n"
STORE_X = """
      %r = arith.addf %vx, %ones : vector<4xf32>
      vector.store %r, %D[%here] : memref<?xf32>, vector<4xf32>
      gpu.barrier
"""
STORE_SUM = """
      %r = arith.addf %vx, %vy : vector<4xf32>
      vector.store %r, %D[%here] : memref<?xf32>, vector<4xf32>
      gpu.barrier
"""
LOAD_STORE_X = """
      %here = arith.addi %i, %t : index
      %va = vector.load %A[%here] : memref<?xf32>, vector<4xf32>
      vector.store %va, %x[%t] : memref<512xf32, #workgroup>, vector<4xf32>
      gpu.barrier
"""


SCALAR_COPY_X = """
      %here = arith.addi %i, %t : index
      %va = memref.load %A[%here] : memref<?xf32>
      memref.store %va, %x[%t] : memref<512xf32, #workgroup>
      gpu.barrier
      %vx = memref.load %x[%o] : memref<512xf32, #workgroup>
      memref.store %vx, %D[%here] : memref<?xf32>
      gpu.barrier
"""
X_TO_Y = """
      %vm = vector.load %x[%o] : memref<512xf32, #workgroup>, vector<4xf32>
      %vn = arith.addf %vm, %ones : vector<4xf32>
      vector.store %vn, %y[%t] : memref<512xf32, #workgroup>, vector<4xf32>
      gpu.barrier
"""
STORE_Y = """
      vector.store %vy, %D[%here] : memref<?xf32>, vector<4xf32>
      gpu.barrier
"""


def opposite(chunks: np.ndarray) -> np.ndarray:
    """What thread t reads: the four elements of thread 127 - t."""
    return chunks.reshape(-1, THREADS, 4)[:, ::-1].reshape(-1)


def plus_one(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return opposite(a) + 1


def sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return opposite(a) + opposite(b)


def every_fourth(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(np.arange(a.size) % 4 == 0, opposite(a), 0)


def twice_opposite(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + 1


KINDS = {
    "two-stages": (COPY_X + WAIT_X + READ_X + STORE_X, "async_pipe.num_stages = 3 : i64", plus_one),
    "one-stage-for-all": (
        COPY_X + WAIT_X + READ_X + STORE_X,
        "async_pipe.stage = [0, 0, 0], async_pipe.async_stages = [0]",
        plus_one,
    ),
    "consumer-of-two-async-stages": (
        COPY_X + COPY_Y + WAIT_X + WAIT_Y + READ_X + READ_Y + STORE_SUM,
        "async_pipe.stage = [0, 1, 2, 2, 2], async_pipe.async_stages = [0, 1]",
        sums,
    ),
    "interleaved-producers": (
        COPY_X + COPY_Y + WAIT_X + WAIT_Y + READ_X + READ_Y + STORE_SUM,
        "async_pipe.stage = [0, 0, 3, 3, 3], async_pipe.order = [0, 4, 1, 2, 3], "
        "async_pipe.async_stages = [0]",
        sums,
    ),
    "copy-as-load-and-store": (
        LOAD_STORE_X + READ_X + STORE_X,
        "async_pipe.num_stages = 4 : i64",
        plus_one,
    ),
    "async-computation-runs-in-place": (
        LOAD_STORE_X.replace(
            "vector.store %va", "%vb = arith.addf %va, %zeros : vector<4xf32>\n vector.store %vb"
        )
        + READ_X
        + STORE_X,
        "async_pipe.stage = [0, 0, 1, 1], async_pipe.async_stages = [0]",
        plus_one,
    ),
    "scalar-copies": (SCALAR_COPY_X, "async_pipe.num_stages = 3 : i64", every_fourth),
    "async-producer-and-consumer": (
        LOAD_STORE_X + X_TO_Y + READ_Y.replace("%t]", "%o]") + STORE_Y,
        "async_pipe.stage = [0, 0, 1, 1, 2, 2], async_pipe.async_stages = [0, 1]",
        twice_opposite,
    ),
    "wait-at-the-consumer": (
        COPY_X + WAIT_X + READ_X + STORE_X,
        'async_pipe.num_stages = 4 : i64, async_pipe.wait_at = "consumer"',
        plus_one,
    ),
    "last-stage-async": (
        COPY_X + WAIT_X + READ_X + STORE_X,
        "async_pipe.stage = [0, 1, 1], async_pipe.async_stages = [0, 1]",
        plus_one,
    ),
    "predicated-consumer": (
        COPY_X
        + WAIT_X
        + READ_X
        + """
      %r = arith.addf %vx, %ones : vector<4xf32>
      %in = arith.cmpi slt, %here, %end : index
      scf.if %in {
        vector.store %r, %D[%here] : memref<?xf32>, vector<4xf32>
      }
      gpu.barrier
""",
        "async_pipe.num_stages = 3 : i64",
        plus_one,
    ),
    "registers-early-shared-late": (
        LOAD_STORE_X + READ_X + STORE_X,
        "async_pipe.stage = [0, 1, 1, 1], async_pipe.order = [3, 0, 1, 2]",
        plus_one,
    ),
    "predicated-epilogue": (
        COPY_X + WAIT_X + READ_X + STORE_X,
        'async_pipe.num_stages = 3 : i64, async_pipe.epilogue = "predicate"',
        plus_one,
    ),
    "predicated-short-trips": (
        COPY_X + WAIT_X + READ_X + STORE_X,
        'async_pipe.num_stages = 3 : i64, async_pipe.short_trip = "predicate"',
        plus_one,
    ),
}


def pipelined(kind: str, session: Session) -> ir.Module:
    body, annotation, _ = KINDS[kind]
    loop = f"scf.for %i = %c0 to %end step %c512 {{{body}}} {{{annotation}}}"
    module = ir.Module.parse(KERNEL.format(loop=loop))
    found = passes.find("async-pipe")
    found.run(module.operation, found.options(), session)
    assert module.operation.verify()
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_kind_computes_the_same_under_every_completion(kind: str) -> None:
    session = Session()
    with new_context():
        module = pipelined(kind, session)
        for chunks in (0, 1, 2, 3, 5):
            size = chunks * THREADS * 4
            a, b = (np.arange(size, dtype=np.float32) * f for f in (1, 3))
            expected = KINDS[kind][2](a, b) if size else a
            for completion in ("eager", "late", "random"):
                result = machine.run(
                    module,
                    "kernel",
                    [a, b, np.zeros(size, np.float32), size],
                    threads=THREADS,
                    completion=completion,
                )
                assert result.races == ()
                np.testing.assert_array_equal(result.arrays[2], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_checker_knows_everything_about_it(kind: str) -> None:
    """Kernels without any async op are checked, too: threads may race."""
    session = Session()
    with new_context():
        pipelined(kind, session)
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_ptxas_accepts_it(kind: str) -> None:
    with new_context():
        module = pipelined(kind, Session())
        made = lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    (kernel,) = made.kernels
    assert kernel.resources is not None
    assert kernel.resources.stack_frame_bytes == 0
    assert made.binary


FORMS = {
    "static": ("%i = %c0 to %c1024 step %c512", ""),
    "static-and-too-short": ("%i = %c0 to %c512 step %c512", ""),
    "empty": ("%i = %c1024 to %c0 step %c512", ""),
    "any-step": ("%i = %c0 to %end step %end", ""),
    "lower-bound": ("%i = %c4 to %end step %c512", ""),
    "unsigned": ("unsigned %i = %c0 to %end step %c512", ""),
    "assumed-long": ("%i = %c0 to %end step %c512", ', async_pipe.short_trip = "assume"'),
    "i32": ("%j = %j0 to %jn step %j512 : i32", ""),
    "i32-unsigned": ("unsigned %j = %j0 to %jn step %j512 : i32", ""),
}
"""Loop bounds, and more annotations."""

I32_BOUNDS = """
    %j0 = arith.constant 0 : i32
    %j512 = arith.constant 512 : i32
    %jn = arith.index_cast %end : index to i32
"""


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("form", FORMS)
def test_ptxas_accepts_every_form_of_the_loop(form: str) -> None:
    bounds, more = FORMS[form]
    body = COPY_X + WAIT_X + READ_X + STORE_X
    if "i32" in bounds:
        body = "%i = arith.index_cast %j : i32 to index\n" + body
    loop = f"{I32_BOUNDS} scf.for {bounds} {{{body}}} {{async_pipe.num_stages = 3 : i64{more}}}"
    with new_context():
        module = ir.Module.parse(KERNEL.format(loop=loop))
        found = passes.find("async-pipe")
        found.run(module.operation, found.options(), Session())
        made = lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    assert made.binary
