"""Makes a folder of kernels that JAX's Pallas lowers with Mosaic GPU, without a GPU.

    python -m venv pallas && pallas/bin/pip install "jax[cuda12]" absl-py
    PYTHONPATH=$PWD pallas/bin/python -P bench/foreign_pallas.py FOLDER

(-P: bench/code.py is not the library's `code`.) They are the kernels that come with jax: products and attention for
Hopper, products for Blackwell. What is written is what `mlir_async_pipe.hooks.pallas` checks. `bench/foreign.py` reads
the folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.experimental.mosaic.gpu.core as mosaic
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import (
    attention_mgpu,
    blackwell_matmul_mgpu,
    hopper_matmul_mgpu,
)

import mlir_async_pipe

HOPPER, BLACKWELL = (9, 0), (10, 0)
PROCESSORS = 132


def kernels() -> dict[str, tuple[tuple[int, int], Callable[..., Any], tuple[Any, ...]]]:
    """The chip, the function and the arguments of each kernel."""
    square = jax.ShapeDtypeStruct((4096, 4096), jnp.float16)
    heads = jax.ShapeDtypeStruct((1, 4096, 4, 128), jnp.float16)
    tiles = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "max_concurrent_steps": 4}
    hopper = hopper_matmul_mgpu.TuningConfig(**tiles)
    cluster = dataclasses.replace(hopper, cluster_dimension=hopper_matmul_mgpu.MatmulDimension.M)
    blackwell = blackwell_matmul_mgpu.TuningConfig(**tiles, collective=False)
    attention = attention_mgpu.TuningConfig(block_q=64, block_kv=128, max_concurrent_steps=2)
    both, three = (square, square), (heads, heads, heads)
    return {
        "hopper_matmul": (
            HOPPER, lambda a, b: hopper_matmul_mgpu.matmul(a, b, None, hopper), both,
        ),
        "hopper_matmul_cluster": (
            HOPPER, lambda a, b: hopper_matmul_mgpu.matmul(a, b, None, cluster), both,
        ),
        "hopper_attention": (
            HOPPER, lambda *x: attention_mgpu._attention_forward(*x, attention), three,
        ),
        "hopper_attention_pipeline": (
            HOPPER, lambda *x: attention_mgpu.attention_with_pipeline_emitter(*x, attention), three,
        ),
        "blackwell_matmul": (
            BLACKWELL, lambda a, b: blackwell_matmul_mgpu.matmul_kernel(a, b, blackwell), both,
        ),
    }  # fmt: skip


class Keep(mlir_async_pipe.hooks.pallas):  # type: ignore[misc, name-defined]
    """Writes the module of a kernel in place of checking it."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.out = out

    def _check(self, kernel: str, target: str, read: Callable[[], Any]) -> None:
        self.out.write_text(read().operation.get_asm(assume_verified=True))


def main() -> None:
    """Lower each kernel, and keep its module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for module in (hopper_matmul_mgpu, blackwell_matmul_mgpu):
        module.get_num_sms = lambda: PROCESSORS
    attention_mgpu.cuda_versions = SimpleNamespace(cuda_runtime_get_version=lambda: 13000)
    for name, (chip, function, arguments) in kernels().items():
        mosaic._infer_arch = lambda chip=chip: chip
        try:
            with Keep(folder / f"{name}.mlir"):
                jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",))
        except Exception as error:
            print(name, type(error).__name__, str(error)[:200])
        print(name, "written" if (folder / f"{name}.mlir").exists() else "not written")


if __name__ == "__main__":
    main()
