"""PTX of random kernels computes what they do, for all data, or it is not decided; what is broken in it, and goes wrong in the
interpreter, is never called equal.

Covers: machine/validation.py, machine/normal_terms.py, test/reports/validated_ptx_report.py
"""

from __future__ import annotations

import os

import pytest

from reports.validated_ptx_report import judge

SEED = int(os.environ.get("ASYNC_PIPE_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_right_ptx_is_never_different_and_wrong_ptx_never_equal(seed: int) -> None:
    assert judge(seed, each=2).wrong == []


def test_most_kernels_are_decided() -> None:
    """A judge that refuses everything would miss nothing."""
    verdicts = [judge(seed, each=0).verdict for seed in range(1, 9)]
    assert verdicts.count("equal") >= 6, verdicts
