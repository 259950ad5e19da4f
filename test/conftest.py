"""Options of the test run: `--tier quick|push|all` and `--day` (see `helpers/tiers.py`)."""

from __future__ import annotations

import datetime
import gc
import os
from functools import cache
from pathlib import Path

import pytest

from helpers.tiers import SHARES, TEST, is_in, slow_functions

# What is kept from an earlier run would hide what a test changes.
os.environ["MLIR_ASYNC_PIPE_CACHE"] = "off"

LAWS = TEST / "laws"


def pytest_addoption(parser: pytest.Parser) -> None:
    today = datetime.date.today().toordinal()
    parser.addoption("--tier", choices=("quick", "push", "all"), default="all", help="how much")
    parser.addoption("--day", type=int, default=today, help="which share of the slow tests")


def pytest_report_header(config: pytest.Config) -> str | None:
    day = config.getoption("day")
    if config.getoption("tier") != "push":
        return None
    return f"slow tests: share {day % SHARES} of {SHARES}, again with --tier push --day {day}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Laws are slow, and to import them takes a quarter of the time of a first look."""
    return True if collection_path == LAWS and config.getoption("tier") == "quick" else None


@cache
def _file(path: Path) -> str:
    """The path in `test/`, "" elsewhere."""
    return path.relative_to(TEST).as_posix() if path.is_relative_to(TEST) else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    listed, seen = slow_functions(), set[str]()
    tier, day = config.getoption("tier"), config.getoption("day")
    kept, left = [], []
    for item in items:
        function = item.nodeid.partition("[")[0]
        file = _file(item.path)
        if file.startswith("laws/") or (file, item.name.partition("[")[0]) in listed:
            item.add_marker(pytest.mark.slow)
        slow = item.get_closest_marker("slow") is not None
        chosen = is_in(
            tier,
            day,
            item.nodeid,
            slow=slow,
            first=function not in seen,
            first_of_file=file not in seen,
        )
        seen |= {function, file}
        (kept if chosen else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Contexts of MLIR lie in cycles, a few objects to the collector and megabytes beside them: 250 were
    alive at once."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()


def pytest_collection_finish() -> None:
    """The 10^4 tests live to the end: each full collection of garbage would walk them, which is a
    tenth of the time of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
