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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, zip_longest
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Facts, Form, Knowns
from mlir_async_pipe.checker.thread_grid import ThreadRange
from mlir_async_pipe.facts.values.views import Piece, Region, View, ViewFrame


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
    `chosen`: what else chose its threads.
    """

    site: int
    region: Region
    threads: ThreadRange
    maybe: bool
    mentions: frozenset[Atom]
    met: bool = False
    chosen: tuple[Choice, ...] = ()


class Choice(NamedTuple):
    """Only threads ran it of which `own`, a number of the thread, plus `shared`, which all of the block have and keep, is from
    `low` to `high`: of t = n there is one."""

    own: Form
    shared: Form
    low: int
    high: int


def event_of(site: int, region: Region, threads: ThreadRange, maybe: bool) -> Event:
    mentions = forms.atoms_of(region.frame.base)
    for piece in region.pieces:
        if piece is not None and piece.start.terms:
            mentions |= forms.atoms_of(piece.start)
    return Event(site, region, threads, maybe, mentions)


def moved(event: Event, region: Region) -> Event:
    found = event_of(event.site, region, event.threads, event.maybe)
    return found._replace(met=event.met, chosen=event.chosen)


def of_group(event: Event, group: ThreadRange) -> Event:
    """An access as far as threads of a group do it."""
    more = tuple(condition for condition in group if condition not in event.threads)
    return event._replace(threads=(*event.threads, *more)) if more else event


Issue = tuple[Event, ...]
Group = tuple[Issue, ...]


class Pending(NamedTuple):
    """What is in flight on one queue.

    `open` was issued and not committed; `groups` are committed, youngest first. `wait` is the number of the last wait
    op on this path (None: none yet), `since` the groups committed after it. `untaken`: of abstract queues whose
    consumer_wait have no count, how many groups are younger than each that none has taken, the oldest first.
    """

    open: Group = ()
    groups: tuple[Group, ...] = ()
    wait: int | None = None
    since: int = 0
    untaken: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def all_groups(self) -> tuple[Group, ...]:
        return (self.open, *self.groups)

    def with_all(self, other: Pending) -> Pending:
        """The same with what another queue has in each of its groups, as often as one of the two has it."""
        opened, *groups = (
            (*one, *(Counter(more) - Counter(one)).elements())
            for one, more in zip_longest(self.all_groups, other.all_groups, fillvalue=())
        )
        return self._replace(open=opened, groups=tuple(groups))

    def changed(self, change: Callable[[Event], Event]) -> Pending:
        opened, *groups = (
            tuple(tuple(map(change, issue)) for issue in group) for group in self.all_groups
        )
        return self._replace(open=opened, groups=tuple(groups))


class Passed(NamedTuple):
    """An access that the barrier with this number ordered before what follows; `waited`: it was asynchronous."""

    event: Event
    barrier: int
    waited: bool


class CarriedSlot(NamedTuple):
    """A loop-carried value, by its number, that is (start + k) mod versions in iteration k."""

    value: int
    start: int
    versions: int


class PartingEvent(NamedTuple):
    """An access on one side of a parting, `interval` barriers after it. `plain`: nothing else was decided before."""

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
    barriers order the same address spaces (see `commit_groups`)."""

    early: ThreadRange
    late: ThreadRange
    spaces: frozenset[str]
    site: int


