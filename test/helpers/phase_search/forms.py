"""The loops whose rules docs/phases.md states, as programs for `explore`.

V slots, copies d tiles ahead, p products in flight, n tiles an execution; t counts tiles since
the barriers were initialised, over all executions. Barrier s is full[s], V + s is empty[s], or done[s].
"""

from __future__ import annotations

from dataclasses import dataclass

from helpers.phase_search.explore import (
    Found,
    Programs,
    Step,
    arrive,
    commit,
    expect,
    explore,
    load,
    meet,
    mma,
    wait,
    wait_group,
    write,
    written,
)


@dataclass(frozen=True)
class Loop:
    """One execution of a loop: `tiles` of it, `ahead` (d) and `in_flight` (p)."""

    tiles: int
    ahead: int
    in_flight: int


# The order of one iteration: wait for full, product, wait_group, barrier, refill.
ORDERS = {
    "refill after wait_group and barrier": "wait mma group meet refill",
    "barrier before wait_group": "wait mma meet group refill",
    "refill before the product": "wait meet refill mma group",
    "refill before the product, barrier after it": "wait refill mma group meet",
}


def in_one(order: str, slots: int, warps: int, loops: list[Loop], meet_after: bool) -> Found:
    """Not specialised: warp 0 issues the copies, all warps multiply.

    `meet_after`: a barrier stands after the wait_group 0 of each loop.
    """

    def refill(tile: int) -> list[Step]:
        slot = tile % slots
        return [expect(slot), load(slot, slot, tile)]

    def program(leads: bool) -> list[Step]:
        steps: list[Step] = []
        start = 0
        for loop in loops:
            end = start + loop.tiles
            for tile in range(start, min(start + loop.ahead, end)):
                steps += refill(tile) if leads else []
            for tile in range(start, end):
                slot = tile % slots
                parts = {
                    "wait": [wait(slot, tile // slots)],
                    "mma": [mma(slot, tile)],
                    "group": [wait_group(loop.in_flight)],
                    "meet": [meet()],
                    "refill": [],
                }
                if leads and tile + loop.ahead < end:
                    parts["refill"] = refill(tile + loop.ahead)
                steps += [step for name in order.split() for step in parts[name]]
            steps.append(wait_group(0))
            if meet_after:
                steps.append(meet())
            start = end
        return steps

    programs: Programs = {f"warp {number}": program(number == 0) for number in range(warps)}
    return explore(programs, [1] * slots, slots)


def committed(
    slots: int,
    warps: int,
    loops: list[Loop],
    *,
    copies_first: bool | tuple[bool, ...] = False,
    drains: bool = True,
    meets: bool = True,
    as_far_as_needed: bool = False,
) -> Found:
    """Not specialised: warp 0 issues copies and products, a commit says when those of a tile are over;
    all warps wait for the commit of tile t - p, and after a loop for the last p (`drains`). Which loops copy
    first may be said of each. `as_far_as_needed`: for that of tile t + d - V, or t + d + 1 - V, which is enough
    for the copies."""
    first = copies_first if isinstance(copies_first, tuple) else (copies_first,) * len(loops)

    def program(leads: bool) -> list[Step]:
        steps: list[Step] = []
        start = 0

        def refill(tile: int, end: int) -> list[Step]:
            slot = tile % slots
            return [expect(slot), load(slot, slot, tile)] if leads and tile < end else []

        def over(tile: int) -> Step:
            return wait(slots + tile % slots, tile // slots)

        for loop, copies_lead in zip(loops, first, strict=True):
            d, p, end = loop.ahead, loop.in_flight, start + loop.tiles
            back = slots - d - copies_lead if as_far_as_needed and p else p
            for tile in range(start, start + d):
                steps += refill(tile, end)
            for tile in range(start, end):
                slot = tile % slots
                issue = [mma(slot, tile), commit(slots + slot)] if leads else []
                between = [*([meet()] if meets else []), *refill(tile + d, end)]
                product = [*issue, over(tile - back)]
                parts = [*between, *product] if copies_lead else [*product, *between]
                steps += [wait(slot, tile // slots), *parts]
            steps += [over(tile) for tile in range(end - p, end)] if drains else []
            start = end
        return steps

    programs: Programs = {f"warp {number}": program(number == 0) for number in range(warps)}
    return explore(programs, [1] * (2 * slots), slots)


# How many arrivals a consumer makes after its loop: those that its iterations left out.
DRAINS = ("last min(p, n)", "always p", "since init", "none")


def specialised(
    slots: int,
    warps: int,
    loops: list[Loop],
    drain: str = DRAINS[0],
    *,
    restart: bool = False,
    empty_count: int | None = None,
) -> Found:
    """A producer thread and `warps` consumers with full and empty barriers.

    `drain`: when slots are given back. Iteration i of an execution gives back tile t - p
    if i >= p, and after the loop the last min(p, n) tiles go back ("last min(p, n)"); "always p"
    gives back p of them whatever n was; "since init" asks t >= p where it should ask i >= p;
    "none" has no drain and asks t >= p, so that arrivals are carried on. `restart`: each
    execution starts at slot 0 and phase 0.
    """

    def at(tile: int, start: int) -> tuple[int, int]:
        number = tile - start if restart else tile
        return number % slots, number // slots

    producer: list[Step] = []
    consumer: list[Step] = []
    start = 0
    for loop in loops:
        p, end = loop.in_flight, start + loop.tiles
        for tile in range(start, end):
            slot, phase = at(tile, start)
            producer += [wait(slots + slot, phase + 1), expect(slot), load(slot, slot, tile)]
            consumer += [wait(slot, phase), mma(slot, tile), wait_group(p)]
            local = tile if drain in ("since init", "none") else tile - start
            if local >= p:
                consumer.append(arrive(slots + at(tile - p, start)[0]))
        if drain != "none":
            consumer.append(wait_group(0))
            back = p if drain == "always p" else min(p, loop.tiles)
            consumer += [arrive(slots + at(tile, start)[0]) for tile in range(end - back, end)]
        start = end
    consumer.append(wait_group(0))
    programs: Programs = {"producer": producer}
    programs |= {f"warp {number}": list(consumer) for number in range(warps)}
    counts = [1] * slots + [warps if empty_count is None else empty_count] * slots
    return explore(programs, counts, slots)


def stores(slots: int, warps: int, tiles: int, in_flight: int, *, meet_late: bool = True) -> Found:
    """TMA stores by warp 0 of tiles that all warps write, `in_flight` of them still reading.

    `meet_late`: the barrier stands after the leader's wait_group.read, not before it.
    """

    def program(leads: bool) -> list[Step]:
        steps: list[Step] = []
        for tile in range(tiles):
            slot = tile % slots
            over = [wait_group(in_flight)] if leads else []
            steps += [*over, meet()] if meet_late else [meet(), *over]
            steps += [write(slot, tile), meet()]
            steps += [mma(slot, written(tile, warps))] if leads else []
        return [*steps, wait_group(0)]

    return explore({f"warp {n}": program(n == 0) for n in range(warps)}, [], slots)
