"""Flash attention in Triton, as `examples/generate_attention.py` writes it: to base 2, 64 rows of one
head in each block, the next 64 keys and values in each iteration.

Its causal form is that of Triton's tutorial on fused attention too: one loop over the keys that all
rows see, without masks, and then the tile on the diagonal.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.compiler import ASTSource

ROWS = 64


@triton.jit
def attention(
    q, k, v, o, positions, scale,
    D: tl.constexpr, ROWS: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * ROWS
    head = tl.program_id(1) * positions * D
    rows, keys, features = first + tl.arange(0, ROWS), tl.arange(0, ROWS), tl.arange(0, D)
    inside = rows[:, None] * D + features[None, :]
    queries = tl.load(q + head + inside)
    k_at = k + head + keys[None, :] * D + features[:, None]
    v_at = v + head + keys[:, None] * D + features[None, :]
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, D), tl.float32)
    for _ in range(0, first if CAUSAL else positions, ROWS):
        scores = tl.dot(queries, tl.load(k_at))
        larger = tl.maximum(largest, tl.max(scores, 1) * scale)
        weights = tl.exp2(scores * scale - larger[:, None])
        shrunk = tl.exp2(largest - larger)
        weight = weight * shrunk + tl.sum(weights, 1)
        result = tl.dot(weights.to(tl.float16), tl.load(v_at), result * shrunk[:, None])
        largest = larger
        k_at += ROWS * D
        v_at += ROWS * D
    if CAUSAL:
        scores = tl.dot(queries, tl.load(k_at)) * scale
        scores = tl.where(keys[:, None] >= keys[None, :], scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        shrunk = tl.exp2(largest - larger)
        weight = weight * shrunk + tl.sum(weights, 1)
        result = tl.dot(weights.to(tl.float16), tl.load(v_at), result * shrunk[:, None])
    tl.store(o + head + inside, result / weight[:, None])


def source(request: dict) -> ASTSource:
    """The kernel for one request."""
    kinds = {name: "*fp16" for name in "qkv"} | {"o": "*fp32", "positions": "i32", "scale": "fp32"}
    constants = {"D": request["features"], "ROWS": ROWS, "CAUSAL": request["causal"]}
    return ASTSource(
        fn=attention,
        signature={**kinds, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in range(5)},
    )
