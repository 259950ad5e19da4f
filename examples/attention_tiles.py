"""The fragments of flash attention: Q stays in registers, K is read as it stands, V transposed.

Rows of Q, K and V are features. S = Q K^T sums over features, so K's rows are what `ldmatrix`
hands to the second operand of `mma.sync`, as in the GEMM. O = P V sums over keys, the rows of V:
there `ldmatrix` transposes each 8x8 matrix. P needs no memory at all: an accumulator tile of S
holds rows l / 4 and l / 4 + 8 and columns 2 (l % 4) and the next, which is half of a 16x16
fragment of the first operand.
"""

from __future__ import annotations

from mlir_text import Writer
from nvidia_tiles import MMA_N, NvidiaTiles

Placed = tuple[str, str]
"""A value and its type."""

MMA_K = 16


class AttentionTiles(NvidiaTiles):
    """Fragments of one warp: 16 rows of Q or P, and `warp_n` keys (of K) or features (of V)."""

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
