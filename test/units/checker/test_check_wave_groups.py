"""Two groups of waves in turn: one passes one barrier more, so that half a block is an interval behind.

Each kernel has 128 threads, two waves of gfx950, of which the second one is late; the machine runs the same text, one
wave after the other.

Covers: checker/commit_groups.py, checker/explore.py, checker/conflicts.py, machine/warp_order.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, machine_races

TARGET = "rocdl:gfx950"
FENCE = 'llvm.fence syncscope("workgroup") {} {{llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"local">}}'
BARRIER = f"{FENCE.format('release')}\n rocdl.s.barrier\n {FENCE.format('acquire')}"
LATE = f"scf.if %late {{ {BARRIER} }}"
EARLY = f"scf.if %early {{ {BARRIER} }}"
KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<16x128xf32> {{llvm.noalias}}, %n: index)
      workgroup(%s: memref<{slots}x128xf32, #gpu.address_space<workgroup>>)
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %slots = arith.constant {slots} : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c127, %t : index
    %beside = arith.xori %t, %c1 : index
    %wave = arith.divui %t, %c64 : index
    %late = arith.cmpi eq, %wave, %c1 : index
    %early = arith.cmpi ne, %wave, %c1 : index
    %most = arith.cmpi uge, %t, %c63 : index
    {body}
    gpu.return
  }}
}}
"""


def kernel(body: str, slots: int = 4) -> str:
    return KERNEL.format(body=body, slots=slots)


def store(slot: str, place: str = "%t") -> str:
    return f"memref.store %zero, %s[{slot}, {place}] : memref<4x128xf32, #gpu.address_space<workgroup>>\n"


def load(slot: str, place: str) -> str:
    return f"%x{place[1:]}{slot[1:]} = memref.load %s[{slot}, {place}] : memref<4x128xf32, #gpu.address_space<workgroup>>\n"


