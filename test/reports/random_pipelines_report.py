"""Judges random pipelines by feature, prints a table, and exits 1 if any law is broken.

    python test/reports/random_pipelines_report.py --per-feature 200 --seed 1 --jobs 2 --json table.json

Every failure is printed with the feature and seed that make its program again; `--show
FEATURE:SEED` prints that program.
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

from helpers.random_pipelines import FEATURES, program

SECONDS = 60
"""For one program, which takes about 0.1: what takes longer hangs."""


@dataclass
class Row:
    """What became of the programs of one feature. `tight` are the waits that may not be weaker:
    the checker calls one more group unsafe. The second machine ran `compared` times beside the
    machine, and differed `disagreed` times."""

    feature: str
    programs: int = 0
    pipelined: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    accesses: int = 0
    unknown: int = 0
    waits: int = 0
    tight: int = 0
    compared: int = 0
    disagreed: int = 0
    not_judged: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def one(case: tuple[str, int]) -> Any:
    """Judge one program, in a worker."""
    from helpers.random_pipelines.judge import Outcome, judge

    feature, seed = case
    chosen = program(seed, feature)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        return judge(chosen)
    except Exception as error:
        outcome = Outcome(chosen.name)
        outcome.failures.append(f"{type(error).__name__}: {error}")
        return outcome
    finally:
        signal.alarm(0)


def _too_long(number: int, frame: Any) -> None:
    raise TimeoutError(f"takes longer than {SECONDS} s")


def table(cases: Iterable[tuple[str, int]], jobs: int) -> list[Row]:
    """Judge all cases; one row a feature."""
    rows: dict[str, Row] = {}
    chosen = list(cases)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for (feature, _), outcome in zip(chosen, pool.imap(one, chosen, 4), strict=True):
            row = rows.setdefault(feature, Row(feature))
            row.programs += 1
            row.pipelined += outcome.pipelined
            row.refused.update([outcome.refused] if outcome.refused else [])
            row.accesses += outcome.accesses
            row.unknown += outcome.unknown
            row.waits += outcome.mutants
            row.tight += outcome.unsafe
            row.compared += outcome.compared
            row.disagreed += outcome.disagreed
            row.not_judged.update(outcome.not_judged)
            row.failures += [f"{outcome.program}: {failure}" for failure in outcome.failures]
    return list(rows.values())


def lines(rows: list[Row]) -> list[str]:
    """The table as text, failures after it."""
    found = [
        f"{'feature':<16} programs pipelined  waits tight unknown compared disagreed "
        f"failures  refused"
    ]
    for row in [*rows, total(rows)]:
        refused = ", ".join(f"{code} {n}" for code, n in row.refused.most_common())
        share = f"{row.pipelined} ({100 * row.pipelined // max(row.programs, 1)} %)"
        found.append(
            f"{row.feature:<16} {row.programs:>8} {share:>12} {row.waits:>6} {row.tight:>5} "
            f"{row.unknown:>7} {row.compared:>8} {row.disagreed:>9} {len(row.failures):>8}  {refused}"
        )
    found += [f"not judged: {n} x {why}" for why, n in total(rows).not_judged.most_common()]
    return found + [failure for row in rows for failure in row.failures]


def total(rows: list[Row]) -> Row:
    """All rows together."""
    whole = Row("all")
    for row in rows:
        whole.programs += row.programs
        whole.pipelined += row.pipelined
        whole.refused.update(row.refused)
        whole.accesses += row.accesses
        whole.unknown += row.unknown
        whole.waits += row.waits
        whole.tight += row.tight
        whole.compared += row.compared
        whole.disagreed += row.disagreed
        whole.not_judged.update(row.not_judged)
        whole.failures += row.failures
    return whole


def _entry(row: Row) -> dict[str, Any]:
    """A row for JSON (asdict cannot copy a Counter)."""
    counters = {"refused": dict(row.refused), "not_judged": dict(row.not_judged)}
    return vars(row) | counters


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--per-feature", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--show", metavar="FEATURE:SEED")
    parser.add_argument("features", nargs="*", help=", ".join(FEATURES))
    given = parser.parse_args(arguments)
    if given.show:
        feature, _, seed = given.show.rpartition(":")
        print(program(int(seed), feature).text)
        return 0
    seeds = range(given.seed, given.seed + given.per_feature)
    print(f"seeds {seeds.start} to {seeds.stop - 1}", flush=True)
    rows = table(
        ((feature, seed) for feature in given.features or FEATURES for seed in seeds), given.jobs
    )
    print("\n".join(lines(rows)))
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"seed": given.seed, "rows": [_entry(row) for row in rows]}, file, indent=1)
    return 1 if total(rows).failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
