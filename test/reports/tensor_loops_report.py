"""Pipelines random loops of tensor copies, runs them in every completion, and exits 1 if one is wrong.

    python test/reports/tensor_loops_report.py --loops 400 --seed 1 --jobs 2 --json table.json

Every fourth loop is written in the nvvm dialect, and every tenth has products in tensor memory, by warps of their
own. A loop that is wrong is printed with its seed; `--show SEED` prints its module.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.nvvm_tensor_loops import judge_random
from helpers.tensor_loops import judge, random_loop
from helpers.tensor_memory_loops import judge_tensor_memory


def one(seed: int) -> tuple[str, list[str]]:
    """What a loop is made of, and what is wrong with it."""
    if seed % 10 == 4:
        return judge_tensor_memory(seed)
    if seed % 4 == 3:
        return "loads or matrices, in the nvvm dialect", judge_random(seed)
    loop = random_loop(seed)
    by_roles = {"specialised": "by warps of their own", "ping-pong": "for two groups in turn"}
    where = by_roles.get(loop.roles) or loop.issue or "where they are best"
    rows = {"each": ", rows stored by TMA", "after": ", sums stored by TMA after the loop"}
    kind = f"{loop.reader}{rows.get(loop.stored, '')}, copies {where}"
    try:
        return kind, judge(loop)
    except Exception as error:
        return kind, [f"{loop}: {type(error).__name__}: {error}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=int, metavar="SEED")
    arguments = parser.parse_args()
    if arguments.show is not None:
        print(random_loop(arguments.show).text())
        return 0
    seeds = range(arguments.seed * 10**6, arguments.seed * 10**6 + arguments.loops)
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        found = list(pool.imap(one, seeds, 4))
    loops = Counter(kind for kind, _ in found)
    wrong = Counter(kind for kind, why in found if why)
    print("| loops of | loops | share | wrong |\n|---|---:|---:|---:|")
    for kind in sorted(loops):
        share = f"{loops[kind] / len(found):.1%}"
        print(f"| {kind} | {loops[kind]} | {share} | {wrong[kind]} |")
    for seed, (_, why) in zip(seeds, found, strict=True):
        for text in why:
            print(f"seed {seed}: {text}")
    if arguments.json is not None:
        rows = [
            {"kind": kind, "loops": loops[kind], "wrong": wrong[kind]} for kind in sorted(loops)
        ]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
