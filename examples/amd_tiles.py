"""The tile operations of the GEMM on AMD matrix cores: copies to LDS, vector.load, MFMA, WMMA.

Lane l of a wave holds row l % R of A and column l % R of B, where the product is R x R, and of k
the elements that `MatrixChip` lists; the product has R columns of lanes too (AMD matrix instruction
calculator; ISA documents of CDNA 3, CDNA 4 and gfx1250). Here B takes the place of A and A that
of B, so that a lane holds neighbouring columns of one row of C and stores them as vectors. R is 32
where a wave's tile has multiples of 32 rows and columns: half as many instructions as with 16.

A matrix instruction of gfx9 adds up its k in any order, the same for A and B: a lane reads 16 bytes
at once, and multiplies as often as it takes to use them up.

Copies keep lane order in LDS, as chips with one LDS address a wave need: the swizzle turns the
source of a copy, not its destination. Chips that copy 4 bytes a lane at once (gfx90a, gfx942) have
shorter loops with `staging="registers"`: plain loads and stores of 16 bytes, which
`async_pipe.stage_through = "registers"` runs ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from amd_matrix_chips import MatrixChip
from mlir_text import Writer
from tile_copies import CHUNK_BYTES, elements_inside, group_and_wait, swizzled_chunk


class Types(Protocol):
    """Element types of operands and accumulators, and bytes of an operand's element."""

    operand: str
    accumulator: str
    bytes: int


