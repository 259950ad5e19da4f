"""A sample of the report on phases: right loops are proven, and whatever the machine makes fail the
checker names.

`python test/reports/phase_report.py` does the same to hundreds of loops and mutants.

Covers: checker/phases/phase_paths.py, checker/phases/mbarrier_state.py,
checker/phases/block_memory.py, checker/phases/cluster_blocks.py, test/reports/phase_report.py,
test/reports/nightly_table.py, test/helpers/tensor_memory_mutants.py
"""

from __future__ import annotations

import random
import sys

import pytest

from helpers.paths import ROOT
from helpers.phase_mutants import checked, failure, random_mutant, with_numbers
from helpers.role_kernels import TwoGroups
from helpers.tensor_kernels import Ring
from helpers.tensor_memory_kernels import BlackwellGemm
from helpers.tensor_memory_mutants import CHANGES, random_tensor_kernel
from helpers.tensor_role_kernels import RoleGemm
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from reports import nightly_table
from reports.phase_report import Judged, is_clean, judge_made, judge_mutant, judge_right, summary

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


# Without a tile the first is copied for twice; of 3 tiles the second execution begins in their slots; one
# tile is copied to the slot after that from which it is read.
ONLY_WITH_OTHER_NUMBERS = {
    9_000_018: (0, "too-many-arrivals"),
    20261122_000_098: (3, "missing-barrier"),
    20261122_000_131: (1, "deadlock"),
}


@pytest.mark.parametrize("seed", ONLY_WITH_OTHER_NUMBERS)
def test_an_error_is_met_with_the_numbers_that_it_names(seed: int) -> None:
    tiles, code = ONLY_WITH_OTHER_NUMBERS[seed]
    _, ring, text = random_mutant(seed)
    said = checked(text)
    assert (said.verdict, list(said.examples[0].values())) == ("unsafe", [tiles])
    assert code in said.codes.split()
    assert all(not failure(ring, text, order) for order in range(4))
    assert code in failure(with_numbers(ring, said.examples[0]), text, 0)
    found = judge_mutant(seed)
    assert code in found.fails and not found.accused


def test_of_several_errors_the_numbers_of_each_are_run() -> None:
    """The second of two arrivals too many shows in few orders, the deadlock behind it in more."""
    found = judge_mutant(20261126_000_134)
    assert found.verdict == "unsafe" and found.fails == "deadlock"


def test_of_tensor_memory_kernels_by_hand_and_by_the_expander_are_drawn() -> None:
    drawn = [random_tensor_kernel(seed) for seed in range(12)]
    assert {type(kernel.gemm) for kernel in drawn} == {RoleGemm, BlackwellGemm}
    kinds = {random_mutant(seed)[0] for seed in range(4, 400, 10)}
    assert all(kind.startswith("tensor memory: ") for kind in kinds) and len(kinds) > 15
    for kernel in drawn:
        for change in CHANGES.values():
            assert change(kernel.text(), random.Random(0))
    one = next(kernel for kernel in drawn if kernel.gemm.persistent)
    # k is the last argument, C the one before, whose columns say how many tiles there are.
    assert with_numbers(one, {3: 2 * one.gemm.line + 1}).depth == 3
    assert with_numbers(one, {(2, 1): 2 * one.gemm.tile_n}).tiles == 2
    assert with_numbers(one, {2: 7}) == one


def test_numbers_stand_for_arguments_only() -> None:
    counted = Ring(counted=True)
    assert with_numbers(counted, {2: 7}) is counted
    assert with_numbers(Ring(counted=False), {2: 7}).tiles == 7
    assert with_numbers(Ring(counted=False, reader="products"), {2: 7}).tiles == 5
    groups = with_numbers(TwoGroups(counted=False), {2: 7, 3: 1})
    assert (groups.tiles, groups.executions) == (7, 1)


# With 106 and 122 warps of their own copy, and the products' fences stand between no barriers.
# 99 and 169 store rows of 9 and of 15 a tile, of two groups in turn; the others as many as the launch says.
PING_PONG = [20261123000000 + n for n in (99, 106, 125, 169)]


@pytest.mark.parametrize("seed", [106, 122, *PING_PONG, 7000000, *range(7000, 7012)])
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
    made = Judged("made", 5, False, "unsafe", "deadlock", "", "module {}")
    accused = Judged("no wait", 6, False, "unsafe", "deadlock", "", "module {}")
    for wrong, name in (
        (missed, "missed"),
        (made, "made by the expander, accused"),
        (accused, "mutants, accused"),
    ):
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
