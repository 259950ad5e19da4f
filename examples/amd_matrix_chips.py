"""The matrix instructions of AMD's chips for 16-bit types (ISA documents of CDNA 3, CDNA 4, gfx1250)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MatrixChip:
    """The matrix instructions for 16-bit types of a chip.

    `depths` are the k of one instruction by its rows (and columns), `copy_bytes` what a lane copies
    to LDS at once, `bank_bytes` what all banks of LDS give at once. A lane reads `parts` pieces of
    k, each `part` elements, piece p of lane l at k = p * part * lanes / rows + (l / rows) * part; it
    holds groups of `held` neighbouring columns of the product. `turns`: LDS gives 16 lanes `held` rows
    transposed.
    """

    op: str
    lanes: int
    copy_bytes: int
    depths: dict[int, int]
    part: int
    parts: int
    held: int
    bank_bytes: int = 128
    turns: bool = False


MATRIX_CHIPS = {
    "gfx90a": MatrixChip("amdgpu.mfma", 64, 4, {16: 16, 32: 8}, 8, 1, 4),
    "gfx942": MatrixChip("amdgpu.mfma", 64, 4, {16: 16, 32: 8}, 8, 1, 4),
    "gfx950": MatrixChip(
        "amdgpu.mfma", 64, 16, {16: 32, 32: 16}, 8, 1, 4, bank_bytes=256, turns=True
    ),
    # Elements 0-7 and 16-23 of k in lanes 0-15, 8-15 and 24-31 in lanes 16-31.
    "gfx1250": MatrixChip("amdgpu.wmma", 32, 16, {16: 32}, 8, 2, 8),
}
