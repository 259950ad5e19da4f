"""Answers that are kept: which questions are one, and that what was asked before changes nothing.

Covers: checker/thread_grid.py, checker/overlap.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.budget import Budget
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.overlap import Comparer
from mlir_async_pipe.checker.thread_grid import (
    NO,
    YES,
    Grid,
    Threads,
    _numbers,
    by_position,
    compared,
    equal_rows,
    from_zero,
)
from mlir_async_pipe.facts.values.views import BYTES, Piece, Region

THREADS = Threads((32, 1, 1))
tid = forms.of_atom(Atom("tid", "x"))


def piece(constant: int, factor: int = 4, length: int = 4) -> Piece:
    return Piece(forms.add(forms.scale(tid, factor), Form(constant)), (), length)


def region(constant: int, factor: int = 4) -> Region:
    return Region(0, BYTES, (piece(constant, factor),), True, None)


def test_questions_about_ends_that_moved_together_are_one() -> None:
    one, other = [(piece(0), piece(64, 8))], [(piece(640), piece(704, 8))]
    assert from_zero(one) == from_zero(other)
    assert from_zero(one) != from_zero([(piece(0), piece(68, 8))])


@pytest.mark.parametrize("apart", [0, 4, 60, 124, 128, 256, -124, -128])
def test_moving_both_ends_changes_no_answer(apart: int) -> None:
    ends = [(piece(1024), piece(1024 + apart, 8))]
    moved = compared(THREADS, False, ((), ()), from_zero(ends), (None, None))
    there = compared.__wrapped__(THREADS, False, ((), ()), tuple(ends), (None, None))
    assert moved == there
    meets = any(abs(4 * a - 8 * b - apart) < 4 for a in range(32) for b in range(32) if a != b)
    assert (moved.answer.verdict == "yes") == meets


def test_a_kernel_may_ask_as_much_when_another_one_asked_the_same_before() -> None:
    left = []
    for _ in range(2):
        comparer = Comparer(THREADS, Budget(1000))
        for apart in (8, 16, 16, 40):
            comparer.overlap(region(0), region(apart, 8), {}, same_thread=False)
        left.append(comparer.budget.left)
    assert left[0] == left[1] < 1000


def test_places_of_unrolled_copies_are_those_of_each_alone() -> None:
    copies = [((), (piece(64 * n, 4 + n % 2, 2), piece(n, 0, 1))) for n in range(6)]
    together = _numbers(tuple(copies), {}, (32, 1, 1), 32)
    assert together is not None
    alone = [_numbers((copy,), {}, (32, 1, 1), 32) for copy in copies]
    for column in (0, 1):
        expected = np.concatenate([each[column] for each in alone if each is not None])
        assert (together[column] == expected).all()
    assert (together[2] == np.repeat(np.arange(6), 64)).all()


def test_rows_of_one_position_keep_their_lowest_and_highest_thread() -> None:
    rows = np.array([[0, 5, 1], [3, 5, 1], [2, 5, 1], [1, 7, 0]])
    boxes, least, most = by_position(rows)
    assert boxes.tolist() == [[0, 5, 1], [0, 7, 0]]
    assert (least.tolist(), most.tolist()) == ([0, 1], [3, 1])
    others = by_position(np.array([[9, 7, 0], [8, 6, 6]]))[0]
    assert [found.tolist() for found in equal_rows(boxes, others)] == [[1], [1]]


@pytest.mark.parametrize("same_thread", [True, False])
@pytest.mark.parametrize("dimensions", [0, 1, 2, 3])
def test_boxes_meet_as_they_do_pair_by_pair(same_thread: bool, dimensions: int) -> None:
    found, spread = [], (0, 40, 10, 6)[dimensions]
    for seed in range(200):
        random = np.random.default_rng(seed)
        ends = [
            np.concatenate(
                [
                    random.integers(0, 4, (count, 1)),
                    random.integers(0, spread, (count, dimensions)),
                ],
                axis=1,
            )
            for count in random.integers(1, 7, 2)
        ]
        lengths = random.integers(1, 5, (dimensions, 2))
        met = any(
            (a[0] == b[0]) == same_thread
            and all(x < y + n and y < x + m for x, y, (m, n) in zip(a[1:], b[1:], lengths, strict=True))
            for a in ends[0].tolist()
            for b in ends[1].tolist()
        )  # fmt: skip
        grid = Grid(Threads((4, 1, 1)), same_thread, ((), ()))
        assert grid._meet(*ends, lengths) == (YES if met else NO)
        found.append(met)
    assert dimensions == 0 or 10 < sum(found) < 190
