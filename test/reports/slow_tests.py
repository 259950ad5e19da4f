"""Writes the list of slow tests from what a whole run measured.

    python test/reports/slow_tests.py build/nightly/all.xml      # JUnit XML of pytest

A function is slow if one of its tests takes more than 0.1 s on average. `test/slow_tests.txt` has them by
file; `test/conftest.py` marks them, and all laws, as slow.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

TEST = Path(__file__).resolve().parents[1]
SECONDS = 0.1


def slow_functions(results: ElementTree.Element) -> dict[str, list[str]]:
    """The slow functions of each file, by the path in `test/`."""
    times = defaultdict[tuple[str, str], list[float]](list)
    for case in results.iter("testcase"):
        file = case.get("classname", "").removeprefix("test.").replace(".", "/") + ".py"
        name = case.get("name", "").partition("[")[0]
        times[file, name].append(float(case.get("time", "0")))
    found = defaultdict[str, list[str]](list)
    for (file, name), seconds in sorted(times.items()):
        if sum(seconds) > SECONDS * len(seconds) and not file.startswith("laws/"):
            found[file].append(name)
    return found


def main() -> None:
    """Write the list."""
    found = slow_functions(ElementTree.parse(sys.argv[1]).getroot())
    lines = [f"{file}: {' '.join(names)}" for file, names in found.items()]
    (TEST / "slow_tests.txt").write_text("\n".join(lines) + "\n")
    print(f"{sum(map(len, found.values()))} slow functions in {len(found)} files")


if __name__ == "__main__":
    main()