@dataclass
class State:
    """One abstract state.

    `callers` are the function-scope queues of the callers; `scopes` has, for each async_pipe.scope around this point,
    how many issues its queue had open when it began. `rings` are the slots that each loop around carries (see
    `carried_slots`), `sides` those of branches on which the threads of this path took another side than others (see
    `partings`). `tainted`: why it may not be reached like this, "" if it certainly is. `other`: the thread that goes on
    is not the one whose accesses are remembered. `uneven` are the loops around that other threads may have left
    already; `unordered`: a barrier was passed that not all threads need reach. `loose` are the iteration numbers of
    which less is known, since states were widened, than that some path came here with them. While two groups of waves
    take `turns`, `behind` is what the late one did before the last barrier, with the wait that it waited for it.
    `asked`: comparisons that the path has decided, of values of now, known or forgotten, and in this iteration the
    values that they are.
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


# Atoms are replaced in everything that a state remembers.
#
#     back edge        k   -->  k - 1            what was "now" is one iteration ago
#     loop left        k   -->  trip count
#     op runs again    its symbol  -->  "some value of the past"
#
# Operators fold by what is known of the new atoms, so facts are rewritten first.


def rewrite(
    state: State,
    mapping: Mapping[Atom, Form],
    *,
    fold_iterations: bool = True,
    unsure: bool = False,
) -> None:
    """Replace atoms everywhere in a state; unless `fold_iterations`, remainders of iteration
    numbers stay what they are. `unsure`: what an access becomes may be one that never was."""
    state.facts = _rewrite_facts(state.facts, mapping)
    state.asked = frozenset(a for a in state.asked if forms.atoms_under(a[0]).isdisjoint(mapping))
    facts = state.facts if fold_iterations else without_iterations(state.facts)
    replaced = Substitution(mapping, facts, unsure)
    for number, value in state.env.items():
        if isinstance(value, Form):
            if value.terms:
                state.env[number] = replaced.form(value)
        elif isinstance(value, View):
            state.env[number] = replaced.view(value)
    state.queues = {name: old.changed(replaced.event) for name, old in state.queues.items()}
    state.done = frozenset((replaced.event(e), wait) for e, wait in state.done)
    state.log = frozenset(replaced.event(e) for e in state.log)
    state.behind = frozenset((replaced.event(e), wait) for e, wait in state.behind)
    state.passed = tuple(p._replace(event=replaced.event(p.event)) for p in state.passed)
    state.callers = tuple(
        tuple((name, old.changed(replaced.event)) for name, old in saved) for saved in state.callers
    )


def stale(state: State, atom: Atom) -> None:
    """The symbol's op runs again: what the state says about its last value is of the past."""
    past = forms.of_atom(Atom("any", (("past", atom.key), forms.ANYTHING)))
    state.facts.pop(atom, None)
    if any(atom in forms.atoms_under(a) for a, _ in state.asked):
        state.asked = frozenset(a for a in state.asked if atom not in forms.atoms_under(a[0]))
        # What is remembered of a comparison, though nobody needs it now, is about the value before.
        state.facts = {
            a: known for a, known in state.facts.items() if atom not in forms.atoms_under(a)
        }
    if (
        any(atom in event.mentions for event in state.events())
        or any(atom in passed.event.mentions for passed in state.passed)
        or any(_mentions(value, atom) for value in state.env.values())
    ):
        rewrite(state, {atom: past}, unsure=True)


def _mentions(value: Value, atom: Atom) -> bool:
    if isinstance(value, View):
        return any(atom in forms.atoms_of(form) for form in value.forms)
    return isinstance(value, Form) and atom in forms.atoms_of(value)


def without_iterations(facts: Facts) -> Facts:
    """The facts that leave remainders of iteration numbers as they are: k mod 3, not 1."""
    return {atom: known for atom, known in facts.items() if not _has_iteration(atom)}


@lru_cache(maxsize=1 << 12)
def _has_iteration(atom: Atom) -> bool:
    return any(inner.kind == "iteration" for inner in forms.atoms_under(atom))


@dataclass
class Substitution:
    """One replacement of atoms; each form and each event is rewritten once."""

    mapping: Mapping[Atom, Form]
    facts: Facts
    unsure: bool = False
    _forms: dict[Form, Form] = field(default_factory=dict)
    _events: dict[Event, Event] = field(default_factory=dict)

    def form(self, old: Form) -> Form:
        return forms.substitute(old, self.mapping, self.facts, self._forms)

    def region(self, region: Region) -> Region:
        pieces = tuple(
            piece
            if piece is None or not piece.start.terms
            else Piece(self.form(piece.start), piece.steps, piece.length)
            for piece in region.pieces
        )
        return region._replace(pieces=pieces, frame=self._frame(region.frame))

    def view(self, view: View) -> View:
        start = view.start
        if start is not None:
            start = tuple(self.form(form) for form in start)
        aligned = None if view.aligned is None else self.form(view.aligned)
        return view._replace(start=start, frame=self._frame(view.frame), aligned=aligned)

    def event(self, old: Event) -> Event:
        """The event with atoms replaced: the same object if it has none of them."""
        if old.mentions.isdisjoint(self.mapping):
            return old
        new = self._events.get(old)
        if new is None:
            region = self.region(old.region)
            region = region._replace(certain=False) if self.unsure else region
            new = self._events[old] = moved(old, region)
        return new

    def _frame(self, frame: ViewFrame) -> ViewFrame:
        if not frame.base.terms:
            return frame
        return frame._replace(base=self.form(frame.base))


def _rewrite_facts(facts: Knowns, mapping: Mapping[Atom, Form]) -> Knowns:
    """Facts about sums of atoms move along when their atoms shift by a constant."""
    moved: Knowns = {}
    for atom, known in facts.items():
        if atom not in mapping and atom.kind not in ("sum", "call"):
            moved[atom] = known
            continue
        if atom.kind == "sum":
            old = Form(0, forms.terms_of(atom))
            new = forms.with_remainders(forms.substitute(old, mapping, {}))
        else:
            new = forms.substitute(forms.of_atom(atom), mapping, {})
            if new == forms.of_atom(atom) or (atom.kind == "iteration" and new.terms):
                moved[atom] = known
                continue
        if new.terms:
            moved[forms.sum_atom(new)] = known.moved(-new.constant)
    return moved
