"""A pipelined loop inside branches, switches, sequential and parallel loops, regions, and in
each kind of function: right on the machine and proven by the checker, or refused.

Covers: facts/loops/annotations.py, pipeliner/plan/barrier_pairs.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from helpers.row_programs import HEAD, copying_loop, kernel, pipelined, wrong_runs
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


def proven(session: Session) -> bool:
    (summary,) = session.report().of("checks")
    return bool(summary.unsafe == summary.unknown == 0)


BASE = "%base = arith.muli %o, %c3 : index\n"
INNER = copying_loop(first_row="%base")
POSITIVE = "%p = arith.cmpi sgt, %m, %c1 : index\n"
STRUCTURES = {
    "if": POSITIVE + "scf.if %p {" + copying_loop() + "}",
    "both sides of an if": POSITIVE
    + "scf.if %p {"
    + copying_loop()
    + "} else {"
    + copying_loop(first_row="%c16")
    + "}",
    "switch": "scf.index_switch %m case 2 {"
    + copying_loop()
    + "scf.yield } default {"
    + copying_loop(first_row="%c5")
    + "scf.yield }",
    "region": "scf.execute_region no_inline {" + copying_loop() + "scf.yield }",
    "sequential loop": "scf.for %o = %c0 to %m step %c1 {" + BASE + INNER + "}",
    "while": """
  scf.while (%o = %c0) : (index) -> index {
    %more = arith.cmpi slt, %o, %m : index
    scf.condition(%more) %o : index
  } do {
  ^bb0(%o: index):"""
    + BASE
    + INNER
    + """
    %next = arith.addi %o, %c1 : index
    scf.yield %next : index
  }""",
    # Which loop is around it, its branches alone say.
    "blocks": """
  cf.br ^head(%c0 : index)
^head(%o: index):
  %more = arith.cmpi slt, %o, %m : index
  cf.cond_br %more, ^body, ^end
^body:"""
    + BASE
    + INNER
    + """
  %next = arith.addi %o, %c1 : index
  cf.br ^head(%next : index)
^end:""",
    "parallel": "scf.parallel (%o) = (%c0) to (%m) step (%c1) {" + BASE + INNER + "scf.reduce }",
    "parallel of two dimensions": "scf.parallel (%o, %q) = (%c0, %c0) to (%m, %c2) step (%c1, %c1) {"
    + BASE
    + INNER
    + "scf.reduce }",
    "forall": "scf.forall (%o) in (%m) {" + BASE + INNER + "}",
}
SIZES = [(n, m) for n in range(5) for m in range(4)]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_loop_inside_a_structure_is_pipelined_and_proven(structure: str) -> None:
    text = kernel(STRUCTURES[structure])
    module, session = pipelined(text)
    assert all([b.versions for b in loop.buffers] == [3] for loop in session.report().of("loops"))
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


@pytest.mark.parametrize(
    "body",
    [
        "%p = arith.cmpi sgt, %t, %c1 : index\nscf.if %p {" + copying_loop() + "}",
        "scf.for %o = %c0 to %t step %c1 {" + BASE + INNER + "}",
        copying_loop(trips="%t"),
    ],
    ids=["branch", "outer loop", "its own bound"],
)
def test_a_loop_with_barriers_that_only_some_threads_run_is_refused(body: str) -> None:
    with pytest.raises(AsyncPipeError) as caught:
        pipelined(kernel(body))
    assert caught.value.code == "divergent-barrier"


def test_a_loop_without_barriers_may_run_in_some_threads_only() -> None:
    own = copying_loop().replace("    gpu.barrier\n", "").replace("%B[%other]", "%B[%t]")
    text = kernel("%p = arith.cmpi sgt, %t, %c1 : index\nscf.if %p {" + own + "}")
    module, session = pipelined(text)
    assert "gpu.barrier" not in {op.name for op in walk(module)}
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


def test_a_mapped_forall_is_not_run_by_the_machine() -> None:
    text = kernel("scf.forall (%o) in (%m) {" + BASE + INNER + "} {mapping = [#gpu.block<x>]}")
    module, _ = pipelined(text)
    with pytest.raises(AsyncPipeError) as caught:
        wrong_runs(text, module, [(3, 2)])
    assert caught.value.code == "unsupported-op"


def test_a_gpu_function_with_an_attribution() -> None:
    head = HEAD.replace("func.func @f", "gpu.module @k {\ngpu.func @f")
    head = head.replace(
        "%m: index) attributes", "%m: index) workgroup(%B: memref<4xf32, #wg>) kernel attributes"
    ).replace("  %B = memref.alloc() : memref<4xf32, #wg>\n", "")
    text = head + STRUCTURES["sequential loop"] + "\n gpu.return\n}\n}\n"
    module, session = pipelined(text)
    assert "memref<3x4xf32" in str(module)
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []


LLVM = """
llvm.func @f(%A: !llvm.ptr {llvm.noalias}, %O: !llvm.ptr {llvm.noalias}, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  scf.for %i = %c0 to %n step %c1 : i64 {
    %p = llvm.getelementptr %A[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v = llvm.load %p : !llvm.ptr -> f32
    %w = llvm.fadd %v, %v : f32
    %q = llvm.getelementptr %O[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    llvm.store %w, %q : f32, !llvm.ptr
  } {async_pipe.stage = [0, 2]}
  llvm.return
}
"""


def test_an_llvm_function_with_scf_still_in_it() -> None:
    module, session = pipelined(LLVM)
    (loop,) = session.report().of("loops")
    assert loop.stages == 3
    a = np.arange(8, dtype=np.float32)
    for trips in range(6):
        done = machine.run(module, "f", [a, np.full(8, -1, np.float32), trips])
        assert done.arrays[1] is not None
        assert list(done.arrays[1]) == [*(2 * a[:trips]), *[-1] * (8 - trips)]


def test_an_llvm_function_with_buffers_in_workgroup_memory() -> None:
    """Its memory comes from globals: an llvm.func takes no memref."""
    head = HEAD.replace(
        "func.func @f(%A: memref<32x4xf32> {llvm.noalias}, %O: memref<32x4xf32> {llvm.noalias},\n"
        "             %n: index, %m: index) attributes {known_block_size = array<i32: 4, 1, 1>} {",
        """memref.global "private" @A : memref<32x4xf32>
memref.global "private" @O : memref<32x4xf32>
memref.global "private" @B : memref<4xf32, #wg>
llvm.func @f(%k: i64) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 4, 1, 1>} {
  %A = memref.get_global @A : memref<32x4xf32>
  %O = memref.get_global @O : memref<32x4xf32>
  %n = arith.index_cast %k : i64 to index""",
    ).replace("%B = memref.alloc() :", "%B = memref.get_global @B :")
    text = head + copying_loop() + "\n llvm.return\n}\n"
    assert "llvm.func" in text
    module, session = pipelined(text)
    (loop,) = session.report().of("loops")
    assert [b.versions for b in loop.buffers] == [3, 1]
    assert proven(session)
    assert 'memref.global "private" @B_versions : memref<3x4xf32' in str(module)
    assert ir.Module.parse(str(module)).operation.verify()
