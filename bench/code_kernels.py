"""The kernels whose machine code bench/code.py counts, and what Triton is asked for beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from generate_attention import KEYS, WARPS, Attention  # noqa: E402
from generate_gemm import Gemm  # noqa: E402
from generate_hopper_attention import HopperAttention  # noqa: E402
from generate_hopper_gemm import HopperGemm  # noqa: E402
from nvidia_tiles import TYPES  # noqa: E402
from user_kernels import USERS  # noqa: E402


@dataclass(frozen=True)
class Kernel:
    """One kernel for one target. `multiplications` are those of one warp in one iteration, 0
    where no tensor core works; `triton` is what `triton_peers.py` is given, None without a peer. `threads` are those
    of a block of a kernel as a user writes it, 0 for others; `options` those of `pipeline`."""

    name: str
    target: str
    text: Callable[[], str]
    multiplications: int = 0
    triton: dict[str, Any] | None = None
    threads: int = 0
    options: tuple[tuple[str, Any], ...] = ()


def gemm(target: str, tile: tuple[int, int, int], types: str, stages: int, **more: Any) -> Kernel:
    """A GEMM of `examples/generate_gemm.py`, and Triton's of the same tile and warps, with the `options` of its back end."""
    m, n, k = tile
    options = more.pop("options", {})
    warps = more.pop("warps", (2, 2))
    label = more.pop("label", f"S={stages}")
    chip = target.split(":")[1] if target.startswith("rocdl") else ""
    made = Gemm(
        tile_m=m, tile_n=n, tile_k=k, types=TYPES[types], stages=stages, warps=warps, chip=chip, **more
    )  # fmt: skip
    assert not made.problems(), made.problems()
    count = warps[0] * warps[1]
    peer = {
        "kernel": "gemm", "target": target, "tile": tile, "types": types, "stages": stages,
        "warps": count, "options": options,
    }  # fmt: skip
    # Triton's kernel has no masks, adds nothing, and makes one tile.
    other = bool(more.get("edges") or made.persistent or made.residual)
    name = f"GEMM {m}x{n}x{k} {types} {label}"
    asked = (("overlap_outer", True),) if made.persistent else ()
    return Kernel(
        name, target, made.module, m * n * k // count, None if other else peer, options=asked
    )


def in_place(kernel: Kernel) -> Kernel:
    """The kernel with its fragments loaded in the iteration that multiplies them."""

    def text() -> str:
        stages = "async_pipe.num_stages"
        return kernel.text().replace(stages, f'async_pipe.fragments = "in-place", {stages}')

    return replace(kernel, name=f"{kernel.name} in place", text=text)


def by_roles(kernel: Kernel, roles: str = "specialised") -> Kernel:
    """The kernel with its copies issued by warps of their own; the loop is the consumers'."""

    def text() -> str:
        stages = "async_pipe.num_stages"
        return kernel.text().replace(stages, f'async_pipe.roles = "{roles}", {stages}')

    name = f"{kernel.name}, {'roles' if roles == 'specialised' else roles}"
    return replace(kernel, name=name, text=text)


def in_turn(tile: tuple[int, int, int], b: str, **more: Any) -> Kernel:
    """A persistent GEMM whose tiles two groups take in turn; the loop is that of the group. No peer: what
    Triton makes of a persistent kernel has no such groups."""
    m, n, k = tile
    made = HopperGemm(
        tile_m=m, tile_n=n, tile_k=k, b=b, persistent=True, roles="ping-pong", **more
    )  # fmt: skip
    assert not made.problems(), made.problems()
    name = f"GEMM {m}x{n}x{k} f16 TMA, B by {b}, persistent, ping-pong"
    name += ", TMA store" if made.store == "tma" else ""
    return Kernel(name, SM_90, made.module, m * n * k)


