"""Where a module is going: a vendor's lowering and one chip of it.

    Target.parse("nvvm:sm_80")     Target.parse("rocdl:gfx950")

What each chip can do stands in `chips.table`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar, cast

from mlir_async_pipe.chips.table import CHIPS, Chip
from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.diagnostics import UsageError

__all__ = ["CHIPS", "Chip", "Target", "chip_for", "target_for"]

# Of chips that differ in a digit none is meant by the other.
_SURE = 0.95


@dataclass(frozen=True)
class Target:
    """A lowering ("nvvm" or "rocdl") and the chip it is for."""

    lowering: Literal["nvvm", "rocdl"]
    chip: Chip

    @staticmethod
    def parse(text: str | Target) -> Target:
        """Read "LOWERING:CHIP": "nvvm" or "rocdl", and a chip of that vendor in `CHIPS`. Raises UsageError
        (unknown-target) for anything else; its advice is the target meant, else all."""
        if isinstance(text, Target):
            return text
        text = str(text)
        lowering, _, name = text.partition(":")
        chip = CHIPS.get(name)
        if chip is None or chip.lowering != lowering:
            known = [f"{chip.lowering}:{chip.name}" for chip in CHIPS.values()]
            advice = did_you_mean(text, known, "known targets", _SURE)
            raise UsageError(f"unknown target '{text}'", code="unknown-target", advice=advice)
        return Target(chip.lowering, chip)

    @staticmethod
    def of_chip(name: str) -> Target:
        """The target of a chip given by name alone; raises UsageError (unknown-target)."""
        chip = CHIPS.get(name)
        if chip is None:
            advice = did_you_mean(name, CHIPS, "known chips", _SURE)
            raise UsageError(f"unknown chip '{name}'", code="unknown-target", advice=advice)
        return Target(chip.lowering, chip)

    def __str__(self) -> str:
        return f"{self.lowering}:{self.chip.name}"


@dataclass(frozen=True)
class ChipOptions:
    """The option of passes that ask for nothing but where a module is going: the name of its `chip`, ""
    where the session says it, or nobody."""

    chip: str = ""


class Targeted(Protocol):
    """What has a target, or none yet: a `Session`."""

    target: Target | None


Going = TypeVar("Going", bound=Targeted)


def target_for(options: Any, session: Targeted) -> Target | None:
    """Where a pass is going: to the chip of its options, else to the target of the session."""
    return Target.of_chip(options.chip) if options.chip else session.target


def with_target(options: Any, session: Going) -> Going:
    """The session, going to the chip of a pass's options where it goes nowhere yet."""
    if options.chip and session.target is None:
        kept: Any = session
        return cast("Going", replace(kept, target=Target.of_chip(options.chip)))
    return session


def chip_for(options: Any, session: Targeted, lowering: Literal["nvvm", "rocdl"]) -> Chip:
    """The chip of the pass `async-pipe-to-nvvm` or `async-pipe-to-rocdl`. Raises UsageError (chip-missing,
    unknown-target, wrong-vendor)."""
    target = target_for(options, session)
    vendor = {"nvvm": "NVIDIA", "rocdl": "AMD"}[lowering]
    known = ", ".join(chip.name for chip in CHIPS.values() if chip.lowering == lowering)
    if target is None:
        why = f"pass 'async-pipe-to-{lowering}' needs a chip"
        raise UsageError(why, code="chip-missing", advice=f"give chip=NAME, one of {known}")
    if target.lowering != lowering:
        why = f"'{target.chip.name}' is no {vendor} chip"
        raise UsageError(why, code="wrong-vendor", advice=f"{vendor} chips: {known}")
    return target.chip
