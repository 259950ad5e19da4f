"""Where a module is going: a vendor's lowering and one chip of it.

    Target.parse("nvvm:sm_80")     Target.parse("rocdl:gfx950")

What each chip can do stands in `chips.table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.chips.table import CHIPS, Chip
from mlir_async_pipe.session.diagnostics import UsageError

__all__ = ["CHIPS", "Chip", "Target"]


@dataclass(frozen=True)
class Target:
    """A lowering ("nvvm" or "rocdl") and the chip it is for."""

    lowering: Literal["nvvm", "rocdl"]
    chip: Chip

    @staticmethod
    def parse(text: str) -> Target:
        """Read `lowering:chip`; raises UsageError (unknown-target) for anything else."""
        lowering, _, name = text.partition(":")
        chip = CHIPS.get(name)
        if chip is None or chip.lowering != lowering:
            known = ", ".join(f"{chip.lowering}:{chip.name}" for chip in CHIPS.values())
            raise UsageError(
                f"unknown target '{text}'", code="unknown-target", advice=f"known targets: {known}"
            )
        return Target(chip.lowering, chip)

    @staticmethod
    def of_chip(name: str) -> Target:
        """The target of a chip given by name alone; raises UsageError (unknown-target)."""
        chip = CHIPS.get(name)
        if chip is None:
            known = ", ".join(CHIPS)
            raise UsageError(
                f"unknown chip '{name}'", code="unknown-target", advice=f"known chips: {known}"
            )
        return Target(chip.lowering, chip)

    def __str__(self) -> str:
        return f"{self.lowering}:{self.chip.name}"
