"""Products of tensor memory by a warp of their own: right kernels are proven for any number of tiles,
each part that is left out or changed is named, and fails on the machine.

Covers: checker/phases/tensor_state.py, checker/phases/warp_clocks.py, checker/phases/block_memory.py, checker/phases/op_effects.py, machine/warp_clock.py, test/helpers/tensor_role_kernels.py
"""

from __future__ import annotations

import pytest

from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import run_gemm
from helpers.tensor_role_kernels import MUTANTS, RoleGemm
from mlir_async_pipe import check

COUNTED = RoleGemm(counted=(5, 3))
MOODS = [("eager", "forward"), ("late", "backward"), ("random", "random")]


def found(gemm: RoleGemm) -> tuple[set[str], int]:
    """The codes of certain findings, and how many accesses are not decided."""
    report = check(parse(gemm.module()))
    (summary,) = report.of("checks")
    return {d.code for d in report.diagnostics if d.severity == "error"}, summary.unknown


def run(gemm: RoleGemm, mood: tuple[str, str], seed: int = 0) -> tuple[bool, tuple]:
    completion, schedule = mood
    right, result = run_gemm(
        parse(gemm.module()),
        gemm,
        3 * gemm.line,
        tiles=(1, 5),
        grid=1,
        completion=completion,
        schedule=schedule,
        seed=seed,
    )
    return right, result.races


@pytest.mark.parametrize(("slots", "accumulators"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_it_is_proven_for_any_number_of_tiles(slots, accumulators):
    gemm = RoleGemm(slots=slots, accumulators=accumulators)
    assert found(gemm) == (set(), 0)


@pytest.mark.parametrize("counted", [(1, 1), (2, 3), (7, 1), (4, 0)])
def test_it_is_proven_of_numbers_that_are_known(counted):
    assert found(RoleGemm(counted=counted, accumulators=4)) == (set(), 0)


@pytest.mark.parametrize("mood", MOODS, ids="-".join)
@pytest.mark.parametrize(("slots", "accumulators"), [(1, 1), (2, 1), (2, 2), (3, 4)])
def test_the_product_is_numpy_s(slots, accumulators, mood):
    gemm = RoleGemm(slots=slots, accumulators=accumulators)
    assert run(gemm, mood) == (True, ())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_changed_part_is_named_and_fails(name):
    changes, expected = MUTANTS[name]
    gemm = COUNTED.changed(**changes)
    assert gemm.module() != COUNTED.module()
    codes, _ = found(gemm)
    assert codes & expected, codes
    assert any(run(gemm, mood, seed) != (True, ()) for mood in MOODS for seed in (0, 1))


def test_what_a_multiplier_has_waited_for_is_not_seen_by_who_waits_for_its_commit():
    """A reader of a tile must wait for the copies itself: the commit shows what products did."""
    load = """%seen = memref.load %A_shared[%c0, %tid, %c0] : memref<2x128x64xf16, WG>
%wide = arith.extf %seen : f16 to f32
memref.store %wide, %C[%tid, %c0] : memref<?x?xf32>"""
    gemm = RoleGemm(counted=(1, 1)).changed(**{"before arrive": load})
    assert "read-in-flight" in found(gemm)[0]
    assert {race.code for race in run(gemm, MOODS[0])[1]} == {"not-visible"}


def test_a_number_that_is_written_again_says_nothing_of_columns():
    """Whoever stores where the address of the columns is may have changed it."""
    again = "memref.store %sums_at, %place[%c0] : memref<1xi32, WG>\ngpu.barrier"
    read = f"{again}\n%sums_2 = memref.load %place[%c0] : memref<1xi32, WG>"
    other = {"after allocation": read, "r columns": "%r_at = arith.addi %sums_2, %r_away : i32"}
    codes, unknown = found(RoleGemm(counted=(3, 1)).changed(**other))
    assert codes or unknown
