"""What goes wrong with phases, and how it is reported.

k.mlir:30:7: error: 'nvgpu.mbarrier.try_wait.parity' waits for a phase that no arrival ends [deadlock]
k.mlir:12:5: note: the mbarrier is initialised to 2 arrivals a phase; 1 came
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain
from operator import or_
from typing import Any, Literal, NamedTuple

FaultCode = Literal[
    "read-in-flight",
    "overwrite-in-flight",
    "source-overwritten",
    "missing-barrier",
    "not-visible",
    "missing-fence",
    "missing-tensor-fence",
    "missing-register-fence",
    "divergent-warp-op",
    "wrong-lanes",
    "no-columns",
    "columns-kept",
    "wrong-parity",
    "phase-not-flipped",
    "wrong-bytes",
    "too-many-arrivals",
    "several-issuers",
    "phase-overtaken",
    "deadlock",
    "barrier-not-initialised",
    "initialised-again",
    "init-not-visible",
    "unwaited-copy",
    "block-ended",
    "out-of-bounds",
]


# No execution goes on after these, but for those that `may_pass`: after them one does, in another order of the roles.
STOPS = frozenset({"deadlock", "wrong-bytes", "too-many-arrivals"})
# Two accesses of memory with nothing between that orders them.
CONFLICTS = frozenset(
    "read-in-flight overwrite-in-flight source-overwritten missing-barrier not-visible "
    "unwaited-copy".split()
)


# What one fence more would mend, and nothing else follows from.
FENCES = frozenset({"missing-fence", "missing-register-fence", "missing-tensor-fence"})
# Faults of threads that are not where others take them to be: after what stops these, others are.
ORDER = CONFLICTS | {"phase-overtaken", "wrong-parity", "phase-not-flipped", *STOPS}


class PhaseFault(Exception):
    """One fault on one path: at `later`, with the op `earlier` at the other end (numbers of ops, see `op_effects`).
    `certain`: the path exists, and the ops certainly meet. `at`: the mbarrier that the later one uses, and its `column`
    among the clocks; `surplus`: bytes that are announced for its phase, and do not come."""

    at: tuple[int, int] | None = None
    surplus: int = 0

    def __init__(
        self,
        code: FaultCode,
        later: int,
        earlier: int,
        note: str,
        certain: bool = True,
        *,
        column: int | None = None,
        may_pass: bool = False,
        doubt: str = "",
    ):
        super().__init__(code)
        self.found = FoundFault(code, later, earlier, note, certain, may_pass=may_pass, doubt=doubt)
        self.column = column


Ends = tuple[str, int, int]
"""The code of a fault, and its ops."""


class Example(NamedTuple):
    """With which numbers a fault is met; in which `loop`, an op (None: in none)."""

    text: str
    loop: Any


@dataclass(frozen=True)
class FoundFault:
    """A fault as it is kept; of a certain one an `example`, if it needs numbers or iterations, and the
    threads `by` which it is met. After one that `may_pass` an execution goes on. `doubt`: why it cannot be certain."""

    code: FaultCode
    later: int
    earlier: int
    note: str
    certain: bool
    example: Example | None = field(default=None, compare=False)
    may_pass: bool = field(default=False, compare=False)
    by: int = field(default=0, compare=False)
    doubt: str = field(default="", compare=False)

    @property
    def ends(self) -> Ends:
        return self.code, self.later, self.earlier

    @property
    def stops(self) -> bool:
        return self.code in STOPS and not self.may_pass


def causes(ends: Ends) -> tuple[object, ...]:
    """What may be behind a fault: of two that have one of these in common one may follow from the
    other. It is the op that comes too early, or what all that conflicts with one op lacks."""
    code, later, earlier = ends
    kind = "conflict" if code in CONFLICTS else code
    return later if code in ORDER else (code, "at", later), (kind, earlier)


@dataclass(frozen=True)
class Forgiven:
    """Faults that were reported already: roles go on as if there were none. The threads `late` came where
    they did not know enough, so they know all there is: else more would follow from that."""

    ends: frozenset[Ends] = frozenset()
    late: int = 0

    def and_also(self, faults: Iterable[FoundFault]) -> Forgiven:
        late = [f.by for f in faults if f.code in ORDER and not f.stops]
        ends = self.ends | {fault.ends for fault in faults}
        return Forgiven(ends, reduce(or_, late, self.late))

    @cached_property
    def causes(self) -> frozenset[object]:
        return frozenset(chain.from_iterable(map(causes, self.ends)))

    @cached_property
    def parities(self) -> frozenset[int]:
        """The waits whose parity is wrong."""
        codes = ("wrong-parity", "phase-not-flipped")
        return frozenset(later for code, later, _ in self.ends if code in codes)

    def follows(self, fault: FoundFault) -> bool:
        """Whether two accesses conflict, and nothing else need be wrong than what was reported."""
        return fault.code in CONFLICTS and not self.causes.isdisjoint(causes(fault.ends))

    def __bool__(self) -> bool:
        return bool(self.ends)


class NotFollowedError(Exception):
    """What an op does is not followed here, so nothing is claimed of the kernel."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_SENTENCES = {
    "missing-fence": "'{op}' is not ordered after the write of '{other}': a fence for the async proxy is missing",
    "missing-tensor-fence": "'{op}' may not see what '{other}' did: a fence of tensor memory is missing",
    "missing-register-fence": "'{op}' may add to what the registers held before: a fence of products is missing",
    "divergent-warp-op": "'{op}' needs its whole warp, but some lanes do not reach it",
    "wrong-lanes": "'{op}' touches lanes of tensor memory that its warp may not",
    "no-columns": "'{op}' asks for more columns of tensor memory than are free",
    "columns-kept": "'{op}' takes columns of tensor memory that nobody gives back",
    "wrong-parity": "'{op}' waits for the wrong parity: it passes before '{other}' is over",
    "phase-not-flipped": "'{op}' waits for the same parity again: it passes before '{other}' is over",
    "wrong-bytes": "'{op}' announces other bytes than the copies of its phase bring",
    "too-many-arrivals": "'{op}' arrives more often than the phase counts",
    "several-issuers": "'{op}' is issued by several threads",
    "phase-overtaken": "'{op}' ends the next phase while other threads may still be at '{other}'",
    "deadlock": "'{op}' waits for a phase that no arrival ends",
    "barrier-not-initialised": "'{op}' uses an mbarrier that is not initialised",
    "initialised-again": "'{op}' initialises an mbarrier that '{other}' has initialised before",
    "init-not-visible": "'{op}' may run before '{other}' of another thread",
    "block-ended": "'{op}' may come when the block that it reaches has ended",
    "out-of-bounds": "'{op}' is out of bounds",
    "unwaited-copy": "'{op}' may still use workgroup memory when the block ends",
}
PHASE_SENTENCES = _SENTENCES
