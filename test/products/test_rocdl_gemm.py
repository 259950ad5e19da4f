"""The generated GEMMs on AMD chips: right on the machine, and their counts in the instructions.

Covers: lowering/rocdl/to_rocdl.py, lowering/rocdl/isa.py, examples/generate_gemm.py
"""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

import mlir_async_pipe
from helpers.gemm_kernels import EXAMPLES, operands
from helpers.rocdl_kernels import lowered, parse
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import CHIPS, Target
from mlir_async_pipe.lowering.lower import Lowered, lower

sys.path.insert(0, str(EXAMPLES))
from generate_gemm import TYPES, Gemm

pytestmark = pytest.mark.slow

MATRIX_CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1250")
needs_flydsl = pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="no AMDGPU back end: pip install flydsl",
)


def small(chip: str, **options) -> Gemm:
    """A GEMM with one wave and 16x16x32 tiles."""
    return Gemm(**{"chip": chip, "tile_m": 16, "tile_n": 16, "warps": (1, 1), **options})


def product_is_right(gemm: Gemm, module, shape, completion: str = "late") -> bool:
    """Whether the kernel computes the product on the machine, without a race."""
    arguments, product = operands(shape, gemm.types.operand)
    result = machine.run(
        module,
        "gemm",
        arguments,
        threads=gemm.threads,
        warp=CHIPS[gemm.chip].lanes,
        completion=completion,
    )
    assert not result.races
    return bool(np.array_equal(result.arrays[2], product))


@pytest.mark.parametrize("types", ["f16", "bf16"])
@pytest.mark.parametrize("chip", MATRIX_CHIPS)
def test_the_generated_kernel_computes_the_product(chip, types):
    gemm = small(chip, types=TYPES[types])
    assert product_is_right(gemm, parse(gemm.module()), (16, 16, 64))


@pytest.mark.parametrize(
    ("chip", "tiles", "shape"),
    [
        ("gfx942", {"tile_m": 32, "tile_n": 64}, (32, 64, 96)),
        ("gfx950", {"tile_m": 64, "tile_n": 32}, (64, 32, 96)),
        ("gfx950", {"tile_m": 64, "tile_n": 32, "warps": (2, 1), "tile_k": 64}, (64, 32, 192)),
        # One wave has 32 rows and 16 columns: instructions of 16.
        ("gfx942", {"tile_m": 32, "tile_n": 32, "warps": (1, 2)}, (32, 32, 96)),
        # A row of the tile has less than what 16 rows of lanes would read.
        ("gfx942", {"tile_k": 16}, (16, 16, 48)),
    ],
)
def test_larger_tiles_take_instructions_of_32_rows(chip, tiles, shape):
    gemm = small(chip, stages=3, **tiles)
    text = gemm.module()
    assert ("mfma 32x32" in text) == (min(gemm.tiles.warp_m, gemm.tiles.warp_n) % 32 == 0)
    module = parse(text)
    assert product_is_right(gemm, module, shape)
    mlir_async_pipe.pipeline(module, f"rocdl:{chip}")
    lowered(module, chip)
    assert product_is_right(gemm, module, shape, "late")
    edges = small(chip, stages=3, edges=True, **tiles)
    m, n, k = shape
    assert product_is_right(edges, parse(edges.module()), (m - 5, n - 3, k - 8))


@pytest.mark.parametrize("stages", [2, 3])
def test_loads_ahead_into_registers_give_the_same_product(stages):
    gemm = small("gfx942", tile_m=32, tile_n=32, stages=stages, staging="registers")
    module = parse(gemm.module())
    assert product_is_right(gemm, module, (32, 32, 160))
    mlir_async_pipe.pipeline(module, "rocdl:gfx942")
    assert "amdgpu.gather_to_lds" not in str(module)
    lowered(module, "gfx942")
    assert product_is_right(gemm, module, (32, 32, 160))
    assert small("gfx942", staging="registers", edges=True).problems()
    assert Gemm(staging="registers").problems()


@pytest.mark.parametrize(
    ("stages", "completion"), [(2, "late"), (3, "late"), (4, "late"), (3, "eager"), (3, "random")]
)
@pytest.mark.parametrize("chip", MATRIX_CHIPS)
def test_it_is_still_right_pipelined_and_lowered_to_the_chip(chip, stages, completion):
    gemm = small(chip, stages=stages)
    module = parse(gemm.module())
    mlir_async_pipe.pipeline(module, f"rocdl:{chip}")
    lowered(module, chip)
    assert product_is_right(gemm, module, (16, 16, 32 * 5), completion)


@pytest.mark.parametrize("chip", MATRIX_CHIPS)
def test_tiles_beyond_the_edges_are_zeros_and_are_not_stored(chip):
    gemm = small(chip, edges=True)
    module = parse(gemm.module())
    lowered(module, chip)
    assert product_is_right(gemm, module, (11, 13, 32 * 3 - 8))


