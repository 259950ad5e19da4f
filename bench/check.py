"""What the checker costs: growth with ops and with groups in flight, and its share of a run.

    python bench/check.py [--runs N] [--json FILE]

Kernels are straight (ops to 10^4, every copy read after its wait), looped (a ring with 2
to 16 groups in flight), what becomes of loops of up to 64 stages, those with roles that the
generator for Hopper makes, with 2 to 8 stages, and up to 512 stores at dynamic strides in two versions.
The share is that of `async-pipe-check` in the one-shot pass
`async-pipe` on the examples. Times are processor milliseconds, the smallest of N runs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from generate_hopper_gemm import HopperGemm

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
OPS = (10, 100, 1000, 10_000)
GROUPS = (2, 4, 8, 16)
STAGES = (8, 16, 32, 64)
STORES = (64, 128, 256, 512)
PERSISTENT: dict[str, Any] = {"roles": "specialised", "persistent": True}
ROLES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "specialised": ({"roles": "specialised"}, (2, 3, 4, 6, 8)),
    "persistent": (PERSISTENT, (2, 3, 4, 6, 8)),
    "ping-pong": ({"roles": "ping-pong", "persistent": True}, (2, 3, 4, 6, 8)),
    "in clusters": ({"cluster": 2, "store": "tma", "out": "f16"} | PERSISTENT, (2, 3, 4, 6, 8)),
}
ROWS = 17
SHARED = f"memref<{ROWS}x32xf32, #gpu.address_space<workgroup>>"


def main() -> int:
    """Measure, print, and write JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "straight": {},
        "ring": {},
        "stages": {},
        "roles": {},
        "stores": {},
        "share": {},
    }
    print("straight kernels, 4 groups in flight")
    for count in OPS:
        spent = least(arguments.runs, straight(count, 4), check)
        results["straight"][count] = spent
        print(f"  {count:6} ops     {spent:9.1f} ms   {1000 * spent / count:7.1f} us an op")
    print("rings in a loop")
    for groups in GROUPS:
        spent = least(arguments.runs, ring(groups), check)
        results["ring"][groups] = spent
        print(f"  {groups:6} groups  {spent:9.1f} ms   {spent / groups:7.2f} ms a group")
    print("stages of the loops of small_kernels.mlir")
    for stages in STAGES:
        spent = least(arguments.runs, staged(stages), check)
        results["stages"][stages] = spent
        print(f"  {stages:6} stages  {spent:9.1f} ms   {spent / stages:7.2f} ms a stage")
    print("kernels with roles, by stages")
    for name, (options, counts) in ROLES.items():
        texts = {count: hopper(stages=count, **options) for count in counts}
        found = {count: least(arguments.runs, text, check) for count, text in texts.items()}
        results["roles"][name] = found
        times = "".join(f"  {count}: {spent:7.0f} ms" for count, spent in found.items())
        print(f"  {name:12}{times}")
    print("stores at dynamic strides, in two versions")
    for count in STORES:
        spent = least(arguments.runs, versions(count), check)
        results["stores"][count] = spent
        print(f"  {count:6} stores  {spent:9.1f} ms   {spent / count:7.2f} ms a store")
    print("share of the one-shot pass")
    for name in ("gemm", "copy_compute", "add_one"):
        text = (EXAMPLES / f"{name}.mlir").read_text()
        without = least(arguments.runs, text, lambda module: one_shot(module, "none"))
        whole = least(arguments.runs, text, lambda module: one_shot(module, "error"))
        share = 1 - without / whole
        results["share"][name] = share
        print(f"  {name:12} {whole:9.1f} ms, of which check {100 * share:5.1f} %")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def least(runs: int, text: str, work: Callable[[Any], None]) -> float:
    """The smallest time of several runs on fresh modules, in milliseconds."""
    times = []
    for _ in range(runs):
        with new_context():
            module = ir.Module.parse(text)
            start = time.process_time()
            work(module.operation)
            times.append(1000 * (time.process_time() - start))
    return min(times)


def check(module: Any) -> None:
    """Only the checker; the kernels of this file are correct."""
    found = passes.find("async-pipe-check")
    session = Session(target=Target.parse("nvvm:sm_90a"))
    found.run(module, found.options(), session)
    for summary in session.records["checks"]:
        assert not summary.unsafe and not summary.unknown, summary


def one_shot(module: Any, hazards: str) -> None:
    """The whole pass async-pipe, with or without the checker."""
    found = passes.find("async-pipe")
    found.run(module, found.options(check=hazards), Session(target=Target.parse("nvvm:sm_80")))


