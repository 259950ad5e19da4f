"""cp.async that complete on mbarriers: an arrival comes when the copies of its thread are over, one more of the phase or one that it
counts. Loops that ask for a phase until it is over wait for it.

Covers: checker/kernel.py, checker/poll_loops.py, checker/phases/block_memory.py, checker/phases/mbarrier_state.py,
checker/phases/followed_kernel.py, machine/dialects/mbarriers.py, machine/barrier_phases.py, machine/fifos.py, vocabulary/mbarrier_ops.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.machine_programs import parse
from mlir_async_pipe import check, machine

POINTER = "!llvm.ptr<3>"


def polled(leave: str = "%over", *, between: str = "", after: str = "%c0") -> str:
    """A wait as libcu++ writes it: asked sixteen times, then with a look at a clock; `leave` decides, `after` is left."""
    return f"""
  llvm.br ^ask(%c0 : i32)
^ask(%k: i32):
  %over = nvvm.mbarrier.test.wait %full, %state : {POINTER}, i64 -> i1
  %k1 = arith.addi %k, %c1 : i32
  %left = arith.cmpi sge, %k, %c16 : i32
  %either = arith.ori %over, %left : i1
  llvm.cond_br {leave}, ^over({after} : i32), ^again
^again:
  {between}
  %many = arith.cmpi slt, %k, %c16 : i32
  llvm.cond_br %many, ^count, ^look
^look:
  %now = nvvm.read.ptx.sreg.globaltimer : i64
  %soon = arith.cmpi slt, %now, %time : i64
  llvm.cond_br %soon, ^ask(%k : i32), ^sleep
^sleep:
  llvm.br ^ask(%k : i32)
^count:
  llvm.br ^ask(%k1 : i32)
^over(%asked: i32):"""


def together(
    wait: str | None = None,
    *,
    arrive_after: str = f"nvvm.cp.async.mbarrier.arrive %full : {POINTER}",
    arrivals: int = 128,
    place: str = "%t16",
    last: str = "nvvm.barrier",
    used: str = "%zero32",
) -> str:
    """Each of 128 threads copies 16 bytes, and reads those of its neighbour when all copies of the tile are over."""
    return f"""
