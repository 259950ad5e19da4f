"""Which tests run: the tiers `quick`, `push` and `all`.

| tier  | fast tests                  | slow tests                       | for                          |
|-------|-----------------------------|----------------------------------|------------------------------|
| quick | one of every third function | none                             | a first look, under a minute |
| push  | all                         | the first one of each file, and  | each change, and CI          |
|       |                             | a share that changes every day   |                              |
| all   | all                         | all                              | `test/nightly.sh`            |

Slow are the laws, what its author marked as slow, and the functions that `slow_tests.txt` names, as a
whole run measured (`test/reports/slow_tests.py`). The share of a day are the tests whose CRC-32 is the
day modulo 40: in 40 days each slow test runs once, and every night all of them do (`test/nightly.sh`).
"""

from __future__ import annotations

import zlib
from typing import Literal

from helpers.paths import ROOT

Tier = Literal["quick", "push", "all"]

TEST = ROOT / "test"
SHARES = 40
_QUICK = 3


def slow_functions() -> frozenset[tuple[str, str]]:
    """(path in `test/`, name) of the functions that the list names."""
    rows = (line.split(": ") for line in (TEST / "slow_tests.txt").read_text().splitlines())
    return frozenset((file, name) for file, names in rows for name in names.split())


def is_in(
    tier: Tier, day: int, node: str, *, slow: bool, first: bool = False, first_of_file: bool = False
) -> bool:
    """Whether the test `node` belongs to a tier; `first`: no other test of its function comes before
    it."""
    if tier == "quick":
        function = node.partition("[")[0]
        return not slow and first and zlib.crc32(function.encode()) % _QUICK == 0
    if tier == "all" or not slow or first_of_file:
        return True
    return zlib.crc32(node.encode()) % SHARES == day % SHARES
