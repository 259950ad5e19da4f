"""Pipelines a random kernel with flags and runs it: what became of its loops, and every law it breaks.

same     under every schedule of the second machine the pipelined program computes what the program
         computes: blocks and threads in any order, copies early and late, plain reads that see the
         oldest value which is not overwritten in happens-before order
ordered  neither has a race or a deadlock on either machine
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from helpers import second_machine
from helpers.random_flags import FUNCTION, FlagProgram
from helpers.two_judges import passed, vendor_of
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

RUNS = tuple(
    (order, completion)
    for order in ("forward", "backward", "random")
    for completion in ("eager", "late", "random")
)
RUNS_OF_MACHINE = (("lockstep", "late"), ("backward", "eager"), ("random", "random"))


@dataclass
class Outcome:
    """What became of one program: `loops` are annotated, of which `pipelined` have several stages;
    why the others have not stands in `reasons`. `failures` are sentences, none of which may be."""

    program: str
    kind: str
    loops: int = 0
    pipelined: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    failures: list[str] = field(default_factory=list)


def judge(program: FlagProgram) -> Outcome:
    """Everything about one program."""
    sides = (program.producer, program.consumer)
    outcome = Outcome(program.name, program.kind, sum(side.stages > 0 for side in sides))
    with new_context():
        module = ir.Module.parse(program.text)
        before = str(module)
        wanted = _run(module, program, outcome, "the input, ")
        if outcome.failures:
            return outcome
        try:
            _pipeline(module, program, outcome)
        except AsyncPipeError as error:
            outcome.reasons[error.code] += outcome.loops
            return outcome
        except Exception as error:
            outcome.failures.append(f"dies: {type(error).__name__}: {error}")
            return outcome
        if str(module) != before:
            got = _run(module, program, outcome, "")
            _compare(wanted, got, outcome)
    return outcome


def _pipeline(module: Any, program: FlagProgram, outcome: Outcome) -> None:
    target = None if program.target is None else Target.parse(program.target)
    session = Session(target=target)
    found = passes.find("async-pipe")
    found.run(module.operation, found.options(check="none"), session)
    report = session.report()
    outcome.pipelined = sum(loop.stages > 1 for loop in report.of("loops"))
    left = outcome.loops - outcome.pipelined
    codes = [item.code for item in report.diagnostics if item.code not in _NO_REASONS]
    outcome.reasons.update((codes + ["left"] * left)[:left])
    if left > len(codes):
        outcome.failures.append(f"{left} loops are left, with the reasons {codes}")


_NO_REASONS = frozenset({"needless-barrier", "needless-wait"})


def judge_without(program: FlagProgram, step: int) -> tuple[int, int, list[str]]:
    """Pipeline a program and drop every `step`th of its barriers, one at a time: how many, how many of
    these are needed, and what the two machines do not agree on. None of a program that is refused."""
    outcome, disagreements, needed = Outcome(program.name, program.kind), [], 0
    with new_context():
        module = ir.Module.parse(program.text)
        try:
            _pipeline(module, program, outcome)
        except AsyncPipeError:
            return 0, 0, []
        lines = str(module).splitlines()
        barriers = [number for number, line in enumerate(lines) if "gpu.barrier" in line][::step]
        for number in barriers:
            outcome.failures.clear()
            dropped = ir.Module.parse("\n".join([*lines[:number], *lines[number + 1 :]]))
            _run(dropped, program, outcome, "")
            says = {failure.partition(",")[0] for failure in outcome.failures} & _MACHINES
            needed += bool(says)
            if len(says) == 1:
                disagreements.append(f"{program.name}, line {number + 1}: only {says}")
    return len(barriers), needed, disagreements


_MACHINES = {"machine", "second machine"}


def _run(
    module: Any, program: FlagProgram, outcome: Outcome, what: str
) -> dict[str, tuple[bytes | None, ...]]:
    """The arrays after each run; races and deadlocks are failures."""
    text = module.operation.get_asm(print_generic_op_form=True, use_local_scope=True)
    second = second_machine.Program(text, vendor_of(program.target))
    arguments, found = program.arguments(), {}
    for order, completion in RUNS:
        judged = second.run(
            FUNCTION,
            passed(arguments),
            threads=(program.threads, 1, 1),
            grid=(program.grid, 1, 1),
            completion=completion,
            order=order,
            seed=program.seed,
        )
        outcome.runs += 1
        found[f"{order}, {completion}"] = judged.arrays
        if judged.findings:
            outcome.failures.append(
                f"second machine, {what}{order}, {completion}: {judged.findings}"
            )
    for schedule, completion in RUNS_OF_MACHINE:
        result = machine.run(
            module,
            FUNCTION,
            arguments,
            threads=program.threads,
            grid=program.grid,
            schedule=schedule,
            completion=completion,
            seed=program.seed,
            target=program.target,
        )
        outcome.runs += 1
        arrays = tuple(None if array is None else array.tobytes() for array in result.arrays)
        found[f"machine, {schedule}, {completion}"] = arrays
        if result.races:
            races = [str(race) for race in result.races]
            outcome.failures.append(f"machine, {what}{schedule}, {completion}: {races}")
    if len(set(found.values())) > 1:
        outcome.failures.append(f"{what}results differ between schedules")
    return found


def _compare(wanted: dict, got: dict, outcome: Outcome) -> None:
    differ = [run for run, arrays in got.items() if arrays != wanted[run]]
    if differ:
        outcome.failures.append(f"results differ from the input's: {'; '.join(differ)}")
