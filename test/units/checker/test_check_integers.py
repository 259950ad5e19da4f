"""Integers of a width in the checker: signed and unsigned comparisons, results that wrap.

Covers: checker/arithmetic.py, checker/paths.py, checker/explore.py
"""

from __future__ import annotations

import os

import pytest

from helpers.check_harness import Checked, check_text, machine_races
from helpers.integer_programs import kernel
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form, cases

KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<512xf32> {{llvm.noalias}}, %n: i32, %m: index)
      workgroup(%s: memref<512xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %tid = gpu.thread_id x
    {lines}
    gpu.return
  }}
}}
"""
COPY = """
    %a = nvgpu.device_async_copy %A[%tid], %s[%to], 1 : memref<512xf32> to memref<512xf32, 3>
    %g = nvgpu.device_async_create_group %a
"""
WAIT = "nvgpu.device_async_wait %g {numGroups = 0 : i32}\n"
READ = "%v = memref.load %s[%from] : memref<512xf32, 3>\n"


def check(lines: str) -> Checked:
    return check_text(KERNEL.format(lines=lines))


def copy_and_read(to: str, read_from: str) -> Checked:
    """Each thread copies to %to and, having waited, reads %from: no barrier is between."""
    return check(f"{to}\n{read_from}\n{COPY}{WAIT}{READ}")


OWN_PLACE = "%to = arith.addi %tid, %c0 : index"


@pytest.mark.parametrize(
    ("predicate", "left", "right", "holds"),
    [
        ("ult", -2, 8, False),
        ("slt", -2, 8, True),
        ("ugt", -2, 8, True),
        ("sgt", -2, 8, False),
        ("ule", -2, -1, True),
        ("uge", 3, -1, False),
    ],
)
def test_what_is_negative_is_large_as_unsigned(
    predicate: str, left: int, right: int, holds: bool
) -> None:
    """Waits iff the comparison holds."""
    checked = check(f"""
    {OWN_PLACE}
    {COPY}
    %l = arith.constant {left} : i32
    %r = arith.constant {right} : i32
    %p = arith.cmpi {predicate}, %l, %r : i32
    scf.if %p {{ {WAIT} }}
    %from = arith.addi %tid, %c0 : index
    {READ}""")
    assert bool(checked.unsafe) is not holds
    assert not checked.unknown


@pytest.mark.parametrize(("second", "unsafe"), [("sgt", False), ("ugt", True), ("sge", True)])
def test_a_signed_and_an_unsigned_comparison_are_two_conditions(second: str, unsafe: bool) -> None:
    """The copy is issued where n >s 1 and read where n >u 1: a negative n does only one."""
    checked = check(f"""
    {OWN_PLACE}
    %one = arith.constant 1 : i32
    %p = arith.cmpi sgt, %n, %one : i32
    %q = arith.cmpi {second}, %n, %one : i32
    {COPY}
    scf.if %p {{ {WAIT} }}
    %from = arith.addi %tid, %c0 : index
    scf.if %q {{ {READ} }}""")
    assert bool(checked.unsafe) is unsafe


def test_a_loop_condition_below_zero_is_not_always_true() -> None:
    """(i - 2) ult 8 is false in iterations 0 and 1: they do not wait."""
    text = """
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c10 = arith.constant 10 : index
    scf.for %i = %c0 to %c10 step %c1 {{
      %to = arith.addi %tid, %c0 : index
      %d = arith.subi %i, %c2 : index
      %p = arith.cmpi {predicate}, %d, %c8 : index
      {copy}
      scf.if %p {{ {wait} }}
      %from = arith.addi %tid, %c0 : index
      {read}
      gpu.barrier
    }}"""
    pieces = {"copy": COPY, "wait": WAIT, "read": READ}
    assert check(text.format(predicate="ult", **pieces)).unsafe
    assert not check(text.format(predicate="slt", **pieces)).unsafe


@pytest.mark.parametrize(
    ("kind", "added", "unsafe"),
    [
        ("i8", 255, True),
        ("i8", 256, False),
        ("i16", 256, False),
        ("i16", 1 << 15, False),
        ("i32", (1 << 32) - 1, True),
    ],
)
def test_a_sum_wraps_at_the_width_of_its_type(kind: str, added: int, unsafe: bool) -> None:
    """tid + 255 is tid - 1 as i8: the place that another thread's copy writes."""
    half = 1 << (int(kind[1:]) - 1)
    shown = (added + half) % (2 * half) - half
    checked = copy_and_read(
        OWN_PLACE,
        f"""%t = arith.index_cast %tid : index to {kind}
    %b = arith.constant {shown} : {kind}
    %x = arith.addi %t, %b : {kind}
    %y = arith.index_castui %x : {kind} to index
    %mask = arith.constant 63 : index
    %from = arith.andi %y, %mask : index""",
    )
    assert bool(checked.unsafe) is unsafe
    assert not checked.unknown


