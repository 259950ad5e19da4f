"""What finding schedules costs: by latencies on abstract loops, and over units.

    python bench/latency.py [--loops 40]
    python bench/latency.py --kernels [--kernel=chain] [--chip=sm_80]
    python bench/latency.py --correction

Abstract loops have 4, 8 and 12 nodes (1 to 4 copies, loads that read them, stores that need some
of the loads, random cycles) and, above the exact search, 24 and 48. Times are processor
milliseconds; proven is how many loops have a proof that no interval is smaller.

Problems over units have random tasks on up to five units, with precedences and recurrences (as the tests
have them); three columns say how many are proven: the interval, then the bytes, then the length.

`--kernels` are those of the examples from their plain loops: the interval and what binds it, what ptxas or LLVM says of
registers and spills, what the checker says, whether the pipelined kernel computes what the plain loop does (for
all data of one size), and processor seconds for all of `pipeline`.

`--correction` schedules attention in tensor memory as it is, and what is left if a group of its own takes the correction of O
from the others, which takes no time: no schedule with such a group has a smaller interval.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

from optimal_kernels import HEAD, correction, measured, rows

from mlir_async_pipe.pipeliner.schedule.modulo.read import (
    DependenceEdge,
    LoopNumbers,
    ScheduledNode,
)
from mlir_async_pipe.pipeliner.schedule.modulo.solve import LiveRange, solve

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))
from helpers.modulo_problems import found_by_search
from helpers.solver_problems import random_problem

SIZES = (4, 8, 12, 24, 48)


def loop(seed: int, size: int) -> LoopNumbers:
    """A random loop of `size` nodes."""
    draw = random.Random(seed)
    copies = draw.randint(1, min(4, (size - 1) // 2))
    loads = draw.randint(copies, size - copies - 1)
    latency = draw.choice([300, 500, 800, 1000])
    nodes = [ScheduledNode((n,), 0, "cp.async", 0, latency) for n in range(copies)]
    edges = []
    readers: list[list[int]] = [[] for _ in range(copies)]
    for load in range(copies, copies + loads):
        nodes.append(ScheduledNode((load,), draw.choice([4, 20, 40])))
        readers[(load - copies) % copies].append(load)
        edges.append(DependenceEdge((load - copies) % copies, load, 0))
    for store in range(copies + loads, size):
        nodes.append(ScheduledNode((store,), draw.choice([4, 60, 150])))
        edges += [
            DependenceEdge(n, store, 0)
            for n in range(copies, copies + loads)
            if draw.random() < 0.4
        ]
    buffers = tuple(
        LiveRange(4096, tuple((n, r, 0) for r in found)) for n, found in enumerate(readers)
    )
    barriers = draw.random() < 0.7
    return LoopNumbers(
        tuple(nodes),
        tuple(edges),
        buffers,
        20 if barriers else 0,
        barriers,
        (True, False) if barriers else (False,),
        8,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=40)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--kernel", default="")
    parser.add_argument("--chip", default="")
    parser.add_argument("--correction", action="store_true")
    asked = parser.parse_args()
    if asked.kernels or asked.kernel or asked.chip:
        print(HEAD)
        for row in rows(asked.kernel, asked.chip):
            print(measured(row), flush=True)
        return
    if asked.correction:
        for line in correction():
            print(line, flush=True)
        return
    count = asked.loops
    print("| nodes | median ms | largest ms | proven |\n|---:|---:|---:|---:|")
    for size in SIZES:
        taken, proven = [], 0
        for seed in range(count):
            problem = loop(seed, size)
            begin = time.process_time()
            found, least = found_by_search(problem, constraints=6_000)
            taken.append(1000 * (time.process_time() - begin))
            proven += found is not None and found.interval <= least * (1 + 1e-6)
        median, largest = statistics.median(taken), max(taken)
        print(f"| {size} | {median:.1f} | {largest:.0f} | {proven} of {count} |")
    print("\n| tasks | median ms | largest ms | interval | bytes | length |")
    print("|---:|---:|---:|---:|---:|---:|")
    for size in SIZES:
        taken, proofs = [], [0, 0, 0]
        for seed in range(count):
            unit_problem = random_problem(seed, size)
            begin = time.process_time()
            best = solve(unit_problem)
            taken.append(1000 * (time.process_time() - begin))
            assert best is not None
            proofs[0] += best.interval_proven
            proofs[1] += best.bytes == best.least_bytes
            proofs[2] += best.length == best.least_length
        median, largest = statistics.median(taken), max(taken)
        columns = " | ".join(f"{number} of {count}" for number in proofs)
        print(f"| {size} | {median:.1f} | {largest:.0f} | {columns} |")


if __name__ == "__main__":
    main()
