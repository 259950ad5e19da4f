"""Runs a kernel on the machine for both vendors, under every completion, against NumPy.

Shared by the examples of this folder: each has a `build()`, and `main()` hands it to `judge`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, load, new_context

TARGETS = ("nvvm:sm_80", "rocdl:gfx950", "rocdl:gfx942")
COMPLETIONS = ("eager", "late", "random")


def dialects() -> Any:
    """The op classes of the dialects that the examples write: `d.arith`, `d.scf`, …"""
    names = ("arith", "gpu", "math", "memref", "scf", "vector")
    return SimpleNamespace(**{name: load(f"dialects.{name}") for name in names})


def kernel(name: str, arguments: Sequence[str], threads: int) -> tuple[Any, Any, Any]:
    """A module with an empty kernel, the kernel's arguments, and the point to write at."""
    listed = ", ".join(f"%{i} : {kind} {{llvm.noalias}}" for i, kind in enumerate(arguments))
    module = ir.Module.parse(
        f"gpu.module @kernels {{ gpu.func @{name}({listed}) kernel attributes "
        f"{{known_block_size = array<i32: {threads}, 1, 1>}} {{ gpu.return }} }}"
    )
    block = module.body.operations[0].regions[0].blocks[0].operations[0].regions[0].blocks[0]
    return module, block.arguments, ir.InsertionPoint(block.operations[0])


def judge(
    build: Callable[[], Any],
    name: str,
    arrays: Sequence[Any],
    expected: Any,
    *,
    threads: int,
    grid: tuple[int, int, int] = (1, 1, 1),
    targets: Sequence[str] = TARGETS,
) -> list[str]:
    """What became of the kernel, a line a target; raises AssertionError where it is not right.
    Its last array is the result."""
    lines = []
    for target in targets:
        with new_context():
            module = build()
            report = mlir_async_pipe.pipeline(module, target=target)
            for completion in COMPLETIONS:
                done = machine.run(
                    module, name, list(arrays), threads=threads, grid=grid, completion=completion
                )
                assert not done.races, done.races[0]
                np.testing.assert_allclose(done.arrays[-1], expected, rtol=2e-5, atol=2e-5)
            code = mlir_async_pipe.lower(
                module, target=target, emit="ptx" if target.startswith("nvvm") else "isa"
            )
        (checked,) = report.of("checks")
        assert checked.unsafe == checked.unknown == 0, checked
        counts = [wait.count for wait in report.of("waits")]
        copies = code.text.count("cp.async.c") + code.text.count("load_lds")
        lines.append(f"{target}: waits {counts}, {checked.accesses} accesses safe, {copies} copies")
    return lines
