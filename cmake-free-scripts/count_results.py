"""Adds up what pytest and lit wrote as JUnit XML; prints "N passed, N failed[, N skipped]".

Usage: count_results.py FOLDER CHECKS_FAILED. FOLDER holds pytest.xml and lit.xml, and
NAME.failed where a runner ended with an error, which counts as a failure even if its file
names none (a crash, no tests found). Exits 1 if anything failed.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(folder: Path, runner: str) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of one runner."""
    report = folder / f"{runner}.xml"
    ended_badly = (folder / f"{runner}.failed").exists()
    if not report.exists():
        return 0, 1, 0
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = sum(1 for case in cases if _has(case, "failure", "error"))
    skipped = sum(1 for case in cases if _has(case, "skipped"))
    passed = len(cases) - failed - skipped
    if failed == 0 and (ended_badly or not cases):
        failed = 1
    return passed, failed, skipped


def _has(case: ElementTree.Element, *kinds: str) -> bool:
    return any(case.find(kind) is not None for kind in kinds)


def main(folder: str, checks_failed: str) -> int:
    """Print the sum; returns the exit code."""
    counts = [count(Path(folder), runner) for runner in ("pytest", "lit")]
    passed, failed, skipped = (sum(column) for column in zip(*counts, strict=True))
    failed += int(checks_failed)
    tail = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{tail}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
