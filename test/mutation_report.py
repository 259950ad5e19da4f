"""Mutation at scale: breaks right kernels everywhere and looks who notices.

    python test/mutation_report.py --mutants 5000 --seed 1 --jobs 2 --json FILE

A mutant *fails* if the machine or the second machine finds a race for some trip count, condition
and completion, or if the result depends on the completion. What fails and
is neither `unsafe` nor `unknown` for the checker is *missed*. A run that leaves its arrays is
left out: the checker judges kernels whose subscripts are in bounds. So is one with a barrier that
only some threads reach, after which nothing is defined: it *diverges*, and is counted apart. Where the checker has named
something already, fewer runs are made, so the number of failing mutants is a lower bound.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, islice
from random import Random
from typing import Any

import check_mutants
import second_machine
import thread_mutants
from check_harness import RACES, argument_choices, check_text, entry_kernel
from mutation_kernels import Kernel, fixed, random_kernels
from second_machine import NotJudged
from two_judges import generic, passed, vendor_of

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.checker.kernel import threads_of
from mlir_async_pipe.diagnostics import AsyncPipeError, MachineError
from mlir_async_pipe.ir_helpers import symbol_name
from mlir_async_pipe.targets import Target

KINDS = check_mutants.KINDS | thread_mutants.KINDS
DIVERGES = "divergent-barrier"
# The longest run first: most mutants show there what they can.
TRIPS = (3, 4, 2, 1, 0)
STEPS = 20_000
# Seconds that the checker may think about one mutant; what takes longer counts as slow.
SLOW = 10.0
# Of so many places that a kind can break in a kernel some are drawn.
PLACES = 8
Size = tuple[int, int, int]


@dataclass(frozen=True)
class Result:
    """One mutant: what the checker says and how it fails ("" if it does not)."""

    kind: str
    kernel: str
    number: int
    verdict: str
    fails: str
    text: str = ""

    @property
    def missed(self) -> bool:
        """Whether the checker has let a failing kernel pass."""
        return bool(self.fails) and self.fails != DIVERGES and self.verdict == "safe"


@dataclass
class Judged:
    """All mutants of one kernel, and what the checker says about the kernel itself."""

    results: list[Result] = field(default_factory=list)
    accesses: int = 0
    unknown: int = 0
    wrong: str = ""
    reasons: list[str] = field(default_factory=list)


def block_of(text: str) -> Size:
    """The threads of a kernel, 4 where it does not say."""
    with new_context():
        module = ir.Module.parse(text)
        return threads_of(entry_kernel(module), None).size or (4, 1, 1)


def failure(text: str, of: Kernel, size: Size, thorough: bool) -> str:
    """How a kernel fails, "" if no run shows that it does."""
    with new_context():
        module = ir.Module.parse(text)
        kernel = entry_kernel(module)
        known = threads_of(kernel, None).size
        x, y, z = size
        sizes = [known] if known else [size, (x, 2, z), (2 * x, y, z)]
        chosen = Target.parse(of.target) if of.target else None
        run = partial(machine.run, module, symbol_name(kernel), target=chosen, step_limit=STEPS)
        found = ""
        for block in sizes if thorough else sizes[:1]:
            for arguments in islice(_choices(of, kernel), None if thorough else 2):
                late = run(arguments, threads=block, completion="late")
                if "out-of-bounds" in late.race_codes:
                    continue
                if DIVERGES in late.race_codes:
                    found = DIVERGES
                    continue
                if late.race_codes & RACES:
                    return ", ".join(sorted(late.race_codes & RACES))
                if thorough and "uninitialised-read" not in late.race_codes:
                    eager = run(arguments, threads=block, completion="eager")
                    if not _same(late, eager):
                        return "result depends on completion"
        if thorough:
            found = _of_second(kernel, text, of, sizes[0]) or found
        return found


def _same(first: machine.RunResult, second: machine.RunResult) -> bool:
    pairs = zip(first.arrays, second.arrays, strict=True)
    return all(a is None or a.tobytes() == b.tobytes() for a, b in pairs)


def _choices(of: Kernel, kernel: Any) -> Iterator[list[Any]]:
    return argument_choices(kernel, TRIPS) if of.arguments is None else iter([list(of.arguments)])


def _of_second(kernel: Any, text: str, of: Kernel, size: Size) -> str:
    lanes = Target.parse(of.target).chip.lanes if of.target else 32
    try:
        program = second_machine.Program(generic(text), vendor_of(of.target))
        for arguments in islice(_choices(of, kernel), 2):
            judged = program.run(
                symbol_name(kernel), passed(arguments), threads=size, warp=lanes, step_limit=STEPS
            )
            if judged.codes & RACES and not judged.codes & {"out-of-bounds", DIVERGES}:
                return ", ".join(sorted(judged.codes & RACES)) + " (second machine)"
    except NotJudged:
        pass
    return ""


def judge(kernel: Kernel, each: int, seed: int, kinds: Collection[str] = KINDS) -> Judged:
    """Mutants of one kernel: `each` of each kind, drawn from all places."""
    found, random = Judged(), Random(f"{seed} {kernel.name}")
    try:
        checked, size = check_text(kernel.text, kernel.target), block_of(kernel.text)
        wrong = "" if kernel.right else failure(kernel.text, kernel, size, True)
    except (AsyncPipeError, KeyError, ValueError):
        return found
    found.wrong = wrong
    if not wrong:
        found.accesses, found.unknown = checked.accesses, checked.unknown_accesses
        found.reasons = sorted(code for code, _ in checked.unknown)
    for kind, mutate in KINDS.items():
        if kind not in kinds or random.random() >= kernel.share:
            continue
        broken = list(islice(check_mutants.mutated(kernel.text, mutate), PLACES))
        for number, text in random.sample(broken, min(each, len(broken))):
            found.results.append(_result(kernel, kind, number, text, size))
    return found


def _verdict(text: str, target: str | None) -> str:
    try:
        with time_limit(SLOW):
            checked = check_text(text, target)
    except _TooSlow:
        return "slow"
    return "unsafe" if checked.unsafe else "unknown" if checked.unknown_accesses else "safe"


class _TooSlow(Exception):
    pass


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Give up after so many seconds."""

    def stop(number: int, frame: Any) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _result(kernel: Kernel, kind: str, number: int, text: str, size: Size) -> Result:
    verdict = _verdict(text, kernel.target)
    try:
        fails = failure(text, kernel, size, verdict == "safe")
    except MachineError as error:
        fails = "" if error.diagnostic.code != "recursion-limit" else error.diagnostic.code
    kept = text if verdict == "slow" or (fails and verdict == "safe") else ""
    return Result(kind, kernel.name, number, verdict, fails, kept)


