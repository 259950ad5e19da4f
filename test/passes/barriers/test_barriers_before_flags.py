"""A barrier makes what all threads did precede what one thread tells others after it: it stays where
something may tell them, whatever kind of op it is, and goes where nothing does.

Covers: pipeliner/ask_checker/needed_barriers.py, checker/selection.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

KERNEL = """
func.func private @unknown()
func.func @fences() { llvm.fence release  func.return }
func.func @calls() { func.call @fences() : () -> ()  func.return }
func.func @computes() { func.return }
func.func @k(%D: memref<64xf32> {llvm.noalias}, %F: !llvm.ptr<1> {llvm.noalias},
    %G: memref<1xi32> {llvm.noalias}) attributes {gpu.kernel, known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = arith.constant 1 : i32
  %x = arith.constant 1.0 : f32
  %yes = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  memref.store %x, %D[%t] : memref<64xf32>
  gpu.barrier
  scf.if %leader {
    OP
  }
  return
}
"""
TELLING = {
    "store": "llvm.store %v, %F atomic release {alignment = 4 : i64} : i32, !llvm.ptr<1>",
    "seq_cst store": "llvm.store %v, %F atomic seq_cst {alignment = 4 : i64} : i32, !llvm.ptr<1>",
    "volatile store": "llvm.store volatile %v, %F : i32, !llvm.ptr<1>",
    "relaxed store": "llvm.store %v, %F atomic monotonic {alignment = 4 : i64} : i32, !llvm.ptr<1>",
    "atomicrmw": "%f = llvm.atomicrmw add %F, %v acq_rel : !llvm.ptr<1>, i32",
    "cmpxchg": "%f = llvm.cmpxchg %F, %v, %v release monotonic : !llvm.ptr<1>, i32",
    "memref atomic": "%f = memref.atomic_rmw addi %v, %G[%c0] : (i32, memref<1xi32>) -> i32",
    "fence": "llvm.fence release",
    "memory barrier": "nvvm.memory.barrier <gpu>",
    "cluster fence": "nvvm.fence.sc.cluster",
    "grid dependency": "nvvm.griddepcontrol launch_dependents",
    "assembly": 'llvm.inline_asm has_side_effects "red.release.gpu.add.u32;", "" : () -> ()',
    "unknown call": "func.call @unknown() : () -> ()",
    "call that fences": "func.call @fences() : () -> ()",
    "call of a call": "func.call @calls() : () -> ()",
}
SILENT = {
    "nothing": "",
    "plain store": "memref.store %x, %D[%t] : memref<64xf32>",
    "arithmetic": "%f = arith.addi %v, %v : i32",
    "call that computes": "func.call @computes() : () -> ()",
    "assembly of values": '%f = llvm.inline_asm "mov.u32 $0, $1;", "=r,r" %v : (i32) -> i32',
}


def barriers_left(op: str) -> int:
    with new_context():
        module = ir.Module.parse(KERNEL.replace("OP", op))
        found = passes.find("async-pipe-drop-barriers")
        found.run(module.operation, found.options(), Session())
        return sum(each.name == "gpu.barrier" for each in walk(module.operation))


@pytest.mark.parametrize("kind", TELLING)
def test_a_barrier_before_what_tells_other_threads_stays(kind: str) -> None:
    assert barriers_left(TELLING[kind]) == 1


@pytest.mark.parametrize("kind", SILENT)
def test_a_barrier_before_what_tells_nobody_goes(kind: str) -> None:
    assert barriers_left(SILENT[kind]) == 0
