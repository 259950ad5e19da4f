"""Pointers that loops move on: by a number, by what is the same in each iteration, or sometimes.

Covers: checker/iterations.py, checker/kernel_flow.py, checker/explore.py, checker/forms.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse

RING = "!llvm.array<3 x array<64 x f32>>"


def kernel(move: str, *, wait: int = 1, store: str = "", trips: str = "%n") -> str:
    """A ring of three, whose copies read through a pointer that each iteration moves on as `move` says."""
    return f"""
llvm.mlir.global external @ring() {{addr_space = 3 : i32, alignment = 16 : i64}} : {RING}
llvm.func @f(%from: !llvm.ptr<1> {{llvm.noalias}}, %to: !llvm.ptr<1> {{llvm.noalias}}, %n: i32, %row: i32)
    attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 64>}} {{
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %c3 = llvm.mlir.constant(3 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 64> : i32
  %ring = llvm.mlir.addressof @ring : !llvm.ptr<3>
  %start = llvm.getelementptr %from[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %end = llvm.getelementptr %to[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %last = llvm.sub %row, %c3 : i32
  %c31 = llvm.mlir.constant(31 : i32) : i32
  %c32 = llvm.mlir.constant(32 : i32) : i32
  %up = llvm.add %n, %c31 : i32
  %tiles = llvm.sdiv %up, %c32 : i32
  llvm.br ^head(%c0, %start, %end : i32, !llvm.ptr<1>, !llvm.ptr<1>)
^head(%k: i32, %p: !llvm.ptr<1>, %q: !llvm.ptr<1>):
  %more = llvm.icmp "slt" %k, {trips} : i32
  llvm.cond_br %more, ^body, ^out
^body:
  %fill = llvm.srem %k, %c3 : i32
  %slot = llvm.getelementptr %ring[0, %fill, %tid] : (!llvm.ptr<3>, i32, i32) -> !llvm.ptr<3>, {RING}
  nvvm.cp.async.shared.global %slot, %p, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group {wait}
  nvvm.barrier
  %first = llvm.icmp "sgt" %k, %c0 : i32
  llvm.cond_br %first, ^use, ^next
^use:
  %before = llvm.sub %k, %c1 : i32
  %read = llvm.srem %before, %c3 : i32
  %tile = llvm.getelementptr %ring[0, %read, %tid] : (!llvm.ptr<3>, i32, i32) -> !llvm.ptr<3>, {RING}
  %x = llvm.load %tile : !llvm.ptr<3> -> f32
  {store}
  llvm.br ^next
^next:
  nvvm.barrier
  {move}
  %below = llvm.getelementptr %q[64] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  %k1 = llvm.add %k, %c1 : i32
  llvm.br ^head(%k1, %moved, %below : i32, !llvm.ptr<1>, !llvm.ptr<1>)
^out:
  llvm.return
}}"""


MOVES = {
    "a number": "%moved = llvm.getelementptr %p[64] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32",
    "a row": "%moved = llvm.getelementptr %p[%row] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32",
    "not in the end": """%on = llvm.getelementptr %p[64] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  %some = llvm.icmp "slt" %k, %last : i32
  %moved = llvm.select %some, %on, %p : i1, !llvm.ptr<1>""",
    "what is loaded": """%step = llvm.load %p : !llvm.ptr<1> -> i32
  %moved = llvm.getelementptr %p[%step] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32""",
}


@pytest.mark.parametrize("move", MOVES)
def test_the_ring_is_proven_however_its_pointer_moves(move: str) -> None:
    found = check_module(parse(kernel(MOVES[move])))
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("move", MOVES)
def test_a_weaker_wait_is_found_however_its_pointer_moves(move: str) -> None:
    found = check_module(parse(kernel(MOVES[move], wait=2)))
    assert {code for code, _ in found.unsafe} == {"read-in-flight"}


@pytest.mark.parametrize("place, right", [("%q", True), ("%to", False)])
def test_threads_store_through_pointers_of_their_own(place: str, right: bool) -> None:
    text = kernel(MOVES["a number"], store=f"llvm.store %x, {place} : f32, !llvm.ptr<1>")
    found = check_module(parse(text))
    assert bool(found.unsafe) is not right and not found.unknown


@pytest.mark.parametrize("wait", [1, 2])
def test_a_size_may_give_any_number_of_tiles(wait: int) -> None:
    """(n + 31) / 32 is no form where the sign of n is not known, but n alone decides it."""
    found = check_module(parse(kernel(MOVES["a number"], wait=wait, trips="%tiles")))
    assert not found.unknown and bool(found.unsafe) is (wait == 2)


def test_a_size_that_decides_more_leaves_it_open() -> None:
    """Where n decides on another way, too, a path may have a number of tiles that its n has not."""
    move = MOVES["not in the end"].replace('"slt" %k, %last', '"slt" %k, %n')
    found = check_module(parse(kernel(move, wait=2, trips="%tiles")))
    assert not found.unsafe and {code for code, _ in found.unknown} == {"read-in-flight"}


def test_a_size_in_huge_tiles_gives_too_few_of_them() -> None:
    """n / 2^30 is 1 at most: no path runs three iterations, and no error is one of them."""
    text = kernel(MOVES["a number"], wait=2, trips="%tiles")
    text = text.replace("llvm.mlir.constant(32 : i32)", "llvm.mlir.constant(1073741824 : i32)")
    found = check_module(parse(text))
    assert not found.unsafe
