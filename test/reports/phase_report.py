"""Tensor copies at scale: right loops in all forms, and mutants of them, for checker and machine.

    python test/reports/phase_report.py --loops 300 --mutants 600 --made 200 --seed 1 --json FILE

A mutant *fails* if the machine finds a race or a deadlock in one of three completions, or if these
give different results. What fails and is neither `unsafe` nor `unknown` for the checker is *missed*; a right
loop that it calls unsafe is *accused*, and so is a mutant that fails neither with the numbers of its kind nor with
those that the error itself names. Either makes the exit code 1. Of the right loops every third,
and of the mutants every second has roles of its own, some are of clusters, and of ten one has products in tensor
memory, by warps of their own; these are counted apart, too. Pipelines that the expander made of
random loops (`made`) are judged by the checker alone; `tensor_loops_report.py` runs them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.cluster_mutants import ClusterKernel
from helpers.phase_mutants import (
    SCHEDULES,
    Kernel,
    checked,
    failure,
    made_by_the_expander,
    random_mutant,
    random_right,
    with_numbers,
)
from helpers.tensor_memory_mutants import TensorKernel


@dataclass(frozen=True)
class Judged:
    """One kernel: its kind ("right" of a right one), the checker's verdict and codes, how it fails
    ("" if it does not), its text if somebody is wrong, and what it is of: blocks of a "cluster" that copy for
    each other, products in "tensor memory", or ""."""

    kind: str
    seed: int
    roles: bool
    verdict: str
    codes: str
    fails: str
    text: str = ""
    of: str = ""

    @property
    def missed(self) -> bool:
        """Whether the checker has let pass what fails."""
        return bool(self.fails) and self.verdict == "safe"

    @property
    def accused(self) -> bool:
        """Whether the checker calls unsafe what is right, or does not fail with the error's own numbers."""
        right = self.kind in ("right", "made")
        return self.verdict == "unsafe" and (right or not self.fails)


def judge_right(seed: int) -> Judged:
    """A loop that is right by the rules; every third one has roles of its own."""
    ring = random_right(seed)
    return _judged("right", seed, ring, ring.text())


def judge_mutant(seed: int) -> Judged:
    """A loop with one thing wrong."""
    kind, ring, text = random_mutant(seed)
    return _judged(kind, seed, ring, text)


def judge_made(seed: int) -> Judged:
    """A pipeline that the expander made."""
    text = made_by_the_expander(seed)
    said = checked(text)
    kept = "" if said.verdict == "safe" else text
    return Judged("made", seed, False, said.verdict, said.codes, "", kept)


def _judged(kind: str, seed: int, ring: Kernel, text: str) -> Judged:
    said = checked(text)
    fails = failure(ring, text, seed)
    if said.verdict == "unsafe" and not fails:
        # Of several errors each names numbers of its own, and one may show in few orders only: an arrival too many when
        # its slot comes round again, with the kernel's own numbers.
        named = (*(with_numbers(ring, example) for example in said.examples), ring)
        runs = (failure(one, text, seed + n) for one in named for n in range(2 * len(SCHEDULES)))
        fails = next(filter(None, runs), "")
    kinds = {ClusterKernel: "cluster", TensorKernel: "tensor memory"}
    of = kinds.get(type(ring), "")
    found = Judged(kind, seed, ring.specialised, said.verdict, said.codes, fails, of=of)
    kept = found.missed or found.accused or (kind == "right" and bool(fails))
    return replace(found, text=text) if kept else found


def summary(found: list[Judged]) -> dict[str, int]:
    """The figures of a report."""
    right = [one for one in found if one.kind == "right"]
    made = [one for one in found if one.kind == "made"]
    mutants = [one for one in found if one.kind not in ("right", "made")]
    failing = [one for one in mutants if one.fails]
    apart = [one for one in mutants if one.roles]
    return {
        "right": len(right),
        "right, proven": sum(one.verdict == "safe" for one in right),
        "right, unknown": sum(one.verdict == "unknown" for one in right),
        "right, accused": sum(one.accused for one in right),
        "right, but the machine finds something": sum(bool(one.fails) for one in right),
        "right with roles, proven": sum(one.verdict == "safe" and one.roles for one in right),
        "made by the expander": len(made),
        "made by the expander, proven": sum(one.verdict == "safe" for one in made),
        "made by the expander, accused": sum(one.accused for one in made),
        "mutants": len(mutants),
        "mutants, failing": len(failing),
        "mutants, failing, named": sum(one.verdict == "unsafe" for one in failing),
        "mutants, failing, unknown": sum(one.verdict == "unknown" for one in failing),
        "mutants with roles": len(apart),
        "mutants with roles, failing": sum(bool(one.fails) for one in apart),
        "mutants with roles, failing, named": sum(
            bool(one.fails) and one.verdict == "unsafe" for one in apart
        ),
        **_apart("clusters", [one for one in found if one.of == "cluster"]),
        **_apart("tensor memory", [one for one in found if one.of == "tensor memory"]),
        "missed": sum(one.missed for one in mutants),
        "mutants, not failing": len(mutants) - len(failing),
        "mutants, accused": sum(one.accused for one in mutants),
    }


def _apart(where: str, found: list[Judged]) -> dict[str, int]:
    """The figures of what is judged apart, too."""
    right = [one for one in found if one.kind == "right"]
    mutants = [one for one in found if one.kind != "right"]
    return {
        f"right in {where}": len(right),
        f"right in {where}, proven": sum(one.verdict == "safe" for one in right),
        f"mutants in {where}": len(mutants),
        f"mutants in {where}, failing": sum(bool(one.fails) for one in mutants),
        f"mutants in {where}, failing, named": sum(
            bool(one.fails) and one.verdict == "unsafe" for one in mutants
        ),
    }


def is_clean(figures: dict[str, int]) -> bool:
    """Whether nothing was missed or accused, and no right loop found wrong."""
    wrong = (
        "missed",
        "right, accused",
        "mutants, accused",
        "right, but the machine finds something",
        "made by the expander, accused",
    )
    return not any(figures[name] for name in wrong)


def tell(found: list[Judged]) -> None:
    """The figures, the names by kind, and what went wrong."""
    print("| what | number |\n|---|---:|")
    for name, number in summary(found).items():
        print(f"| {name} | {number} |")
    mutants = [one for one in found if one.kind not in ("right", "made")]
    kinds = Counter((one.kind, one.codes or one.verdict) for one in mutants)
    print("\n| mutant | the checker says | number |\n|---|---|---:|")
    for (kind, codes), number in sorted(kinds.items()):
        print(f"| {kind} | {codes} | {number} |")
    for one in found:
        if one.text or one.verdict == "unknown":
            print(f"\n{one.kind}, seed {one.seed}: {one.verdict} {one.codes}; machine: {one.fails}")
            print(one.text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=30)
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--made", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    first = arguments.seed * 10**6
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=50) as pool:
        found = list(pool.imap(judge_right, range(first, first + arguments.loops), 4))
        found += pool.imap(judge_made, range(first, first + arguments.made), 4)
        found += pool.imap(judge_mutant, range(first, first + arguments.mutants), 4)
    tell(found)
    figures = summary(found)
    if arguments.json is not None:
        kept = [asdict(one) for one in found if one.text]
        arguments.json.write_text(json.dumps({"figures": figures, "kept": kept}, indent=1) + "\n")
    return 0 if is_clean(figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
