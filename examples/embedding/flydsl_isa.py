"""In flydsl: the same loop for an AMD chip, down to assembly in a child process.

    python examples/embedding/flydsl_isa.py

`use` names the stack before anything else chooses one; in a program that has imported flydsl
already it may be left out.
"""

from __future__ import annotations

from pathlib import Path

import mlir_async_pipe

mlir_async_pipe.use("flydsl")

from mlir_async_pipe.bindings import ir, new_context  # noqa: E402 - the stack comes first

SOURCE = Path(__file__).parent.parent / "add_one.mlir"
TARGET = "rocdl:gfx950"


def main() -> None:
    """Pipeline and lower, and show what became of each wait."""
    with new_context():
        module = ir.Module.parse(SOURCE.read_text())
        mlir_async_pipe.pipeline(module, target=TARGET)
        code = mlir_async_pipe.lower(module, target=TARGET, emit="isa")
        print(f"{len(code.waits)} waits, {len(code.text.splitlines())} lines of assembly")


if __name__ == "__main__":
    main()
