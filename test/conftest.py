"""Laws are slow: `pytest -m "not slow"` leaves them out, with what else is marked."""

from __future__ import annotations

import pytest

from helpers.paths import ROOT

LAWS = ROOT / "test" / "laws"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if LAWS in item.path.parents:
            item.add_marker(pytest.mark.slow)
