"""The tile operations of the GEMM on AMD matrix cores: copies to LDS, vector.load, MFMA, WMMA.

Lane l of a wave holds row l % 16 of A and column l % 16 of B, and of k the elements that
`MatrixChip.chunks` lists; the product has 16 columns of lanes too (AMD matrix instruction
calculator; ISA documents of CDNA 3, CDNA 4 and gfx1250). Here B takes the place of A and A that
of B, so that a lane holds neighbouring columns of one row of C and stores them as a vector.

Copies keep lane order in LDS, as chips with one LDS address a wave need: the swizzle turns the
source of a copy, not its destination.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mlir_text import Writer
from tile_copies import CHUNK_BYTES, elements_inside, group_and_wait, swizzled_chunk

ROWS = 16
"""Rows of A, and columns of B, of one matrix instruction."""


class Types(Protocol):
    """Element types of operands and accumulators, and bytes of an operand's element."""

    operand: str
    accumulator: str
    bytes: int


@dataclass(frozen=True)
class MatrixChip:
    """The matrix instruction for 16-bit types of a chip.

    `k` is its depth in elements, `copy_bytes` what a lane copies to LDS at once. `parts` are
    the pieces of k that a lane holds, each `part` elements: piece p of lane l begins at
    k = p * stride + (l / 16) * part.
    """

    op: str
    lanes: int
    copy_bytes: int
    k: int
    part: int
    parts: int

    @property
    def stride(self) -> int:
        """Elements of k between two pieces of a lane."""
        return self.part * self.lanes // ROWS

    @property
    def held(self) -> int:
        """Elements of the 16x16 product that a lane holds."""
        return ROWS * ROWS // self.lanes


MATRIX_CHIPS = {
    "gfx90a": MatrixChip("amdgpu.mfma", 64, 4, 16, 4, 1),
    "gfx942": MatrixChip("amdgpu.mfma", 64, 4, 16, 4, 1),
    "gfx950": MatrixChip("amdgpu.mfma", 64, 16, 32, 8, 1),
    # Elements 0-7 and 16-23 of k in lanes 0-15, 8-15 and 24-31 in lanes 16-31.
    "gfx1250": MatrixChip("amdgpu.wmma", 32, 16, 32, 8, 2),
}


