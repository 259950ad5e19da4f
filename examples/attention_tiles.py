"""The fragments of flash attention: Q stays in registers, K is read as it stands, V transposed.

Rows of Q, K and V are features. S = Q K^T sums over features, so K is read as B of the GEMM is. O = P V sums over keys,
the rows of V: there the loads transpose. P needs no memory at all, on either vendor's chips:

- `mma.sync`: an accumulator tile of S holds rows l / 4 and l / 4 + 8 and columns 2 (l % 4) and the next, which is half
  of a 16x16 fragment of the first operand. `ldmatrix` transposes each 8x8 matrix of V.
- AMD: the tiles of the GEMM hold one row a lane (see `amd_tiles.py`), so a lane has of one query every key that its
  registers number, as the operand P needs it: its k may be in any order if that of V is the same. With mfma 32x32
  lanes 0 to 31 hold the keys 0 to 3, 8 to 11, … of each 32, and read the same rows of V.
"""

from __future__ import annotations

from amd_tiles import AmdTiles
from mlir_text import Writer
from nvidia_tiles import MMA_N, NvidiaTiles
from online_softmax import NVIDIA_SOFTMAX, PAIRS, Place, Softmax

Placed = tuple[str, str]
"""A value and its type."""

MMA_K = 16
# Lanes that load and transpose together (AMD, CDNA4 ISA, "DS_READ_B64_TR_B16").
TURNING = 16


