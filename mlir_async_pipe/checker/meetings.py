"""Accesses to shared global memory as paths meet them: what all of these know of their unknowns.

    path 1:  k in [0, 6],  n = 8       store out[128 block + k]
    path 2:  k = 7                     both: k in [0, 7], and nothing of n

The stores of one tile stand side by side and mention the same unknowns: what a path knows of these is
gathered, and joined with what others knew, once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.footprints import AccessGroup, Touched, both_facts, with_decisions
from mlir_async_pipe.checker.forms import ANYTHING, Atom, AtomRange
from mlir_async_pipe.checker.grid_blocks import GridBlocks, block_axis, distinct_axis, is_of_launch
from mlir_async_pipe.checker.state import Event, State

Knowns = dict[Atom, AtomRange]
"""Shared by accesses that know the same: never changed."""


@dataclass
class Meetings:
    """The accesses of one kernel."""

    scopes: FactScopes
    _touched: dict[int, Touched] = field(default_factory=dict)

    @property
    def touched(self) -> Iterable[Touched]:
        """All accesses, in the order in which they were met first."""
        return self._touched.values()

    def meet(self, events: Iterable[Event], state: State) -> None:
        """Accesses on one path, side by side."""
        here = _Path(self.scopes, state)
        for event in events:
            met = self._touched.get(id(event))
            if met is None:
                self._touched[id(event)] = here.begun(event)
            elif not (met.certain and here.adds_nothing(met)):
                here.join(met)

    def adds_nothing(self, event: Event) -> bool:
        """Whether no other path can tell more of an event than is known already: it certainly
        happens, in any block, and in any thread."""
        met = self._touched.get(id(event))
        return met is not None and met.certain and not met.facts and not event.threads


@dataclass
class _Path:
    """One path at one point. What was answered of dictionaries is kept by their identity; they live
    as long as what holds them, which is `kept` where nobody else does."""

    scopes: FactScopes
    state: State
    _common: tuple[Knowns, list[Atom], Knowns, bool] | None = None
    _facts: dict[frozenset[Atom], Knowns] = field(default_factory=dict)
    _held: dict[tuple[int, int], bool] = field(default_factory=dict)
    _joined: dict[tuple[int, int, int], tuple[Knowns, Knowns, bool]] = field(default_factory=dict)
    _kept: list[Knowns] = field(default_factory=list)

    def adds_nothing(self, met: Touched) -> bool:
        """Whether this path knows no less than what is known of an access already."""
        key = (id(met.facts), id(met.launch))
        found = self._held.get(key)
        if found is None:
            known = self.state.facts
            found = self._held[key] = all(
                known.get(atom) == value
                for facts in (met.facts, met.launch)
                for atom, value in facts.items()
            )
        return found

    def begun(self, event: Event) -> Touched:
        """An access that no path has met before."""
        facts, launch = self._known_of(event), self._about_all[2]
        certain = self._about_all[3] and not event.maybe
        return Touched(event, facts, launch, certain, witness=(facts, launch))

    def join(self, met: Touched) -> None:
        """An access that other paths have met."""
        event = met.event
        facts, launch = self._known_of(event), self._about_all[2]
        certain = self._about_all[3] and not event.maybe
        key = (id(met.facts), id(met.launch), id(facts))
        if key not in self._joined:
            self._kept += (met.facts, met.launch)
            blocks = {a: k for a, k in facts.items() if block_axis(a) is not None}
            # Blocks between those of two paths need not come here.
            alike = all(met.facts.get(atom) in (known, None) for atom, known in blocks.items())
            self._joined[key] = (
                both_facts(met.facts, facts, (met.launch, launch)),
                both_facts(met.launch, launch),
                alike,
            )
        if certain and not met.certain:
            met.witness = (facts, launch)
        met.facts, met.launch, alike = self._joined[key]
        met.certain = (met.certain or certain) and alike

    def _known_of(self, event: Event) -> Knowns:
        """What is known of the unknowns of one access, and of its block."""
        found = self._facts.get(event.mentions)
        if found is None:
            known, mentions = self.state.facts, event.mentions
            found = {a: known[a] for a in mentions if a.kind != "tid" and a in known}
            blocks, sums, _, _ = self._about_all
            found.update(blocks)
            for atom in sums:
                if any(part in mentions for part, _ in forms.terms_of(atom)):
                    found[atom] = known[atom]
            self._facts[event.mentions] = found
        return found

    @property
    def _about_all(self) -> tuple[Knowns, list[Atom], Knowns, bool]:
        """What every access here knows of its block; sums that all blocks have alike; what is known
        of the launch; whether the access certainly happens."""
        if self._common is None:
            blocks: Knowns = {}
            launch: Knowns = {}
            sums: list[Atom] = []
            certain = not self.state.tainted
            held = self.scopes.of
            for atom, known in self.state.facts.items():
                where = held(atom)
                if where == "block":
                    blocks[atom] = known
                elif where == "grid":
                    launch[atom] = known
                elif where == "path":
                    certain = False
                elif where == "blocks" and atom.kind == "sum":
                    sums.append(atom)
            self._common = (blocks, sums, with_decisions(launch), certain)
        return self._common


# Two blocks next to each other, as numbers for what tells blocks apart.
#
#     C[128 block x + thread]        block x = 0 and 1, in both orders
#
# Where such blocks touch one place, they certainly race.


def neighbours(
    grid: GridBlocks, is_fixed: Callable[[Atom], bool], a: AccessGroup, b: AccessGroup
) -> Iterator[tuple[dict[Atom, int], dict[Atom, int]]]:
    """Numbers for the unknowns of two blocks next to each other; none where some have no
    value that certainly occurs. `is_fixed` tells what all blocks have alike."""
    atoms = {
        atom
        for form in (*a.shared, *b.shared)
        for atom in forms.atoms_of(form)
        if atom.kind != "call"
    }
    free = [atom for atom in atoms if atom.kind != "iteration" and block_axis(atom) is None]
    # Of what blocks compute for themselves nobody knows that two of them come to one value.
    if not all(is_fixed(atom) and _cancels(atom, a, b) for atom in free):
        return
    for axis in grid.open_axes:
        for shift in (0, 1), (1, 0):
            ends = []
            for group, step in zip((a, b), shift, strict=True):
                numbers = dict.fromkeys(free, 0)
                for atom in atoms:
                    if atom.kind == "iteration":
                        numbers[atom] = group.facts.get(atom, ANYTHING).low or 0
                for along in range(3):
                    low = of_axis(group.facts, along).low or 0
                    for atom in atoms:
                        if block_axis(atom) == along:
                            numbers[atom] = low + (step if along == axis else 0)
                ends.append(numbers)
            possible = _may_be(grid, a, axis, shift[0]) and _may_be(grid, b, axis, shift[1])
            first, second = (
                (of_axis(group.facts, axis).low or 0) + step
                for group, step in zip((a, b), shift, strict=True)
            )
            if possible and first != second:
                yield ends[0], ends[1]


def _may_be(grid: GridBlocks, group: AccessGroup, axis: int, step: int) -> bool:
    """Whether there is a block `step` after the first one of a group."""
    known = of_axis(group.facts, axis)
    number = (known.low or 0) + step
    size = grid.sizes[axis]
    return (known.high is None or number <= known.high) and (size is None or number < size)


def of_axis(facts: dict[Atom, AtomRange], axis: int) -> AtomRange:
    """What is known of the block id of an axis."""
    return next((k for a, k in facts.items() if block_axis(a) == axis), ANYTHING)


def _cancels(atom: Atom, a: AccessGroup, b: AccessGroup) -> bool:
    """Whether both ends have the same multiple of an atom, as a term of its own."""
    for x, y in zip(a.shared, b.shared, strict=True):
        if dict(x.terms).get(atom, 0) != dict(y.terms).get(atom, 0):
            return False
        for form in (x, y):
            if any(
                p.kind == "call" and atom in forms.atoms_of(forms.of_atom(p)) for p, _ in form.terms
            ):
                return False
    return distinct_axis(atom) is None and atom.kind == "symbol"


# Where a fact about an atom holds, seen from one path of one block.
#
#     %n = 4            in the whole grid: %n is an argument of the kernel
#     %i in [0, 8)      in what every block does, at a time of its own
#     block_id = 0      in one block
#
# At every access each fact of its path is asked for; an atom is distinguished once.

Scope = Literal["block", "launch", "grid", "blocks", "path"]
"""One block; the grid, by the sizes of its launch or by something else; what every block does; one
path of one block."""


@dataclass
class FactScopes:
    """The scopes of the atoms of one kernel; `is_argument` knows its arguments."""

    is_argument: Callable[[int], bool]
    _known: dict[Atom, Scope] = field(default_factory=dict)

    def of(self, atom: Atom) -> Scope:
        """The scope of facts about an atom."""
        found = self._known.get(atom)
        if found is None:
            found = self._known[atom] = self._found(atom)
        return found

    def _found(self, atom: Atom) -> Scope:
        if block_axis(atom) is not None:
            return "block"
        if self._is_of_grid(atom):
            return "launch" if is_of_launch(atom) else "grid"
        return "blocks" if self._is_common(atom) else "path"

    def _is_of_grid(self, atom: Atom) -> bool:
        """Whether a fact about the atom holds in the whole grid, at any time."""
        parts = forms.terms_of(atom) if atom.kind == "sum" else ((atom, 1),)
        return all(self.is_fixed(part) for part, _ in parts)

    def _is_common(self, atom: Atom) -> bool:
        """Whether what a path decided holds in other blocks too."""
        if atom.kind in ("tid", "iteration"):
            return True
        parts = [a for a, _ in forms.terms_of(atom)] if atom.kind == "sum" else [atom]
        leaves = [a for p in parts for a in forms.atoms_of(forms.of_atom(p)) if a.kind != "call"]
        return all(self.is_fixed(a) or a.kind in ("tid", "iteration") for a in leaves)

    def is_fixed(self, atom: Atom) -> bool:
        """Whether an unknown has one value in the whole grid, at any time."""
        if atom.kind == "call":
            operands = forms.operator_of(atom)[1]
            return all(self.is_fixed(part) for form in operands for part, _ in form.terms)
        if atom.kind != "symbol" or distinct_axis(atom) is not None:
            return False
        if isinstance(atom.key, tuple):
            if atom.key[0] == "bit":
                return self.is_argument(atom.key[1])
            return is_of_launch(atom) or atom.key[0] in ("dim", "address")
        return isinstance(atom.key, int) and self.is_argument(atom.key)
