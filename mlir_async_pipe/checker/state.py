"""The abstract state at one point of one path: values, queues, and what threads have done.

    queue cp.async   open: [copy c]     groups, youngest first: [copy b], [copy a]
    done             {copy z}           waited for, but no barrier has shown the other threads
    log              {load x}           synchronous accesses since the last barrier
    passed           {load y}           what the last barrier has emptied out of `done` and `log`

A wait for N keeps the N youngest groups; what it retires moves to `done`, and a barrier
empties `done` and `log`. Copies in flight cross barriers: a barrier does not complete them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form, Knowns
from mlir_async_pipe.checker.thread_grid import ThreadRange
from mlir_async_pipe.facts.values.views import Region, View


class Token(NamedTuple):
    """A token: `age` groups of its queue were committed after the group that it denotes."""

    queue: str
    age: int


Value = Form | View | Token


class Event(NamedTuple):
    """One access of one execution of an op. `site` numbers the op's access in the kernel.

    `threads` are conditions on the thread ids under which it ran; `maybe`: it stands in
    summary code under a condition. `mentions` are the atoms of its region (see `event_of`).
    `met`: the lanes of its warp have met since, so that it happened before all that they do now.
    """

    site: int
    region: Region
    threads: ThreadRange
    maybe: bool
    mentions: frozenset[Atom]
    met: bool = False


def event_of(site: int, region: Region, threads: ThreadRange, maybe: bool) -> Event:
    mentions = forms.atoms_of(region.frame.base)
    for piece in region.pieces:
        if piece is not None and piece.start.terms:
            mentions |= forms.atoms_of(piece.start)
    return Event(site, region, threads, maybe, mentions)


def moved(event: Event, region: Region) -> Event:
    return event_of(event.site, region, event.threads, event.maybe)._replace(met=event.met)


def of_group(event: Event, group: ThreadRange) -> Event:
    """An access as far as threads of a group do it."""
    more = tuple(condition for condition in group if condition not in event.threads)
    return event._replace(threads=(*event.threads, *more)) if more else event


Issue = tuple[Event, ...]
Group = tuple[Issue, ...]


class Pending(NamedTuple):
    """What is in flight on one queue.

    `open` was issued and not committed; `groups` are committed, youngest first. `wait` is
    the number of the last wait op on this path (None: none yet), `since` the groups
    committed after it. `untaken`: of abstract queues whose consumer_wait have no count, how many
    groups are younger than each that none has taken, the oldest first.
    """

    open: Group = ()
    groups: tuple[Group, ...] = ()
    wait: int | None = None
    since: int = 0
    untaken: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The open group, and the committed ones."""
        return (self.open, *self.groups)

    def with_all(self, other: Pending) -> Pending:
        """The same with what another queue has in each of its groups, as often as one of the two has it."""
        opened, *groups = (
            (*one, *(Counter(more) - Counter(one)).elements())
            for one, more in zip_longest(self.all_groups, other.all_groups, fillvalue=())
        )
        return self._replace(open=opened, groups=tuple(groups))

    def changed(self, change: Callable[[Event], Event]) -> Pending:
        """The same with each event changed."""
        opened, *groups = (
            tuple(tuple(map(change, issue)) for issue in group) for group in self.all_groups
        )
        return self._replace(open=opened, groups=tuple(groups))


class Passed(NamedTuple):
    """An access that the barrier with this number ordered before what follows; `waited`: it was
    asynchronous."""

    event: Event
    barrier: int
    waited: bool


class CarriedSlot(NamedTuple):
    """A loop-carried value, by its number, that is (start + k) mod versions in iteration k."""

    value: int
    start: int
    versions: int


class PartingEvent(NamedTuple):
    """An access on one side of a parting, `interval` barriers after it. `plain`: nothing else
    was decided before."""

    event: Event
    side: int
    interval: int
    plain: bool


@dataclass(eq=False)
class Parting:
    """One time that the threads of a block take different paths, up to the block `join` (None:
    until paths meet; `partings.ENDED`: to their ends). `facts` are those before it, `threads` what each side knows of its
    threads; `even`: all sides pass equally many barriers; `by_ids`: ids of threads alone decide which side one takes;
    `meets`: where it ends threads of another side may come (not where all that stay in a loop do)."""

    join: int | None
    facts: Knowns
    even: bool = True
    by_ids: bool = False
    meets: bool = True
    threads: dict[int, Knowns] = field(default_factory=dict)
    events: dict[PartingEvent, None] = field(default_factory=dict)


class Side(NamedTuple):
    """A path's side of a parting, and how many barriers it passed since."""

    parting: Parting
    number: int
    interval: int


class WaveGroups(NamedTuple):
    """Two groups of waves of which the `late` one has passed one barrier more, at `site`, and is an interval behind; all
    barriers order the same address spaces (see `wave_groups`)."""

    early: ThreadRange
    late: ThreadRange
    spaces: frozenset[str]
    site: int


