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
from typing import ClassVar

from generate_attention import ROWS, Attention
from mlir_text import Writer
from nvidia_tiles import MMA_N
from online_softmax import PAIRS, Place, exponential


@dataclass(frozen=True)
class Chain(Attention):
    """O = (Q K^T) V."""

    name: str = "chain"
    softmax: ClassVar[dict[str, str]] = {}

    def _iteration(
        self, w: Writer, q_parts: list[str], tile: str, state: list[str], diagonal: str = ""
    ) -> list[str]:
        elements = self._elements(w, self.tiles.scores(w, q_parts, ("%k_tile", tile), "%zeros"))
        return self.outputs.add_values(w, self._operands(w, elements), ("%v_tile", tile), state)

    def _elements(self, w: Writer, scores: list[str]) -> dict[Place, str]:
        return {
            (number, half, element): self._element(w, score, half, element)
            for number, score in enumerate(scores)
            for half, element in PAIRS
        }

    def _operands(self, w: Writer, elements: dict[Place, str]) -> list[str]:
        return [self._operand(w, elements, at) for at in range(0, ROWS // MMA_N, 2)]

    def _store(self, w: Writer, row: str) -> None:
        sums = [f"%done#{number}" for number in range(self.outputs.accumulators)]
        self.outputs.store(w, ("%O", self._one_head("f32")), (row, "%c0"), sums, None)
        w.line("gpu.return")


@dataclass(frozen=True)
class Backward(Chain):
    """dQ of the rows of a block; D is `delta`, since D is also the number of features."""

    name: str = "backward"
    operands = (("Q", "f16"), ("K", "f16"), ("V", "f16"), ("G", "f16"), ("O", "f32"))
    of_rows = ("L", "delta")
    resident = "qg"

    def _values_of_rows(self, w: Writer, block_row: str, warp_row: str) -> None:
        row = w.add("warp_first", block_row, warp_row)
        first = w.add("row", row, w.div("lane_row", "%lane", 4))
        for half, at in enumerate((first, w.add("row", first, w.constant(8)))):
            for name in self.of_rows:
                loaded = w.value(
                    f"loaded_{name}", f"memref.load %{name}[%head, {at}] : memref<?x?xf32>"
                )
                w.line(f"%minus_{name}{half} = arith.negf {loaded} : f32")

    def _iteration(
        self, w: Writer, q_parts: list[str], tile: str, state: list[str], diagonal: str = ""
    ) -> list[str]:
        half = len(q_parts) // 2
        scores = self._elements(
            w, self.tiles.scores(w, q_parts[:half], ("%k_tile", tile), "%zeros")
        )
        grown = self._elements(w, self.tiles.scores(w, q_parts[half:], ("%v_tile", tile), "%zeros"))
        changes = {}
        for place, score in scores.items():
            weight = exponential(w, score, f"%minus_L{place[1]}")
            apart = w.value("apart", f"arith.addf {grown[place]}, %minus_delta{place[1]} : f32")
            changes[place] = w.value("change", f"arith.mulf {weight}, {apart} : f32")
        return self.outputs.add_values(w, self._operands(w, changes), ("%k_tile", tile), state)

    def _store(self, w: Writer, row: str) -> None:
        kind = self.tiles.accumulator_type
        w.value("root", f"arith.constant dense<{1 / math.sqrt(self.features)!r}> : {kind}")
        sums = [f"%done#{number}" for number in range(self.outputs.accumulators)]
        scaled = self._scaled(w, sums, "%root")
        self.outputs.store(w, ("%O", self._one_head("f32")), (row, "%c0"), scaled, None)
        w.line("gpu.return")


def main(arguments: list[str]) -> int:
    """Print the kernel that the command line describes."""
    kernels = {"backward": Backward, "chain": Chain}
    parser = argparse.ArgumentParser(description="Write a loop of several products.")
    parser.add_argument("--kernel", choices=sorted(kernels), default="backward")
    parser.add_argument("--features", type=int, choices=(64, 128), default=64)
    parser.add_argument("--stages", type=int, default=3)
    chosen = parser.parse_args(arguments)
    sys.stdout.write(
        kernels[chosen.kernel](features=chosen.features, stages=chosen.stages).module()
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
