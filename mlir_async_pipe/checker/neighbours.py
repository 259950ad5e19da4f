"""Two blocks next to each other, as numbers for what tells blocks apart.

    C[128 block x + thread]        block x = 0 and 1, in both orders

Where such blocks touch one place, they certainly race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.footprints import Group
from mlir_async_pipe.checker.forms import ANYTHING, Atom, Known
from mlir_async_pipe.checker.grid_blocks import GridBlocks, block_axis, distinct_axis


def neighbours(
    grid: GridBlocks, is_fixed: Callable[[Atom], bool], a: Group, b: Group
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


def _may_be(grid: GridBlocks, group: Group, axis: int, step: int) -> bool:
    """Whether there is a block `step` after the first one of a group."""
    known = of_axis(group.facts, axis)
    number = (known.low or 0) + step
    size = grid.sizes[axis]
    return (known.high is None or number <= known.high) and (size is None or number < size)


def of_axis(facts: dict[Atom, Known], axis: int) -> Known:
    """What is known of the block id of an axis."""
    return next((k for a, k in facts.items() if block_axis(a) == axis), ANYTHING)


def _cancels(atom: Atom, a: Group, b: Group) -> bool:
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
