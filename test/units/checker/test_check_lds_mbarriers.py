"""mbarriers in LDS of gfx1250: arrivals, phases and polls are followed as those of sm_90 are.

Two waves: the first one stores, the second one loads what the other thread has stored; the machine runs the same text.

Covers: checker/as_read.py, vocabulary/mbarrier_ops.py, checker/phases/op_effects.py, machine/dialects/mbarriers.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import Checked, check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import MachineError

TARGET = "rocdl:gfx1250"
LOCAL = '{llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"local">}'
KERNEL = """
#wg = #gpu.address_space<workgroup>
!bars = memref<4x!amdgpu.ds_barrier_state, #gpu.address_space<workgroup>>
!state = !amdgpu.ds_barrier_state
gpu.module @m {{
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %n: index)
      workgroup(%s: memref<2x32xf32, #wg>, %b: !bars)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %all = arith.constant {count} : i32
    %one = arith.constant 1 : i64
    %true = arith.constant true
    %false = arith.constant false
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %lane = arith.remui %t, %c32 : index
    %other = arith.subi %c31, %lane : index
    %first = arith.cmpi eq, %t, %c0 : index
    %stores = arith.cmpi ult, %t, %c32 : index
    {body}
    gpu.return
  }}
}}
"""
RELEASE = 'llvm.fence syncscope("workgroup") release'


def poll(barrier: str, parity: str, name: str, compared: str = "eq") -> str:
    """Ask until the phase of a parity is over."""
    return f"""scf.while : () -> () {{
        %state_{name} = amdgpu.ds_barrier_poll_state %b[{barrier}] : !bars -> !state
        %now_{name} = amdgpu.ds_barrier_state_phase_parity %state_{name} : !state -> i1
        %again_{name} = arith.cmpi {compared}, %now_{name}, {parity} : i1
        scf.condition(%again_{name})
      }} do {{
        scf.yield
      }}
