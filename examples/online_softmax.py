"""The softmax of attention, tile of keys after tile: what the generators of attention share.

`Softmax` says how the lanes of a warp share the rows of a product. A lane holds elements of one row or of two, and the
lanes of a row agree on its largest score. m is the largest score, l the lane's part of the sum of the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir_text import Writer

PAIRS = [(half, element) for half in (0, 1) for element in (0, 1)]
Place = tuple[int, int, int]
"""An element of a lane's scores: which tile of keys, which of the lane's rows, which element of those in the tile."""


def constants(w: Writer, features: int) -> None:
    """What scores are multiplied by, to base 2, and what m and l begin with."""
    scale = math.log2(math.e) / math.sqrt(features)
    w.value("low", "arith.constant 0xFF800000 : f32")
    w.value("none", "arith.constant 0.0 : f32")
    w.value("scale", f"arith.constant {scale!r} : f32")
    w.value("minus_scale", f"arith.constant {-scale!r} : f32")


@dataclass(frozen=True)
class Softmax:
    """A lane holds elements of `rows` rows; the numbers of the `lanes` that share a row differ in the bits `apart`.
    `exp2` is the chip's instruction for 2 ^ x, which takes results below 2^-126 for 0."""

    rows: int
    apart: tuple[int, ...]
    lanes: int
    exp2: str

    @property
    def start(self) -> dict[str, str]:
        """The names of m and of l of each row, and what they begin with."""
        rows = range(self.rows)
        return {f"%m{row}": "%low" for row in rows} | {f"%l{row}": "%none" for row in rows}

    def largest_scores(self, w: Writer, elements: dict[Place, str], state: list[str]) -> list[str]:
        """The new m of each row; `state` is m of each row, then l."""
        found = state[: self.rows]
        for (_, row, _), score in elements.items():
            found[row] = w.value("m", f"arith.maxnumf {found[row]}, {score} : f32")
        return [self._of_lanes(w, largest, "arith.maxnumf") for largest in found]

    def weigh(
        self, w: Writer, elements: dict[Place, str], state: list[str], new_m: list[str]
    ) -> tuple[list[str], dict[Place, str], list[str]]:
        """The new m and l of each row, the weights, and the factor by which what was summed up with
        the old m shrinks."""
        new_l, factors = [], []
        weights: dict[Place, str] = {}
        for row, largest in enumerate(new_m):
            scores = {place: score for place, score in elements.items() if place[1] == row}
            shift = w.value("shift", f"arith.mulf {largest}, %minus_scale : f32")
            factor = self.exponential(w, state[row], shift)
            total = w.value("old_l", f"arith.mulf {state[self.rows + row]}, {factor} : f32")
            for place, score in scores.items():
                weights[place] = self.exponential(w, score, shift)
                total = w.value("l", f"arith.addf {total}, {weights[place]} : f32")
            new_l.append(total)
            factors.append(factor)
        return [*new_m, *new_l], weights, factors

    def inverse_sums(self, w: Writer, sums: list[str]) -> list[str]:
        """1 / l of each row, whose parts of the lanes of a row are added only now."""
        one = w.value("one", "arith.constant 1.0 : f32")
        totals = (self._of_lanes(w, total, "arith.addf") for total in sums)
        return [w.value("inverse", f"arith.divf {one}, {total} : f32") for total in totals]

    def exponential(self, w: Writer, score: str, shift: str) -> str:
        """2 ^ (score * scale + shift)."""
        power = w.value("power", f"math.fma {score}, %scale, {shift} : f32")
        return w.value("weight", self.exp2.format(power))

    def _of_lanes(self, w: Writer, value: str, combine: str) -> str:
        """A row's value out of those of the lanes that share it; all of them get it."""
        for distance in self.apart:
            apart = w.value("apart", f"arith.constant {distance} : i32")
            width = w.value("width", f"arith.constant {self.lanes} : i32")
            other = width.replace("width", "other")
            w.line(f"{other}:2 = gpu.shuffle xor {value}, {apart}, {width} : f32")
            value = w.value("both", f"{combine} {value}, {other}#0 : f32")
        return value


# Of each 8 keys a lane holds two in each of two rows (PTX ISA, fragments of C of mma and wgmma).
NVIDIA_SOFTMAX = Softmax(2, (1, 2), 32, "nvvm.ex2 {} {{ftz = true}} : f32")
