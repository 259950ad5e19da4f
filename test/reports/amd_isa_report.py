"""Random kernels through the package to AMD's assembly, run lane by lane against NumPy.

    python test/reports/amd_isa_report.py --kernels 300 --seed 1 --json amd.json

Prints a table by feature; the exit code is 1 if a kernel is wrong or a mutant of a wait, one more
group left in flight, passes although it leaves a needed copy in flight.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.amd_isa.judge import judge
from helpers.amd_isa.kernels import CHIPS, random_kernel
from helpers.amd_isa.machine import Unsupported
from mlir_async_pipe.session.diagnostics import AsyncPipeError


@dataclass
class Findings:
    """What a series of kernels gave; `by_feature` counts the right kernels that were pipelined."""

    kernels: int = 0
    right: int = 0
    pipelined: int = 0
    copies: int = 0
    mutants: int = 0
    caught: int = 0
    without_effect: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    by_feature: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    missed: list[dict[str, Any]] = field(default_factory=list)

    def add(self, chip: str, seed: int) -> None:
        """Judge the kernel of a chip and a seed."""
        k = random_kernel(chip, seed)
        self.kernels += 1
        try:
            verdict = judge(k, mutants=True)
        except AsyncPipeError as error:
            self.refused[error.code] += 1
            return
        except Unsupported as error:
            self.unsupported[str(error)] += 1
            return
        if verdict.wrong is not None:
            self.wrong.append({"seed": seed, "why": verdict.wrong, **k.describe()})
            return
        self.right += 1
        self.copies += verdict.copies
        self.mutants += verdict.mutants
        self.without_effect += verdict.without_effect
        self.caught += verdict.mutants - verdict.without_effect - len(verdict.missed)
        self.missed += [{"seed": seed, "at": at, **k.describe()} for at in verdict.missed]
        if verdict.pipelined:
            self.pipelined += 1
            self.by_feature.update([chip, *k.features()])

    def to_json(self) -> dict[str, Any]:
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }

    def table(self) -> str:
        rows = [
            ("kernels", self.kernels),
            ("run, right in every order", self.right),
            ("pipelined", self.pipelined),
            ("wrong", len(self.wrong)),
            ("refused", sum(self.refused.values())),
            ("instructions that are not known", sum(self.unsupported.values())),
            ("asynchronous copies executed, one run each", self.copies),
            ("mutants of waits", self.mutants),
            ("  caught", self.caught),
            ("  leave no needed copy in flight", self.without_effect),
            ("  leave a copy in flight, pass", len(self.missed)),
            *((f"pipelined with {name}", n) for name, n in sorted(self.by_feature.items())),
        ]
        return "\n".join(f"{name:48}{number:8}" for name, number in rows)


def findings(kernels: int, seed: int) -> Findings:
    """Judge that many kernels, the chips in turn."""
    found = Findings()
    for number in range(kernels):
        found.add(list(CHIPS)[number % len(CHIPS)], seed + number // len(CHIPS))
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = findings(given.kernels, given.seed)
    print(f"seed {given.seed}")
    print(found.table())
    for entry in [*found.wrong, *found.missed]:
        print(entry)
    for name, number in [*found.refused.items(), *found.unsupported.items()]:
        print(f"{number} times {name}")
    if given.json is not None:
        given.json.write_text(json.dumps({"seed": given.seed, **found.to_json()}, indent=1))
    return 1 if found.wrong or found.missed else 0


if __name__ == "__main__":
    sys.exit(main())
