"""What the count pass says about each wait, in the report and on request in the IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from mlir_async_pipe.session.diagnostics import Place


@dataclass(frozen=True)
class WitnessStep:
    """One step of the path that attains a count, in the order in which it runs. `groups` are
    committed to the queue of the wait on it; over all steps they add up to the count."""

    what: str
    place: Place
    groups: int = 0


Explanation = tuple[str, tuple[WitnessStep, ...]]


@dataclass(frozen=True)
class WaitRecord:
    """One wait: the groups of `queue` that may stay in flight behind it.

    `count` is what was written, `exact` what the paths allow (they differ where the target
    cannot express it, or where the group is not committed on some path), None if no path
    reaches the wait. `given` is the count that the input had, `reason` a code of
    `waits.reasons`, and `witness` the path that attains the count.
    """

    place: Place
    queue: str
    count: int
    exact: int | None
    given: int | None
    reason: str
    # A factory, since a class attribute would hide that `explained_later` has none yet.
    witness: tuple[WitnessStep, ...] = field(default_factory=tuple)

    @classmethod
    def explained_later(
        cls,
        at: Any,
        queue: str,
        count: int,
        exact: int | None,
        given: int | None,
        explain: Callable[[], Explanation],
    ) -> WaitRecord:
        """A record that finds its place (of the location `at`), reason and witness when they
        are read for the first time.

        Half of the time of a count would go to witnesses, and few of them are ever read.
        """
        record = cls.__new__(cls)
        known = record.__dict__
        known["queue"] = queue
        known["count"] = count
        known["exact"] = exact
        known["given"] = given
        known["_at"] = at
        known["_explain"] = explain
        return record

    def __getattr__(self, name: str) -> Any:
        known = self.__dict__
        if name == "place" and "_at" in known:
            at = known.pop("_at")
            known["place"] = at if isinstance(at, Place) else Place.at(at)
        elif name in ("reason", "witness") and "_explain" in known:
            known["reason"], known["witness"] = known["_explain"]()
            del known["_explain"]
        else:
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        return known[name]

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles hold what the record says, not how it finds out."""
        return {each.name: getattr(self, each.name) for each in fields(self)}
