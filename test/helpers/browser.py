"""A headless browser for pages that people see: playwright's library with the system's Chromium."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCREENSHOTS = Path(os.environ.get("ASYNC_PIPE_SCREENSHOTS", ROOT / "build" / "screenshots"))


def missing() -> str:
    """What is not installed, "" if a browser can be used."""
    if importlib.util.find_spec("playwright") is None:
        return "the library playwright is not installed"
    return "" if any(map(shutil.which, NAMES)) else "no Chromium is installed"


needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")


@contextmanager
def browser_page(width: int, *, dark: bool = False) -> Iterator[tuple[Any, list[str]]]:
    """A page of this width, and the addresses that it asks the network for."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        shown = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        asked: list[str] = []
        shown.on("request", lambda request: asked.append(request.url))
        try:
            yield shown, asked
        finally:
            browser.close()


def keep_screenshot(shown: Any, name: str) -> Path:
    """Keep a picture of the whole page in the folder of the test run."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    target = SCREENSHOTS / f"{name}.png"
    shown.screenshot(path=str(target), full_page=True)
    return target
