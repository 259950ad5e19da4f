"""The set-up of the scripts says clearly what is missing, and the tests' sum is right.

Covers: cmake-free-scripts/setup.sh, cmake-free-scripts/count_results.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT

SCRIPTS = ROOT / "cmake-free-scripts"

OLD_PYTHON = """#!/bin/sh
case "$2" in
  *print*) echo 3.9 ;;
  *) exit 1 ;;
esac
"""
# Good enough to be chosen, but with neither venv nor pip.
BARE_PYTHON = """#!/bin/sh
case "$1 $2" in
  *print*) echo 3.11 ;;
  "-c "*) exit 0 ;;
  "--version "*) echo Python 3.11 ;;
  *) exit 1 ;;
esac
"""


def set_up(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up in an empty `folder` that has a copy of the script and nothing else."""
    scripts = folder / "cmake-free-scripts"
    scripts.mkdir()
    (scripts / "setup.sh").write_text((SCRIPTS / "setup.sh").read_text())
    (folder / "pyproject.toml").write_text("[project]\n")
    return subprocess.run(
        ["bash", "-c", f". {scripts}/setup.sh; set_up nvidia; echo went on"],
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )


def fake(folder: Path, script: str) -> str:
    name = folder / "fake-python"
    name.write_text(script)
    name.chmod(0o755)
    return str(name)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "error: no Python found; install Python 3.11 or newer"),
        (OLD_PYTHON, "error: Python 3.11 or newer is needed, but {} is 3.9"),
        (BARE_PYTHON, "error: {} has neither pip nor a complete venv module"),
    ],
    ids=["none", "too old", "without pip"],
)
def test_a_missing_or_old_python_is_said_and_nothing_else_happens(tmp_path, script, said):
    python = "no-such-python" if script is None else fake(tmp_path, script)
    done = set_up(tmp_path, python)
    assert done.returncode == 1
    assert said.format(python) in done.stderr
    assert "went on" not in done.stdout
    assert "Traceback" not in done.stderr


XML = '<testsuites><testsuite><testcase name="a"/>{}</testsuite></testsuites>'
FAILED = '<testcase name="b"><failure/></testcase>'
SKIPPED = '<testcase name="c"><skipped/></testcase>'


def counted(folder: Path, pytest_xml: str, lit_xml: str | None, checks_failed: int):
    for name, content in (("pytest", pytest_xml), ("lit", lit_xml)):
        if content is not None:
            (folder / f"{name}.xml").write_text(content)
    done = subprocess.run(
        [sys.executable, SCRIPTS / "count_results.py", folder, str(checks_failed)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("pytest_tests", "lit_tests", "checks_failed", "expected"),
    [
        ("", "", 0, (0, "2 passed, 0 failed\n")),
        (FAILED, "", 0, (1, "2 passed, 1 failed\n")),
        ("", FAILED, 0, (1, "2 passed, 1 failed\n")),
        (SKIPPED, "", 0, (0, "2 passed, 0 failed, 1 skipped\n")),
        ("", "", 2, (1, "2 passed, 2 failed\n")),
    ],
)
def test_results_are_added_up(tmp_path, pytest_tests, lit_tests, checks_failed, expected):
    xml = XML.format(pytest_tests), XML.format(lit_tests)
    assert counted(tmp_path, *xml, checks_failed) == expected


def test_a_runner_that_wrote_nothing_has_failed(tmp_path):
    assert counted(tmp_path, XML.format(""), None, 1) == (1, "1 passed, 2 failed\n")


def test_a_runner_that_ended_badly_has_failed_even_if_no_test_did(tmp_path):
    (tmp_path / "lit.failed").touch()
    assert counted(tmp_path, XML.format(""), XML.format(""), 1) == (1, "2 passed, 2 failed\n")
