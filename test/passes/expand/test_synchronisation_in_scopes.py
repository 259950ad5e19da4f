"""Groups, waits and barriers inside what completes later: refused, unsafe, and an error to run.

Covers: pipeliner/plan/units.py, checker/effects.py, machine/dialects/async_ops.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import MachineError, PipelineError

TOKEN = "!nvgpu.device.async.token"
INSIDE = {
    "commit": f'%t = "async_pipe.commit_queue"() {{queue = 0 : i64}} : () -> {TOKEN}',
    "wait": '"async_pipe.wait_queue"() {queue = 0 : i64, count = 0 : i64} : () -> ()',
    "native group": "nvvm.cp.async.commit.group",
    "native wait": "nvvm.cp.async.wait.group 0",
    "barrier": "gpu.barrier",
    "wait in a call": "func.call @waits() : () -> ()",
}


def scope(inside: str) -> str:
    """A scope that copies, with something else inside, whose group is waited for."""
    return f"""
    func.func private @waits() {{
      nvvm.cp.async.wait.group 0
      return
    }}
    func.func @f(%A: memref<8xf32> {{llvm.noalias}}, %C: memref<8xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %B = memref.alloca() : memref<8xf32>
      "async_pipe.scope"() ({{
        %v = memref.load %A[%c0] : memref<8xf32>
        memref.store %v, %B[%c0] : memref<8xf32>
        {inside}
        "async_pipe.yield"() : () -> ()
      }}) {{queue = 0 : i64}} : () -> ()
      %g = "async_pipe.commit_queue"() {{queue = 0 : i64}} : () -> {TOKEN}
      "async_pipe.wait_queue"(%g) {{queue = 0 : i64, count = 0 : i64}} : ({TOKEN}) -> ()
      %w = memref.load %B[%c0] : memref<8xf32>
      memref.store %w, %C[%c0] : memref<8xf32>
      return
    }}"""


CODE = "synchronisation-in-scope"


@pytest.mark.parametrize("kind", [kind for kind in INSIDE if "call" not in kind])
def test_the_checker_says_unsafe(kind):
    found = check_text(scope(INSIDE[kind]))
    assert CODE in {code for code, _ in found.unsafe}
    assert any(entry.unsafe for entry in found.report.of("checks"))


@pytest.mark.parametrize("kind", [kind for kind in INSIDE if "call" not in kind])
def test_the_machine_says_so(kind):
    with new_context(), pytest.raises(MachineError, match=CODE):
        arrays = [np.ones(8, np.float32), np.zeros(8, np.float32)]
        machine.run(ir.Module.parse(scope(INSIDE[kind])), "f", arrays)


def test_a_scope_without_them_is_safe():
    assert not check_text(scope("")).unsafe


KERNEL = """
func.func @f(%A: memref<32x8xf32> {llvm.noalias}, %C: memref<32x8xf32> {llvm.noalias})
    attributes {gpu.kernel, known_block_size = array<i32: 8, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %t = gpu.thread_id x
  %B = memref.alloc() : memref<8xf32, #gpu.address_space<workgroup>>
  scf.for %i = %c0 to %c8 step %c1 {
    PRODUCER
    %u = memref.load %B[%t] : memref<8xf32, #gpu.address_space<workgroup>>
    memref.store %u, %C[%i, %t] : memref<32x8xf32>
  } ANNOTATION
  return
}"""
WAITING = """{
      %tok = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1
        : memref<32x8xf32> to memref<8xf32, #gpu.address_space<workgroup>>
      %g = nvgpu.device_async_create_group %tok
      nvgpu.device_async_wait %g
      scf.yield
    }"""


def kernel(producer: str, annotation: str) -> str:
    return KERNEL.replace("PRODUCER", producer + WAITING).replace("ANNOTATION", annotation)


def test_an_async_statement_that_waits_inside_is_refused_there():
    text = kernel(
        "scf.execute_region no_inline",
        "{async_pipe.stage = [0, 1, 1], async_pipe.order = [0, 1, 2], "
        "async_pipe.async_stages = [0]}",
    )
    with new_context(), pytest.raises(PipelineError, match=CODE) as caught:
        mlir_async_pipe.pipeline(ir.Module.parse(text))
    assert "device_async_create_group" in caught.value.diagnostic.message


@pytest.mark.parametrize("end", ["latency", "num_stages"])
def test_a_latency_on_what_waits_inside_does_not_make_it_asynchronous(end):
    """An inner loop that waits for its own copies is done when it ends."""
    producer = "scf.for %j = %c0 to %c2 step %c1"
    text = kernel(producer, "")
    if end == "latency":
        text = text.replace("scf.yield\n    }", "} {async_pipe.latency = 500 : i64}")
    else:
        text = kernel(producer, "{async_pipe.num_stages = 2 : i64}")
    text = text.replace("      scf.yield\n", "")
    with new_context():
        module = ir.Module.parse(text)
        try:
            mlir_async_pipe.pipeline(module)
        except PipelineError as error:
            assert error.code == "no-copies"
        assert "async_pipe.scope" not in str(module)


def test_a_call_in_an_async_statement_is_refused():
    """MLIR finds no symbol from inside an unregistered op: the result would not verify."""
    text = """
    func.func private @g() {
      return
    }
    """ + kernel("func.call @g() : () -> ()\n scf.execute_region no_inline", "").replace(
        "  } \n",
        "  } {async_pipe.stage = [0, 0, 1, 1], async_pipe.order = [0, 1, 2, 3], "
        "async_pipe.async_stages = [0], async_pipe.independent}\n",
    )
    with new_context(), pytest.raises(PipelineError, match="call-in-scope"):
        mlir_async_pipe.pipeline(ir.Module.parse(text))


def test_a_global_is_named_outside_of_the_scope():
    text = """
    memref.global "private" @tile : memref<8xf32, 3>
    func.func @f(%A: memref<8x8xf32> {llvm.noalias}, %C: memref<8x8xf32> {llvm.noalias}) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      scf.for %i = %c0 to %c8 step %c1 {
        scf.execute_region no_inline {
          %B = memref.get_global @tile : memref<8xf32, 3>
          %x = memref.load %A[%i, %c0] : memref<8x8xf32>
          memref.store %x, %B[%c0] : memref<8xf32, 3>
          scf.yield
        }
        %B = memref.get_global @tile : memref<8xf32, 3>
        %u = memref.load %B[%c0] : memref<8xf32, 3>
        memref.store %u, %C[%i, %c0] : memref<8x8xf32>
      } {async_pipe.stage = [0, 0, 0], async_pipe.order = [0, 1, 2], async_pipe.async_stages = [0]}
      return
    }"""
    text = text.replace("stage = [0, 0, 0]", "stage = [0, 1, 1]")
    with new_context():
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module)
        assert module.operation.verify()
        assert "async_pipe.scope" in str(module)
