"""The report as a browser shows it: it fits narrow and wide windows, its links work, and it asks
the network for nothing.

Covers: reports/page.py, reports/markup.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.browser import browser_page, keep_screenshot, needs_browser
from helpers.driver_process import opt
from helpers.paths import ROOT

pytestmark = needs_browser

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WIDE = "[...document.querySelectorAll(NAMES)].filter(e => e.scrollWidth > e.clientWidth).length"
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("report") / "report.html"
    ended = opt(
        ROOT / "examples" / "gemm.mlir", "--async-pipe", "--target=nvvm:sm_80", "--run=gemm",
        "--threads=128", "--arg=128x128xf16:1", "--arg=128x128xf16:2", "--arg=zeros:128x128xf32",
        "--report=html", f"--report-file={target}",
    )  # fmt: skip
    assert ended.code == 0
    return target


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_fits_the_window(report: Path, width: int, dark: bool) -> None:
    with browser_page(width, dark=dark) as (shown, asked):
        shown.goto(report.as_uri())
        shown.evaluate(OPEN_ALL)
        assert shown.evaluate(OVERFLOW) <= 0
        # Code wraps; in a narrow window a row of a table is one line for each column.
        names = "'.source, .wide:has(table)'" if width == 400 else "'.source'"
        assert shown.evaluate(WIDE.replace("NAMES", names)) == 0
        assert asked == [report.as_uri()]
        picture = keep_screenshot(shown, f"report-{width}-{'dark' if dark else 'light'}")
        assert picture.stat().st_size > 10_000


def test_each_link_scrolls_to_what_it_names(report: Path) -> None:
    with browser_page(1280) as (shown, _):
        shown.goto(report.as_uri())
        shown.evaluate(OPEN_ALL)
        links = shown.eval_on_selector_all("a", "all => all.map(a => a.getAttribute('href'))")
        assert len(links) > 20
        for link in dict.fromkeys(links):
            shown.evaluate("window.scrollTo(0, 0)")
            shown.locator(f'a[href="{link}"]').first.click()
            seen = shown.eval_on_selector(
                link, "e => { const r = e.getBoundingClientRect();"
                " return r.bottom > 0 && r.top < window.innerHeight; }",
            )  # fmt: skip
            assert seen, link


def test_text_can_be_read_against_its_background(report: Path) -> None:
    """The page's own colours differ by far, light and dark."""
    brightness = {}
    for dark in (False, True):
        with browser_page(400, dark=dark) as (shown, _):
            shown.goto(report.as_uri())
            for what in ("color", "backgroundColor"):
                text = shown.evaluate(f"getComputedStyle(document.body).{what}")
                red, green, blue = [int(n) for n in text[4:-1].split(",")]
                brightness[dark, what] = (red + green + blue) / 3
    assert brightness[False, "backgroundColor"] - brightness[False, "color"] > 150
    assert brightness[True, "color"] - brightness[True, "backgroundColor"] > 150
