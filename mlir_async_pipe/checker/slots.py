"""Whether two accesses are in different slots of a ring: the usual answer, found quickly.

    ring[0, …]                  ring[1, …]                     other places
    ring[(k + 2) mod 3, …]      ring[k mod 3, …]               2 is not divisible by 3
    ring[(k + 2) mod 3, …]      ring[1, …]  where k = 0        2 is not 1

Slots are the same number in all threads, so the answer holds for the same thread and for
two of them. It is remembered by the two subscripts and by what is known of their atoms.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.choices import settle
from mlir_async_pipe.checker.forms import Atom, AtomRange, Facts, Form
from mlir_async_pipe.checker.thread_grid import is_common
from mlir_async_pipe.facts.values.views import Piece, Region

Terms = frozenset[tuple[Atom, int]]
Answers = dict[tuple[AtomRange | None, ...], bool]


@dataclass
class Slots:
    """Answers for the regions of one kernel."""

    _slots: dict[Piece, tuple[int, Terms, int] | None] = field(default_factory=dict)
    _known: dict[tuple[Piece, Piece], tuple[tuple[Atom, ...], Answers] | None] = field(
        default_factory=dict
    )

    def apart(self, x: Region, y: Region, facts: Facts) -> bool:
        """Whether one dimension alone keeps two regions of one root apart, in every thread."""
        frame = x.frame
        # Most begin where their memory does: asked n^2 times of n copies in flight.
        if (frame is not y.frame or frame.base.terms) and not begin_alike(x, y, same_thread=False):
            return False
        for p, q in zip(x.pieces, y.pieces, strict=True):
            if p is None or q is None:
                continue
            if p.start.terms or q.start.terms:
                if self._apart(p, q, facts):
                    return True
            elif constants_disjoint(p, q):
                return True
        return False

    def _slot(self, piece: Piece) -> tuple[int, Terms, int] | None:
        """c, x and V of a slot (x + c) mod V, x without a constant; None for others."""
        try:
            return self._slots[piece]
        except KeyError:
            slot, versions = _remainder_of(piece.start)
            found = None
            if versions and piece[1:] == ((), 1) and is_shared(piece, False):
                found = slot.constant, slot.terms, versions
            self._slots[piece] = found
            return found

    def _apart(self, p: Piece, q: Piece, facts: Facts) -> bool:
        one, other = self._slot(p), self._slot(q)
        if one is not None and other is not None and one[1:] == other[1:]:
            # (k + 2) mod V against k mod V: no fact is needed.
            return (one[0] - other[0]) % one[2] != 0
        try:
            entry = self._known[p, q]
        except KeyError:
            entry = self._known[p, q] = _atoms_and_answers(p, q)
        if entry is None:
            return False
        atoms, answers = entry
        known = tuple([facts.get(atom) for atom in atoms])
        found = answers.get(known)
        if found is None:
            here = {a: k for a, k in zip(atoms, known, strict=True) if k is not None}
            found = answers[known] = _differ(p, q, here)
        return found


def begin_alike(x: Region, y: Region, *, same_thread: bool) -> bool:
    """Whether both count from one place: a view may begin elsewhere in each thread, or each time."""
    if x.frame != y.frame:
        return False
    terms = x.frame.base.terms
    return not terms or all(is_common(atom, same_thread) for atom, _ in terms)


def _atoms_and_answers(p: Piece, q: Piece) -> tuple[tuple[Atom, ...], Answers] | None:
    """The atoms that decide, with no answer yet; None for pieces that are no slots."""
    if p.steps or q.steps or not (is_shared(p, False) and is_shared(q, False)):
        return None
    atoms = forms.atoms_of(p.start) | forms.atoms_of(q.start)
    return tuple(atom for atom in atoms if atom.kind != "call"), {}


def _differ(p: Piece, q: Piece, facts: Facts) -> bool:
    p, q = (piece._replace(start=settle(piece.start, facts)) for piece in (p, q))
    return constants_disjoint(p, q) or other_slot(p, q, facts)


def is_shared(piece: Piece, same_thread: bool) -> bool:
    """Whether equal pieces certainly meet: nothing in them differs between the two ends."""
    return all(is_common(atom, same_thread) for atom, _ in piece.start.terms)


def constants_disjoint(a: Piece, b: Piece) -> bool:
    """Whether both pieces are at constant places that do not meet."""
    x, y = a.start, b.start
    if x.terms or y.terms or x.constant == y.constant:
        return False
    low, high = (a, b) if x.constant < y.constant else (b, a)
    length = span(low) if low.steps else low.length
    return low.start.constant + length <= high.start.constant


def other_slot(a: Piece, b: Piece, facts: Facts) -> bool:
    """Whether both ends are single slots x mod V and y mod V, or y alone, with x - y not
    divisible by V: equal ones would make it divisible."""
    if a.length != 1 or b.length != 1 or a.steps or b.steps:
        return False
    if not (is_shared(a, False) and is_shared(b, False)):
        return False
    inner = [_remainder_of(piece.start) for piece in (a, b)]
    moduli = {versions for _, versions in inner if versions is not None}
    if len(moduli) != 1:
        return False
    difference = forms.subtract(inner[0][0], inner[1][0])
    return forms.residue(difference, moduli.pop(), facts) not in (None, 0)


def _remainder_of(form: Form) -> tuple[Form, int | None]:
    """(x, V) if the form is x mod V, else itself and None: a slot of known number."""
    if form.constant or len(form.terms) != 1:
        return form, None
    ((atom, coefficient),) = form.terms
    if coefficient != 1 or atom.kind != "call":
        return form, None
    name, arguments = forms.operator_of(atom)
    return (arguments[0], arguments[1].constant) if name == "mod" else (form, None)


def span(piece: Piece) -> int:
    """The length of the shortest stretch that holds the piece."""
    if not piece.steps:
        return piece.length
    return piece.length + sum(step * (count - 1) for step, count in piece.steps)
