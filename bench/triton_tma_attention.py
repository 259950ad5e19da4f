"""Flash attention in Triton by tensor descriptors, as `examples/generate_hopper_attention.py` writes it:
64 rows of one head for each four warps, the next keys and values in each iteration.

Its causal form is that of Triton's tutorial on fused attention: the keys that all rows see, without masks, and
then the tile on the diagonal."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.compiler import ASTSource


@triton.jit
def attention(
    q, k, v, o, positions, scale,
    D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * positions
    first = head + tl.program_id(0) * ROWS
    queries = q.load([first, 0])
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, D), tl.float32)
    for at in range(0, first - head if CAUSAL else positions, KEYS):
        scores = tl.dot(queries, k.load([head + at, 0]).T)
        larger = tl.maximum(largest, tl.max(scores, 1) * scale)
        weights = tl.exp2(scores * scale - larger[:, None])
        shrunk = tl.exp2(largest - larger)
        weight = weight * shrunk + tl.sum(weights, 1)
        values = v.load([head + at, 0])
        result = tl.dot(weights.to(tl.float16), values, result * shrunk[:, None])
        largest = larger
    if CAUSAL:
        scores = tl.dot(queries, k.load([first, 0]).T) * scale
        seen = tl.arange(0, ROWS)[:, None] >= tl.arange(0, KEYS)[None, :]
        scores = tl.where(seen, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        shrunk = tl.exp2(largest - larger)
        weight = weight * shrunk + tl.sum(weights, 1)
        result = tl.dot(weights.to(tl.float16), v.load([first, 0]), result * shrunk[:, None])
    rows, features = first + tl.arange(0, ROWS), tl.arange(0, D)
    tl.store(o + rows[:, None] * D + features[None, :], result / weight[:, None])


def source(request: dict) -> ASTSource:
    """The kernel for one request."""
    features, keys, rows = request["features"], request["keys"], 16 * request["warps"]
    kinds = {
        "q": f"tensordesc<fp16[{rows}, {features}]>",
        "k": f"tensordesc<fp16[{keys}, {features}]>",
        "v": f"tensordesc<fp16[{keys}, {features}]>",
        "o": "*fp32",
        "positions": "i32",
        "scale": "fp32",
    }
    constants = {"D": features, "ROWS": rows, "KEYS": keys, "CAUSAL": request["causal"]}
    return ASTSource(
        fn=attention,
        signature={**kinds, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in (3, 4)},
    )
