"""Each registered pass has a folder of FileCheck tests, and each folder a pass or a reason.

Covers: session/passes.py, lit-tests
"""

from __future__ import annotations

import pytest

from helpers.paths import ROOT
from mlir_async_pipe.session import passes

FOLDERS = {path.name for path in (ROOT / "lit-tests").iterdir() if path.is_dir()}
# What the folders hold that are not named after a pass.
OTHERS = {
    "driver": "the command line",
    "machine": "--run",
    "marks": "marks of AMD's chips, which more than one pass reads",
    "rfc-0077": "the examples of TVM's RFC",
}


def test_passes_and_folders_are_the_same() -> None:
    of_passes = {
        name if name == "async-pipe" else name.removeprefix("async-pipe-")
        for name in passes.names()
        if passes.is_ours(name)
    }
    assert FOLDERS - {"Output"} == of_passes | set(OTHERS)
    assert not of_passes & set(OTHERS)


@pytest.mark.parametrize("folder", sorted(FOLDERS - {"Output"}))
def test_every_folder_has_tests(folder: str) -> None:
    files = list((ROOT / "lit-tests" / folder).glob("*.mlir"))
    assert files != []
    for file in files:
        assert "RUN: " in file.read_text(), file.name
