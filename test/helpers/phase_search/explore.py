"""Runs straight-line programs of several agents in every order, until one goes wrong.

    explore({"leader": [expect(0, 2), load(0, 0, tile=0), wait(0, 0), mma(0, 0), …], …}, …)

An agent is a warp or a producer thread; its program is a list, for trip counts are numbers here.
What may happen at any moment: the next step of any agent, and the arrival of either half of a
copy in flight, and the end of the products that a commit covers. The memory model is sequentially consistent, without proxies and without lanes
apart. What goes wrong: a product reads a slot that does not hold its tile, or a copy is issued
into a slot that a product still reads ("race"); an arrival with none pending ("arrival"); nobody
can go on ("hang").

An mbarrier (PTX ISA, mbarrier: phase completion) has a count of phases that are over, pending
arrivals and pending bytes; the phase is over when both are 0, and the arrivals start again. A
wait for parity P passes as long as the running phase has the other parity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# A copy counts as two halves of one byte each, which land apart.
TILE_BYTES = 2


class Step(NamedTuple):
    """One instruction: what it does, and up to three numbers."""

    name: str
    first: int = 0
    second: int = 0
    third: int = 0


def expect(bar: int, size: int = TILE_BYTES) -> Step:
    """arrive.expect_tx: one arrival, and `size` more bytes to come."""
    return Step("expect", bar, size)


def load(bar: int, slot: int, tile: int) -> Step:
    """A copy of a tile into a slot, which completes on a barrier."""
    return Step("load", bar, slot, tile)


def wait(bar: int, parity: int) -> Step:
    """try_wait.parity until it passes."""
    return Step("wait", bar, parity % 2)


def arrive(bar: int) -> Step:
    """One arrival without bytes."""
    return Step("arrive", bar)


def mma(slot: int, tile: int) -> Step:
    """A product that reads a slot from now to the wait_group that covers it; a group of its own."""
    return Step("mma", slot, tile)


def commit(bar: int) -> Step:
    """One arrival when all products that this agent has issued are over, at any moment from now on."""
    return Step("commit", bar)


def write(slot: int, tile: int) -> Step:
    """This warp's part of a tile into a slot; a store of it is a product that reads
    `written(tile, warps)`."""
    return Step("write", slot, tile)


def written(tile: int, warps: int) -> int:
    """What a slot holds after so many warps have written their parts of a tile."""
    return 8 * tile + warps


def wait_group(left: int) -> Step:
    """At most `left` products of this warp stay in flight."""
    return Step("wait_group", left)


def meet() -> Step:
    """A barrier of all agents that have it in their programs."""
    return Step("meet")


class Barrier(NamedTuple):
    """The state of an mbarrier; `count` arrivals make a phase."""

    count: int
    over: int
    pending: int
    bytes: int

    def after(self, arrivals: int, size: int) -> Barrier | None:
        """The state after arrivals and bytes; None if nobody was to arrive any more."""
        pending, left = self.pending - arrivals, self.bytes + size
        if pending < 0:
            return None
        if pending or left:
            return self._replace(pending=pending, bytes=left)
        return Barrier(self.count, self.over + 1, self.count, 0)


class State(NamedTuple):
    """`at`: the next step of each agent; `reading`: its products in flight, oldest first, as
    (slot, tile), and its commits as (-1 - barrier, 0); `slots`: the tile that was issued last into each; `landing`: halves in flight,
    as (barrier, slot, tile, half)."""

    at: tuple[int, ...]
    reading: tuple[tuple[tuple[int, int], ...], ...]
    bars: tuple[Barrier, ...]
    slots: tuple[int, ...]
    landing: frozenset[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Found:
    """What a search found: "" if every order is right, else the first thing that goes wrong."""

    wrong: str
    states: int


Programs = dict[str, list[Step]]


def explore(programs: Programs, counts: list[int], slots: int) -> Found:
    """Search all orders; `counts` are the arrivals that make a phase, by barrier.

    Agents with equal programs are interchangeable, so states are kept up to their order.
    """
    names = list(programs)
    code = [programs[name] for name in names]
    alike = _alike(code)
    start = State(
        (0,) * len(code),
        ((),) * len(code),
        tuple(Barrier(count, 0, count, 0) for count in counts),
        (-1,) * slots,
        frozenset(),
    )
    seen = {start}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        nexts = _nexts(state, code)
        if isinstance(nexts, str):
            return Found(nexts, len(seen))
        if not nexts and any(at < len(steps) for at, steps in zip(state.at, code, strict=True)):
            return Found("hang", len(seen))
        for following in nexts:
            kept = _sorted(following, alike)
            if kept not in seen:
                seen.add(kept)
                waiting.append(kept)
    return Found("", len(seen))


def _alike(code: list[list[Step]]) -> list[list[int]]:
    """The agents with equal programs, two or more."""
    groups: dict[tuple[Step, ...], list[int]] = {}
    for number, steps in enumerate(code):
        groups.setdefault(tuple(steps), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _sorted(state: State, alike: list[list[int]]) -> State:
    if not alike:
        return state
    at, reading = list(state.at), list(state.reading)
    for group in alike:
        ordered = sorted((at[number], reading[number]) for number in group)
        for number, (place, products) in zip(group, ordered, strict=True):
            at[number], reading[number] = place, products
    return state._replace(at=tuple(at), reading=tuple(reading))


def _nexts(state: State, code: list[list[Step]]) -> list[State] | str:
    """Every state that one event leads to, or what goes wrong in one."""
    found = [_landed(state, half) for half in state.landing]
    for agent in range(len(code)):
        over = _committed(state, agent)
        if isinstance(over, str):
            return over
        found += over
    meeting = []
    for agent, steps in enumerate(code):
        if state.at[agent] == len(steps):
            continue
        step = steps[state.at[agent]]
        if step.name == "meet":
            meeting.append(agent)
            continue
        following = _ran(state, agent, step)
        if isinstance(following, str):
            return following
        if following is not None:
            found.append(following)
    members = [agent for agent, steps in enumerate(code) if any(s.name == "meet" for s in steps)]
    if meeting and len(meeting) == len(members):
        at = [place + (agent in meeting) for agent, place in enumerate(state.at)]
        found.append(state._replace(at=tuple(at)))
    return found


def _landed(state: State, half: tuple[int, int, int, int]) -> State:
    bars = list(state.bars)
    moved = bars[half[0]].after(0, -1)
    assert moved is not None
    bars[half[0]] = moved
    return state._replace(bars=tuple(bars), landing=state.landing - {half})


def _committed(state: State, agent: int) -> list[State] | str:
    """The states after a commit of an agent has arrived, which all products before it are over for; of
    commits any one may be the first to arrive."""
    found, products = [], state.reading[agent]
    for number, (slot, _) in enumerate(products):
        if slot >= 0:
            continue
        bar = -1 - slot
        moved = state.bars[bar].after(1, 0)
        if moved is None:
            return "arrival"
        bars = tuple(moved if n == bar else held for n, held in enumerate(state.bars))
        left = tuple(one for one in products[:number] if one[0] < 0) + products[number + 1 :]
        reading = tuple(left if n == agent else held for n, held in enumerate(state.reading))
        found.append(state._replace(bars=bars, reading=reading))
    return found


def _ran(state: State, agent: int, step: Step) -> State | str | None:
    """The state after a step; None if it has to wait, a word if it goes wrong."""
    at = tuple(place + (number == agent) for number, place in enumerate(state.at))
    if step.name == "wait":
        passes = state.bars[step.first].over % 2 != step.second
        return state._replace(at=at) if passes else None
    if step.name in ("expect", "arrive"):
        size = step.second if step.name == "expect" else 0
        moved = state.bars[step.first].after(1, size)
        if moved is None:
            return "arrival"
        bars = tuple(moved if n == step.first else bar for n, bar in enumerate(state.bars))
        return state._replace(at=at, bars=bars)
    if step.name == "write":
        if any(step.first == read for products in state.reading for read, _ in products):
            return "race"
        held = state.slots[step.first]
        part = held + 1 if held >= 0 and held // 8 == step.second else written(step.second, 1)
        slots = tuple(part if n == step.first else old for n, old in enumerate(state.slots))
        return state._replace(at=at, slots=slots)
    if step.name == "load":
        bar, slot, tile = step.first, step.second, step.third
        used = any(slot == read for products in state.reading for read, _ in products)
        if used or any(half[1] == slot for half in state.landing):
            return "race"
        slots = tuple(tile if n == slot else held for n, held in enumerate(state.slots))
        halves = {(bar, slot, tile, half) for half in range(TILE_BYTES)}
        return state._replace(at=at, slots=slots, landing=state.landing | halves)
    products = state.reading[agent]
    if step.name == "mma":
        slot, tile = step.first, step.second
        if state.slots[slot] != tile or any(half[1] == slot for half in state.landing):
            return "race"
        products = (*products, (slot, tile))
    elif step.name == "commit":
        products = (*products, (-1 - step.first, 0))
    else:
        products = products[max(0, len(products) - step.first) :]
    reading = tuple(products if n == agent else held for n, held in enumerate(state.reading))
    return state._replace(at=at, reading=reading)
