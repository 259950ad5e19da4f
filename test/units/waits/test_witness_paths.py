"""Paths add and compare like the numbers of groups that they are, and are read from their end.

Covers: waits/witness_paths.py
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.waits.witness_paths import MOST_STEPS, Path, Witnesses, step, stretch


@pytest.fixture
def op():
    with new_context():
        yield ir.Module.parse("module {}").operation


def said(path: Path, of_stretch=iter) -> list[tuple[str, int]]:
    return [(shown.what, shown.groups) for shown in Witnesses(of_stretch).read(path)[1]]


def test_a_sum_has_the_groups_and_the_steps_of_both(op):
    path = step(0, "committed", op) + step(2, "past '{}'", op)
    assert path == 2
    assert said(path) == [("committed", 0), ("past 'builtin.module'", 2)]


def test_no_group_adds_nothing_but_a_step_without_groups_stays(op):
    path = step(1, "a", op)
    assert path + 0 is path
    assert 0 + path is path
    assert said(path + step(0, "b", op)) == [("a", 1), ("b", 0)]


def test_the_first_of_equal_paths_is_kept(op):
    paths = [step(1, "a", op), step(1, "b", op), step(0, "c", op)]
    assert said(min(paths)) == [("c", 0)]
    assert min(paths[:2]) is paths[0]


def test_an_origin_shows_no_groups_and_counts_its_cost(op):
    path = step(-1, "issued", op, "uncommitted-copy", 0) + step(1, "committed", op)
    assert path == 0
    assert Witnesses().read(path)[0] == "uncommitted-copy"
    assert said(path) == [("issued", 0), ("committed", 1)]


@pytest.mark.parametrize("length", [1, MOST_STEPS, MOST_STEPS + 1, MOST_STEPS + 2, 1000])
def test_the_groups_of_a_long_path_add_up_whatever_is_shown(op, length):
    path = step(0, "origin", op)
    for _ in range(length - 1):
        path += step(1, "committed", op)
    shown = said(path)
    assert sum(groups for _, groups in shown) == path == length - 1
    assert shown[0] == ("origin", 0)
    assert len(shown) <= MOST_STEPS + 2


def test_a_stretch_is_asked_for_what_is_shown_only(op):
    asked = []

    def steps(numbers: range):
        for number in reversed(numbers):
            asked.append(number)
            yield f"step {number}", op, None, 1

    path = step(0, "origin", op) + stretch(100, 100, range(100))
    shown = said(path, steps)
    assert shown[:2] == [("origin", 0), (f"{100 - MOST_STEPS} more steps", 100 - MOST_STEPS)]
    assert len(asked) == MOST_STEPS
    assert all(later == earlier - 1 for earlier, later in pairwise(asked))


def test_the_reason_that_explains_most_is_reported(op):
    path = step(0, "a", op, "zero-trip-loop") + step(0, "b", op, "crosses-parallel")
    assert Witnesses().read(path, "newest-group")[0] == "crosses-parallel"
    assert Witnesses().read(step(0, "a", op))[0] == "exact"
