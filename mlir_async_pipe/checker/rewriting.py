"""Replaces atoms in everything that a state remembers.

    back edge        k   -->  k - 1            what was "now" is one iteration ago
    loop left        k   -->  trip count
    op runs again    its symbol  -->  "some value of the past"

Operators fold by what is known of the new atoms, so facts are rewritten first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Facts, Form, Knowns
from mlir_async_pipe.checker.state import Event, State, Value, moved
from mlir_async_pipe.facts.values.views import Piece, Region, View, ViewFrame


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
