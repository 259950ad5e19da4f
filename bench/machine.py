"""Wall time of the machine on one block of the example GEMM, by stages and completion.

    python bench/machine.py [K]

What was asked for: below 10 s for K = 256 with 128 threads.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from mlir_async_pipe import api, machine
from mlir_async_pipe.bindings import ir, new_context

GENERATOR = Path(__file__).parent.parent / "examples" / "generate_gemm.py"


def gemm(stages: int) -> str:
    """The example with that many buffers, as the generator prints it."""
    command = [sys.executable, str(GENERATOR), f"--stages={stages}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main(depth: int) -> None:
    """Print a table."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((128, depth)).astype(np.float16) for _ in range(2))
    print(f"one block of 128x128x{depth}, 128 threads, seconds\n")
    print("| stages | eager | late | random |\n|---|---|---|---|")
    with new_context():
        for stages in (1, 2, 3, 4, 5):
            module = ir.Module.parse(gemm(stages))
            if stages > 1:
                api.pipeline(module, target="nvvm:sm_80")
            times = []
            for completion in ("eager", "late", "random"):
                begin = time.perf_counter()
                c = np.zeros((128, 128), np.float32)
                machine.run(module, "gemm", [a, b, c], threads=128, completion=completion)
                times.append(time.perf_counter() - begin)
            print(f"| {stages} | " + " | ".join(f"{seconds:.2f}" for seconds in times) + " |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 256)
