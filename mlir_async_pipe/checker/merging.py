"""When one abstract state covers another, and what holds for both if they differ in numbers.

Equal values, queues, sets and decided conditions make the same state; so do residues of
iteration numbers, as far as some `mod V` of the kernel needs them. Intervals are not part of
that: a state whose intervals another one covers is dropped, else both are widened into one.

    in flight: [copy a, copy b], [copy c]    covers    in flight: [copy b], [copy c]

A state that remembers a part of what another one does is dropped too: whatever races with the part
races on the path of the other. Groups count for waits, so each copy must be of the same age; where
waits count copies, no copy may be missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import ANYTHING, Atom, AtomRange, Facts, Form
from mlir_async_pipe.checker.paths import hull
from mlir_async_pipe.checker.state import Pending, State
from mlir_async_pipe.checker.thread_grid import is_thread_condition
from mlir_async_pipe.facts.values.views import View

# States at one place that others are compared with: those that remember most come first.
COMPARED_STATES = 64


def forget_facts(state: State, live: set[int], base: Facts) -> None:
    """Drop facts about atoms that nothing mentions any more, but for those of `base`: what they are
    about may still come."""
    if all(atom.kind in ("tid", "iteration") for atom in state.facts):
        return
    bits = ("bit", "thread bit")
    alive = {Atom("symbol", (bit, n)) for n in live if n not in state.env for bit in bits}
    for value in state.env.values():
        if isinstance(value, Form):
            alive |= forms.atoms_of(value)
        elif isinstance(value, View):
            for form in value.forms:
                alive |= forms.atoms_of(form)
    for event in state.events():
        alive |= event.mentions

    def keep(atom: Atom) -> bool:
        if atom.kind in ("tid", "iteration") or atom in alive:
            return True
        if state.sides and is_thread_condition(atom):
            return True
        if atom.kind == "sum":
            return all(
                inner in alive or inner.kind == "iteration" for inner, _ in forms.terms_of(atom)
            )
        if atom.kind != "symbol" or _is_bit(atom) or _is_trips(atom):
            return False
        number = _value_number(atom)
        return number is None or number in live or bool(state.sides) or atom in base

    state.facts = {atom: known for atom, known in state.facts.items() if keep(atom)}


@dataclass
class Seen:
    """The states of one key that came to one block: what is known of the numbers of each, and all that
    it remembers, by queues and sets."""

    _facts: dict[Hashable, list[dict[Atom, AtomRange]]] = field(default_factory=dict)
    _whole: dict[Hashable, frozenset[Hashable]] = field(default_factory=dict)

    def adds(self, state: State, separate: int) -> bool:
        """Whether no state before covers this one. It is then kept; if there are `separate` ones that
        differ from it in numbers alone, it is widened."""
        memory = (tuple(sorted(state.queues.items())), state.done, state.log)
        known = self._facts.get(memory, [])
        if any(covers(facts, state.facts) for facts in known):
            return False
        if not known:
            whole = state.remembered() if self._facts else None
            if whole is not None and self._covers_part(whole, state.facts):
                return False
            self._facts[memory] = known
            if len(self._whole) < COMPARED_STATES:
                self._whole[memory] = state.remembered() if whole is None else whole
        if len(known) >= separate:
            state.facts = widened(known[-1], state.facts)
        known.append(dict(state.facts))
        return True

    def _covers_part(self, part: frozenset[Hashable], facts: dict[Atom, AtomRange]) -> bool:
        return any(
            part <= whole and any(covers(held, facts) for held in self._facts[memory])
            for memory, whole in self._whole.items()
        )


def key_of(
    state: State, periods: Mapping[int, int], counted: frozenset[str], short: frozenset[int]
) -> Hashable:
    """What must be equal for one of two states to cover the other. Of the queues `counted` waits count
    the copies; so does what a scope issues. Iterations of `short` loops are distinguished."""
    bits = frozenset(
        (atom, known)
        for atom, known in state.facts.items()
        if _is_bit(atom) or (atom.kind == "call" and known.exact is not None)
    ) | frozenset(
        (atom, (known.residue, known.modulus))
        for atom, known in state.facts.items()
        if atom.kind == "symbol" and known.modulus > 1
    )
    residues = tuple(
        (loop, forms.residue(forms.of_atom(Atom("iteration", loop)), period, state.facts))
        for loop, period in sorted(periods.items())
    )
    numbers = tuple(state.facts.get(Atom("iteration", loop), ANYTHING).exact for loop in short)
    queues = frozenset(
        (name, pending if state.scopes or name in counted else _waits(pending))
        for name, pending in state.queues.items()
    )
    return (
        frozenset(state.env.items()),
        queues,
        state.callers,
        state.scopes,
        state.sides,
        (state.tainted, state.other, state.uneven, state.unordered),
        bits,
        residues,
        numbers,
    )


def _waits(pending: Pending) -> Pending:
    """A queue without what is in flight on it."""
    return pending._replace(open=(), groups=())


def _is_bit(atom: Atom) -> bool:
    return (
        atom.kind == "symbol"
        and isinstance(atom.key, tuple)
        and atom.key[0]
        in (
            "bit",
            "thread bit",
        )
    )


def _value_number(atom: Atom) -> int | None:
    """The number of the value that a symbol stands for; None for ids and sizes of the launch."""
    key = atom.key[1] if isinstance(atom.key, tuple) and atom.key[0] == "thread" else atom.key
    return key if isinstance(key, int) else None


def _is_trips(atom: Atom) -> bool:
    """Whether an atom is the trip count of a loop that was left: no op reads it again."""
    return atom.kind == "symbol" and isinstance(atom.key, tuple) and atom.key[0] == "trips"


def covers(general: dict[Atom, AtomRange], special: dict[Atom, AtomRange]) -> bool:
    """Whether every valuation that `special` allows is allowed by `general`."""
    return all(known.contains(special.get(atom, ANYTHING)) for atom, known in general.items())


def widened(old: dict[Atom, AtomRange], new: dict[Atom, AtomRange]) -> dict[Atom, AtomRange]:
    """Facts that hold for both, bounds that move given up."""
    return {atom: hull(old[atom], known) for atom, known in new.items() if atom in old}
