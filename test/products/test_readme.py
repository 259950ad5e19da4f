"""What README.md shows is what the tool does.

Covers: README.md
"""

from __future__ import annotations

import re

import pytest

from helpers.driver_process import opt
from helpers.paths import ROOT

README = (ROOT / "README.md").read_text()
BEFORE, AFTER = re.findall(r"```mlir\n(.*?)```", README, re.DOTALL)
ELLIPSIS = "…"


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def shows(shown: str, whole: str) -> bool:
    """Whether `shown` is a stretch of `whole`, where an ellipsis stands for any lines."""
    parts = [[]]
    for line in lines(shown):
        if line == ELLIPSIS:
            parts.append([])
        else:
            parts[-1].append(line)
    rest = lines(whole)
    for part in filter(None, parts):
        starts = [n for n in range(len(rest)) if rest[n : n + len(part)] == part]
        if not starts:
            return False
        rest = rest[starts[0] + len(part) :]
    return True


def test_the_loop_before_is_the_example():
    assert shows(BEFORE, (ROOT / "examples" / "add_one.mlir").read_text())


def test_the_loop_after_is_the_tools_output():
    command = re.search(r"^    async-pipe-opt (examples/add_one.mlir .*)$", README, re.MULTILINE)
    ended = opt(*command[1].split(), folder=ROOT)
    assert ended.code == 0
    assert shows(AFTER, ended.out)


def test_other_output_would_not_pass():
    assert not shows(AFTER, AFTER.replace("numGroups = 1", "numGroups = 2", 1))


def test_the_python_example_runs(monkeypatch, capsys):
    (script,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(compile(script, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"^-:\d+:\d+ 1$", printed, re.MULTILINE)
    assert "cp.async.wait_group" in printed


@pytest.mark.parametrize("script", ["demo.sh", "test.sh"])
def test_the_first_screen_names_the_two_commands(script):
    first_screen = "\n".join(README.splitlines()[:25])
    path = f"cmake-free-scripts/{script}"
    assert path in first_screen
    assert (ROOT / path).stat().st_mode & 0o111


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(link):
    assert link.startswith("https://") or (ROOT / link).exists()
