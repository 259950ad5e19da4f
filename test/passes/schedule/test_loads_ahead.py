"""Loads that run ahead into registers: within what a thread has, under conditions, in nests.

Covers: pipeliner/schedule/by_count.py, pipeliner/expand/expand_pass.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, walk

WG = "#gpu.address_space<workgroup>"


def summed(width: int, threads: int, stages: int, more: str = "") -> str:
    """A sum of rows of `width` floats a thread, 16 rows."""
    kind = f"vector<{width}xf32>"
    return f"""
func.func @f(%A: memref<16x{width * threads}xf32> {{llvm.noalias}},
             %C: memref<{width * threads}xf32> {{llvm.noalias}})
    attributes {{gpu.kernel, gpu.known_block_size = array<i32: {threads}, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %width = arith.constant {width} : index
  %zero = arith.constant dense<0.0> : {kind}
  %t = gpu.thread_id x
  %x = arith.muli %t, %width : index
  %r = scf.for %i = %c0 to %c16 step %c1 iter_args(%acc = %zero) -> ({kind}) {{
    %v = vector.load %A[%i, %x] : memref<16x{width * threads}xf32>, {kind}
    %s = arith.addf %acc, %v : {kind}
    scf.yield %s : {kind}
  }} {{async_pipe.num_stages = {stages} : i64{more}}}
  vector.store %r, %C[%x] : memref<{width * threads}xf32>, {kind}
  return
}}"""


@pytest.mark.parametrize(
    "width, threads, target, stages",
    [
        # 32 + 4 * 32 = 160 of 255.
        (32, 32, "nvvm:sm_80", 5),
        # 64 + 3 * 64 = 256 are too many, 64 + 2 * 64 = 192 are not.
        (64, 32, "nvvm:sm_80", 3),
        # gfx950 has 512 a thread.
        (64, 64, "rocdl:gfx950", 5),
        # 1024 threads share 65536: 64 a thread, 16 + 3 * 16.
        (16, 1024, "nvvm:sm_80", 4),
        # Not even two stages fit; they are the fewest.
        (160, 32, "nvvm:sm_80", 2),
        # Nobody has said which chip.
        (64, 32, None, 5),
    ],
)
def test_as_many_stages_as_registers_hold(width, threads, target, stages):
    with new_context():
        module = ir.Module.parse(summed(width, threads, 5))
        report = pipeline(module, target)
        given = np.arange(16 * width * threads, dtype=np.float32).reshape(16, -1) % 64
        result = machine.run(module, "f", [given, given[0] * 0], threads=threads)
        loads = sum(op.name == "vector.load" for op in walk(module.operation))
    codes = [entry.code for entry in report.diagnostics]
    assert ("stages-reduced" in codes) == (stages < 5)
    # One load in the loop, the others before it.
    assert loads == stages
    np.testing.assert_array_equal(result.arrays[1], given.sum(axis=0))


def test_the_remark_says_what_does_not_fit():
    with new_context():
        report = pipeline(ir.Module.parse(summed(64, 32, 5)), "nvvm:sm_80")
    (reported,) = [e.message for e in report.diagnostics if e.code == "stages-reduced"]
    assert reported == (
        "3 stages instead of 5: each iteration ahead takes 64 registers of a thread, the loop "
        "carries 64, and sm_80 has 255"
    )


ROW = f"memref<32xf32, {WG}>"


def nest(annotations: str, tile: str = "%s = memref.alloc() : TILE") -> str:
    return f"""
