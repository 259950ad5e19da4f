"""A state of roles stands for those in which rings began later, and for those in which less was done.

Covers: checker/phases/rotations.py, checker/phases/ring_moves.py, checker/phases/role_unions.py,
checker/phases/byte_places.py
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import replace
from functools import cache

import pytest

from helpers.machine_programs import parse
from helpers.paths import ROOT
from helpers.phase_mutants import checked
from mlir_async_pipe import pipeline
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases import followed_kernel
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.byte_places import (
    BEGINNING,
    ByteRange,
    EachRotation,
    of_each,
    rotated,
    settled,
)
from mlir_async_pipe.checker.phases.cluster_blocks import ClusterBlocks
from mlir_async_pipe.checker.phases.mbarrier_state import BlockedError, CopyInFlight, Touch
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge
from mlir_async_pipe.checker.phases.ring_moves import RingArea, RingMoves
from mlir_async_pipe.checker.phases.role_unions import shape_and_done, unite
from mlir_async_pipe.checker.phases.rotations import Rotations
from mlir_async_pipe.checker.phases.tensor_state import Product
from mlir_async_pipe.checker.phases.warp_clocks import LANES, WarpClasses, WarpClocks
from mlir_async_pipe.checker.precision import RefineError, Rung
from mlir_async_pipe.vocabulary.tensor_memory import Cells, ProductCells

sys.path.insert(0, str(ROOT / "examples"))
from generate_blackwell_gemm import BlackwellGemm
from generate_hopper_gemm import HopperGemm

# Memory ---------------------------------------------------------------------------------------

WARPS = [LANES, LANES << 32, LANES << 64]
EVERYBODY = sum(WARPS)
SLOTS, TILE = 3, 64
FULL, EMPTY, RING = 1, 2, 3
# One block of three warps, and a cluster of three blocks of one warp each.
ALONE, CLUSTER = ClusterBlocks(), ClusterBlocks((3, 1, 1), 32)


def keys(blocks: ClusterBlocks, rank: int) -> list[tuple[int, int]]:
    groups = (blocks.own(group, rank) for group in (FULL, EMPTY))
    return [(group, 8 * slot) for group in groups for slot in range(SLOTS)]


def moves(blocks: ClusterBlocks = ALONE) -> RingMoves:
    areas = {}
    for rank in range(blocks.count):
        areas |= {blocks.own(group, rank): [RingArea(0, 8, 8)] for group in (FULL, EMPTY)}
        areas[blocks.own(RING, rank)] = [RingArea(0, TILE, TILE)]
    return RingMoves(2 * SLOTS, areas)


def started(blocks: ClusterBlocks = ALONE) -> BlockMemory:
    """Three warps and in each block two rings of mbarriers of one arrival, which all see."""
    clocks = WarpClocks.started(WarpClasses((1, 2, 4)))
    memory = BlockMemory(EVERYBODY, clocks=clocks, blocks=blocks)
    for rank in range(blocks.count):
        thread = WARPS[rank] & -WARPS[rank]
        for key in keys(blocks, rank):
            memory.init(key, 0, thread, 1)
        memory.fence(thread, frozenset({"mbarriers", "workgroup"}))
    memory.meet()
    memory.moves = moves(blocks)
    return memory


def step(pick: random.Random, blocks: ClusterBlocks = ALONE, *, products: bool = False) -> tuple:
    """What some warp may do with a slot: in a cluster it copies and arrives in any block; perhaps it issues `products`
    that add up in tensor memory."""
    number = pick.randint(0, 2)
    warp, slot = WARPS[number], pick.randint(0, SLOTS - 1)
    place = pick.randrange(2 * SLOTS)
    mine, other = blocks.rank_of(warp), pick.randrange(blocks.count) if blocks.threads else 0
    thread = warp & -warp

    def tile(rank: int) -> ByteRange:
        return ByteRange(blocks.own(RING, rank), TILE * slot, TILE * slot + TILE, True)

    into = (blocks.own(FULL, other), 8 * slot)
    if products and pick.randint(0, 2) == 0:
        cells = Cells("sums", 8 * pick.randint(0, 1), 8 * pick.randint(1, 2))
        product = Product(12, thread, (Touch(tile(mine), 12, thread),), ProductCells(cells, 1))
        return pick.choice(
            [
                ("issue_product", product),
                ("commit_products", keys(blocks, mine)[place], 13, thread),
                ("use_tensor", "load", cells, 14 + number, warp),
                ("tensor_step", pick.choice(("landed", "fence_before", "fence_after")), warp),
            ]
        )
    return pick.choice(
        [
            ("arrive", keys(blocks, other)[place], 1, thread, 1, 0),
            ("wait", keys(blocks, mine)[place], 2 + number, warp, pick.randint(0, 1)),
            ("read", Touch(tile(mine), 5 + number, warp)),
            ("issue_read", "wgmma", Touch(tile(mine), 8 + number, warp)),
            ("commit", "wgmma", warp),
            ("wait_group", "wgmma", warp, pick.randint(0, 1)),
            ("issue_copy", into, thread, CopyInFlight(tile(other), 0, 11)),
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


def walked(
    steps: list[tuple], names: tuple[dict, dict], blocks: ClusterBlocks = ALONE
) -> BlockMemory:
    """The memory after the steps that pass."""
    memory = started(blocks)
    memory.names, memory.bits = names
    for taken in steps:
        trial = memory.copy()
        if passes(trial, taken):
            memory = trial
    return memory


def moved(taken: tuple, by: int, how: RingMoves) -> tuple:
    """A step in the memory of rings that begin later."""
    name, *values = taken
    if name in ("arrive", "wait", "issue_copy", "commit_products"):
        values[0], flips = how.key(values[0], by)
        if name == "wait":
            values[-1] ^= flips
    return (name, *(how.touched(value, by) for value in values))


@pytest.mark.parametrize("by", range(1, 2 * SLOTS))
@pytest.mark.parametrize(
    ("blocks", "products"),
    [(ALONE, False), (CLUSTER, False), (ALONE, True)],
    ids=["a block", "a cluster", "tensor memory"],
)
def test_a_step_passes_in_a_memory_of_rings_that_begin_later_if_it_does_in_this(
    by: int, blocks: ClusterBlocks, products: bool
) -> None:
    passed, in_tensor_memory = 0, 0
    for seed in range(40):
        pick, names = random.Random(seed), ({}, {})
        steps = [step(pick, blocks, products=products) for _ in range(60)]
        memory = walked(steps, names, blocks)
        later = memory.copy()
        moves(blocks).rotate(later, by)
        for _ in range(20):
            taken = step(pick, blocks, products=products)
            one, other = memory.copy(), later.copy()
            goes_on = passes(one, taken)
            assert passes(other, moved(taken, by, moves(blocks))) == goes_on, taken
            if goes_on:
                memory, later, passed = one, other, passed + 1
                in_tensor_memory += taken[0] in ("issue_product", "use_tensor")
        same = memory.copy()
        moves(blocks).rotate(same, by)
        (shape, done), (there, other_done) = shape_and_done(same), shape_and_done(later)
        assert (shape, done.all, done.known) == (there, other_done.all, other_done.known)
    assert passed > 200
    assert (in_tensor_memory > 20) == products


@pytest.fixture(scope="module")
def met() -> list[tuple[BlockMemory, BlockMemory]]:
    """Memories in which the same comes next, and not the same was done."""
    names: tuple[dict, dict] = ({}, {})
    by_shape: dict = {}
    for seed in range(1500):
        pick = random.Random(seed)
        memory = walked([step(pick) for _ in range(pick.randint(4, 14))], names)
        by_shape.setdefault(shape_and_done(memory)[0], []).append(memory)
    found = []
    for memories in by_shape.values():
        found += [(memories[0], other) for other in memories[1:4]]
    return [
        (one, other)
        for one, other in found
        if shape_and_done(one)[1][:2] != shape_and_done(other)[1][:2]
    ]


def test_what_passes_where_more_was_done_passes_where_less_was(met) -> None:
    went_on = more = 0
    assert len(met) > 100
    for number, (one, other) in enumerate(met):
        done, there = shape_and_done(one)[1], shape_and_done(other)[1]
        both = done.with_those_of(there)
        united = other.copy()
        unite(united, both, one)
        shape, now = shape_and_done(united)
        assert shape == shape_and_done(one)[0]
        assert (now.all, now.known) == (both.all, both.known)
        more += both.all not in (done.all, there.all)
        memories, pick = [united, one.copy(), other.copy()], random.Random(number)
        for _ in range(16):
            taken = step(pick)
            tried = [memory.copy() for memory in memories]
            passed = [passes(memory, taken) for memory in tried]
            if passed[0]:
                assert all(passed), taken
                assert len({shape_and_done(memory)[0] for memory in tried}) == 1
                memories, went_on = tried, went_on + 1
    assert went_on > 300
    assert more > 10


def test_who_is_no_slot_of_a_ring_stays_and_who_is_in_two_is_not_followed() -> None:
    how = moves()
    assert how.key((FULL, 16), 1) == ((FULL, 0), 1)
    assert how.key((FULL, 0), SLOTS) == ((FULL, 0), 1)
    assert how.key((9, 16), 1) == ((9, 16), 0)
    assert how.region(ByteRange(RING, 64, 80), 2) == ByteRange(RING, 0, 16)
    assert how.region(ByteRange(RING), 2) == ByteRange(RING)
    assert how.region(ByteRange(RING, 192, 256), 2) == ByteRange(RING, 192, 256)
    with pytest.raises(NotFollowedError):
        how.region(ByteRange(RING, 32, 96), 1)


def at_slots(*lows: int) -> list:
    return [[("read", (Touch(ByteRange(7, low, low + 16), 1, 1),))] for low in lows]


def test_rings_are_found_where_their_slots_come_in_order() -> None:
    how = RingMoves(6)
    with pytest.raises(RefineError) as found:
        how.check(at_slots(32, 64, 0, 32, 64, 0))
    assert found.value.more == {"rings": {7: [RingArea(0, 32, 16)]}}
    how = RingMoves(6, found.value.more["rings"])
    how.check(at_slots(32, 64, 0, 32, 64, 0))
    # The other half of each slot belongs to it.
    with pytest.raises(RefineError) as found:
        how.check(at_slots(16, 48, 80, 16, 48, 80))
    how = RingMoves(6, found.value.more["rings"])
    assert how.areas == {7: [RingArea(0, 32, 32)]}
    for wrong in (at_slots(0, 64, 32, 0, 64, 32), at_slots(0), at_slots(0, 32, 0, 32, 0, 32)):
        with pytest.raises(NotFollowedError):
            how.check(wrong)


# Numbers --------------------------------------------------------------------------------------

N, K = (forms.of_atom(Atom(kind, key)) for kind, key in (("size", 1), ("trip", (0, None))))


def ring(index: Form, *values: int) -> object:
    return of_each((index,), values, len(values))


def test_a_number_of_two_sums_is_one_of_their_sum_if_that_decides() -> None:
    def slot(i: int) -> int:
        return i % 2

    pairs = tuple(slot(i + j) for i in range(4) for j in range(4))
    assert of_each((BEGINNING, N), pairs, 4) == ring(forms.add(BEGINNING, N), 0, 1, 0, 1)
    assert of_each((BEGINNING, N), tuple(i for i in range(4) for _ in range(4)), 4) == ring(
        BEGINNING, 0, 1, 2, 3
    )
    assert of_each((BEGINNING, N), tuple(range(16)), 4) == EachRotation(
        (BEGINNING, N), tuple(range(16)), 4
    )
    assert of_each((BEGINNING, BEGINNING), tuple(range(16)), 4) == ring(BEGINNING, 0, 5, 10, 15)
    assert ring(BEGINNING, 3, 3, 3, 3) == 3
    assert ring(forms.add(BEGINNING, Form(5)), 0, 1, 2, 3) == ring(BEGINNING, 1, 2, 3, 0)


def test_numbers_are_settled_by_what_is_known_and_turn_with_the_ring() -> None:
    left = forms.subtract(forms.add(BEGINNING, N), K)
    value, known = ring(left, 0, 1, 2, 3), Knowledge()
    assert settled(value, known) == value
    known.learn(forms.subtract(N, K), 1, 1)
    assert settled(value, known) == ring(BEGINNING, 1, 2, 3, 0)
    assert settled(ring(forms.subtract(N, K), 0, 1, 2, 3), known) == 1
    assert rotated(ring(BEGINNING, 0, 1, 2, 3), 3) == ring(BEGINNING, 3, 0, 1, 2)
    assert rotated(ring(N, 0, 1, 2, 3), 3) == ring(N, 0, 1, 2, 3)


# Kernels --------------------------------------------------------------------------------------


GEMM = HopperGemm(tile_n=64, persistent=True, roles="specialised")
THROUGH_TILES = replace(GEMM, store="tma", out="f16")
GEMMS = {
    "specialised": GEMM,
    "ping-pong": replace(GEMM, roles="ping-pong"),
    "cluster": replace(THROUGH_TILES, cluster=2),
    "alternating": replace(THROUGH_TILES, warpgroups=2),
    "alternating, cluster": replace(THROUGH_TILES, warpgroups=2, cluster=2),
    "tensor memory": BlackwellGemm(tile_n=64, persistent=True, roles="specialised"),
}


@cache
def kernel(roles: str, slots: int) -> str:
    text = replace(GEMMS[roles], stages=slots).module()
    if roles.startswith("alternating"):
        text = text.replace('roles = "specialised"', 'roles = "alternating"')
    module = parse(text)
    pipeline(module, check="none")
    return str(module)


@pytest.fixture
def proofs(monkeypatch):
    """Whether kernels were proven with rings that begin anywhere, and how to follow them without."""
    made: list[bool] = []
    first = followed_kernel._followed

    def note(*values, **named):
        paths, found = first(*values, **named)
        if Rung.ROTATED in values:
            made.append(not found.reason)
        return paths, found

    monkeypatch.setattr(followed_kernel, "_followed", note)
    return made


@pytest.mark.parametrize(
    ("roles", "slots"),
    [
        *((roles, 2) for roles in GEMMS if roles != "tensor memory"),
        *(("specialised", 8), ("ping-pong", 8), ("alternating", 4)),
        *(("tensor memory", 3), ("tensor memory", 8)),
    ],
)
def test_rings_of_generated_kernels_are_proven_wherever_they_begin(roles, slots, proofs) -> None:
    text = kernel(roles, slots)
    proofs.clear()
    assert checked(text).verdict == "safe"
    assert proofs == [True]


# What is changed, as a pattern, and which of those that fit. The slot of a ring and its parity are no numbers any more
# where `UNDECIDED` is changed.
WRONG = {
    "no wait for the order": ("ping-pong", r"\n[^\n]*nvvm\.barrier id = [^\n]*", "", 0),
    "no arrival for the order": ("ping-pong", r"\n[^\n]*nvvm\.barrier\.arrive id = [^\n]*", "", 1),
    "the other's tiles count once": ("ping-pong", r"remui (%\d+), %\w+ : index(?=\n[^\n]*\n[^\n]*cmpi uge)", r"remui \1, %c1 : index", 0),
    "no flip beyond half": ("ping-pong", r"arith\.cmpi uge, ", "arith.cmpi ugt, ", 0),
    "one product more in flight": ("ping-pong", r"wait\.group\.sync\.aligned 1", "wait.group.sync.aligned 2", 0),
    "nothing waits for the last": ("specialised", r"\n[^\n]*wait\.group\.sync\.aligned 0", "", 0),
    "no last arrival": ("specialised", r"\n[^\n]*nvgpu\.mbarrier\.arrive %\d+\[[^\n]*", "", 1),
    "no arrival": ("specialised", r"\n[^\n]*nvgpu\.mbarrier\.arrive %\d+\[[^\n]*", "", 0),
    "no wait for the slot": ("specialised", r"\n[^\n]*try_wait\.parity[^\n]*", "", 1),
    "no wait for the tile": ("specialised", r"\n[^\n]*try_wait\.parity[^\n]*", "", 0),
    "parity does not flip": ("specialised", r"arith\.xori (%arg\d+), (%\d+) : i1", r"arith.ori \1, \2 : i1", 0),
    "no arrival, in a cluster": ("cluster", r"\n[^\n]*nvvm\.mbarrier\.arrive %\d+ : !llvm\.ptr<7>", "", 1),
    "no wait for the slot, in a cluster": ("cluster", r"\n[^\n]*try_wait\.parity[^\n]*", "", 1),
    "no wait for the tile, in a cluster": ("cluster", r"\n[^\n]*try_wait\.parity[^\n]*", "", 0),
    "a block may end, in a cluster": ("cluster", r"\n[^\n]*nvvm\.cluster\.wait", "", 1),
    "tiles of C overlap, in a cluster": ("cluster", r"wait_group 1 {read}", "wait_group 2 {read}", 0),
    "no turns": ("alternating", r"\n[^\n]*nvvm\.barrier\.arrive id = [^\n]*", "", 1),
    "one turn more": ("alternating", r"\n[^\n]*nvvm\.barrier\.arrive id = [^\n]*", "", 0),
    "no wait for the tile, in tensor memory": ("tensor memory", r"\n[^\n]*try_wait\.parity[^\n]*", "", 1),
    "no wait for the slot, in tensor memory": ("tensor memory", r"\n[^\n]*try_wait\.parity[^\n]*", "", 0),
    "no commit, in tensor memory": ("tensor memory", r"\n[^\n]*tcgen05\.commit[^\n]*", "", 0),
    "no last commit, in tensor memory": ("tensor memory", r"\n[^\n]*tcgen05\.commit[^\n]*", "", 1),
    "fewer bytes announced": ("specialised", r"constant 24576 : index", "constant 24575 : index", 0),
}  # fmt: skip

UNDECIDED = {"no flip beyond half", "parity does not flip"}


def changed(name: str) -> str:
    roles, pattern, instead, number = WRONG[name]
    text = kernel(roles, 3 if roles == "tensor memory" else 2)
    at = list(re.finditer(pattern, text))[number]
    return text[: at.start()] + at.expand(instead) + text[at.end() :]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_named_as_if_its_rings_began_with_the_first_slot(
    name, proofs, monkeypatch
) -> None:
    text = changed(name)
    proofs.clear()
    found = checked(text)
    assert found.verdict == ("unknown" if name in UNDECIDED else "unsafe")
    assert proofs[0] is False
    monkeypatch.setattr(Rotations, "of", classmethod(lambda cls, *_: None))
    assert checked(text) == found


def test_a_slot_that_is_asked_for_by_number_is_followed_as_before(proofs) -> None:
    """One warp reads what was copied into slot 0 only: nothing of that is the same in slot 1."""
    text = kernel("specialised", 2)
    wait = re.search(r"try_wait\.parity (%\d+)\[(%arg\d+)\], (%arg\d+), (%\w+)", text)
    assert wait is not None
    (at,) = [m for m in re.finditer(r"\n( *)nvgpu\.mbarrier\.try_wait[^\n]*\n", text)][:1]
    more = (
        f"{at[1]}%first = arith.cmpi eq, {wait[2]}, %c0 : index\n"
        f"{at[1]}scf.if %first {{\n{at[1]}  %seen = memref.load %arg4[%c0, %c0, %c0] : "
        "memref<2x128x64xf16, #gpu.address_space<workgroup>>\n"
        f"{at[1]}}}\n"
    )
    assert checked(text[: at.end()] + more + text[at.end() :]).verdict == "safe"
    assert proofs == [False]
