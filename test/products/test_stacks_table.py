"""The table of stacks in docs/embedding.md has them all, and says what is so in those installed here.

Covers: test/reports/stacks.py, test/helpers/stack_child.py, docs/embedding.md
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT
from helpers.stack_child import DISTRIBUTIONS
from mlir_async_pipe import bindings

sys.path.insert(0, str(ROOT / "test" / "reports"))
stacks = importlib.import_module("stacks")


def rows() -> dict[str, list[str]]:
    """The cells of each line by the stack."""
    table = (ROOT / "docs" / "embedding.md").read_text().split(stacks.BEGIN)[1].split(stacks.END)[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {line[0]: line[1:] for line in lines}


def test_the_table_has_every_stack() -> None:
    assert list(rows()) == [stack.name for stack in bindings.STACKS]
    assert set(DISTRIBUTIONS) == {stack.name for stack in bindings.STACKS} - {"mlir"}


@pytest.mark.slow
@pytest.mark.parametrize("stack", sorted(DISTRIBUTIONS))
def test_what_the_table_says_is_so(stack: str) -> None:
    """But for PTX and ISA, for which another stack of this environment may help."""
    if stack not in {found.name for found in bindings.installed()}:
        pytest.skip(f"{stack} is not installed")
    found = stacks.row(stack, stacks.tried(Path(sys.executable), stack))
    cells = [cell.strip() for cell in found.split("|")[1:-1]]
    assert cells[2:7] == rows()[stack][1:6]
