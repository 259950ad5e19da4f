"""What the memory of roles is to all that follows: what was done, and who has heard of it.

    multiplier: reads slot 0, tick 4      an event, which somebody may be asked for later
    producer: knows ticks below 5         it has heard of that

Ticks only grow and are only compared, so all that is asked of them is who has heard of which event. Of
two memories in which the same was done in the same phases, but not everybody has heard the same, a third
stands for both, in which everybody has heard of what they have in both only. All steps are the same, and
each check that passes there passes in both, now and later: what is told, and learned, is what was heard
before and what is done.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from itertools import accumulate, chain
from operator import and_, or_
from typing import NamedTuple

from mlir_async_pipe.checker.phases.block_memory import BlockMemory, Noted
from mlir_async_pipe.checker.phases.mbarrier_state import NAMED, Key, Mbarrier
from mlir_async_pipe.checker.phases.tensor_state import Read
from mlir_async_pipe.checker.phases.warp_clocks import Event, Known, Told

Label = tuple[Hashable, ...]
# Changes what was done: its name, and when which warps did it.
Rule = Callable[[Label, Event], Event]
# By who may know it and column: a bit for each event, by its number, or phase that is over.
Heard = tuple[int, ...]


def shape_and_heard(memory: BlockMemory, *, ends: bool = True) -> tuple[Hashable, Heard]:
    """What was done, equal for the same, and who has heard of it; which op ended a phase, of which only the
    sentence of a fault tells, is a part of that if `ends`."""
    at = [_at_mbarrier(memory, key, one, ends) for key, one in memory.mbarriers.items()]
    asked, done = _asked(memory, [noted for _, noted, _ in at])
    phases = [[number for number, _ in events] for events in asked]
    tensor = memory.tensor
    shape = (
        memory.clocks.classes.groups,
        frozenset((known, *_ranks(one, phases)) for one, _, known in at),
        frozenset(memory.queues.items()),
        frozenset(
            (one.copy, one.column, bisect_left(phases[one.column], one.phase))
            for one in memory.brought.values()
        ),
        frozenset((touch, one.fenced) for touch, one in memory.generic.items()),
        (tensor.columns, tensor.live),
        frozenset((by, core.reads, core.sums) for by, core in tensor.cores.items()),
        frozenset(tensor.loads),
        tensor.given,
        frozenset(tensor.fenced),
        memory.key_of_blocks(),
        memory.moves is not None,
        frozenset(done),
    )
    before = [list(accumulate((bit for _, bit in each), or_, initial=0)) for each in asked]
    nothing = [0] * len(asked)
    found: dict[Known, list[int]] = {}
    heard: list[int] = []
    # Many know the same, of mbarriers above all.
    for known in chain.from_iterable(tellings(memory)):
        mine = found.get(known)
        if mine is None:
            numbers = map(bisect_left, phases, known)
            mine = [events[number] for events, number in zip(before, numbers, strict=False)]
            mine = found[known] = mine + nothing[len(mine) :]
        heard += mine
    return shape, tuple(heard)


def least(one: Heard, other: Heard) -> Heard:
    """What everybody has heard in both."""
    return tuple(map(and_, one, other))


def _at_mbarrier(
    memory: BlockMemory, key: Key, one: Mbarrier, ends: bool
) -> tuple[Mbarrier, list[Noted], Hashable]:
    """An mbarrier, what was done there, and what is asked of it beside that."""
    # Most mbarriers are as they were in the state before.
    found = memory.noted.get((key, id(one)))
    if found is None:
        noted: list[Noted] = []
        for label, event in events_of(key, one):
            _note(memory.names, noted, label, event)
        found = memory.noted[key, id(one)] = one, noted, _shape(key, one, ends)
    return found


def _note(names: dict[Hashable, int], noted: list[Noted], label: Label, event: Event) -> Event:
    for index, (column, tick) in enumerate(event):
        number = names.setdefault((*label, index, column), len(names))
        noted.append((number, column, tick, 1 << number))
    return event


def _asked(
    memory: BlockMemory, at_mbarriers: Iterable[list[Noted]]
) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """By column the ticks, commits and phases that are asked for, in order, and the events among them."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(memory.clocks.columns)]
    done: list[int] = []
    others: list[Noted] = []
    each_event_of_others(memory, partial(_note, memory.names, others))
    for number, column, tick, bit in chain(others, *at_mbarriers):
        done.append(number)
        found[column].append((tick, bit))
    for events in found:
        events.sort()
    for column, phases in _phases(memory).items():
        found[column] = [(phase, 1 << age) for age, phase in enumerate(sorted(phases))]
    return found, done


def _phases(memory: BlockMemory) -> dict[int, set[int]]:
    """The phases of each mbarrier of which somebody may be asked whether they are over."""
    found = {one.column: {one.over - 1, one.over - 2} for one in memory.mbarriers.values()}
    for one in memory.mbarriers.values():
        if one.shown is not None:
            found[one.shown[0]].add(one.shown[1])
    for landed in memory.brought.values():
        found[landed.column].add(landed.phase)
    return found


def _shape(key: Key, one: Mbarrier, ends: bool) -> Hashable:
    # No wait at a barrier of threads has a parity.
    parity = None if key[0] == NAMED else one.parity(one.over)
    return (
        key,
        *(one.needs, one.init, one.by, one.column, one.fenced, parity, one.running),
        *(one.arrived_by, one.commits),
        tuple((end.by, end.later, ends and end.op) for end in one.ends),
        tuple((wait.number, wait.op, wait.parity, wait.again) for wait in one.waits),
    )


