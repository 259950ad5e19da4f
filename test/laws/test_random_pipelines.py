"""Random annotated kernels of every feature are pipelined right, proven, and tight.

The seeds are fixed, six programs a feature; ASYNC_PIPE_NIGHTLY=1 takes 200 from ASYNC_PIPE_SEED
(`test/reports/random_pipelines_report.py` judges the same programs and prints a table).

Covers: pipeliner/async_pipe_pass.py, test/helpers/random_pipelines
"""

from __future__ import annotations

import os

import pytest

from helpers.random_pipelines import FEATURES, programs
from helpers.random_pipelines.judge import judge

NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"
COUNT = 200 if NIGHTLY else 6
SEED = int(os.environ.get("ASYNC_PIPE_SEED", "1"))


@pytest.mark.parametrize("feature", FEATURES)
def test_random_programs_of_a_feature(feature: str) -> None:
    """No program breaks a law of `judge`, and at least half reach the pipeliner."""
    print(f"seeds {SEED} to {SEED + COUNT - 1}")
    outcomes = [judge(program) for program in programs(SEED, feature, COUNT)]
    broken = [f"{outcome.program}: {outcome.failures}" for outcome in outcomes if outcome.failures]
    assert not broken, "\n".join(broken)
    share = sum(outcome.pipelined for outcome in outcomes) / len(outcomes)
    assert share >= 0.5, f"only {share:.0%} were pipelined"
