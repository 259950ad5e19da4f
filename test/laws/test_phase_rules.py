"""The rules of docs/phases.md hold, and are tight, in every order of the warps and copies.

Each law is: a form is right for all n up to 2V + 2 and two executions if and only if its formula
says so. ASYNC_PIPE_NIGHTLY=1 takes three warps and more slots everywhere.

Covers: docs/phases.md, test/helpers/phase_search
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable

import pytest

from helpers.phase_search.explore import arrive, expect, explore, load, mma, wait, wait_group
from helpers.phase_search.forms import DRAINS, ORDERS, Loop, committed, in_one, specialised, stores

NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"
AFTER, BETWEEN, BEFORE, ENDS = ORDERS
# (slots, warps): three warps where that is cheap.
SIZES = [(1, 2), (2, 2), (3, 2), (1, 3), (2, 3)] + ([(3, 3), (4, 2)] if NIGHTLY else [])


def first_wrong(tries: Iterable[tuple[object, str]]) -> tuple[object, str] | None:
    """The first try that goes wrong, and how."""
    return next((found for found in tries if found[1]), None)


def twice(order: str, slots: int, warps: int, ahead: int, in_flight: int) -> list[str]:
    """What goes wrong for each n up to 2V + 2, with the loop run twice."""
    found = []
    for tiles in range(2 * slots + 3):
        loops = [Loop(tiles, ahead, in_flight)] * 2
        found.append(in_one(ORDERS[order], slots, warps, loops, meet_after=False).wrong)
        if found[-1]:
            break
    return found


@pytest.mark.parametrize(("slots", "warps"), SIZES)
@pytest.mark.parametrize(("order", "more"), [(AFTER, 0), (BETWEEN, 1), (BEFORE, 1), (ENDS, 1)])
def test_as_many_slots_as_tiles_ahead_and_products_in_flight(
    order: str, more: int, slots: int, warps: int
) -> None:
    """V >= d + p after wait_group and barrier, V >= d + p + 1 in the other orders."""
    for ahead, in_flight in itertools.product((1, 2, 3), (0, 1, 2)):
        if ahead + in_flight + more > slots + 1:
            continue
        right = not any(twice(order, slots, warps, ahead, in_flight))
        assert right == (slots >= ahead + in_flight + more), (ahead, in_flight)


@pytest.mark.parametrize(
    ("order", "ahead", "in_flight", "tiles"),
    [(AFTER, 1, 1, 2), (BETWEEN, 1, 0, 2), (BETWEEN, 1, 1, 2), (BEFORE, 1, 0, 2), (ENDS, 1, 0, 2)],
)
def test_one_slot_too_few_goes_wrong_at_the_second_tile(
    order: str, ahead: int, in_flight: int, tiles: int
) -> None:
    """One slot, one execution: the smallest loop that fails."""
    wrong = [
        in_one(ORDERS[order], 1, 2, [Loop(n, ahead, in_flight)], meet_after=False).wrong
        for n in range(tiles + 1)
    ]
    assert wrong == [""] * tiles + ["race"]


def test_a_fault_that_one_execution_does_not_show() -> None:
    """Two slots, one tile ahead, two products in flight: two tiles alone are right, and the copy
    of the next execution overwrites what is still read."""
    once, again = [Loop(2, 1, 2)], [Loop(2, 1, 2)] * 2
    assert in_one(ORDERS[AFTER], 2, 2, once, meet_after=False).wrong == ""
    assert in_one(ORDERS[AFTER], 2, 2, again, meet_after=False).wrong == "race"


@pytest.mark.parametrize(("slots", "warps"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)])
def test_a_specialised_loop_needs_one_slot_more_than_products(slots: int, warps: int) -> None:
    """V >= p + 1; one too few hangs, both roles waiting for each other, at the (V + 1)st tile."""
    for in_flight in (0, 1, 2):
        wrong = [
            specialised(slots, warps, [Loop(n, 0, in_flight)] * 2).wrong
            for n in range(2 * slots + 3)
        ]
        if slots >= in_flight + 1:
            assert not any(wrong), in_flight
        else:
            assert wrong[: slots + 2] == [""] * (slots + 1) + ["hang"], in_flight


def pairs(slots: int) -> Iterable[tuple[int, int]]:
    return itertools.product(range(slots + 2), repeat=2)


@pytest.mark.parametrize("meet_after", [False, True], ids=["no barrier", "barrier"])
@pytest.mark.parametrize("slots", [1, 2, 3] if NIGHTLY else [1, 2])
def test_two_loops_on_the_same_barriers(slots: int, meet_after: bool) -> None:
    """V >= max(d1 + p1, d2 + p2, d2 + p1); with a barrier after the first loop's wait_group 0 the
    third sum falls away."""
    for d1, d2, p1, p2 in itertools.product((1, 2), (1, 2), (0, 1), (0, 1)):
        apart = max(d1 + p1, d2 + p2)
        if apart > slots + 1:
            continue
        wrong = first_wrong(
            (
                (n, m),
                in_one(
                    ORDERS[AFTER], slots, 2, [Loop(n, d1, p1), Loop(m, d2, p2)], meet_after
                ).wrong,
            )
            for n, m in pairs(slots)
        )
        needed = apart if meet_after else max(apart, d2 + p1)
        assert (wrong is None) == (slots >= needed), (d1, p1, d2, p2, wrong)


@pytest.mark.parametrize("slots", [1, 2, 3] if NIGHTLY else [1, 2])
def test_two_specialised_loops_on_the_same_barriers(slots: int) -> None:
    """V >= max(p1, p2) + 1: the first loop gives all its slots back, whatever the second one leaves in
    flight."""
    for p1, p2 in itertools.product((0, 1, 2), repeat=2):
        wrong = first_wrong(
            (trips, specialised(slots, 1, [Loop(trips[0], 0, p1), Loop(trips[1], 0, p2)]).wrong)
            for trips in pairs(slots)
        )
        assert (wrong is None) == (slots >= max(p1, p2) + 1), (p1, p2, wrong)


@pytest.mark.parametrize("slots", [2, 3] if NIGHTLY else [2])
@pytest.mark.parametrize("drain", DRAINS)
def test_drains_of_a_persistent_specialised_loop(drain: str, slots: int) -> None:
    """Three executions of any lengths: the last min(p, n) tiles go back after each, or none do and
    arrivals are carried on; both other forms that look right give slots back too early."""
    for in_flight in range(1, slots):
        wrong = first_wrong(
            (tiles, specialised(slots, 1, [Loop(n, 0, in_flight) for n in tiles], drain).wrong)
            for tiles in itertools.product(range(slots + 1), repeat=3)
        )
        assert (wrong is None) == (drain in (DRAINS[0], "none")), (in_flight, wrong)


@pytest.mark.parametrize("slots", [1, 2])
def test_phases_that_restart(slots: int) -> None:
    """An execution that starts at phase 0 again is right only if every slot that it uses again
    has seen an even number of phases."""
    for tiles in range(1, 2 * slots + 1):
        found = specialised(slots, 1, [Loop(tiles, 0, 0)] * 2, restart=True)
        reused = [1 + (tiles - 1 - slot) // slots for slot in range(min(slots, tiles))]
        assert (found.wrong == "") == all(phases % 2 == 0 for phases in reused), tiles


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("warps", [1, 2])
def test_the_empty_barrier_counts_its_arrivals(warps: int, count: int) -> None:
    wrong = [specialised(1, warps, [Loop(n, 0, 0)] * 2, empty_count=count).wrong for n in range(4)]
    assert wrong == [""] * 4 if warps == count else wrong == ["", *["hang"] * 3]


@pytest.mark.parametrize("warps", [1, 2, 3])
def test_stores_in_flight(warps: int) -> None:
    """V >= q + 1 with the barrier after the leader's wait_group.read; before it, one more as soon
    as there is another warp."""
    for slots, in_flight, late in itertools.product((1, 2, 3), (0, 1, 2), (True, False)):
        wrong = [
            stores(slots, warps, n, in_flight, meet_late=late).wrong for n in range(2 * slots + 2)
        ]
        needed = in_flight + 1 + (not late and warps > 1)
        assert any(wrong) == (slots < needed), (slots, in_flight, late)


RIGHT = [expect(0), load(0, 0, 0), wait(0, 0), mma(0, 0), wait_group(0)]


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        (RIGHT, ""),
        ([load(0, 0, 0), *RIGHT[:1], *RIGHT[2:]], ""),
        ([*RIGHT[:2], *RIGHT[3:]], "race"),
        ([*RIGHT[:2], wait(0, 1), *RIGHT[3:]], "race"),
        ([expect(0, 1), *RIGHT[1:]], "race"),
        ([expect(0, 3), *RIGHT[1:]], "hang"),
        ([arrive(0), *RIGHT[1:]], "race"),
        (RIGHT[1:], "hang"),
        ([*RIGHT[:2], *RIGHT[:2], *RIGHT[2:]], "arrival"),
        ([*RIGHT[:4], expect(0), load(0, 0, 1)], "race"),
    ],
    ids=[
        "right",
        "load before expect",
        "no wait",
        "wrong parity",
        "too few bytes",
        "too many bytes",
        "no bytes",
        "no arrival",
        "two arrivals",
        "refill while it is read",
    ],
)
def test_one_tile(steps: list, wrong: str) -> None:
    """The search itself on one slot: each way to be wrong shows as what it is."""
    assert explore({"warp": steps}, [1], 1).wrong == wrong


@pytest.mark.parametrize("copies_first", [False, True], ids=["copies last", "copies first"])
@pytest.mark.parametrize(("slots", "warps"), SIZES)
def test_products_that_commits_complete(slots: int, warps: int, copies_first: bool) -> None:
    """V >= d + p, one more with the copies first, where the wait of tile t is for the commit of t - p:
    with the loop run twice, and nothing but the waits for the last p tiles in between."""
    for ahead, in_flight in itertools.product((1, 2, 3), (0, 1, 2)):
        needed = ahead + in_flight + copies_first
        if needed > slots + 1:
            continue
        wrong = [
            committed(
                slots, warps, [Loop(n, ahead, in_flight)] * 2, copies_first=copies_first
            ).wrong
            for n in range(2 * slots + 3)
        ]
        assert (not any(wrong)) == (slots >= needed), (ahead, in_flight, wrong)


@pytest.mark.parametrize("orders", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("slots", [2, 3] if NIGHTLY else [2])
def test_two_loops_whose_products_commits_complete(slots: int, orders: tuple[bool, bool]) -> None:
    """V >= max(d1 + p1, d2 + p2), one more of a loop with the copies first: what the first one left in flight
    has been waited for."""
    for d1, d2, p1, p2 in itertools.product((1, 2), (1, 2), (0, 1), (0, 1)):
        needed = max(d1 + p1 + orders[0], d2 + p2 + orders[1])
        if needed > slots + 1:
            continue
        loops = [(d1, p1), (d2, p2)]
        wrong = first_wrong(
            (
                trips,
                committed(
                    slots,
                    2,
                    [Loop(n, *loop) for n, loop in zip(trips, loops, strict=True)],
                    copies_first=orders,
                ).wrong,
            )
            for trips in pairs(slots)
        )
        assert (wrong is None) == (slots >= needed), (d1, p1, d2, p2, wrong)


def test_a_wait_for_an_earlier_tile_than_p_back_leaves_a_phase_out() -> None:
    """Three slots for d2 = 3, d1 + p1 = 2, and the waits of the first loop for tile t - 2, which is all that
    its copies ask for: nobody waits for its last tile but one, so the second loop's wait in that slot passes
    for the phase before."""
    loops = [Loop(2, 1, 1), Loop(5, 3, 0)]
    assert committed(3, 1, loops).wrong == ""
    assert committed(3, 1, loops, as_far_as_needed=True).wrong == "race"
    assert committed(2, 1, [Loop(2, 1, 1), Loop(5, 2, 0)], as_far_as_needed=True).wrong == ""


def test_commits_without_barriers_or_last_waits_go_wrong() -> None:
    """Without the barrier warp 1 may miss a phase; without the last waits the next execution fills
    what a product still reads."""
    loops = [Loop(5, 1, 1)] * 2
    assert committed(2, 2, loops).wrong == ""
    assert committed(2, 2, loops, meets=False).wrong != ""
    assert committed(2, 2, [Loop(1, 1, 1), Loop(2, 2, 0)], drains=False).wrong == "race"
