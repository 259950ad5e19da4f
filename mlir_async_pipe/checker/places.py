"""The places that all threads of a block touch, element by element: do two threads meet?

    C[16 warp + lane div 4 + 8 i, 2 (lane mod 4)]      one row of numbers a thread and access

Places are enumerated once for a whole group of accesses and sorted, not compared in pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from math import prod
from typing import Any

import numpy as np

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.state import Event
from mlir_async_pipe.checker.thread_grid import (
    LARGEST_ENUMERATION,
    ThreadRange,
    Threads,
    by_position,
    equal_rows,
    ids_in,
    is_thread_number,
    may_differ,
    number_of,
    range_length,
    within,
)
from mlir_async_pipe.facts.values.views import Piece

Array = np.ndarray
Accesses = list[tuple[Event, tuple[Piece, ...]]]
Touched = tuple[tuple[ThreadRange, tuple[Piece, ...]], ...]


def with_ranges(*ends: Accesses) -> list[Accesses]:
    """The accesses of some ends with all that they touch whatever they count by: 8 t + j, with j < 4, are
    4 places from 8 t on. Only in the dimensions that threads and such short ranges alone decide; none
    where there is no such dimension."""
    found = [[(event, tuple(map(_with_ranges, pieces))) for event, pieces in end] for end in ends]
    columns = zip(*(pieces for end in found for _, pieces in end), strict=True)
    alone = [all(is_thread_number(piece.start) for piece in column) for column in columns]
    return [
        [(event, tuple(compress(pieces, alone))) for event, pieces in end]
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


@dataclass
class Places:
    threads: Threads

    def threads_meet(self, a: Accesses, b: Accesses) -> bool:
        """Whether an access of `a` and one of `b` in another thread may touch one place."""
        size = self.threads.size or self._any_size([*a, *b])
        if size is None:
            return True
        return _threads_meet(_touched(a), _touched(b), size, self.threads.lanes)

    def blocks_meet(
        self, a: Accesses, b: Accesses, one: dict[Atom, int], other: dict[Atom, int]
    ) -> tuple[int, int] | None:
        """The numbers of accesses of `a` and `b` that touch one place, where the unknowns of
        their blocks are `one` and `other`; None if none certainly do."""
        size = self.threads.size or (self.threads.lanes if self.threads.several else 1, 1, 1)
        ours = _numbers(_touched(a), one, size, self.threads.lanes)
        theirs = _numbers(_touched(b), other, size, self.threads.lanes)
        if ours is None or theirs is None or not (len(ours[0]) and len(theirs[0])):
            return None
        at, there = equal_rows(ours[0], theirs[0])
        return (int(ours[2][at[0]]), int(theirs[2][there[0]])) if len(at) else None

    def _any_size(self, accesses: Accesses) -> tuple[int, int, int] | None:
        """A block that holds all that may be, if threads along x only are distinguished."""
        starts = [p.start for _, pieces in accesses for p in pieces]
        used = {a.key for start in starts for a in forms.atoms_of(start) if a.kind == "tid"}
        if self.threads.is_open or not used <= {"x", "lane", "warp"}:
            return None
        return self.threads.most, 1, 1


def _touched(accesses: Accesses) -> Touched:
    """The accesses as plain numbers: the conditions on their threads, and what they touch."""
    return tuple((event.threads, pieces) for event, pieces in accesses)


@lru_cache(maxsize=256)
def _threads_meet(a: Touched, b: Touched, size: tuple[int, int, int], lanes: int) -> bool:
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
    accesses: Touched, numbers: dict[Atom, int], size: tuple[int, int, int], lanes: int
) -> tuple[Array, Array, Array] | None:
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
