"""The site is built without a warning, and every link and anchor in it leads somewhere.

Covers: mkdocs.yml, cmake-free-scripts/site.sh, cmake-free-scripts/docstring_lists.py, docs
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from helpers.browser import browser_page, keep_screenshot, needs_browser
from helpers.paths import ROOT

DOCS = ROOT / "docs"


class Links(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.update(value for key, value in attrs if key in ("id", "name") and value)
        for key in ("href", "src"):
            value = given.get(key)
            if value and (tag, given.get("rel")) != ("link", "canonical"):
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings"))):
        pytest.skip("the extra 'docs' is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_navigation_has_every_page_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"([\w-]+\.md)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {
        page: Links(page.read_text()) for page in site.rglob("*.html") if page.name != "404.html"
    }
    assert len(pages) >= len(list(DOCS.glob("*.md")))
    broken = []
    for page, read in pages.items():
        for link in read.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and anchor not in pages[target].ids):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


@pytest.mark.slow
def test_every_block_of_code_is_shown_as_one(site: Path) -> None:
    """A fence that the site does not know ends up in the text, with all that follows as code."""
    shown = {page.parent.name: page.read_text() for page in site.rglob("*.html")}
    assert [name for name, text in shown.items() if "```" in text] == []


@pytest.mark.slow
def test_the_reference_has_the_calls_with_types_units_and_errors(site: Path) -> None:
    page = re.sub(r"<[^>]+>", "", (site / "reference" / "index.html").read_text())
    for call in ("pipeline", "count_waits", "check", "lower", "find_loops", "annotate", "Pipeline"):
        assert re.search(rf"\b{call}\b", page)
    for reported in ("smem_limit", "in bytes", "Raises InputError", "Report", "groups"):
        assert reported in page, reported


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_fit_the_window(site: Path, width: int) -> None:
    with browser_page(width) as (shown, asked):
        for name in ("", "first-kernel", "concepts", "driver", "reference"):
            shown.goto((site / name / "index.html").as_uri())
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert shown.evaluate(overflow) <= 0, name
            keep_screenshot(shown, f"site-{name or 'start'}-{width}")
        assert [url for url in asked if url.startswith("http") and "github" not in url] == []
