"""The checker beside the machine, on random kernels that are right or wrong by chance.

Law 1: every race that the machine finds for some trip count 0..7 and condition, the checker
names at the same access with the same code. Law 2: where the checker names a hazard, the
machine finds a race at that access (its shadow keeps one culprit a byte, so the code may be
another). Law 3: at most 5 % of the accesses are unknown.

Covers: checker/explore.py, checker/state.py, checker/conflicts.py, checker/effects.py,
checker/commit_groups.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import Checked, check_text, machine_races
from helpers.random_async_kernels import random_kernel

SEEDS = range(60)
TARGET = "nvvm:sm_80"


def both(seed: int) -> tuple[Checked, frozenset[tuple[str, str]]]:
    """What the checker and the machine say; every third kernel has one thread."""
    text = random_kernel(seed, threads=seed % 3 != 0)
    races = machine_races(text, TARGET, trips=range(8), completions=(("late", 0),))
    return check_text(text, TARGET), races


@pytest.mark.parametrize("seed", SEEDS)
def test_checker_and_machine_name_the_same_accesses(seed: int) -> None:
    checked, races = both(seed)
    assert races <= checked.unsafe
    assert {place for _, place in checked.unsafe} <= {place for _, place in races}


def test_few_accesses_of_random_kernels_are_unknown() -> None:
    checked = [check_text(random_kernel(seed), TARGET) for seed in SEEDS]
    accesses = sum(entry.accesses for entry in checked)
    unknown = sum(entry.unknown_accesses for entry in checked)
    print(f"\nrandom kernels: {len(checked)}, accesses: {accesses}, unknown: {unknown}")
    assert unknown <= 0.05 * accesses


def test_the_random_kernels_are_right_and_wrong() -> None:
    verdicts = [bool(check_text(random_kernel(seed), TARGET).unsafe) for seed in SEEDS]
    assert 5 <= sum(verdicts) <= len(verdicts) - 3
