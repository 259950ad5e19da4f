"""Runs one program on the package's machine and on the second machine, and compares them.

Both get the same generic text, so that a finding's line means the same operation. They must
agree on race or not, on copies that nobody waits for and on divergent barriers, and, where
there is none of these, on every byte of every array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers import second_machine
from helpers.check_harness import argument_choices, entry_kernel
from helpers.second_machine import NotJudged
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name
from mlir_async_pipe.checker.kernel import threads_of
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import MachineError

# What both look for beside races, and what depends on values, which a race makes arbitrary.
OTHERS = frozenset({"divergent-barrier", "uncommitted-copy", "unwaited-copy"})
OF_VALUES = frozenset({"out-of-bounds", "uninitialised-read"})
COMPLETIONS = ("late", "eager", "random")


@dataclass(frozen=True)
class Disagreement:
    """One run of which the two say different things."""

    completion: str
    arguments: str
    machine: str
    second: str


@dataclass(frozen=True)
class Verdict:
    """What both say about a program, or where they differ. `not_judged` is why the second
    machine (or the first) has no meaning for it, "" if both have."""

    runs: int
    wrong: bool
    disagreements: tuple[Disagreement, ...]
    not_judged: str = ""


def generic(text: str) -> str:
    """The generic form of a module."""
    with new_context():
        module = ir.Module.parse(text)
        return module.operation.get_asm(print_generic_op_form=True, use_local_scope=True)


def vendor_of(target: str | None) -> str | None:
    """The vendor whose queues a target has, as the second machine calls it."""
    return {"nvvm": "nvidia", "rocdl": "amd", "": None}[(target or "").partition(":")[0]]


def compare(
    text: str,
    target: str | None = None,
    *,
    trips: Iterable[int] = (0, 1, 3),
    completions: Sequence[str] = COMPLETIONS,
    block: tuple[int, int, int] | None = None,
    choices: Iterable[list[Any]] | None = None,
    function: str | None = None,
    seed: int = 0,
    step_limit: int = 100_000,
) -> Verdict:
    """Run a kernel on both for all its argument choices and completions."""
    chosen = Target.parse(target) if target is not None else None
    lanes = 32 if chosen is None else chosen.chip.lanes
    runs, wrong, found = 0, False, []
    with new_context():
        module = ir.Module.parse(text)
        text = module.operation.get_asm(print_generic_op_form=True, use_local_scope=True)
        module = ir.Module.parse(text)
        name = function or symbol_name(entry_kernel(module))
        size = block or threads_of(entry_kernel(module), None).size or (4, 1, 1)
        try:
            program = second_machine.Program(text, vendor_of(target))
            program.function(name)
        except NotJudged as error:
            return Verdict(0, False, (), str(error))
        if choices is None:
            choices = argument_choices(entry_kernel(module), trips)
        for arguments in choices:
            for completion in completions:
                options = {"threads": size, "completion": completion, "seed": seed, "warp": lanes}
                try:
                    first = machine.run(
                        module, name, arguments, target=chosen, step_limit=step_limit, **options
                    )
                    second = program.run(
                        name,
                        passed(arguments),
                        step_limit=20 * step_limit * size[0] * size[1] * size[2],
                        **options,
                    )
                except (NotJudged, MachineError) as error:
                    return Verdict(runs, wrong, tuple(found), str(error))
                runs += 1
                says, says_too = of_machine(first), of_second(second)
                wrong = wrong or says["wrong"]
                if says == says_too and (says["wrong"] or same_arrays(first, second)):
                    continue
                found.append(
                    Disagreement(
                        completion,
                        str([a for a in arguments if isinstance(a, int)]),
                        f"{says} {[str(race) for race in first.races]}",
                        f"{says_too} {second.findings}",
                    )
                )
    return Verdict(runs, wrong, tuple(found))


def passed(arguments: list[Any]) -> list[Any]:
    """Arguments as the second machine takes them: bytes and shapes of arrays, numbers."""
    return [(a.tobytes(), a.shape) if isinstance(a, np.ndarray) else a for a in arguments]


def of_machine(result: machine.RunResult) -> dict[str, Any]:
    """What the package's machine says, in the words that both share."""
    return _said(result.race_codes)


def of_second(judgement: second_machine.Judgement) -> dict[str, Any]:
    """What the second machine says."""
    return _said(judgement.codes)


def _said(codes: frozenset[str]) -> dict[str, Any]:
    race = bool(codes & second_machine.RACES)
    others = sorted(codes & (OTHERS if race else OTHERS | OF_VALUES))
    if "divergent-barrier" in others:
        # The second machine stops there, the first goes on: what follows means nothing.
        return {"wrong": True, "race": None, "others": ["divergent-barrier"]}
    return {"wrong": race or bool(others), "race": race, "others": others}


def same_arrays(first: machine.RunResult, second: second_machine.Judgement) -> bool:
    """Whether all arrays hold the same bytes after both runs."""
    pairs = zip(first.arrays, second.arrays, strict=True)
    return all(a is None or a.tobytes() == b for a, b in pairs)
