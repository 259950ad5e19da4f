"""Accesses to shared global memory as paths meet them: what all of these know of their unknowns.

    path 1:  k in [0, 6],  n = 8       store out[128 block + k]
    path 2:  k = 7                     both: k in [0, 7], and nothing of n

The stores of one tile stand side by side and mention the same unknowns: what a path knows of these is
gathered, and joined with what others knew, once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.fact_scopes import FactScopes
from mlir_async_pipe.checker.footprints import Touched, both_facts, with_decisions
from mlir_async_pipe.checker.forms import Atom, Known
from mlir_async_pipe.checker.grid_blocks import block_axis
from mlir_async_pipe.checker.state import Event, State

Knowns = dict[Atom, Known]
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