def test_a_counter_near_its_maximum_goes_on_at_the_minimum() -> None:
    """2^31 - 2, 2^31 - 1, -2^31: the third comparison with 0 fails, and nothing waits."""
    text = """
    %c3 = arith.constant {trips} : index
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %start = arith.constant 2147483646 : i32
    %end = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %start) -> (i32) {{
      {own}
      {copy}
      %p = arith.cmpi sgt, %x, %zero : i32
      scf.if %p {{ {wait} }}
      %from = arith.addi %tid, %c0 : index
      {read}
      gpu.barrier
      %next = arith.addi %x, %one : i32
      scf.yield %next : i32
    }}"""
    pieces = {"own": OWN_PLACE, "copy": COPY, "wait": WAIT, "read": READ}
    assert check(text.format(trips=3, **pieces)).unsafe
    assert not check(text.format(trips=2, **pieces)).unsafe


def test_flags_are_believed() -> None:
    """n + 1 > n for an n + 1 that says that it does not wrap."""
    text = """
    {own}
    %one = arith.constant 1 : i32
    %x = arith.addi %n, %one {flags} : i32
    %p = arith.cmpi sgt, %x, %n : i32
    {copy}
    scf.if %p {{ {wait} }}
    %from = arith.addi %tid, %c0 : index
    {read}"""
    pieces = {"own": OWN_PLACE, "copy": COPY, "wait": WAIT, "read": READ}
    believed = check(text.format(flags="overflow<nsw>", **pieces))
    assert not believed.unsafe and not believed.unknown
    wraps = check(text.format(flags="", **pieces))
    assert wraps.unsafe or wraps.unknown


SUM = """%t = arith.index_cast %tid : index to i32
    %c = arith.constant {apart} : i32
    %x = arith.muli %n, %n {flags} : i32
    %y = arith.addi %x, %t {flags} : i32
    %z = arith.addi %y, %c {flags} : i32
    %to = arith.index_cast %y : i32 to index
    %from = arith.index_cast %z : i32 to index"""


@pytest.mark.parametrize(
    ("flags", "reasons"), [("", {"may-wrap"}), ("overflow<nsw>", set())], ids=["wraps", "nsw"]
)
def test_a_sum_that_may_wrap_is_the_reason(flags: str, reasons: set[str]) -> None:
    """Threads 2^27 apart, of 64, are more than 2^32 apart: modulo that they may come to any place."""
    far = SUM.format(apart=1, flags=flags).replace("%x, %t ", "%x, %far ")
    scaled = f"""%t = arith.index_cast %tid : index to i32
    %c27 = arith.constant 134217728 : i32
    %far = arith.muli %t, %c27 {flags} : i32"""
    checked = copy_and_read(far.replace("%t = arith.index_cast %tid : index to i32", scaled), "")
    (summary,) = checked.report.of("checks")
    assert (summary.unsafe, set(summary.reasons)) == (0, reasons)


def test_sums_that_wrap_alike_are_apart() -> None:
    """n n + t and n n + t' + 64, of 64 threads: apart modulo 2^32 too."""
    checked = copy_and_read(SUM.format(apart=64, flags=""), "")
    assert not checked.unsafe and not checked.unknown


def test_a_condition_that_may_wrap_is_the_reason() -> None:
    """n + 1 > n but for the largest n."""
    checked = check(f"""
    {OWN_PLACE}
    %one = arith.constant 1 : i32
    %x = arith.addi %n, %one : i32
    %p = arith.cmpi sgt, %x, %n : i32
    {COPY}
    scf.if %p {{ {WAIT} }}
    %from = arith.addi %tid, %c0 : index
    {READ}""")
    (summary,) = checked.report.of("checks")
    assert (summary.unsafe, summary.reasons) == (0, {"may-wrap": 1})