@dataclass
class State:
    """One abstract state.

    `callers` are the function-scope queues of the callers; `scopes` has, for each
    async_pipe.scope around this point, how many issues its queue had open when it began.
    `rings` are the slots that each loop around carries (see `carried_slots`), `sides` those of
    branches on which the threads of this path took another side than others (see `partings`).
    `tainted`: why it may not be reached like this, "" if it certainly is.
    `other`: the thread that goes on is not the one whose accesses are remembered. `uneven` are
    the loops around that other threads may have left already; `unordered`: a barrier was passed
    that not all threads need reach. `loose` are the iteration numbers of which less is known, since
    states were widened, than that some path came here with them. While two groups of waves take `turns`, `behind` is what
    the late one did before the last barrier, with the wait that it waited for it. `asked`: comparisons that the path has
    decided, of values of now, known or forgotten, and in this iteration the values that they are.
    """

    env: dict[int, Value]
    queues: dict[str, Pending]
    done: frozenset[tuple[Event, int]]
    log: frozenset[Event]
    facts: Knowns
    tainted: str = ""
    barrier: int | None = None
    passed: tuple[Passed, ...] = ()
    callers: tuple[tuple[tuple[str, Pending], ...], ...] = ()
    scopes: tuple[int, ...] = ()
    rings: dict[int, tuple[CarriedSlot, ...]] = field(default_factory=dict)
    sides: tuple[Side, ...] = ()
    other: bool = False
    uneven: frozenset[int] = frozenset()
    unordered: bool = False
    loose: frozenset[Atom] = frozenset()
    turns: WaveGroups | None = None
    behind: frozenset[tuple[Event, int | None]] = frozenset()
    asked: frozenset[tuple[Atom, int | None]] = frozenset()

    def copy(self) -> State:
        """A state that can be changed on its own."""
        return self.under(self.facts, True)

    def taint(self, reason: str = "undecided-path") -> None:
        """What follows is not certain."""
        self.tainted = self.tainted or reason

    def under(self, facts: Knowns, exact: bool) -> State:
        """A copy on which `facts` hold; tainted unless they say exactly when it is reached."""
        tainted = self.tainted
        if not exact:
            calls = (atom for atom in facts if atom.kind == "call")
            wraps = any(forms.may_wrap(forms.of_atom(atom)) for atom in calls)
            tainted = "may-wrap" if wraps else tainted or "undecided-path"
        env, queues = dict(self.env), dict(self.queues)
        return replace(self, env=env, queues=queues, facts=dict(facts), tainted=tainted)

    def issues(self) -> Iterator[Issue]:
        """What is in flight."""
        for pending in self.all_queues():
            for group in pending.all_groups:
                yield from group

    def in_flight(self) -> Iterator[Event]:
        """What is in flight, event by event."""
        return chain.from_iterable(self.issues())

    def events(self) -> Iterator[Event]:
        yield from self.in_flight()
        for event, _ in self.done:
            yield event
        yield from self.log
        for event, _ in self.behind:
            yield event

    def size(self) -> int:
        """How much the state remembers, in events and issues."""
        return sum(1 for _ in self.issues()) + len(self.done) + len(self.log) + len(self.behind)

    def remembered(self) -> frozenset[Hashable]:
        """What the state remembers of this function, each event with where: it may conflict with no
        less than a state that remembers a part of that."""
        logged = (("log", event) for event in self.log)
        behind = (("behind", entry) for entry in self.behind)
        return self.in_place().union(self.done, logged, behind, self.passed)

    def with_all(self, other: State) -> State:
        """This state, and what another one remembers that differs in nothing else."""
        names = self.queues.keys() | other.queues.keys()
        empty = Pending()
        return replace(
            self,
            queues={
                name: self.queues.get(name, empty).with_all(other.queues.get(name, empty))
                for name in sorted(names)
            },
            done=self.done | other.done,
            log=self.log | other.log,
            behind=self.behind | other.behind,
            passed=tuple(dict.fromkeys((*self.passed, *other.passed))),
            loose=self.loose | other.loose,
            asked=self.asked | other.asked,
        )

    def in_place(self) -> frozenset[Hashable]:
        """What is in flight, with its queue and the number of its group."""
        return frozenset(
            (name, age, event)
            for name, pending in self.queues.items()
            for age, group in enumerate(pending.all_groups)
            for event in chain.from_iterable(group)
        )

    def issued_by(self, threads: ThreadRange, shared: frozenset[Hashable]) -> None:
        """What is in flight, but for what is `shared` by all, only some threads have issued, or not waited for."""

        def of_threads(name: str, age: int, event: Event) -> Event:
            return event if (name, age, event) in shared else of_group(event, threads)

        for name, pending in self.queues.items():
            opened, *groups = (
                tuple(tuple(of_threads(name, age, event) for event in issue) for issue in group)
                for age, group in enumerate(pending.all_groups)
            )
            self.queues[name] = pending._replace(open=opened, groups=tuple(groups))

    def last_waits(self) -> dict[Event, int]:
        """The events that were waited for, each with the last wait that did."""
        waits: dict[Event, int] = {}
        for event, wait in self.done:
            waits[event] = max(wait, waits.get(event, wait))
        return waits

    def all_queues(self) -> Iterable[Pending]:
        """The queues of this function and of its callers."""
        yield from self.queues.values()
        for saved in self.callers:
            for _, pending in saved:
                yield pending
