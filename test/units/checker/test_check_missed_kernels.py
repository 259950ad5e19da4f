"""Kernels that race or hang and were once proven: a number whose sign was open after a join, bounds without signs, casts that cut, blocks
that a launch names.

Covers: checker/explore.py, checker/phases/loop_iterations.py, checker/phases/amounts.py, checker/grid_blocks.py, vocabulary/launch_ids.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.check_harness import check_text

FOLDER = Path(__file__).parents[2] / "helpers" / "missed_kernels"
# The kernels of which the fault itself is named; of the others nothing is proven.
NAMED = {
    "copy_after_a_division",
    "division_after_a_join",
    "division_after_a_join_in_llvm",
    "larger_without_signs",
    "launch_func_of_n_times_2",
    "launch_of_n_times_2",
    "sign_of_a_bit",
}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.mlir")), ids=lambda path: path.stem)
def test_what_races_or_hangs_is_not_proven(path: Path) -> None:
    found = check_text(path.read_text())
    assert found.unsafe or (path.stem not in NAMED and found.unknown)
