"""Loops that threads, blocks or iterations around run unequally often: an access is certain only in iterations that are run.

Covers: checker/effects.py, checker/iterations.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text, machine_races, verdict
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

KERNEL = """
func.func @k(%A: memref<256xf32> {{llvm.noalias}})
    attributes {{gpu.known_block_size = array<i32: 6, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c9 = arith.constant 9 : index
  %z = arith.constant 0.0 : f32
  %t = gpu.thread_id x
  %s = memref.alloc() : memref<128xf32, 3>
  %third = arith.remui %t, %c3 : index
  %own = arith.muli %t, %c4 : index
  scf.for %i = {bounds} step %c1 {{
    %next = arith.addi %own, %i : index
    %v = memref.load %s[{place}] : memref<128xf32, 3>
  }}
  memref.store %z, %s[%t] : memref<128xf32, 3>
  return
}}
"""


@pytest.mark.parametrize(
    ("bounds", "place", "expected"),
    [
        # Thread 0 alone reads where others write, and has no iteration.
        ("%c1 to %t", "%own", "safe"),
        ("%c0 to %t", "%own", "unsafe"),
        # Threads 2 and 5 read s[8] and s[20].
        ("%c1 to %third", "%own", "safe"),
        ("%c0 to %third", "%own", "unsafe"),
        ("%third to %c2", "%own", "unsafe"),
        # All have an iteration, thread 0 its first at s[0].
        ("%third to %c3", "%own", "unsafe"),
        # Threads 2, 3, … read s[1], their first.
        ("%c1 to %t", "%i", "unsafe"),
        # Thread 1 reads s[4] at first; s[5] in an iteration that it has not.
        ("%c0 to %t", "%next", "unsafe"),
        # Nobody has an iteration.
        ("%c2 to %c2", "%own", "safe"),
        # Thread 0, with the longest loop, comes to s[4], which thread 4 writes.
        ("%t to %c9", "%next", "unsafe"),
    ],
)
def test_what_a_loop_of_each_thread_reads(bounds: str, place: str, expected: str) -> None:
    text = KERNEL.format(bounds=bounds, place=place)
    assert verdict(check_text(text).report) == expected
    assert bool(machine_races(text)) == (expected == "unsafe")


def test_an_iteration_that_some_threads_have_is_no_certain_race() -> None:
    """Thread t writes s[4 t] … s[5 t - 1]: no two threads of 6 meet, and no form says why."""
    text = KERNEL.format(bounds="%c0 to %t", place="%next").replace(
        "%v = memref.load %s[%next] :", "memref.store %z, %s[%next] :"
    )
    text = text.replace("memref.store %z, %s[%t] : memref<128xf32, 3>", "")
    checked = check_text(text)
    assert {code for code, _ in checked.unknown} == {"missing-barrier"}
    assert not checked.unsafe
    assert not machine_races(text)


BLOCKS = """
func.func @k(%A: memref<64xf32> {{llvm.noalias}}) attributes {{
    gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 2, 1, 1>}} {{
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %g = gpu.grid_dim x
  %z = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %end = arith.constant {end} : index
  scf.for %i = %b to %end step %g {{
    memref.store %z, %A[{place}] : memref<64xf32>
  }}
  return
}}
"""


@pytest.mark.parametrize(
    ("end", "place", "expected"),
    [(1, "%c0", "safe"), (2, "%c0", "unsafe"), (3, "%c0", "unsafe"), (3, "%i", "safe")],
)
def test_a_block_without_an_iteration_stores_nothing(end: int, place: str, expected: str) -> None:
    text = BLOCKS.format(end=end, place=place)
    assert verdict(check_text(text).report) == expected
    with new_context():
        module = ir.Module.parse(text)
        run = machine.run(module, "k", [np.zeros(64, np.float32)], grid=(2, 1, 1))
    assert run.race_codes == ({"cross-block"} if expected == "unsafe" else set())


STRIDED = """
module attributes {{gpu.container_module}} {{
  llvm.mlir.global internal @s() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<32 x f32>
  llvm.func @k(%x: !llvm.ptr<1> {{llvm.noalias}}, %y: !llvm.ptr<1> {{llvm.noalias}}, %n: i32) attributes {{
      gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>}} {{
    %c2 = llvm.mlir.constant(2 : i32) : i32
    %mask = llvm.mlir.constant(28 : i32) : i32
    %step = llvm.mlir.constant({step} : i32) : i32
    %z = llvm.mlir.constant(1.0 : f32) : f32
    %s = llvm.mlir.addressof @s : !llvm.ptr<3>
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %none = llvm.icmp "sge" %t, %n : i32
    llvm.cond_br %none, ^done, ^again(%t : i32)
  ^again(%i: i32):
    %four = llvm.shl %i, %c2 : i32
    %byte = llvm.and %four, %mask : i32
    %at = llvm.getelementptr %s[%byte] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
    llvm.store %z, %at : f32, !llvm.ptr<3>
    %next = llvm.add %i, %step : i32
    %more = llvm.icmp "slt" %next, %n : i32
    llvm.cond_br %more, ^again(%next : i32), ^done
  ^done:
    {barrier}
    %other = llvm.xor %t, %c2 : i32
    %to = llvm.getelementptr %s[%other] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %v = llvm.load %to : !llvm.ptr<3> -> f32
    %out = llvm.getelementptr %y[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    llvm.store %v, %out : f32, !llvm.ptr<1>
    llvm.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("step", "barrier", "expected"),
    [
        (8, "nvvm.barrier", "safe"),
        (16, "nvvm.barrier", "safe"),
        # Thread 4 stores where thread 0 does in its second iteration.
        (4, "nvvm.barrier", "unsafe"),
        (9, "nvvm.barrier", "unsafe"),
        (8, "", "unsafe"),
    ],
)
def test_for_i_from_t_in_steps_of_the_block_stores_to_a_ring(step, barrier, expected) -> None:
    """for (i = t; i < n; i += 8) s[i & 7] = …: the form that compilers leave it in, for every n, whether or not i wraps."""
    text = STRIDED.format(step=step, barrier=barrier)
    assert verdict(check_text(text).report) == expected
    with new_context():
        arrays = [np.zeros(8, np.float32), np.zeros(8, np.float32)]
        run = machine.run(ir.Module.parse(text), "k", [*arrays, np.int32(30)])
    assert bool(run.race_codes) == (expected == "unsafe")
