"""What the loops over keys of `generate_attention.py` and `generate_backward.py` compute, by NumPy in double precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FEATURES = 64


class Numbers(NamedTuple):
    """Arguments of a kernel, which of them is its result, what that is to be, and how far from it, at most."""

    arguments: list[np.ndarray]
    result: int
    wanted: np.ndarray
    distance: float

    def is_right(self, found: np.ndarray, rows: int) -> bool:
        """Whether the first rows are."""
        apart = np.abs(found[0, :rows] - self.wanted[:rows])
        return bool(apart.max() < self.distance)


def numbers_of(kernel: str, positions: int) -> Numbers:
    """Random heads for `attention`, `backward` or `chain`, as the kernel takes them."""
    draw = np.random.default_rng(positions)
    count = 4 if kernel == "backward" else 3
    heads = [draw.normal(size=(1, positions, FEATURES)).astype(np.float16) for _ in range(count)]
    out = np.full((1, positions, FEATURES), np.nan, np.float32)
    q, k, v, *grad = (head[0].astype(np.float64) for head in heads)
    if kernel == "chain":
        # The middle is rounded to f16: 2^-11 of each of many terms, whose signs differ.
        wanted = q @ k.T @ v
        return Numbers([*heads, out], 3, wanted, 2**-11 * np.abs(wanted).max())
    scores = np.exp(q @ k.T / np.sqrt(FEATURES))
    weights = scores / scores.sum(axis=1, keepdims=True)
    if kernel == "attention":
        # Weights of at most 1 are rounded to f16, 2^-11; elements of V are below 5.
        return Numbers([*heads, out], 3, weights @ v, 5 * 2**-11)
    total = np.log2(scores.sum(axis=1))[None].astype(np.float32)
    delta = (weights @ v * grad[0]).sum(axis=1)[None].astype(np.float32)
    change = weights * (grad[0] @ v.T - delta[0][:, None])
    wanted = change @ k / np.sqrt(FEATURES)
    # Changes are rounded to f16.
    return Numbers([*heads, out, total, delta], 4, wanted, 2**-10 * np.abs(wanted).max())
