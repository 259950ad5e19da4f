"""Which tests run when: quick ones in a minute, on each change all fast ones and a share of the slow
ones, at night all.

Covers: test/helpers/tiers.py, test/reports/slow_tests.py, cmake-free-scripts/test.sh
"""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from helpers.paths import ROOT
from helpers.tiers import SHARES, TEST, is_in, slow_functions
from reports.slow_tests import slow_functions as measured

NODES = [
    f"test/units/x/test_{name}.py::test_{n}[{m}]"
    for name in "abc"
    for n in range(9)
    for m in (0, 1)
]


def test_each_slow_test_has_its_day_and_fast_ones_run_every_day() -> None:
    for node in NODES:
        days = [day for day in range(SHARES) if is_in("push", day, node, slow=True)]
        assert len(days) == 1
        assert all(is_in("push", day, node, slow=False) for day in range(SHARES))
        assert is_in("all", 0, node, slow=True)


def test_the_quick_tier_has_one_test_of_some_functions_and_no_slow_one() -> None:
    assert not any(is_in("quick", 0, node, slow=True, first=True) for node in NODES)
    assert not any(is_in("quick", 0, node, slow=False) for node in NODES)
    firsts = [is_in("quick", 0, node, slow=False, first=True) for node in NODES]
    assert firsts[::2] == firsts[1::2]
    assert 0 < sum(firsts) < len(firsts)


def test_a_first_look_imports_no_laws() -> None:
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--tier", "quick"]
    laws = str(TEST / "laws")
    found = subprocess.run([*collect, laws], cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout.strip()) == (pytest.ExitCode.NO_TESTS_COLLECTED, "")


def test_a_function_is_slow_by_the_mean_of_its_tests() -> None:
    results = ElementTree.fromstring(
        "<testsuites>"
        '<testcase classname="test.units.a.test_a" name="test_slow[0]" time="0.1"/>'
        '<testcase classname="test.units.a.test_a" name="test_slow[1]" time="0.3"/>'
        '<testcase classname="test.units.a.test_a" name="test_fast[0]" time="0.15"/>'
        '<testcase classname="test.units.a.test_a" name="test_fast[1]" time="0.01"/>'
        '<testcase classname="test.laws.test_b" name="test_law" time="9"/>'
        "</testsuites>"
    )
    assert measured(results) == {"units/a/test_a.py": ["test_slow"]}


def test_the_list_names_functions_that_there_are() -> None:
    for file, name in slow_functions():
        path = TEST / file
        assert path.exists(), f"{file} is gone: test/reports/slow_tests.py writes the list anew"
        assert re.search(rf"def {name}\b", path.read_text()), f"{file} has no {name}"


def test_each_file_has_a_test_on_each_change_so_that_each_module_is_covered() -> None:
    node = NODES[0]
    assert all(is_in("push", day, node, slow=True, first_of_file=True) for day in range(SHARES))


@pytest.mark.parametrize("flag", ["--quick", "--all"])
def test_the_script_and_the_front_page_name_the_tiers(flag: str) -> None:
    script = (ROOT / "cmake-free-scripts" / "test.sh").read_text()
    assert f"  {flag})" in script
    assert f"test.sh {flag}" in (ROOT / "CONTRIBUTING.md").read_text()
    assert "test.sh --quick" in (ROOT / "README.md").read_text()