llvm.mlir.global internal @tile() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<2048 x i8>
llvm.mlir.global internal @full() {{addr_space = 3 : i32, alignment = 8 : i64}} : !llvm.array<8 x i8>
llvm.func @k(%a: !llvm.ptr<1> {{llvm.noalias}}, %out: !llvm.ptr<1> {{llvm.noalias}}, %n: i32) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>}} {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %c2048 = arith.constant 2048 : i32
  %zero32 = arith.constant 0 : i32
  %time = arith.constant 4000 : i64
  %count = arith.constant {arrivals} : i32
  %zero = arith.constant 0.0 : f32
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %tile = llvm.mlir.addressof @tile : {POINTER}
  %full = llvm.mlir.addressof @full : {POINTER}
  %first = arith.cmpi eq, %t, %c0 : i32
  llvm.cond_br %first, ^init, ^ready
^init:
  nvvm.mbarrier.init %full, %count : {POINTER}, i32
  llvm.br ^ready
^ready:
  nvvm.barrier
  %t16 = arith.muli %t, %c16 : i32
  %other = arith.xori %t16, %c16 : i32
  %some = arith.cmpi sgt, %n, %c0 : i32
  llvm.cond_br %some, ^loop(%c0, %zero : i32, f32), ^end(%zero : f32)
^loop(%i: i32, %sum: f32):
  %at = arith.muli %i, %c2048 : i32
  %from = arith.addi %at, %t16 : i32
  %source = llvm.getelementptr %a[%from] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
  %to = llvm.getelementptr %tile[{place}] : ({POINTER}, i32) -> {POINTER}, i8
  nvvm.cp.async.shared.global %to, %source, 16, cache = cg : {POINTER}, !llvm.ptr<1>
  {arrive_after}
  %state = nvvm.mbarrier.arrive %full : {POINTER} -> i64
  {polled() if wait is None else wait}
  %theirs = llvm.getelementptr %tile[%other] : ({POINTER}, i32) -> {POINTER}, i8
  %more = llvm.getelementptr %theirs[{used}] : ({POINTER}, i32) -> {POINTER}, i8
  %value = llvm.load %more : {POINTER} -> f32
  %next = arith.addf %sum, %value : f32
  {last}
  %i1 = arith.addi %i, %c1 : i32
  %goes = arith.cmpi slt, %i1, %n : i32
  llvm.cond_br %goes, ^loop(%i1, %next : i32, f32), ^end(%next : f32)
^end(%all: f32):
  %where = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  llvm.store %all, %where : f32, !llvm.ptr<1>
  llvm.return
}}"""


def verdict(text: str, **promises: Any) -> tuple[str, set[str]]:
    report = check(parse(text), "nvvm:sm_90a", assume_no_overflow=True, **promises)
    (summary,) = report.of("checks")
    codes = {d.code for d in report.diagnostics if d.severity == "error"}
    return "unsafe" if summary.unsafe else "unknown" if summary.unknown else "proven", codes


def run(text: str, trips: int, completion: str = "late") -> tuple[set[str], np.ndarray]:
    tiles = np.arange(trips * 512, dtype=np.float32) % 11
    arguments = [tiles, np.zeros(128, np.float32), trips]
    result = machine.run(parse(text), None, arguments, completion=completion)
    return set(result.race_codes), result.arrays[1]


@pytest.mark.parametrize("completion", ["eager", "late", "random:1", "random:2"])
def test_all_threads_copy_and_wait(completion: str) -> None:
    assert verdict(together()) == ("proven", set())
    races, sums = run(together(), 4, completion)
    tiles = (np.arange(4 * 512, dtype=np.float32) % 11).reshape(4, 128, 4)[:, :, 0]
    assert races == set()
    assert (sums == tiles.sum(0)[np.arange(128) ^ 1]).all()


COUNTED = f"nvvm.cp.async.mbarrier.arrive %full {{noinc = true}} : {POINTER}"


def test_a_phase_that_counts_them_has_twice_as_many_arrivals() -> None:
    assert verdict(together(arrive_after=COUNTED, arrivals=256)) == ("proven", set())
    assert run(together(arrive_after=COUNTED, arrivals=256), 3)[0] == set()
    assert verdict(together(arrive_after=COUNTED))[1] == {"too-many-arrivals"}
    assert run(together(arrive_after=COUNTED), 3)[0]


WRONG = {
    "nobody says when the copies are over": {"arrive_after": ""},
    "they overwrite what others still read": {"last": ""},
    "more arrivals than come": {"arrivals": 129},
    "all copy to one place": {"place": "%zero32"},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not_proven_and_shows(name: str) -> None:
    text = together(**WRONG[name])  # type: ignore[arg-type]
    assert verdict(text)[0] != "proven"
    assert run(text, 4)[0]


LOOPS = {
    "it gives up after sixteen questions": polled("%either"),
    "it stores between the questions": polled(between=f"llvm.store %zero, %tile : f32, {POINTER}"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_does_more_than_ask_is_no_wait(name: str) -> None:
    assert verdict(together(LOOPS[name]))[0] != "proven"


def test_how_often_it_asked_may_not_be_used() -> None:
    """The proof goes on as if the first answer were yes: what was counted is another number in each run."""
    counted = polled(after="%k1")
    assert verdict(together(counted, used="%asked"))[0] != "proven"


def roles(
    *, full: str = "%full[%so]", wait: bool = True, gives: bool = True, order: str = ""
) -> str:
    """Two warps copy tiles of a ring of two, and arrive when their copies are over; the others read."""
    waits = f"nvvm.mbarrier.try_wait.parity %f, %p, %ticks : {POINTER}, i32, i32"
    back = f"%st = nvvm.mbarrier.arrive %e : {POINTER} -> i64"
    return f"""