def test_an_unsigned_loop_counts_past_the_signed_maximum() -> None:
    """126, 127, 128, 129 as i8: four iterations, the last two with a negative counter."""
    text = """
    %first = arith.constant 126 : i8
    %last = arith.constant -126 : i8
    %one = arith.constant 1 : i8
    %zero = arith.constant 0 : i8
    scf.for {unsigned} %i = %first to %last step %one : i8 {{
      {own}
      {copy}
      %p = arith.cmpi sge, %i, %zero : i8
      scf.if %p {{ {wait} }}
      %from = arith.addi %tid, %c0 : index
      {read}
      gpu.barrier
    }}"""
    pieces = {"own": OWN_PLACE, "copy": COPY, "wait": WAIT, "read": READ}
    assert check(text.format(unsigned="unsigned", **pieces)).unsafe
    assert not check(text.format(unsigned="", **pieces)).unsafe


@pytest.mark.parametrize(
    ("first", "last", "safe"),
    [
        (-100, -98, True),
        (-100, -97, False),
        (2**63 - 1, -(2**63) + 1, True),
        (2**63 - 2, -(2**63) + 1, False),
        (2**63 - 2, 2**63 - 1, True),
    ],
)
def test_an_unsigned_loop_whose_bounds_are_large_runs_as_often_as_their_difference_says(
    first: int, last: int, safe: bool
) -> None:
    """The third iteration copies to where the first one still may, from 2^64 - 100 on, or across 2^63."""
    text = f"""
func.func @f(%from: memref<64xf32>) attributes {{gpu.kernel, known_block_size = array<i32: 1, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2 : index
  %first = arith.constant {first} : index
  %last = arith.constant {last} : index
  %tile = memref.alloc() : memref<2xf32, 3>
  scf.for unsigned %i = %first to %last step %c1 {{
    %k = arith.subi %i, %first : index
    %slot = arith.remui %k, %two : index
    %t = nvgpu.device_async_copy %from[%k], %tile[%slot], 1 : memref<64xf32> to memref<2xf32, 3>
    nvvm.cp.async.commit.group
  }}
  nvvm.cp.async.wait.group 0
  return
}}"""
    found = check_text(text)
    assert not found.unknown
    assert bool(found.unsafe) != safe


def test_a_carried_index_may_be_negative() -> None:
    """m, m - 1, …: only a function's own index arguments are sizes."""
    checked = check(f"""
    %c9 = arith.constant 90 : index
    %end = scf.for %i = %c0 to %c9 step %c1 iter_args(%x = %m) -> (index) {{
      {OWN_PLACE}
      {COPY}
      %p = arith.cmpi sge, %x, %c0 : index
      scf.if %p {{ {WAIT} }}
      %from = arith.addi %tid, %c0 : index
      {READ}
      gpu.barrier
      %y = arith.divsi %x, %c9 : index
      %next = arith.subi %y, %c1 : index
      scf.yield %next : index
    }}""")
    assert checked.unsafe or checked.unknown


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("%x = arith.remsi %zero, %below : i32", "i32"),
        ("%x = arith.divui %t, %below : i32", "i32"),
        ("%x = arith.floordivsi %zero, %below : i32", "i32"),
    ],
)
def test_what_no_form_holds_is_no_free_number(lines: str, kind: str) -> None:
    """0 remsi -8, t divui -8 and 0 floordivsi -8 are 0, never above t: nothing is read."""
    checked = check(f"""
    {OWN_PLACE}
    %below = arith.constant -8 : {kind}
    %t = arith.index_cast %tid : index to {kind}
    %u = arith.index_castui %tid : index to {kind}
    %zero = arith.subi %t, %u : {kind}
    {lines}
    %p = arith.cmpi sgt, %x, %t : {kind}
    {COPY}
    {WAIT}
    %from = arith.xori %tid, %c1 : index
    scf.if %p {{ {READ} }}""")
    assert not checked.unsafe


def test_a_quotient_is_not_free_beside_its_dividend() -> None:
    """m div 4 > m never holds for a size."""
    checked = check(f"""
    {OWN_PLACE}
    %c4 = arith.constant 4 : index
    %quarter = arith.divui %m, %c4 : index
    %p = arith.cmpi sgt, %quarter, %m : index
    {COPY}
    {WAIT}
    %from = arith.xori %tid, %c1 : index
    scf.if %p {{ {READ} }}""")
    assert not checked.unsafe


@pytest.mark.parametrize("kind", ["symbol", "iteration"])
def test_more_numbers_than_can_be_counted_are_too_many(kind: str) -> None:
    """The residues of x modulo 2^63 - 5, and all x of 64 bits."""
    x = Atom(kind, 1)
    remainder = forms.call("mod", forms.of_atom(x), Form(2**63 - 5))
    assert cases([remainder], {}) is None
    square = forms.call("mul", forms.of_atom(x), forms.of_atom(x))
    assert cases([square], {x: AtomRange(-(2**63), 2**63 - 1)}) is None
    small = cases([square], {x: AtomRange(0, 2)})
    assert small is not None and len(list(small)) == 3


