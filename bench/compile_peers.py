"""How long we take beside upstream's transform, TVM's pass and Triton, all in turns in one run.

    python bench/compile_peers.py [--loops N] [--runs N] [--tvm PYTHON] [--triton PYTHON] [--json FILE]

Loops: N functions of one loop each, no two of one structure, from text to text (parse, pass, verify,
print): ours with schedule, expand and count, with the check, and upstream's
`transform.loop.pipeline` through the same bindings. Of InjectSoftwarePipeline its own time only (TVM parses
Python).

Kernels: `pipeline` of the GEMM and of the attention tile in this process; `lower` of the GEMM to PTX
as usual and with ptxas, and to a cubin, from the second call on; the GEMM's file to PTX as a process;
Triton's whole compile of a GEMM of that size. PYTHON are those of environments with apache-tvm and
triton in them. Processor time counts the processes that are started, and the one that makes code; it
says more than wall time where a machine is shared.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ["MLIR_ASYNC_PIPE_CACHE"] = "off"

import expand

import mlir_async_pipe
from mlir_async_pipe.bindings import back_end_process, ir, new_context, passmanager
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

ROOT = Path(__file__).resolve().parents[1]
WORKERS = Path(__file__).with_name("compile_workers.py")
TARGET = "nvvm:sm_80"
CHECK = "async-pipe-check"
Seconds = dict[str, float]
"""Processor and wall seconds."""

# What has to hold, as (what, of what or "", at most): ratios of processor time, or milliseconds.
GOALS = (
    ("loops: ours", "loops: upstream's transform", 3.0),
    ("loops: ours, checked", "loops: upstream's transform", 8.0),
    ("GEMM: pipeline()", "", 45.0),
    ("attention tile: pipeline()", "", 20.0),
    ("GEMM: lower to PTX, warm", "", 200.0),
    ("GEMM: file to PTX, a process", "", 500.0),
)


def main() -> int:
    """Measure in turns, print the tables, and write JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tvm", type=Path, metavar="PYTHON")
    parser.add_argument("--triton", type=Path, metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    measures = measurements(options.loops, options.tvm, options.triton)
    taken: dict[str, list[Seconds]] = {}
    for _ in range(options.runs):
        for measure in measures:
            for name, seconds in measure().items():
                taken.setdefault(name, []).append(seconds)
        results = {name: least(all_runs) for name, all_runs in taken.items()}
        # After each turn: of a run that is stopped the turns so far are kept.
        if options.json:
            found = {"loops": options.loops, "seconds": results, "goals": goals(results)}
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    show(results, options.loops)
    return 0


def least(turns: list[Seconds]) -> Seconds:
    """The smallest processor time of all turns, and the smallest and the median wall time."""
    wall = [each["wall"] for each in turns]
    processor = min(each["processor"] for each in turns)
    return {"processor": processor, "wall": min(wall), "wall, median": median(wall)}


def measurements(
    loops: int, tvm: Path | None, triton: Path | None
) -> list[Callable[[], dict[str, Seconds]]]:
    """What is measured in each turn; the first of each kind is thrown away here."""
    distinct, upstream = different_loops(loops), upstream_loops(loops)
    examples = {
        "GEMM": (ROOT / "examples" / "gemm.mlir").read_text(),
        "attention tile": (ROOT / "examples" / "attention_tile.mlir").read_text(),
    }
    names = [name for name in expand.PASSES if name != CHECK]
    text_to_text(different_loops(4), [*names, CHECK])
    transform(upstream_loops(4))
    lowering = Lowering(examples["GEMM"])
    lowering.seconds("ptx", None)

    def loop_times() -> dict[str, Seconds]:
        return {
            "loops: ours": spent(lambda: text_to_text(distinct, names)),
            "loops: ours, checked": spent(lambda: text_to_text(distinct, [*names, CHECK])),
            "loops: upstream's transform": spent(lambda: transform(upstream)),
        }

    def kernel_times() -> dict[str, Seconds]:
        found = {f"{name}: pipeline()": pipelined(text) for name, text in examples.items()}
        found["GEMM: lower to PTX, warm"] = lowering.seconds("ptx", None)
        found["GEMM: lower to PTX, warm, and ptxas"] = lowering.seconds("ptx", True)
        found["GEMM: lower to a cubin, warm"] = lowering.seconds("cubin", None)
        for asked, name in (([], ""), (["--resources"], ", and ptxas")):
            found[f"GEMM: file to PTX, a process{name}"] = spent(lambda asked=asked: tool(*asked))
        return found

    measures = [loop_times, kernel_times]
    if tvm is not None:
        measures.append(lambda: of_tvm(tvm, loops))
    if triton is not None:
        measures.append(lambda: of_triton(triton))
    return measures


# -- loops ------------------------------------------------------------------------------------


def different_loops(loops: int) -> str:
    """Copies to a buffer and additions in two stages: memories and numbers of additions differ."""
    return "".join(
        expand.FUNCTION.format(n=n, loops=_more(expand.TWO_STAGES.format(n=n), "%b1", "%b2", n))
        .replace("memref<16x", f"memref<{16 + n}x")
        for n in range(loops)
    )  # fmt: skip


def upstream_loops(loops: int) -> str:
    """The same of the loop that upstream's transform is asked to pipeline."""
    functions = "".join(
        _more(expand.UPSTREAM.format(n=n), "%a1", "%a2", n).replace("<16x", f"<{16 + n}x")
        for n in range(loops)
    )
    return expand.UPSTREAM_SEQUENCE.format(functions=functions)


def _more(loop: str, value: str, last: str, number: int) -> str:
    """The loop with up to three more additions to the value that it stores."""
    made, current = "", value
    for extra in range(number % 4):
        made += f"    %x{extra} = arith.addf {current}, %one : f32\n"
        current = f"%x{extra}"
    head, store, rest = loop.rpartition(f"    memref.store {value},")
    return f"{head}{made}{store.replace(value, current)}{rest}"


def text_to_text(text: str, names: list[str]) -> str:
    """Parse, run passes of ours, verify and print."""
    context = new_context()
    module = ir.Module.parse(text, context)
    session = Session(witnesses=False)
    for name in names:
        found = passes.find(name)
        found.run(module.operation, found.options(), session)
    assert module.operation.verify()
    return str(module)


def transform(text: str) -> str:
    """The same with upstream's transform."""
    context = new_context()
    module = ir.Module.parse(text, context)
    manager = passmanager.PassManager.parse("builtin.module(transform-interpreter)", context)
    manager.run(module.operation)
    return str(module)


# -- kernels ----------------------------------------------------------------------------------


def pipelined(text: str) -> Seconds:
    """`pipeline` of a module that is parsed already; the better of three."""
    with new_context():
        modules = [ir.Module.parse(text) for _ in range(3)]
        taken = [spent(lambda m=m: mlir_async_pipe.pipeline(m, TARGET)) for m in modules]
    return min(taken, key=lambda each: each["processor"])


class Lowering:
    """`lower` of one pipelined module, again and again."""

    def __init__(self, text: str) -> None:
        self.context = new_context()
        self.module = ir.Module.parse(text, self.context)
        mlir_async_pipe.pipeline(self.module, TARGET)

    def seconds(self, emit: str, resources: bool | None) -> Seconds:
        """Processor time with that of the child and of ptxas, which is asked anew."""
        from mlir_async_pipe.lowering.nvvm import ptxas

        ptxas._assemble.cache_clear()
        with self.context:
            return spent(
                lambda: mlir_async_pipe.lower(
                    self.module, target=TARGET, emit=emit, resources=resources
                )
            )


def tool(*words: str) -> None:
    """The GEMM's file to PTX, as a process."""
    file = str(ROOT / "examples" / "gemm.mlir")
    asked = [file, "--async-pipe", f"--target={TARGET}", "--emit=ptx", "-o", os.devnull, *words]
    command = [sys.executable, "-m", "mlir_async_pipe.tool", *asked]
    subprocess.run(command, check=True, capture_output=True)


def of_tvm(python: Path, loops: int) -> dict[str, Seconds]:
    """TVM's pass on as many loops."""
    found = worker(python, "tvm", str(min(loops, 250)))
    return {
        f"loops: TVM's pass, {stages}": {"processor": seconds * loops, "wall": seconds * loops}
        for stages, seconds in found.items()
    }


def of_triton(python: Path) -> dict[str, Seconds]:
    """Triton's whole compile, in a process that has just started, and later in it."""
    found = worker(python, "triton")
    return {f"Triton's GEMM to a cubin, {when}": seconds for when, seconds in found.items()}


def worker(python: Path, *words: str) -> Any:
    """What another environment measures."""
    done = subprocess.run([python, WORKERS, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# -- time -------------------------------------------------------------------------------------


def spent(work: Callable[[], object]) -> Seconds:
    """Processor and wall seconds of one call."""
    gc.collect()
    processor, began = processor_seconds(), time.perf_counter()
    work()
    return {"processor": processor_seconds() - processor, "wall": time.perf_counter() - began}


def processor_seconds() -> float:
    """Of this process, of those that it started and that have ended, and of the one that waits."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(each.ru_utime + each.ru_stime for each in used)
    ticks = 0
    for child in back_end_process._waiting.values():
        fields = Path(f"/proc/{child.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return own + ticks / os.sysconf("SC_CLK_TCK")


# -- results ----------------------------------------------------------------------------------


def goals(results: dict[str, Seconds]) -> list[dict[str, Any]]:
    """What was aimed at, what was measured, and whether it is met; ratios are of processor time,
    milliseconds both of processor and of wall time."""
    found: list[dict[str, Any]] = []
    for name, other, most in GOALS:
        if name not in results or (other and other not in results):
            continue
        if other:
            got = results[name]["processor"] / results[other]["processor"]
            found.append(
                {"what": f"{name} / {other}", "most": most, "got": got, "met": got <= most}
            )
        else:
            spans = {kind: 1000 * results[name][kind] for kind in ("processor", "wall")}
            found.append({"what": name, "most": most, **spans, "met": spans["wall"] <= most})
    return found


def show(results: dict[str, Seconds], loops: int) -> None:
    """Print the tables."""
    print("\n   processor        wall   median wall")
    for name, seconds in results.items():
        scale, unit = (1e6 / loops, "µs a loop") if name.startswith("loops") else (1e3, "ms")
        cells = "".join(f"{scale * value:12.0f}" for value in seconds.values())
        print(f"{cells}  {unit:9}  {name}")
    print()
    for goal in goals(results):
        got = goal.get("got")
        text = (
            f"{got:.2f}" if got is not None else f"{goal['processor']:.0f}, {goal['wall']:.0f} ms"
        )
        met = "met" if goal["met"] else "missed"
        print(f"{met:7} {text:>14} of {goal['most']:g}  {goal['what']}")


if __name__ == "__main__":
    sys.exit(main())
