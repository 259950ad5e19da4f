"""Triton's kernels for those of `bench/user_kernels.py` that multiply on tensor cores, of the same tile and warps.

One body: where its rows come from, and what becomes of B, is what they differ in.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.compiler import ASTSource

BM, BN, BK = 64, 64, 32


@triton.jit
def users(
    a, b, d, rows, c, k_size, a_row, b_row, c_row,
    KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    second = tl.zeros((BM, BN), dtype=tl.float32)
    if KIND == "gathered":
        a_at = a + tl.load(rows + m)[:, None] * a_row + k[None, :]
    elif KIND == "convolution":
        # 8x8 pixels of 10 a row, 32 channels.
        a_at = a + ((m // 8) * 10 + m % 8)[:, None] * 32 + k[None, :]
    else:
        a_at = a + m[:, None] * a_row + k[None, :]
    if KIND == "by k":
        b_at = b + k[:, None] * b_row + n[None, :]
    else:
        b_at = b + n[None, :] * b_row + k[:, None]
    d_at = d + n[None, :] * b_row + k[:, None]
    for step in range(0, tl.cdiv(k_size, BK)):
        if KIND == "masked":
            left = tl.load(a_at, mask=k[None, :] < k_size - step * BK, other=0.0)
            right = tl.load(b_at, mask=k[:, None] < k_size - step * BK, other=0.0)
        elif KIND == "convolution":
            left = tl.load(a_at + ((step // 3) * 10 + step % 3) * 32)
            right = tl.load(b_at)
        else:
            left = tl.load(a_at)
            right = tl.load(b_at)
        if KIND == "bytes":
            right = right.to(tl.float16)
        total = tl.dot(left, right, total)
        if KIND == "gated":
            second = tl.dot(left, tl.load(d_at), second)
            d_at += BK
        if KIND != "convolution":
            a_at += BK
        b_at += BK * b_row if KIND == "by k" else BK
    if KIND == "gated":
        total = total * second
    tl.store(c + m[:, None] * c_row + n[None, :], total)


def source(request: dict) -> ASTSource:
    """The kernel for one request."""
    kind = request["kind"]
    names = ["a", "b", "d", "rows", "c", "k_size", "a_row", "b_row", "c_row"]
    element = "*bf16" if kind == "bf16" else "*fp16"
    kinds = [element, "*i8" if kind == "bytes" else element, element, "*i32", "*fp32", *["i32"] * 4]
    constants = {"KIND": kind, "BM": BM, "BN": BN, "BK": BK}
    # A ragged k is what the masked kernel is for.
    aligned = [n for n, name in enumerate(names) if not (kind == "masked" and name == "k_size")]
    return ASTSource(
        fn=users,
        signature={**dict(zip(names, kinds, strict=True)), **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in aligned},
    )