@dataclass(frozen=True)
class AmdTiles:
    """Copies, fragments and multiplications of one wave's tile of `warp_m` x `warp_n`."""

    chip: MatrixChip
    types: Types
    tile_k: int
    threads: int
    warp_m: int
    warp_n: int
    staging: Literal["async", "registers"] = "async"

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
        return self.copy_bytes // self.types.bytes

    @property
    def copy_bytes(self) -> int:
        """Bytes that a lane copies at once: what fits into registers, or what the chip copies."""
        return CHUNK_BYTES if self.staging == "registers" else self.chip.copy_bytes

    @property
    def rows(self) -> int:
        """Rows of A, and columns of B, of one matrix instruction: as many as fit."""
        fitting = (r for r in self.chip.depths if not (self.warp_m % r or self.warp_n % r))
        return max(fitting, default=min(self.chip.depths))

    @property
    def held(self) -> int:
        """Elements of the product that a lane holds."""
        return self.rows * self.rows // self.lanes

    @property
    def part(self) -> int:
        """Elements of k that a lane reads at once: 16 bytes, or all that the tile has for it."""
        return min(self.chip.part, self.tile_k * self.rows // (self.lanes * self.chip.parts))

    @property
    def step(self) -> int:
        """Elements of k that the lanes read together."""
        return self.part * self.chip.parts * self.lanes // self.rows

    @property
    def operand(self) -> int:
        """Elements of k that a lane gives to one matrix instruction."""
        return self.chip.depths[self.rows] * self.rows // self.lanes

    @property
    def bank_groups(self) -> int:
        """Groups of 16 bytes that neighbouring rows are spread over. A read of 16 bytes a lane is
        served in phases of 8 lanes, and of 16 where there are 64 banks: these are 16 rows of one
        chunk, or 8 rows of two where the instruction has 16 rows."""
        return 16 if self.chip.bank_bytes == 256 and self.rows == 32 else 8

    @property
    def accumulator_type(self) -> str:
        """The part of one accumulator tile that a lane holds."""
        return f"vector<{self.held}x{self.types.accumulator}>"

    @property
    def accumulator_zero(self) -> str:
        """The attribute of a zero accumulator."""
        return "dense<0.0>"

    @property
    def accumulators(self) -> int:
        """Accumulator tiles of a wave."""
        return (self.warp_m // self.rows) * (self.warp_n // self.rows)

    def problems(self, rows: tuple[int, int]) -> list[str]:
        """Why these tiles (of `rows` rows) cannot be made, [] if they can."""
        if self.types.operand not in ("f16", "bf16"):
            return ["AMD kernels are made for f16 and bf16"]
        found = []
        depth = self.chip.depths[self.rows]
        if self.tile_k % depth or self.tile_k & (self.tile_k - 1):
            found.append(f"tile-k must be a power of two and a multiple of {depth}")
        elif any(row * self.tile_k // self.copied % self.threads for row in rows):
            found.append(
                f"{self.threads} threads cannot share the {self.copy_bytes}-byte copies of a "
                "tile evenly"
            )
        elif self.threads % (self.tile_k // self.copied):
            found.append("the copies of a row must divide the threads")
        if self.warp_m % self.rows or self.warp_n % self.rows:
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
        repeats = step % self.bank_groups == 0
        turned = self._source_column(w, name, place, first) if repeats else None
        for number in range(rows // step):
            row = w.add(f"{name}_row", first, w.constant(number * step))
            offset = turned or self._source_column(w, name, place, row)
            column = w.add(f"{name}_column", at[1], offset)
            source_row = w.add(f"{name}_source_row", at[0], row)
            if self.staging == "registers":
                self._through_registers(w, name, (source, source_row, column), (shared, row, slot))
                continue
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

    def _through_registers(
        self,
        w: Writer,
        name: str,
        source: tuple[tuple[str, str], str, str],
        target: tuple[tuple[str, str], str, str],
    ) -> None:
        """A load and a store, each of (memory and its type, row, column)."""
        kind = f"vector<{self.copied}x{self.types.operand}>"
        (memory, type_), row, column = source
        aligned = f"{{alignment = {self.copy_bytes} : i64}}"
        loaded = w.value(
            f"{name}_loaded", f"vector.load {memory}[{row}, {column}] {aligned} : {type_}, {kind}"
        )
        (memory, type_), row, column = target
        w.line(f"vector.store {loaded}, {memory}[{row}, {column}] {aligned} : {type_}, {kind}")

    def group_and_wait(self, w: Writer, groups: list[list[str]]) -> None:
        """Commit each list of copies as one group and wait for all of them."""
        if self.staging == "async":
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
        lane = self._lane_place(w)
        a_row = w.add("a_wave_row", warp[0], lane[0])
        b_row = w.add("b_wave_row", warp[1], lane[0])
        for k in range(0, self.tile_k, self.step):
            w.comment(f"k = {k} .. {k + self.step - 1} of the tile")
            a_parts = self._parts(w, "a", a, a_row, self.warp_m, lane, k)
            b_parts = self._parts(w, "b", b, b_row, self.warp_n, lane, k)
            results = self._multiply(w, a_parts, b_parts, results)
        return results

    def _lane_place(self, w: Writer) -> tuple[str, str]:
        """A lane's row, and which part of k it reads."""
        return w.rem("lane_row", "%lane", self.rows), w.div("lane_part", "%lane", self.rows)

    def _parts(
        self,
        w: Writer,
        name: str,
        shared: tuple[str, str],
        row: str,
        rows: int,
        lane: tuple[str, str],
        k: int,
    ) -> list[str]:
        """What a lane reads at k of `rows` rows, of each tile of them."""
        starts = range(0, rows, self.rows)
        return [self._load(w, name, shared, (row, start), lane, k) for start in starts]

    def _multiply(
        self, w: Writer, a_parts: list[str], b_parts: list[str], accumulators: list[str]
    ) -> list[str]:
        """Products over all that a lane has read."""
        results = accumulators
        for first in range(0, self.part * self.chip.parts, self.operand):
            operands = [
                [self._slice(w, "operand", one, first, self.operand) for one in parts]
                for parts in (a_parts, b_parts)
            ]
            results = self._products(w, *operands, results)
        return results

    def _products(
        self, w: Writer, a_parts: list[str], b_parts: list[str], accumulators: list[str]
    ) -> list[str]:
        rows, kind = self.rows, f"vector<{self.operand}x{self.types.operand}>"
        shape = f"{rows}x{rows}x{self.chip.depths[rows]}"
        results = []
        for number, accumulator in enumerate(accumulators):
            m, n = divmod(number, self.warp_n // rows)
            results.append(
                w.value(
                    "acc",
                    f"{self.chip.op} {shape} {b_parts[n]} * {a_parts[m]} + {accumulator}"
                    f"{' blgp = none' if self.chip.op == 'amdgpu.mfma' else ''} "
                    f": {kind}, {kind}, {self.accumulator_type}",
                )
            )
        return results

    def _slice(self, w: Writer, name: str, value: str, first: int, size: int) -> str:
        """Some elements of a vector of operands or accumulators."""
        whole, element = (
            (self.held, self.types.accumulator)
            if name == "c_values"
            else (self.part * self.chip.parts, self.types.operand)
        )
        if size == whole:
            return value
        return w.value(
            name,
            f"vector.extract_strided_slice {value} {{offsets = [{first}], sizes = [{size}], "
            f"strides = [1]}} : vector<{whole}x{element}> to vector<{size}x{element}>",
        )

    def store(
        self,
        w: Writer,
        result: tuple[str, str],
        at: tuple[str, str],
        accumulators: list[str],
        bounds: tuple[str, str] | None,
    ) -> None:
        """Write the wave's accumulators to the `result` (value, type) from row and column `at`."""
        rows, together = self.rows, self.chip.held
        row = w.add("c_row", at[0], w.rem("c_lane_row", "%lane", rows))
        part = w.mul("c_lane_column", w.div("c_lane_part", "%lane", rows), together)
        column = w.add("c_column", at[1], part)
        for number, accumulator in enumerate(accumulators):
            m, n = divmod(number, self.warp_n // rows)
            line = w.add("c_at_row", row, w.constant(m * rows))
            for first in range(0, self.held, together):
                values = self._slice(w, "c_values", accumulator, first, together)
                here = w.add("c_at_column", column, w.constant(self._column(n, first)))
                if bounds is not None:
                    self._guarded_store(w, result, (line, here), values, bounds)
                    continue
                w.line(
                    f"vector.store {values}, {result[0]}[{line}, {here}] {{alignment = 16 : i64}} "
                    f": {result[1]}, vector<{together}x{self.types.accumulator}>"
                )

    def _column(self, tile: int, element: int) -> int:
        """Where a lane's `element` of a tile stands, counted from the lane's first column."""
        return tile * self.rows + element * self.lanes // self.rows

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
                        f"{self.types.accumulator} from "
                        f"vector<{self.chip.held}x{self.types.accumulator}>",
                    )
                    w.line(f"memref.store {value}, {result[0]}[{at[0]}, {column}] : {result[1]}")

    def _source_column(self, w: Writer, name: str, place: str, row: str) -> str:
        """The column of the tile that stands at copy `place` of `row`."""
        per_chunk = self.chunk // self.copied
        chunk = w.div(f"{name}_place_chunk", place, per_chunk)
        column = w.mul(f"{name}_chunk_column", self._swizzled(w, chunk, row), self.chunk)
        if per_chunk == 1:
            return column
        inner = w.mul(f"{name}_inner", w.rem(f"{name}_inner_place", place, per_chunk), self.copied)
        return w.add(f"{name}_source_column", column, inner)

    def _swizzled(self, w: Writer, chunk: str, row: str) -> str:
        return swizzled_chunk(w, chunk, row, self.chunks_in_row, self.bank_groups)

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
            self._piece(w, name, shared, row, lane, k + number * self.step // self.chip.parts)
            for number in range(self.chip.parts)
        ]
        if len(pieces) == 1:
            return pieces[0]
        kind = f"vector<{self.part}x{self.types.operand}>"
        order = ", ".join(map(str, range(2 * self.part)))
        return w.value(
            f"{name}_part", f"vector.shuffle {', '.join(pieces)} [{order}] : {kind}, {kind}"
        )

    def _piece(
        self, w: Writer, name: str, shared: tuple[str, str], row: str, lane: tuple[str, str], k: int
    ) -> str:
        """Elements k + (lane / 16) * part .. of a row, from where the swizzle put them."""
        per_chunk = self.chunk // self.part
        chunk = w.add(
            f"{name}_chunk",
            w.div(f"{name}_lane_chunk", lane[1], per_chunk),
            w.constant(k // self.chunk),
        )
        column = w.mul(f"{name}_place", self._swizzled(w, chunk, lane[0]), self.chunk)
        if per_chunk > 1:
            inner = w.rem(f"{name}_inner", lane[1], per_chunk)
            column = w.add(f"{name}_inner_place", column, w.mul(f"{name}_half", inner, self.part))
        kind = f"vector<{self.part}x{self.types.operand}>"
        size = self.part * self.types.bytes
        return w.value(
            f"{name}_piece",
            f"vector.load {shared[0]}[{row}, {column}] {{alignment = {size} : i64}} "
            f": {shared[1]}, {kind}",
        )