@dataclass(frozen=True)
class AmdTiles:
    """Copies, fragments and multiplications of one wave's tile of `warp_m` x `warp_n`."""

    chip: MatrixChip
    types: Types
    tile_k: int
    threads: int
    warp_m: int
    warp_n: int

    @property
    def lanes(self) -> int:
        """Threads of a wave."""
        return self.chip.lanes

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes."""
        return CHUNK_BYTES // self.types.bytes

    @property
    def chunks_in_row(self) -> int:
        """16-byte chunks of one row of a tile."""
        return self.tile_k // self.chunk

    @property
    def copied(self) -> int:
        """Elements that a lane copies at once."""
        return self.chip.copy_bytes // self.types.bytes

    @property
    def accumulator_type(self) -> str:
        """The part of one 16x16 accumulator tile that a lane holds."""
        return f"vector<{self.chip.held}x{self.types.accumulator}>"

    @property
    def accumulator_zero(self) -> str:
        """The attribute of a zero accumulator."""
        return "dense<0.0>"

    @property
    def accumulators(self) -> int:
        """Accumulator tiles of a wave."""
        return (self.warp_m // ROWS) * (self.warp_n // ROWS)

    def problems(self, rows: tuple[int, int]) -> list[str]:
        """Why these tiles (of `rows` rows) cannot be made, [] if they can."""
        if self.types.operand not in ("f16", "bf16"):
            return ["AMD kernels are made for f16 and bf16"]
        found = []
        if self.tile_k % self.chip.k or self.tile_k & (self.tile_k - 1):
            found.append(f"tile-k must be a power of two and a multiple of {self.chip.k}")
        elif any(row * self.tile_k // self.copied % self.threads for row in rows):
            found.append(
                f"{self.threads} threads cannot share the {self.chip.copy_bytes}-byte copies of a "
                "tile evenly"
            )
        elif self.threads % (self.tile_k // self.copied):
            found.append("the copies of a row must divide the threads")
        if self.warp_m % ROWS or self.warp_n % ROWS:
            found.append("tile-m and tile-n must give each wave multiples of 16 rows and columns")
        return found

    def copy_tile(
        self,
        w: Writer,
        shared: tuple[str, str],
        source: tuple[str, str],
        rows: int,
        at: tuple[str, str],
        bounds: tuple[str, str] | None,
    ) -> list[str]:
        """Issue this thread's copies of a tile of `rows` rows; returns the copies' tokens.

        `shared` and `source` are (value, type), `at` is the tile's first (row, column) in the
        source. With `bounds` (rows, columns of the source) what lies outside becomes zero.
        """
        tokens = []
        in_row = self.tile_k // self.copied
        step = self.threads // in_row
        name = shared[0].lstrip("%").split("_")[0]
        first = w.div(f"{name}_copy_row", "%tid", in_row)
        place = w.rem(f"{name}_copy_place", "%tid", in_row)
        slot = w.mul(f"{name}_slot", place, self.copied)
        # The turn of a row repeats every 8 rows.
        turned = self._source_column(w, name, place, first) if step % 8 == 0 else None
        for number in range(rows // step):
            row = w.add(f"{name}_row", first, w.constant(number * step))
            offset = turned or self._source_column(w, name, place, row)
            column = w.add(f"{name}_column", at[1], offset)
            source_row = w.add(f"{name}_source_row", at[0], row)
            elements = elements_inside(w, (source_row, column), bounds, self.copied)
            tokens.append(
                w.value(
                    f"{name}_copy",
                    f"nvgpu.device_async_copy {source[0]}[{source_row}, {column}], "
                    f"{shared[0]}[{row}, {slot}], {self.copied}{elements} "
                    f": {source[1]} to {shared[1]}",
                )
            )
        return tokens

    def group_and_wait(self, w: Writer, groups: list[list[str]]) -> None:
        """Commit each list of copies as one group and wait for all of them."""
        group_and_wait(w, groups)

    def multiply(
        self,
        w: Writer,
        a: tuple[str, str],
        b: tuple[str, str],
        warp: tuple[str, str],
        accumulators: list[str],
    ) -> list[str]:
        """Multiply the tiles in LDS; `warp` is the wave's first row of A and of B."""
        results = list(accumulators)
        row = w.rem("lane_row", "%lane", ROWS)
        part = w.div("lane_part", "%lane", ROWS)
        a_row = w.add("a_wave_row", warp[0], row)
        b_row = w.add("b_wave_row", warp[1], row)
        columns = self.warp_n // ROWS
        kind, shape = self._fragment(), f"{ROWS}x{ROWS}x{self.chip.k}"
        for k in range(0, self.tile_k, self.chip.k):
            w.comment(f"k = {k} .. {k + self.chip.k - 1} of the tile")
            a_parts = [
                self._load(w, "a", a, (a_row, m), (row, part), k)
                for m in range(0, self.warp_m, ROWS)
            ]
            b_parts = [
                self._load(w, "b", b, (b_row, n), (row, part), k)
                for n in range(0, self.warp_n, ROWS)
            ]
            for number in range(self.accumulators):
                m, n = divmod(number, columns)
                results[number] = w.value(
                    "acc",
                    f"{self.chip.op} {shape} {b_parts[n]} * {a_parts[m]} + {results[number]}"
                    f"{' blgp = none' if self.chip.op == 'amdgpu.mfma' else ''} "
                    f": {kind}, {kind}, {self.accumulator_type}",
                )
        return results

    def store(
        self,
        w: Writer,
        result: tuple[str, str],
        at: tuple[str, str],
        accumulators: list[str],
        bounds: tuple[str, str] | None,
    ) -> None:
        """Write the wave's accumulators to the `result` (value, type) from row and column `at`."""
        row = w.add("c_row", at[0], w.rem("c_lane_row", "%lane", ROWS))
        held = w.mul("c_lane_column", w.div("c_lane_part", "%lane", ROWS), self.chip.held)
        column = w.add("c_column", at[1], held)
        for number, accumulator in enumerate(accumulators):
            m, n = divmod(number, self.warp_n // ROWS)
            line = w.add("c_at_row", row, w.constant(m * ROWS))
            here = w.add("c_at_column", column, w.constant(n * ROWS))
            if bounds is None:
                w.line(
                    f"vector.store {accumulator}, {result[0]}[{line}, {here}] "
                    f"{{alignment = 16 : i64}} : {result[1]}, {self.accumulator_type}"
                )
            else:
                self._guarded_store(w, result, (line, here), accumulator, bounds)

    def _guarded_store(
        self,
        w: Writer,
        result: tuple[str, str],
        at: tuple[str, str],
        values: str,
        bounds: tuple[str, str],
    ) -> None:
        inside = w.value("in_row", f"arith.cmpi ult, {at[0]}, {bounds[0]} : index")
        with w.block(f"scf.if {inside}"):
            for element in range(self.chip.held):
                column = w.add("c_element", at[1], w.constant(element))
                inside = w.value("in_column", f"arith.cmpi ult, {column}, {bounds[1]} : index")
                with w.block(f"scf.if {inside}"):
                    value = w.value(
                        "c_value",
                        f"vector.extract {values}[{element}] : "
                        f"{self.types.accumulator} from {self.accumulator_type}",
                    )
                    w.line(f"memref.store {value}, {result[0]}[{at[0]}, {column}] : {result[1]}")

    def _source_column(self, w: Writer, name: str, place: str, row: str) -> str:
        """The column of the tile that stands at copy `place` of `row`."""
        per_chunk = self.chunk // self.copied
        chunk = w.div(f"{name}_place_chunk", place, per_chunk)
        column = w.mul(
            f"{name}_chunk_column", swizzled_chunk(w, chunk, row, self.chunks_in_row), self.chunk
        )
        if per_chunk == 1:
            return column
        inner = w.mul(f"{name}_inner", w.rem(f"{name}_inner_place", place, per_chunk), self.copied)
        return w.add(f"{name}_source_column", column, inner)

    def _load(
        self,
        w: Writer,
        name: str,
        shared: tuple[str, str],
        at: tuple[str, int],
        lane: tuple[str, str],
        k: int,
    ) -> str:
        """One operand of the matrix instruction at k: all pieces that the lane holds."""
        row = w.add(f"{name}_at_row", at[0], w.constant(at[1]))
        pieces = [
            self._piece(w, name, shared, row, lane, k + number * self.chip.stride)
            for number in range(self.chip.parts)
        ]
        if len(pieces) == 1:
            return pieces[0]
        kind = f"vector<{self.chip.part}x{self.types.operand}>"
        order = ", ".join(map(str, range(2 * self.chip.part)))
        return w.value(
            f"{name}_part", f"vector.shuffle {', '.join(pieces)} [{order}] : {kind}, {kind}"
        )

    def _piece(
        self,
        w: Writer,
        name: str,
        shared: tuple[str, str],
        row: str,
        lane: tuple[str, str],
        k: int,
    ) -> str:
        """Elements k + (lane / 16) * part .. of a row, from where the swizzle put them."""
        per_chunk = self.chunk // self.chip.part
        chunk = w.add(
            f"{name}_chunk",
            w.div(f"{name}_lane_chunk", lane[1], per_chunk),
            w.constant(k // self.chunk),
        )
        column = w.mul(
            f"{name}_place", swizzled_chunk(w, chunk, lane[0], self.chunks_in_row), self.chunk
        )
        if per_chunk > 1:
            inner = w.rem(f"{name}_inner", lane[1], per_chunk)
            column = w.add(
                f"{name}_inner_place", column, w.mul(f"{name}_half", inner, self.chip.part)
            )
        kind = f"vector<{self.chip.part}x{self.types.operand}>"
        size = self.chip.part * self.types.bytes
        return w.value(
            f"{name}_piece",
            f"vector.load {shared[0]}[{row}, {column}] {{alignment = {size} : i64}} "
            f": {shared[1]}, {kind}",
        )

    def _fragment(self) -> str:
        return f"vector<{self.chip.part * self.chip.parts}x{self.types.operand}>"
