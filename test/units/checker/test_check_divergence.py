"""Threads that go different ways at a branch: both sides run, up to the same barrier.

Each kernel has 64 threads, two warps; the machine runs the same text. Where nothing but the
threads decides who goes where, the checker tells which accesses of two sides meet.

Covers: checker/partings.py, facts/flow/algorithms.py, checker/thread_divergence.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text, machine_races, verdict
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

TARGET = "nvvm:sm_80"
KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %n: index) workgroup(%s: memref<128xf32, 3>, %q: memref<64xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %lane = arith.remui %t, %c32 : index
    %warp = arith.divui %t, %c32 : index
    %far = arith.addi %lane, %c64 : index
    %first = arith.cmpi eq, %warp, %c0 : index
    %even = arith.remui %n, %c2 : index
    %same = arith.cmpi eq, %even, %c0 : index
    %small = arith.cmpi ult, %n, %c2 : index
    %p = nvgpu.device_async_copy %A[%t], %q[%t], 1 : memref<64xf32> to memref<64xf32, 3>
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    {body}
  }}
}}
"""
STORE = "memref.store %zero, %s[%lane] : memref<128xf32, 3>"
NEAR = "%x = memref.load %s[%lane] : memref<128xf32, 3>"
FAR = "%x = memref.load %s[%far] : memref<128xf32, 3>"
COPY = """%a = nvgpu.device_async_copy %A[%lane], %s[%lane], 1 : memref<64xf32> to memref<128xf32, 3>
nvvm.cp.async.commit.group
nvvm.cp.async.wait.group 0"""


def branch(then: str, otherwise: str, condition: str = "%first") -> str:
    return f"scf.if {condition} {{ {then} }} else {{ {otherwise} }}\ngpu.return"


def jump(then: str, otherwise: str, condition: str = "%first") -> str:
    return f"""cf.cond_br {condition}, ^one, ^two
^one:
  {then}
  cf.br ^join
^two:
  {otherwise}
  cf.br ^join
^join:
  gpu.return"""


def switch(then: str, otherwise: str) -> str:
    return f"""scf.index_switch %warp case 0 {{ {then} scf.yield }} default {{ {otherwise} scf.yield }}
gpu.return"""


