"""The abstract state at one point of one path: values, queues, and what threads have done.

    queue cp.async   open: [copy c]     groups, youngest first: [copy b], [copy a]
    done             {copy z}           waited for, but no barrier has told the other threads
    log              {load x}           synchronous accesses since the last barrier

A wait for N keeps the N youngest groups; what it retires moves to `done`, and a barrier
empties `done` and `log`. Copies in flight cross barriers: a barrier does not complete them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Facts, Form, Known
from mlir_async_pipe.checker.memory import Frame, Piece, Region, View
from mlir_async_pipe.checker.thread_grid import ThreadRange


class Token(NamedTuple):
    """A token: `age` groups of its queue were committed after the group that it denotes."""

    queue: str
    age: int


Value = Form | View | Token


class Event(NamedTuple):
    """One access of one execution of an op. `site` numbers the op's access in the kernel.

    `threads` are conditions on the thread ids under which it ran; `maybe`: it stands in
    summary code under a condition.
    """

    site: int
    region: Region
    threads: ThreadRange
    maybe: bool


Issue = tuple[Event, ...]
Group = tuple[Issue, ...]


class Pending(NamedTuple):
    """What is in flight on one queue.

    `open` was issued and not committed; `groups` are committed, youngest first. `wait` is
    the number of the last wait op on this path (None: none yet), `since` the groups
    committed after it. `unconsumed` counts groups that no consumer_wait has taken.
    """

    open: Group = ()
    groups: tuple[Group, ...] = ()
    wait: int | None = None
    since: int = 0
    unconsumed: int = 0


@dataclass
class State:
    """One abstract state.

    `callers` are the function-scope queues of the callers; `scopes` has, for each
    async_pipe.scope around this point, how many issues its queue had open when it began.
    """

    env: dict[int, Value]
    queues: dict[str, Pending]
    done: frozenset[tuple[Event, int]]
    log: frozenset[Event]
    facts: dict[Atom, Known]
    tainted: bool = False
    barrier: int | None = None
    callers: tuple[tuple[tuple[str, Pending], ...], ...] = ()
    scopes: tuple[int, ...] = ()

    def copy(self) -> State:
        """A state that can be changed on its own."""
        return State(
            dict(self.env),
            dict(self.queues),
            self.done,
            self.log,
            dict(self.facts),
            self.tainted,
            self.barrier,
            self.callers,
            self.scopes,
        )

    def events(self) -> Iterable[Event]:
        """All events that the state remembers."""
        for pending in self.all_queues():
            for group in (pending.open, *pending.groups):
                for issue in group:
                    yield from issue
        for event, _ in self.done:
            yield event
        yield from self.log

    def all_queues(self) -> Iterable[Pending]:
        """The queues of this function and of its callers."""
        yield from self.queues.values()
        for saved in self.callers:
            for _, pending in saved:
                yield pending

    def rewrite(self, mapping: Mapping[Atom, Form]) -> None:
        """Replace atoms everywhere."""
        facts = self.facts
        memo: dict[Event, Event] = {}

        def event(old: Event) -> Event:
            new = memo.get(old)
            if new is None:
                new = memo[old] = old._replace(region=rewrite_region(old.region, mapping, facts))
            return new

        def group(old: Group) -> Group:
            return tuple(tuple(event(e) for e in issue) for issue in old)

        def pending(old: Pending) -> Pending:
            return old._replace(open=group(old.open), groups=tuple(group(g) for g in old.groups))

        for number, value in self.env.items():
            if isinstance(value, Form):
                if value.terms:
                    self.env[number] = forms.substitute(value, mapping, facts)
            elif isinstance(value, View):
                self.env[number] = rewrite_view(value, mapping, facts)
        self.queues = {name: pending(old) for name, old in self.queues.items()}
        self.done = frozenset((event(e), wait) for e, wait in self.done)
        self.log = frozenset(event(e) for e in self.log)
        self.callers = tuple(
            tuple((name, pending(old)) for name, old in saved) for saved in self.callers
        )
        self.facts = _rewrite_facts(facts, mapping)


def rewrite_region(region: Region, mapping: Mapping[Atom, Form], facts: Facts) -> Region:
    """The region with atoms replaced."""
    pieces = tuple(
        piece
        if piece is None or not piece.start.terms
        else Piece(forms.substitute(piece.start, mapping, facts), piece.steps, piece.length)
        for piece in region.pieces
    )
    return region._replace(pieces=pieces, frame=_rewrite_frame(region.frame, mapping, facts))


def rewrite_view(view: View, mapping: Mapping[Atom, Form], facts: Facts) -> View:
    """The view with atoms replaced."""
    start = view.start
    if start is not None:
        start = tuple(forms.substitute(form, mapping, facts) for form in start)
    return view._replace(start=start, frame=_rewrite_frame(view.frame, mapping, facts))


def _rewrite_frame(frame: Frame, mapping: Mapping[Atom, Form], facts: Facts) -> Frame:
    if not frame.base.terms:
        return frame
    return frame._replace(base=forms.substitute(frame.base, mapping, facts))


def _rewrite_facts(facts: dict[Atom, Known], mapping: Mapping[Atom, Form]) -> dict[Atom, Known]:
    """Facts about sums of atoms move along when their atoms shift by a constant."""
    moved: dict[Atom, Known] = {}
    for atom, known in facts.items():
        if atom.kind == "sum":
            old = Form(0, forms.terms_of(atom))
            new = forms.substitute(old, mapping, {})
        else:
            new = forms.substitute(forms.of_atom(atom), mapping, {})
            if new == forms.of_atom(atom) or (atom.kind == "iteration" and new.terms):
                moved[atom] = known
                continue
        if new.terms:
            moved[forms.sum_atom(new)] = Known(
                None if known.low is None else known.low - new.constant,
                None if known.high is None else known.high - new.constant,
                (known.residue - new.constant) % known.modulus,
                known.modulus,
            )
    return moved
