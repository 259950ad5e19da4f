"""GEMMs whose B stands in memory as integers of 8 bits, which a lane turns into f16 when it reads them.

On NVIDIA's tensor cores a lane needs the elements 2 l, 2 l + 1, 2 l + 8 and 2 l + 9 of each 16 of a row, with
l = lane mod 4; these stand side by side at 4 l, as whoever packs weights can put them. AMD's lanes need
neighbours anyway.
"""

from __future__ import annotations

from typing import Any

from amd_tiles import AmdTiles
from mlir_text import Writer
from nvidia_tiles import MMA_N, TYPES, NvidiaTiles

ORDER = tuple(2 * lane + element for lane in range(4) for element in (0, 1, 8, 9))
"""Which element of 16 stands where, on NVIDIA's chips."""


def _as_f16(w: Writer, integers: str, count: int) -> str:
    return w.value(
        "dequantised", f"arith.sitofp {integers} : vector<{count}xi8> to vector<{count}xf16>"
    )


class NvidiaDequantTiles(NvidiaTiles):
    """Copies of integers, and products of f16."""

    @property
    def _of_weights(self) -> NvidiaTiles:
        return NvidiaTiles(TYPES["s8"], self.tile_k, self.threads, self.warp_m, self.warp_n)

    def problems(self, rows: tuple[int, int]) -> list[str]:
        """Also those of copying B."""
        return [*super().problems(rows), *self._of_weights.problems((rows[1],))]

    def copy_tile(self, w: Writer, shared: Any, source: Any, *place: Any) -> list[str]:
        """A as ever, B as integers."""
        if "xi8" in source[1]:
            return self._of_weights.copy_tile(w, shared, source, *place)
        return super().copy_tile(w, shared, source, *place)

    def multiply(
        self,
        w: Writer,
        a: tuple[str, str],
        b: tuple[str, str],
        warp: tuple[str, str],
        accumulators: list[str],
    ) -> list[str]:
        """A chunk of 16 integers is a step of products."""
        lane = self._lane_places(w, warp)
        row = w.add("b_row", warp[1], w.div("b_lane_row", "%lane", 4))
        inner = w.mul("b_inner", w.rem("b_lane_inner", "%lane", 4), 4)
        results = list(accumulators)
        for k in range(self.tile_k // self.types.mma_k):
            w.comment(f"k = {k * 16} .. {k * 16 + 15} of the tile")
            a_parts = self._load_a(w, a, lane, self._slot(w, "a", lane.a, w.constant(2 * k)))
            slot = w.add("b_slot", self._of_weights._swizzled(w, w.constant(k), row), inner)
            b_parts = [
                self._part(w, b, w.add("b_at_row", row, w.constant(n)), slot)
                for n in range(0, self.warp_n, MMA_N)
            ]
            results = self._multiply(w, a_parts, b_parts, results)
        return results

    def _part(self, w: Writer, b: tuple[str, str], row: str, slot: str) -> str:
        aligned = "{alignment = 4 : i64}"
        read = w.value(
            "b_read", f"vector.load {b[0]}[{row}, {slot}] {aligned} : {b[1]}, vector<4xi8>"
        )
        flat = _as_f16(w, read, 4)
        return w.value("b_part", f"vector.shape_cast {flat} : vector<4xf16> to vector<2x2xf16>")


class AmdDequantTiles(AmdTiles):
    """Copies of integers, and products of f16."""

    @property
    def _of_weights(self) -> AmdTiles:
        fields = (self.chip, TYPES["s8"], self.tile_k, self.threads, self.warp_m, self.warp_n)
        return AmdTiles(*fields, self.staging)

    def copy_tile(self, w: Writer, shared: Any, source: Any, *place: Any) -> list[str]:
        """A as ever, B as integers."""
        if "xi8" in source[1]:
            return self._of_weights.copy_tile(w, shared, source, *place)
        return super().copy_tile(w, shared, source, *place)

    def _load(self, w: Writer, name: str, shared: tuple[str, str], *place: Any) -> str:
        if "xi8" in shared[1]:
            read = self._of_weights._load(w, name, shared, *place)
            return _as_f16(w, read, self.part * self.chip.parts)
        return super()._load(w, name, shared, *place)
