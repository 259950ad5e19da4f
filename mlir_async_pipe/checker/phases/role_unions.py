"""States of roles that differ in what was done before, or in who knows of it, followed as one in which all of it
was done.

    group 0 was in slot 2, the producer knows it         group 1 was in slot 2, the producer does not know it
    both: groups 0 and 1 were in slot 2                  it knows of group 0, and not of group 1

All that somebody is asked is whether he knows of what was done. So a memory in which more was done stands for one in
which less was, if nobody knows more of what was done there; of what was not done, everybody knows, as nobody is asked.
docs/phases.md proves it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial, reduce
from itertools import chain
from operator import or_
from typing import NamedTuple

from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.block_memory import BlockMemory, Fenced, Noted
from mlir_async_pipe.checker.phases.mbarrier_state import NAMED, End, Key, Mbarrier, Touch
from mlir_async_pipe.checker.phases.tensor_state import Read
from mlir_async_pipe.checker.phases.warp_clocks import ClockPair, Event, Known, WarpClocks

Label = tuple[Hashable, ...]
# Changes what was done: its name, and when which warps did it.
Rule = Callable[[Label, Event], Event]
# Bits of what was done, by its tick.
Levels = dict[int, int]


class Done(NamedTuple):
    """What was done, a bit for each, and who knows of it: `known` by who may know it."""

    all: int
    known: tuple[int, ...]

    def with_those_of(self, other: Done) -> Done:
        """What was done in either; of what was done in one only everybody knows in the other."""
        both = self.all | other.all
        mine, others = both & ~self.all, both & ~other.all
        known = [(a | mine) & (b | others) for a, b in zip(self.known, other.known, strict=True)]
        return Done(both, tuple(known))


def shape_and_done(memory: BlockMemory) -> tuple[Hashable, Done]:
    """What decides which steps come next, and what was done."""
    noted = [_at_mbarrier(memory, key, one) for key, one in memory.mbarriers.items()]
    tensor = memory.tensor
    pending = [(at, read.landed is None) for at, read in tensor.loads.items() if not read.fenced]
    shape = (
        memory.clocks.classes.groups,
        frozenset([shape for _, _, shape in noted]),
        frozenset(memory.queues.items()),
        frozenset([(writes, one.fenced, one.after) for one, writes in _writes_by_event(memory)]),
        frozenset(tensor.cores),
        frozenset(tensor.fenced),
        frozenset(pending),
        (frozenset(tensor.columns.items()), tensor.live, tensor.given),
        (memory.met, memory.ended),
        memory.moves is not None,
    )
    columns = _levels(memory)
    below: dict[tuple[int, int], int] = {}
    found: dict[Known, int] = {}
    everybody = []
    for released in _clock_pairs(memory):
        for known in released:
            if known not in found:
                mine = 0
                for at in enumerate(known):
                    if at not in below:
                        column, number = at
                        below[at] = _or(b for n, b in columns[column].items() if n < number)
                    mine |= below[at]
                found[known] = mine
            everybody.append(found[known])
    done = _or(bits for levels in columns for bits in levels.values())
    return shape, Done(done, tuple(everybody))


def history(memory: BlockMemory) -> Hashable:
    """How phases came to their ends and who has waited since, of which only the sentences of faults tell."""
    together = memory.together
    at = {one.column: key for key, one in memory.mbarriers.items()}
    return (
        frozenset(
            (
                key,
                tuple((end.by, end.later, together or end.op) for end in one.ends),
                frozenset((wait.number, wait.op, wait.parity, wait.again) for wait in one.waits),
            )
            for key, one in memory.mbarriers.items()
        ),
        frozenset((what, at[landed.column]) for what, landed in memory.brought.items()),
    )


def _or(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def _at_mbarrier(
    memory: BlockMemory, key: Key, one: Mbarrier
) -> tuple[Mbarrier, list[Noted], Hashable]:
    """An mbarrier, what was done there, and what decides which steps come next."""
    # Most mbarriers are as they were in the state before.
    found = memory.noted.get((key, id(one)))
    if found is None:
        noted: list[Noted] = []
        note = partial(_note, memory, noted)
        _each_event_of(key, one, note)
        # That its last two phases, and the one that shows it, are over, may be asked, too.
        for age in range(1, min(one.over, 2) + 1):
            note(("phase", key, age), ((one.column, one.over - age),))
        if one.shown is not None:
            note(("shown", key), (one.shown,))
        found = memory.noted[key, id(one)] = one, noted, _shape(key, one, memory.clocks)
    return found


def _note(memory: BlockMemory, noted: list[Noted], label: Label, event: Event) -> Event:
    noted += [(*part, bit) for part, bit in zip(event, _bits(memory, label, event), strict=True)]
    return event


def _shape(key: Key, one: Mbarrier, clocks: WarpClocks) -> Hashable:
    # No wait at a barrier of threads has a parity.
    parity = None if key[0] == NAMED else one.parity(one.over)
    return (
        *(key, one.needs, one.init, one.by, one.fenced, parity, one.running, one.shown is None),
        *(one.arrived_by, one.commits, min(one.over, 2), len(one.born), len(one.fence)),
        tuple([clocks.class_of(column) for column, _ in one.arrivals]),
    )


def _bits(memory: BlockMemory, label: Label, event: Event) -> tuple[int, ...]:
    """A bit for each part of what was done, by its class, which may have done it twice."""
    clocks = memory.clocks
    classes = tuple([clocks.class_of(column) for column, _ in event])
    found = memory.bits.get((label, classes))
    if found is None:
        warps = len(clocks.classes.groups)
        # What mbarriers and cores did is named by its label: their columns need not be the same in all memories.
        parts = [
            (label, of if of < warps else -1, classes[:n].count(of)) for n, of in enumerate(classes)
        ]
        found = tuple([1 << memory.names.setdefault(part, len(memory.names)) for part in parts])
        memory.bits[label, classes] = found
    return found


def _each_event_of(key: Key, one: Mbarrier, rule: Rule) -> Mbarrier:
    """An mbarrier with what was done there changed."""
    return one._replace(
        born=rule(("born", key), one.born),
        fence=rule(("fence", key), one.fence),
        arrivals=rule(("arrivals", key), one.arrivals),
        ends=tuple(
            end._replace(arrivals=rule(("end", key, age), end.arrivals))
            for age, end in enumerate(one.ends)
        ),
        waits=tuple(
            wait._replace(at=rule(("wait", key, wait.op), (wait.at,))[0]) for wait in one.waits
        ),
    )


def _each_event_of_others(memory: BlockMemory, rule: Rule) -> None:
    """Change what was done elsewhere."""
    for stored in memory.dones():
        for what, event in stored.items():
            stored[what] = rule(("done", what), event)
    for one, writes in _writes_by_event(memory):
        done = one._replace(done=rule(("written", writes), one.done))
        memory.generic.update(dict.fromkeys(writes, done))
    for load, read in memory.tensor.loads.items():
        landed, fenced = (event and rule((step, load), event) for step, event in enumerate(read))
        memory.tensor.loads[load] = Read(landed, fenced)
    for use, products in memory.tensor.uses():
        for product, at in products.items():
            products[product] = rule((use, product), (at,))[0]


def _writes_by_event(memory: BlockMemory) -> list[tuple[Fenced, frozenset[Touch]]]:
    """The generic writes, those together that were done by one event: all that a thread stores of a tile, say."""
    found: dict[Fenced, list[Touch]] = {}
    for write, one in memory.generic.items():
        found.setdefault(one, []).append(write)
    return [(one, frozenset(writes)) for one, writes in found.items()]


def _clock_pairs(memory: BlockMemory) -> Iterator[ClockPair]:
    yield from memory.clocks.known
    for key in sorted(memory.mbarriers):
        barrier = memory.mbarriers[key]
        yield from (barrier.gathered, barrier.released)
    for _, known in sorted(memory.tensor.fenced.items()):
        yield ClockPair(known, known)


def _levels(memory: BlockMemory) -> list[Levels]:
    """What was done, by column; that phases of copies are over, too."""
    others: list[Noted] = []
    note = partial(_note, memory, others)
    _each_event_of_others(memory, note)
    for what, landed in memory.brought.items():
        note(("landed", what), ((landed.column, landed.phase),))
    at_mbarriers = (_at_mbarrier(memory, key, one)[1] for key, one in memory.mbarriers.items())
    columns: list[Levels] = [{} for _ in range(memory.clocks.columns)]
    for column, tick, bit in chain(others, *at_mbarriers):
        levels = columns[column]
        levels[tick] = levels.get(tick, 0) | bit
    return columns


def unite(memory: BlockMemory, done: Done, other: BlockMemory) -> None:
    """Make a memory one in which all was `done`, as in this or another one of its shape, and nobody knows of more."""
    _with_those_of(memory, other)
    clocks = memory.clocks
    by_class = dict.fromkeys(clocks.ticks, 0)
    columns = _levels(memory)
    for column, levels in enumerate(columns):
        of = clocks.class_of(column)
        if of in by_class:
            by_class[of] |= _or(levels.values())
    distinct = list(dict.fromkeys(done.known))
    chains = {of: _chains(distinct, bits) for of, bits in by_class.items()}
    for column, levels in _columns(chains, clocks):
        columns[column : column + 1] = [levels]
    at = {
        bit: (column, tick)
        for column, levels in enumerate(columns)
        if clocks.class_of(column) in by_class
        for tick, bits in levels.items()
        for bit in _each(bits)
    }

    def later(label: Label, event: Event) -> Event:
        return tuple([at[bit] for bit in _bits(memory, label, event)])

    for key, one in tuple(memory.mbarriers.items()):
        memory.mbarriers[key] = _each_event_of(key, one, later)
    _each_event_of_others(memory, later)
    tops = [max(levels, default=-1) + 1 for levels in columns]
    clocks.ticks = {column: tops[column] for column in by_class}
    clocks.further = {column: (of, tops[column]) for column, (of, _) in clocks.further.items()}
    order = [sorted(levels.items()) for levels in columns]
    numbers = {known: tuple([_first(levels, known) for levels in order]) for known in distinct}
    left = iter(done.known)

    def pair() -> ClockPair:
        return ClockPair(numbers[next(left)], numbers[next(left)])

    clocks.known = [pair() for _ in clocks.known]
    for key, barrier in sorted(memory.mbarriers.items()):
        memory.mbarriers[key] = barrier._replace(gathered=pair(), released=pair())
    for number in sorted(memory.tensor.fenced):
        memory.tensor.fenced[number] = pair().seen


def _each(bits: int) -> Iterator[int]:
    while bits:
        yield bits & -bits
        bits &= bits - 1


def _first(levels: list[tuple[int, int]], known: int) -> int:
    """The number that one knows who knows of what is below."""
    number = 0
    for tick, bits in levels:
        if bits & ~known:
            return tick
        number = tick + 1
    return number


def _chains(everybody: list[int], all_bits: int) -> list[Levels]:
    """What a class did in as many orders as it takes for everybody to know of the first of each."""
    # Bits of which the same ones know, by these.
    alike = {0: all_bits} if all_bits else {}
    for number, mine in enumerate(everybody):
        parts = [(who, bits & mine, bits & ~mine) for who, bits in alike.items()]
        alike = {who: rest for who, _, rest in parts if rest}
        alike |= {who | 1 << number: known for who, known, _ in parts if known}
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


def _columns(chains: dict[int, list[Levels]], clocks: WarpClocks) -> Iterator[tuple[int, Levels]]:
    """The orders by column: the first of a class, or core, in its own, others in further ones."""
    clocks.further = dict(clocks.further)
    free = dict(clocks.further)
    for of, (first, *rest) in ((of, mine or [{}]) for of, mine in chains.items()):
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
    clocks, tensor = other.clocks, memory.tensor
    here = {
        theirs: mine
        for by, core in other.tensor.cores.items()
        for theirs, mine in zip(core, tensor.cores[by], strict=True)
    }

    def did(event: Event) -> Event:
        classes = [clocks.class_of(column) for column, _ in event]
        return tuple([(here.get(of, of), 0) for of in classes])

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
    for (_, products), (_, others) in zip(tensor.uses(), other.tensor.uses(), strict=True):
        products.update({p: did((at,))[0] for p, at in others.items() if p not in products})
    for load, read in other.tensor.loads.items():
        if load not in tensor.loads:
            tensor.loads[load] = Read(*(event and did(event) for event in read))
    for landed, where in other.brought.items():
        key, over = ages[where.column]
        one = memory.mbarriers[key]
        if landed not in memory.brought:
            phase = one.over - (over - where.phase)
            memory.brought[landed] = where._replace(column=one.column, phase=phase)
        elif memory.brought[landed].column != one.column:
            raise NotFollowedError("merged")


def _either(one: End, other: End, clocks: WarpClocks) -> End:
    """A phase that ended by one arrival or another."""
    more, have = [], [clocks.class_of(column) for column, _ in one.arrivals]
    for part in other.arrivals:
        if part[0] in have:
            have.remove(part[0])
        else:
            more.append(part)
    by = one.by if one.by == other.by else 0
    return End((*one.arrivals, *more), by, one.later or other.later, one.op, one.copy)
