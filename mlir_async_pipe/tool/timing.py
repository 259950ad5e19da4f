"""The wall time of each step, in the form of MLIR's execution time report."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from mlir_async_pipe.tool.pass_steps import Instrument, Step

RULE = "===" + "-" * 73 + "==="


class Timing(Instrument):
    """Times phases (`with timing.phase("Parser")`) and, as an instrument, the steps of a run."""

    def __init__(self, started: float) -> None:
        """`started` is time.perf_counter() when the process began."""
        self._started = started
        self._rows: list[tuple[str, float]] = []
        self._parts: dict[int, list[tuple[str, float]]] = {}
        self._step_began = 0.0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the block as one row."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - began)

    def add(self, name: str, seconds: float) -> None:
        self._rows.append((name, seconds))

    def add_parts(self, seconds: dict[str, float]) -> None:
        """What the last row was spent on; of steps that ran beside others the sum may be more."""
        self._parts[len(self._rows) - 1] = list(seconds.items())

    def before(self, step: Step, root: Any) -> None:
        self._step_began = time.perf_counter()

    def after(self, step: Step, root: Any) -> None:
        nest = "".join(f"'{anchor}' " for anchor in step.anchors[1:])
        self.add(f"{nest}{step.name}", time.perf_counter() - self._step_began)

    failed = after

    def write(self) -> None:
        """Write the report to stderr; "Rest" is what no row covers."""
        total = time.perf_counter() - self._started
        rest = total - sum(seconds for _, seconds in self._rows)
        lines = [
            RULE,
            "... Execution time report ...".center(len(RULE)).rstrip(),
            RULE,
            f"  Total Execution Time: {total:.4f} seconds",
            "",
            "  ----Wall Time----  ----Name----",
        ]
        for number, (name, seconds) in enumerate([*self._rows, ("Rest", rest), ("Total", total)]):
            # The parts of a row stand under it, those of a thousandth of a second or more.
            parts = [(f"  {part}", took) for part, took in self._parts.get(number, ())]
            for row, took in [(name, seconds), *(part for part in parts if part[1] >= 0.001)]:
                lines.append(f"  {took:8.4f} ({100 * took / total:5.1f}%)  {row}")
        sys.stderr.write("\n".join(lines) + "\n")
