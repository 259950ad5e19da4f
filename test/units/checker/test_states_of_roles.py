"""A merged memory of roles stands for all that are merged in it: what passes there passes in each of them.

Covers: checker/phases/role_shapes.py, checker/phases/phase_paths.py
"""

from __future__ import annotations

import random

import pytest

from mlir_async_pipe.checker.phase_faults import PhaseFault
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.mbarrier_state import BlockedError
from mlir_async_pipe.checker.phases.role_shapes import least, lower, shape_and_heard
from mlir_async_pipe.checker.phases.tensor_state import Cells, Product
from mlir_async_pipe.checker.phases.warp_clocks import LANES, WarpClasses, WarpClocks

WARPS = [LANES, LANES << 32, LANES << 64]
EVERYBODY = sum(WARPS)
BARRIERS = [(1, 0), (1, 8), (1, 16)]


def started() -> BlockMemory:
    """Three warps and three mbarriers of one arrival, which all see."""
    clocks = WarpClocks.started(WarpClasses((1, 2, 4)))
    memory = BlockMemory(EVERYBODY, clocks=clocks)
    for key in BARRIERS:
        memory.init(key, 0, 1, 1)
    memory.fence(1, frozenset({"mbarriers", "workgroup"}))
    memory.meet()
    return memory


def step(pick: random.Random) -> tuple:
    """An arrival, a wait, a commit, a product, a load of the sums or a fence of some warp."""
    warp, key = pick.choice(WARPS), pick.choice(BARRIERS)
    thread = warp & -warp
    cells = Cells("sums", 8 * pick.randint(0, 1), 8 * pick.randint(1, 2))
    return pick.choice(
        [
            ("arrive", key, pick.randint(1, 2), thread, 1, 0),
            ("wait", key, pick.randint(3, 4), warp, pick.randint(0, 1)),
            ("commit_products", key, 5, thread),
            ("issue_product", Product(pick.randint(6, 7), thread, (), cells)),
            ("use_tensor", "load", cells, 8, warp),
            ("tensor_step", pick.choice(["landed", "fence_before", "fence_after"]), warp),
        ]
    )


def passes(memory: BlockMemory, taken: tuple) -> bool:
    """Whether a step passes, after which the memory is as it says."""
    name, *values = taken
    try:
        getattr(memory, name)(*values)
    except (PhaseFault, BlockedError):
        return False
    return True


def walked(steps: list[tuple], names: dict) -> BlockMemory:
    """The memory after the steps that pass."""
    memory = started()
    memory.names = names
    for taken in steps:
        trial = memory.copy()
        if passes(trial, taken):
            memory = trial
    return memory


def pairs() -> list[tuple[BlockMemory, BlockMemory]]:
    """Memories in which the same was done in another order, so that not the same was heard."""
    names: dict = {}
    found = []
    for seed in range(700):
        pick = random.Random(seed)
        steps = [step(pick) for _ in range(pick.randint(6, 16))]
        others = list(steps)
        for at in pick.sample(range(len(steps) - 1), 4):
            others[at], others[at + 1] = others[at + 1], others[at]
        one, other = walked(steps, names), walked(others, names)
        (shape, heard), (same, less) = shape_and_heard(one), shape_and_heard(other)
        if shape == same and heard != less:
            found.append((one, other))
    return found


@pytest.fixture(scope="module")
def met() -> list[tuple[BlockMemory, BlockMemory]]:
    found = pairs()
    assert len(found) > 30
    return found


def is_in(heard: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return not any(one & ~two for one, two in zip(heard, other, strict=True))


def test_what_passes_in_a_merged_memory_passes_in_both_and_leaves_it_above_them(met):
    lost = went_on = 0
    for number, (one, other) in enumerate(met):
        both = shape_and_heard(one)[1], shape_and_heard(other)[1]
        heard = least(*both)
        lost += heard not in both
        memories = [other.copy(), one.copy(), other.copy()]
        lower(memories[0], heard)
        pick = random.Random(number)
        for _ in range(12):
            shapes = [shape_and_heard(memory) for memory in memories]
            assert len({shape for shape, _ in shapes}) == 1
            assert all(is_in(shapes[0][1], heard) for _, heard in shapes)
            taken = step(pick)
            tried = [memory.copy() for memory in memories]
            passed = [passes(memory, taken) for memory in tried]
            if passed[0]:
                assert all(passed), taken
                memories, went_on = tried, went_on + 1
    assert went_on > 100
    assert lost > 3, (lost, len(met))


def test_who_has_heard_the_same_is_lowered_to_the_same(met):
    for one, _ in met:
        shape, heard = shape_and_heard(one)
        same = one.copy()
        lower(same, heard)
        assert shape_and_heard(same) == (shape, heard)


def phases_over(times: int, names: dict, *, named: bool) -> BlockMemory:
    """Two warps have met so many times, at a barrier that has a number, or each at one mbarrier."""
    memory = started()
    memory.names = names
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
    names: dict = {}
    two, three = (shape_and_heard(phases_over(n, names, named=True)) for n in (2, 3))
    assert two == three
    two, three, four = (shape_and_heard(phases_over(n, names, named=False))[0] for n in (2, 3, 4))
    assert two != three and two == four
