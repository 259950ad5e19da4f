"""Random kernels whose blocks wait for each other compute the same after pipelining, or keep their loops.

The seeds are fixed; `test/reports/random_flags_report.py` judges a thousand programs and prints what
share of the loops was pipelined.

Covers: pipeliner/async_pipe_pass.py, test/helpers/random_flags
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers import random_flags
from helpers.random_flags import FlagProgram, draw
from helpers.random_flags.judge import judge, judge_without

SEEDS = range(1, 13)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_kernel_with_flags(seed: int) -> None:
    """It breaks no law of `judge`."""
    assert judge(draw(seed)).failures == []


def test_twins_without_flags_are_pipelined() -> None:
    """They break no law either, and each annotated loop gets its stages."""
    outcomes = [judge(draw(seed).twin) for seed in SEEDS]
    assert [outcome.failures for outcome in outcomes if outcome.failures] == []
    loops, pipelined = (sum(getattr(o, name) for o in outcomes) for name in ("loops", "pipelined"))
    assert pipelined >= 0.8 * loops > 0


LAST_BARRIER = "gpu.barrier\n    scf.if %is_first"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("atomic acquire", "atomic monotonic"),
        ("atomic release", "atomic monotonic"),
        (LAST_BARRIER, "scf.if %is_first"),
    ],
    ids=("relaxed read", "relaxed store", "no barrier before the release"),
)
def test_the_judge_finds_what_orders_too_little(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    """A pass that made such a program would break the law, by races and by results."""
    write = random_flags.write
    monkeypatch.setattr(random_flags, "write", lambda program: write(program).replace(old, new))
    program = FlagProgram(1, producer=replace(FlagProgram(1).producer, turned=False))
    failures = judge(program).failures
    assert any("cross-block" in failure for failure in failures)
    assert "the input, results differ between schedules" in failures


def test_both_machines_agree_on_barriers_that_are_dropped() -> None:
    """Of what the pipeline makes of kernels with flags, one barrier is dropped at a time."""
    found = [judge_without(draw(seed), step=3) for seed in range(3000, 3006)]
    assert [text for _, _, disagreements in found for text in disagreements] == []
    dropped, needed = (sum(part[number] for part in found) for number in (0, 1))
    assert 0 < needed < dropped
