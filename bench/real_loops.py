"""What becomes of loops that other people's compilers wrote: taken in which form, or refused why.

    python bench/real_loops.py FOLDER [--stages 3] [--jobs 2] [--json FILE] [--only TEXT] [--run] [--swizzle]

Each .mlir file of the folder is one kernel, its name begins with its chip (`sm_80.matmul_f16.mlir`,
made by bench/iree_corpus.py or
bench/torch_mlir_corpus.py). Every innermost scf.for that reads global memory gets `num_stages`;
the table says for each kernel what is ahead (copies: asynchronous; loads: into registers), or the
reason of the refusal, the seconds that it took, and whether the result lowers to code. With `--run`
the first block of each kernel runs on the machine, as IREE wrote it and pipelined, in three
completions: "same" if all arrays are equal, bit by bit, without a race. `--swizzle` lets tiles be laid out anew.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlir_async_pipe import annotate, lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name, walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.vocabulary import accesses

ELEMENTS: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    # The machine rounds: small integers are exact.
    "bf16": np.float32,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
}
# The size of every dynamic dimension.
DYNAMIC = 64


@dataclass
class Row:
    """One kernel. `form` is "copies", "loads", "fragments", "refused" or "no loop"."""

    name: str
    form: str = "no loop"
    loops: int = 0
    reason: str = ""
    why: str = ""
    counts: tuple[int, ...] = ()
    unknown: int = 0
    seconds: float = 0.0
    code: str = ""
    run: str = ""


class TooLongError(Exception):
    """A kernel took too long."""


def loops_of(module: Any) -> list[Any]:
    """The innermost loops that read global memory."""
    loops = [op for op in walk(module.operation) if op.name == "scf.for"]
    return [
        loop
        for loop in loops
        if not any(inner.name == "scf.for" for inner in walk(loop) if inner != loop)
        and any(
            not access.writes and root_of(access.memory).space == "global"
            for op in walk(loop)
            for access in accesses(op)
        )
    ]


def arguments_of(kernel: Any, dynamic: int = DYNAMIC) -> list[Any] | str:
    """Random numbers for the arguments of a kernel, whose dynamic sizes are all one; why there are none, if not."""
    random = np.random.default_rng(5)
    found: list[Any] = []
    words = 0
    for kind in ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs:
        if str(kind) == "index":
            found.append(dynamic)
            continue
        if str(kind) == "i32":
            # IREE gives a size in two words, the lower one first.
            found.append(0 if words % 2 else dynamic)
            words += 1
            continue
        if not str(kind).startswith("memref<"):
            return f"an argument of type {kind}"
        element = str(ir.MemRefType(kind).element_type)
        if element not in ELEMENTS:
            return f"an argument of type {kind}"
        shape = [size if size >= 0 else dynamic for size in ir.MemRefType(kind).shape]
        # torch's i64 are places: none is below 0.
        found.append(
            random.integers(0 if element == "i64" else -3, 4, shape).astype(ELEMENTS[element])
        )
    return found


def compared(text: str, module: Any, target: str) -> str:
    """How the pipelined kernel runs beside the one that it was made of."""
    (kernel,) = [op for op in walk(module.operation) if op.name == "gpu.func"]
    given = arguments_of(kernel)
    if isinstance(given, str):
        return given
    threads = tuple(ir.DenseI32ArrayAttr(kernel.attributes["known_block_size"]))
    options: dict[str, Any] = {"threads": threads, "target": Target.parse(target)}
    name = symbol_name(kernel)
    try:
        before = machine.run(ir.Module.parse(text), name, given, **options)
        if all(map(_unchanged, given, before.arrays)):
            return "writes nothing"
        for completion in ("eager", "late", "random"):
            after = machine.run(module, name, given, completion=completion, **options)
            if after.races and not before.races:
                return f"races, {completion}"
            pairs = zip(before.arrays, after.arrays, strict=True)
            # A number has no array.
            if not all(a is b or np.array_equal(a, b, equal_nan=True) for a, b in pairs):
                return f"DIFFERENT, {completion}"
    except AsyncPipeError as error:
        return f"[{error.code}]"
    return "same" if not before.races else "same, races before"


def _unchanged(given: Any, after: Any) -> bool:
    """Whether an argument is as it was; a number has no array."""
    return after is None or np.array_equal(given, after, equal_nan=True)


def measure(path: Path, stages: int, swizzle: str, run: bool, limit: int) -> Row:
    """What becomes of one kernel."""
    row = Row(path.stem)
    chip = CHIPS[path.name.split(".")[0]]
    target = f"{chip.lowering}:{chip.name}"
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(limit)
    began = time.perf_counter()
    try:
        with new_context():
            module = ir.Module.parse(path.read_text())
            loops = loops_of(module)
            row.loops = len(loops)
            for loop in loops:
                annotate(loop, num_stages=stages, swizzle=swizzle)
            if not loops:
                return row
            report = pipeline(module, target, check="warn")
            row.seconds = time.perf_counter() - began
            codes = [entry.code for entry in report.diagnostics]
            row.form = "copies" if "through-registers" not in codes else "loads"
            if not report.of("loops"):
                row.form, row.reason = "refused", ", ".join(sorted(set(codes)))
            row.why = next(
                (e.message for e in report.diagnostics if e.code == "through-registers"), ""
            )
            row.counts = tuple(wait.count for wait in report.of("waits"))
            row.unknown = sum(check.unknown + check.unsafe for check in report.of("checks"))
            if run:
                row.run = compared(path.read_text(), module, target)
            emit = "ptx" if chip.lowering == "nvvm" else "isa"
            lower(module, target=target, emit=emit)
            row.code = emit
    except AsyncPipeError as error:
        if row.form == "no loop":
            row.form, row.reason, row.why = "refused", error.code, error.diagnostic.message
        else:
            row.code = f"[{error.code}]"
    except ir.MLIRError as error:
        row.form, row.reason, row.why = "refused", "does not parse", str(error.args[0])[:200]
    except TooLongError:
        row.reason = f"more than {limit} seconds"
        row.form = "refused"
    finally:
        signal.alarm(0)
        row.seconds = row.seconds or time.perf_counter() - began
    return row


def _give_up(number: int, frame: Any) -> None:
    raise TooLongError


def show(row: Row) -> None:
    """One line of the table."""
    reported = row.reason if row.form == "refused" else " ".join(map(str, row.counts))
    print(
        f"{row.name:32} {row.loops} {row.form:9} {reported:24} unknown {row.unknown:3} "
        f"{row.seconds:6.1f} s {row.code:5} {row.run} {row.why[:150]}",
        flush=True,
    )


def show_sums(rows: list[Row]) -> None:
    """What stands below the table."""
    with_loops = [row for row in rows if row.form != "no loop"]
    ahead = [row for row in with_loops if row.form != "refused"]
    share = len(ahead) / max(len(with_loops), 1)
    print(f"\n{len(with_loops)} kernels with a loop, {len(ahead)} with loads ahead ({share:.0%})")
    print("forms:", dict(Counter(row.form for row in rows)))
    print("refused:", dict(Counter(row.reason for row in with_loops if row.form == "refused")))
    print("machine:", dict(Counter(row.run for row in ahead)))
    print("slowest:", max((row.seconds for row in rows), default=0.0))


def main() -> None:
    """Every kernel of the folder, in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="kernels with this in their names")
    parser.add_argument("--limit", type=int, default=120, help="seconds a kernel may take")
    parser.add_argument("--run", action="store_true", help="compare on the machine")
    parser.add_argument("--swizzle", action="store_const", const="auto", default="none")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    paths = sorted(p for p in arguments.folder.glob("*.mlir") if arguments.only in p.name)
    given = {name: getattr(arguments, name) for name in ("stages", "swizzle", "run", "limit")}
    work = partial(measure, **given)
    rows = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(work, paths):
            show(row)
            rows.append(row)
    show_sums(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
