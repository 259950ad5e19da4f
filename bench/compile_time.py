"""How long the tool takes: whole processes, each part of one, and growth with the input.

    python bench/compile_time.py [--runs N] [--json FILE]

Times are milliseconds, the smallest and the median of N runs: wall-clock time, and for whole
processes also processor time, with that of the processes they start (back end, ptxas), which says
more where the machine is shared. The commands take turns, so that all see the same load. Growth is measured on modules with 1, 2, 4, … copies of the GEMM, inside one
process: a pass that is linear keeps its milliseconds a GEMM. The lowering is measured on one loop of 64 to
1024 products, by processor time: of this process, MLIR's conversions among it, and of the back end's; `pipeline` of
GEMMs that store 16 to 256 single elements at `(row + 16 i) * n + column`, by processor time.
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
# Tiles of one warp, by the products of 16x8x16 in an iteration.
PRODUCTS = {
    64: (64, 64, 32), 128: (64, 64, 64), 256: (64, 64, 128), 512: (64, 64, 256), 1024: (128, 128, 128),
}  # fmt: skip
# Tiles of one warp, by the elements that a thread stores of them.
STORES = {16: (32, 16), 32: (32, 32), 64: (64, 32), 128: (64, 64), 256: (128, 64)}


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
        "products": by_products(arguments.runs),
        "stores": by_stores(arguments.runs),
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


def by_products(runs: int) -> dict[str, dict[str, float]]:
    """Microseconds a product of lowering one loop to PTX, by the number of its products."""
    sys.path.insert(0, str(ROOT / "examples"))
    from generate_gemm import Gemm

    import mlir_async_pipe
    from mlir_async_pipe.bindings import ir, new_context
    from mlir_async_pipe.chips.target import Target
    from mlir_async_pipe.lowering.lower import CodeOptions, lower

    target, options = Target.parse("nvvm:sm_80"), CodeOptions(resources=False)
    # The session's clock too: MLIR's conversions are a step of this process.
    time.perf_counter = time.process_time
    found = {}
    for products, (m, n, k) in PRODUCTS.items():
        with new_context():
            made = Gemm(tile_m=m, tile_n=n, tile_k=k, warps=(1, 1), stages=2)
            module = ir.Module.parse(made.module())
            mlir_async_pipe.pipeline(module, target=target)
            lower(module, target=target, options=options)
            each: list[dict[str, float]] = []
            for _ in range(runs):
                ours, child = time.process_time(), back_end_seconds()
                lowered = lower(module, target=target, options=options)
                own, convert = time.process_time() - ours, lowered.seconds["convert"]
                each.append({
                    "ours": own - convert, "MLIR's conversions": convert, "LLVM": back_end_seconds() - child,
                })  # fmt: skip
        found[str(products)] = {
            name: 1e6 * min(one[name] for one in each) / products for name in each[0]
        }
    return found


def by_stores(runs: int) -> dict[str, dict[str, float]]:
    """Milliseconds of `pipeline`, by the stores of a thread, of one tile and of tile after tile."""
    import mlir_async_pipe
    from mlir_async_pipe.bindings import ir, new_context

    found: dict[str, dict[str, float]] = {}
    for stores in STORES:
        found[str(stores)] = {}
        for name, persistent in (("one tile", False), ("persistent", True)):
            text, took = element_stores(stores, persistent), []
            for _ in range(runs):
                with new_context():
                    module, began = ir.Module.parse(text), time.process_time()
                    mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
                    took.append(1000 * (time.process_time() - began))
            found[str(stores)][name] = min(took)
    return found


def element_stores(stores: int, persistent: bool) -> str:
    """A GEMM that stores one element after the other of a flat C with rows of a runtime length."""
    sys.path.insert(0, str(ROOT / "examples"))
    from generate_gemm import Gemm

    def stored(found: re.Match[str]) -> str:
        value, row, column = found.groups()
        return f"""%begin_{value} = arith.muli {row}, %N : index
    %left_{value} = vector.extract %{value}[0] : f32 from vector<2xf32>
    %right_{value} = vector.extract %{value}[1] : f32 from vector<2xf32>
    %at_{value} = arith.addi %begin_{value}, {column} : index
    %next_{value} = arith.addi %at_{value}, %c1 : index
    memref.store %left_{value}, %C[%at_{value}] : memref<?xf32>
    memref.store %right_{value}, %C[%next_{value}] : memref<?xf32>"""

    m, n = STORES[stores]
    text = Gemm(tile_m=2 * m, tile_n=2 * n, persistent=persistent).module()
    text = text.replace("%C : memref<?x?xf32>", "%C : memref<?xf32>")
    if not persistent:
        size = "%K = memref.dim %A, %c1 : memref<?x?xf16>"
        text = text.replace(size, f"{size}\n    %N = memref.dim %B, %c0 : memref<?x?xf16>")
    return re.sub(r"vector\.store %(\w+), %C\[(%\w+), (%\w+)\].*", stored, text)


def back_end_seconds() -> float:
    """Processor seconds of the back ends' processes that wait (proc(5): utime and stime, in ticks)."""
    from mlir_async_pipe.bindings.back_end_process import _waiting

    files = (Path(f"/proc/{child.process.pid}/stat") for child in _waiting.values())
    fields = [file.read_text().rpartition(")")[2].split() for file in files]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


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
    print("\nlowering one loop to PTX, processor microseconds a product")
    for products, values in results["products"].items():
        print(
            "  " + "".join(f"{value:8.0f}" for value in values.values()) + f"  {products} products"
        )
    print("  " + ", then ".join(values))
    print("\npipeline by single elements that a thread stores, processor milliseconds")
    for stores, values in results["stores"].items():
        print("  " + "".join(f"{value:8.0f}" for value in values.values()) + f"  {stores} stores")
    print("  " + ", then ".join(values))


if __name__ == "__main__":
    sys.exit(main())