SEEDS = 60 if not os.environ.get("ASYNC_PIPE_NIGHTLY") else 6000


@pytest.mark.slow
def test_no_race_of_random_integers_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    """What the machine, which computes in the very types, sees race is unsafe or unknown."""
    missed, right, unknown, ops = [], 0, 0, set()
    for seed in range(SEEDS):
        text, used = kernel(seed)
        ops |= used
        checked = check_text(text)
        found = {place for _, place in checked.unsafe | checked.unknown}
        races = machine_races(text, trips=(0, 1, 5), completions=(("late", 0),))
        missed += [seed for _, place in races if place not in found]
        right += not races
        unknown += not races and bool(checked.unknown)
    with capsys.disabled():
        print(f"\n{SEEDS} integer kernels, {right} right, of which {unknown} unknown")
    assert not missed
    assert len(ops) > 25


IDS = """
gpu.module @m {{
  gpu.func @k(%A: memref<2048xf32>) kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>{grid}}} {{
    %bid = gpu.block_id x
    %tid = gpu.thread_id x
    %c64 = arith.constant 64 : index
    %low = arith.remui %tid, %c64 : index
    %b = arith.index_cast %bid : index to i32
    %t = arith.index_cast {thread} : index to i32
    %n = arith.constant 128 : i32
    %first = arith.muli %b, %n : i32
    %sum = arith.addi %first, %t : i32
    %at = arith.{cast} %sum : i32 to index
    %zero = arith.constant 0.0 : f32
    memref.store %zero, %A[%at] : memref<2048xf32>
    gpu.return
  }}
}}
"""
BLOCKS_16 = ", known_grid_size = array<i32: 16, 1, 1>"
BLOCK_1 = ", known_grid_size = array<i32: 1, 1, 1>"


@pytest.mark.parametrize("cast", ["index_cast", "index_castui"])
@pytest.mark.parametrize("grid", [BLOCKS_16, BLOCK_1], ids=["16 blocks", "one block"])
def test_a_known_grid_bounds_sums_of_ids(grid: str, cast: str) -> None:
    checked = check_text(IDS.format(grid=grid, thread="%tid", cast=cast))
    assert not checked.unsafe and not checked.unknown


@pytest.mark.parametrize("cast", ["index_cast", "index_castui"])
def test_threads_of_a_block_differ_in_a_sum_that_may_wrap(cast: str) -> None:
    """Their ids are less than 2^32 apart; 2^25 blocks, which nothing rules out, are not."""
    checked = check_text(IDS.format(grid="", thread="%tid", cast=cast))
    assert {code for code, _ in checked.unknown} == {"cross-block"} and not checked.unsafe
    checked = check_text(IDS.format(grid="", thread="%low", cast=cast))
    assert "missing-barrier" in {code for code, _ in checked.unsafe}


TRIPS = """
    %c4 = arith.constant 4 : index
    %below = arith.subi %m, %c1 : index
    %whole = arith.divui %below, %c4 : index
    %up = arith.addi %whole, %c1 : index
    %some = arith.cmpi slt, %c0, %m : index
    %trips = arith.select %some, %up, %c0 : index
"""


@pytest.mark.parametrize(
    ("least", "condition", "unsafe", "unknown"),
    [
        ("%c0", "arith.cmpi uge, %trips, %c4 : index", True, False),
        ("%c0", "arith.cmpi eq, %trips, %c0 : index", True, False),
        ("%c4", "arith.cmpi eq, %trips, %c0 : index", False, False),
        ("%c0", "arith.cmpi ugt, %whole, %m : index", False, True),
    ],
    ids=["four", "none", "none of four", "2^62 - 1 where m is 0"],
)
def test_trips_rounded_up_split_where_there_are_none(
    least: str, condition: str, unsafe: bool, unknown: bool
) -> None:
    """(m - 1) divui 4 + 1 for 0 < m, else 0: reads unwaited, from `least` on, iff the condition holds."""
    checked = check(f"""
    {OWN_PLACE}
    {TRIPS}
    {COPY}
    %from = arith.addi %tid, %c0 : index
    %asked = arith.cmpi sge, %m, {least} : index
    scf.if %asked {{
      %p = {condition}
      scf.if %p {{ {READ} }}
    }}""")
    assert (bool(checked.unsafe), bool(checked.unknown)) == (unsafe, unknown)
