"""Time and memory of async-pipe-count-waits beside parsing the same module.

    python bench/count_waits.py            prints the table of docs/exact-counts.md

Each row is the best of five runs in one process (one run where that takes over a second), in CPU
time, so that other jobs on the machine disturb it little. "floor" is what the bindings alone take:
a walk that asks each op for its name, and of commits, waits, loops and branches for the block,
operands, results, arguments and successors that no count can do without, and sets one attribute
on each wait. "count" is the pass without witnesses, "witness" what it takes longer with them.
Memory is the peak that Python allocates during the pass, not counting the IR; it is traced in an
extra run, which is some ten times slower, so only for the rows that run under a second.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.passes import collected_rarely
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import ROWS
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, EXIT_OPS, REGION_ROWS

TOKEN = "!nvgpu.device.async.token"
GROUP = "nvgpu.device_async_create_group {async_pipe.empty}"
REPEATS = 5
ASYNC_OPS = {name for name, row in ROWS.items() if row.commits or row.wait or row.token}
FLOW_OPS = {*REGION_ROWS, *BRANCH_ROWS, *EXIT_OPS}


@dataclass(frozen=True)
class Measured:
    name: str
    ops: int
    waits: int
    parse: float
    floor: float
    count: float
    witness: float
    megabytes: float | None


def function(lines: list[str]) -> str:
    head = ["func.func @f(%n: index, %c: i1, %m: memref<?xf32>, %x: f32) {"]
    head += [f"%c{i} = arith.constant {i} : index" for i in range(2)]
    return "\n".join([*head, *lines, "return", "}"])


def straight(ops: int) -> str:
    """Arithmetic and stores around a group and a wait for the group before it: 8 ops a step."""
    lines = [f"%t0 = {GROUP}"]
    for i in range(1, ops // 8 + 1):
        lines += [f"%s{i}_{j} = arith.addi %n, %c1 : index" for j in range(3)]
        lines += [f"memref.store %x, %m[%s{i}_{j}] : memref<?xf32>" for j in range(3)]
        lines += [f"%t{i} = {GROUP}", f"nvgpu.device_async_wait %t{i - 1}"]
    return function(lines)


def loops(ops: int) -> str:
    """Pipelined loops one after another, each with a shift register of three groups."""
    lines = []
    for i in range(ops // 12):
        lines += [f"%a{i} = {GROUP}", f"%b{i} = {GROUP}", f"%d{i} = {GROUP}"]
        lines += [
            f"%r{i}:3 = scf.for %i{i} = %c0 to %n step %c1 iter_args(%x{i} = %a{i},"
            f" %y{i} = %b{i}, %z{i} = %d{i}) -> ({TOKEN}, {TOKEN}, {TOKEN}) {{",
            f"nvgpu.device_async_wait %x{i}",
            f"%v{i} = memref.load %m[%i{i}] : memref<?xf32>",
            f"%w{i} = arith.addf %v{i}, %x : f32",
            f"memref.store %w{i}, %m[%i{i}] : memref<?xf32>",
            f"%t{i} = {GROUP}",
            f"scf.yield %y{i}, %z{i}, %t{i} : {TOKEN}, {TOKEN}, {TOKEN}",
            "}",
            f"nvgpu.device_async_wait %r{i}#0",
            f"nvgpu.device_async_wait %r{i}#2",
        ]
    return function(lines)


def nest(depth: int) -> str:
    """A nest of loops that hand a shift register of two groups all the way in and out."""
    lines = [f"%t0 = {GROUP}", f"%u0 = {GROUP}"]
    for d in range(depth):
        lines.append(
            f"%r{d}:2 = scf.for %i{d} = %c0 to %n step %c1 iter_args(%t{d + 1} = %t{d},"
            f" %u{d + 1} = %u{d}) -> ({TOKEN}, {TOKEN}) {{"
        )
    for step in range(50):
        lines += [f"%s{step} = arith.addi %n, %c1 : index", f"nvgpu.device_async_wait %t{depth}"]
    lines += [f"%g = {GROUP}", f"scf.yield %u{depth}, %g : {TOKEN}, {TOKEN}", "}"]
    for d in range(depth - 2, -1, -1):
        lines += [f"scf.yield %r{d + 1}#0, %r{d + 1}#1 : {TOKEN}, {TOKEN}", "}"]
    return function(lines)


def tokens(count: int) -> str:
    """One loop that carries a shift register of `count` tokens, static trips."""
    lines = ["%trips = arith.constant 1000000000 : index"]
    lines += [f"%t{i} = {GROUP}" for i in range(count)]
    pairs = ", ".join(f"%a{i} = %t{i}" for i in range(count))
    types = ", ".join([TOKEN] * count)
    lines.append(
        f"%r:{count} = scf.for %i = %c0 to %trips step %c1 iter_args({pairs}) -> ({types}) {{"
    )
    lines += [f"nvgpu.device_async_wait %a{i}" for i in range(count)]
    following = ", ".join([*(f"%a{i}" for i in range(1, count)), "%g"])
    lines += [f"%g = {GROUP}", f"scf.yield {following} : {types}", "}"]
    lines += [f"nvgpu.device_async_wait %r#{i}" for i in range(count)]
    return function(lines)


def blocks(count: int) -> str:
    """A chain of diamonds of blocks; tokens travel as block arguments, one side commits."""
    lines = [f"%t = {GROUP}", f"cf.br ^b0(%t : {TOKEN})"]
    for i in range(count // 3):
        lines += [
            f"^b{i}(%t{i} : {TOKEN}):",
            f"%k{i} = arith.cmpi eq, %n, %c1 : index",
            f"%g{i} = {GROUP}",
            f"nvgpu.device_async_wait %t{i}",
            f"cf.cond_br %k{i}, ^y{i}, ^z{i}(%g{i} : {TOKEN})",
            f"^y{i}:",
            f"%h{i} = {GROUP}",
            f"cf.br ^z{i}(%g{i} : {TOKEN})",
            f"^z{i}(%j{i} : {TOKEN}):",
            f"nvgpu.device_async_wait %j{i}",
            f"cf.br ^b{i + 1}(%g{i} : {TOKEN})",
        ]
    return function([*lines, f"^b{count // 3}(%last : {TOKEN}):"])


def measure(name: str, text: str) -> Measured:
    found = passes.find("async-pipe-count-waits")
    options = passes.parse_options(found, "")
    parse = floor = count = explained = math.inf
    waits = 0
    with new_context():
        for _ in range(REPEATS):
            start = time.process_time()
            module = ir.Module.parse(text)
            parse = min(parse, time.process_time() - start)
            floor = min(floor, bindings_alone(module))
            module = ir.Module.parse(text)
            session = Session(witnesses=False)
            start = time.process_time()
            found.run(module.operation, options, session)
            count = min(count, time.process_time() - start)
            waits = len(session.report().of("waits"))
            module = ir.Module.parse(text)
            start = time.process_time()
            found.run(module.operation, options, Session())
            explained = min(explained, time.process_time() - start)
            if count > 1:
                break
        megabytes = None if count > 1 else traced_memory(found, text)
    ops = text.count("\n") - text.count("^") - text.count("}\n")
    return Measured(name, ops, waits, parse, floor, count, explained - count, megabytes)


@collected_rarely
def bindings_alone(module: Any) -> float:
    """The seconds that the bindings need to say what a count has to know."""
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
    kept: list[tuple[Any, str]] = []
    seen: dict[Any, int] = {}
    advance = ir.WalkResult.ADVANCE

    def visit(op: Any) -> Any:
        name = op.name
        if name in ASYNC_OPS or name in FLOW_OPS:
            kept.append((op, name))
        return advance

    start = time.process_time()
    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op, name in kept:
        if name in REGION_ROWS:
            for region in op.regions:
                for block in region.blocks:
                    seen[block] = 0
                    seen.update(dict.fromkeys(block.arguments, 0))
        elif name in BRANCH_ROWS:
            seen.update(dict.fromkeys(op.successors, 0))
        else:
            _ = op.block, op.location
        seen.update(dict.fromkeys(op.operands, 0))
        seen.update(dict.fromkeys(op.results, 0))
        row = ROWS.get(name)
        if row is not None and row.wait is not None:
            op.attributes[row.wait.count] = attribute
    return time.process_time() - start


def traced_memory(found: passes.Pass, text: str) -> float:
    module = ir.Module.parse(text)
    tracemalloc.start()
    found.run(module.operation, passes.parse_options(found, ""), Session(witnesses=False))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def family(name: str, make: Callable[[int], str], sizes: list[int]) -> list[Measured]:
    return [measure(f"{name} {size}", make(size)) for size in sizes]


def exponent(rows: list[Measured]) -> str:
    """The slope of log time over log ops, between the last row and the first of 5 ms; ""
    where the rows hardly differ in ops."""
    large = [row for row in rows if row.count > 0.005]
    first, last = (large or rows)[0], rows[-1]
    if last.ops < 2 * first.ops:
        return ""
    return f"{math.log(last.count / first.count) / math.log(last.ops / first.ops):.2f}"


def main() -> None:
    print(
        "| program | ops | waits | parse ms | floor ms | count ms | floor / parse | count / parse |"
        " us an op | growth | witness ms | MiB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    sizes = [100, 1000, 10_000, 100_000]
    for rows in (
        family("straight line", straight, sizes),
        family("loops in a row", loops, sizes),
        family("loop nest, depth", nest, [1, 2, 4, 8]),
        family("tokens in one loop", tokens, [10, 100, 1000]),
        family("cf graph, blocks", blocks, [100, 1000, 10_000]),
    ):
        growth = exponent(rows)
        for row in rows:
            print(
                f"| {row.name} | {row.ops} | {row.waits} | {row.parse * 1e3:.1f} |"
                f" {row.floor * 1e3:.1f} | {row.count * 1e3:.1f} | {row.floor / row.parse:.2f} |"
                f" {row.count / row.parse:.2f} |"
                f" {row.count / row.ops * 1e6:.2f} | {growth if row is rows[-1] else ''} |"
                f" {row.witness * 1e3:.1f} |"
                f" {'' if row.megabytes is None else f'{row.megabytes:.1f}'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
