"""In numba-cuda-mlir: annotate a loop of a module that is already there, pipeline it, get PTX.

    python examples/embedding/numba_cuda_mlir_ptx.py

The bindings are those that the host program has imported; nothing is chosen here.
"""

from __future__ import annotations

from pathlib import Path

from numba_cuda_mlir._mlir import ir

import mlir_async_pipe

SOURCE = Path(__file__).parent.parent / "add_one.mlir"


def main() -> None:
    """Replace the loop's annotation, pipeline, lower, and show the waits of both forms."""
    with ir.Context() as context:
        # The abstract ops are registered nowhere; copies do not need them, computations do.
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(SOURCE.read_text())
        (loop,) = mlir_async_pipe.find_loops(module)
        mlir_async_pipe.annotate(loop, num_stages=4)
        report = mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        for record in report.of("loops"):
            print(f"{record.stages} stages, {[b.versions for b in record.buffers]} versions")
        code = mlir_async_pipe.lower(module, target="nvvm:sm_80", emit="ptx")
        print(f"waits in the PTX: {code.kernels[0].ptx.waits}")


if __name__ == "__main__":
    main()
