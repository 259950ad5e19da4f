"""A united memory of roles stands for all that are united in it: what passes there passes in each of them.

Covers: checker/phases/role_unions.py, checker/phases/phase_paths.py
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.byte_places import ByteRange
from mlir_async_pipe.checker.phases.cluster_blocks import ClusterBlocks
from mlir_async_pipe.checker.phases.mbarrier_state import BlockedError, CopyInFlight, Touch
from mlir_async_pipe.checker.phases.role_unions import history, shape_and_done, unite
from mlir_async_pipe.checker.phases.tensor_state import Product
from mlir_async_pipe.checker.phases.warp_clocks import LANES, WarpClasses, WarpClocks
from mlir_async_pipe.vocabulary.tensor_memory import Cells, ProductCells

Step = tuple
WARPS = [LANES, LANES << 32, LANES << 64]
EVERYBODY = sum(WARPS)
BARRIERS = [(1, 0), (1, 8), (1, 16)]
TILES = [ByteRange(2, 64 * n, 64 * n + 64, True) for n in range(2)]


def block() -> BlockMemory:
    """Three warps and three mbarriers, of one arrival, of one and of two, which all see."""
    clocks = WarpClocks.started(WarpClasses((1, 2, 4)))
    memory = BlockMemory(EVERYBODY, clocks=clocks)
    for key, count in zip(BARRIERS, (1, 1, 2), strict=True):
        memory.init(key, 0, 1, count)
    memory.fence(1, frozenset({"mbarriers", "workgroup"}))
    memory.meet()
    return memory


def waits(pick: random.Random, warp: int) -> Step:
    return ("wait", pick.choice(BARRIERS), pick.randint(3, 4), warp, pick.randint(0, 1))


def step_of_products(pick: random.Random) -> Step:
    """An arrival, a wait, a commit, a product, a load or store of the sums or a fence of some warp."""
    warp, key = pick.choice(WARPS), pick.choice(BARRIERS)
    thread = warp & -warp
    cells = Cells("sums", 8 * pick.randint(0, 1), 8 * pick.randint(1, 2))
    left = pick.choice([None, Cells("sums", 12, 16)])
    used = ProductCells(cells, pick.randint(0, 1), left)
    return pick.choice(
        [
            ("arrive", key, pick.randint(1, 2), thread, 1, 0),
            waits(pick, warp),
            ("commit_products", key, 5, thread),
            ("issue_product", Product(pick.randint(6, 7), thread, (), used)),
            ("use_tensor", pick.choice(["load", "store"]), cells, 8, warp),
            ("tensor_step", pick.choice(["landed", "stored", "fence_before", "fence_after"]), warp),
        ]
    )


def step_of_copies(pick: random.Random) -> Step:
    """An arrival, bytes that are announced, a copy on any mbarrier, a read, or a meeting with a number."""
    warp, key, tile = pick.choice(WARPS), pick.choice(BARRIERS), pick.choice(TILES)
    thread = warp & -warp
    number = pick.randint(1, 2)
    return pick.choice(
        [
            ("arrive", key, pick.randint(1, 2), thread, 1, 0),
            waits(pick, warp),
            ("announce", key, 5, thread, 0),
            ("issue_copy", key, thread, CopyInFlight(tile, 0, 6)),
            ("read", Touch(tile, 7, warp)),
            ("join_barrier", number, 8, warp, 64),
            ("meet_at", number, pick.randint(2, 3), 9, warp),
        ]
    )


def cluster() -> BlockMemory:
    """Three blocks of a warp, each with an mbarrier of one arrival, which have met."""
    clocks = WarpClocks.started(WarpClasses((1, 2, 4)))
    memory = BlockMemory(EVERYBODY, clocks=clocks, blocks=ClusterBlocks((3, 1, 1), 32))
    for rank, warp in enumerate(WARPS):
        memory.init((memory.blocks.own(1, rank), 0), 0, warp & -warp, 1)
        memory.fence(warp & -warp, frozenset({"mbarriers", "workgroup"}))
        memory.arrive_all(1, warp, releases=rank > 0)
    for warp in WARPS:
        memory.wait_all(2, warp)
    return memory


def step_of_blocks(pick: random.Random) -> Step:
    """An arrival anywhere, a wait, a meeting or the end of a block."""
    rank, blocks = pick.randint(0, 2), ClusterBlocks((3, 1, 1), 32)
    warp = WARPS[rank]
    there = (blocks.own(1, pick.randint(0, 2)), 0)
    return pick.choice(
        [
            ("arrive", there, pick.randint(3, 4), warp & -warp, 1, 0),
            ("wait", (blocks.own(1, rank), 0), 5, warp, pick.randint(0, 1)),
            ("arrive_all", 6, warp),
            ("wait_all", 7, warp),
            ("leave", warp),
        ]
    )


def passes(memory: BlockMemory, taken: Step) -> bool:
    """Whether a step passes, after which the memory is as it says."""
    name, *values = taken
    named = {"releases": True} if name == "arrive_all" else {}
    try:
        getattr(memory, name)(*values, **named)
    except (PhaseFault, BlockedError, KeyError):
        return False
    return True


def walked(start: Callable[[], BlockMemory], steps: list[Step], names: tuple) -> BlockMemory:
    """The memory after the steps that pass."""
    memory = start()
    memory.names, memory.bits = names
    for taken in steps:
        trial = memory.copy()
        if passes(trial, taken):
            memory = trial
    return memory


def pairs(
    start: Callable[[], BlockMemory], step: Callable[[random.Random], Step], seeds: int
) -> list[tuple[BlockMemory, BlockMemory]]:
    """Memories in which the same comes next, and not the same was done or is known."""
    names: tuple[dict, dict] = ({}, {})
    found, by_shape = [], {}
    for seed in range(seeds):
        pick = random.Random(seed)
        steps = [step(pick) for _ in range(pick.randint(6, 16))]
        others = list(steps)
        for at in pick.sample(range(len(steps) - 1), 4):
            others[at], others[at + 1] = others[at + 1], others[at]
        for each in (steps, others):
            memory = walked(start, each, names)
            shape, done = shape_and_done(memory)
            for before, there in by_shape.setdefault(shape, [])[:4]:
                if there != done:
                    found.append((before, memory))
            by_shape[shape].append((memory, done))
    return found


CASES = {
    "products": (block, step_of_products),
    "copies": (block, step_of_copies),
    "blocks": (cluster, step_of_blocks),
}


@pytest.fixture(scope="module", params=CASES)
def met(request):
    start, step = CASES[request.param]
    found = pairs(start, step, 700)
    assert len(found) > 100
    return step, found[:1500]


def stands_for(united: BlockMemory, memory: BlockMemory) -> bool:
    """Whether the same comes next, and who knows of something that was done in a memory does so there."""
    (shape, all_done), (same, done) = shape_and_done(united), shape_and_done(memory)
    known = zip(all_done.known, done.known, strict=True)
    return (
        shape == same
        and not done.all & ~all_done.all
        and not any(here & done.all & ~there for here, there in known)
    )


def test_what_passes_in_a_united_memory_passes_in_both_and_it_stands_for_them_after_that(met):
    step, found = met
    went_on = more = same = 0
    for number, (one, other) in enumerate(found):
        mine, theirs = shape_and_done(one)[1], shape_and_done(other)[1]
        both = mine.with_those_of(theirs)
        memories = [other.copy(), one.copy(), other.copy()]
        try:
            unite(memories[0], both, one)
        except NotFollowedError:
            continue
        assert shape_and_done(memories[0])[1].all == both.all
        more += both.all not in (mine.all, theirs.all)
        same += mine.all == theirs.all
        pick = random.Random(number)
        for _ in range(16):
            united, *rest = memories
            assert all(stands_for(united, memory) for memory in rest)
            taken = step(pick)
            tried = [memory.copy() for memory in memories]
            passed = [passes(memory, taken) for memory in tried]
            if passed[0]:
                assert all(passed), taken
                memories, went_on = tried, went_on + 1
    assert went_on > 300
    assert more > 10
    assert same > 3


def test_a_memory_united_with_itself_is_as_it_was(met):
    for one, _ in met[1]:
        shape, done = shape_and_done(one)
        same = one.copy()
        unite(same, done, one)
        assert shape_and_done(same) == (shape, done)
        assert history(same) == history(one)


def phases_over(times: int, names: tuple, *, named: bool) -> BlockMemory:
    """Two warps have met so many times, at a barrier that has a number, or each at one mbarrier."""
    memory = block()
    memory.names, memory.bits = names
    for number in range(times):
        if named:
            phases = [memory.join_barrier(3, 1, warp, 64) for warp in WARPS[:2]]
            for warp, phase in zip(WARPS[:2], phases, strict=True):
                memory.meet_at(3, phase, 1, warp)
        else:
            memory.arrive(BARRIERS[0], 1, 1, 1, 0)
            memory.wait(BARRIERS[0], 2, LANES, number % 2)
    return memory


def test_only_mbarriers_have_a_parity() -> None:
    names: tuple[dict, dict] = ({}, {})
    two, three = (shape_and_done(phases_over(n, names, named=True)) for n in (2, 3))
    assert two == three
    two, three, four = (shape_and_done(phases_over(n, names, named=False))[0] for n in (2, 3, 4))
    assert two != three and two == four
