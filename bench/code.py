"""What the main loop of our kernels costs in machine code, instruction by instruction.

    python bench/code.py [--only TEXT] [--source FILE] [--json FILE] [--listing FOLDER]

For each kernel of the list: instructions of one iteration, all and by class, the longest run of
issue slots without a product, registers, spills. Nothing is timed and no GPU is needed: ptxas and
nvdisasm come with the extra `nvidia`. `--source` measures a module of your own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from generate_gemm import Gemm  # noqa: E402
from sass import CLASSES, Iteration, class_of, iteration, main_loop  # noqa: E402

import mlir_async_pipe  # noqa: E402
from mlir_async_pipe.bindings import ir, new_context, passmanager  # noqa: E402
from mlir_async_pipe.chips.target import Target  # noqa: E402
from mlir_async_pipe.lowering.lower import lower  # noqa: E402
from mlir_async_pipe.lowering.nvvm.cubin import disassemble, loop_bodies  # noqa: E402

KERNELS: dict[str, Callable[[], str]] = {
    "gemm 128x128x32 f16 S=3": lambda: Gemm(stages=3).module(),
    "gemm 128x128x32 f16 S=4": lambda: Gemm(stages=4).module(),
    "gemm 128x128x32 f16 nested": lambda: Gemm(nested=True).module(),
}


@dataclass(frozen=True)
class Figures:
    """One kernel: an iteration of its main loop, and what a thread and a block need."""

    iteration: Iteration
    registers: int
    spill_bytes: int
    shared_bytes: int
    body: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="kernels whose name has this text")
    parser.add_argument("--source", type=Path, help="a module instead of the list")
    parser.add_argument("--target", default="nvvm:sm_80")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--listing", type=Path, help="write each loop's instructions here")
    arguments = parser.parse_args()
    kernels = {name: make for name, make in KERNELS.items() if arguments.only in name}
    if arguments.source is not None:
        kernels = {arguments.source.name: arguments.source.read_text}
    results = {name: measure(make(), arguments.target) for name, make in kernels.items()}
    print(table(results))
    if arguments.listing is not None:
        arguments.listing.mkdir(parents=True, exist_ok=True)
        for name, found in results.items():
            lines = [f"{class_of(text):14} {text}" for text in found.body]
            (arguments.listing / name.replace(" ", "_")).write_text("\n".join(lines) + "\n")
    if arguments.json is not None:
        stored = {name: asdict(found) for name, found in results.items()}
        arguments.json.write_text(json.dumps(stored, indent=1) + "\n")
    return 0


def measure(text: str, target: str) -> Figures:
    """Pipeline and lower a module with one kernel, and read its main loop."""
    with new_context():
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module, target=target)
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        lowered = lower(module, target=Target.parse(target), emit="cubin")
    (kernel,) = lowered.kernels
    body = main_loop(loop_bodies(disassemble(lowered.binary))[kernel.name])
    used = kernel.resources
    return Figures(
        iteration(body),
        used.registers,
        used.spill_store_bytes,
        used.static_shared_bytes + kernel.dynamic_shared_bytes,
        body,
    )


def table(results: dict[str, Figures]) -> str:
    names = [name for name, _ in CLASSES] + ["other"]
    kept = [n for n in names if any(r.iteration.classes.get(n) for r in results.values())]
    rows = [["kernel", "all", "run", "registers", "spills", "shared", *kept]]
    for name, found in results.items():
        counts = [found.iteration.classes.get(kind, 0) for kind in kept]
        whole = (found.iteration.all, found.iteration.run)
        used = (found.registers, found.spill_bytes, found.shared_bytes)
        rows.append([name, *(str(number) for number in (*whole, *used, *counts))])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(rows[0]) - 1), *lines[1:]])


if __name__ == "__main__":
    sys.exit(main())
