"""Runs the PTX of many random kernels, and prints what became of them.

    python test/reports/ptx_report.py --kernels 3000 --seed 1 --jobs 2 --json FILE

Exit code 1 where a kernel is wrong, an instruction is not known, or a mutant was missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.random_lowering.judge import Table, judge

# A child process of the back end serves so many kernels.
PART = 100


def _part(seeds: list[int], mutate: bool) -> Table:
    return judge(seeds, batch=50, mutate=mutate)


def collect(kernels: int, seed: int, jobs: int, mutants: int) -> Table:
    """The table of `kernels` kernels; waits of each `mutants`-th part are raised by one."""
    table = Table()
    starts = range(seed, seed + kernels, PART)
    parts = [list(range(start, min(start + PART, seed + kernels))) for start in starts]
    mutated = [mutants > 0 and number % mutants == 0 for number in range(len(parts))]
    # No max_tasks_per_child: before Python 3.13 an executor that replaces its workers may come to
    # stand still (cpython 115634).
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for part in pool.map(_part, parts, mutated):
            table.add(part)
    return table


def to_json(table: Table) -> dict[str, object]:
    return {
        name: dict(value.most_common()) if isinstance(value, Counter) else value
        for name, value in vars(table).items()
    }


def show(table: Table) -> None:
    print(f"kernels    {table.kernels}")
    print(f"pipelined  {table.pipelined} ({table.pipelined / max(table.kernels, 1):.0%})")
    print(f"run        {table.ran}")
    print(
        f"reads that the back end moved above their branch, of what nobody wrote  {table.speculative}"
    )
    _show_counts("refused as loops, lowered as written", table.refused)
    _show_counts("not lowered", table.not_lowered)
    print("\nfeature                    kernels  pipelined")
    for name, count in sorted(table.features.items()):
        print(f"  {name:24} {count:7} {table.pipelined_features[name]:10}")
    _show_counts("waits that let one more group in flight", table.mutants)
    _show_counts("unknown instructions", table.unknown)
    print("\nseconds:", ", ".join(f"{k} {v:.0f}" for k, v in table.seconds.items()))
    for title, found in (("wrong", table.wrong), ("missed", table.missed)):
        print(f"\n{title}: {len(found)}")
        for line in found:
            print(f"  {line}")


def _show_counts(title: str, counts: Counter) -> None:
    print(f"\n{title}: {sum(counts.values())}")
    for name, count in counts.most_common():
        print(f"  {count:7} {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=4, help="mutate each N-th part, 0: none")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    print(f"seed {options.seed}")
    table = collect(options.kernels, options.seed, options.jobs, options.mutants)
    show(table)
    print(f"\n{time.perf_counter() - began:.0f} seconds in all")
    if options.json:
        options.json.write_text(json.dumps(to_json(table), indent=2))
    return int(bool(table.wrong or table.unknown or table.missed))


if __name__ == "__main__":
    sys.exit(main())
