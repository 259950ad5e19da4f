"""Products of tensor memory to the checker: right kernels are proven, wrong ones are named, and the
machine makes each of these fail.

Covers: checker/phases/tensor_state.py, checker/phases/tensor_effects.py,
checker/phases/block_memory.py, checker/phases/mbarrier_state.py, test/helpers/commit_mutants.py
"""

from __future__ import annotations

import re

import pytest

from helpers.commit_mutants import MUTATIONS, TILE_MUTATIONS
from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.checker.phases.tensor_state import Cells

ONE = BlackwellGemm(tile_n=32)
KERNELS = {
    "one in flight": ONE,
    "none in flight": BlackwellGemm(tile_n=32, in_flight=0),
    "two in flight": BlackwellGemm(tile_n=32, in_flight=2, stages=2),
    "two accumulators": BlackwellGemm(tile_n=32, tile_m=256),
    "by n": BlackwellGemm(tile_n=64, types="bf16", b="n"),
    "tile after tile": BlackwellGemm(tile_n=32, persistent=True),
}
MOODS = [("eager", "forward"), ("late", "backward"), ("random", "random")]


def pipelined(gemm: BlackwellGemm) -> str:
    module = parse(gemm.module())
    pipeline(module, check="none", target="nvvm:sm_100a")
    return str(module)


def found(text: str) -> tuple[set[str], int]:
    """The codes of certain findings, and how many accesses are not decided."""
    report = check(parse(text))
    (summary,) = report.of("checks")
    return {d.code for d in report.diagnostics if d.severity == "error"}, summary.unknown


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_is_proven(name):
    assert found(pipelined(KERNELS[name])) == (set(), 0)
    assert found(KERNELS[name].module()) == (set(), 0)


def fails(text: str, gemm: BlackwellGemm) -> bool:
    """Whether the machine finds something wrong in some mood."""
    tiles, grid = ((3, 1), 1) if gemm.persistent else ((1, 1), None)
    for completion, schedule in MOODS:
        for seed in range(2):
            right, result = run_gemm(
                parse(text),
                gemm,
                7 * gemm.line,
                tiles=tiles,
                grid=grid,
                completion=completion,
                schedule=schedule,
                seed=seed,
            )
            if not right or result.races:
                return True
    return False


CASES = [
    *(
        (kernel, name)
        for kernel in ("one in flight", "two in flight", "tile after tile")
        for name in MUTATIONS
    ),
    *(("tile after tile", name) for name in TILE_MUTATIONS),
]


@pytest.mark.parametrize(("kernel", "name"), CASES)
def test_a_wrong_kernel_is_named_and_fails(kernel, name):
    gemm = KERNELS[kernel]
    mutate, expected = {**MUTATIONS, **TILE_MUTATIONS}[name]
    text = pipelined(gemm)
    changed = mutate(text)
    assert changed != text
    codes, _ = found(changed)
    assert codes & expected, codes
    assert fails(changed, gemm)


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (Cells("s", 0, 32), Cells("s", 31, 40), True),
        (Cells("s", 0, 32), Cells("s", 32, 64), False),
        (Cells("s", 0, 32), Cells("t", 0, 32), None),
        (Cells("s", 0, 32), Cells(), None),
    ],
)
def test_columns_are_compared_where_they_are_known(one, other, meets):
    assert one.meets(other) is meets
    assert other.meets(one) is meets


def test_columns_beyond_those_taken_are_named_and_fail():
    gemm = KERNELS["two accumulators"]
    text = pipelined(gemm)
    small = text.replace("%c64_i32 = arith.constant 64 : i32", "%c64_i32 = arith.constant 32 : i32")
    assert small != text
    assert found(small) == ({"out-of-bounds"}, 0)
    assert fails(small, gemm)


def test_columns_that_go_before_others_have_loaded_are_named_and_fail():
    gemm = KERNELS["two accumulators"]
    text = pipelined(gemm)
    given = re.search(r"\n *scf.if [^\n]*\{\n *nvvm.tcgen05.dealloc[^\n]*\n *\}", text)
    assert given is not None
    met = text[: given.start()].rindex("gpu.barrier")
    early = text[:met] + text[met:].replace("gpu.barrier", "", 1)
    assert found(early)[0] == {"missing-barrier"}
    load = text[: text.index("nvvm.tcgen05.ld")].rindex("\n")
    moved = text[:load] + given[0] + text[load:].replace(given[0], "", 1)
    # They go back where there is something to load, which an empty product has not.
    assert found(moved)[0] == {"out-of-bounds", "columns-kept"}
    assert fails(moved, gemm)


@pytest.mark.parametrize(("name", "columns"), [("fewer", 32), ("more", 128)])
def test_columns_are_given_back_as_they_were_taken(name: str, columns: int) -> None:
    gemm = KERNELS["two accumulators"]
    text = pipelined(gemm)
    line = re.search(r"nvvm.tcgen05.dealloc (%\w+), (%\w+)[^\n]*", text)
    assert line is not None
    other = line[0].replace(f", {line[2]} ", ", %other ")
    changed = text.replace(line[0], f"%other = arith.constant {columns} : i32\n{other}")
    assert changed != text
    assert found(changed)[0] == {"out-of-bounds"}
    assert fails(changed, gemm)
