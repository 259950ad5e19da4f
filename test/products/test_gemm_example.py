"""The generated GEMMs compute C = A * B^T, before any pipelining.

Covers: examples/generate_gemm.py
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from helpers.gemm_kernels import EXAMPLES, gemm_text, run_gemm
from mlir_async_pipe.bindings import ir, new_context


def test_the_example_is_what_the_generator_prints() -> None:
    assert (EXAMPLES / "gemm.mlir").read_text() == gemm_text()


def test_the_example_carries_the_annotation_and_one_group_an_iteration() -> None:
    text = gemm_text("--stages=5")
    assert "async_pipe.num_stages = 5 : i64" in text
    assert text.count("nvgpu.device_async_create_group") == 1
    assert text.count("nvgpu.device_async_copy") == 8
    assert "numGroups" not in text


@pytest.mark.parametrize(
    ("options", "types", "shape", "grid"),
    [
        ([], "f16", (256, 128, 32), (1, 2)),
        (["--tile-m=64", "--tile-n=64", "--shared=alloc"], "f16", (64, 128, 64), (2, 1)),
        (["--tile-m=64", "--tile-n=64", "--shared=global"], "f16", (64, 64, 64), (1, 1)),
        (["--groups=operand"], "f16", (128, 128, 64), (1, 1)),
        (["--tile-k=64", "--types=bf16"], "bf16", (128, 128, 64), (1, 1)),
        (["--tile-k=16", "--types=tf32"], "tf32", (128, 128, 32), (1, 1)),
        (["--tile-k=64", "--types=s8"], "s8", (128, 128, 64), (1, 1)),
        (["--tile-m=64", "--tile-n=64", "--edges"], "f16", (100, 90, 40), (2, 2)),
    ],
)
def test_the_gemm_computes_the_product(
    options: list[str], types: str, shape: tuple[int, int, int], grid: tuple[int, int]
) -> None:
    with new_context():
        module = ir.Module.parse(gemm_text(*options))
        result, right = run_gemm(module, shape, grid, types=types)
    assert right
    assert result.races == ()


@pytest.mark.parametrize(
    "options",
    [
        ["--tile-k=24"],
        ["--tile-m=72"],
        ["--stages=0"],
        ["--warps-m=3"],
        ["--residual=async", "--edges"],
        ["--residual=async", "--types=bf16"],
    ],
)
def test_impossible_sizes_are_refused(options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "generate_gemm.py"), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error:" in done.stderr
