"""Fields of structs that blocks are handed: the same values, handed on by themselves.

Covers: waits/ssa/carried_structs.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import parse
from mlir_async_pipe import machine
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.waits.ssa.carried_structs import split_fields, taken_fields

PAIR = "!llvm.struct<(i32, struct<(i32, f32)>)>"
# Counts down from %n; what it adds up stands in a struct that one block hands on unread, and that
# either side of a branch makes another way.
PROGRAM = f"""
llvm.func @f(%n: i32, %out: !llvm.ptr) {{
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %three = llvm.mlir.constant(3 : i32) : i32
  %none = llvm.mlir.undef : {PAIR}
  %first = llvm.insertvalue %zero, %none[1, 0] : {PAIR}
  %counted = llvm.insertvalue %n, %first[0] : {PAIR}
  llvm.br ^head(%counted : {PAIR})
^head(%s: {PAIR}):
  %left = llvm.extractvalue %s[0] : {PAIR}
  %more = llvm.icmp "sgt" %left, %zero : i32
  llvm.cond_br %more, ^body(%s : {PAIR}), ^out(%s : {PAIR})
^body(%t: {PAIR}):
  %least = llvm.extractvalue %t[0] : {PAIR}
  %small = llvm.icmp "slt" %least, %three : i32
  llvm.cond_br %small, ^once(%t : {PAIR}), ^twice
^once(%u: {PAIR}):
  %sum = llvm.extractvalue %u[1, 0] : {PAIR}
  %more1 = llvm.add %sum, %one : i32
  %u1 = llvm.insertvalue %more1, %u[1, 0] : {PAIR}
  llvm.br ^next(%u1 : {PAIR})
^twice:
  %inner = llvm.extractvalue %t[1] : {PAIR}
  %total = llvm.extractvalue %inner[0] : !llvm.struct<(i32, f32)>
  %more3 = llvm.add %total, %three : i32
  %changed = llvm.insertvalue %more3, %inner[0] : !llvm.struct<(i32, f32)>
  %t1 = llvm.insertvalue %changed, %t[1] : {PAIR}
  llvm.br ^next(%t1 : {PAIR})
^next(%v: {PAIR}):
  %now = llvm.extractvalue %v[0] : {PAIR}
  %fewer = llvm.sub %now, %one : i32
  %w = llvm.insertvalue %fewer, %v[0] : {PAIR}
  llvm.br ^head(%w : {PAIR})
^out(%end: {PAIR}):
  %result = llvm.extractvalue %end[1, 0] : {PAIR}
  llvm.store %result, %out : i32, !llvm.ptr
  llvm.return
}}
"""


def result(module, trips: int) -> int:
    out = np.zeros(1, np.int32)
    return int(machine.run(module, "f", [trips, out]).arrays[1][0])


@pytest.mark.parametrize("trips", range(6))
def test_values_stay_what_they_are(trips: int) -> None:
    module = parse(PROGRAM)
    before = result(module, trips)
    split_fields(module.operation)
    assert module.operation.verify()
    assert result(module, trips) == before == (trips if trips < 3 else 2 + 3 * (trips - 2))


def test_no_field_is_taken_out_of_an_argument_any_more() -> None:
    module = parse(PROGRAM)
    assert [field.position for field in taken_fields(module.operation)] == [(0,), (1, 0)]
    split_fields(module.operation)
    assert taken_fields(module.operation) == []
    (function,) = [op for op in walk(module.operation) if op.name == "llvm.func"]
    # ^twice is handed nothing.
    taken = [len(block.arguments) for block in function.regions[0].blocks]
    assert taken == [2, 3, 3, 3, 0, 3, 3]


STRUCTURED = """
func.func @f(%n: i32, %out: memref<1xi32>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %at = arith.constant 0 : index
  %none = llvm.mlir.undef : !llvm.struct<(f32, i32)>
  %first = llvm.insertvalue %zero, %none[1] : !llvm.struct<(f32, i32)>
  %last = scf.for %i = %zero to %n step %one iter_args(%s = %first) -> (!llvm.struct<(f32, i32)>) : i32 {
    %small = arith.cmpi slt, %i, %three : i32
    %t = scf.if %small -> (!llvm.struct<(f32, i32)>) {
      %sum = llvm.extractvalue %s[1] : !llvm.struct<(f32, i32)>
      %more = arith.addi %sum, %three : i32
      %u = llvm.insertvalue %more, %s[1] : !llvm.struct<(f32, i32)>
      scf.yield %u : !llvm.struct<(f32, i32)>
    } else {
      scf.yield %s : !llvm.struct<(f32, i32)>
    }
    scf.yield %t : !llvm.struct<(f32, i32)>
  }
  %result = llvm.extractvalue %last[1] : !llvm.struct<(f32, i32)>
  memref.store %result, %out[%at] : memref<1xi32>
  return
}
"""


@pytest.mark.parametrize("trips", range(6))
def test_loops_and_branches_hand_on_fields(trips: int) -> None:
    module = parse(STRUCTURED)
    split_fields(module.operation)
    assert module.operation.verify() and taken_fields(module.operation) == []
    assert result(module, trips) == 3 * min(trips, 3)
    (loop,) = [op for op in walk(module.operation) if op.name == "scf.for"]
    assert [str(kind.type) for kind in loop.results][1:] == ["i32"]


SUMS = "!llvm.struct<(i32, i32, i32, i32)>"


def test_sums_of_products_stay() -> None:
    """They are registers that a product may still fill: nobody reads them where a loop hands them on."""
    module = parse(f"""
func.func @f(%a: i64, %b: i64, %n: index, %out: memref<1xi32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %none = llvm.mlir.zero : {SUMS}
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%s = %none) -> ({SUMS}) {{
    %t = nvvm.wgmma.mma_async %a, %b, %s, <m = 64, n = 8, k = 32>, D[<s32>, <one>, <wrapped>],
      A[<s8>, <one>, <row>], B[<s8>, <one>, <col>] : {SUMS} -> {SUMS}
    scf.yield %t : {SUMS}
  }}
  %sum = llvm.extractvalue %last[0] : {SUMS}
  memref.store %sum, %out[%c0] : memref<1xi32>
  return
}}""")
    assert taken_fields(module.operation) == []


def test_fields_of_what_the_kernel_is_given_stay() -> None:
    module = parse(f"""
llvm.func @f(%s: {PAIR}, %out: !llvm.ptr) {{
  %n = llvm.extractvalue %s[0] : {PAIR}
  llvm.store %n, %out : i32, !llvm.ptr
  llvm.return
}}""")
    assert taken_fields(module.operation) == []
