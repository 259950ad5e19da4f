"""The fragments of flash attention: Q stays in registers, K is read as it stands, V transposed.

Rows of Q, K and V are features. S = Q K^T sums over features, so K is read as B of the GEMM is. O = P V sums over keys,
the rows of V: there the loads transpose. P needs no memory at all, on either vendor's chips:

- `mma.sync`: an accumulator tile of S holds rows l / 4 and l / 4 + 8 and columns 2 (l % 4) and the next, which is half
  of a 16x16 fragment of the first operand. `ldmatrix` transposes each 8x8 matrix of V.
- AMD: as in the GEMM a lane holds one row of the product (see `amd_tiles.py`), so its registers are keys of one query,
  and an operand as they stand: the product may add up its k in any order if V has the same. With mfma 32x32 lanes 0
  to 31 hold the keys 0 to 3, 8 to 11, … of each 32, the others the rest; of V each gets the rows of its keys.
"""

from __future__ import annotations

from typing import NamedTuple

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
            found.append(w.value("p_part", f"vector.from_elements {listed} : {self._fragment(4)}"))
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


class ValuePlace(NamedTuple):
    """Where a lane reads V: a chunk of 8 features, an element in it, and its first key."""

    chunk: str
    inner: str
    key: str


class AmdAttentionTiles(AmdTiles):
    """Fragments of one wave: as many rows of Q or P as an instruction has, and `warp_n` keys (of K) or features (of V).

    Where LDS transposes, tile t of T tiles of features takes each T-th chunk of 8 features from chunk t on. The 32 lanes
    that are served together read four chunks of four rows each, and neighbouring rows have their chunks swizzled among
    neighbours: of four neighbours they would meet a quarter of the banks with 128 features, half of them with 64.
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
            found.append(w.value("p_part", f"arith.truncf {p} : {wide} to {self._operand_type}"))
        return found

    def of_rows(self, w: Writer, values: list[str]) -> str:
        """What belongs to the row of a lane, for each element of an accumulator tile."""
        return w.value("factor", f"vector.broadcast {values[0]} : f32 to {self.accumulator_type}")

    def add_values(
        self, w: Writer, p_parts: list[str], v: Placed, accumulators: list[str]
    ) -> list[str]:
        """P V added to the accumulators."""
        lane, results = self._value_place(w), list(accumulators)
        for number, p_part in enumerate(p_parts):
            elements = range(number * self.operand, (number + 1) * self.operand)
            keys = [self.column((e // self.held, 0, e % self.held)) for e in elements]
            v_parts = [self._values(w, v, lane, keys, tile) for tile in range(self._tiles)]
            results = self._products(w, [p_part], v_parts, results)
        return results

    def _value_place(self, w: Writer) -> ValuePlace:
        """Where a lane reads V: its own feature, or some neighbours of the key that it loads for the others."""
        feature, key = w.rem("lane_row", "%lane", self.rows), self.lane_column(w)
        if not self.chip.turns:
            chunk, inner = (
                w.div("v_chunk", feature, self.chunk),
                w.rem("v_inner", feature, self.chunk),
            )
            return ValuePlace(chunk, inner, key)
        # 16 lanes load `held` keys of 16 features, and `held` of those each.
        in_row = TURNING // self.chip.held
        first = w.mul("v_first", w.div("v_group", feature, TURNING), TURNING // self.chunk)
        place = w.mul("v_place", w.rem("v_lane", "%lane", in_row), self.chip.held)
        chunk = w.add("v_chunk", first, w.div("v_place_chunk", place, self.chunk))
        turned = w.div("v_turned_key", w.rem("v_turning", "%lane", TURNING), in_row)
        return ValuePlace(
            w.mul("v_chunk", chunk, self._tiles),
            w.rem("v_inner", place, self.chunk),
            w.add("v_key", key, turned),
        )

    def _values(self, w: Writer, v: Placed, lane: ValuePlace, keys: list[int], tile: int) -> str:
        """The operand of V: in each lane, of the feature of a tile that it has, these keys after the lane's first."""
        chunk = w.add("v_chunk", lane.chunk, w.constant(self._first_chunk(tile)))
        held, turns = self.chip.held, self.chip.turns
        kind, read = f"vector<{held}x{self.types.operand}>", []
        for number in keys[:: held if turns else 1]:
            row = w.add("v_row", lane.key, w.constant(number))
            place = w.mul("v_slot", self._swizzled(w, chunk, row), self.chunk)
            at = f"{v[0]}[{row}, {w.add('v_column', place, lane.inner)}] : {v[1]}"
            op = f"amdgpu.transpose_load {at} -> {kind}" if turns else f"memref.load {at}"
            read.append(w.value("v_read", op))
        listed = ", ".join(read)
        if not turns:
            return w.value("v_part", f"vector.from_elements {listed} : {self._operand_type}")
        order = ", ".join(map(str, range(self.operand)))
        return w.value("v_part", f"vector.shuffle {listed} [{order}] : {kind}, {kind}")

    def _first_chunk(self, tile: int) -> int:
        """The first chunk of a tile of features."""
        return tile if self.chip.turns else tile * self.rows // self.chunk

    def _column(self, tile: int, element: int) -> int:
        apart = self._tiles if self.chip.turns else 1
        return super()._column(0, element) * apart + self._first_chunk(tile) * self.chunk