class NvidiaAttentionTiles(NvidiaTiles):
    """Fragments of one warp: 16 rows of Q or P, and `warp_n` keys (of K) or features (of V)."""

    softmax = NVIDIA_SOFTMAX

    @property
    def operand_types(self) -> list[str]:
        """Those of the fragments of P, one for each 16 keys."""
        return [self._fragment(4)] * (self.warp_n // MMA_K)

    def first_operand(self, w: Writer, q: Placed, row: str) -> list[str]:
        """The fragments of 16 rows of Q from `row`, one for each 16 features."""
        lane = self._lane_places(w, (row, "%c0"))
        found = []
        for k in range(self.tile_k // MMA_K):
            found += self._load_a(w, q, lane, self._slot(w, "a", lane.a, w.constant(2 * k)))
        return found

    def scores(self, w: Writer, q_parts: list[str], k: Placed, zero: str) -> list[str]:
        """Q K^T, not yet scaled."""
        lane = self._lane_places(w, ("%c0", "%c0"))
        results = [zero] * self.accumulators
        for number, q_part in enumerate(q_parts):
            slot = self._slot(w, "b", lane.b, w.constant(2 * number))
            results = self._multiply(w, [q_part], self._load_b(w, k, lane, slot), results)
        return results

    def elements(self, w: Writer, scores: list[str]) -> dict[Place, str]:
        """The elements of accumulator tiles, one by one."""
        kind = self.accumulator_type
        return {
            (number, half, element): w.value(
                "element", f"vector.extract {tile}[{half}, {element}] : f32 from {kind}"
            )
            for number, tile in enumerate(scores)
            for half, element in PAIRS
        }

    def lane_rows(self, w: Writer, first: str) -> list[str]:
        """The rows of which a lane holds elements, in a tile with this first row."""
        row = w.add("row", first, w.div("lane_row", "%lane", 4))
        return [row, w.add("row", row, w.constant(8))]

    def lane_column(self, w: Writer) -> str:
        """The column of a lane's first element."""
        return w.mul("key", w.rem("lane_pair", "%lane", 4), 2)

    def column(self, place: Place) -> int:
        """How many columns after the lane's first one an element stands."""
        return place[0] * MMA_N + place[2]

    def operands(self, w: Writer, weights: dict[Place, str]) -> list[str]:
        """P as 16x16 fragments: two accumulator tiles each, side by side."""
        found = []
        for number in range(0, self.warp_n // MMA_N, 2):
            halves = [
                w.value("p", f"arith.truncf {weights[tile, half, element]} : f32 to f16")
                for tile in (number, number + 1)
                for half, element in PAIRS
            ]
            listed = ", ".join(halves)
            found.append(
                w.value("p_part", f"vector.from_elements {listed} : {self._fragment(4)}")
            )
        return found

    def of_rows(self, w: Writer, values: list[str]) -> str:
        """What belongs to the rows of a lane, for each element of an accumulator tile."""
        listed = ", ".join(values[half] for half, _ in PAIRS)
        return w.value("factor", f"vector.from_elements {listed} : {self.accumulator_type}")

    def add_values(
        self, w: Writer, p_parts: list[str], v: Placed, accumulators: list[str]
    ) -> list[str]:
        """P V added to the accumulators; a fragment of P covers 16 keys."""
        lane, results = self._lane_places(w, ("%c0", "%c0")), list(accumulators)
        for number, p_part in enumerate(p_parts):
            row = w.add("v_row", lane.a[0], w.constant(number * MMA_K))
            v_parts: list[str] = []
            for chunk in range(0, self.warp_n // MMA_N, 2):
                slot = self._slot(w, "v", lane.a, w.constant(chunk))
                pair = w.value(
                    "v_part",
                    f"nvgpu.ldmatrix {v[0]}[{row}, {slot}] {{numTiles = 4 : i32, "
                    f"transpose = true}} : {v[1]} -> {self._fragment(4)}",
                )
                v_parts += [self._half(w, pair, half) for half in (0, 1)]
            results = self._multiply(w, [p_part], v_parts, results)
        return results


class AmdAttentionTiles(AmdTiles):
    """Fragments of one wave: as many rows of Q or P as an instruction has, and `warp_n` keys (of K) or features (of V).

    Where LDS transposes, tile t of T tiles of features takes each T-th chunk of 8 features from chunk t on, so that the
    32 lanes that are served together meet all banks: they read four chunks of four rows, and neighbouring rows have
    their chunks swizzled among neighbours.
    """

    @property
    def softmax(self) -> Softmax:
        """The lanes of a row stand an instruction's rows apart."""
        apart = (by for by in (16, 32) if self.rows <= by < self.lanes)
        return Softmax(1, tuple(apart), self.lanes, "rocdl.exp2 {} f32 -> f32")

    @property
    def operand_types(self) -> list[str]:
        """Those of the operands of P, one for the keys of each instruction."""
        return [self._operand_type] * (self.warp_n * self.rows // (self.lanes * self.operand))

    @property
    def _operand_type(self) -> str:
        return f"vector<{self.operand}x{self.types.operand}>"

    @property
    def _tiles(self) -> int:
        return self.warp_n // self.rows

    def first_operand(self, w: Writer, q: Placed, row: str) -> list[str]:
        """A wave's rows of Q from `row`, for each step that its lanes read together."""
        lane = self._lane_place(w)
        row = w.add("q_wave_row", row, lane[0])
        return [
            part
            for k in range(0, self.tile_k, self.step)
            for part in self._parts(w, "q", q, row, self.warp_m, lane, k)
        ]

    def scores(self, w: Writer, q_parts: list[str], k: Placed, zero: str) -> list[str]:
        """Q K^T, not yet scaled."""
        lane, results = self._lane_place(w), [zero] * self.accumulators
        for number, q_part in enumerate(q_parts):
            k_parts = self._parts(w, "k", k, lane[0], self.warp_n, lane, number * self.step)
            results = self._multiply(w, [q_part], k_parts, results)
        return results

    def elements(self, w: Writer, scores: list[str]) -> dict[Place, str]:
        """The elements of accumulator tiles, one by one."""
        kind = self.accumulator_type
        return {
            (number, 0, element): w.value(
                "element", f"vector.extract {tile}[{element}] : f32 from {kind}"
            )
            for number, tile in enumerate(scores)
            for element in range(self.held)
        }

    def lane_rows(self, w: Writer, first: str) -> list[str]:
        """The row of which a lane holds elements, in a tile with this first row."""
        return [w.add("row", first, w.rem("lane_row", "%lane", self.rows))]

    def lane_column(self, w: Writer) -> str:
        """The column of a lane's first element."""
        return w.mul("key", w.div("lane_part", "%lane", self.rows), self.chip.held)

    def column(self, place: Place) -> int:
        """How many columns after the lane's first one an element stands."""
        tile, _, element = place
        group, inner = divmod(element, self.chip.held)
        return tile * self.rows + group * self.chip.held * self.lanes // self.rows + inner

    def operands(self, w: Writer, weights: dict[Place, str]) -> list[str]:
        """P as operands: what a lane holds, in the order of its registers."""
        listed, wide = list(weights.values()), self._operand_type.replace(self.types.operand, "f32")
        found = []
        for first in range(0, len(listed), self.operand):
            values = ", ".join(listed[first : first + self.operand])
            p = w.value("p", f"vector.from_elements {values} : {wide}")
            found.append(
                w.value("p_part", f"arith.truncf {p} : {wide} to {self._operand_type}")
            )
        return found

    def of_rows(self, w: Writer, values: list[str]) -> str:
        """What belongs to the row of a lane, for each element of an accumulator tile."""
        return w.value("factor", f"vector.broadcast {values[0]} : f32 to {self.accumulator_type}")

    def add_values(
        self, w: Writer, p_parts: list[str], v: Placed, accumulators: list[str]
    ) -> list[str]:
        """P V added to the accumulators."""
        results = list(accumulators)
        for number, p_part in enumerate(p_parts):
            keys = [
                self.column((element // self.held, 0, element % self.held))
                for element in range(number * self.operand, (number + 1) * self.operand)
            ]
            read = self._turned if self.chip.turns else self._gathered
            v_parts = [read(w, v, keys, tile) for tile in range(self._tiles)]
            results = self._products(w, [p_part], v_parts, results)
        return results

    def _turned(self, w: Writer, v: Placed, keys: list[int], tile: int) -> str:
        """Keys of V, of the features that the lanes of a tile have one by one. A lane loads neighbouring features of one
        key, and gets as many keys of one feature; 16 lanes do so together, as many keys as each loads."""
        held = self.chip.held
        in_row = TURNING // held
        feature = w.mul("v_inner", w.rem("v_lane", "%lane", in_row), held)
        block = w.div("v_block", w.rem("lane_row", "%lane", self.rows), TURNING)
        feature = w.add("v_feature", w.mul("v_block_first", block, TURNING), feature)
        key = w.add("v_key", self.lane_column(w), w.div("v_lane_key", w.rem("v_lane", "%lane", TURNING), in_row))
        chunk = w.mul("v_chunk", w.div("v_lane_chunk", feature, self.chunk), self._tiles)
        chunk = w.add("v_chunk", chunk, w.constant(tile))
        inner = w.rem("v_inner", feature, self.chunk)
        kind, pieces = f"vector<{held}x{self.types.operand}>", []
        for first in keys[::held]:
            row = w.add("v_row", key, w.constant(first))
            place = self._place(w, chunk, row, inner)
            pieces.append(
                w.value(
                    "v_piece",
                    f"amdgpu.transpose_load {v[0]}[{row}, {place}] : {v[1]} -> {kind}",
                )
            )
        order = ", ".join(map(str, range(2 * held)))
        return w.value("v_part", f"vector.shuffle {', '.join(pieces)} [{order}] : {kind}, {kind}")

    def _gathered(self, w: Writer, v: Placed, keys: list[int], tile: int) -> str:
        """The same, element by element."""
        feature = w.add("v_feature", w.rem("lane_row", "%lane", self.rows), w.constant(tile * self.rows))
        chunk, inner = w.div("v_chunk", feature, self.chunk), w.rem("v_inner", feature, self.chunk)
        key, read = self.lane_column(w), []
        for number in keys:
            row = w.add("v_row", key, w.constant(number))
            place = self._place(w, chunk, row, inner)
            read.append(w.value("v_element", f"memref.load {v[0]}[{row}, {place}] : {v[1]}"))
        return w.value("v_part", f"vector.from_elements {', '.join(read)} : {self._operand_type}")

    def _place(self, w: Writer, chunk: str, row: str, inner: str) -> str:
        """The column at which an element of a chunk stands."""
        return w.add("v_at", w.mul("v_place", self._swizzled(w, chunk, row), self.chunk), inner)

    def _column(self, tile: int, element: int) -> int:
        if not self.chip.turns:
            return super()._column(tile, element)
        return super()._column(0, element) * self._tiles + tile * self.chunk
