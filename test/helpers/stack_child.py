"""Tries the package's calls in the bindings of one stack; each alone, so that one may fail.

python stack_child.py STACK     JSON: for each call what came of it, "" where it worked
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mlir_async_pipe

EXAMPLE = (Path(__file__).parents[2] / "examples" / "add_one.mlir").read_text()
TARGET = "nvvm:sm_80"
DISTRIBUTIONS = {
    "numba-cuda-mlir": "numba-cuda-mlir",
    "torch-mlir": "torch-mlir",
    "flydsl": "flydsl",
    "iree": "iree-base-compiler",
    "jaxlib": "jaxlib",
    "cutlass": "nvidia-cutlass-dsl",
}


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise ValueError(f"{found}, expected {wanted}")


def main(stack: str) -> None:
    """Say what works."""
    mlir_async_pipe.use(stack)
    from mlir_async_pipe import machine
    from mlir_async_pipe.bindings import ir, load, new_context

    def parse() -> Any:
        return ir.Module.parse(EXAMPLE)

    def pipelined() -> Any:
        module = parse()
        mlir_async_pipe.pipeline(module, target=TARGET)
        return module

    def counts() -> None:
        report = mlir_async_pipe.count_waits(pipelined(), target=TARGET)
        expect([entry.count for entry in report.of("waits")], [1, 1, 0])

    def check() -> None:
        (kernel,) = mlir_async_pipe.check(pipelined(), target=TARGET).of("checks")
        expect((kernel.unsafe, kernel.unknown), (0, 0))

    def run() -> None:
        x = np.arange(8192, dtype=np.float32)
        found = machine.run(pipelined(), None, [x, np.zeros_like(x)], completion="late")
        expect((len(found.races), bool(np.array_equal(found.arrays[1], x + 1))), (0, True))

    def raise_loops() -> None:
        run_pass = mlir_async_pipe.as_pass("async-pipe-raise-loops")
        manager = load("passmanager").PassManager("builtin.module")
        manager.add(run_pass, name="raise-loops")
        manager.run(pipelined().operation)

    def patterns() -> None:
        module = parse()
        found = mlir_async_pipe.patterns(target=TARGET)
        load("rewrite").apply_patterns_and_fold_greedily(module, found.freeze())
        expect("numGroups = 1" in str(module), True)

    def ptx() -> None:
        text = mlir_async_pipe.lower(pipelined(), target=TARGET, emit="ptx").text
        expect("cp.async.wait_group" in text, True)

    def isa() -> None:
        module = parse()
        mlir_async_pipe.pipeline(module, target="rocdl:gfx950")
        code = mlir_async_pipe.lower(module, target="rocdl:gfx950", emit="isa")
        expect(len(code.waits) > 0, True)

    def written() -> None:
        text = (
            "gpu.module @m { gpu.func @k(%a : memref<?x64xf32> {llvm.noalias}, %b : memref<64xf32>) "
            "kernel attributes {known_block_size = array<i32: 64, 1, 1>} { %t = gpu.thread_id x "
            "%zero = arith.constant 0.0 : f32 %c7 = arith.constant 7 : index gpu.return } }"
        )
        module = ir.Module.parse(text)
        kernel = module.body.operations[0].regions[0].blocks[0].operations[0]
        block = kernel.regions[0].blocks[0]
        thread, zero, rows, end = (op.operation for op in block.operations)

        def op(name: str, *operands: Any) -> Any:
            kinds = [ir.F32Type.get()] if name != "memref.store" else []
            made = ir.Operation.create(name, results=kinds, operands=list(operands))
            return made.results[0] if kinds else None

        def add(row: Any, slot: Any, total: Any) -> Any:
            return op("arith.addf", total, op("memref.load", slot, thread.results[0]))

        with ir.InsertionPoint(end), ir.Location.unknown():
            pipe = mlir_async_pipe.Pipeline(3)
            pipe.buffer(64, "f32")

            def copy(row: Any, slot: Any) -> None:
                mlir_async_pipe.copy_tile(block.arguments[0], slot, at=(row, 0))

            total = pipe.loop(0, rows.results[0], 1, copy, add, ir.Value(zero.results[0]))
            op("memref.store", total, block.arguments[1], thread.results[0])
        report = mlir_async_pipe.pipeline(module, target=TARGET)
        expect([entry.count for entry in report.of("waits")], [1, 1, 0])
        x = np.arange(7 * 64, dtype=np.float32).reshape(7, 64)
        run = machine.run(module, "k", [x, np.zeros(64, np.float32)], completion="late")
        expect((len(run.races), bool(np.array_equal(run.arrays[1], x.sum(0)))), (0, True))

    found: dict[str, str] = {}
    steps: dict[str, Callable[[], object]] = {
        "parse": parse, "pipeline": pipelined, "counts": counts, "check": check,
        "machine": run, "object": written, "as_pass": raise_loops, "patterns": patterns, "ptx": ptx, "isa": isa,
    }  # fmt: skip
    for name, step in steps.items():
        with new_context():
            try:
                step()
                found[name] = ""
            except Exception as error:
                found[name] = getattr(error, "code", "") or type(error).__name__
    print(json.dumps({"version": importlib.metadata.version(DISTRIBUTIONS[stack]), **found}))


if __name__ == "__main__":
    main(sys.argv[1])
