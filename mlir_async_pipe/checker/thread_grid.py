"""Enumerates the threads and short ranges of both ends of a comparison.

Each end becomes rows (thread, start in each dimension), each once; two ends meet where their
boxes do, in threads that are equal or that differ. Of a block of unknown size all that could
be are enumerated: no meeting is then a proof, but a meeting counts only within one warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form
from mlir_async_pipe.facts.values.views import Piece
from mlir_async_pipe.vocabulary.launch_ids import LARGEST_BLOCK

Verdict = Literal["no", "yes", "cannot tell"]

ThreadRange = tuple[tuple[Atom, AtomRange], ...]

LARGEST_ENUMERATION = 1 << 21
LARGEST_RANGE = 4096


@dataclass(frozen=True)
class Threads:
    """The threads of a block: `size` in x, y, z, or None where it is not known.

    `several` is False if one thread runs alone. `lanes` is the number of lanes in a warp.
    `axes` are those along which a block of unknown size, of `most` threads at most, may have several: x, and
    those that the kernel reads. Threads whose numbers differ in the bits of `alike` alone count as one.
    `sure_lanes`: how many a warp certainly has, where neither a chip nor the module says it (AMD's: 32 or 64).
    """

    size: tuple[int, int, int] | None = None
    several: bool = True
    lanes: int = 32
    axes: str = "x"
    most: int = LARGEST_BLOCK
    alike: int = 0
    sure_lanes: int = 32

    @property
    def is_open(self) -> bool:
        """Whether the block may have any shape of several dimensions."""
        return self.size is None and self.axes != "x"

    @property
    def least_size(self) -> int:
        """How many threads there are at least: of an unknown block only one warp counts."""
        return self.lanes if self.size is None else prod(self.size)


@lru_cache(maxsize=64)
def thread_facts(threads: Threads) -> Mapping[Atom, AtomRange]:
    """The ranges of the thread ids of any thread of the block."""
    size = threads.size or (threads.most,) * 3
    facts = {Atom("tid", axis): AtomRange(0, size[i] - 1) for i, axis in enumerate("xyz")}
    total = prod(size) if threads.size else threads.most
    facts[Atom("tid", "lane")] = AtomRange(0, threads.lanes - 1)
    facts[Atom("tid", "warp")] = AtomRange(0, max(0, (total - 1) // threads.lanes))
    return facts


@dataclass(frozen=True)
class Overlap:
    """The answer for two regions; `reason` is the reason code where it is undecided."""

    verdict: Verdict
    reason: str = ""


NO = Overlap("no")
YES = Overlap("yes")


@lru_cache(maxsize=1 << 14)
def is_common(atom: Atom, same_thread: bool) -> bool:
    """Whether the atom has one value for both ends of a comparison."""
    leaves = forms.atoms_under(atom)
    return not any(inner.kind == "any" or (not same_thread and is_own(inner)) for inner in leaves)


def is_own(atom: Atom) -> bool:
    """Whether the atom itself has a value of its own in each thread: an id, an opaque value
    that comes from one, or one that was loaded."""
    if atom.kind == "symbol":
        return atom.tag in ("thread", "thread bit")
    return atom.kind == "tid"


@lru_cache(maxsize=1 << 12)
def is_about_threads(atom: Atom) -> bool:
    """Whether what is known of the atom is known of one thread only."""
    return any(map(is_own, forms.atoms_under(atom)))


@lru_cache(maxsize=1 << 12)
def is_thread_condition(atom: Atom) -> bool:
    """Whether the atom is a number that the position of a thread in its block decides."""
    return is_about_threads(atom) and has_numbers(forms.form_under(atom))


@lru_cache(maxsize=1 << 14)
def is_thread_number(form: Form) -> bool:
    """Whether constants and thread ids are all that a form depends on."""
    return has_numbers(form) and all(atom.kind != "any" for atom in forms.atoms_of(form))


def has_numbers(form: Form, is_number: Callable[[Atom], bool] = lambda atom: False) -> bool:
    """Whether thread ids and short ranges are all that the form depends on, beside what else `is_number`."""
    for atom in forms.atoms_of(form):
        if atom.kind == "tid" or (atom.kind == "any" and range_length(atom) is not None):
            continue
        if is_number(atom) or forms.operator_of(atom)[0] in _NUMPY:
            continue
        return False
    return True


def is_of_thread(atom: Atom) -> bool:
    """Whether thread ids alone decide an atom."""
    return is_thread_number(forms.of_atom(atom))


def deciding_numbers(
    atom: Atom,
    is_number: Callable[[Atom], bool] = is_of_thread,
    is_shared: Callable[[Atom], bool] = lambda atom: is_common(atom, same_thread=False),
) -> frozenset[Form] | None:
    """Numbers that decide an atom: threads, or blocks, that have them alike have the atom alike. None where something
    else decides, too, which is neither a number nor shared by all, such as what a thread has loaded.

        (tid div 2) * n + m    -->    tid div 2         where all threads have one n and m
    """
    if is_shared(atom):
        return frozenset()
    found: set[Form] = set()
    for argument in forms.operator_of(atom)[1]:
        own = frozenset(term for term in argument.terms if is_number(term[0]))
        rest = [deciding_numbers(a, is_number, is_shared) for a, _ in argument.terms - own]
        if None in rest:
            return None
        found.update({Form(0, own)} if own else (), *(some or () for some in rest))
    return frozenset(found) if atom.kind == "call" else None


def range_length(atom: Atom) -> int | None:
    """How many numbers an unknown of a short range can be; None for other ranges."""
    known = forms.range_of(atom)
    if known.low is None or known.high is None or known.high - known.low >= LARGEST_RANGE:
        return None
    return known.high - known.low + 1


Pairs = tuple[tuple[Piece, Piece], ...]


class Compared(NamedTuple):
    """The answer for pairs of pieces, and how many positions were enumerated for it."""

    answer: Overlap
    positions: int


def from_zero(pairs: list[tuple[Piece, Piece]]) -> Pairs:
    """The same question with one end of each pair moved to begin at 0: unrolled copies of an op
    are as far apart as their constants."""
    return tuple(
        (
            x._replace(start=Form(0, x.start.terms)),
            y._replace(start=Form(y.start.constant - x.start.constant, y.start.terms)),
        )
        for x, y in pairs
    )


@lru_cache(maxsize=1 << 12)
def compared(
    threads: Threads,
    same_thread: bool,
    ranges: tuple[ThreadRange, ThreadRange],
    pairs: Pairs,
    lanes: tuple[int | None, int | None],
) -> Compared:
    """Whether pairs of pieces whose starts have numbers meet in all dimensions. Questions are plain
    numbers, the same ones in all kernels of a family, so that answers are kept for the process."""
    grid = Grid(threads, same_thread, ranges)
    return Compared(grid.compare(pairs, lanes), grid.positions)


@dataclass
class Grid:
    """The threads of a block, or as many as could be; `positions` were enumerated."""

    threads: Threads
    same_thread: bool
    ranges: tuple[ThreadRange, ThreadRange]
    positions: int = 0

    def compare(self, pairs: Pairs, lanes: tuple[int | None, int | None]) -> Overlap:
        """NO, YES or cannot tell for pairs of pieces whose starts have numbers."""
        ids = self._ids([piece.start for pair in pairs for piece in pair])
        if ids is None:
            return Overlap("cannot tell", "block-size")
        found: list[np.ndarray] = []
        for end, first, met in zip((0, 1), lanes, self.ranges, strict=True):
            rows = self._positions([pair[end] for pair in pairs], ids, first)
            if rows is None:
                return Overlap("cannot tell", "enumeration-limit")
            if first is not None and not self.threads.is_open:
                # Only the first lanes of each warp, where it is known which those are.
                rows = rows[rows[:, 0] % self.threads.lanes < first]
            if met:
                values = {atom: numbers[rows[:, 0]] for atom, numbers in ids.items()}
                rows = rows[within(rows[:, 0], met, values)]
            if self.threads.alike and not self.threads.is_open:
                rows[:, 0] &= ~self.threads.alike
            found.append(rows)
        lengths = np.array([(x.length, y.length) for x, y in pairs], dtype=np.int64).reshape(-1, 2)
        return self._meet(found[0], found[1], lengths)

    def _ids(self, used: list[Form]) -> Mapping[Atom, np.ndarray] | None:
        """The ids of all threads that could be in the block, by number; None where they depend
        on its shape, which is not known."""
        if not self.threads.is_open:
            return ids_in(self.threads.size or (self.threads.most, 1, 1), self.threads.lanes)
        met = [forms.form_under(atom) for side in self.ranges for atom, _ in side]
        keys = {atom.key for form in (*used, *met) for atom in forms.atoms_of(form)}
        linear, places = keys & {"lane", "warp"}, keys & set("xyz")
        if linear and places:
            return None
        return (
            ids_in((self.threads.most, 1, 1), self.threads.lanes)
            if linear
            else open_ids(self.threads.axes, self.threads.most)
        )

    def _positions(
        self, pieces: list[Piece], ids: Mapping[Atom, np.ndarray], lanes: int | None
    ) -> np.ndarray | None:
        """Rows (thread, start in each dimension) of all positions of one end, each once."""
        atoms = {atom for piece in pieces for atom in forms.atoms_of(piece.start)}
        free = sorted((a for a in atoms if a.kind == "any"), key=repr)
        counts = [range_length(a) or 1 for a in free]
        steps = [(d, step) for d, piece in enumerate(pieces) for step in piece.steps]
        uses_threads = any(a.kind == "tid" for a in atoms)
        total = len(ids[Atom("tid", "x")])
        # Without thread ids all threads do the same; two of them stand for all, if both access.
        constrained = self.same_thread or self.ranges != ((), ()) or lanes is not None
        constrained = constrained or self.threads.alike > 0
        number = total if uses_threads or constrained else min(total, 2)
        extents = (number, *counts, *(count for _, (_, count) in steps))
        if prod(extents) > LARGEST_ENUMERATION:
            return None
        self.positions += prod(extents)
        axes = np.indices(extents).reshape(len(extents), -1)
        values: dict[Atom, np.ndarray] = {}
        for position, atom in enumerate(free):
            values[atom] = axes[1 + position] + (forms.range_of(atom).low or 0)
        values.update({atom: numbers[axes[0]] for atom, numbers in ids.items()})
        columns: list[np.ndarray] = [axes[0]]
        for dimension, piece in enumerate(pieces):
            column = number_of(piece.start, values) + np.zeros_like(axes[0])
            for position, (owner, (step, _)) in enumerate(steps):
                if owner == dimension:
                    column = column + axes[1 + len(free) + position] * step
            columns.append(column)
        return rows_once(np.stack(columns, axis=1))[0]

    def _meet(self, a: np.ndarray, b: np.ndarray, lengths: np.ndarray) -> Overlap:
        """Whether boxes of `a` and `b` meet in threads that are equal, or differ."""
        if not len(a) or not len(b):
            return NO
        # Of a block of any shape only its first thread is known.
        least_size = 1 if self.threads.is_open else self.threads.least_size
        unsure = False
        a_boxes, a_least, a_most = (a, a, a) if self.same_thread else by_position(a)
        b_boxes, b_least, b_most = (b, b, b) if self.same_thread else by_position(b)
        if not self.same_thread and (lengths == 1).all():
            rows_a, rows_b = equal_rows(a_boxes, b_boxes)
            who = a_least[rows_a], a_most[rows_a], b_least[rows_b], b_most[rows_b]
            if sure_to_differ(*who, least_size).any():
                return YES
            return Overlap("cannot tell", "block-size") if may_differ(*who).any() else NO
        # The column in which the fewest are close; the first one is the thread, if that is one of each end.
        columns = zip(a_boxes.T, b_boxes.T, [(1, 1), *lengths.tolist()], strict=True)
        close = min((_Close.of(x, y, *length) for x, y, length in columns), key=_Close.total)
        if close.total() > 64 * LARGEST_ENUMERATION:
            return Overlap("cannot tell", "enumeration-limit")
        for i, j in close.pairs():
            x, y = a_boxes[i, 1:], b_boxes[j, 1:]
            meets = ((x < y + lengths[:, 1]) & (y < x + lengths[:, 0])).all(axis=1)
            if self.same_thread:
                meets &= a_boxes[i, 0] == b_boxes[j, 0]
                sure = meets & (a_boxes[i, 0] < least_size)
            else:
                who = a_least[i], a_most[i], b_least[j], b_most[j]
                meets &= may_differ(*who)
                sure = meets & sure_to_differ(*who, least_size)
            if sure.any():
                return YES
            unsure = unsure or bool(meets.any())
        return Overlap("cannot tell", "block-size") if unsure else NO


class _Close(NamedTuple):
    """For each of some intervals those of others, in an `order`, that meet it: `counts` of them from `first` on."""

    order: np.ndarray
    first: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, a: np.ndarray, b: np.ndarray, a_length: int, b_length: int) -> _Close:
        """Intervals of a length that begin at `a`, and at `b`."""
        order = np.argsort(b, kind="stable")
        starts = b[order]
        first = np.searchsorted(starts, a - b_length, side="right")
        last = np.searchsorted(starts, a + a_length, side="left")
        return cls(order, first, np.maximum(last - first, 0))

    def total(self) -> int:
        return int(self.counts.sum())

    def pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The numbers of those that meet, some at once."""
        ends = np.cumsum(self.counts)
        for begin in range(0, self.total(), LARGEST_ENUMERATION):
            number = np.arange(begin, min(begin + LARGEST_ENUMERATION, self.total()))
            i = np.searchsorted(ends, number, side="right")
            yield i, self.order[self.first[i] + number - (ends[i] - self.counts[i])]


def within(threads: np.ndarray, ranges: ThreadRange, ids: Mapping[Atom, np.ndarray]) -> np.ndarray:
    """Which of the threads, given by number and by their ids, meet conditions."""
    keep = np.ones(len(threads), dtype=bool)
    for atom, known in ranges:
        number = number_of(forms.form_under(atom), ids)
        if known.low is not None:
            keep &= number >= known.low
        if known.high is not None:
            keep &= number <= known.high
    return keep


@lru_cache(maxsize=1 << 10)
def are_whole_warps(ranges: ThreadRange, threads: Threads) -> bool:
    """Whether of each warp all threads meet conditions, or none; of a block whose shape or conditions are not
    known that is not proven."""
    if not ranges:
        return True
    met = threads_within(ranges, threads)
    if met is None:
        return False
    each = np.array(met)
    each = np.pad(each, (0, -len(each) % threads.lanes), mode="edge").reshape(-1, threads.lanes)
    return bool((each == each[:, :1]).all())


def threads_within(ranges: ThreadRange, threads: Threads) -> tuple[bool, ...] | None:
    """Which threads of a block meet conditions, by their numbers; None if its shape or conditions are not known."""
    if threads.is_open or not all(has_numbers(forms.form_under(atom)) for atom, _ in ranges):
        return None
    ids = ids_in(threads.size or (threads.most, 1, 1), threads.lanes)
    return tuple(within(np.arange(len(ids[Atom("tid", "x")])), ranges, ids).tolist())


# Positions of threads as rows of numbers: (thread, start in each dimension), each once.
#
# rows of both ends      (0, 16, 4), (1, 16, 8), …
# by position            (16, 4) from thread 0 to 0, (16, 8) from 1 to 1

LARGEST_NUMBER = 1 << 62


def may_differ(
    low_a: np.ndarray, high_a: np.ndarray, low_b: np.ndarray, high_b: np.ndarray
) -> np.ndarray:
    """Where one of the threads low_a … high_a and one of low_b … high_b are two threads."""
    found: np.ndarray = ~((low_a == high_a) & (low_b == high_b) & (low_a == low_b))
    return found


def sure_to_differ(
    low_a: np.ndarray, high_a: np.ndarray, low_b: np.ndarray, high_b: np.ndarray, least_size: int
) -> np.ndarray:
    """The same for threads that exist in this very block: the lowest that differ are there."""
    found: np.ndarray = (
        may_differ(low_a, high_a, low_b, high_b)
        & (np.maximum(low_a, low_b) < least_size)
        & ((low_a != low_b) | (np.minimum(high_a, high_b) < least_size))
    )
    return found


def equal_rows(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows of `a`, each row once, that are rows of `b` too, and of those."""
    _, inverse = rows_once(np.concatenate([a, b]))
    _, in_a, in_b = np.intersect1d(inverse[: len(a)], inverse[len(a) :], return_indices=True)
    return in_a, in_b


def by_position(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with equal positions merged: with the lowest and the highest thread of each."""
    boxes, inverse = rows_once(rows[:, 1:])
    least = np.full(len(boxes), np.iinfo(np.int64).max)
    most = np.full(len(boxes), -1)
    np.minimum.at(least, inverse, rows[:, 0])
    np.maximum.at(most, inverse, rows[:, 0])
    return np.concatenate([np.zeros((len(boxes), 1), np.int64), boxes], axis=1), least, most


def rows_once(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted rows, each once, and where each row went. Rows of few numbers are compared as one
    number of that many digits, which is five times faster."""
    if rows.size:
        low = rows.min(axis=0)
        spans = [
            int(last) - int(first) + 1 for first, last in zip(low, rows.max(axis=0), strict=True)
        ]
        if prod(spans) < LARGEST_NUMBER:
            digits = np.array([prod(spans[d + 1 :]) for d in range(len(spans))])
            numbers, inverse = np.unique((rows - low) @ digits, return_inverse=True)
            return numbers[:, None] // digits % np.array(spans) + low, inverse.reshape(-1)
    once, inverse = np.unique(rows, axis=0, return_inverse=True)
    return once, inverse.reshape(-1)


def number_of(form: Form, values: Mapping[Atom, np.ndarray]) -> np.ndarray:
    """The form as numbers, one a point of an enumeration."""
    total = np.asarray(_as_int64(form.constant), dtype=np.int64)
    for atom, coefficient in form.terms:
        if atom in values:
            number = values[atom]
        else:
            name, arguments = forms.operator_of(atom)
            number = _NUMPY[name](*(number_of(argument, values) for argument in arguments))
        total = total + _as_int64(coefficient) * number
    return total


def _as_int64(number: int) -> int:
    """The number as 64 bits, which sums and products of an enumeration are taken modulo."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _wrap(number: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The lowest bits as a signed number: moved to the top, and back with the sign."""
    unused: np.ndarray = np.int64(64) - bits
    return np.right_shift(np.left_shift(number, unused), unused)


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
    "wrap": _wrap,
    "cmp<": lambda a: (a < 0).astype(np.int64),
    "cmp=": lambda a: (a == 0).astype(np.int64),
}


# Where the threads of a block stand: their ids, by a number for each thread.
#
# 32 threads in x, 4 in y          thread 33 has x = 1, y = 1, lane 1, warp 1
# any block of axes x and y        all places (x, y) with (x + 1) (y + 1) <= 1024


@lru_cache(maxsize=1 << 12)
def ends_of_threads(form: Form, threads: Threads, ranges: ThreadRange) -> tuple[int, int] | None:
    """The least and the largest number of a form in those threads of a block of known size that meet
    conditions; None of a form that is not made of their ids alone."""
    if threads.size is None or not form.terms or not is_thread_number(form):
        return None
    ids = ids_in(threads.size, threads.lanes)
    chosen = within(np.arange(threads.least_size), ranges, ids)
    numbers = np.broadcast_to(number_of(form, ids), chosen.shape)[chosen]
    return (int(numbers.min()), int(numbers.max())) if len(numbers) else None


@lru_cache(maxsize=64)
def ids_in(size: tuple[int, int, int], warp: int) -> Mapping[Atom, np.ndarray]:
    """The ids of the threads of a block of known size, by their linear number."""
    linear = np.arange(size[0] * size[1] * size[2])
    return {
        Atom("tid", "x"): linear % size[0],
        Atom("tid", "y"): linear // size[0] % size[1],
        Atom("tid", "z"): linear // (size[0] * size[1]),
        Atom("tid", "lane"): linear % warp,
        Atom("tid", "warp"): linear // warp,
    }


@lru_cache(maxsize=8)
def open_ids(axes: str, most: int) -> Mapping[Atom, np.ndarray]:
    """All (x, y, z) that blocks of `most` threads or fewer have, the first one first:

    of 1024, axes x and y 7 069 places, of all three 29 425. Two of them need not fit into one block;
    where none meet, none do in any block.
    """
    extents = [most if axis in axes else 1 for axis in "zyx"]
    x = np.zeros(1, np.int64)
    places = [np.zeros((1, 0), np.int64), np.ones(1, np.int64)]
    for extent in extents:
        # A place needs a block of (x + 1) (y + 1) (z + 1) threads at least.
        at, volume = places
        room = np.minimum(most // volume, extent)
        rows = np.repeat(np.arange(len(at)), room)
        x = np.arange(len(rows)) - np.repeat(np.cumsum(room) - room, room)
        places = [np.column_stack([at[rows], x]), volume[rows] * (x + 1)]
    return {Atom("tid", axis): places[0][:, 2 - n] for n, axis in enumerate("xyz")}


# The places that all threads of a block touch by groups of accesses, element by element.
#
#     C[16 warp + lane div 4 + 8 i, 2 (lane mod 4)]      one row of numbers a thread and access
#
# They are enumerated once for a whole group and sorted, not compared in pairs.

Touches = tuple[tuple[ThreadRange, tuple[Piece, ...]], ...]
"""Of each access the conditions on its threads, and what they touch."""


def with_ranges(*ends: Touches) -> list[Touches]:
    """The accesses of some ends with all that they touch whatever they count by: 8 t + j, with j < 4, are
    4 places from 8 t on. Only in the dimensions that threads and such short ranges alone decide; none
    where there is no such dimension."""
    found = [[(met, tuple(map(_with_ranges, pieces))) for met, pieces in end] for end in ends]
    columns = zip(*(pieces for end in found for _, pieces in end), strict=True)
    alone = [all(is_thread_number(piece.start) for piece in column) for column in columns]
    return [
        tuple((met, tuple(compress(pieces, alone))) for met, pieces in end)
        for end in found
        if any(alone)
    ]


def _with_ranges(piece: Piece) -> Piece:
    """The piece with the short ranges in its start as steps."""
    start, steps = piece.start, piece.steps
    for atom, factor in piece.start.terms:
        length = range_length(atom) if atom.kind == "any" else None
        if length is not None:
            first = start.constant + factor * (forms.range_of(atom).low or 0)
            start, steps = Form(first, start.terms - {(atom, factor)}), (*steps, (factor, length))
    return Piece(start, steps, piece.length)


def threads_meet(threads: Threads, a: Touches, b: Touches) -> bool:
    """Whether an access of `a` and one of `b` in another thread may touch one place."""
    size = threads.size
    if size is None:
        # A block that holds all that may be, if threads along x only are distinguished.
        starts = [p.start for _, pieces in (*a, *b) for p in pieces]
        used = {a.key for start in starts for a in forms.atoms_of(start) if a.kind == "tid"}
        if threads.is_open or not used <= {"x", "lane", "warp"}:
            return True
        size = threads.most, 1, 1
    return _threads_meet(a, b, size, threads.lanes)


def blocks_meet(
    threads: Threads, a: Touches, b: Touches, one: dict[Atom, int], other: dict[Atom, int]
) -> tuple[int, int] | None:
    """The numbers of accesses of `a` and `b` that touch one place, where the unknowns of
    their blocks are `one` and `other`; None if none certainly do."""
    size = threads.size or (threads.lanes if threads.several else 1, 1, 1)
    ours, theirs = (_numbers(*end, size, threads.lanes) for end in ((a, one), (b, other)))
    if ours is None or theirs is None or not (len(ours[0]) and len(theirs[0])):
        return None
    at, there = equal_rows(ours[0], theirs[0])
    return (int(ours[2][at[0]]), int(theirs[2][there[0]])) if len(at) else None


@lru_cache(maxsize=256)
def _threads_meet(a: Touches, b: Touches, size: tuple[int, int, int], lanes: int) -> bool:
    """Whether places of `a` and `b` are one in two threads. Kernels of a family ask the same, so
    that answers are kept for the process."""
    own = _numbers(a, {}, size, lanes)
    other = own if b == a else _numbers(b, {}, size, lanes)
    if own is None or other is None:
        return True
    if not (len(own[0]) and len(other[0])):
        return False
    rows, least, most = by_position(np.column_stack([own[1], own[0]]))
    other_rows, other_least, other_most = by_position(np.column_stack([other[1], other[0]]))
    mine, theirs = equal_rows(rows, other_rows)
    who = least[mine], most[mine], other_least[theirs], other_most[theirs]
    return bool(may_differ(*who).any())


def _numbers(
    accesses: Touches, numbers: dict[Atom, int], size: tuple[int, int, int], lanes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Places (a row of numbers each), their threads and their accesses; None for too many.

    Atoms that `numbers` leaves out count as 0: both ends have them alike.
    """
    total = size[0] * size[1] * size[2]
    ids = ids_in(size, lanes)
    # Unrolled copies of an op differ by constants: their places are those of one of them, moved.
    alike: dict[Any, list[int]] = {}
    for number, (met, pieces) in enumerate(accesses):
        shape = tuple((p.start.terms, p.steps, p.length) for p in pieces)
        alike.setdefault((met, shape), []).append(number)
    places, threads, owners = [], [], []
    points = 0
    for members in alike.values():
        met, pieces = accesses[members[0]]
        chosen, values = np.arange(total), dict(ids)
        if met:
            chosen = np.flatnonzero(within(chosen, met, ids))
            values = {atom: column[chosen] for atom, column in ids.items()}
        for atom in {a for p in pieces for a in forms.atoms_of(p.start) if a.kind != "call"}:
            if atom.kind != "tid":
                values[atom] = np.asarray(numbers.get(atom, 0))
        counts = [c for p in pieces for c in (*(count for _, count in p.steps), p.length)]
        each = prod(counts)
        points += each * len(chosen) * len(members)
        if points > LARGEST_ENUMERATION:
            return None
        inside = np.indices(counts).reshape(len(counts), each) if counts else np.zeros((0, 1), int)
        columns, used = [], 0
        for piece in pieces:
            offset = np.zeros(each, np.int64)
            for step in (*(step for step, _ in piece.steps), 1):
                offset = offset + inside[used] * step
                used += 1
            start = number_of(Form(0, piece.start.terms), values) + np.zeros(len(chosen), np.int64)
            columns.append((start[:, None] + offset).reshape(-1))
        rows = np.stack(columns, axis=1) if columns else np.zeros((len(chosen), 1), int)
        moved = [[p.start.constant for p in accesses[n][1]] or [0] for n in members]
        made = rows[None] + np.array(moved, np.int64)[:, None]
        places.append(made.reshape(-1, rows.shape[1]))
        threads.append(np.tile(np.repeat(chosen, each), len(members)))
        owners.append(np.repeat(np.array(members), len(rows)))
    order = np.argsort(np.concatenate(owners), kind="stable")
    found = [np.concatenate(column)[order] for column in (places, threads, owners)]
    return found[0], found[1], found[2]