def _ranks(one: Mbarrier, phases: list[list[int]]) -> Iterator[Hashable]:
    """Which of the phases that are asked for runs, and which one shows the mbarrier."""
    yield bisect_left(phases[one.column], one.over)
    if one.shown is not None:
        yield one.shown[0], bisect_left(phases[one.shown[0]], one.shown[1])


def events_of(key: Key, one: Mbarrier) -> Iterator[tuple[Label, Event]]:
    """What was done at an mbarrier."""
    if one.born:
        yield ("born", key), one.born
    if one.fence:
        yield ("fence", key), one.fence
    if one.arrivals:
        yield ("arrivals", key), one.arrivals
    for age, end in enumerate(one.ends):
        yield ("end", key, age), end.arrivals
    for wait in one.waits:
        yield ("wait", key), (wait.at,)


def each_event_of(key: Key, one: Mbarrier, rule: Rule) -> Mbarrier:
    """An mbarrier with what was done there changed."""
    return one._replace(
        born=rule(("born", key), one.born),
        fence=rule(("fence", key), one.fence),
        arrivals=rule(("arrivals", key), one.arrivals),
        ends=tuple(
            end._replace(arrivals=rule(("end", key, age), end.arrivals))
            for age, end in enumerate(one.ends)
        ),
        waits=tuple(wait._replace(at=rule(("wait", key), (wait.at,))[0]) for wait in one.waits),
    )


def each_event_of_others(memory: BlockMemory, rule: Rule) -> None:
    """Change what was done elsewhere."""
    for stored in memory.dones():
        for what, event in stored.items():
            stored[what] = rule(("done", what), event)
    for touch, write in memory.generic.items():
        memory.generic[touch] = write._replace(done=rule(("written", touch), write.done))
    for load, read in memory.tensor.loads.items():
        landed, told = (event and rule((step, load), event) for step, event in enumerate(read))
        memory.tensor.loads[load] = Read(landed, told)
    for products in (memory.tensor.reading, memory.tensor.products):
        for product, at in products.items():
            products[product] = rule(("product", product), (at,))[0]


def tellings(memory: BlockMemory) -> Iterator[Told]:
    yield from memory.clocks.known
    for key in sorted(memory.mbarriers):
        barrier = memory.mbarriers[key]
        yield from (barrier.gathered, barrier.told)
    for _, known in sorted(memory.tensor.fenced.items()):
        yield Told(known, known)


class _Column(NamedTuple):
    """Numbers of who has heard of such events, and by number which of these all of them have; none of 0."""

    numbers: dict[int, int]
    parts: list[int]

    def tick(self, event: int) -> int:
        """The largest number of those who have not heard of an event."""
        return max(n for n, part in enumerate(self.parts) if not part & event)

    @property
    def last(self) -> int:
        """The largest number."""
        return len(self.parts) - 1


def lower(memory: BlockMemory, heard: Heard) -> None:
    """Everybody has heard of that only, and of as much of it as numbers can tell."""
    clocks, tensor, phases = memory.clocks, memory.tensor, _phases(memory)
    columns = [
        _of_phases(sorted(phases[n])) if n in phases else _of_events(heard[n :: clocks.columns])
        for n in range(clocks.columns)
    ]

    def later(label: Label, event: Event) -> Event:
        return tuple(
            (n, columns[n].tick(1 << memory.names[*label, index, n]))
            for index, (n, _) in enumerate(event)
        )

    for key, one in memory.mbarriers.items():
        memory.mbarriers[key] = each_event_of(key, one, later)
    each_event_of_others(memory, later)
    clocks.ticks = [columns[n].last for n in range(len(clocks.ticks))]
    for by, core in tensor.cores.items():
        last = columns[core.reads].last, columns[core.sums].last
        tensor.cores[by] = core._replace(read=last[0], summed=last[1])
    left = iter(heard)

    def lowered() -> Known:
        return tuple(column.numbers[next(left)] for column in columns)

    def told_less() -> Told:
        before, seen = lowered(), lowered()
        return Told(before, before if before == seen else seen)

    clocks.known = [told_less() for _ in clocks.known]
    for key, barrier in sorted(memory.mbarriers.items()):
        memory.mbarriers[key] = barrier._replace(gathered=told_less(), told=told_less())
    for number in sorted(tensor.fenced):
        tensor.fenced[number] = told_less().seen


def _of_phases(phases: list[int]) -> _Column:
    """The least numbers of who knows that so many phases are over."""
    return _Column({0: 0} | {(2 << age) - 1: phase + 1 for age, phase in enumerate(phases)}, [])


def _of_events(heard: Iterable[int]) -> _Column:
    """Numbers of who has heard of such events. Who has heard of fewer gets a lower one, so that others
    have heard of no more of these than all with higher ones have."""
    part, parts = -1, {0: 0}
    for events in sorted(set(heard), key=int.bit_count, reverse=True):
        part &= events
        parts[events] = part
    nested = sorted(set(parts.values()), key=int.bit_count)
    order = {part: number for number, part in enumerate(nested)}
    return _Column({events: order[part] for events, part in parts.items()}, nested)
