"""What the count pass says about each wait, in the report and on request in the IR."""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.session.diagnostics import Place


@dataclass(frozen=True)
class WitnessStep:
    """One step of the path that attains a count, in the order in which it runs. `groups` are
    committed to the queue of the wait on it; over all steps they add up to the count."""

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
    `waits.reasons`, and `witness` the path that attains the count: "" and () in a session
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

    def remedy(self, advice: str) -> str:
        """`advice` on how to raise the count, after a semicolon; "" for the last wait of a pipeline, which
        drains it, and for one that few iterations meet."""
        drains = self.part == FEW or (self.part == "epilogue" and not self.count)
        return "" if drains or not advice else f"; to raise it: {advice}"
