"""Modulo what the iteration numbers of a kernel's loops must be known.

    slot = (k + 2) mod 3                 k is needed modulo 3
    parity = (k div 2) mod 2             k is needed modulo 4

The moduli are found while running, and the run starts again with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

from mlir_async_pipe.checker.forms import ANYTHING, Facts, Form
from mlir_async_pipe.checker.residues import LARGEST_PERIOD, needed_periods


class PeriodError(Exception):
    """A remainder needs iteration numbers of a loop modulo more than is tracked."""

    def __init__(self, loop: int, period: int) -> None:
        self.loop = loop
        self.period = period


def check_periods(value: Form, facts: Facts, tracked: Mapping[int, int]) -> None:
    """Raise PeriodError where `value` needs an iteration number modulo more than is `tracked`."""
    for atom, period in needed_periods(value):
        if atom.kind != "iteration" or period <= 1:
            continue
        loop = int(atom.key)  # type: ignore[call-overload]
        known = facts.get(atom, ANYTHING)
        wanted = lcm(tracked.get(loop, 1), period)
        if known.modulus % period and known.exact is None and wanted <= LARGEST_PERIOD:
            raise PeriodError(loop, wanted)
