"""Accesses outside of a loop that only its barriers order stay ordered; where nothing needs that, no barrier is written.

Covers: pipeliner/plan/barrier_pairs.py, pipeliner/dependence/surroundings.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.vocabulary import queue_of
from mlir_async_pipe.vocabulary.rows import WGMMA

KERNEL = """
#wg = #gpu.address_space<workgroup>
func.func @f(%A: memref<9x4xf32> {llvm.noalias}, %O: memref<8x4xf32> {llvm.noalias}, %P: memref<8x4xf32> {llvm.noalias},
             %Q: memref<8x4xf32> {llvm.noalias}, %F: memref<1xi32> {llvm.noalias})
    attributes {known_block_size = array<i32: 4, 1, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %own = memref.alloca() : memref<8x4xf32>
  %one = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %c8 = arith.constant 8 : index
  %c9 = arith.constant 9 : index
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
  AROUND {
  BEFORE
  %total = scf.for %i = %c0 to %c9 step %c1 iter_args(%acc = %zero) -> f32 {
    %copy = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1 : memref<9x4xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier FENCE
    %v = memref.load %B[PLACE] : memref<4xf32, #wg>
    %sum = arith.addf %v, %acc : f32
    gpu.barrier FENCE
    scf.yield %sum : f32
  } {async_pipe.num_stages = 3 : i64}
  AFTER
  }
  return
}
"""
ONCE, AGAIN = "scf.execute_region", "scf.for %k = %c0 to %c8 step %c1"
STORE = "memref.store %zero, %O[%c0, %t] : memref<8x4xf32>"
LOAD = """%r = memref.load %O[%c0, %other] : memref<8x4xf32>
  memref.store %r, %P[%c0, %t] : memref<8x4xf32>"""
# In each round another thread stores to the same place.
STORE_IN_TURN = """%turn = arith.addi %t, %k : index
  %at = arith.remui %turn, %c4 : index
  memref.store %acc_of, %O[%c0, %at] : memref<8x4xf32>"""
# What another thread stored two rounds ago.
STORE_OF_ROUND = "memref.store %zero, %O[%k, %t] : memref<8x4xf32>"
LOAD_LATER = """%later = arith.addi %k, %c6 : index
  %row = arith.remui %later, %c8 : index
  %r = memref.load %O[%row, %other] : memref<8x4xf32>
  memref.store %r, %P[%k, %t] : memref<8x4xf32>"""
RELEASE = """%first = arith.cmpi eq, %t, %c0 : index
  scf.if %first {
    memref.atomic_rmw addi %one, %F[%c0] : (i32, memref<1xi32>) -> i32
  }"""

ORDERED = {
    "store, loop, load": (ONCE, STORE, LOAD),
    "load, loop, store": (ONCE, LOAD, STORE),
    "the same in each round": (AGAIN, STORE, LOAD + "\n  gpu.barrier"),
    "round after round": (AGAIN, "", STORE_IN_TURN.replace("acc_of", "total")),
    "round after round, before it": (AGAIN, STORE_IN_TURN.replace("acc_of", "zero"), ""),
    "two rounds later": (AGAIN, LOAD_LATER, STORE_OF_ROUND),
}
READ = "%seen = memref.load %O[%c0, %other] : memref<8x4xf32>"
OF_TILES = "gpu.barrier memfence [#gpu.address_space<workgroup>]"
# What the loop reads, in the same round and in the next one; a barrier that orders other memory stands in between or not.
READ_IN_LOOP = {
    "store, read": (ONCE, STORE, ""),
    "read, store": (ONCE, "", STORE),
    "read, other barrier, store": (ONCE, "", f"{OF_TILES}\n  {STORE}"),
    "store, read in the next round": (AGAIN, "", STORE),
    "read, store in the next round": (AGAIN, f"{STORE}\n  {OF_TILES}", ""),
}
# A copy from before the loop, for which only the loop waits; no barrier before its wait orders what it does.
COPIED = """%early = nvgpu.device_async_copy %A[%c0, %t], %W[%t], 1 : memref<9x4xf32> to memref<4xf32, #wg>
  %first = nvgpu.device_async_create_group %early"""
ONE_LEFT = "nvgpu.device_async_wait %first {numGroups = 1 : i32}"
FROM_COPIED = "%w = memref.load %W[AT] : memref<4xf32, #wg>"
FREE = {
    "nothing": (ONCE, "", ""),
    "other memory": (ONCE, STORE, LOAD.replace("%O", "%Q")),
    "loads": (ONCE, LOAD, LOAD.replace("%r", "%s").replace("%P", "%Q")),
    "memory of each thread": (
        *(ONCE, STORE.replace("%O", "%own"), LOAD.replace("%O[%c0, %other]", "%own[%c0, %t]")),
    ),
    "straight code after its own barrier": (ONCE, STORE + "\n  gpu.barrier", LOAD),
    "rounds with a barrier of their own": (
        *(AGAIN, "gpu.barrier", STORE_IN_TURN.replace("acc_of", "total")),
    ),
}


def text_of(case: tuple[str, str, str], place: str, fence: str = "") -> str:
    around, before, after = case
    text = KERNEL.replace("AROUND", around).replace("BEFORE", before)
    text = text.replace("AFTER", after + ("\n  scf.yield" if around == ONCE else ""))
    return text.replace("PLACE", place).replace("FENCE", fence)


def pipelined(text: str) -> tuple[ir.Module, list[str]]:
    """The result, and the memory that its barriers order, "" for all."""
    module = ir.Module.parse(text)
    pipeline(module, target="nvvm:sm_80", check="none")
    found = re.findall(r"gpu.barrier(?: memfence \[#gpu.address_space<(.*)>\])?", str(module))
    return module, found


def races(module: ir.Module) -> bool:
    given = np.arange(36, dtype=np.float32).reshape(9, 4)
    arrays = [np.full((8, 4), n, np.float32) for n in (2, 3, 4)]
    arguments = [given, *arrays, np.zeros(1, np.int32)]
    return any(
        machine.run(module, "f", arguments, threads=4, completion=order).races
        for order in ("late", "eager")
    )


def stays_ordered(text: str) -> None:
    """By barriers for global memory, without which the result races."""
    with new_context():
        assert not races(ir.Module.parse(text))
        module, fences = pipelined(text)
        assert "global" in str(fences) and not races(module)
        for op in walk(module.operation):
            if op.name == "gpu.barrier" and "global" in str(op):
                op.erase()
        assert races(module)


# Whether the loop's own barriers are needed for what it does itself.
PLACES = ("%other", "%t")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ORDERED)
def test_what_only_the_loops_barriers_ordered_stays_ordered(name: str, place: str) -> None:
    stays_ordered(text_of(ORDERED[name], place))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", READ_IN_LOOP)
def test_what_the_loop_reads_stays_ordered(name: str, place: str) -> None:
    text = text_of(READ_IN_LOOP[name], place).replace("%sum =", f"{READ}\n    %sum =")
    stays_ordered(text)


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("before", ["", "\n  gpu.barrier"])
def test_a_wait_of_the_loop_is_one_for_what_was_copied_before(
    before: str, place: str, at: str
) -> None:
    text = text_of((ONCE, COPIED + before, ""), place)
    # Before the load of the tile, for which the pipeline waits anyway.
    text = text.replace("%v = memref.load", f"{FROM_COPIED}\n    %v = memref.load")
    text = text.replace("%B =", "%W = memref.alloc() : memref<4xf32, #wg>\n  %B =").replace(
        "AT", at
    )
    with new_context():
        assert not races(ir.Module.parse(text))
        module, _ = pipelined(text)
        assert not races(module)


@pytest.mark.parametrize(
    ("wait", "left"), [("", 2), ("nvgpu.device_async_wait %first", 0), (ONE_LEFT, 2)]
)
def test_a_copy_that_was_waited_for_is_not_in_flight(wait: str, left: int) -> None:
    """What it reads and what it writes; a wait that may leave it does not count."""
    text = text_of((ONCE, f"{COPIED}\n{wait}", ""), "%t")
    text = text.replace("%B =", "%W = memref.alloc() : memref<4xf32, #wg>\n  %B =")
    with new_context():
        module = ir.Module.parse(text)
        ops = list(walk(module.operation))
        copy = next(op for op in ops if op.name == "nvgpu.device_async_copy")
        loop = next(op for op in ops if op.name == "scf.for")
        assert len(Surroundings().queued_before(loop, queue_of(copy))) == left
        assert Surroundings().queued_before(loop, WGMMA) == []


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FREE)
def test_no_barrier_is_written_for_nothing(name: str, place: str) -> None:
    case = FREE[name]
    with new_context():
        module, fences = pipelined(text_of(case, place))
        written = [fence for fence in fences if fence]
        assert set(written) <= {"workgroup"} and (place == "%t" or written)
        assert len(fences) - len(written) == "".join(case[1:]).count("gpu.barrier")
        assert not races(module)


def test_barriers_that_do_not_order_global_memory_are_no_reason() -> None:
    case, fence = ORDERED["store, loop, load"], "memfence [#gpu.address_space<workgroup>]"
    with new_context():
        _, fences = pipelined(text_of(case, "%other", fence))
        assert set(fences) == {"workgroup"}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_stored_before_is_over_when_a_flag_is_released_after(place: str) -> None:
    with new_context():
        _, fences = pipelined(text_of((ONCE, STORE, RELEASE), place))
        assert "global" in fences[-1]
        _, fences = pipelined(text_of((ONCE, "", RELEASE), place))
        assert "global" not in fences
