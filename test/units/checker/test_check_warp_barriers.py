"""Where the lanes of a warp meet, what one of them did happened before what the others do; nothing is in order
between warps, with a mask that does not name all lanes, or where some threads may be elsewhere.

Covers: checker/effects.py, checker/conflicts.py, machine/detector.py, machine/warp_clock.py, machine/dialects/mbarriers.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

KERNEL = """
#wg = #gpu.address_space<workgroup>
gpu.module @m {{
  gpu.func @k(%some: i32, %from: memref<128xf32>) workgroup(%s: memref<256xf32, #wg>, %bytes: memref<1024xi8, #wg>) kernel
      attributes {{known_block_size = array<i32: {size}>, known_grid_size = array<i32: 1, 1, 1>}} {{
    %x = gpu.thread_id x
    %y = gpu.thread_id y
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c48 = arith.constant 48 : index
    %all = arith.constant -1 : i32
    %half = arith.constant 65535 : i32
    %zero = arith.constant 0.0 : f32
    %c15 = arith.constant 15 : index
    %c31 = arith.constant 31 : index
    %c127 = arith.constant 127 : index
    // The lane that mirrors this one in its warp, in its row of 16, and in a block of 128.
    %lane = arith.remui %x, %c32 : index
    %first = arith.subi %x, %lane : index
    %to = arith.subi %c31, %lane : index
    %mirror = arith.addi %first, %to : index
    %opposite = arith.subi %c127, %x : index
    {body}
    gpu.return
  }}
}}
"""
HALF = 65535
SYNC = "nvvm.bar.warp.sync %all : i32"
STORE = "memref.store %zero, %s[%x] : memref<256xf32, #wg>"
LOAD = "%v = memref.load %s[%mirror] : memref<256xf32, #wg>"
COPY = """%copy = nvgpu.device_async_copy %from[%x], %s[%x], 1 : memref<128xf32> to memref<256xf32, #wg>
%group = nvgpu.device_async_create_group %copy
nvgpu.device_async_wait %group {{numGroups = {0} : i32}}"""


class Case(NamedTuple):
    """What the kernel does, what the checker says, and whether the machine finds a race."""

    body: str
    verdict: str
    races: bool
    size: str = "128, 1, 1"


def row(length: int, inside: str) -> str:
    """Threads of rows of `length` store, meet, and load what mirrors them in groups of `inside`."""
    return f"""%row = arith.muli %y, %c{length} : index
%at = arith.addi %row, %x : index
%in = arith.remui %x, %c{inside} : index
%before = arith.subi %at, %in : index
%last = arith.constant {int(inside) - 1} : index
%back = arith.subi %last, %in : index
%other = arith.addi %before, %back : index
memref.store %zero, %s[%at] : memref<256xf32, #wg>
{SYNC}
%v = memref.load %s[%other] : memref<256xf32, #wg>"""


READ_BY_ALL = f"""%v = memref.load %s[%c0] : memref<256xf32, #wg>
{SYNC}
%is_4 = arith.cmpi eq, %x, %c4 : index
scf.if %is_4 {{
  memref.store %zero, %s[%c0] : memref<256xf32, #wg>
}}"""


def product(between: str, value: str) -> str:
    """A warp multiplies a tile by itself, and stores a `value` over it."""
    kind = '!gpu.mma_matrix<16x16xf16, "{}Op">'
    loads = "\n".join(
        f"%{name.lower()} = gpu.subgroup_mma_load_matrix %m[%c0, %c0] {{leadDimension = 16 : index}} : "
        f"memref<16x16xf16, #wg> -> {kind.format(name)}"
        for name in "ABC"
    )
    return f"""%m = memref.view %bytes[%c0][] : memref<1024xi8, #wg> to memref<16x16xf16, #wg>
{loads}
%d = gpu.subgroup_mma_compute %a, %b, %c : {kind.format("A")}, {kind.format("B")} -> {kind.format("C")}
{between}
gpu.subgroup_mma_store_matrix %{value}, %m[%c0, %c0] {{leadDimension = 16 : index}} :
  {kind.format("C")}, memref<16x16xf16, #wg>"""


# Lanes of one warp read a slot each, add them up by shuffles, and one of them stores the sum over the first.


def sum_of_a_warp(store: str, steps: tuple[int, ...] = (16, 8, 4, 2, 1), at: str = "x") -> str:
    """The sum of what the lanes of a warp have loaded from `%s[%at]`."""
    lines = [
        "%width = arith.constant 32 : i32",
        f"%v = memref.load %s[%{at}] : memref<256xf32, #wg>",
    ]
    value = "%v"
    for n, step in enumerate(steps):
        lines += [
            f"%by{n} = arith.constant {step} : i32",
            f"%h{n}, %ok{n} = gpu.shuffle xor {value}, %by{n}, %width : f32",
            f"%v{n} = arith.addf {value}, %h{n} : f32",
        ]
        value = f"%v{n}"
    return "\n".join([*lines, store.format(value=value)])


ONE_STORES = """%is_0 = arith.cmpi eq, %x, %c0 : index
scf.if %is_0 {{
  memref.store {value}, %s[%c4] : memref<256xf32, #wg>
}}"""


def sum_of_slots(chosen: str, more: str = "") -> str:
    """A sum of what the first four lanes have loaded from a slot each; all others load from slot 0."""
    first = f"""%few = arith.cmpi ult, %lane, %c4 : index
%many = arith.cmpi ult, %lane, %c16 : index
%slot = arith.select %few, %lane, %c0 : index
%read = memref.load %s[%slot] : memref<256xf32, #wg>
{more}"""
    taken = sum_of_a_warp(ONE_STORES.replace("%c4", "%c0")).splitlines()
    return "\n".join([first, taken[0], f"%v = arith.select {chosen} : f32", *taken[2:]])


def two_sums(between: str) -> str:
    """Each warp stores to its slot of one buffer, and all threads read what stands in the first: twice, as in a softmax,
    whose maximum and sum go through one buffer."""
    once = """%first{0} = arith.cmpi eq, %lane, %c0 : index
%warp{0} = arith.divui %x, %c32 : index
scf.if %first{0} {{
  memref.store %zero, %s[%warp{0}] : memref<256xf32, #wg>
}}
gpu.barrier
%sum{0} = memref.load %s[%c0] : memref<256xf32, #wg>"""
    return f"{once.format(0)}\n{between}\n{once.format(1)}"


CASES = {
    "what other lanes read of it they throw away": Case(
        sum_of_slots("%few, %read, %zero"), "proven", False, "32, 1, 1"
    ),
    "so do other warps": Case(sum_of_slots("%few, %read, %zero"), "unsafe", True, "64, 1, 1"),
    "they keep it": Case(sum_of_slots("%few, %zero, %read"), "unknown", True, "32, 1, 1"),
    "only some of them do": Case(sum_of_slots("%many, %read, %zero"), "unknown", True, "32, 1, 1"),
    "they have another use for it": Case(
        sum_of_slots("%few, %read, %zero", "%twice = arith.addf %read, %read : f32"),
        "unknown",
        True,
        "32, 1, 1",
    ),
    "the second sum through the buffer of the first": Case(two_sums(""), "unsafe", True),
    "a barrier between two sums": Case(two_sums("gpu.barrier"), "proven", False),
    "the sum of what was read": Case(sum_of_a_warp(ONE_STORES), "unknown", True, "32, 1, 1"),
    "the sum of what two warps read": Case(sum_of_a_warp(ONE_STORES), "unknown", True, "64, 1, 1"),
    "another warp reads it": Case(
        sum_of_a_warp(ONE_STORES, at="opposite"), "unsafe", True, "128, 1, 1"
    ),
    "what was read is stored, and no sum": Case(
        sum_of_a_warp(ONE_STORES.replace("{value}", "%v")), "unsafe", True, "32, 1, 1"
    ),
    "a sum of something else": Case(
        sum_of_a_warp(ONE_STORES.replace("{value}", "%zero")), "unsafe", True, "32, 1, 1"
    ),
    "the lanes of a warp meet": Case(f"{STORE}\n{SYNC}\n{LOAD}", "proven", False),
    "they do not": Case(f"{STORE}\n{LOAD}", "unsafe", True),
    "before the store": Case(f"{SYNC}\n{STORE}\n{LOAD}", "unsafe", True),
    "another warp stored": Case(
        f"{STORE}\n{SYNC}\n{LOAD.replace('mirror', 'opposite')}", "unknown", True
    ),
    "only half of the lanes meet": Case(
        f"{STORE}\n{SYNC.replace('all', 'half')}\n{LOAD}", "unknown", True
    ),
    "nobody knows which lanes": Case(
        f"{STORE}\n{SYNC.replace('all', 'some')}\n{LOAD}", "unknown", True
    ),
    "some threads go past": Case(
        f"""{STORE}
%few = arith.cmpi ult, %x, %c16 : index
scf.if %few {{
  {SYNC}
}}
{LOAD}""",
        "unknown",
        True,
    ),
    "whole warps meet in a branch": Case(
        f"%few = arith.cmpi ult, %x, %c32 : index\nscf.if %few {{\n{STORE}\n{SYNC}\n{LOAD}\n}}",
        "proven",
        False,
    ),
    "whole warps, and half of one": Case(
        f"%few = arith.cmpi ult, %x, %c48 : index\nscf.if %few {{\n{STORE}\n{SYNC}\n{LOAD}\n}}",
        "unknown",
        False,
    ),
    "whole warps do not meet in a branch": Case(
        f"%few = arith.cmpi ult, %x, %c32 : index\nscf.if %few {{\n{STORE}\n{LOAD}\n}}",
        "unsafe",
        True,
    ),
    "a load before a store": Case(f"{LOAD}\n{SYNC}\n{STORE}", "proven", False),
    "a load after the meeting": Case(f"{STORE}\n{SYNC}\n{LOAD}\n{STORE}", "unsafe", True),
    "a copy, waited for": Case(f"{COPY.format(0)}\n{SYNC}\n{LOAD}", "proven", False),
    "a copy that may be in flight": Case(f"{COPY.format(1)}\n{SYNC}\n{LOAD}", "unknown", True),
    "a copy, waited for after the meeting": Case(
        "\n".join([*COPY.format(0).splitlines()[:2], SYNC, *COPY.format(0).splitlines()[2:], LOAD]),
        "unknown",
        True,
    ),
    "twice in each iteration": Case(
        f"scf.for %i = %c0 to %c4 step %c1 {{\n{STORE}\n{SYNC}\n{LOAD}\n{SYNC}\n}}", "proven", False
    ),
    "once in each iteration": Case(
        f"scf.for %i = %c0 to %c4 step %c1 {{\n{STORE}\n{SYNC}\n{LOAD}\n}}", "unknown", True
    ),
    "two rows of 16 are a warp": Case(row(16, "16"), "proven", False, "16, 8, 1"),
    "a warp goes on in the next row": Case(row(48, "32"), "unknown", True, "48, 2, 1"),
    "one place, read by other warps": Case(READ_BY_ALL, "unknown", True),
    "one place, read by one warp": Case(READ_BY_ALL, "proven", False, "32, 1, 1"),
    "a product stored over what it read": Case(product("", "d"), "unknown", True, "32, 1, 1"),
    "of several warps": Case(product("", "d"), "unsafe", True, "64, 1, 1"),
    "what it did not make": Case(product("", "c"), "unsafe", True, "32, 1, 1"),
    "and as the advice says": Case(product(SYNC, "d"), "proven", False, "32, 1, 1"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_the_lanes_of_a_warp_did_before_they_met(case: Case) -> None:
    text = KERNEL.format(body=case.body, size=case.size)
    found = check_text(text)
    verdict = "unsafe" if found.unsafe else "unknown" if found.unknown else "proven"
    assert verdict == case.verdict
    with new_context():
        module = ir.Module.parse(text)
        size = [int(n) for n in case.size.split(",")]
        values = np.ones(128, np.float32)
        for order in machine.SCHEDULES:
            run = machine.run(module, "k", [HALF, values], threads=tuple(size), schedule=order)
            wrong = {race.code for race in run.races} - {"uninitialised-read"}
            assert bool(wrong) == case.races


WAVE = """llvm.fence syncscope("{0}") release{1}
rocdl.wave.barrier
llvm.fence syncscope("{2}") acquire{1}"""
LOCAL = ' {llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"local">}'
AS_ADVISED = WAVE.format("wavefront", "", "wavefront")


def summed(between: str) -> str:
    """A wave of 64 adds up what its lanes have read, and one of them stores the sum over it."""
    between = between.replace("{", "{{").replace("}", "}}")
    steps = sum_of_a_warp(f"{between}\n{ONE_STORES}", (32, 16, 8, 4, 2, 1))
    return steps.replace("%width = arith.constant 32", "%width = arith.constant 64")


WAVES = {
    "as the advice says": Case(summed(AS_ADVISED), "proven", False, "64, 1, 1"),
    "a store before a load": Case(f"{STORE}\n{AS_ADVISED}\n{LOAD}", "proven", False, "64, 1, 1"),
    "fences of the block": Case(
        summed(WAVE.format("workgroup", "", "agent")), "proven", False, "64, 1, 1"
    ),
    "without fences": Case(summed("rocdl.wave.barrier"), "unknown", True, "64, 1, 1"),
    "fences of a thread": Case(
        summed(WAVE.format("singlethread", "", "wavefront")), "unknown", True, "64, 1, 1"
    ),
    "fences alone": Case(
        summed(AS_ADVISED.replace("rocdl.wave.barrier", "")), "unknown", True, "64, 1, 1"
    ),
    "fences of some memory": Case(
        summed(WAVE.format("wavefront", LOCAL, "wavefront")), "unknown", True, "64, 1, 1"
    ),
    "another wave": Case(
        f"{STORE}\n{AS_ADVISED}\n{LOAD.replace('mirror', 'opposite')}", "unknown", True
    ),
}


@pytest.mark.parametrize("case", WAVES.values(), ids=WAVES)
def test_the_lanes_of_a_wave_meet_between_fences(case: Case) -> None:
    text = KERNEL.format(body=case.body, size=case.size)
    found = check_text(text, "rocdl:gfx942")
    assert ("unsafe" if found.unsafe else "unknown" if found.unknown else "proven") == case.verdict
    with new_context():
        run = machine.run(
            ir.Module.parse(text), "k", [HALF, np.ones(128, np.float32)], target="rocdl:gfx942",
            threads=tuple(int(n) for n in case.size.split(",")),
        )  # fmt: skip
        assert bool({race.code for race in run.races} - {"uninitialised-read"}) == case.races


def test_where_a_wave_may_have_32_lanes_a_barrier_orders_as_many() -> None:
    across = LOAD.replace("mirror", "far").replace(
        "%v =", "%far_ = arith.xori %x, %c32 : index\n%far = arith.andi %far_, %c63 : index\n%v ="
    )
    body = f"%c63 = arith.constant 63 : index\n{STORE}\n{AS_ADVISED}\n{across}"
    text = KERNEL.format(body=body, size="64, 1, 1")
    assert not check_text(text, "rocdl:gfx942").unknown
    assert check_text(text).unknown


def test_the_advice_for_sums_names_what_each_vendor_has() -> None:
    found = check_text(KERNEL.format(body=CASES["the sum of what was read"].body, size="32, 1, 1"))
    said = "\n".join(str(entry) for entry in found.report.diagnostics)
    assert "nvvm.bar.warp.sync" in said
    assert "rocdl.wave.barrier" in said
