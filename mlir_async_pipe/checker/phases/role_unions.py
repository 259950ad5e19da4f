"""States of roles that differ in what was done before, followed as one in which all of it was done.

    group 0 was in slot 2, the producer knows it         group 1 was in slot 2, the producer does not know it
    both: groups 0 and 1 were in slot 2                  it knows of group 0, and not of group 1

All that somebody is asked is whether he knows of what was done. So a memory in which more was done stands for one in
which less was, if nobody knows more of what was done there; of what was not done, everybody knows, as nobody is asked.
docs/phases.md proves it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.mbarrier_state import NAMED, End, Key, Mbarrier
from mlir_async_pipe.checker.phases.role_shapes import (
    Label,
    each_event_of,
    each_event_of_others,
    events_of,
    tellings,
)
from mlir_async_pipe.checker.phases.warp_clocks import Event, Known, Told, WarpClocks

# Bits of what was done, by its tick.
Levels = dict[int, int]


class Done(NamedTuple):
    """What was done, a bit for each, and who has heard of it: `heard` by who may know it."""

    all: int
    heard: tuple[int, ...]
    memory: BlockMemory

    def with_those_of(self, other: Done) -> Done:
        """What was done in either; of what was done in one only everybody has heard in the other."""
        both = self.all | other.all
        mine, others = both & ~self.all, both & ~other.all
        heard = [(a | mine) & (b | others) for a, b in zip(self.heard, other.heard, strict=True)]
        return Done(both, tuple(heard), self.memory)


def shape_and_done(memory: BlockMemory) -> tuple[Hashable, Done]:
    """What decides which steps come next, and what was done."""
    shape = (
        memory.clocks.classes.groups,
        frozenset([_shape(key, one, memory.clocks) for key, one in memory.mbarriers.items()]),
        frozenset(memory.queues.items()),
        frozenset([(touch, one.fenced) for touch, one in memory.generic.items()]),
        memory.moves is not None,
    )
    columns = _levels(memory)
    below: dict[tuple[int, int], int] = {}
    found: dict[Known, int] = {}
    heard = []
    for told in tellings(memory):
        for known in told:
            if known not in found:
                mine = 0
                for at in enumerate(known):
                    if at not in below:
                        column, number = at
                        below[at] = _or(b for n, b in columns[column].items() if n < number)
                    mine |= below[at]
                found[known] = mine
            heard.append(found[known])
    done = _or(bits for levels in columns for bits in levels.values())
    return shape, Done(done, tuple(heard), memory)


def _or(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def _shape(key: Key, one: Mbarrier, clocks: WarpClocks) -> Hashable:
    parity = None if key[0] == NAMED else one.parity(one.over)
    return (
        *(key, one.needs, one.init, one.by, one.fenced, parity, one.running),
        *(one.arrived_by, one.commits, min(one.over, 2), len(one.born), len(one.fence)),
        tuple([clocks.class_of(column) for column, _ in one.arrivals]),
    )


def _bits(memory: BlockMemory, label: Label, event: Event) -> tuple[int, ...]:
    """A bit for each part of what was done, by its class, which may have done it twice."""
    further = memory.clocks.further
    classes = tuple([further[n][0] if n in further else n for n, _ in event])
    found = memory.bits.get((label, classes))
    if found is None:
        parts = [(label, of, classes[:n].count(of)) for n, of in enumerate(classes)]
        found = tuple([1 << memory.names.setdefault(part, len(memory.names)) for part in parts])
        memory.bits[label, classes] = found
    return found


def _levels(memory: BlockMemory) -> list[Levels]:
    """What was done, by column; that the last two phases, and those of copies, are over, too."""
    columns: list[Levels] = [{} for _ in range(memory.clocks.columns)]

    def note(label: Label, event: Event) -> Event:
        for (column, tick), bit in zip(event, _bits(memory, label, event), strict=True):
            levels = columns[column]
            levels[tick] = levels.get(tick, 0) | bit
        return event

    for key, one in memory.mbarriers.items():
        for label, event in events_of(key, one):
            note(label, event)
        for age in range(1, min(one.over, 2) + 1):
            note(("phase", key, age), ((one.column, one.over - age),))
    each_event_of_others(memory, note)
    for what, landed in memory.brought.items():
        note(("landed", what), ((landed.column, landed.phase),))
    return columns


def unite(memory: BlockMemory, done: Done, other: BlockMemory) -> None:
    """Make a memory one in which all was `done`, as it is in this or another one of its shape, and nobody has heard of
    more."""
    _with_those_of(memory, other)
    clocks = memory.clocks
    by_class = [0] * len(clocks.ticks)
    columns = _levels(memory)
    for column, levels in enumerate(columns):
        of = clocks.class_of(column)
        if of < len(by_class):
            by_class[of] |= _or(levels.values())
    distinct = list(dict.fromkeys(done.heard))
    for column, levels in _columns([_chains(distinct, bits) for bits in by_class], clocks):
        columns[column : column + 1] = [levels]
    at = {
        bit: (column, tick)
        for column, levels in enumerate(columns)
        if clocks.class_of(column) < len(by_class)
        for tick, bits in levels.items()
        for bit in _each(bits)
    }

    def later(label: Label, event: Event) -> Event:
        return tuple([at[bit] for bit in _bits(memory, label, event)])

    before = dict(memory.mbarriers)
    for key, one in before.items():
        memory.mbarriers[key] = each_event_of(key, one, later)
    each_event_of_others(memory, later)
    tops = [max(levels, default=-1) + 1 for levels in columns]
    clocks.ticks = tops[: len(by_class)]
    clocks.further = {column: (of, tops[column]) for column, (of, _) in clocks.further.items()}
    order = [sorted(levels.items()) for levels in columns]
    known = {heard: tuple([_first(levels, heard) for levels in order]) for heard in distinct}
    told = iter(
        [Told(known[a], known[b]) for a, b in zip(done.heard[::2], done.heard[1::2], strict=True)]
    )
    clocks.known = [next(told) for _ in clocks.known]
    for key, barrier in sorted(memory.mbarriers.items()):
        memory.mbarriers[key] = barrier._replace(gathered=next(told), told=next(told))


def _each(bits: int) -> Iterator[int]:
    while bits:
        yield bits & -bits
        bits &= bits - 1


def _first(levels: list[tuple[int, int]], heard: int) -> int:
    """The number that one knows who has heard of what is below."""
    number = 0
    for tick, bits in levels:
        if bits & ~heard:
            return tick
        number = tick + 1
    return number


def _chains(heard: list[int], all_bits: int) -> list[Levels]:
    """What a class did in as many orders as it takes for everybody to have heard of the first of each."""
    bits = list(_each(all_bits))
    knowing = dict.fromkeys(bits, 0)
    for who, mine in enumerate(heard):
        mine &= all_bits
        for bit in bits:
            if mine & bit:
                knowing[bit] |= 1 << who
    alike: dict[int, int] = {}
    for bit, who in knowing.items():
        alike[who] = alike.get(who, 0) | bit
    chains: list[Levels] = []
    least: list[int] = []
    for who in sorted(alike, key=lambda who: (-who.bit_count(), who)):
        place = next((k for k, last in enumerate(least) if not who & ~last), len(chains))
        if place == len(chains):
            chains.append({})
            least.append(who)
        chains[place][len(chains[place])] = alike[who]
        least[place] = who
    return chains


def _columns(chains: list[list[Levels]], clocks: WarpClocks) -> Iterator[tuple[int, Levels]]:
    """The orders by column: the first of a class in its own, others in further ones."""
    clocks.further = dict(clocks.further)
    free = dict(clocks.further)
    for of, (first, *rest) in enumerate(mine or [{}] for mine in chains):
        yield of, first
        for order in rest:
            column = next((c for c, (one, _) in free.items() if one == of), None)
            if column is None:
                column = clocks.new_column()
                clocks.further[column] = of, 0
            free.pop(column, None)
            yield column, order
    for column in free:
        yield column, {}


def _with_those_of(memory: BlockMemory, other: BlockMemory) -> None:
    """What was done in another memory was done in this one, at some time."""
    clocks = other.clocks

    def did(event: Event) -> Event:
        return tuple([(clocks.class_of(column), 0) for column, _ in event])

    ages = {}
    for key, there in other.mbarriers.items():
        ages[there.column] = key, there.over
        one = memory.mbarriers[key]
        ends = [*one.ends]
        for age, end in enumerate(there.ends):
            theirs = end._replace(arrivals=did(end.arrivals))
            mine = ends[age : age + 1]
            ends[age : age + 1] = [_either(mine[0], theirs, memory.clocks) if mine else theirs]
        same = {wait._replace(at=(0, 0)) for wait in one.waits}
        waits = [wait._replace(at=(wait.number, 0)) for wait in there.waits]
        more = [wait for wait in waits if wait._replace(at=(0, 0)) not in same]
        memory.mbarriers[key] = one._replace(ends=tuple(ends), waits=(*one.waits, *more))
    for done, more_done in zip(memory.dones(), other.dones(), strict=True):
        done.update({what: did(event) for what, event in more_done.items() if what not in done})
    for landed, where in other.brought.items():
        if landed not in memory.brought:
            key, over = ages[where.column]
            one = memory.mbarriers[key]
            phase = one.over - (over - where.phase)
            memory.brought[landed] = where._replace(column=one.column, phase=phase)


def _either(one: End, other: End, clocks: WarpClocks) -> End:
    """A phase that ended in one way or another."""
    have = {clocks.class_of(column) for column, _ in one.arrivals}
    more = [part for part in other.arrivals if part[0] not in have]
    by = one.by if one.by == other.by else 0
    return End((*one.arrivals, *more), by, one.later or other.later, one.op, one.copy)
