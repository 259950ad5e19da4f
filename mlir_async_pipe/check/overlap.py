"""Decides whether two regions share a byte: no, yes, or cannot tell (with a reason).

    ring[0, r, c .. c+8]  vs  ring[1, …]           no: other slot
    ring[0, tid div 8, …] vs  ring[0, lane, …]     enumerated over the threads of both ends

Symbols of now are equal at both ends and cancel. Thread ids cancel only if both ends are the
same thread; between threads they are separate unknowns, and the threads must differ. What is
left after cancelling decides: a constant by comparison, thread ids and short ranges by
enumeration (at most 2^21 pairs), anything else by its bounds, else it cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from mlir_async_pipe.check import forms
from mlir_async_pipe.check.arithmetic import settle
from mlir_async_pipe.check.forms import Atom, Facts, Form, Known
from mlir_async_pipe.check.memory import Piece, Region, as_bytes

Verdict = Literal["no", "yes", "cannot tell"]

ThreadRange = tuple[tuple[Atom, Known], ...]

LARGEST_ENUMERATION = 1 << 21
LARGEST_RANGE = 4096
# The largest block that a GPU runs, where the size of this one is not known (CUDA, HIP).
LARGEST_BLOCK = 1024


@dataclass(frozen=True)
class Threads:
    """The threads of a block: `size` in x, y, z, or None where it is not known.

    `several` is False if one thread runs alone. `lanes` is the number of lanes in a warp.
    """

    size: tuple[int, int, int] | None = None
    several: bool = True
    lanes: int = 32

    @property
    def surely(self) -> int:
        """How many threads there are at least: of an unknown block only one warp counts."""
        return self.lanes if self.size is None else self.size[0] * self.size[1] * self.size[2]


@dataclass(frozen=True)
class Overlap:
    """The answer for two regions; `reason` is the reason code where it cannot be told."""

    verdict: Verdict
    reason: str = ""


NO = Overlap("no")
YES = Overlap("yes")


@dataclass
class Comparer:
    """Answers overlap questions for one kernel, each once."""

    threads: Threads
    _known: dict[tuple[object, ...], Overlap] = field(default_factory=dict)

    def overlap(
        self,
        a: Region,
        b: Region,
        facts: Facts,
        *,
        same_thread: bool,
        ranges: tuple[ThreadRange, ThreadRange] = ((), ()),
    ) -> Overlap:
        """Whether regions of one root share a byte; `a` is the earlier access.

        `same_thread` False asks for two different threads. `ranges` are conditions on the
        thread ids of both ends.
        """
        longest = max((s for f in (a.frame, b.frame) for s in f.shape if s is not None), default=0)
        if a.frame != b.frame:
            bytes_a, bytes_b = as_bytes(a), as_bytes(b)
            if bytes_a is None or bytes_b is None:
                return Overlap("cannot tell", "unknown-layout")
            a, b = bytes_a, bytes_b
        pairs = list(zip(a.pieces, b.pieces, strict=True))
        open_pairs: list[tuple[Piece, Piece]] = []
        reason = "" if a.certain and b.certain else "uncertain-access"
        for one, other in pairs:
            if one is None or other is None:
                reason = reason or "unknown-extent"
                continue
            if one == other and _shared(one, same_thread):
                continue
            if _constants_disjoint(one, other):
                return NO
            open_pairs.append((one, other))
        open_pairs = [(_ready(x, facts, longest), _ready(y, facts, longest)) for x, y in open_pairs]
        if any(_disjoint_by_bounds(x, y, facts) for x, y in open_pairs):
            return NO
        key = (tuple(open_pairs), same_thread, a.lanes, b.lanes, ranges)
        found = self._known.get(key)
        if found is None:
            found = _enumerate(open_pairs, same_thread, (a.lanes, b.lanes), ranges, self.threads)
            self._known[key] = found
        if found.verdict == "yes" and reason:
            return Overlap("cannot tell", reason)
        return found


def _ready(piece: Piece, facts: Facts, longest: int) -> Piece:
    """The piece with known atoms as numbers, and ranges that stay inside the buffer.

    An iteration number without bound that is (part of) a subscript is less than the longest
    dimension, or it would leave the buffer.
    """

    def bounded(atom: Atom) -> Form | None:
        if atom.kind != "any" or not longest or forms.range_of(atom).low != 0:
            return None
        if forms.range_of(atom).high is not None:
            return None
        name = atom.key[0]  # type: ignore[index]
        return forms.of_atom(Atom("any", (name, Known(0, longest - 1))))

    start = settle(piece.start, facts)
    if start.terms and any(atom.kind == "any" for atom in forms.atoms_of(start)):
        start = forms.substitute(start, bounded, facts)
    return Piece(start, piece.steps, piece.length)


def _shared(piece: Piece, same_thread: bool) -> bool:
    """Whether equal pieces certainly meet: nothing in them differs between the two ends."""
    unlike = ("any",) if same_thread else ("any", "tid")
    return not any(atom.kind in unlike for atom in forms.atoms_of(piece.start))


def _constants_disjoint(a: Piece, b: Piece) -> bool:
    if a.start.terms or b.start.terms:
        return False
    return (
        a.start.constant + _span(a) <= b.start.constant
        or b.start.constant + _span(b) <= a.start.constant
    )


def _other_slot(a: Piece, b: Piece, facts: Facts) -> bool:
    """Whether both ends are single slots x mod V and y mod V with x - y not divisible by V."""
    if a.length != 1 or b.length != 1 or a.steps or b.steps:
        return False
    if not (_shared(a, False) and _shared(b, False)):
        return False
    inner = [_remainder_of(piece.start) for piece in (a, b)]
    if inner[0] is None or inner[1] is None or inner[0][1] != inner[1][1]:
        return False
    modulus = inner[0][1]
    return forms.residue(forms.subtract(inner[0][0], inner[1][0]), modulus, facts) not in (None, 0)


def _remainder_of(form: Form) -> tuple[Form, int] | None:
    """(x, V) if the form is x mod V."""
    if form.constant or len(form.terms) != 1:
        return None
    ((atom, coefficient),) = form.terms
    if coefficient != 1 or atom.kind != "call":
        return None
    name, arguments = forms.operator_of(atom)
    return (arguments[0], arguments[1].constant) if name == "mod" else None


def _span(piece: Piece) -> int:
    return piece.length + sum(step * (count - 1) for step, count in piece.steps)


def _disjoint_by_bounds(a: Piece, b: Piece, facts: Facts) -> bool:
    """Whether the bounds of both ends keep them apart, whatever thread runs them."""
    if _other_slot(a, b, facts):
        return True
    if not (_shared(a, False) and _shared(b, False)):
        a_low, a_high = forms.bounds(a.start, facts)
        b_low, b_high = forms.bounds(b.start, facts)
        if a_high is not None and b_low is not None and a_high + _span(a) <= b_low:
            return True
        return b_high is not None and a_low is not None and b_high + _span(b) <= a_low
    low, high = forms.bounds(forms.subtract(a.start, b.start), facts)
    return (high is not None and high + _span(a) <= 0) or (low is not None and low >= _span(b))


def _enumerate(
    pairs: list[tuple[Piece, Piece]],
    same_thread: bool,
    lanes: tuple[int | None, int | None],
    ranges: tuple[ThreadRange, ThreadRange],
    threads: Threads,
) -> Overlap:
    """Compare the positions of both ends for all threads and ranges."""
    if not pairs and ranges == ((), ()):
        if same_thread or threads.surely > 1:
            return YES
        return NO if threads.size is not None else Overlap("cannot tell", "block-size")
    left = [_split(x.start, y.start, same_thread) for x, y in pairs]
    decided = [(split, pair) for split, pair in zip(left, pairs, strict=True) if split is not None]
    dropped = len(left) - len(decided)
    grid = _Grid(threads, same_thread, ranges)
    best = grid.compare(decided, lanes)
    if best is NO:
        return NO
    if dropped:
        return Overlap("cannot tell", "opaque-subscript")
    return best


def _split(a: Form, b: Form, same_thread: bool) -> tuple[Form, Form] | None:
    """Both ends with equal symbols cancelled; None if a symbol is left that has no numbers."""
    shared: dict[Atom, int] = {}
    for atom, coefficient in a.terms & b.terms:
        if _is_common(atom, same_thread):
            shared[atom] = coefficient
    cut = frozenset(shared.items())
    a, b = Form(a.constant, a.terms - cut), Form(b.constant, b.terms - cut)
    if _has_numbers(a) and _has_numbers(b):
        return a, b
    return None


def _is_common(atom: Atom, same_thread: bool) -> bool:
    unlike = ("any",) if same_thread else ("any", "tid")
    return not any(inner.kind in unlike for inner in forms.atoms_of(forms.of_atom(atom)))


def _has_numbers(form: Form) -> bool:
    for atom in forms.atoms_of(form):
        if atom.kind == "tid" or (atom.kind == "any" and _range_length(atom) is not None):
            continue
        if atom.kind == "call" and forms.operator_of(atom)[0] in _NUMPY:
            continue
        return False
    return True


def _range_length(atom: Atom) -> int | None:
    known = forms.range_of(atom)
    if known.low is None or known.high is None or known.high - known.low >= LARGEST_RANGE:
        return None
    return known.high - known.low + 1


@dataclass
class _Grid:
    """The threads of a block, or of an unknown block as many as could be."""

    threads: Threads
    same_thread: bool
    ranges: tuple[ThreadRange, ThreadRange]

    def compare(
        self,
        pairs: list[tuple[tuple[Form, Form], tuple[Piece, Piece]]],
        lanes: tuple[int | None, int | None],
    ) -> Overlap:
        """NO, YES or cannot tell for the subscripts that have numbers."""
        size = self.threads.size or self._guess([f for split, _ in pairs for f in split])
        starts_a = self._positions([split[0] for split, _ in pairs], [p[0] for _, p in pairs], size)
        starts_b = self._positions([split[1] for split, _ in pairs], [p[1] for _, p in pairs], size)
        if starts_a is None or starts_b is None:
            return Overlap("cannot tell", "enumeration-limit")
        rows_a = _restrict(starts_a, lanes[0], self.threads.lanes)
        rows_b = _restrict(starts_b, lanes[1], self.threads.lanes)
        rows_a = self._within(rows_a, self.ranges[0], size)
        rows_b = self._within(rows_b, self.ranges[1], size)
        lengths = np.array([(p[0].length, p[1].length) for _, p in pairs], dtype=np.int64)
        return self._meet(rows_a, rows_b, lengths)

    def _guess(self, used: list[Form]) -> tuple[int, int, int]:
        axes = {atom.key for form in used for atom in forms.atoms_of(form) if atom.kind == "tid"}
        if axes <= {"x", "lane"}:
            return LARGEST_BLOCK, 1, 1
        return 32, 32 if "y" in axes else 1, 32 if "z" in axes and "y" not in axes else 1

    def _positions(
        self, starts: list[Form], pieces: list[Piece], size: tuple[int, int, int]
    ) -> np.ndarray | None:
        """Rows (thread, start in each dimension) of all positions of one end, each once."""
        atoms = {atom for form in starts for atom in forms.atoms_of(form)}
        free = sorted((a for a in atoms if a.kind == "any"), key=repr)
        counts = [_range_length(a) or 1 for a in free]
        steps = [(d, step) for d, piece in enumerate(pieces) for step in piece.steps]
        uses_threads = any(a.kind == "tid" for a in atoms)
        total = size[0] * size[1] * size[2]
        # Without thread ids all threads do the same; two of them stand for all.
        constrained = self.same_thread or self.ranges != ((), ())
        number = total if uses_threads or constrained else min(total, 2)
        points = number
        for count in (*counts, *(count for _, (_, count) in steps)):
            points *= count
        if points > LARGEST_ENUMERATION:
            return None
        axes = np.indices((number, *counts, *(count for _, (_, count) in steps)))
        axes = axes.reshape(len(axes), -1)
        values: dict[Atom, np.ndarray] = {}
        for position, atom in enumerate(free):
            values[atom] = axes[1 + position] + (forms.range_of(atom).low or 0)
        values.update(_thread_values(axes[0], size, self.threads.lanes))
        columns: list[np.ndarray] = [axes[0]]
        for dimension, start in enumerate(starts):
            column = number_of(start, values) + np.zeros_like(axes[0])
            for position, (owner, (step, _)) in enumerate(steps):
                if owner == dimension:
                    column = column + axes[1 + len(free) + position] * step
            columns.append(column)
        return np.unique(np.stack(columns, axis=1), axis=0)

    def _within(
        self, rows: np.ndarray, ranges: ThreadRange, size: tuple[int, int, int]
    ) -> np.ndarray:
        if not ranges:
            return rows
        values = _thread_values(rows[:, 0], size, self.threads.lanes)
        keep = np.ones(len(rows), dtype=bool)
        for atom, known in ranges:
            if known.low is not None:
                keep &= values[atom] >= known.low
            if known.high is not None:
                keep &= values[atom] <= known.high
        return rows[keep]

    def _meet(self, a: np.ndarray, b: np.ndarray, lengths: np.ndarray) -> Overlap:
        """Whether boxes of `a` and `b` meet in threads that are equal, or differ."""
        if not len(a) or not len(b):
            return NO
        surely = self.threads.surely
        unsure = False
        a_boxes, a_least, a_most = _by_position(a) if not self.same_thread else (a, a, a)
        b_boxes, b_least, b_most = _by_position(b) if not self.same_thread else (b, b, b)
        if len(a_boxes) * len(b_boxes) > 64 * LARGEST_ENUMERATION:
            return Overlap("cannot tell", "enumeration-limit")
        chunk = max(1, LARGEST_ENUMERATION // max(1, len(b_boxes)))
        for first in range(0, len(a_boxes), chunk):
            part = a_boxes[first : first + chunk]
            meets = np.ones((len(part), len(b_boxes)), dtype=bool)
            for d in range(len(lengths)):
                x, y = part[:, d + 1][:, None], b_boxes[:, d + 1][None, :]
                meets &= (x < y + lengths[d, 1]) & (y < x + lengths[d, 0])
            if self.same_thread:
                meets &= part[:, 0][:, None] == b_boxes[:, 0][None, :]
                sure = meets & (part[:, 0][:, None] < surely)
            else:
                low_a, high_a = (
                    a_least[first : first + chunk, None],
                    a_most[first : first + chunk, None],
                )
                low_b, high_b = b_least[None, :], b_most[None, :]
                meets &= ~((low_a == high_a) & (low_b == high_b) & (low_a == low_b))
                # The two lowest threads that differ must exist in this very block.
                sure = (
                    meets
                    & (np.maximum(low_a, low_b) < surely)
                    & ((low_a != low_b) | (np.minimum(high_a, high_b) < surely))
                )
            if sure.any():
                return YES
            unsure = unsure or bool(meets.any())
        return Overlap("cannot tell", "block-size") if unsure else NO


def _restrict(rows: np.ndarray, lanes: int | None, warp: int) -> np.ndarray:
    return rows if lanes is None else rows[rows[:, 0] % warp < lanes]


def _by_position(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with equal positions merged: with the lowest and the highest thread of each."""
    boxes, inverse = np.unique(rows[:, 1:], axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    least = np.full(len(boxes), np.iinfo(np.int64).max)
    most = np.full(len(boxes), -1)
    np.minimum.at(least, inverse, rows[:, 0])
    np.maximum.at(most, inverse, rows[:, 0])
    return np.concatenate([np.zeros((len(boxes), 1), np.int64), boxes], axis=1), least, most


def _thread_values(
    linear: np.ndarray, size: tuple[int, int, int], warp: int
) -> dict[Atom, np.ndarray]:
    return {
        Atom("tid", "x"): linear % size[0],
        Atom("tid", "y"): linear // size[0] % size[1],
        Atom("tid", "z"): linear // (size[0] * size[1]),
        Atom("tid", "lane"): linear % warp,
        Atom("tid", "warp"): linear // warp,
    }


def number_of(form: Form, values: dict[Atom, np.ndarray]) -> np.ndarray:
    """The form as numbers, one a point of an enumeration."""
    total = np.asarray(form.constant, dtype=np.int64)
    for atom, coefficient in form.terms:
        if atom in values:
            number = values[atom]
        else:
            name, arguments = forms.operator_of(atom)
            number = _NUMPY[name](*(number_of(argument, values) for argument in arguments))
        total = total + coefficient * number
    return total


_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "mod": np.mod,
    "div": np.floor_divide,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "mul": np.multiply,
    "shl": np.left_shift,
    "cmp<": lambda a: (a < 0).astype(np.int64),
    "cmp=": lambda a: (a == 0).astype(np.int64),
}
