"""Times Triton's GEMM and attention by tensor descriptors on a GPU, with the tiles of our kernels.

    python bench/gpu_triton.py [--sizes 4096,8192] [--json OUT]

The kernels are those whose machine code bench/code.py compares (triton_tma.py, triton_tma_attention.py). Needs
PyTorch, Triton 3.5 or later and a GPU of sm_90.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import triton_tma
import triton_tma_attention
from gpu_run import ELEMENTS, error_of, median_ms, normal_numbers
from triton.tools.tensor_descriptor import TensorDescriptor

# Tile of M, N and K, types, what runs along B, warps, stages.
GEMMS = [
    (128, 128, 64, "f16", "k", 4, 3),
    (128, 128, 64, "f16", "k", 4, 4),
    (128, 128, 64, "f16", "k", 8, 4),
    (128, 128, 64, "f16", "n", 4, 4),
    (128, 256, 64, "f16", "k", 8, 3),
    (128, 256, 64, "f16", "k", 8, 4),
    (128, 256, 64, "f16", "n", 8, 4),
    (128, 128, 64, "bf16", "k", 4, 4),
    (128, 128, 128, "e4m3", "k", 4, 4),
    (128, 256, 128, "e4m3", "k", 8, 4),
    (128, 128, 128, "s8", "k", 4, 4),
]
# Features, keys, warps, stages.
ATTENTIONS = [
    (64, 64, 4, 3),
    (128, 64, 4, 3),
    (64, 128, 8, 2),
    (64, 128, 8, 3),
    (128, 64, 8, 3),
    (128, 128, 8, 2),
]


def gemm(
    m: int, n: int, k: int, types: str, b_by: str, warps: int, stages: int, size: int
) -> dict[str, Any]:
    """Milliseconds and error of one GEMM."""
    import triton.language as tl

    a, b = (normal_numbers((size, size), types) for _ in "ab")
    given = b if b_by == "k" else b.T.contiguous()
    whole = types == "s8"
    c = torch.empty((size, size), dtype=torch.int32 if whole else torch.float32, device="cuda")
    left = TensorDescriptor.from_tensor(a, [m, k])
    right = TensorDescriptor.from_tensor(given, [n, k] if b_by == "k" else [k, n])

    def run() -> None:
        triton_tma.gemm[(size // n, size // m)](
            left, right, c, size, size, BM=m, BN=n, BK=k, BY_K=b_by == "k",
            SUM=tl.int32 if whole else tl.float32, num_warps=warps, num_stages=stages,
        )  # fmt: skip

    ms = median_ms(run)
    return {"ms": ms, "TFLOP/s": 2.0 * size**3 / ms / 1e9, "error": error_of(c, a, b)}


def attention(features: int, keys: int, warps: int, stages: int, positions: int) -> dict[str, Any]:
    """Milliseconds and error of attention with 32 heads."""
    heads, rows = 32, 16 * warps
    shape = (heads, positions, features)
    q, k, v = (normal_numbers(shape, "f16") for _ in "qkv")
    o = torch.empty(shape, dtype=torch.float32, device="cuda")
    flat = [t.view(-1, features) for t in (q, k, v)]
    boxes = [[rows, features], [keys, features], [keys, features]]
    maps = [TensorDescriptor.from_tensor(t, box) for t, box in zip(flat, boxes, strict=True)]
    scale = features**-0.5 * 1.4426950408889634

    def run() -> None:
        triton_tma_attention.attention[(positions // rows, heads)](
            *maps,
            o,
            positions,
            scale,
            D=features,
            ROWS=rows,
            KEYS=keys,
            num_warps=warps,
            num_stages=stages,
        )

    ms = median_ms(run)
    wanted = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    error = float((o - wanted.float()).norm() / wanted.float().norm())
    return {"ms": ms, "TFLOP/s": 4.0 * heads * positions**2 * features / ms / 1e9, "error": error}


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    assert set(ELEMENTS) >= {made[3] for made in GEMMS}
    found = []
    for kind, run, shapes in (("gemm", gemm, GEMMS), ("attention", attention, ATTENTIONS)):
        for shape in shapes:
            for size in map(int, arguments.sizes.split(",")):
                try:
                    result = run(*shape, size)
                except Exception as error:
                    result = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
                found.append({"kind": kind, "shape": shape, "size": size, **result})
                print(f"Triton {kind} {shape} {size}: {result}", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