def all_judged(mutants: int, seed: int, jobs: int, each: int) -> Iterator[Judged]:
    """Kernel after kernel, until there are enough mutants."""
    kernels = chain(fixed(), random_kernels(1000 * seed))
    work, total = partial(judge, each=each, seed=seed), 0
    if jobs == 1:
        for judged in map(work, kernels):
            yield judged
            total += len(judged.results)
            if total >= mutants:
                return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        while total < mutants:
            for judged in pool.imap(work, islice(kernels, 8 * jobs)):
                yield judged
                total += len(judged.results)


@dataclass
class Report:
    """Sums over all kernels."""

    mutants: Counter[str] = field(default_factory=Counter)
    fails: Counter[str] = field(default_factory=Counter)
    unsafe: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    slow: list[Result] = field(default_factory=list)
    diverge: int = 0
    diverge_safe: int = 0
    missed: list[Result] = field(default_factory=list)
    kernels: int = 0
    wrong_kernels: int = 0
    accesses: int = 0
    unknown_accesses: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, judged: Judged) -> None:
        """Count one kernel."""
        self.kernels += 1
        self.wrong_kernels += bool(judged.wrong)
        self.accesses += judged.accesses
        self.unknown_accesses += judged.unknown
        self.reasons.update(judged.reasons)
        for result in judged.results:
            self.mutants[result.kind] += 1
            self.fails[result.kind] += bool(result.fails) and result.fails != DIVERGES
            self.diverge += result.fails == DIVERGES
            self.diverge_safe += result.fails == DIVERGES and result.verdict == "safe"
            self.unsafe[result.kind] += result.verdict == "unsafe"
            self.unknown[result.kind] += result.verdict == "unknown"
            if result.verdict == "slow":
                self.slow.append(result)
            if result.missed:
                self.missed.append(result)

    def table(self) -> str:
        """By kind, and the sums."""
        missed = Counter(result.kind for result in self.missed)
        heads = ("kind", "mutants", "fail", "unsafe", "unknown", "missed")
        counters = (self.mutants, self.fails, self.unsafe, self.unknown, missed)
        rows = [(kind, *(str(c[kind]) for c in counters)) for kind in KINDS]
        rows.append(("all", *(str(sum(c.values())) for c in counters)))
        lines = [f"{name:26}" + "".join(f"{n:>9}" for n in rest) for name, *rest in (heads, *rows)]
        share = 100 * self.unknown_accesses / max(1, self.accesses)
        lines.append(
            f"barriers that only some threads reach: {self.diverge}, "
            f"of which the checker says nothing: {self.diverge_safe}; "
            f"checks that took more than {SLOW:.0f} s: {len(self.slow)}; "
            f"kernels {self.kernels}, wrong already {self.wrong_kernels}; accesses of right kernels "
            f"{self.accesses}, unknown {self.unknown_accesses} ({share:.2f} %)"
        )
        return "\n".join(lines)


def report(mutants: int, seed: int, jobs: int, each: int = 2) -> Report:
    """Make and judge mutants."""
    found = Report()
    for judged in all_judged(mutants, seed, jobs, each):
        found.add(judged)
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    start = time.monotonic()
    found = report(options.mutants, options.seed, options.jobs)
    print(f"mutation report, seed {options.seed}\n{found.table()}")
    print(f"{time.monotonic() - start:.0f} s")
    for result in found.missed[:20]:
        print(f"missed: {result.kind} {result.number} of {result.kernel}: {result.fails}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(asdict(found), file, indent=1)
    return int(bool(found.missed))


if __name__ == "__main__":
    raise SystemExit(main())
