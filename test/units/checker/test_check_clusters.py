"""Rings that the blocks of a cluster fill for each other: proven, and what is wrong with them named.

The machine runs the same ring, and finds each of these faults (test_machine_clusters.py).

Covers: checker/phases/cluster_blocks.py, checker/phases/block_memory.py, checker/phases/op_effects.py,
checker/phases/path_state.py, checker/phases/mbarrier_state.py, checker/kernel.py,
vocabulary/launch_ids.py
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from helpers import cluster_rings
from helpers.check_harness import Checked, check_text
from helpers.cluster_loops import ClusterLoop
from helpers.cluster_rings import (
    ANY_TRIPS,
    HERE_AT_ONCE,
    ISSUED_BY_ONE,
    RELAXED,
    REMOTE_AT_ONCE,
    TO_THE_BLOCK,
    ring_sizes,
)
from mlir_async_pipe import pipeline
from mlir_async_pipe.checker.phases.path_state import PathState


def checked(**changes: str) -> Checked:
    text = cluster_rings.text(**changes)
    return check_text(text.replace("WG", "#gpu.address_space<workgroup>"))


def reasons(found: Checked) -> set[str]:
    return {hazard.reason for hazard in found.report.of("hazards")}


RINGS: dict[str, dict[str, str]] = {
    "each block copies its half": {},
    "a meeting that tells of the mbarriers alone": {"meet_first": RELAXED},
    "one block copies for both": ISSUED_BY_ONE,
    "arrivals in the other order": {
        "arrive_remote": cluster_rings.PARTS["arrive here"],
        "arrive_here": cluster_rings.PARTS["arrive remote"],
    },
    "the rank as the block's place": {"other": cluster_rings.BY_PLACE},
}


@pytest.mark.parametrize("trips", ["five tiles", "any number of tiles"])
@pytest.mark.parametrize("name", RINGS)
def test_a_ring_of_two_blocks_is_proven(name, trips):
    more = ANY_TRIPS if trips.startswith("any") else {}
    found = checked(**RINGS[name], **more)
    assert not found.unsafe | found.unknown
    assert found.accesses >= 3


MUTANTS: dict[str, tuple[dict[str, str], str]] = {
    "no remote arrival": ({"arrive_remote": ""}, "deadlock"),
    "no arrival here": ({"arrive_here": ""}, "deadlock"),
    "a relaxed remote arrival": ({"arrive_remote": REMOTE_AT_ONCE}, "overwrite-in-flight"),
    "a remote arrival that releases to its own block": (
        {"arrive_remote": TO_THE_BLOCK},
        "overwrite-in-flight",
    ),
    "a relaxed arrival here": ({"arrive_here": HERE_AT_ONCE}, "phase-overtaken"),
    "arrivals of one block are enough": ({"arrivals": "%c1"}, "phase-overtaken"),
    "both arrivals here": (
        {"other": "%other = arith.ori %rank, %rank : i32"},
        "overwrite-in-flight",
    ),
    "always block 0": ({"other": "%other = arith.subi %one, %one : i32"}, "too-many-arrivals"),
    # A reader that is past block 0 may not have come to its own mbarrier when block 0's comes again.
    "all arrive in both blocks, and one copies": (
        ISSUED_BY_ONE
        | {"arrivals": "%c2", "arrive_remote": cluster_rings.PARTS["arrive remote"]}
        | {"other": cluster_rings.ISSUED_BY_ONE["other"].replace("constant 0", "xori %one, %rank")},
        "too-many-arrivals",
    ),
    "block 2 of 2": ({"other": "%other = arith.addi %one, %one : i32"}, "out-of-bounds"),
    "no wait for empty": ({"wait_empty": ""}, "too-many-arrivals"),
    "no meeting first": ({"meet_first": "gpu.barrier"}, "init-not-visible"),
    "no fence": ({"fence": ""}, "missing-fence"),
    "relaxed, and no fence": ({"fence": "", "meet_first": RELAXED}, "init-not-visible"),
    "no meeting last": ({"meet_last": ""}, "block-ended"),
    "the blocks meet alone last": ({"meet_last": "gpu.barrier"}, "block-ended"),
    "relaxed last": ({"meet_last": RELAXED}, "block-ended"),
    "no wait last": ({"meet_last": "nvvm.cluster.arrive {aligned}"}, "block-ended"),
    "no arrival last": ({"meet_last": "nvvm.cluster.wait {aligned}"}, "deadlock"),
    "two arrivals where all meet": (
        {"meet_last": "nvvm.cluster.arrive\n" + cluster_rings.PARTS["meet last"]},
        "too-many-arrivals",
    ),
    "a copy into one block": ({"mask": "1"}, "wrong-bytes"),
    "a copy into a block too many": ({"mask": "7"}, "out-of-bounds"),
    "the bytes of its own share": ({"bytes": "128"}, "wrong-bytes"),
    "too many bytes": ({"bytes": "384"}, "wrong-bytes"),
}


@pytest.mark.parametrize("trips", ["five tiles", "any number of tiles"])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_named(name, trips):
    changes, code = MUTANTS[name]
    found = checked(**changes, **(ANY_TRIPS if trips.startswith("any") else {}))
    assert {code for code, _ in found.unsafe} == {code}


def test_a_ring_that_waits_for_no_tile_is_not_safe():
    """The reads of its lanes are the whole slot, of which each copy is one half: perhaps another."""
    assert ("read-in-flight", "undecided-path") in {
        (hazard.code, hazard.reason) for hazard in checked(wait_full="").report.of("hazards")
    }


WAIT_THERE = """%there_ = nvgpu.mbarrier.get %full[%s] : BARS -> i64
%here = llvm.inttoptr %there_ : i64 to !llvm.ptr<3>
%its = nvvm.mapa %here, %other : !llvm.ptr<3> -> !llvm.ptr<7>
%any = llvm.addrspacecast %its : !llvm.ptr<7> to !llvm.ptr
%parity = arith.extui %odd : i1 to i32
%ticks = arith.constant 1000 : i32
nvvm.mbarrier.try_wait.parity %any, %parity, %ticks : !llvm.ptr, i32, i32"""
LOAD_THERE = """%number = memref.extract_aligned_pointer_as_index %buffer : memref<2x64xf32, WG> -> index
%wide = arith.index_cast %number : index to i64
%tile_here = llvm.inttoptr %wide : i64 to !llvm.ptr<3>
%tile_there = nvvm.mapa %tile_here, %other : !llvm.ptr<3> -> !llvm.ptr<7>
%loaded = llvm.load %tile_there : !llvm.ptr<7> -> f32
nvvm.mbarrier.arrive %there : !llvm.ptr<7>"""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"wait_full": WAIT_THERE}, "other-block"),
        ({"arrive_remote": LOAD_THERE}, "other-block"),
        ({"sizes": ring_sizes(cluster=None)}, "cluster-size"),
        ({"sizes": ring_sizes(threads=48)}, "cluster-size"),
        ({"sizes": ring_sizes(cluster=32)}, "cluster-size"),
    ],
)
def test_what_is_not_followed_is_unknown_with_a_reason(changes, reason):
    found = checked(**changes)
    assert not found.unsafe and found.unknown
    assert reason in reasons(found)


def test_blocks_that_go_on_in_step_are_compared_once_an_iteration(monkeypatch):
    """Not in each of their iterations: what they know of each other grows with their square."""
    asked: list[int] = []
    shape = PathState.shape_with

    def counted(state: PathState, memory: Hashable) -> Hashable:
        asked.append(1)
        return shape(state, memory)

    monkeypatch.setattr(PathState, "shape_with", counted)
    found = []
    for blocks in (2, 4, 8):
        asked.clear()
        mask = f"%mask = arith.constant {(1 << blocks) - 1} : i16"
        module = ClusterLoop((blocks, 1), parts=blocks, mask=mask).parsed()
        pipeline(module, check="error")
        found.append(len(asked))
    assert found[2] < 1.3 * found[0]


EXCHANGE = """
func.func @f(%out: memref<2xf32> {llvm.noalias}) attributes {SIZES} {
  %tile = memref.alloc() : memref<64xf32, WG>
  %one = arith.constant 1 : i32
  %c0 = arith.constant 0 : index
  %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
  %other = arith.subi %one, %rank : i32
  %number = memref.extract_aligned_pointer_as_index %tile : memref<64xf32, WG> -> index
  %wide = arith.index_cast %number : index to i64
  %here = llvm.inttoptr %wide : i64 to !llvm.ptr<3>
  %there = nvvm.mapa %here, %other : !llvm.ptr<3> -> !llvm.ptr<7>
  %v = llvm.load %there : !llvm.ptr<7> -> f32
  return
}"""


def test_a_load_from_another_block_alone_is_not_safe():
    """It is an access to memory that nobody else seems to name."""
    text = EXCHANGE.replace("SIZES", ring_sizes()).replace("WG", "#gpu.address_space<workgroup>")
    found: Any = check_text(text)
    assert not found.unsafe
    assert reasons(found) == {"other-block"}


def test_blocks_that_end_early_do_not_stop_the_others_where_all_meet():
    """Threads that have ended count as arrived: what is missing then is the end of the other block."""
    once = "%zero = arith.constant 0 : i32\n%is_first = arith.cmpi eq, %rank, %zero : i32\n"
    last = once + "scf.if %is_first {\n" + cluster_rings.PARTS["meet last"] + "\n}"
    found = checked(meet_last=last)
    assert {code for code, _ in found.unsafe} == {"block-ended"}


def by_lanes(lanes: str = "arith.cmpi ult, %lane, %c2", rank: str = "%lane") -> Checked:
    """The ring whose consumers arrive by several lanes at once, each in the block of its number."""
    arrives = f"""%named = arith.index_cast {rank} : index to i32
        %its = nvvm.mapa %mine, %named : !llvm.ptr<3> -> !llvm.ptr<7>
        nvvm.mbarrier.arrive %its : !llvm.ptr<7>"""
    text = cluster_rings.text(arrive_remote=arrives, arrive_here="")
    assert "arith.cmpi eq, %lane, %c0" in text
    text = text.replace("arith.cmpi eq, %lane, %c0", lanes)
    return check_text(text.replace("WG", "#gpu.address_space<workgroup>"))


def test_lanes_that_arrive_in_a_block_each_are_proven():
    found = by_lanes()
    assert not found.unsafe | found.unknown


@pytest.mark.parametrize(
    ("changed", "unsafe", "unknown"),
    [
        # One lane alone, in its own block; both in the first one; a lane for a block that is not there.
        ({"lanes": "arith.cmpi eq, %lane, %c0"}, {"wrong-bytes"}, False),
        ({"rank": "%c0"}, {"phase-overtaken"}, False),
        ({"lanes": "arith.cmpi ult, %lane, %c32"}, set(), True),
    ],
)
def test_lanes_that_arrive_elsewhere(changed, unsafe, unknown):
    found = by_lanes(**changed)
    assert {code for code, _ in found.unsafe} == unsafe
    assert bool(found.unknown) == unknown