llvm.mlir.global internal @full() {{addr_space = 3 : i32, alignment = 8 : i64}} : !llvm.array<16 x i8>
llvm.mlir.global internal @empty() {{addr_space = 3 : i32, alignment = 8 : i64}} : !llvm.array<16 x i8>
llvm.mlir.global internal @tile() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<2048 x i8>
llvm.func @k(%a: !llvm.ptr<1> {{llvm.noalias}}, %out: !llvm.ptr<1> {{llvm.noalias}}, %n: i32) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>}} {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  %c16 = arith.constant 16 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %c1024 = arith.constant 1024 : i32
  %ticks = arith.constant 1000000 : i32
  %zero = arith.constant 0.0 : f32
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %full = llvm.mlir.addressof @full : {POINTER}
  %empty = llvm.mlir.addressof @empty : {POINTER}
  %tile = llvm.mlir.addressof @tile : {POINTER}
  %full1 = llvm.getelementptr %full[8] : ({POINTER}) -> {POINTER}, i8
  %empty1 = llvm.getelementptr %empty[8] : ({POINTER}) -> {POINTER}, i8
  %first = arith.cmpi eq, %t, %c0 : i32
  scf.if %first {{
    nvvm.mbarrier.init %full, %c64 : {POINTER}, i32
    nvvm.mbarrier.init %full1, %c64 : {POINTER}, i32
    nvvm.mbarrier.init %empty, %c64 : {POINTER}, i32
    nvvm.mbarrier.init %empty1, %c64 : {POINTER}, i32
  }}
  nvvm.barrier
  %t16 = arith.muli %t, %c16 : i32
  %copies = arith.cmpi ult, %t, %c64 : i32
  scf.if %copies {{
    scf.for %i = %c0 to %n step %c1 : i32 {{
      %s = arith.andi %i, %c1 : i32
      %h = arith.shrui %i, %c1 : i32
      %p = arith.andi %h, %c1 : i32
      %q = arith.xori %p, %c1 : i32
      %so = arith.muli %s, %c8 : i32
      %e = llvm.getelementptr %empty[%so] : ({POINTER}, i32) -> {POINTER}, i8
      nvvm.mbarrier.try_wait.parity %e, %q, %ticks : {POINTER}, i32, i32
      %b = arith.muli %s, %c1024 : i32
      %at = arith.addi %b, %t16 : i32
      %to = llvm.getelementptr %tile[%at] : ({POINTER}, i32) -> {POINTER}, i8
      %i1024 = arith.muli %i, %c1024 : i32
      %from = arith.addi %i1024, %t16 : i32
      %source = llvm.getelementptr %a[%from] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
      nvvm.cp.async.shared.global %to, %source, 16, cache = cg : {POINTER}, !llvm.ptr<1>
      {order}
      %f = llvm.getelementptr {full} : ({POINTER}, i32) -> {POINTER}, i8
      nvvm.cp.async.mbarrier.arrive %f {{noinc = true}} : {POINTER}
    }}
  }} else {{
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 : i32 {{
      %s = arith.andi %i, %c1 : i32
      %h = arith.shrui %i, %c1 : i32
      %p = arith.andi %h, %c1 : i32
      %so = arith.muli %s, %c8 : i32
      %f = llvm.getelementptr %full[%so] : ({POINTER}, i32) -> {POINTER}, i8
      {waits if wait else ""}
      %b = arith.muli %s, %c1024 : i32
      %t1 = arith.addi %t, %c1 : i32
      %m = arith.andi %t1, %c63 : i32
      %m16 = arith.muli %m, %c16 : i32
      %at = arith.addi %b, %m16 : i32
      %x = llvm.getelementptr %tile[%at] : ({POINTER}, i32) -> {POINTER}, i8
      %v = llvm.load %x : {POINTER} -> f32
      %e = llvm.getelementptr %empty[%so] : ({POINTER}, i32) -> {POINTER}, i8
      {back if gives else ""}
      %next = arith.addf %acc, %v : f32
      scf.yield %next : f32
    }}
    %o = arith.subi %t, %c64 : i32
    %where = llvm.getelementptr %out[%o] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    llvm.store %sum, %where : f32, !llvm.ptr<1>
  }}
  llvm.return
}}"""


@pytest.mark.parametrize("completion", ["eager", "late", "random:5"])
def test_one_group_copies_for_the_other(completion: str) -> None:
    assert verdict(roles()) == ("proven", set())
    races, sums = run(roles(), 6, completion)
    tiles = (np.arange(6 * 512, dtype=np.float32) % 11)[: 6 * 256].reshape(6, 64, 4)[:, :, 0]
    assert races == set()
    assert (sums[:64] == tiles.sum(0)[(np.arange(64) + 1) % 64]).all()


BROKEN = {
    "nobody waits": {"wait": False},
    "nobody gives slots back": {"gives": False},
    "it arrives at one slot only": {"full": "%full[%c0]"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_ring_of_copies_is_not_proven_and_shows(name: str) -> None:
    text = roles(**BROKEN[name])  # type: ignore[arg-type]
    assert verdict(text)[0] != "proven"
    assert run(text, 6)[0]


def test_groups_beside_mbarriers_are_not_followed() -> None:
    """A wait for groups ends copies that an arrival tells of, too; that is not followed, and nothing is claimed."""
    order = "nvvm.cp.async.commit.group\n      nvvm.cp.async.wait.group 0"
    found, codes = verdict(roles(order=order))
    assert (found, codes) == ("unknown", set())
