"""What mutants came to: one result a mutant, sums by kind, the table and its JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from helpers import check_mutants, thread_mutants
from helpers.mutant_failure import DIVERGES

KINDS = check_mutants.KINDS | thread_mutants.KINDS
# What the checker can say of a mutant, beside nothing: "safe", and "slow" where it ran out of time.
NAMED = frozenset({"unsafe", "unknown", "refused"})


@dataclass(frozen=True)
class Result:
    """One mutant: what the checker says, how it fails ("" if it does not), and why a machine
    could not judge it ("" if both did)."""

    kind: str
    kernel: str
    number: int
    verdict: str
    fails: str
    text: str = ""
    not_judged: str = ""

    @property
    def missed(self) -> bool:
        """Whether the checker has let a failing kernel pass, or has given it up."""
        return bool(self.fails) and self.verdict not in NAMED


@dataclass
class Judged:
    """All mutants of one kernel, and what the checker says about the kernel itself. `wrong` is
    how the kernel fails, `unsafe` whether the checker calls a kernel unsafe that is right;
    `not_judged` is why there are no mutants of it."""

    results: list[Result] = field(default_factory=list)
    kernel: str = ""
    accesses: int = 0
    unknown: int = 0
    wrong: str = ""
    unsafe: bool = False
    reasons: list[str] = field(default_factory=list)
    not_judged: str = ""


@dataclass
class Report:
    """Sums over all kernels."""

    mutants: Counter[str] = field(default_factory=Counter)
    fails: Counter[str] = field(default_factory=Counter)
    unsafe: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    not_judged: Counter[str] = field(default_factory=Counter)
    slow: list[Result] = field(default_factory=list)
    died: list[Result] = field(default_factory=list)
    diverge: int = 0
    missed: list[Result] = field(default_factory=list)
    kernels: int = 0
    wrong_kernels: int = 0
    accesses: int = 0
    unknown_accesses: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    unknown_kernels: list[str] = field(default_factory=list)
    unsafe_kernels: list[str] = field(default_factory=list)
    kernels_not_judged: list[str] = field(default_factory=list)

    def add(self, judged: Judged) -> None:
        """Count one kernel."""
        self.kernels += 1
        self.wrong_kernels += bool(judged.wrong)
        self.accesses += judged.accesses
        self.unknown_accesses += judged.unknown
        self.reasons.update(judged.reasons)
        if judged.unknown:
            share = f"{judged.unknown} of {judged.accesses}"
            self.unknown_kernels.append(f"{judged.kernel}: {share}, {', '.join(judged.reasons)}")
        if judged.unsafe:
            self.unsafe_kernels.append(judged.kernel)
        if judged.not_judged:
            self.kernels_not_judged.append(f"{judged.kernel}: {judged.not_judged}")
        for result in judged.results:
            self._count(result)

    def _count(self, result: Result) -> None:
        self.mutants[result.kind] += 1
        self.fails[result.kind] += bool(result.fails)
        self.unsafe[result.kind] += result.verdict == "unsafe"
        self.unknown[result.kind] += result.verdict in ("unknown", "refused")
        self.diverge += result.fails.startswith(DIVERGES)
        if result.verdict == "slow":
            self.slow.append(result)
        if result.verdict == "died":
            self.died.append(result)
        if result.not_judged and not result.fails:
            self.not_judged[result.not_judged] += 1
        if result.missed:
            self.missed.append(result)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was missed, no check died and no right kernel was called unsafe."""
        return not (self.missed or self.died or self.unsafe_kernels)

    def table(self) -> str:
        """By kind, the sums, and what is not in them."""
        missed = Counter(result.kind for result in self.missed)
        heads = ("kind", "mutants", "fail", "unsafe", "unknown", "missed")
        counters = (self.mutants, self.fails, self.unsafe, self.unknown, missed)
        rows = [(kind, *(str(c[kind]) for c in counters)) for kind in KINDS]
        rows.append(("all", *(str(sum(c.values())) for c in counters)))
        lines = [f"{name:26}" + "".join(f"{n:>9}" for n in rest) for name, *rest in (heads, *rows)]
        share = 100 * self.unknown_accesses / max(1, self.accesses)
        slow_fail = sum(bool(result.fails) for result in self.slow)
        return "\n".join(
            [
                *lines,
                f"barriers that only some threads reach: {self.diverge}",
                f"checks that ran out of time: {len(self.slow)}, of which fail: {slow_fail}",
                f"checks that died: {len(self.died)}",
                f"neither fail nor are judged by both machines: {self.not_judged.total()}",
                f"kernels: {self.kernels}, wrong already: {self.wrong_kernels}, "
                f"not judged: {len(self.kernels_not_judged)}, "
                f"right and called unsafe: {len(self.unsafe_kernels)}",
                f"accesses of right kernels: {self.accesses}, "
                f"unknown: {self.unknown_accesses} ({share:.2f} %)",
            ]
        )

    def details(self) -> list[str]:
        """Each thing that somebody should look at, a line."""
        found = [
            f"{'missed' if result.missed else result.verdict}: {result.kind} {result.number} of "
            f"{result.kernel}: {result.fails or 'does not fail'} (checker: {result.verdict})"
            for result in {id(r): r for r in [*self.missed, *self.died, *self.slow]}.values()
        ]
        found += [f"unknown on a right kernel: {line}" for line in self.unknown_kernels]
        found += [f"unsafe on a right kernel: {line}" for line in self.unsafe_kernels]
        found += [f"kernel not judged: {line}" for line in self.kernels_not_judged]
        return found + [f"not judged: {n} x {why}" for why, n in self.not_judged.most_common(20)]

    def entries(self) -> dict[str, Any]:
        """For JSON (asdict cannot copy a Counter)."""
        results = {"slow", "died", "missed"}
        return {
            name: [asdict(result) for result in value] if name in results else value
            for name, value in vars(self).items()
        }
