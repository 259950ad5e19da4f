"""Loops whose step is not known: what earlier iterations touched is at least 1 behind, and before the end.

Covers: checker/iterations.py, checker/state.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

KERNEL = """
func.func @f(%C: memref<4096xf32> {{llvm.noalias}}, %low: index, %n: index, %step: index)
    attributes {{gpu.known_block_size = array<i32: 8, 1, 1>}} {{
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %t = gpu.thread_id x
  %w = memref.alloc() : memref<8xf32, 3>
  scf.for %i = %low to %n step %step {{
    memref.store %zero, %w[%t] : memref<8xf32, 3>
    gpu.barrier memfence [#gpu.address_space<workgroup>]
    %row = arith.muli %i, {wide} : index
    %at = arith.addi %row, %t : index
    memref.store %zero, %C[%at] : memref<4096xf32>
    gpu.barrier memfence [#gpu.address_space<workgroup>]
  }}
  {after}
  return
}}
"""
AT_END = """%last = arith.muli %n, %c16 : index
  %mirrored = arith.subi %c7, %t : index
  %behind = arith.addi %last, %mirrored : index
  memref.store %zero, %C[%behind] : memref<4096xf32>"""
ONE_BEFORE = "%before = arith.subi %n, %c1 : index\n" + AT_END.replace("%n,", "%before,")
MAPPED = """%behind = affine.apply affine_map<(i, s, t) -> ((i + s) * 16 + t)>(%n, %step, %t)
  memref.store %zero, %C[%behind] : memref<4096xf32>"""
TURNED = """%sum = arith.addi %t, %o : index
    %turned = arith.remui %sum, %c8 : index
    %row ="""
OUTER = "scf.for %o = %low to %n step %c1 {\n  scf.for %i"


def races(text: str) -> bool:
    with new_context():
        module = ir.Module.parse(text)
        arguments = [np.zeros(4096, np.float32), 0, 9, 1]
        return bool(machine.run(module, "f", arguments, threads=8).races)


@pytest.mark.parametrize(
    "after", ["", AT_END, MAPPED], ids=["loop", "at the end", "a step after it"]
)
def test_iterations_with_places_of_their_own_are_apart_whatever_the_step(after: str) -> None:
    text = KERNEL.format(wide="%c16", after=after)
    checked = check_text(text)
    assert not checked.unsafe and not checked.unknown
    assert not races(text)


@pytest.mark.parametrize(
    ("wide", "after"), [("%c4", ""), ("%c16", ONE_BEFORE)], ids=["narrow rows", "before the end"]
)
def test_places_that_iterations_share_for_some_step_are_reported(wide: str, after: str) -> None:
    """With a step of 1 they race, with others they need not."""
    text = KERNEL.format(wide=wide, after=after)
    checked = check_text(text)
    assert checked.unknown and not checked.unsafe
    assert races(text)


def test_a_second_execution_of_the_loop_has_the_same_places() -> None:
    """By another thread in each: thread t stores in row i at (t + o) mod 8."""
    text = KERNEL.format(wide="%c16", after="}").replace("scf.for %i", OUTER, 1)
    text = text.replace("addi %row, %t :", "addi %row, %turned :").replace("%row =", TURNED, 1)
    checked = check_text(text)
    assert checked.unknown or checked.unsafe
    assert races(text)
