"""Global memory behind tensor maps: stores before and after the copies that read it, and reads of what
tensor stores wrote, in this block; of other blocks nothing is claimed.

Covers: checker/phases/global_memory.py, checker/phases/mbarrier_state.py, checker/phases/block_memory.py, checker/phases/op_effects.py, facts/values/memory_roots.py, checker/kernel.py, machine/warp_clock.py
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from helpers.map_kernels import (
    GLOBAL,
    PARTS,
    RIGHT,
    WRONG,
    arguments,
    given_text,
    in_place,
    map_text,
)
from helpers.tensor_kernels import Ring
from mlir_async_pipe import machine
from mlir_async_pipe.session.diagnostics import MachineError

SCHEDULES = ("lockstep", "forward", "backward")
LINES = re.compile(r" *(nvvm\.fence|gpu\.barrier|nvvm\.cp\.async\.bulk|nvgpu\.mbarrier\.try_wait)")
ALONE = {"read y": "%w = arith.addf %v, %v : f32"}
# Up to the store to x.
ONE_COPY = ALONE | dict.fromkeys(
    ("store", "commit", "wait y", "meet y", "copy y", "wait again"), ""
)
# A tensor store, and a copy with no wait between.
UNORDERED = ALONE | {"overwrite": "", "wait y": "", "end": "nvvm.cp.async.bulk.wait_group 0"}
NOALIAS = ("%x: memref<128xf32>", "%x: memref<128xf32> {llvm.noalias}")


def said(text: str, **options: Any) -> tuple[str, set[str]]:
    """The verdict, and why what is unknown is."""
    report = check_module(parse(text), **options).report
    reasons = {found.reason for found in report.of("hazards") if found.verdict == "unknown"}
    return verdict(report), reasons


def raced(text: str) -> set[str]:
    found = set()
    for schedule in SCHEDULES:
        for completion in machine.COMPLETIONS:
            try:
                result = machine.run(
                    parse(text), None, arguments(), completion=completion, schedule=schedule
                )
            except MachineError as failed:
                return {failed.code}
            found |= result.race_codes
    return found


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_ordered_is_proven(name: str) -> None:
    text = map_text(RIGHT[name])
    assert said(text) == ("safe", set())
    assert not raced(text)


@pytest.mark.parametrize("name", WRONG)
def test_each_way_to_be_wrong_is_named_by_checker_and_machine(name: str) -> None:
    changes, code = WRONG[name]
    text = map_text(changes)
    assert codes(check_module(parse(text)).report) == {code}
    assert raced(text)


def test_no_line_is_left_out_in_silence() -> None:
    """Of each fence, barrier, wait and commit: what fails without it is not proven."""
    lines = map_text().split("\n")
    places = [n for n, line in enumerate(lines) if LINES.match(line)]
    mutants = ["\n".join(lines[:n] + lines[n + 1 :]) for n in places]
    failing = [text for text in mutants if raced(text)]
    assert len(failing) >= 9
    assert {said(text)[0] for text in failing} == {"unsafe"}


def test_a_message_names_what_is_missing_and_the_other_op() -> None:
    report = check_module(parse(map_text(WRONG["a wait for its reads"][0]))).report
    (error,) = report.diagnostics
    assert str(error).startswith(
        "-:46:1: error: 'nvgpu.tma.async.load' reads what 'nvgpu.tma.async.store' may still be writing"
    )
    assert "it writes until a wait with count 0 or less, without `read`" in str(error)


# Maps that a kernel is given -----------------------------------------------------------------


def test_what_is_ordered_is_proven_whatever_a_map_describes() -> None:
    assert said(given_text(ONE_COPY)) == ("safe", set())
    for name in RIGHT:
        assert said(given_text(RIGHT[name]).replace(*NOALIAS)) == ("safe", set())


def test_an_argument_may_be_what_a_map_describes_unless_it_is_said_to_be_apart() -> None:
    text = given_text(ONE_COPY | {"fence x": ""})
    assert said(text) == ("unknown", {"may-alias"})
    assert said(text.replace(*NOALIAS))[0] == "safe"
    assert said(text, assume_noalias_arguments=True)[0] == "safe"


def test_two_maps_that_a_kernel_is_given_may_describe_one_memory_unless_it_is_said_that_they_do_not() -> (
    None
):
    """The store is by %b, the copies are by %a."""
    changes = UNORDERED | {"copy y": PARTS["copy y"].replace("%b[", "%a[")}
    apart = given_text(changes).replace(*NOALIAS)
    assert said(apart) == ("unknown", {"may-alias"})
    assert said(apart, assume_noalias_maps=True)[0] == "safe"
    assert said(given_text(changes, ("x_", "x_")).replace(*NOALIAS))[0] == "unsafe"


def test_a_map_in_a_struct_is_any_map() -> None:
    """Two steps from one pointer may lead to one map."""
    changes = UNORDERED | {"copy y": PARTS["copy y"].replace("%b[", "%a[")}
    text = given_text(changes, ("x_", "x_")).replace(*NOALIAS)
    cast, step = "builtin.unrealized_conversion_cast %x_", "%step = llvm.getelementptr %x_[128]"
    first, second, third = text.split(cast)
    text = f"{first}{cast}{second}{cast.replace('%x_', '%step')}{third}".replace(
        "%any_x =", f"{step} : (!llvm.ptr) -> !llvm.ptr, i8\n  %any_x ="
    )
    assert said(text) == ("unknown", {"may-alias"})


def test_memory_of_workgroups_is_behind_no_map() -> None:
    assert said(given_text({"fence x": "", "write": ""}).replace(*NOALIAS))[0] == "safe"


# Rings ----------------------------------------------------------------------------------------


def stored(ring: Ring, further: int) -> set[str]:
    size = 64 * (ring.tiles + further) * ring.executions
    text = in_place(ring, further=further)
    given = [np.zeros(size, np.float32), np.zeros((10, 64), np.float32)]
    runs = (
        machine.run(parse(text), None, given, completion="late", schedule=one) for one in SCHEDULES
    )
    return {code for run in runs for code in run.race_codes}


@pytest.mark.parametrize("specialised", [False, True])
@pytest.mark.parametrize("further", [0, 1, 2])
def test_a_ring_that_stores_in_place_is_proven_and_one_that_stores_further_on_is_not(
    specialised: bool, further: int
) -> None:
    """Nobody copies tile t again; the producer may be at the tiles after it."""
    ring = Ring(slots=2, ahead=1, tiles=5, executions=2, specialised=specialised)
    assert said(in_place(ring, further=further))[0] == ("unsafe" if further else "safe")
    assert bool(stored(ring, further)) == bool(further)


@pytest.mark.parametrize("specialised", [False, True])
def test_a_ring_whose_map_is_given_is_proven_where_nobody_else_reaches_the_output(
    specialised: bool,
) -> None:
    ring = Ring(slots=2, ahead=1, tiles=5, executions=2, specialised=specialised)
    text = in_place(ring, given=True)
    assert said(text) == ("unknown", {"may-alias"})
    assert said(re.sub(r"(%z: memref<\d+xf32>)", r"\1 {llvm.noalias}", text))[0] == "safe"


# What an author says, and other blocks -----------------------------------------------------------


def test_other_blocks_are_not_followed() -> None:
    """Each block writes its own row before it copies it: which place it has is not known here."""
    own = "%block = gpu.block_id x\n%base = arith.muli %block, %c64 : index\n"
    text = map_text()
    for before, after in (
        ("%out: memref<64xf32>", "%out: memref<128xf32>"),
        ("%out[%t] : memref<64xf32>", "%out[%t] : memref<128xf32>"),
        ("[%t] : memref<128xf32>", "[%own] : memref<128xf32>"),
        ("%a[%c0]", "%a[%base]"),
        ("%b[%c0]", "%b[%base]"),
        ("%leader =", f"{own}%own = arith.addi %base, %t : index\n%leader ="),
    ):
        text = text.replace(before, after)
    assert said(text) == ("unknown", {"other-blocks"})
    given = given_text(ONE_COPY).replace("%t = gpu", "%block = gpu.block_id x\n%t = gpu")
    given = given.replace("%out[%t] : memref<64xf32>", "%out[%at] : memref<64xf32>")
    given = given.replace("%sum =", "%at = arith.addi %t, %block : index\n%sum =")
    assert "may-alias" in said(given)[1]


def test_an_assertion_of_independence_is_believed_where_nothing_is_known() -> None:
    def asserted(text: str) -> str:
        start, body = text.split("  memref.store %number", 1)
        body = body.replace("  return", "  } {async_pipe.independent}\n  return")
        return f"{start}  scf.for %once = %c0 to %c1 step %c1 {{\n  memref.store %number{body}"

    changes = {"fence x": ""}
    assert said(asserted(given_text(changes)))[0] == "safe"
    assert said(asserted(map_text(changes)))[0] == "unsafe"


def test_a_kernel_says_that_its_maps_are_apart_but_not_what_is_known_to_be_wrong() -> None:
    changes = UNORDERED | {"copy y": PARTS["copy y"].replace("%b[", "%a[")}
    asserted = ("attributes {", "attributes {async_pipe.independent, ")
    apart = given_text(changes).replace(*NOALIAS)
    assert said(apart.replace(*asserted))[0] == "safe"
    assert (
        said(given_text(changes, ("x_", "x_")).replace(*NOALIAS).replace(*asserted))[0] == "unsafe"
    )
    for changes, code in WRONG.values():
        text = map_text(changes).replace(*asserted)
        assert codes(check_module(parse(text)).report) == {code}


def test_a_fence_of_global_memory_is_none_of_shared_memory() -> None:
    start, row, end = map_text().partition("memref.store %v, %row[%t]")
    shared, _, rest = end.partition("nvvm.fence.proxy")
    text = f"{start}{row}{shared}{GLOBAL}{rest.split('>}', 1)[1]}"
    assert codes(check_module(parse(text)).report) == {"missing-fence"}
    assert raced(text) == {"missing-fence"}


CHANGES_ITS_MAP = """
func.func @f(%map_: !llvm.ptr {llvm.noalias}, %v: i64, %out: memref<64xf32> {llvm.noalias})
    attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to MAP
  %tile = memref.alloc() : memref<64xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : BARS
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : BARS
  nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile, predicate = %leader : MAP, BARS -> memref<64xf32, WG>
  CHANGE
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %bytes : BARS
  %r = memref.load %tile[%t] : memref<64xf32, WG>
  memref.store %r, %out[%t] : memref<64xf32>
  return
}"""
MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
BARS = "!nvgpu.mbarrier.group<memorySpace = WG>"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("llvm.store %v, %map_ : i64, !llvm.ptr", ("unsafe", set())),
        ('"my.change"(%map_) : (!llvm.ptr) -> ()', ("unknown", {"async-proxy"})),
    ],
)
def test_a_kernel_that_changes_the_map_of_a_copy_is_not_proven(
    change: str, found: tuple[str, set[str]]
) -> None:
    text = CHANGES_ITS_MAP.replace("MAP", MAP).replace("BARS", BARS)
    assert said(text.replace("CHANGE", "")) == ("safe", set())
    changed, reasons = said(text.replace("CHANGE", f"scf.if %leader {{\n{change}\n}}"))
    assert changed == found[0]
    assert found[1] <= reasons


# Sums -----------------------------------------------------------------------------------------

REDUCE = """%to = builtin.unrealized_conversion_cast %b : MAP to !llvm.ptr
  %near = memref.extract_aligned_pointer_as_index %row : TILE -> index
  %near_i = arith.index_cast %near : index to i64
  %from = llvm.inttoptr %near_i : i64 to !llvm.ptr<3>
  %zero = arith.constant 0 : i32
  scf.if %leader {
    nvvm.cp.async.bulk.tensor.reduce %to, %from, box[%zero] {redKind = #nvvm.tma_redux_kind<add>} : !llvm.ptr, <3>
  }"""
AGAIN = REDUCE[REDUCE.index("scf.if") :]
TWICE = {"store": REDUCE, "commit": f"{AGAIN}\n  {PARTS['commit']}"}


def test_sums_may_meet_in_global_memory() -> None:
    assert said(map_text({"store": REDUCE})) == ("safe", set())
    assert said(map_text(TWICE)) == ("safe", set())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"commit": f"{PARTS['store']}\n{PARTS['commit']}"}, "overwrite-in-flight"),
        ({"wait y": "", "end": PARTS["wait y"]}, "read-in-flight"),
        ({"wait y": f"{PARTS['wait y']} {{read}}"}, "read-in-flight"),
        ({"wait y": f"memref.store %v, %row[%t] : TILE\n{PARTS['wait y']}"}, "source-overwritten"),
        ({"commit": ""}, "unwaited-copy"),
    ],
)
def test_what_else_touches_sums_in_flight_is_named(changes: dict[str, str], code: str) -> None:
    assert code in codes(check_module(parse(map_text({"store": REDUCE} | changes))).report)