def straight(ops: int, groups: int) -> str:
    """Copies, commits, waits, barriers and reads without a loop; about `ops` of them."""
    lines = []
    for number in range(max(1, ops // 5)):
        lines += [
            f"%a{number} = nvgpu.device_async_copy %A[%c0, %t], %s[%c{number % (groups + 1)}, %t], 1"
            f" : memref<64x32xf32> to {SHARED}",
            "nvvm.cp.async.commit.group",
            f"nvvm.cp.async.wait.group {groups - 1}",
            "gpu.barrier",
        ]
        if number >= groups - 1:
            slot = (number - groups + 1) % (groups + 1)
            lines.append(f"%x{number} = memref.load %s[%c{slot}, %u] : {SHARED}")
    return kernel([*lines, "nvvm.cp.async.wait.group 0"])


def staged(stages: int) -> str:
    """Two loops with so many stages, pipelined."""
    text = (EXAMPLES / "small_kernels.mlir").read_text()
    with new_context():
        module = ir.Module.parse(re.sub(r"num_stages = \d+", f"num_stages = {stages}", text))
        one_shot(module.operation, "none")
        return str(module)


def ring(groups: int) -> str:
    """A loop with `groups` copies ahead and groups + 1 slots."""
    lines = []
    for number in range(groups):
        lines += copy_of(f"p{number}", f"%c{number}", f"%c{number}")
    lines += [
        "%r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (f32) {",
        f"nvvm.cp.async.wait.group {groups - 1}",
        "gpu.barrier",
        f"%ahead = arith.addi %i, %c{groups} : index",
        f"%to = arith.remui %ahead, %c{groups + 1} : index",
        f"%from = arith.remui %i, %c{groups + 1} : index",
        *copy_of("k", "%ahead", "%to"),
        f"%x = memref.load %s[%from, %u] : {SHARED}",
        "%sum1 = arith.addf %sum, %x : f32",
        "scf.yield %sum1 : f32",
        "}",
        "nvvm.cp.async.wait.group 0",
    ]
    return kernel(lines)


def versions(count: int) -> str:
    """A tile of `count` elements a thread, stored by rows of the block where the stride is even, else by each thread's own
    stretch: the threads of one version store where others do in the other one."""
    lines = [
        "%b = gpu.block_id x",
        "%own = arith.addi %t, %c0 : index",
        f"%stretch = arith.constant {count} : index",
        "%mine = arith.muli %t, %stretch : index",
        "%base, %off, %sizes:2, %strides:2 = memref.extract_strided_metadata %C : memref<?x?xf32>"
        " -> memref<f32>, index, index, index, index, index",
        "%bit = arith.andi %strides#0, %c1 : index",
        "%odd = arith.cmpi eq, %bit, %c1 : index",
    ]
    for begin, base, step in (("scf.if %odd {", "%mine", 1), ("} else {", "%own", 32)):
        lines.append(begin)
        for n in range(count):
            name = f"{base}{n}"
            lines += [
                f"{name}_k = arith.constant {step * n} : index",
                f"{name} = arith.addi {base}, {name}_k : index",
                f"memref.store %zero, %C[%b, {name}] : memref<?x?xf32>",
            ]
    return kernel([*lines, "}"])


def copy_of(name: str, row: str, slot: str) -> list[str]:
    """One copy and its group."""
    return [
        f"%{name} = nvgpu.device_async_copy %A[{row}, %t], %s[{slot}, %t], 1"
        f" : memref<64x32xf32> to {SHARED}",
        "nvvm.cp.async.commit.group",
    ]


def hopper(**options: Any) -> str:
    """The GEMM for Hopper with such stages and roles, pipelined."""
    with new_context():
        module = ir.Module.parse(HopperGemm(tile_n=64, **options).module())
        found = passes.find("async-pipe")
        session = Session(target=Target.parse("nvvm:sm_90a"))
        found.run(module.operation, found.options(check="none"), session)
        return str(module)


def kernel(body: list[str]) -> str:
    """A kernel of 32 threads around `body`."""
    constants = [f"%c{i} = arith.constant {i} : index" for i in [*range(ROWS + 1), 31]]
    return "\n".join(
        [
            "gpu.module @kernels {",
            "gpu.func @k(%A: memref<64x32xf32> {llvm.noalias}, %C: memref<?x?xf32> {llvm.noalias}, %n: index)",
            f"workgroup(%s: {SHARED})",
            "kernel attributes {known_block_size = array<i32: 32, 1, 1>} {",
            *constants,
            "%zero = arith.constant 0.0 : f32",
            "%t = gpu.thread_id x",
            "%u = arith.subi %c31, %t : index",
            *body,
            "gpu.return",
            "}",
            "}",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
