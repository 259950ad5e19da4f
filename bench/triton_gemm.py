"""The GEMM of Triton's matmul tutorial, with B given as one row a column of C, whole tiles and no
masks, as `examples/generate_gemm.py` writes it."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.compiler import ASTSource

TYPES = {"f16": "fp16", "bf16": "bf16", "tf32": "fp32", "s8": "i8"}


@triton.jit
def gemm(
    a, b, c, k_size, a_row, b_row, c_row,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a + m[:, None] * a_row + k[None, :]
    b_at = b + n[None, :] * b_row + k[:, None]
    total = tl.zeros((BM, BN), dtype=SUM)
    for _ in range(0, tl.cdiv(k_size, BK)):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total, out_dtype=SUM)
        a_at += BK
        b_at += BK
    tl.store(c + m[:, None] * c_row + n[None, :], total)


def source(request: dict) -> ASTSource:
    """The kernel for one request."""
    operand = TYPES[request["types"]]
    whole = operand == "i8"
    kinds = [f"*{operand}", f"*{operand}", "*i32" if whole else "*fp32", *["i32"] * 4]
    names = ["a", "b", "c", "k_size", "a_row", "b_row", "c_row"]
    # Asked for options, Triton knows what its launcher finds out: that the matrices are smaller than 2 GiB.
    small = [["tt.pointer_range", 32]] if request.get("options") else []
    constants = dict(zip(("BM", "BN", "BK"), request["tile"], strict=True))
    constants["SUM"] = tl.int32 if whole else tl.float32
    return ASTSource(
        fn=gemm,
        signature={**dict(zip(names, kinds, strict=True)), **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={
            (number,): [["tt.divisibility", 16], *(small if number < 3 else [])]
            for number in range(len(names))
        },
    )
