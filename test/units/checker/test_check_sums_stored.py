"""What `nvgpu.warpgroup.mma.store` writes: which sums each thread stores where, to the checker and to
the machine.

Covers: vocabulary/memory_ops.py, vocabulary/rows.py, facts/values/views.py,
checker/phases/op_effects.py, machine/dialects/warpgroup.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import WORKGROUP, run
from mlir_async_pipe.machine import fragments
from mlir_async_pipe.vocabulary.rows import Share

SUMS = "!nvgpu.warpgroup.accumulator<fragmented = vector<64x16xf32>>"
TILE = f"memref<64x16xf32, {WORKGROUP}>"
IDS = """
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %warp = arith.divui %t, %c32 : index
  %lane = arith.remui %t, %c32 : index
  %quad = arith.divui %lane, %c4 : index
  %pair = arith.remui %lane, %c4 : index
  %first = arith.muli %warp, %c16 : index
  %row = arith.addi %first, %quad : index
  %column = arith.muli %pair, %c2 : index"""
STORE = f"""
  %zero = nvgpu.warpgroup.mma.init.accumulator -> {SUMS}
  nvgpu.warpgroup.mma.store %zero, %tile : {SUMS} to {TILE}"""
OF_OTHERS = f"""
  %v = memref.load %tile[%pair, %c0] : {TILE}
  memref.store %v, %out[%t] : memref<?xf32>"""
OWN = f"""
  %v = memref.load %tile[%row, %column] : {TILE}
  memref.store %v, %out[%t] : memref<?xf32>"""


def kernel(body: str, threads: int = 128, blocks: int = 1, given: str = "") -> str:
    return f"""
gpu.module @m {{
  gpu.func @f(%out: memref<?xf32> {{llvm.noalias}}{given}) workgroup(%tile: {TILE}) kernel
      attributes {{known_block_size = array<i32: {threads}, 1, 1>,
                  known_grid_size = array<i32: {blocks}, 1, 1>}} {{{IDS}{body}
    gpu.return
  }}
}}"""


def alone(body: str) -> str:
    """The same for the machine."""
    return f"func.func @f(%out: memref<?xf32>) {{\n%tile = memref.alloc() : {TILE}{IDS}{body}\nreturn\n}}"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (STORE + OF_OTHERS, {"missing-barrier"}),
        (STORE + "\n  gpu.barrier" + OF_OTHERS, set()),
        (STORE + OWN, set()),
        (OF_OTHERS + STORE, {"missing-barrier"}),
    ],
    ids=["read of others", "barrier between", "own sums", "read before"],
)
def test_threads_that_read_sums_of_others_meet_before(body, wrong):
    found = check_text(kernel(body))
    assert {code for code, _ in found.unsafe} == wrong and not found.unknown
    ran = run(alone(body), np.zeros(128, np.float32), threads=128)
    assert ran.race_codes - {"uninitialised-read"} == wrong


@pytest.mark.parametrize(("columns", "wrong"), [(1, True), (64, False)])
def test_blocks_store_to_places_of_their_own(columns, wrong):
    """64 rows a block, from row `columns` times the block on."""
    rows = "memref<64x16xf32, strided<[16, 1], offset: ?>>"
    body = f"""
  %b = gpu.block_id x
  %of = arith.constant {columns if columns > 1 else 0} : index
  %from = arith.muli %b, %of : index
  %mine = memref.subview %g[%from, 0][64, 16][1, 1] : memref<?x16xf32> to {rows}
  %zero = nvgpu.warpgroup.mma.init.accumulator -> {SUMS}
  nvgpu.warpgroup.mma.store %zero, %mine : {SUMS} to {rows}"""
    found = check_text(kernel(body, blocks=2, given=", %g: memref<?x16xf32> {llvm.noalias}"))
    assert ({code for code, _ in found.unsafe} == {"cross-block"}) == wrong and not found.unknown


DESCRIBED = "!nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>"
MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, "
    "l2promo = none, oob = zero, interleave = none>"
)
WIDE = "!nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>"
PLACE = f"memref<64x64xf32, {WORKGROUP}>"


def product(between: str = "", left: int = 0, at: int = 0) -> str:
    """A product of a tile with itself, and its sums stored from byte `at` on; the tile has 8192."""
    tile = f"memref<64x64xf16, {WORKGROUP}>"
    return f"""
gpu.module @m {{
  gpu.func @f(%map_: !llvm.ptr) kernel attributes {{known_block_size = array<i32: 128, 1, 1>,
      known_grid_size = array<i32: 1, 1, 1>}} {{
    %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to {MAP}
    %c0 = arith.constant 0 : index
    %at = arith.constant {at} : index
    %all = gpu.dynamic_shared_memory : memref<?xi8, {WORKGROUP}>
    %tile = memref.view %all[%c0][] : memref<?xi8, {WORKGROUP}> to {tile}
    %out = memref.view %all[%at][] : memref<?xi8, {WORKGROUP}> to {PLACE}
    %zero = nvgpu.warpgroup.mma.init.accumulator -> {WIDE}
    %d = nvgpu.warpgroup.generate.descriptor %tile, %map : {tile}, {MAP} -> {DESCRIBED}
    %sum = nvgpu.warpgroup.mma %d, %d, %zero {{transposeB, waitGroup = {left} : i64}}
      : {DESCRIBED}, {DESCRIBED}, {WIDE} -> {WIDE}
    {between}
    nvgpu.warpgroup.mma.store %sum, %out : {WIDE} to {PLACE}
    gpu.return
  }}
}}"""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (product(), {"missing-barrier"}),
        (product(between="gpu.barrier"), set()),
        (product(at=8192), set()),
        (product(left=1, at=8192), {"read-in-flight"}),
        (product("nvvm.wgmma.wait.group.sync.aligned 0", left=1, at=8192), set()),
    ],
    ids=["over the tile", "after a barrier", "beside it", "not waited for", "waited for later"],
)
def test_sums_are_stored_when_nobody_reads_the_tile_and_they_are_there(text, wrong):
    found = check_text(text, "nvvm:sm_90a")
    assert {code for code, _ in found.unsafe} == wrong and not found.unknown


def test_the_second_warpgroup_has_rows_after_those_of_the_first():
    """Which no memref has that the op accepts: its rows are those of one warpgroup."""
    ran = run(alone(STORE), np.zeros(1, np.float32), threads=256)
    assert ran.race_codes == {"out-of-bounds"}


def test_the_shares_of_all_threads_are_the_fragments_of_the_product():
    """Of 128 x 24 sums each thread has what the PTX ISA's layout of registers says."""
    layout = fragments.warpgroup(128, 24)
    rows = Share(((16, 32, 1 << 16), (1, 4, 8)), ((8, 2), (64, 2)), 1)
    columns = Share(((2, 1, 4),), ((8, 3),), 2)
    for x in range(128):
        mine = {
            (rows.first(x) + r, columns.first(x) + c)
            for r in rows.offsets()
            for c in columns.offsets()
        }
        assert mine == set(zip(layout.rows[x].tolist(), layout.columns[x].tolist(), strict=True))
