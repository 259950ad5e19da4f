"""In torch-mlir: count and check between the host's own passes, without any GPU back end.

    python examples/embedding/torch_mlir_passes.py

Handles to ops are dead after every pass; the module stays.
"""

from __future__ import annotations

from pathlib import Path

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

import mlir_async_pipe

SOURCE = Path(__file__).parent.parent / "add_one.mlir"


def main() -> None:
    """Pipeline, clean up with MLIR's passes, count again, check."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(SOURCE.read_text())
        mlir_async_pipe.pipeline(module)
        PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        report = mlir_async_pipe.count_waits(module)
        print(f"counts: {[record.count for record in report.of('waits')]}")
        hazards = mlir_async_pipe.check(module).of("hazards")
        print(f"{len(hazards)} hazards")


if __name__ == "__main__":
    main()
