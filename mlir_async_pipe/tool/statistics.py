"""How many records each of our passes made, in the form of MLIR's pass statistics."""

from __future__ import annotations

import sys
from typing import Any

from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool.pass_steps import OurStep, Step
from mlir_async_pipe.tool.timing import RULE


class Statistics:
    """Counts, as an instrument, what each step adds to the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._earlier: dict[str, int] = {}
        self._lines: list[str] = []

    def before(self, step: Step, root: Any) -> None:
        """Remember how much there is."""
        self._earlier = self._counts()

    def after(self, step: Step, root: Any) -> None:
        """Note what a pass of ours added; passes of MLIR print their own."""
        if not isinstance(step, OurStep):
            return
        self._lines.append(step.name)
        for kind, count in self._counts().items():
            added = count - self._earlier.get(kind, 0)
            if added:
                self._lines.append(f"  (S) {added} {kind}")

    def failed(self, step: Step, root: Any) -> None:
        """A failed step counts as any other."""
        self.after(step, root)

    def write(self) -> None:
        """Write the statistics to stderr, if a pass of ours ran."""
        if self._lines:
            title = "... Pass statistics report ...".center(len(RULE)).rstrip()
            sys.stderr.write("\n".join([RULE, title, RULE, *self._lines]) + "\n")

    def _counts(self) -> dict[str, int]:
        counts = {kind: len(entries) for kind, entries in self._session.records.items()}
        for diagnostic in self._session.diagnostics.items:
            counts[f"{diagnostic.severity}s"] = counts.get(f"{diagnostic.severity}s", 0) + 1
        return counts
