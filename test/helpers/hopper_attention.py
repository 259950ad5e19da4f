"""Runs attention of `examples/generate_hopper_attention.py` and `generate_blackwell_attention.py`, and compares it with NumPy's."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from helpers.paths import ROOT
from mlir_async_pipe import machine

sys.path.insert(0, str(ROOT / "examples"))

from generate_blackwell_attention import BlackwellAttention
from generate_hopper_attention import HopperAttention

Attention = HopperAttention | BlackwellAttention


def as_tensor(made: Attention, values: np.ndarray, panels: bool) -> np.ndarray:
    """Rows of features as their tensor map has them: 64 features after 64."""
    flat = values.reshape(-1, made.features)
    if not panels:
        return flat
    return np.ascontiguousarray(flat.reshape(len(flat), -1, 64).transpose(1, 0, 2))


def wrong_by(
    made: Attention,
    module: Any,
    positions: int,
    completion: str,
    added: int = 0,
    heads: int = 2,
    **order: Any,
) -> tuple[float, set[str]]:
    """How far from NumPy's the first block's rows of each head are at most, and what raced."""
    numbers = np.random.default_rng(positions)
    shape = (heads, positions, made.features)
    q, k, v = (numbers.normal(size=shape).astype(np.float16) for _ in range(3))
    arguments = [as_tensor(made, each, made.features > 64) for each in (q, k)]
    arguments += [as_tensor(made, v, True), np.full(shape, np.nan, np.float32)]
    # Blocks run one after the other: the first reads all keys, and of causal ones as many as it is itself.
    causal = isinstance(made, HopperAttention) and made.causal
    blocks = positions // made.rows if causal else 1
    result = machine.run(
        module,
        None,
        [*arguments, positions],
        threads=made.threads + added,
        grid=(blocks, order.pop("blocks_of_heads", heads)),
        completion=completion,
        **order,
    )
    q = q[:, : made.rows * blocks]
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) / np.sqrt(made.features)
    if causal:
        scores[:, *np.triu_indices(positions, 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    wanted = weights / weights.sum(axis=2, keepdims=True) @ v.astype(float)
    found = result.arrays[3][:, : made.rows * blocks]
    return float(np.abs(found - wanted).max()), set(result.race_codes)
