"""Each test file says what it covers, and each module is covered by one at least.

A module is named by its path in the package; what is no module, by its path in the repository.

Covers: mlir_async_pipe, test
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from helpers.paths import PACKAGE, ROOT

FILES = sorted((ROOT / "test").rglob("test_*.py"))


def covered(file: Path) -> list[str]:
    """What stands after `Covers:`, the last lines of a docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    return docstring.partition("Covers: ")[2].replace("\n", " ").split(", ")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_test_covers_exists(file: Path) -> None:
    names = covered(file)
    assert names != [""], "no line `Covers: …` in the docstring"
    missing = [n for n in names if not (PACKAGE / n).exists() and not (ROOT / n).exists()]
    assert missing == []


def test_every_module_is_covered() -> None:
    modules = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert modules - {name for file in FILES for name in covered(file)} == set()


def test_files_with_tests_and_helpers_are_distinguished() -> None:
    """Tests stand in no helper, and no two files with tests have one base name."""
    assert list((ROOT / "test" / "helpers").rglob("test_*.py")) == []
    assert list((ROOT / "test").glob("test_*.py")) == []
    assert len({file.name for file in FILES}) == len(FILES)
