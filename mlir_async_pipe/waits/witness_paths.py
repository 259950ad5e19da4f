"""A number of groups that remembers the path on which they were committed: the witness of a count.
A `WaitRecord` holds it, in the report and on request in the IR.

    counts are added along a path, and compared where paths meet
    3 + 1 = 4               plain numbers: the count alone
    Path(3) + Path(1)       the count, and the steps of the path that was kept

A search for counts adds and compares, nothing else, so one search gives the counts alone or with their witnesses. A
sum of paths holds its two parts and copies nothing; a witness is read from its end, and only as many steps as it
shows. A path without groups may have steps: it is never left out of a sum as 0 is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mlir_async_pipe.session.diagnostics import Place


@dataclass(frozen=True)
class WitnessStep:
    """One step of the path that attains a count: over all steps the `groups` that are committed add up to it."""

    what: str
    place: Place
    groups: int = 0


# The part of a wait in the loop as it was, which runs where a pipeline needs more iterations.
FEW = "too few iterations"


@dataclass(frozen=True)
class WaitRecord:
    """One wait: the groups of `queue` that may stay in flight after it.

    `count` is what was written, `exact` what the paths allow (they differ where the target
    cannot express it, where the group is not committed on some path, or where the given count may be
    for other groups too), None if no path reaches the wait. `given` is the count that the input had, `reason` a code of
    `REASONS`, and `witness` the path that attains the count: "" and () in a session
    that wants no witnesses. `part` of a pipelined loop it stands in: "prologue", "kernel" or
    "epilogue", `FEW` in the loop as it was, "" elsewhere.
    """

    place: Place
    queue: str
    count: int
    exact: int | None
    given: int | None
    reason: str = ""
    witness: tuple[WitnessStep, ...] = ()
    part: str = ""

    @property
    def why(self) -> str:
        """What the reason means, and what would raise the count; "" in a session that wants no witnesses."""
        reason = REASONS.get(self.reason)
        return "" if reason is None else reason.meaning + self.remedy(reason.remedy)

    def remedy(self, advice: str) -> str:
        """`advice` on how to raise the count, after a semicolon; "" for the last wait of a pipeline, which
        drains it, and for one that few iterations meet."""
        drains = self.part == FEW or (self.part == "epilogue" and not self.count)
        return "" if drains or not advice else f"; to raise it: {advice}"


@dataclass(frozen=True)
class Reason:
    """Why a count is what it is: a stable code, a sentence, and what would raise the count ("" where nothing has to)."""

    code: str
    meaning: str
    remedy: str = ""


# The code of a wait is the first of this table that its witness met: those that explain more come first.
# fmt: off
REASONS = {reason.code: reason for reason in (
    Reason("unreachable", "no path reaches the wait"),
    Reason("dynamic-queue", "the queue of the wait or of a commit is not a constant",
           "give every commit and wait a constant queue"),
    Reason("crosses-parallel", "the token comes from another thread, where no wait can see its group",
           "commit and wait in the same thread"),
    Reason("queue-mismatch", "the token's group was committed to another queue",
           "wait on the queue that the group was committed to"),
    Reason("consumer-ahead", "on some path more groups are taken than were committed",
           "commit before taking, and give loops that only take a constant trip count"),
    Reason("uncommitted-copy", "on some path the copy is in no group when the wait runs",
           "commit a group between the copy and the wait"),
    Reason("function-scope", "the group belongs to another function body, whose marks do not count here",
           "mark in this function between the call and the wait"),
    Reason("correlation-limit", "more conditions are correlated than the count follows",
           "branch on fewer conditions between the commit and the wait"),
    Reason("recursive-call", "commits in a cycle of calls are not counted", "move the commits out of the recursion"),
    Reason("unknown-call", "the token, or commits after it, come from a function without a known body",
           "give the callee a body in this module"),
    Reason("unknown-origin", "where the token was committed is not known",
           "pass the token on from its commit through loops, branches and calls"),
    Reason("conditional-commit", "on some path a commit is passed over by its condition",
           "commit on both sides of the condition (a group may be empty)"),
    Reason("zero-trip-loop", "on some path a loop with commits runs less often than its tokens need",
           "make the trip count a constant"),
    Reason("first-iterations", "the first iterations look back at groups before the loop",
           "commit as many groups before the loop as an iteration does"),
    Reason("newest-group", "nothing is committed between the awaited group and the wait",
           "commit the next group before the wait, or wait for an older one"),
    Reason("exact", "the loop structure allows as many groups and no more"),
)}
# fmt: on

# A witness of a real kernel has 3 to 10 steps; longer ones are cut between wait and origin.
MOST_STEPS = 24

# The more a reason explains, the lower its bit.
_CODES = tuple(REASONS)
_BITS: dict[str | None, int] = {code: 1 << number for number, code in enumerate(_CODES)}
_BITS[None] = 0

Step = tuple[str, Any, str | None, int]
"""(what happens, where {} is the name of the op; the op; why this keeps the count low, or None; the
groups to show)"""


class Path(int):
    """So many groups: the sum of two paths, one step, or a stretch of several ones. `steps` counts them, `shown`
    are the groups on them, `reasons` the bits of what they say and `origin` is the step that a sum begins with."""

    first: Path
    later: Path | None = None
    origin: Path | None = None
    step: Step | None = None
    stretch: Any = None
    steps: int
    shown: int
    reasons: int = 0

    def __add__(self, later: int) -> Path:
        if later.__class__ is Path:
            return _sum(self, later)
        return _sum(self, stretch(later, 0)) if later else self

    def __radd__(self, first: int) -> Path:
        return _sum(stretch(first, 0), self) if first else self

    def __bool__(self) -> bool:
        return True


def _sum(first: Path, later: Any) -> Path:
    path = int.__new__(Path, int.__add__(first, later))
    path.first = first
    path.later = later
    path.origin = first if first.origin is None else first.origin
    path.steps = first.steps + later.steps
    path.shown = first.shown + later.shown
    path.reasons = first.reasons | later.reasons
    return path


def step(
    groups: int, what: str, op: Any, reason: str | None = None, shown: int | None = None
) -> Path:
    """One step; it shows its groups, or as many as are `shown`."""
    path = int.__new__(Path, groups)
    path.steps, path.reasons = 1, _BITS[reason]
    path.shown = int(groups) if shown is None else shown
    path.step = what, op, reason, path.shown
    return path


def stretch(groups: int, steps: int, stretch: Any = None) -> Path:
    """So many steps that commit so many groups in all; `stretch` knows them."""
    path = int.__new__(Path, groups)
    path.steps, path.shown, path.stretch = steps, groups, stretch
    return path


class Witnesses:
    """Reads paths. `of_stretch` gives the steps of a stretch, the youngest first."""

    def __init__(self, of_stretch: Callable[[Any], Iterable[Step]] = iter) -> None:
        self._of_stretch = of_stretch
        # By the ids of ops, which are good as long as they are kept: hashing an op takes longer.
        self._shown: dict[tuple[str, int, int], tuple[Any, WitnessStep]] = {}

    def read(self, path: Path, *reasons: str) -> tuple[str, tuple[WitnessStep, ...]]:
        """The code that explains most of those on a path and of `reasons`, and the steps of the path in the order
        in which they run. Of a long path the youngest steps are shown, and the origin; others are counted."""
        found: list[Step] = []
        work = [path]
        while work and len(found) < MOST_STEPS:
            here = work.pop()
            if here.later is not None:
                work += here.first, here.later
            elif here.step is not None:
                found.append(here.step)
            elif here.steps:
                found += islice(self._of_stretch(here.stretch), MOST_STEPS - len(found))
        steps = [self._show(said) for said in found]
        left = path.steps - len(found)
        if left:
            origin = path if path.origin is None else path.origin
            assert origin.step is not None
            if left > 1:
                groups = path.shown - origin.shown - sum(said[3] for said in found)
                steps.append(WitnessStep(f"{left - 1} more steps", Place(), groups))
            steps.append(self._show(origin.step))
        bits = path.reasons
        for reason in (*reasons, *(said[2] for said in found)):
            bits |= _BITS[reason]
        code = _CODES[(bits & -bits).bit_length() - 1] if bits else "exact"
        steps.reverse()
        return code, tuple(steps)

    def _show(self, said: Step) -> WitnessStep:
        what, op, _, groups = said
        key = what, id(op), groups
        found = self._shown.get(key)
        if found is None:
            made = WitnessStep(what.format(op.name) if "{" in what else what, Place.of(op), groups)
            found = self._shown[key] = op, made
        return found[1]