def verdicts(body: str) -> tuple[str, frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    text = KERNEL.format(body=body)
    checked = check_text(text, TARGET)
    return text, checked.unsafe, checked.unknown


@pytest.mark.parametrize("form", [branch, jump, switch])
@pytest.mark.parametrize("write", [STORE, COPY])
def test_both_sides_of_a_branch_on_the_warp_race(form, write: str) -> None:
    text, unsafe, unknown = verdicts(form(write, NEAR))
    assert {code for code, _ in unsafe} == {"missing-barrier"}
    assert not unknown
    races = machine_races(text, TARGET, trips=[0])
    assert {code for code, _ in races} & {"missing-barrier", "not-visible", "read-in-flight"}


@pytest.mark.parametrize("form", [branch, jump, switch])
@pytest.mark.parametrize("write", [STORE, COPY])
def test_sides_that_touch_other_places_are_safe(form, write: str) -> None:
    text, unsafe, unknown = verdicts(form(write, FAR))
    assert (unsafe, unknown) == (frozenset(), frozenset())
    assert not machine_races(text, TARGET, trips=[0])


@pytest.mark.parametrize("form", [branch, jump])
def test_a_branch_that_all_threads_take_alike_has_one_side(form) -> None:
    own = STORE.replace("%lane", "%t")
    text, unsafe, unknown = verdicts(form(own, NEAR, "%same"))
    assert (unsafe, unknown) == (frozenset(), frozenset())
    assert not machine_races(text, TARGET, trips=[0, 1])


def test_what_is_done_after_the_join_and_a_barrier_is_another_interval() -> None:
    text, unsafe, unknown = verdicts(
        f"scf.if %first {{ {STORE} }} else {{ {FAR} }}\ngpu.barrier\n{NEAR.replace('%x', '%y')}\n"
        "gpu.return"
    )
    assert (unsafe, unknown) == (frozenset(), frozenset())
    assert not machine_races(text, TARGET, trips=[0])


def test_conditions_that_exclude_each_other_inside_the_sides_are_undecided() -> None:
    """One side writes where n < 2, the other one reads where not: they never both run."""
    then = f"scf.if %small {{ {STORE} }}"
    otherwise = f"scf.if %small {{ }} else {{ {NEAR} }}"
    text, unsafe, unknown = verdicts(branch(then, otherwise))
    assert not unsafe
    assert {code for code, _ in unknown} == {"missing-barrier"}
    assert not machine_races(text, TARGET, trips=[0, 3])


@pytest.mark.parametrize(("read", "races"), [(NEAR, True), (FAR, False)])
def test_a_loop_inside_a_side_meets_the_other_side_in_any_iteration(read: str, races: bool) -> None:
    loop = """scf.for %i = %c0 to %n step %c1 {
      nvvm.cp.async.wait.group 0
      %half = arith.remui %i, %c2 : index
      %start = arith.muli %half, %c32 : index
      %place = arith.addi %start, %lane : index
      memref.store %zero, %s[%place] : memref<128xf32, 3>
    }"""
    text, unsafe, unknown = verdicts(branch(loop, read))
    assert bool(unsafe | unknown) == races
    assert bool(machine_races(text, TARGET, trips=[0, 2])) == races


@pytest.mark.parametrize(("other", "races"), [("%c31", True), ("%far", False)])
def test_threads_that_choose_different_places_race_too(other: str, races: bool) -> None:
    """The last thread of warp 0 writes place 31; warp 1 reads that place or another one."""
    text, unsafe, unknown = verdicts(
        f"%to = arith.select %first, %t, %far : index\n"
        f"%from = arith.select %first, %t, {other} : index\n"
        "memref.store %zero, %s[%to] : memref<128xf32, 3>\n"
        "%x = memref.load %s[%from] : memref<128xf32, 3>\ngpu.return"
    )
    assert bool(unsafe) == races
    assert not unknown
    assert bool(machine_races(text, TARGET, trips=[0])) == races


# Two groups of waves take memory and products in turn: one of them waits once more.
IN_TURN = """
llvm.func @f() attributes {{rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 256, 1, 1>}} {{
  %tid = rocdl.workitem.id.x : i32
  %number = llvm.mlir.constant({number} : i32) : i32
  %late = llvm.icmp "{which}" %tid, %number : i32
  llvm.cond_br %late, ^one, ^both
^one:
  rocdl.s.barrier
  llvm.br ^both
^both:
  rocdl.s.barrier
  llvm.return
}}
"""


@pytest.mark.parametrize(
    ("which", "number", "found"),
    [("uge", 128, "unknown"), ("ult", 64, "unknown"), ("uge", 100, "unsafe"), ("eq", 0, "unsafe")],
)
def test_a_barrier_of_amd_counts_waves_wherever_they_are(
    which: str, number: int, found: str
) -> None:
    """Whole waves may be met at another barrier; half a wave is not."""
    result = check_text(IN_TURN.format(which=which, number=number), "rocdl:gfx942")
    assert found == ("unsafe" if result.unsafe else "unknown" if result.unknown else "safe")


# Whether a block has rows is loaded by all of its threads, which then store, meet and read.
LOADED = """
gpu.module @m {{
  gpu.func @k(%rows: memref<128xi32> {{llvm.noalias}}, %other: memref<128xi32> {{llvm.noalias}}) workgroup(%s: memref<64xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %one = arith.constant 1 : i32
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %far = arith.addi %t, %c64 : index
    %back = arith.subi %c63, %t : index
    %first = arith.cmpi ult, %t, %c32 : index
    {before}
    %n = {load}
    %some = arith.cmpi slt, %one, %n : i32
    scf.if %some {{
      scf.if %first {{
        memref.store %zero, %s[%t] : memref<64xf32, 3>
      }}
      gpu.barrier
      %x = memref.load %s[%back] : memref<64xf32, 3>
    }}
    {after}
    gpu.return
  }}
}}
"""
ROWS = "memref.load %rows[%c0] : memref<128xi32>"
WRITTEN = "memref.store %one, %rows[%far] : memref<128xi32>"


@pytest.mark.parametrize(
    ("load", "before", "after", "found"),
    [
        (ROWS, "", "", "safe"),
        (ROWS, "", WRITTEN.replace("%rows", "%other"), "safe"),
        # Another number in each thread, or perhaps in some: what a thread reads others may have written by then.
        (ROWS.replace("%c0", "%t"), "", "", "unknown"),
        (ROWS, WRITTEN, "", "unknown"),
        (ROWS, "", WRITTEN, "unknown"),
        (ROWS, "", "func.call @anything(%rows) : (memref<128xi32>) -> ()", "unknown"),
        ("memref.atomic_rmw addi %one, %rows[%c0] : (i32, memref<128xi32>) -> i32", "", "", "unknown"),
    ],
)  # fmt: skip
def test_what_all_threads_load_decides_alike_where_nobody_writes_it(
    load: str, before: str, after: str, found: str
) -> None:
    """A branch inside, by ids of threads, does not make the barrier after it one that some threads certainly miss."""
    text = LOADED.format(load=load, before=before, after=after)
    text = text.replace(
        "gpu.module @m {", "gpu.module @m {\n  func.func private @anything(memref<128xi32>)"
    )
    result = check_text(text)
    assert found == ("unsafe" if result.unsafe else "unknown" if result.unknown else "safe")
    assert "divergent-barrier" not in {code for code, _ in result.unsafe}


TENSOR = "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>"
BARRIERS = "!nvgpu.mbarrier.group<memorySpace = 3>"


@pytest.mark.parametrize(
    ("copy", "alike"),
    [
        (f"nvgpu.tma.async.load %x[%c0], %full[%c0] to %tile : {TENSOR}, {BARRIERS} -> memref<64xf32, 3>", True),
        (f"nvgpu.tma.async.store %tile to %x[%c0] : memref<64xf32, 3> -> {TENSOR}", False),
    ],
)  # fmt: skip
def test_copies_by_tensor_maps_out_of_workgroup_memory_may_write_what_is_loaded(
    copy: str, *, alike: bool
) -> None:
    text = f"""
func.func @k(%x: {TENSOR}, %rows: memref<128xi32> {{llvm.noalias}}) attributes {{gpu.kernel, known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %t = gpu.thread_id x
  %tile = memref.alloc() : memref<64xf32, 3>
  %full = nvgpu.mbarrier.create -> {BARRIERS}
  %n = memref.load %rows[%c0] : memref<128xi32>
  %some = arith.cmpi slt, %one, %n : i32
  scf.if %some {{
    gpu.barrier
  }}
  {copy}
  return
}}"""
    reasons = {d.message for d in check_text(text).report.diagnostics}
    assert any("is not reached by all threads" in reason for reason in reasons) == (not alike)


FLAG = """
llvm.mlir.global internal @s() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<64 x i32>
llvm.func @k(%x: !llvm.ptr<1> {{llvm.noalias}}, %y: !llvm.ptr<1> {{llvm.noalias}}) attributes {{
    gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>}} {{
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %s = llvm.mlir.addressof @s : !llvm.ptr<3>
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %first = llvm.icmp "eq" %t, %zero : i32
  %mine = llvm.getelementptr %s[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  llvm.cond_br %first, ^set, ^wait
^set:
  %more = llvm.load %x : !llvm.ptr<1> -> i32
  llvm.store %more, %s : i32, !llvm.ptr<3>
  llvm.br ^wait
^wait:
  {barrier}
  %flag = llvm.load {volatile} {place} : !llvm.ptr<3> -> i32
  {between}
  %again = llvm.icmp "ne" %flag, %zero : i32
  llvm.cond_br %again, ^more, ^done
^more:
  nvvm.barrier
  llvm.store %t, %mine : i32, !llvm.ptr<3>
  nvvm.barrier
  %next = llvm.xor %t, %one : i32
  %other = llvm.getelementptr %s[%next] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %v = llvm.load %other : !llvm.ptr<3> -> i32
  %to = llvm.getelementptr %y[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  llvm.store %v, %to : i32, !llvm.ptr<1>
  llvm.br ^done
^done:
  llvm.return
}}
"""
FLAGGED = {"barrier": "nvvm.barrier", "place": "%s", "between": "", "volatile": ""}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "safe"),
        # Who reads early finds no flag; the first thread clears it while others read; each reads one of its own.
        ({"barrier": ""}, "unsafe"),
        ({"between": "llvm.store %t, %s : i32, !llvm.ptr<3>"}, "unsafe"),
        ({"place": "%mine"}, "unknown"),
        # Volatile accesses do not race: nothing says that all threads find the same.
        ({"volatile": "volatile"}, "unknown"),
        # An op that nobody knows may write the flag.
        ({"between": '"test.touch"(%s) : (!llvm.ptr<3>) -> ()'}, "unknown"),
    ],
)
def test_what_one_thread_says_to_all_through_workgroup_memory_is_one_number(
    changes: dict[str, str], expected: str
) -> None:
    """if (t == 0) flag = …; __syncthreads(); if (flag) { …; __syncthreads(); … }"""
    text = FLAG.format(**(FLAGGED | changes))
    checked = check_text(text)
    assert verdict(checked.report) == expected
    assert "divergent-barrier" not in {code for code, _ in checked.unsafe}
    if "test.touch" in text:
        return
    with new_context():
        arrays = [np.ones(1, np.int32), np.zeros(64, np.int32)]
        run = machine.run(ir.Module.parse(text), "k", arrays, warp=32)
    assert expected != "safe" or not run.race_codes
    assert expected != "unsafe" or run.race_codes