func.func @f(%A: memref<4x512xf32> {{llvm.noalias}}, %C: memref<4x512xf32> {{llvm.noalias}})
    attributes {{gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %c31 = arith.constant 31 : index
  %c32 = arith.constant 32 : index
  %t = gpu.thread_id x
  %other = arith.subi %c31, %t : index
  {tile}
  scf.for %j = %c0 to %c4 step %c1 {{
    scf.for %i = %c0 to %c16 step %c1 {{
      %o = arith.muli %i, %c32 : index
      %x = arith.addi %o, %t : index
      %v = memref.load %A[%j, %x] : memref<4x512xf32>
      memref.store %v, %s[%t] : TILE
      gpu.barrier
      %w = memref.load %s[%other] : TILE
      memref.store %w, %C[%j, %x] : memref<4x512xf32>
      gpu.barrier
    }} {{{annotations}}}
  }}
  return
}}""".replace("TILE", ROW)


@pytest.mark.parametrize("limit, copies", [(384, True), (383, False), (128, False)])
def test_the_inner_loop_of_a_nest_falls_back_where_its_versions_do_not_fit(limit, copies):
    given = np.arange(4 * 512, dtype=np.float32).reshape(4, 512)
    with new_context():
        module = ir.Module.parse(nest("async_pipe.num_stages = 3 : i64"))
        report = pipeline(module, "nvvm:sm_80", smem_limit=limit)
        result = machine.run(module, "f", [given, given * 0], completion="late", threads=32)
        codes = {e.code for e in report.diagnostics} - {"needless-barrier"}
        assert codes == (set() if copies else {"through-registers"})
    assert result.races == ()
    mirrored = given.reshape(4, 16, 32)[:, :, ::-1].reshape(4, 512)
    np.testing.assert_array_equal(result.arrays[1], mirrored)


CONDITIONAL = """
func.func @f(%A: memref<512xf32> {llvm.noalias}, %I: memref<512xindex> {llvm.noalias},
             %C: memref<32xf32> {llvm.noalias}, %n: index)
    attributes {gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %t = gpu.thread_id x
  %r = scf.for %i = %c0 to %c16 step %c1 iter_args(%acc = %zero) -> (f32) {
    %o = arith.muli %i, %c32 : index
    %x = arith.addi %o, %t : index
    %some = arith.cmpi ult, %x, %n : index
    BODY
    %s = arith.addf %acc, %v : f32
    scf.yield %s : f32
  } {async_pipe.num_stages = 3 : i64}
  memref.store %r, %C[%t] : memref<32xf32>
  return
}"""
VALUE = """%v = scf.if %some -> f32 {
      %l = memref.load %A[%x] : memref<512xf32>
      scf.yield %l : f32
    } else {
      scf.yield %zero : f32
    }"""
INDEX = """%at = scf.if %some -> index {
      %l = memref.load %I[%x] : memref<512xindex>
      scf.yield %l : index
    } else {
      scf.yield %x : index
    }
    %v = memref.load %A[%at] : memref<512xf32>"""


@pytest.mark.parametrize(
    "body, loads",
    [
        # The prologue loads two values, the loop one.
        (VALUE, {"A": 3}),
        # Two indices and one value; one of each; and one value after the loop.
        (INDEX, {"A": 3, "I": 3}),
    ],
    ids=["value", "index"],
)
def test_what_a_branch_loads_keeps_its_distance(body, loads):
    random = np.random.default_rng(3)
    a = random.integers(0, 9, 512).astype(np.float32)
    index = random.permutation(512)
    given = [a, index, np.zeros(32, np.float32), 300]
    text = CONDITIONAL.replace("BODY", body)
    with new_context():
        before = machine.run(ir.Module.parse(text), "f", given, threads=32)
        module = ir.Module.parse(text)
        pipeline(module, "nvvm:sm_80")
        after = machine.run(module, "f", given, threads=32)
        (function,) = [op for op in walk(module.operation) if op.name == "func.func"]
        block = function.regions[0].blocks[0]
        found = {
            name: sum(
                op.name == "memref.load" and op.operands[0] == block.arguments[number]
                for op in walk(function)
            )
            for number, name in enumerate("AI")
            if name in loads
        }
        (loop,) = [op for op in walk(function) if op.name == "scf.for"]
        # What the loop adds was loaded in an iteration before.
        added = next(op for op in operations(loop.regions[0].blocks[0]) if op.name == "arith.addf")
        assert all(value in list(loop.regions[0].blocks[0].arguments) for value in added.operands)
    assert found == loads
    np.testing.assert_array_equal(after.arrays[2], before.arrays[2])
