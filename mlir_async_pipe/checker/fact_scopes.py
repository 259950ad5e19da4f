"""Where a fact about an atom holds, seen from one path of one block.

    %n = 4            in the whole grid: %n is an argument of the kernel
    %i in [0, 8)      in what every block does, at a time of its own
    block_id = 0      in one block

At every access each fact of its path is asked for; an atom is told apart once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.checker.grid_blocks import block_axis, distinct_axis, is_of_launch

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