def test_what_is_loaded_twice_from_one_place_need_not_be_the_same_number() -> None:
    """All threads load one number, and later another one, which the first has stored in between."""
    text = """
llvm.mlir.global internal @s() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x i32>
llvm.func @k(%x: !llvm.ptr<1> {llvm.noalias}, %y: !llvm.ptr<1> {llvm.noalias}) attributes {
    gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %s = llvm.mlir.addressof @s : !llvm.ptr<3>
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %mine = llvm.getelementptr %s[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  llvm.store %t, %mine : i32, !llvm.ptr<3>
  nvvm.barrier
  %before = llvm.load %s : !llvm.ptr<3> -> i32
  nvvm.barrier
  %first = llvm.icmp "eq" %t, %zero : i32
  llvm.cond_br %first, ^set, ^wait
^set:
  %more = llvm.load %x : !llvm.ptr<1> -> i32
  llvm.store %more, %s : i32, !llvm.ptr<3>
  llvm.br ^wait
^wait:
  nvvm.barrier
  %after = llvm.load %s : !llvm.ptr<3> -> i32
  nvvm.barrier
  %same = llvm.icmp "eq" %before, %after : i32
  llvm.cond_br %same, ^done, ^race
^race:
  llvm.store %t, %s : i32, !llvm.ptr<3>
  llvm.br ^done
^done:
  llvm.return
}
"""
    checked = check_text(text)
    assert verdict(checked.report) != "safe"
    assert "divergent-barrier" not in {code for code, _ in checked.unsafe}
    with new_context():
        arrays = [np.ones(1, np.int32), np.zeros(64, np.int32)]
        assert machine.run(ir.Module.parse(text), "k", arrays, warp=32).race_codes
