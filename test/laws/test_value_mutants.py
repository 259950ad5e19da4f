"""Whatever a run on numbers tells apart, `validate` does not call equal; test/reports/validation_report.py takes any number.

Covers: machine/validation.py, test/helpers/value_mutants.py, test/reports/validation_report.py
"""

from __future__ import annotations

from itertools import islice

import pytest

from reports.validation_report import judge, pairs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [0, 1, 3])
def test_no_mutant_of_values_is_missed(number: int) -> None:
    (pair,) = islice(pairs(3), number, number + 1)
    found = judge(pair, 2, 3)
    assert (found.right, found.missed) == ("equal", [])
    assert sum(verdicts["different"] for verdicts in found.verdicts.values()) >= 4
