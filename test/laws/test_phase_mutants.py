"""A sample of the report on phases: right loops are proven, and whatever the machine makes fail the
checker names.

`python test/reports/phase_report.py` does the same to hundreds of loops and mutants.

Covers: checker/phases/phase_paths.py, checker/phases/arrivals.py, checker/phases/async_memory.py,
checker/phases/role_memory.py, checker/phases/cluster_memory.py, test/reports/phase_report.py, test/reports/nightly_table.py
"""

from __future__ import annotations

import sys

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from reports import nightly_table
from reports.phase_report import (
    Judged,
    is_clean,
    judge_made,
    judge_mutant,
    judge_right,
    summary,
)

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_gemm import HopperGemm


@pytest.mark.parametrize("seed", range(7000, 7012))
def test_right_loops_are_proven_and_run(seed: int) -> None:
    found = judge_right(seed)
    assert found.fails == ""
    assert found.verdict == "safe", found.codes


@pytest.mark.parametrize("seed", range(7000, 7030))
def test_no_failing_mutant_is_missed(seed: int) -> None:
    found = judge_mutant(seed)
    assert not found.missed, (found.kind, found.fails, found.text)
    if found.fails:
        assert found.verdict == "unsafe", (found.kind, found.fails, found.text)


# With 106 and 122 warps of their own copy, and the products' fences stand between no barriers.
@pytest.mark.parametrize("seed", [106, 122, *range(7000, 7012)])
def test_pipelines_of_the_expander_are_proven(seed: int) -> None:
    found = judge_made(seed)
    assert found.verdict == "safe", (found.codes, found.text)


def test_the_figures_count_what_is_wrong() -> None:
    found = [
        Judged("right", 0, False, "safe", "", ""),
        Judged("right", 1, True, "safe", "", ""),
        Judged("no wait", 2, False, "unsafe", "read-in-flight", "read-in-flight"),
        Judged("no wait", 3, True, "unsafe", "deadlock", "deadlock"),
    ]
    figures = summary(found)
    assert is_clean(figures) and figures["mutants, failing, named"] == 2
    assert figures["mutants with roles, failing, named"] == 1
    missed = Judged("slots", 4, False, "safe", "", "source-overwritten", "module {}")
    accused = Judged("made", 5, False, "unsafe", "deadlock", "", "module {}")
    for wrong, name in ((missed, "missed"), (accused, "made by the expander, accused")):
        figures = summary([*found, wrong])
        assert not is_clean(figures) and figures[name] == 1
    assert dict(nightly_table.phases({"figures": figures}))["missed"] == "0"


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("warpgroups", [1, 2])
@pytest.mark.parametrize("b", ["k", "n"])
def test_gemms_are_proven(b: str, warpgroups: int, persistent: bool) -> None:
    """`wgmma` on descriptors that are numbers, one for each warpgroup, in outer loops too."""
    made = HopperGemm(tile_n=128 * warpgroups, warpgroups=warpgroups, b=b, persistent=persistent)
    with new_context():
        (found,) = pipeline(ir.Module.parse(made.module())).of("checks")
    assert found.accesses > 0 and (found.unsafe, found.unknown) == (0, 0)
