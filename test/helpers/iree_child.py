"""Runs on IREE's bindings, in a process of its own: argv names generic MLIR files; prints JSON.

For each: the checker's summary; with `--pipeline` the counts of the pipeline of four stages, what
the checker says of it, and how far a 16 x 16 product on the machine is from NumPy's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from mlir_async_pipe import bindings

bindings.use("iree.compiler")

import mlir_async_pipe  # noqa: E402
from mlir_async_pipe import machine  # noqa: E402
from mlir_async_pipe.bindings import ir  # noqa: E402
from mlir_async_pipe.bindings.raw_ops import ancestors, symbol_name, walk  # noqa: E402
from mlir_async_pipe.chips.target import Target  # noqa: E402


def summary(module: ir.Module, target: Target) -> list[list[int]]:
    """Accesses, unsafe and unknown of each kernel."""
    checks = mlir_async_pipe.check(module, target).of("checks")
    return [[entry.accesses, entry.unsafe, entry.unknown] for entry in checks]


def pipelined(module: ir.Module, target: Target) -> dict[str, object]:
    """What becomes of the first outermost loop with `num_stages = 4`."""
    loops = [op for op in walk(module) if op.name == "scf.for"]
    outer = [op for op in loops if not any(a.name == "scf.for" for a in ancestors(op))]
    mlir_async_pipe.annotate(outer[0], num_stages=4)
    report = mlir_async_pipe.pipeline(module, target)
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((16, 128), (128, 16)))
    (kernel,) = [op for op in walk(module) if op.name == "gpu.func"]
    arguments = [a, b, np.zeros((16, 16), np.float32)]
    result = machine.run(
        module, symbol_name(kernel), arguments, threads=64, completion="late", target=target
    )
    return {
        "counts": [record.count for record in report.of("waits")],
        "relaxed": [[r.before, r.after] for r in report.of("relaxed")],
        "checks": summary(module, target),
        "races": len(result.races),
        "error": float(np.abs(result.arrays[2] - a @ b).max()),
    }


def main(paths: list[str]) -> None:
    """Print one JSON object: file name to what was found."""
    wanted = "--pipeline" in paths
    found = {}
    for path in (Path(p) for p in paths if not p.startswith("--")):
        chip = "rocdl:gfx950" if path.name.startswith("amd") else "nvvm:sm_80"
        target = Target.parse(chip)
        module = ir.Module.parse(path.read_text(), bindings.new_context())
        found[path.stem] = pipelined(module, target) if wanted else summary(module, target)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
