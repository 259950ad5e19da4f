"""Writes two more loops of two or three products, as a front end emits them before pipelining.

    python examples/generate_backward.py > backward.mlir
    python examples/generate_backward.py --kernel=chain --features=128

`backward`: of flash attention's backward pass the loop of dQ, for what `generate_attention.py` computes.
With L the base-2 logarithm of each row's sum of weights (of scores times log2(e) / sqrt(D)), and D the sum of each
row of O times dO:

    P = 2 ^ (Q K^T scale - L);  dS = P (dO V^T - D);  dQ = sum of dS K over all keys, / sqrt(D)

`chain`: two GEMMs, O = (Q K^T) V, whose middle stays in registers, as f16.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

from amd_matrix_chips import MATRIX_CHIPS
from generate_attention import Attention
from mlir_text import Writer


@dataclass(frozen=True)
class Chain(Attention):
    """O = (Q K^T) V."""

    name: str = "chain"

    @property
    def carried(self) -> dict[str, str]:
        """Nothing but O."""
        return {}

    def _iteration(
        self, w: Writer, q_parts: list[str], state: list[str], masked: tuple[str, int] | None = None
    ) -> list[str]:
        p_parts = self.tiles.operands(w, self._scores(w, q_parts, "k"))
        return self.outputs.add_values(w, p_parts, self._tile("v"), state)

    def _store(self, w: Writer, row: str) -> None:
        self._store_sums(w, row, self._totals())


@dataclass(frozen=True)
class Backward(Chain):
    """dQ of the rows of a block; D is `delta`, since D is also the number of features."""

    name: str = "backward"
    operands = (("Q", "f16"), ("K", "f16"), ("V", "f16"), ("G", "f16"), ("O", "f32"))
    of_rows = ("L", "delta")
    resident = "qg"

    def _values_of_rows(self, w: Writer, block_row: str, warp_row: str) -> None:
        rows = self.tiles.lane_rows(w, w.add("warp_first", block_row, warp_row))
        for number, at in enumerate(rows):
            for name in self.of_rows:
                loaded = w.value(
                    f"loaded_{name}", f"memref.load %{name}[%head, {at}] : memref<?x?xf32>"
                )
                w.line(f"%minus_{name}{number} = arith.negf {loaded} : f32")

    def _iteration(
        self, w: Writer, q_parts: list[str], state: list[str], masked: tuple[str, int] | None = None
    ) -> list[str]:
        half = len(q_parts) // 2
        scores = self._scores(w, q_parts[:half], "k")
        grown = self._scores(w, q_parts[half:], "v")
        changes = {}
        for place, score in scores.items():
            weight = self.tiles.softmax.exponential(w, score, f"%minus_L{place[1]}")
            apart = w.value("apart", f"arith.addf {grown[place]}, %minus_delta{place[1]} : f32")
            changes[place] = w.value("change", f"arith.mulf {weight}, {apart} : f32")
        p_parts = self.tiles.operands(w, changes)
        return self.outputs.add_values(w, p_parts, self._tile("k"), state)

    def _store(self, w: Writer, row: str) -> None:
        kind = self.tiles.accumulator_type
        w.value("root", f"arith.constant dense<{1 / math.sqrt(self.features)!r}> : {kind}")
        self._store_sums(w, row, self._scaled(w, self._totals(), "%root"))


def main(arguments: list[str]) -> int:
    """Print the kernel that the command line describes."""
    kernels = {"backward": Backward, "chain": Chain}
    parser = argparse.ArgumentParser(description="Write a loop of several products.")
    parser.add_argument("--kernel", choices=sorted(kernels), default="backward")
    parser.add_argument("--features", type=int, choices=(64, 128), default=64)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--chip", choices=MATRIX_CHIPS, default="", help="an AMD chip")
    given = vars(parser.parse_args(arguments))
    sys.stdout.write(kernels[given.pop("kernel")](**given).module())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