# name: body, what the checker says, whether the machine finds a race
PROGRAMS = {
    # The late wave reads one interval later than the early one: what both wrote before the turns is there.
    "read what was written before": (
        store("%c0") + f"{BARRIER}\n{LATE}\n" + load("%c0", "%mirror") + f"{BARRIER}\n{EARLY}",
        "safe",
    ),
    # Interval 0 of the late wave runs beside interval 1 of the early one.
    "read one interval after a store": (
        f"{LATE}\n"
        + store("%c0")
        + f"{BARRIER}\n"
        + load("%c0", "%mirror")
        + f"{BARRIER}\n{EARLY}",
        "unsafe",
    ),
    "read two intervals after a store": (
        f"{LATE}\n"
        + store("%c0")
        + f"{BARRIER}\n{BARRIER}\n"
        + load("%c0", "%mirror")
        + f"{BARRIER}\n{EARLY}",
        "safe",
    ),
    "read in the own wave one interval after a store": (
        f"{LATE}\n"
        + store("%c0")
        + f"{BARRIER}\n"
        + load("%c0", "%beside")
        + f"{BARRIER}\n{EARLY}",
        "safe",
    ),
    "read in the own wave without a barrier": (
        f"{LATE}\n" + store("%c0") + load("%c0", "%beside") + f"{BARRIER}\n{EARLY}",
        "unsafe",
    ),
    # The early wave is past it when the late one comes.
    "read of the other wave in the interval of the store": (
        f"{LATE}\n" + store("%c0") + load("%c0", "%mirror") + f"{BARRIER}\n{EARLY}",
        "safe",
    ),
    "store before the turns, overwritten in their first interval": (
        load("%c0", "%mirror") + f"{LATE}\n" + store("%c0") + f"{BARRIER}\n{EARLY}",
        "unsafe",
    ),
    "read after the turns what was written in their last interval": (
        f"{LATE}\n{BARRIER}\n" + store("%c0") + f"{EARLY}\n" + load("%c0", "%mirror"),
        "unsafe",
    ),
    "read after the turns, a barrier later": (
        f"{LATE}\n{BARRIER}\n" + store("%c0") + f"{EARLY}\n{BARRIER}\n" + load("%c0", "%mirror"),
        "safe",
    ),
    "turns that never end": (f"{LATE}\n{BARRIER}", "unknown"),
    "turns of half a wave": (f"scf.if %most {{ {BARRIER} }}\n{BARRIER}", "unsafe"),
    "turns that end for the same wave": (f"{LATE}\n{BARRIER}\n{LATE}", "unknown"),
    "a barrier between that says where all meet": (
        f"{LATE}\n{BARRIER}\ngpu.barrier\n{EARLY}",
        "unknown",
    ),
    "a barrier between that orders nothing": (
        f"{LATE}\n" + store("%c0") + "rocdl.s.barrier\n" + f"{BARRIER}\n{EARLY}",
        "unknown",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_groups_of_waves_are_an_interval_apart(name: str) -> None:
    """What is proven has no race on the machine, what is called unsafe has one."""
    body, expected = PROGRAMS[name]
    text = kernel(body)
    result = check_text(text, TARGET)
    found = "unsafe" if result.unsafe else "unknown" if result.unknown else "safe"
    assert found == expected, (result.unsafe, result.unknown)
    if expected != "unknown" and "half" not in name:
        assert bool(machine_races(text, TARGET, trips=[1])) == (expected == "unsafe")


# A ring of copies: tile k is read by both groups in the first interval of iteration k, the copy of tile k + 2 is issued
# there, and what is waited for at its end is tile k + 1. Each thread reads what one of the other group has copied.
RING = """
    {before}
    scf.for %k = %c0 to %n step %c1 {{
      %slot = arith.remui %k, %slots : index
      %later = arith.addi %k, %c2 : index
      %next = arith.remui %later, %slots : index
      %x = memref.load %s[%slot, %mirror] : memref<{slots}x128xf32, #gpu.address_space<workgroup>>
      %y = memref.load %s[%slot, %beside] : memref<{slots}x128xf32, #gpu.address_space<workgroup>>
      {copy}
      nvgpu.device_async_wait %g {{numGroups = {left} : i32}}
      {barriers}
    }}
    {after}
"""


def copy(tile: str, slot: str, slots: int, name: str) -> str:
    return (
        f"%c{name} = nvgpu.device_async_copy %A[{tile}, %t], %s[{slot}, %t], 1 : memref<16x128xf32> to "
        f"memref<{slots}x128xf32, #gpu.address_space<workgroup>>\n"
        f"%{name} = nvgpu.device_async_create_group %c{name}\n"
    )


def ring(
    slots: int = 3, left: int = 1, barriers: int = 2, late: str = LATE, early: str = EARLY
) -> str:
    before = (
        copy("%c0", "%c0", slots, "g0")
        + copy("%c1", "%c1", slots, "g1")
        + f"nvgpu.device_async_wait %g0 {{numGroups = 1 : i32}}\n{BARRIER}\n{late}\n"
    )
    body = RING.format(
        before=before,
        copy=copy("%later", "%next", slots, "g"),
        left=left,
        barriers=f"{BARRIER}\n" * barriers,
        after=early,
        slots=slots,
    )
    return kernel(body, slots)


@pytest.mark.parametrize("slots", [3, 4, 5])
def test_a_ring_of_copies_with_two_barriers_is_proven(slots: int) -> None:
    text = ring(slots)
    result = check_text(text, TARGET)
    assert not result.unsafe
    assert not result.unknown
    assert not machine_races(text, TARGET, trips=[0, 1, 2, 5])


WEAKER = {
    "a wait that leaves one group more": {"left": 2},
    "one barrier an iteration": {"barriers": 1},
    "two slots": {"slots": 2},
}


@pytest.mark.parametrize("name", WEAKER)
def test_a_weaker_ring_races(name: str) -> None:
    """Of one barrier alone the early group reads what the late one has not waited for: nothing is wrong without turns."""
    text = ring(**WEAKER[name])  # type: ignore[arg-type]
    assert check_text(text, TARGET).unsafe
    assert machine_races(text, TARGET, trips=[5])


def test_one_barrier_is_enough_without_turns() -> None:
    text = ring(barriers=1, late="", early="")
    result = check_text(text, TARGET)
    assert not (result.unsafe or result.unknown)
    assert not machine_races(text, TARGET, trips=[5])
