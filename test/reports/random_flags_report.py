"""Judges random kernels with flags, prints a table, and exits 1 if any law is broken.

    python test/reports/random_flags_report.py --programs 1000 --seed 1 --jobs 2 --json table.json

Each seed gives a kernel and its twin without flags. Every failure is printed with the seed that makes
its program again; `--show SEED` prints that program.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.random_flags import draw

SECONDS = 120
"""For one program, which takes about 0.3: what takes longer hangs."""


@dataclass
class Row:
    """What became of the programs of one kind; `loops` are annotated, `runs` those of both machines."""

    kind: str
    programs: int = 0
    loops: int = 0
    pipelined: int = 0
    runs: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Any) -> None:
        """One program more, or all of another row."""
        self.programs += getattr(other, "programs", 1)
        self.loops += other.loops
        self.pipelined += other.pipelined
        self.runs += other.runs
        self.reasons.update(other.reasons)
        name = getattr(other, "program", "")
        self.failures += [f"{name}: {text}" if name else text for text in other.failures]


def one(case: tuple[int, bool]) -> Any:
    """Judge one program, in a worker."""
    from helpers.random_flags.judge import Outcome, judge

    seed, is_twin = case
    chosen = draw(seed).twin if is_twin else draw(seed)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        return judge(chosen)
    except Exception as error:
        outcome = Outcome(chosen.name, chosen.kind)
        outcome.failures.append(f"{type(error).__name__}: {error}")
        return outcome
    finally:
        signal.alarm(0)


def _too_long(number: int, frame: Any) -> None:
    raise TimeoutError(f"takes longer than {SECONDS} s")


def table(seeds: Iterable[int], jobs: int) -> list[Row]:
    """Judge the programs of all seeds and their twins; one row a kind."""
    rows: dict[str, Row] = {}
    cases = [(seed, is_twin) for seed in seeds for is_twin in (False, True)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for outcome in pool.imap(one, cases, 4):
            rows.setdefault(outcome.kind, Row(outcome.kind)).add(outcome)
    return [rows[kind] for kind in sorted(rows)]


def total(rows: list[Row]) -> Row:
    """All rows together."""
    whole = Row("all")
    for row in rows:
        whole.add(row)
    return whole


def lines(rows: list[Row]) -> list[str]:
    """The table as text, failures after it."""
    found = [f"{'kind':<26} programs  loops   pipelined   runs failures  left, by reason"]
    for row in [*rows, total(rows)]:
        reasons = ", ".join(f"{code} {n}" for code, n in row.reasons.most_common())
        share = f"{row.pipelined} ({100 * row.pipelined // max(row.loops, 1)} %)"
        found.append(
            f"{row.kind:<26} {row.programs:>8} {row.loops:>6} {share:>11} {row.runs:>6} "
            f"{len(row.failures):>8}  {reasons}"
        )
    return found + [failure for row in rows for failure in row.failures]


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--show", type=int, metavar="SEED")
    given = parser.parse_args(arguments)
    if given.show is not None:
        print(draw(given.show).text)
        return 0
    seeds = range(given.seed, given.seed + -(-given.programs // 2))
    print(f"seeds {seeds.start} to {seeds.stop - 1}, each with a twin without flags", flush=True)
    rows = table(seeds, given.jobs)
    print("\n".join(lines(rows)))
    if given.json:
        entries = [vars(row) | {"reasons": dict(row.reasons)} for row in rows]
        with open(given.json, "w") as file:
            json.dump({"seed": given.seed, "rows": entries}, file, indent=1)
    return 1 if total(rows).failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
