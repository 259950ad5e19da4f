"""The softmax of attention, tile of keys after tile: what the generators of attention share.

A lane holds of each 8 keys two in each of two rows, as products of matrix cores leave them (PTX ISA,
fragments of C); the four lanes of a row agree on its largest score. m is the largest score, l the
lane's part of the sum of the weights.
"""

from __future__ import annotations

import math

from mlir_text import Writer

PAIRS = [(half, element) for half in (0, 1) for element in (0, 1)]
Place = tuple[int, int, int]
"""An element of a lane's scores: which tile of 8 keys, which row, which of two keys."""


def constants(w: Writer, features: int) -> None:
    """What scores are multiplied by, to base 2, and what m and l begin with."""
    scale = math.log2(math.e) / math.sqrt(features)
    w.value("low", "arith.constant 0xFF800000 : f32")
    w.value("none", "arith.constant 0.0 : f32")
    w.value("scale", f"arith.constant {scale!r} : f32")
    w.value("minus_scale", f"arith.constant {-scale!r} : f32")


def largest_scores(w: Writer, elements: dict[Place, str], state: list[str]) -> list[str]:
    """The new m of both rows; `state` is m of both rows, then l."""
    found = state[:2]
    for (_, half, _), score in elements.items():
        found[half] = w.value("m", f"arith.maxnumf {found[half]}, {score} : f32")
    return [_of_four_lanes(w, largest, "arith.maxnumf") for largest in found]


def online_softmax(
    w: Writer, elements: dict[Place, str], state: list[str], new_m: list[str]
) -> tuple[list[str], dict[Place, str], list[str]]:
    """The new m and l of both rows, the weights, and the factor by which what was summed up with
    the old m shrinks."""
    new_l, factors = [], []
    weights: dict[Place, str] = {}
    for half, largest in enumerate(new_m):
        row = {place: score for place, score in elements.items() if place[1] == half}
        shift = w.value("shift", f"arith.mulf {largest}, %minus_scale : f32")
        factor = exponential(w, state[half], shift)
        total = w.value("old_l", f"arith.mulf {state[2 + half]}, {factor} : f32")
        for place, score in row.items():
            weights[place] = exponential(w, score, shift)
            total = w.value("l", f"arith.addf {total}, {weights[place]} : f32")
        new_l.append(total)
        factors.append(factor)
    return [*new_m, *new_l], weights, factors


def inverse_sums(w: Writer, sums: list[str]) -> list[str]:
    """1 / l of both rows, whose parts of the four lanes of a row are added only now."""
    one = w.value("one", "arith.constant 1.0 : f32")
    totals = (_of_four_lanes(w, total, "arith.addf") for total in sums)
    return [w.value("inverse", f"arith.divf {one}, {total} : f32") for total in totals]


def _of_four_lanes(w: Writer, value: str, combine: str) -> str:
    """A row's value out of those of the four lanes that share it; all four get it."""
    for distance in (1, 2):
        apart = w.value("apart", f"arith.constant {distance} : i32")
        width = w.value("width", "arith.constant 32 : i32")
        other = width.replace("width", "other")
        w.line(f"{other}:2 = gpu.shuffle xor {value}, {apart}, {width} : f32")
        value = w.value("both", f"{combine} {value}, {other}#0 : f32")
    return value


def exponential(w: Writer, score: str, shift: str) -> str:
    """2 ^ (score * scale + shift)."""
    power = w.value("power", f"math.fma {score}, %scale, {shift} : f32")
    return w.value("weight", f"nvvm.ex2 {power} {{ftz = true}} : f32")
