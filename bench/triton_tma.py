"""GEMMs of Triton's by tensor descriptors, whole tiles, as `examples/generate_hopper_gemm.py` writes them:
one tile a block, stored from registers; and tile after tile, whose sums go out by a tensor store."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.compiler import ASTSource

TYPES = {"f16": "fp16", "bf16": "bf16", "e4m3": "fp8e4nv", "e5m2": "fp8e5", "s8": "i8"}


@triton.jit
def gemm(
    a, b, c, k_size, c_row,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BY_K: tl.constexpr,
    SUM: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BM
    n = tl.program_id(0) * BN
    total = tl.zeros((BM, BN), dtype=SUM)
    for k in range(0, k_size, BK):
        left = a.load([m, k])
        if BY_K:
            right = b.load([n, k]).T
        else:
            right = b.load([k, n])
        total = tl.dot(left, right, total, out_dtype=SUM)
    rows = m + tl.arange(0, BM)
    columns = n + tl.arange(0, BN)
    tl.store(c + rows[:, None] * c_row + columns[None, :], total)


@triton.jit
def persistent(
    a, b, c, m_size, n_size, k_size,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BY_K: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    columns = n_size // BN
    for tile in range(tl.program_id(0), m_size // BM * columns, tl.num_programs(0)):
        m = tile // columns * BM
        n = tile % columns * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, k_size, BK):
            left = a.load([m, k])
            if BY_K:
                right = b.load([n, k]).T
            else:
                right = b.load([k, n])
            total = tl.dot(left, right, total)
        c.store([m, n], total.to(OUT))


def source(request: dict) -> ASTSource:
    """The kernel for one request."""
    m, n, k = request["tile"]
    kind = TYPES[request["types"]]
    b_box = f"{n}, {k}" if request["b"] == "k" else f"{k}, {n}"
    constants = {"BM": m, "BN": n, "BK": k, "BY_K": request["b"] == "k"}
    if request.get("stored"):
        out = TYPES[request["stored"]]
        constants["OUT"] = tl.dtype(out)
        signature = {
            "a": f"tensordesc<{kind}[{m}, {k}]>",
            "b": f"tensordesc<{kind}[{b_box}]>",
            "c": f"tensordesc<{out}[{m}, {n}]>",
            **dict.fromkeys(("m_size", "n_size", "k_size"), "i32"),
        }
        return ASTSource(
            fn=persistent,
            signature={**signature, **dict.fromkeys(constants, "constexpr")},
            constexprs=constants,
            attrs={(number,): [["tt.divisibility", 16]] for number in (3, 4, 5)},
        )
    constants["SUM"] = tl.int32 if kind == "i8" else tl.float32
    signature = {
        "a": f"tensordesc<{kind}[{m}, {k}]>",
        "b": f"tensordesc<{kind}[{b_box}]>",
        "c": "*i32" if kind == "i8" else "*fp32",
        "k_size": "i32",
        "c_row": "i32",
    }
    return ASTSource(
        fn=gemm,
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in (2, 3, 4)},
    )
