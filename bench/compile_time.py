"""How long the tool takes: whole processes, each part of one, and growth with the input.

    python bench/compile_time.py [--runs N] [--json FILE]

Times are milliseconds, the smallest and the median of N runs: wall-clock time, and for whole
processes also processor time, with that of the processes they start (back end, ptxas), which says
more where the machine is shared. The commands take turns, so that all see the same load. Growth is measured on modules with 1, 2, 4, … copies of the GEMM, inside one
process: a pass that is linear keeps its milliseconds a GEMM.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

# What an earlier run or call left would be measured instead.
os.environ["MLIR_ASYNC_PIPE_CACHE"] = "off"

ROOT = Path(__file__).resolve().parents[1]
GEMM = ROOT / "examples" / "gemm.mlir"
TARGET = "--target=nvvm:sm_80"
COPIES = (1, 2, 4, 8)


def main() -> int:
    """Measure, print, and write JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = {
        "processes": processes(arguments.runs),
        "parts": parts(arguments.runs),
        "growth": growth(arguments.runs),
    }
    show(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def processes(runs: int) -> dict[str, dict[str, float]]:
    """Milliseconds of whole processes on the GEMM."""
    commands = {
        "start (--version)": ["--version"],
        "parse and print": [str(GEMM)],
        "pipeline": [str(GEMM), "--async-pipe", TARGET],
        "pipeline, PTX": [str(GEMM), "--async-pipe", TARGET, "--emit=ptx"],
        "pipeline, cubin": [str(GEMM), "--async-pipe", TARGET, "--emit=cubin"],
    }
    wall: dict[str, list[float]] = {name: [] for name in commands}
    processor: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, words in commands.items():
            before = children_milliseconds()
            wall[name].append(measured(partial(tool, *words)))
            processor[name].append(children_milliseconds() - before)
    return {
        name: {
            "wall, smallest": min(wall[name]),
            "wall, median": median(wall[name]),
            "processor, smallest": min(processor[name]),
            "processor, median": median(processor[name]),
        }
        for name in commands
    }


def children_milliseconds() -> float:
    """Processor time of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (used.ru_utime + used.ru_stime)


def parts(runs: int) -> dict[str, float]:
    """Milliseconds of each row of --mlir-timing, in the quickest of `runs` runs."""
    passes = "schedule expand count-waits simplify-waits check".split()
    words = [f"--async-pipe-{name}" for name in passes]
    best: dict[str, float] = {}
    for _ in range(runs):
        text = tool(str(GEMM), *words, TARGET, "--emit=ptx", "--mlir-timing").stderr
        rows = re.findall(r"^\s*([\d.]+) \([ \d.]+%\)\s+(.+)$", text, re.MULTILINE)
        found = {name: 1000 * float(seconds) for seconds, name in rows}
        if not best or found["Total"] < best["Total"]:
            best = found
    return best


def growth(runs: int) -> dict[str, dict[str, float]]:
    """Milliseconds a GEMM of `pipeline` in this process, by the number of GEMMs in the module."""
    import mlir_async_pipe
    from mlir_async_pipe.bindings import ir, new_context

    text = GEMM.read_text()
    start, end = text.index("  gpu.func"), text.rindex("}\n}")
    kernel = text[start:end]
    found: dict[str, dict[str, float]] = {"pipeline": {}}
    for copies in COPIES:
        kernels = "".join(kernel.replace("@gemm", f"@gemm_{n}", 1) for n in range(copies))
        with new_context() as context:
            context.attach_diagnostic_handler(lambda _: True)
            module = ir.Module.parse(text[:start] + kernels + text[end:])
            fresh = [ir.Module.parse(str(module)) for _ in range(max(1, runs // 2))]
            took = [measured(partial(mlir_async_pipe.pipeline, each)) for each in fresh]
        found["pipeline"][str(copies)] = min(took) / copies
    return found


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the tool as a process; its output goes nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mlir_async_pipe.tool", *words, "-o", f"{folder}/out"]
        return subprocess.run(command, check=True, capture_output=True, text=True)


def measured(work: Callable[[], Any]) -> float:
    """The time of one call, in milliseconds."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def show(results: dict[str, Any]) -> None:
    """Print the results as tables."""
    print("\nwhole process, milliseconds")
    for name, values in results["processes"].items():
        print("  " + "".join(f"{value:8.0f}" for value in values.values()) + f"  {name}")
    print("  " + ", then ".join(values))
    print("\nparts of one process with PTX, milliseconds")
    for name, value in results["parts"].items():
        print(f"  {value:8.1f}  {name}")
    for name, values in results["growth"].items():
        print(f"\n{name}, milliseconds a GEMM")
        for copies, value in values.items():
            print(f"  {value:8.1f}  with {copies} in the module")


if __name__ == "__main__":
    sys.exit(main())