def tensors(tile: tuple[int, int, int], b: str, types: str = "f16", groups: int = 1) -> Kernel:
    """A GEMM of `examples/generate_hopper_gemm.py`, and Triton's by tensor descriptors."""
    m, n, k = tile
    made = HopperGemm(tile_m=m, tile_n=n, tile_k=k, b=b, types=types, warpgroups=groups)
    assert not made.problems(), made.problems()
    peer = {
        "kernel": "tensor copies", "target": SM_90, "tile": tile, "types": types, "b": b,
        "stages": made.stages, "warps": 4 * groups,
    }  # fmt: skip
    # One instruction of wgmma is that of four warps.
    name = f"GEMM {m}x{n}x{k} {types} TMA, B by {b}"
    return Kernel(name, SM_90, made.module, m * n * k // groups, peer)


def stored(tile: tuple[int, int, int], groups: int = 1) -> Kernel:
    """A persistent GEMM whose tiles of C, in f16, go out by a tensor store, and Triton's."""
    kernel = tensors(tile, "k", groups=groups)
    m, n, k = tile
    made = HopperGemm(
        tile_m=m, tile_n=n, tile_k=k, warpgroups=groups, persistent=True, store="tma", out="f16"
    )  # fmt: skip
    assert not made.problems(), made.problems()
    assert kernel.triton is not None
    name = f"{kernel.name}, persistent, TMA store"
    return replace(
        kernel, name=name, text=made.module, triton={**kernel.triton, "stored": made.out}
    )


def attention(features: int, label: str, **more: Any) -> Kernel:
    """Flash attention of `examples/generate_attention.py`, two products an iteration, and Triton's."""
    made = Attention(features=features, **more)
    each = 2 * made.rows * KEYS * features // WARPS
    peer = {
        "kernel": "attention", "target": SM_80, "features": features, "causal": made.causal,
        "stages": made.stages, "warps": WARPS,
    }  # fmt: skip
    return Kernel(f"attention 64x64 D={features} {label}", SM_80, made.module, each, peer)


def tensor_attention(features: int, keys: int, groups: int = 1, **more: Any) -> Kernel:
    """Attention of `examples/generate_hopper_attention.py`, and Triton's by tensor descriptors."""
    made = HopperAttention(features=features, keys=keys, warpgroups=groups, **more)
    assert not made.problems(), made.problems()
    peer = {
        "kernel": "attention by tensor copies", "target": SM_90, "features": features,
        "keys": keys, "causal": made.causal, "stages": made.stages, "warps": 4 * groups,
    }  # fmt: skip
    each = 2 * made.rows * keys * features // groups
    name = f"attention {made.rows}x{keys} D={features} TMA"
    name += " causal" if made.causal else ""
    return Kernel(name, SM_90, made.module, each, peer)


def file(name: str, path: str) -> Kernel:
    """A kernel from a file, without a peer."""
    return Kernel(name, SM_80, partial((ROOT / path).read_text))


SM_80, SM_90 = "nvvm:sm_80", "nvvm:sm_90a"
SQUARE = (128, 128, 32)
# Before the names of kernels that no generator wrote.
WRITTEN = "as written: "
KERNELS: tuple[Kernel, ...] = (
    *(gemm(SM_80, SQUARE, "f16", stages) for stages in range(2, 7)),
    *(in_place(gemm(SM_80, SQUARE, "f16", stages)) for stages in (3, 4)),
    gemm(SM_80, SQUARE, "f16", 4, nested=True, label="nested"),
    gemm(SM_80, SQUARE, "f16", 3, edges=True, label="S=3 edges"),
    *(
        gemm(SM_80, SQUARE, "f16", stages, persistent=True, label=f"S={stages} persistent")
        for stages in (3, 4)
    ),
    gemm(SM_80, SQUARE, "f16", 3, residual="direct", label="S=3 residual"),
    gemm(SM_80, SQUARE, "f16", 3, residual="async", label="S=3 residual async"),
    gemm(
        SM_80,
        SQUARE,
        "f16",
        3,
        residual="async",
        persistent=True,
        label="S=3 residual async persistent",
    ),
    *(gemm(SM_80, (128, 128, 64), "f16", stages) for stages in (3, 4)),
    gemm(SM_80, (64, 64, 32), "f16", 4),
    gemm(SM_80, (64, 64, 64), "f16", 4),
    gemm(SM_80, (128, 64, 32), "f16", 4),
    gemm(SM_80, (128, 256, 32), "f16", 3, warps=(2, 4)),
    gemm(SM_80, (256, 128, 64), "f16", 3, warps=(4, 2)),
    gemm(SM_80, SQUARE, "bf16", 3),
    gemm(SM_80, SQUARE, "tf32", 3),
    gemm(SM_80, (128, 128, 64), "s8", 3),
    *(tensors((128, 128, 64), b) for b in "kn"),
    *(by_roles(tensors((128, 128, 64), b)) for b in "kn"),
    *(in_turn((m, n, 64), b) for m, n in ((128, 128), (64, 256)) for b in "kn"),
    *(in_turn((m, n, 64), "k", store="tma", out="f16") for m, n in ((128, 128), (64, 256))),
    stored((128, 128, 64)),
    by_roles(stored((128, 128, 64))),
    stored((128, 256, 64), groups=2),
    by_roles(stored((128, 256, 64), groups=2)),
    tensors((128, 128, 64), "k", "bf16"),
    *(tensors((128, 256, 64), b, groups=2) for b in "kn"),
    *(by_roles(tensors((128, 256, 64), b, groups=2)) for b in "kn"),
    tensors((128, 256, 64), "n", "bf16", groups=2),
    *(tensors((128, 128, k), "k", "e4m3") for k in (64, 128)),
    *(tensors((128, 256, k), "k", "e4m3", groups=2) for k in (64, 128)),
    tensors((128, 128, 128), "k", "e5m2"),
    tensors((128, 128, 128), "k", "s8"),
    *(tensor_attention(features, 64) for features in (64, 128)),
    tensor_attention(64, 128, groups=2),
    tensor_attention(128, 64, groups=2),
    tensor_attention(128, 128, groups=2, stages=2),
    *(by_roles(tensor_attention(features, 64)) for features in (64, 128)),
    *(
        by_roles(tensor_attention(128, 128, groups=2, stages=2), roles)
        for roles in ("specialised", "alternating")
    ),
    *(tensor_attention(features, 64, causal=True) for features in (64, 128)),
    tensor_attention(128, 128, groups=2, stages=2, causal=True),
    attention(64, "S=2", stages=2),
    *(attention(features, "S=3") for features in (64, 128)),
    *(attention(features, "K and V apart", schedule="apart") for features in (64, 128)),
    *(attention(features, "S=3 causal", causal=True) for features in (64, 128)),
    file("attention tile, f32", "examples/attention_tile.mlir"),
    file("softmax statistics", "bench/kernels/softmax.mlir"),
    file("stencil", "bench/kernels/stencil.mlir"),
    *(gemm("rocdl:gfx942", SQUARE, "f16", stages) for stages in (2, 3)),
    gemm("rocdl:gfx942", SQUARE, "f16", 2, staging="registers", label="S=2 through registers"),
    gemm("rocdl:gfx942", SQUARE, "f16", 3, staging="registers", label="S=3 through registers"),
    *(gemm("rocdl:gfx950", SQUARE, "f16", stages) for stages in (2, 3)),
    *(
        gemm(
            "rocdl:gfx950",
            (256, 256, 32),
            "f16",
            3,
            warps=(2, 4),
            roles=roles,
            label=label,
            options={"matrix_instr_nonkdim": 32},
        )
        for roles, label in (("", "S=3"), ("ping-pong", "S=3, in turn"))
    ),
)


def as_written(name: str) -> Kernel:
    """A kernel of `user_kernels.py`, and Triton's where there is a short one."""
    kernel = USERS[name]
    peer = {
        "kernel": "users", "kind": kernel.triton, "target": SM_80, "stages": 3, "warps": 4,
    }  # fmt: skip
    asked = peer if kernel.triton else None
    return Kernel(WRITTEN + name, SM_80, kernel.text, kernel.products, asked, kernel.threads)


USERS_KERNELS = tuple(map(as_written, USERS))
