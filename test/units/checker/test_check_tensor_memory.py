"""Products of tensor memory to the checker: right kernels are proven, wrong ones are named, and the
machine makes each of these fail.

Covers: checker/phases/tensor_state.py, checker/phases/op_effects.py, checker/phases/block_memory.py, checker/phases/mbarrier_state.py, checker/kernel_flow.py, test/helpers/commit_mutants.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.commit_mutants import MUTATIONS, TILE_MUTATIONS
from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.vocabulary.tensor_memory import Cells

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


@pytest.mark.parametrize("name", ["mma", "commit", "alloc", "dealloc"])
def test_what_two_blocks_do_together_is_refused_by_name(name):
    module = parse(pipelined(ONE))
    op = next(op for op in walk(module.operation) if op.name == f"nvvm.tcgen05.{name}")
    attribute = "ctaGroup" if name == "mma" else "group"
    assert "cta_1" in str(op.attributes[attribute])
    op.attributes[attribute] = ir.Attribute.parse("#nvvm.cta_group<cta_2>", op.context)
    report = check(module)
    assert {one.reason for one in report.of("hazards") if one.verdict == "unknown"} == {"cta-group"}
    assert not [one for one in report.diagnostics if one.severity == "error"]


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


def test_products_of_one_thread_into_sums_that_overlap_are_named_and_fail():
    """They are in order where they are the same sums (PTX ISA, tcgen05: pipelined instructions)."""
    gemm = KERNELS["two accumulators"]
    text = pipelined(gemm)
    moved = text.replace("%c32_i32 = arith.constant 32", "%c32_i32 = arith.constant 16", 1)
    assert moved != text
    assert "overwrite-in-flight" in found(moved)[0]
    assert fails(moved, gemm)


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


CARRIED = """
gpu.module @kernels {
  gpu.func @f(%out: memref<4x128x32xi32> {llvm.noalias}, %n: index)
      workgroup(%place: memref<1xi32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %columns = arith.constant 32 : i32
    %lanes = arith.constant 2097152 : i32
    %zero = arith.constant dense<0> : vector<32xi32>
    %t = gpu.thread_id x
    %is_first_warp = arith.cmpi ult, %t, %c32 : index
    scf.if %is_first_warp {
      %at = memref.extract_aligned_pointer_as_index %place : memref<1xi32, #gpu.address_space<workgroup>> -> index
      %at_ = arith.index_cast %at : index to i32
      %to = llvm.inttoptr %at_ : i32 to !llvm.ptr<3>
      nvvm.tcgen05.alloc %to, %columns : !llvm.ptr<3>, i32
      nvvm.tcgen05.relinquish_alloc_permit
    }
    gpu.barrier
    %sums_at = memref.load %place[%c0] : memref<1xi32, #gpu.address_space<workgroup>>
    %sums = llvm.inttoptr %sums_at : i32 to !llvm.ptr<6>
    %warp = arith.divui %t, %c32 : index
    %warp_ = arith.index_cast %warp : index to i32
    %own = arith.muli %warp_, %lanes : i32
    %row_at = arith.addi %sums_at, %own : i32
    %row = llvm.inttoptr %row_at : i32 to !llvm.ptr<6>
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%x = %zero) -> (vector<32xi32>) {
      BODY
      scf.yield %v : vector<32xi32>
    }
    nvvm.tcgen05.wait <load>
    nvvm.tcgen05.fence <before>
    gpu.barrier
    scf.if %is_first_warp {
      nvvm.tcgen05.dealloc %sums, %columns : !llvm.ptr<6>, i32
    }
    gpu.return
  }
}"""
USE = """%u = arith.addi %x, %x : vector<32xi32>
vector.store %u, %out[%i, %t, %c0] : memref<4x128x32xi32>, vector<32xi32>
"""
LOAD = (
    "%v = nvvm.tcgen05.ld %row {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>\n"
)
WAIT = "nvvm.tcgen05.wait <load>\n"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (USE + LOAD + WAIT, set()),
        (WAIT + USE + LOAD, {"read-in-flight"}),
        (USE + LOAD, {"read-in-flight"}),
        (USE + WAIT + LOAD, {"read-in-flight"}),
    ],
    ids=["at the end", "after it is carried", "no wait", "after the use"],
)
def test_what_an_iteration_loads_is_waited_for_before_it_is_carried(body, codes) -> None:
    """Who hands registers on may move them."""
    text = CARRIED.replace("BODY", body)
    assert found(text) == (codes, 0)
    ran = machine.run(parse(text), "f", [np.zeros((4, 128, 32), np.int32), 3])
    assert ran.race_codes - {"uninitialised-read"} == codes


# Stores -----------------------------------------------------------------------------------------

ZEROS = {
    "store": "nvvm.tcgen05.st %mine, %none {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>",
    "wait": "nvvm.tcgen05.wait <store>",
    "before": "nvvm.tcgen05.fence <before>",
    "meet": "gpu.barrier",
    "after": "nvvm.tcgen05.fence <after>",
    "last": "",
}


def zeroed(changes: dict[str, str]) -> str:
    """A kernel whose threads store zeros where the first product adds up."""
    parts = ZEROS | changes
    place = "    %sums = llvm.inttoptr %sums_at : i32 to !llvm.ptr<6>\n"
    first = "%later = arith.cmpi ne, %k32, %i32_9 : i32"
    text = ONE.module()
    assert place in text
    assert first in text
    text = text.replace(first, "%later = arith.constant true")
    end = text.rindex("    gpu.barrier", 0, text.rindex("nvvm.tcgen05.dealloc"))
    text = f"{text[:end]}    {parts['last']}\n{text[end:]}"
    return text.replace(
        place,
        f"""{place}
    %none = arith.constant dense<0> : vector<32xi32>
    %own_warp = arith.divui %tid, %c32 : index
    %own_number = arith.index_cast %own_warp : index to i32
    %own_step = arith.constant 2097152 : i32
    %own_lanes = arith.muli %own_number, %own_step : i32
    %own_at = arith.addi %sums_at, %own_lanes : i32
    %mine = llvm.inttoptr %own_at : i32 to !llvm.ptr<6>
    {parts["store"]}
    {parts["wait"]}
    {parts["before"]}
    {parts["meet"]}
    {parts["after"]}
""",
    )


def test_sums_that_threads_have_stored_are_proven_and_added_to():
    text = zeroed({})
    assert found(text) == (set(), 0)
    assert not fails(text, ONE)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"wait": ""}, "read-in-flight"),
        ({"wait": "nvvm.tcgen05.wait <load>"}, "read-in-flight"),
        ({"before": ""}, "missing-tensor-fence"),
        ({"after": ""}, "missing-tensor-fence"),
        ({"meet": ""}, "missing-barrier"),
        ({"last": ZEROS["store"]}, "overwrite-in-flight"),
    ],
)
def test_sums_that_are_stored_too_late_are_named_and_fail(changes, code):
    text = zeroed(changes)
    assert code in found(text)[0]
    assert fails(text, ONE)