"""


def arrive(barrier: str, name: str, fence: str = RELEASE) -> str:
    return (
        f"{fence}\n%{name} = amdgpu.ds_barrier_arrive %b[{barrier}], %one : !bars, i64 -> !state\n"
    )


def init(*barriers: str) -> str:
    ops = "\n".join(f"amdgpu.ds_barrier_init %b[{at}], %all : !bars, i32" for at in barriers)
    return f"scf.if %first {{ {ops} }}\n"


def store(slot: str) -> str:
    return f"memref.store %zero, %s[{slot}, %t] : memref<2x32xf32, #wg>\n"


def load(slot: str, name: str = "x") -> str:
    return f"%{name} = memref.load %s[{slot}, %other] : memref<2x32xf32, #wg>\nmemref.store %{name}, %A[%t] : memref<64xf32>\n"


def once(**changed: str) -> str:
    """What the first wave stores the second one loads."""
    parts = {
        "init": init("%c0"),
        "barrier": "gpu.barrier\n",
        "store": store("%c0"),
        "arrive": arrive("%c0", "old"),
        "poll": poll("%c0", "%false", "full"),
        "count": "32",
        **changed,
    }
    body = (
        parts["init"]
        + parts["barrier"]
        + f"scf.if %stores {{ {parts['store']} {parts['arrive']} }} else {{ {parts['poll']} {load('%c0')} }}"
    )
    return KERNEL.format(body=body, count=parts["count"])


def races(text: str, schedule: str = "forward", trips: int = 5) -> set[str]:
    with new_context():
        result = machine.run(
            ir.Module.parse(text),
            "k",
            [np.ones(64, np.float32), trips],
            threads=(64, 1, 1),
            warp=32,
            schedule=schedule,
            target=Target.parse(TARGET),
        )
    return {race.code for race in result.races} - {"uninitialised-read"}


def found(result: Checked) -> str:
    return "unsafe" if result.unsafe else "unknown" if result.unknown else "safe"


CHANGES = {
    "as it is": ({}, "safe"),
    "a fence of LDS alone": ({"arrive": arrive("%c0", "old", f"{RELEASE} {LOCAL}")}, "safe"),
    "a hint after the fence": (
        {"arrive": arrive("%c0", "old", f"{RELEASE}\nrocdl.s.setprio 0")},
        "safe",
    ),
    "no fence": ({"arrive": arrive("%c0", "old", "")}, "unsafe"),
    "a store after the fence": (
        {"store": "", "arrive": RELEASE + "\n" + store("%c0") + arrive("%c0", "old", "")},
        "unknown",
    ),
    "a fence of global memory alone": (
        {"arrive": arrive("%c0", "old", f"{RELEASE} {LOCAL.replace('local', 'global')}")},
        "unknown",
    ),
    "an acquire in its place": (
        {"arrive": arrive("%c0", "old", RELEASE.replace("release", "acquire"))},
        "unsafe",
    ),
    "one arrival too few": ({"count": "33"}, "unsafe"),
    "one arrival too many": ({"count": "31"}, "unknown"),
    "no init": ({"init": ""}, "unsafe"),
    "another mbarrier is set up": ({"init": init("%c1")}, "unsafe"),
    "no barrier after the init": ({"barrier": ""}, "unsafe"),
    "all threads set it up": ({"init": init("%c0").replace("%first", "%true")}, "unsafe"),
    "one beyond the last": ({"init": init("%c0").replace("[%c0]", "[%c32]")}, "unsafe"),
    "no poll": ({"poll": ""}, "unsafe"),
    "an arrival of the copies": (
        {"arrive": "amdgpu.ds_async_barrier_arrive %b[%c0] : !bars\n"},
        "unknown",
    ),
    "an arrival of the instruction": (
        {
            "arrive": "%at = memref.extract_aligned_pointer_as_index %b : !bars -> index\n"
            "%at64 = arith.index_cast %at : index to i64\n%p = llvm.inttoptr %at64 : i64 to !llvm.ptr<3>\n"
            "%old = rocdl.ds.atomic.barrier.arrive.rtn.b64 %p, %one : !llvm.ptr<3>, i64 -> i64\n"
        },
        "unknown",
    ),
    "a phase by its number": (
        {
            "poll": poll("%c0", "%c0_i32", "full")
            .replace("phase_parity", "phase")
            .replace("!state -> i1", "!state -> i32")
            .replace(": i1", ": i32")
            .replace("scf.while", "%c0_i32 = arith.constant 0 : i32\nscf.while")
        },
        "unknown",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_arrival_shows_what_its_fence_releases(name: str) -> None:
    changed, expected = CHANGES[name]
    text = once(**changed)
    result = check_text(text, TARGET)
    assert found(result) == expected, (result.unsafe, result.unknown)
    if expected == "unsafe":
        assert races(text) | races(text, "backward")
    elif expected == "safe":
        for schedule in ("forward", "backward", "random"):
            assert not races(text, schedule)


def test_a_poll_that_may_come_two_phases_late_is_named() -> None:
    """The second phase may be over before the wave asks for its parity, or before it has asked at all."""
    twice = arrive("%c0", "once") + arrive("%c0", "again")
    body = f"scf.if %stores {{ {twice} }} else {{ {poll('%c0', '%true', 'late')} }}"
    text = KERNEL.format(body=f"{init('%c0')}gpu.barrier\n{body}", count="32")
    assert {code for code, _ in check_text(text, TARGET).unsafe} == {"phase-overtaken"}
    assert races(text) == {"phase-overtaken"}


@pytest.mark.parametrize("name", ["one arrival too many", "a store after the fence"])
def test_what_the_documents_leave_open_the_machine_refuses(name: str) -> None:
    with pytest.raises(MachineError, match="ds_barrier_arrive"):
        races(once(**CHANGES[name][0]))


# A ring: mbarriers 0 and 1 say that a slot is full, 2 and 3 that it is empty. The parity flips when all slots were filled.
def ring(
    wait_full: bool = True,
    wait_empty: bool = True,
    arrive_empty: bool = True,
    flips: str = "%c1",
    slots: str = "%c1",
) -> str:
    def loop(body: str) -> str:
        return f"""scf.for %i = %c0 to %n step %c1 {{
          %slot = arith.remui %i, {slots} : index
          %empty = arith.addi %slot, %c2 : index
          %turn = arith.divui %i, {flips} : index
          %odd = arith.remui %turn, %c2 : index
          %parity = arith.cmpi eq, %odd, %c1 : index
          %before = arith.xori %parity, %true : i1
          {body}
        }}"""

    produce = (
        (poll("%empty", "%before", "empty") if wait_empty else "")
        + store("%slot")
        + arrive("%slot", "filled")
    )
    consume = (
        (poll("%slot", "%parity", "full") if wait_full else "")
        + load("%slot")
        + (arrive("%empty", "read") if arrive_empty else "")
    )
    body = (
        init("%c0", "%c1", "%c2", "%c3")
        + "gpu.barrier\n"
        + f"scf.if %stores {{ {loop(produce)} }} else {{ {loop(consume)} }}"
    )
    return KERNEL.format(body=body, count="32")


def test_a_slot_that_goes_to_and_fro_is_proven_for_any_number_of_tiles() -> None:
    text = ring()
    result = check_text(text, TARGET)
    assert found(result) == "safe", (result.unsafe, result.unknown)
    for trips in (0, 1, 2, 5):
        for schedule in ("forward", "backward", "random"):
            assert not races(text, schedule, trips)


def test_slots_of_plain_stores_are_told_apart() -> None:
    """Phases are followed, and which slot a plain store of another wave goes to."""
    text = ring(flips="%c2", slots="%c2")
    assert found(check_text(text, TARGET)) == "safe"
    for schedule in ("forward", "backward", "random"):
        assert not races(text, schedule)


BROKEN = {
    "nobody waits for a full slot": {"wait_full": False},
    "nobody waits for an empty slot": {"wait_empty": False},
    "nobody gives slots back": {"arrive_empty": False},
    "parities that flip with every second tile": {"flips": "%c2"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_ring_is_not_proven_and_goes_wrong(name: str) -> None:
    text = ring(**BROKEN[name])  # type: ignore[arg-type]
    assert found(check_text(text, TARGET)) != "safe"
    assert races(text) | races(text, "backward") | races(text, "random")
