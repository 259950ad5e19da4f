"""Checks kernels that other compilers wrote, and makes the table of docs/foreign.md.

    python bench/foreign.py FOLDER [--jobs 2] [--limit 60] [--only TEXT] [--python cute=PATH]
                            [--json FILE] [--details]

FOLDER has one folder a stack (`STACKS` below); each of its .mlir and .ptx files is checked in a process
of its own, `async-pipe-opt FILE --check-only`, with the bindings of the stack, which may stand in an
environment of their own (`--python`). A file name that begins with `right.`, `racy.` or `divergent.` says
what is known of its kernel. A kernel is proven if no access is unsafe or unknown. One that is not is checked
again with two promises, that its indices do not wrap and that its blocks store to different places: what
is only unknown without them counts as promised. Seconds are those of the processor for the first
check, the start of Python (0.5) among them; memory is the most that the process held.

With `--broken` kernels that are proven, and have barriers or waits, are broken in their text, one place at a
time: a wait lets one group more be in flight, a barrier or a wait for a phase is gone, a phase of the other parity is waited
for, half of the bytes are expected. What is still proven did not need it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stack:
    """`folder` of the kernels, `title` in the table, the `bindings` that read them, and what the stack's
    users know of their arguments but its IR does not say."""

    folder: str
    title: str
    bindings: str = ""
    options: tuple[str, ...] = ()


# Buffers of a launch are different arrays in each of these.
APART = ("assume-noalias-arguments",)
PROMISES = ("assume-no-overflow", "assume-independent")

STACKS = (
    Stack("iree", "IREE 3.13, dispatches", options=APART),
    Stack("torch-mlir", "torch-mlir, loops over threads", options=APART),
    Stack("triton", "Triton 3.9, sm_80, sm_90", options=APART),
    Stack("triton-amd", "Triton 3.9, gfx942, gfx950", "flydsl", APART),
    Stack("cuda", "CUDA C++ by NVRTC 12.9, PTX", options=APART),
    Stack("cute", "CuTe DSL 4.8", "cutlass", APART),
    Stack("pallas", "JAX Pallas, Mosaic GPU", "jaxlib", APART),
    Stack("numba", "numba-cuda-mlir 0.6", options=APART),
    Stack("flydsl", "flydsl 0.4", "flydsl", APART),
    Stack("upstream", "MLIR's own tests", options=APART),
    Stack("gpuverify", "GPUVerify, OpenCL by clang"),
)


@dataclass
class Row:
    """What was found of one kernel. `verdict` is proven, promised, unknown, unsafe, or why nothing was found."""

    stack: str
    name: str
    verdict: str
    accesses: int = 0
    unknown: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    mebibytes: int = 0

    @property
    def label(self) -> str:
        """What is known of the kernel, if its name says it."""
        first = self.name.partition(".")[0]
        return first if first in ("right", "racy", "divergent") else ""


def checked(path: Path, stack: Stack, python: str, limit: int) -> Row:
    """Check one file; once more with promises where that leaves something unknown."""
    row = run(path, stack, python, limit, ())
    if row.verdict == "unknown":
        again = run(path, stack, python, limit, PROMISES)
        if again.verdict == "proven":
            row.verdict = "promised"
    return row


def run(path: Path, stack: Stack, python: str, limit: int, promises: tuple[str, ...]) -> Row:
    """Check one file in a process of its own."""
    row = Row(stack.folder, path.name, "")
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [python, "-m", "mlir_async_pipe.tool", str(path), "--check-only", "--cache=false"]
        command += [f"--bindings={stack.bindings}"] * bool(stack.bindings)
        said = " ".join((*stack.options, *promises))
        command += [f"--async-pipe-check={said}"] * bool(said)
        command += ["--isolate=false", "--report=json", f"--report-file={report.name}"]
        process = subprocess.Popen(
            ["timeout", str(limit), *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stderr is not None
        reported = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        row.seconds = used.ru_utime + used.ru_stime
        row.mebibytes = used.ru_maxrss // 1024
        text = Path(report.name).read_text()
    if process.returncode == 124:
        row.verdict = f"more than {limit} s"
    elif not text:
        row.verdict = "failed"
        row.errors = reported.strip().splitlines()[-1:]
    else:
        read(row, json.loads(text))
    return row


# What a wait lets be in flight, and barriers of all threads, as the stacks of the table write them.
WAIT = re.compile(
    r"(?<=cp\.async\.wait\.group )\d+|(?<=cp\.async\.wait_group )\d+|(?<=numGroups = )\d+"
    r"|(?<=rocdl\.wait\.asyncmark )\d+|(?<=wgmma\.wait\.group\.sync\.aligned )\d+"
)
BARRIER = re.compile(
    r"^ *(?:nvvm\.barrier(?: id = \S+ number_of_threads = \S+)?|nvvm\.barrier0|rocdl\.s\.barrier|gpu\.barrier.*|bar\.sync.*;|barrier\.sync.*;"
    r"|nvvm\.fence\.proxy .*|(?:%\S+ = )?llvm\.inline_asm has_side_effects \"bar\.sync.*)$",
    re.M,
)
# Waits for a phase, by whose parity, and the bytes that one brings.
PHASE = re.compile(r"^ *nvvm\.mbarrier\.try_wait\.parity (%\S+), (%\S+), .*$", re.M)
BYTES = re.compile(r"nvvm\.mbarrier\.arrive\.expect_tx %\S+, (%\S+) :")


def broken(text: str) -> Iterator[tuple[str, str]]:
    """The siblings of a kernel that are wrong in one place: what was done, and the text."""
    for found in list(WAIT.finditer(text))[:4]:
        line = text.count("\n", 0, found.start()) + 1
        more = str(int(found[0]) + 1)
        yield (
            f"line {line}: wait {found[0]} -> {more}",
            text[: found.start()] + more + text[found.end() :],
        )
    for found in list(BARRIER.finditer(text))[:4]:
        line = text.count("\n", 0, found.start()) + 1
        yield (
            f"line {line}: no {found[0].strip()[:20]}",
            text[: found.start()] + text[found.end() :],
        )
    for found in list(PHASE.finditer(text))[:3]:
        line = text.count("\n", 0, found.start()) + 1
        yield f"line {line}: no wait for a phase", text[: found.start()] + text[found.end() :]
        other = found[0].replace(f"{found[2]},", "%other_parity,")
        made = f"%other_one = arith.constant 1 : i32\n%other_parity = arith.xori {found[2]}, %other_one : i32\n"
        yield (
            f"line {line}: the other parity",
            text[: found.start()] + made + other + text[found.end() :],
        )
    for found in list(BYTES.finditer(text))[:2]:
        line = text.count("\n", 0, found.start()) + 1
        number = re.search(rf"{found[1]} = arith\.constant (\d+)(?= : i32)", text)
        if number is not None:
            half = str(int(number[1]) // 2)
            yield (
                f"line {line}: {half} bytes for {number[1]}",
                text[: number.start(1)] + half + text[number.end(1) :],
            )


def siblings(path: Path, stack: Stack, python: str, limit: int, row: Row) -> list[Row]:
    """What is found of the broken siblings of one kernel that is proven, with promises if it needs them."""
    promises = PROMISES if row.verdict == "promised" else ()
    rows = []
    for change, text in broken(path.read_text()):
        with tempfile.NamedTemporaryFile("w", suffix=path.suffix) as file:
            file.write(text)
            file.flush()
            found = run(Path(file.name), stack, python, limit, promises)
        rows.append(replace(found, name=f"{path.name} {change}"))
    return rows


def read(row: Row, report: dict) -> None:
    """Take a verdict from the report of a check."""
    errors = [entry for entry in report["diagnostics"] if entry["severity"] == "error"]
    row.errors = [f"{entry['message']} [{entry['code']}]" for entry in errors]
    checks = report.get("checks", [])
    row.accesses = sum(entry["accesses"] for entry in checks)
    row.unknown = sum(entry["unknown"] for entry in checks)
    reasons: Counter[str] = Counter()
    for entry in checks:
        reasons.update(entry["reasons"])
    row.reasons = dict(reasons)
    if any(entry["unsafe"] for entry in checks):
        row.verdict = "unsafe"
    elif not checks:
        row.verdict = errors[0]["code"] if errors else "no kernel"
    else:
        row.verdict = "unknown" if row.unknown or errors else "proven"


def table(rows: list[Row]) -> str:
    """The table of all stacks, as Markdown."""
    lines = [
        "| stack | kernels | proven | promised | unknown | unsafe | not decided | seconds: median, most | MiB |",
        "|---|---:|---:|---:|---|---:|---|---:|---:|",
    ]
    for stack in (*STACKS, None):
        those = [row for row in rows if stack is None or row.stack == stack.folder]
        if not those:
            continue
        verdicts = Counter(row.verdict for row in those)
        names = ("proven", "promised", "unknown", "unsafe")
        proven, promised, unknown, unsafe = (verdicts.pop(v, 0) for v in names)
        reasons: Counter[str] = Counter()
        for row in those:
            if row.verdict == "unknown":
                reasons.update(list(row.reasons))
        why = ", ".join(f"`{reason}` {number}" for reason, number in reasons.most_common())
        other = ", ".join(f"{verdict} {number}" for verdict, number in verdicts.most_common())
        seconds = [row.seconds for row in those]
        lines.append(
            f"| {stack.title if stack else 'all'} | {len(those)} | {proven} | {promised} "
            f"| {unknown}{': ' * bool(why and stack)}{why if stack else ''} | {unsafe} | {other} "
            f"| {statistics.median(seconds):.2f}, {max(seconds):.1f} "
            f"| {max(row.mebibytes for row in those)} |"
        )
    return "\n".join(lines)


def show(row: Row) -> None:
    """One line for one kernel."""
    reasons = " ".join(f"{reason}={number}" for reason, number in row.reasons.items())
    print(
        f"{row.stack:11} {row.name:60} {row.verdict:10} {row.unknown:4}/{row.accesses:<4} "
        f"{row.seconds:6.2f}s {row.mebibytes:5}M {reasons} {'; '.join(row.errors)[:160]}",
        flush=True,
    )


def main() -> None:
    """Check all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=60, help="seconds for one kernel")
    parser.add_argument("--only", default="", help="only files whose path has this text")
    parser.add_argument("--python", action="append", default=[], metavar="STACK=PATH")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--details", action="store_true", help="a line for each kernel")
    parser.add_argument("--broken", action="store_true", help="check broken siblings, too")
    options = parser.parse_args()
    pythons = dict(entry.split("=", 1) for entry in options.python)
    work = [
        (path, stack, pythons.get(stack.folder, sys.executable), options.limit)
        for stack in STACKS
        for path in sorted((options.folder / stack.folder).glob("*"))
        if path.suffix in (".mlir", ".ptx") and options.only in f"{stack.folder}/{path.name}"
    ]
    began = time.perf_counter()
    rows = []
    # Threads wait, the processes work.
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda task: checked(*task), work):
            rows.append(row)
            if options.details:
                show(row)
    print(table(rows))
    if options.broken:
        right = [
            (*task, row)
            for task, row in zip(work, rows, strict=True)
            if row.verdict in ("proven", "promised")
        ]
        with ThreadPoolExecutor(options.jobs) as pool:
            for found in pool.map(lambda task: siblings(*task), right):
                for row in found:
                    show(row)
    print(f"{len(rows)} kernels in {time.perf_counter() - began:.0f} s, {options.jobs} at a time")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
