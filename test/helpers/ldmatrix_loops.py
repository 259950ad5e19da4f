"""What loops of tensor copies do with tiles by ldmatrix and mma.sync: each of two warps multiplies 16
rows of A, of 32 by k, by the 8 columns of B, of 8 by k, 16 k at a time.

Tiles may be swizzled: the chunk of 16 bytes that a lane names lies where its number and that of its
line of 128 bytes say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from helpers.tensor_loops import TensorLoop

ROWS, COLUMNS, STEP = 32, 8, 16
SUMS = "vector<2x2xf32>"
START = f"arith.constant dense<0.0> : {SUMS}"
# Rows and chunks that lanes name: 16 rows of two chunks each, or 8.
_A = ("%lane16", "%half")
_B = ("%lane8", "%quarter")


def lanes_text() -> list[str]:
    """Which row and chunk each lane names."""
    return [
        "%lane = arith.remui %t, %i32 : index",
        "%warp = arith.divui %t, %i32 : index",
        "%lane16 = arith.remui %lane, %i16 : index",
        "%half = arith.divui %lane, %i16 : index",
        "%lane8 = arith.remui %lane, %i8 : index",
        "%eights = arith.divui %lane, %i8 : index",
        "%quarter = arith.remui %eights, %i2 : index",
        "%above = arith.muli %warp, %i16 : index",
    ]


def constants(loop: TensorLoop) -> set[int]:
    """The numbers that the texts here name."""
    found = {2, 8, 16, 32}
    for box in loop.boxes:
        found |= {
            *range(0, box.columns // 8, 2),
            box.columns * 2,
            _chunks(box.columns, box.swizzle),
        }
    return found


def _chunks(columns: int, swizzle: str) -> int:
    return 1 if swizzle == "none" else columns * 2 // 16


def products_text(loop: TensorLoop, kinds: list[str]) -> list[str]:
    """The products of a tile: %made from %sum."""
    lines, sums = lanes_text(), "%sum"
    lines.append("%row0 = arith.addi %above, %lane16 : index")
    for step in range(loop.boxes[0].columns // STEP):
        for n, (rows, (_, chunk), tiles) in enumerate((("%row0", _A, 4), ("%lane8", _B, 2))):
            box, s = loop.boxes[n], f"{n}_{step}"
            lines += [
                f"%chunk{s} = arith.addi {chunk}, %i{2 * step} : index",
                f"%byte{s} = arith.muli {rows}, %i{box.columns * 2} : index",
                f"%line{s} = arith.divui %byte{s}, %i128 : index",
                f"%by{s} = arith.remui %line{s}, %i{_chunks(box.columns, box.swizzle)} : index",
                f"%where{s} = arith.xori %chunk{s}, %by{s} : index",
                f"%column{s} = arith.muli %where{s}, %i8 : index",
                f"%f{s} = nvgpu.ldmatrix %b{n}[{rows}, %column{s}] {{numTiles = {tiles} : i32, "
                f"transpose = false}} : {kinds[n]} -> vector<{tiles}x2xf16>",
            ]
        made = "%made" if step == loop.boxes[0].columns // STEP - 1 else f"%sum{step + 1}"
        lines.append(
            f"{made} = nvgpu.mma.sync(%f0_{step}, %f1_{step}, {sums}) {{mmaShape = [16, 8, 16]}} : "
            f"(vector<4x2xf16>, vector<2x2xf16>, {SUMS}) -> {SUMS}"
        )
        sums = made
    return lines


def store_text() -> list[str]:
    """What stores the sums, %r#2, of execution %e."""
    lines = [line.replace("%", "%s_", 1) for line in lanes_text()]
    lines = [
        line.replace("%lane,", "%s_lane,")
        .replace("%warp,", "%s_warp,")
        .replace("%eights,", "%s_eights,")
        for line in lines
    ]
    lines += [
        "%first_row = arith.muli %e, %i32 : index",
        "%own_rows = arith.addi %first_row, %s_above : index",
        "%quad = arith.divui %s_lane, %i4 : index",
        "%in_quad = arith.remui %s_lane, %i4 : index",
        "%pair = arith.muli %in_quad, %i2 : index",
        "%upper_row = arith.addi %own_rows, %quad : index",
        "%lower_row = arith.addi %upper_row, %i8 : index",
    ]
    for number, row in enumerate(("%upper_row", "%lower_row")):
        lines += [
            f"%part{number} = vector.extract %r#2[{number}] : vector<2xf32> from {SUMS}",
            f"vector.store %part{number}, %out[{row}, %pair] : memref<?x8xf32>, vector<2xf32>",
        ]
    return lines


def expected_of(loop: TensorLoop, a: Any, b: Any) -> Any:
    """The output, by NumPy."""
    out = np.zeros(loop.output, np.float32)
    step = loop.trips * loop.boxes[0].columns
    left, right = a.astype(np.float32), b.astype(np.float32)
    for e in loop.runs:
        k = slice(e * step, (e + 1) * step)
        out[e * ROWS : (e + 1) * ROWS] = left[:, k] @ right[:, k].T
    return out
