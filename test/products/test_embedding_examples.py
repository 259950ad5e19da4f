"""The embedding examples run in each stack that is installed, each in a process of its own.

Covers: examples/embedding
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import bindings

pytestmark = pytest.mark.slow

EXAMPLES = [
    ("numba-cuda-mlir", "embedding/numba_cuda_mlir_ptx.py", "waits in the PTX: (2, 2, 2, 1, 0)"),
    ("torch-mlir", "embedding/torch_mlir_passes.py", "counts: [1, 1, 0]\n0 hazards"),
    (
        "torch-mlir",
        "embedding/torch_mlir_linalg.py",
        "1 loops, 0 unsafe, 0 unknown\nas NumPy: True, 0 races",
    ),
    ("torch-mlir", "embedding/linalg_front_end.py", "softmax: 4 loops, proven"),
    ("flydsl", "embedding/flydsl_isa.py", "3 waits,"),
    ("numba-cuda-mlir", "embedding/numba_user_kernels.py", "largest: copies [1, 1, 0], proven"),
    (
        "numba-cuda-mlir",
        "embedding/numba_kernels.py",
        "matmul: 1 loops, 6 cp.async, counts [1, 1, 0]",
    ),
    ("numba-cuda-mlir", "pipelined_sum.py", "sum 3160.0, NumPy 3160.0, 0 races"),
]

ELSEWHERE = {
    "flydsl_kernels.py": "needs torch and ROCm's linker; test_flydsl_hook.py does without",
    "cute_kernels.py": "needs CuTe DSL; test_cutlass_hook.py runs it",
    "pallas_kernels.py": "needs JAX; test_pallas_hook.py runs it",
    "triton_kernels.py": "needs Triton, which has no bindings for others; test_triton_hook.py runs it",
}


@pytest.mark.parametrize(("stack", "example", "said"), EXAMPLES)
def test_the_example_runs_where_its_stack_is_installed(stack: str, example: str, said: str) -> None:
    if stack not in {found.name for found in bindings.installed()}:
        pytest.skip(f"{stack} is not installed")
    environment = {k: v for k, v in os.environ.items() if k != bindings.ENVIRONMENT_VARIABLE}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_every_embedding_example_is_run() -> None:
    files = {file.name for file in (ROOT / "examples" / "embedding").glob("*.py")}
    run = {Path(example).name for _, example, _ in EXAMPLES if "/" in example}
    assert files == run | set(ELSEWHERE)
