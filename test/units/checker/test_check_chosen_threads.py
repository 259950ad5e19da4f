"""Threads that a condition on a number of theirs and one that all have chooses: of t = n there is one, of 0 <= t - n < 2 there are two;
and those that stay in a loop that others have left.

Covers: checker/effects.py, checker/conflicts.py, checker/overlap.py, checker/partings.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

KERNEL = """
func.func @f(%b: memref<64xf32>, %n: index) attributes {{gpu.kernel, known_block_size = array<i32: {threads}, 1, 1>}} {{
  %t = gpu.thread_id x
  %one = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %s = memref.alloc() : memref<64xf32, 3>
  {body}
  return
}}"""
STORE = "memref.store %one, %b[%c0] : memref<64xf32>"
ADD = """%x = memref.load %b[%c0] : memref<64xf32>
memref.store %x, %b[%c0] : memref<64xf32>"""


def if_(*conditions: str, then: str = STORE) -> str:
    lines = [f"%p{n} = arith.cmpi {condition} : index" for n, condition in enumerate(conditions)]
    opened = [f"scf.if %p{n} {{" for n in range(len(conditions))]
    return "\n".join([*lines, *opened, then, "}" * len(conditions)])


def part(kept: str, place: str) -> str:
    there = "memref.store %one, %b[%place] : memref<64xf32>"
    made = f"%w = arith.divui %t, %c32 : index\n%place = arith.remui %t, {place} : index\n"
    return made + if_(kept, then=there)


# The right one, and one that races.
CHOSEN = {
    "one thread": (if_("eq, %t, %n"), if_("ule, %t, %n")),
    "adds": (if_("eq, %t, %n", then=ADD), if_("uge, %t, %n", then=ADD)),
    "two conditions": (
        if_("sle, %t, %n", "sge, %t, %n"),
        "%m = arith.addi %n, %c1 : index\n" + if_("sle, %t, %m", "sge, %t, %n"),
    ),
    "a warp": (part("eq, %w, %n", "%c32"), part("eq, %w, %n", "%c16")),
    "a sum": (
        "%i = arith.addi %t, %n : index\n" + if_("eq, %i, %c32"),
        "%h = arith.divui %t, %c2 : index\n%i = arith.addi %h, %n : index\n" + if_("eq, %i, %c2"),
    ),
}


def races(text: str, n: int, threads: int) -> bool:
    with new_context():
        given = [np.zeros(64, np.float32), n]
        return bool(machine.run(ir.Module.parse(text), None, given, threads=threads).races)


@pytest.mark.parametrize("name", CHOSEN)
def test_threads_that_one_number_chooses_are_told_from_others(name: str) -> None:
    right, wrong = (KERNEL.format(threads=64, body=body) for body in CHOSEN[name])
    found = check_text(right)
    assert not (found.unsafe or found.unknown) and not races(right, 1, 64)
    assert check_text(wrong).unsafe and races(wrong, 1, 64)


LOOP = """
  %c4 = arith.constant 4 : index
  %row = arith.divui %t, %c4 : index
  %first = arith.remui %t, %c4 : index
  %c5 = arith.constant 5 : index
  %begin = arith.muli %row, %c5 : index
  %end = arith.constant {end} : index
  cf.br ^next(%first : index)
^next(%c: index):
  %at = arith.addi %begin, %c : index
  memref.store %one, %s[%at] : memref<64xf32, 3>
  %more = arith.addi %c, %c4 : index
  %p = arith.cmpi slt, %more, %end : index
  cf.cond_br %p, ^next(%more : index), ^done
^done:"""


@pytest.mark.parametrize(("end", "safe"), [(5, True), (6, False), (4, True), (9, False)])
def test_only_threads_that_stay_in_a_loop_do_its_next_iteration(end: int, safe: bool) -> None:
    """Rows of 5 elements, 4 threads a row: element 4 is that of thread 0, and there is no thread for element 5."""
    text = KERNEL.format(threads=16, body=LOOP.format(end=end))
    found = check_text(text)
    assert not found.unknown
    assert bool(found.unsafe) != safe
    assert races(text, 0, 16) != safe
