"""Compiles Triton's kernels without a GPU, in an environment that has Triton and nothing of ours.

python bench/triton_peers.py < requests.json > answers.json
"""

from __future__ import annotations

import json
import sys

import triton
import triton_attention
import triton_gemm
import triton_tma
import triton_tma_attention
import triton_users
from triton.backends.compiler import GPUTarget

SOURCES = {
    "gemm": triton_gemm.source,
    "attention": triton_attention.source,
    "tensor copies": triton_tma.source,
    "attention by tensor copies": triton_tma_attention.source,
    "users": triton_users.source,
}


def compiled(request: dict) -> dict:
    """The code of one request: PTX or AMDGCN, and what the block needs."""
    vendor, chip = request["target"].split(":")
    target = (
        GPUTarget("cuda", int(chip.removeprefix("sm_").rstrip("a")), 32)
        if vendor == "nvvm"
        else GPUTarget("hip", chip, 64)
    )
    options = {"num_warps": request["warps"], "num_stages": request["stages"]}
    options |= request.get("options", {})
    made = triton.compile(SOURCES[request["kernel"]](request), target=target, options=options)
    text = made.asm["ptx" if vendor == "nvvm" else "amdgcn"]
    return {"text": text, "shared": made.metadata.shared, "version": triton.__version__}


if __name__ == "__main__":
    json.dump([compiled(request) for request in json.load(sys.stdin)], sys.stdout)
