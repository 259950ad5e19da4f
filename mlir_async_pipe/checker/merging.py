"""When two abstract states are the same, and what holds for both if they differ in numbers.

Equal values, queues, sets and decided conditions make the same state; so do residues of
iteration numbers, as far as some `mod V` of the kernel needs them. Intervals are not part of
that: a state whose intervals another one covers is dropped, else both are widened into one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import ANYTHING, Atom, Form, Known
from mlir_async_pipe.checker.paths import hull
from mlir_async_pipe.checker.state import State
from mlir_async_pipe.checker.thread_grid import is_thread_condition
from mlir_async_pipe.checker.views import View


def forget_facts(state: State, live: set[int]) -> None:
    """Drop facts about atoms that nothing mentions any more."""
    if all(atom.kind in ("tid", "iteration") for atom in state.facts):
        return
    bits = ("bit", "thread bit")
    alive = {Atom("symbol", (bit, n)) for n in live if n not in state.env for bit in bits}
    for value in state.env.values():
        if isinstance(value, Form):
            alive |= forms.atoms_of(value)
        elif isinstance(value, View):
            for form in value.start or ():
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
        return atom.kind == "symbol" and not (_is_bit(atom) or _is_trips(atom))

    state.facts = {atom: known for atom, known in state.facts.items() if keep(atom)}


def key_of(state: State, periods: Mapping[int, int]) -> Hashable:
    """What must be equal for two states to be the same but for their numbers."""
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
    return (
        frozenset(state.env.items()),
        tuple(sorted(state.queues.items())),
        state.done,
        state.log,
        state.callers,
        state.scopes,
        state.sides,
        (state.tainted, state.other, state.uneven, state.unordered),
        bits,
        residues,
    )


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


def _is_trips(atom: Atom) -> bool:
    """Whether an atom is the trip count of a loop that was left: no op reads it again."""
    return atom.kind == "symbol" and isinstance(atom.key, tuple) and atom.key[0] == "trips"


def covers(general: dict[Atom, Known], special: dict[Atom, Known]) -> bool:
    """Whether every valuation that `special` allows is allowed by `general`."""
    return all(known.contains(special.get(atom, ANYTHING)) for atom, known in general.items())


def widened(old: dict[Atom, Known], new: dict[Atom, Known]) -> dict[Atom, Known]:
    """Facts that hold for both, bounds that move given up."""
    return {atom: hull(old[atom], known) for atom, known in new.items() if atom in old}