@pytest.mark.parametrize("chip", MATRIX_CHIPS)
def test_several_waves_share_the_copies_of_a_tile(chip):
    gemm = small(chip, tile_m=64, tile_n=64, warps=(2, 2))
    module = parse(gemm.module())
    mlir_async_pipe.pipeline(module, f"rocdl:{chip}")
    lowered(module, chip)
    assert product_is_right(gemm, module, (64, 64, 64))


@pytest.mark.parametrize("chip", MATRIX_CHIPS)
def test_the_marks_of_the_kernel_carry_the_counts_of_the_groups(chip):
    module = parse(small(chip, stages=4).module())
    mlir_async_pipe.pipeline(module, f"rocdl:{chip}")
    counts = [
        int(str(op.attributes["numGroups"]).split()[0])
        for op in walk(module)
        if op.name == "nvgpu.device_async_wait" and "numGroups" in op.attributes
    ]
    lowered(module, chip)
    marks = [
        int(str(op.attributes["count"]).split()[0])
        for op in walk(module)
        if op.name == "rocdl.wait.asyncmark"
    ]
    assert marks[: len(counts)] == counts and counts[0] == 2


@functools.cache
def kernel(chip: str, stages: int, tile: int = 128, waves: int = 2) -> Lowered:
    """What was read from the assembly of a GEMM."""
    gemm = Gemm(chip=chip, stages=stages, tile_m=tile, tile_n=tile, warps=(waves, waves))
    module = parse(gemm.module())
    mlir_async_pipe.pipeline(module, f"rocdl:{chip}")
    return lower(module, target=Target.of_chip(chip), emit="isa")


@needs_flydsl
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(
    ("chip", "copies"), [("gfx90a", 16), ("gfx942", 16), ("gfx950", 4), ("gfx1250", 8)]
)
def test_the_kernel_loop_waits_for_exactly_the_copies_of_older_groups(chip, stages, copies):
    """In the loop n = copies in the S - 2 groups that stay in flight; the other loop with a wait
    is the one for short trips, which waits for everything. LLVM may have unrolled a loop, and its
    wait with it."""
    found = kernel(chip, stages)
    assert len(found.kernels) == 1
    left = (stages - 2) * copies
    # On chips that copy 4 bytes at once the kernel loop has a version for short rows, which waits alike.
    counted = found.kernels[0].loop_counts().values()
    loops = [list(counts) for counts in sorted({tuple(sorted(set(counts))) for counts in counted})]
    assert loops == ([[0], [left]] if stages > 2 else [[0]])
    counter = "asynccnt" if chip == "gfx1250" else "vmcnt"
    assert {wait.counter for wait in found.kernels[0].waits if wait.marker is not None} == {counter}


@needs_flydsl
@pytest.mark.parametrize("stages", [3, 4, 5, 6])
def test_the_epilogue_waits_count_down_to_zero(stages):
    found = kernel("gfx950", stages)
    outside = [entry.left for entry in found.waits if entry.left and not entry.left_in_loops]
    assert outside == [(4 * n,) for n in range(stages - 2, -1, -1)]


@needs_flydsl
@pytest.mark.parametrize("chip", MATRIX_CHIPS)
def test_no_wait_is_made_stricter_and_nothing_spills(chip):
    found = kernel(chip, 3)
    assert len(found.kernels) == 1
    assert {entry.verdict for entry in found.waits} == {"kept"}
    assert (
        found.kernels[0].vector_spills,
        found.kernels[0].scalar_spills,
        found.kernels[0].scratch_bytes,
    ) == (0, 0, 0)
    assert found.kernels[0].workgroup_bytes == 3 * 2 * 128 * 32 * 2


@needs_flydsl
def test_more_copies_than_vmcnt_tells_apart_are_waited_for_down_to_62():
    # One wave copies two 64x32 tiles of f16 with 4 bytes a lane: 32 copies a group, 64 in two.
    found = kernel("gfx942", 4, tile=64, waves=1)
    assert len(found.kernels) == 1
    assert (62,) in found.kernels[0].loop_counts().values()
    (entry,) = [e for e in found.waits if set(e.left_in_loops) == {62}]
    assert entry.verdict == "stricter"
    assert "64 copies may stay in flight" in entry.reason


@needs_flydsl
@pytest.mark.parametrize("chip", ["gfx950", "gfx1250"])
def test_edges_cost_no_count(chip):
    """Lanes beyond an edge copy zeros, so each copy is issued on every path."""
    module = parse(small(chip, edges=True).module())
    mlir_async_pipe.pipeline(module, f"rocdl:{chip}")
    code = lower(module, target=Target.of_chip(chip), emit="isa")
    assert {entry.verdict for entry in code.waits} <= {"kept", "none"}
    assert [wait for wait in code.waits if wait.wait.count and min(wait.left) > 0]
