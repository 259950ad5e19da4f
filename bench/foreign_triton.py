"""Makes a folder of kernels as Triton lowers them: MLIR's LLVM dialect, before it becomes LLVM IR.

    python -m venv triton && triton/bin/pip install triton numpy
    triton/bin/python bench/foreign_triton.py FOLDER [--chips sm_80,sm_90,gfx950]

No GPU is needed. Kernels are those that Triton's tutorials and users write: sums, norms, softmax, products
of matrices, attention. One file a kernel and chip; what Triton does not compile is named and left out.
`bench/foreign.py` reads the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import triton
import triton.backends.amd.compiler as amd
import triton.backends.nvidia.compiler as nvidia
import triton.language as tl
import triton_attention
import triton_gemm
from triton._C.libtriton import llvm
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# fmt: off

@triton.jit
def add(x, y, z, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, y, row, n, B: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + r * row + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * row + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def softmax_rows(x, y, rows, row, n, B: tl.constexpr):
    for r in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=3):
        i = tl.arange(0, B)
        v = tl.load(x + r * row + i, mask=i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + r * row + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def layer_norm(x, y, w, b, row, n, B: tl.constexpr):
    r = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for first in range(0, n, B):
        at = first + tl.arange(0, B)
        total += tl.load(x + r * row + at, mask=at < n, other=0.0)
    mean = tl.sum(total, 0) / n
    square = tl.zeros((B,), tl.float32)
    for first in range(0, n, B):
        at = first + tl.arange(0, B)
        v = tl.where(at < n, tl.load(x + r * row + at, mask=at < n, other=0.0) - mean, 0.0)
        square += v * v
    scale = 1 / tl.sqrt(tl.sum(square, 0) / n + 1e-5)
    for first in range(0, n, B):
        at = first + tl.arange(0, B)
        v = (tl.load(x + r * row + at, mask=at < n, other=0.0) - mean) * scale
        tl.store(y + r * row + at, v * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


@triton.jit
def rms_norm(x, y, w, row, n, B: tl.constexpr):
    r, at = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + r * row + at, mask=at < n, other=0.0)
    v = v * tl.rsqrt(tl.sum(v * v, 0) / n + 1e-6) * tl.load(w + at, mask=at < n)
    tl.store(y + r * row + at, v, mask=at < n)


@triton.jit
def row_sums(x, y, row, R: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    v = tl.load(x + r[:, None] * row + tl.arange(0, B)[None, :])
    tl.store(y + r, tl.sum(v, 1))


@triton.jit
def prefix_sums(x, y, row, B: tl.constexpr):
    at = tl.program_id(0) * row + tl.arange(0, B)
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def transpose(x, y, rows, columns, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r[:, None] * columns + c[None, :])
    tl.store(y + c[:, None] * rows + r[None, :], tl.trans(v))


@triton.jit
def gather_rows(x, which, y, row, B: tl.constexpr):
    i, at = tl.program_id(0), tl.arange(0, B)
    tl.store(y + i * B + at, tl.load(x + tl.load(which + i) * row + at))


@triton.jit
def histogram(x, counts, n, B: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + v % BINS, 1, mask=at < n)


@triton.jit
def matmul(
    a, b, c, M, N, K, am, bk, cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr, ST: tl.constexpr,
):
    """The order of blocks and the masks of the tutorial."""
    number, rows, columns = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = number // (G * columns)
    height = min(rows - group * G, G)
    i = group * G + number % (G * columns) % height
    j = number % (G * columns) // height
    m, n, k = (i * BM + tl.arange(0, BM)) % M, (j * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    pa, pb = a + m[:, None] * am + k[None, :], b + k[:, None] * bk + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, tl.cdiv(K, BK), num_stages=ST):
        left = tl.load(pa, mask=k[None, :] < K - step * BK, other=0.0)
        right = tl.load(pb, mask=k[:, None] < K - step * BK, other=0.0)
        total = tl.dot(left, right, total)
        pa += BK
        pb += BK * bk
    m, n = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    at = c + m[:, None] * cm + n[None, :]
    tl.store(at, total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def batched(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ST: tl.constexpr):
    z = tl.program_id(0)
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in tl.range(0, K, BK, num_stages=ST):
        left = tl.load(a + z * BM * K + m[:, None] * K + first + k[None, :])
        right = tl.load(b + z * K * BN + (first + k[:, None]) * BN + n[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + z * BM * BN + m[:, None] * BN + n[None, :], total)


@triton.jit
def split_k(a, b, c, K, am, bk, cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ST: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    pa, pb = a + m[:, None] * am + k[None, :], b + k[:, None] * bk + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in tl.range(0, K, BK * tl.num_programs(1), num_stages=ST):
        total = tl.dot(tl.load(pa), tl.load(pb), total)
        pa += BK * tl.num_programs(1)
        pb += BK * tl.num_programs(1) * bk
    tl.atomic_add(c + m[:, None] * cm + n[None, :], total)

# fmt: on


F16, F32, INT = "*fp16", "*fp32", "i32"
TILE = {"BM": 64, "BN": 64, "BK": 32, "ST": 3}


def row(names: str, *, of: str = F32) -> dict[str, str]:
    """Arrays by names, then numbers: row("x y / n") is two arrays and a number."""
    arrays, _, numbers = names.partition("/")
    return {**dict.fromkeys(arrays.split(), of), **dict.fromkeys(numbers.split(), INT)}


KERNELS: dict[str, tuple[Any, dict[str, str], dict[str, Any]]] = {
    "add": (add, row("x y z / n"), {"B": 1024}),
    "softmax": (softmax, row("x y / row n"), {"B": 1024}),
    "softmax_rows": (softmax_rows, row("x y / rows row n"), {"B": 1024}),
    "layer_norm": (layer_norm, row("x y w b / row n"), {"B": 1024}),
    "rms_norm": (rms_norm, row("x y w / row n"), {"B": 2048}),
    "row_sums": (row_sums, row("x y / row"), {"R": 16, "B": 256}),
    "prefix_sums": (prefix_sums, row("x y / row"), {"B": 1024}),
    "transpose": (transpose, row("x y / rows columns"), {"B": 64}),
    "gather_rows": (gather_rows, {"x": F32, "which": "*i32", "y": F32, "row": INT}, {"B": 256}),
    "histogram": (histogram, row("x counts / n", of="*i32"), {"B": 1024, "BINS": 256}),
    "matmul": (matmul, row("a b c / M N K am bk cm", of=F16), {**TILE, "G": 8}),
    "batched": (batched, {**row("a b", of=F16), **row("c / K")}, TILE),
    "split_k": (split_k, {**row("a b", of=F16), **row("c / K am bk cm")}, TILE),
}
# The peers of docs/code.md.
REQUESTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gemm_f16": (triton_gemm, {"types": "f16", "tile": (64, 64, 32)}),
    "gemm_f16_large": (triton_gemm, {"types": "f16", "tile": (128, 128, 32)}),
    "gemm_bf16": (triton_gemm, {"types": "bf16", "tile": (64, 128, 32)}),
    "gemm_s8": (triton_gemm, {"types": "s8", "tile": (64, 64, 64)}),
    "attention": (triton_attention, {"features": 64, "causal": False}),
    "attention_causal": (triton_attention, {"features": 64, "causal": True}),
}


def sources() -> dict[str, tuple[ASTSource, int]]:
    """Each kernel and the stages that it is compiled with."""
    found = {}
    for name, (function, kinds, constants) in KERNELS.items():
        signature = {**kinds, **dict.fromkeys(constants, "constexpr")}
        attributes = {(number,): [["tt.divisibility", 16]] for number in range(len(kinds))}
        made = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
        found[name] = made, constants.get("ST", 3)
    for name, (module, request) in REQUESTS.items():
        found[name] = module.source(request), 3
    return found


class Dumped:
    """Triton's bindings of LLVM, which keep the module that is translated."""

    text = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(llvm, name)

    def to_module(self, module: Any, context: Any) -> Any:
        Dumped.text = module.str_nodebug() if hasattr(module, "str_nodebug") else str(module)
        return llvm.to_module(module, context)


def main() -> None:
    """Compile each kernel for each chip."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chips", default="sm_80,sm_90")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    nvidia.llvm = amd.llvm = Dumped()
    triton.knobs.compilation.always_compile = True
    for chip in options.chips.split(","):
        number = chip.removeprefix("sm_")
        target = (
            GPUTarget("cuda", int(number), 32) if number != chip else GPUTarget("hip", chip, 64)
        )
        for name, (source, stages) in sources().items():
            if options.only not in name:
                continue
            try:
                triton.compile(
                    source, target=target, options={"num_warps": 4, "num_stages": stages}
                )
            except Exception as error:
                print(f"{chip} {name}: {type(error).__name__}: {str(error)[:200]}")
                continue
            (options.folder / f"{chip}.{name}.mlir").write_text(Dumped.text)
            print(f"{chip} {name}")


if __name__ == "__main__":
    main()
