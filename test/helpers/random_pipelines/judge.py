"""Pipelines a random program, runs and checks it: what became of it, and every law it breaks.

right      whenever copies arrive, the pipelined program computes what the program computes
clean      neither has a race on the machine
proven     the checker says unsafe or unknown of no access of the result
tight      with a count one larger, where the machine finds a race the checker says unsafe
           (or unknown, which the table counts: waits less those that are tight)
agreed     the second machine says the same as the machine of each run of the result, and of each
           run with a larger count: which races, and without one every byte of every array
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import second_machine
from helpers.check_harness import RACES, check_module
from helpers.random_pipelines import Program
from helpers.second_machine import NotJudged
from helpers.two_judges import of_machine, of_second, passed, same_arrays, vendor_of
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, set_integer, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.machine.run_kernel import RunResult
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import row_of

COMPLETIONS = (("eager", 0), ("late", 0), ("random", 1))
HAZARDS = RACES | {"uninitialised-read", "uncommitted-copy", "wait-before-commit"}


@dataclass
class Outcome:
    """What became of one program.

    `refused` is the reason code of the error, or of the remark that left the loop as it is, "".
    `mutants` are waits weakened by one, of which the checker called `unsafe` unsafe, and the
    machine saw `racing` of the others race. The second machine ran `compared` times beside the
    machine and differed `disagreed` times; `not_judged` are reasons why it did not run.
    `failures` are sentences, none of which may be.
    """

    program: str
    pipelined: bool = False
    refused: str = ""
    accesses: int = 0
    unknown: int = 0
    mutants: int = 0
    unsafe: int = 0
    racing: int = 0
    compared: int = 0
    disagreed: int = 0
    not_judged: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def judge(program: Program) -> Outcome:
    """Everything about one program."""
    outcome = Outcome(program.name)
    with new_context():
        try:
            module = ir.Module.parse(program.text)
        except ir.MLIRError as error:
            outcome.failures.append(f"does not parse: {error}")
            return outcome
        expected = _run(module, program, "eager", 0)
        if _races(expected):
            outcome.failures.append(f"the input races: {sorted(_races(expected))}")
            return outcome
        try:
            _pipeline(module, program, outcome)
        except AsyncPipeError as error:
            outcome.refused = error.code
            if not module.operation.verify():
                outcome.failures.append("refused, and the module does not verify")
            return outcome
        except Exception as error:
            outcome.failures.append(f"dies: {type(error).__name__}: {error}")
            return outcome
        _judge_result(module, program, expected, outcome)
        if outcome.pipelined and not outcome.failures:
            for number in range(len(list(_counted_waits(module)))):
                _judge_weaker(module, number, program, outcome)
    return outcome


def _pipeline(module: Any, program: Program, outcome: Outcome) -> None:
    target = None if program.target is None else Target.parse(program.target)
    session = Session(target=target)
    found = passes.find("async-pipe")
    found.run(module.operation, found.options(**program.options, check="none"), session)
    report = session.report()
    outcome.pipelined = any(loop.stages > 1 for loop in report.of("loops"))
    remarks = [item.code for item in report.diagnostics]
    if not outcome.pipelined:
        outcome.refused = next((code for code in remarks if code in _LEFT), "left")


_LEFT = ("short-trip", "one-stage", "nothing-to-overlap")


def _judge_result(module: Any, program: Program, expected: RunResult, outcome: Outcome) -> None:
    try:
        verified = module.operation.verify()
    except ir.MLIRError as error:
        outcome.failures.append(f"does not verify: {error}")
        return
    if not verified:
        outcome.failures.append("does not verify")
        return
    checked = check_module(module, program.target)
    outcome.accesses, outcome.unknown = checked.accesses, checked.unknown_accesses
    if checked.unsafe:
        outcome.failures.append(f"checker: unsafe {sorted(checked.unsafe)}")
    if checked.unknown:
        outcome.failures.append(f"checker: unknown {sorted(checked.unknown)}")
    second = Second(module, program, outcome)
    for completion, seed in COMPLETIONS:
        result = _run(module, program, completion, seed)
        second.compare(result, completion, seed)
        if _races(result):
            outcome.failures.append(f"races, {completion}: {sorted(_races(result))}")
        for number, (wanted, got) in enumerate(zip(expected.arrays, result.arrays, strict=True)):
            if wanted is not None and not np.array_equal(wanted, got):
                outcome.failures.append(f"argument {number} differs, {completion}")


def _judge_weaker(module: Any, number: int, program: Program, outcome: Outcome) -> None:
    """The law of tightness, for one wait."""
    wait = list(_counted_waits(module))[number]
    rule = row_of(wait).wait
    count = integer_attribute(wait, rule.count)
    set_integer(wait, rule.count, count + 1, rule.count_bits)
    outcome.mutants += 1
    checked = check_module(module, program.target)
    outcome.unsafe += bool(checked.unsafe)
    result = _run(module, program, "late", 0)
    Second(module, program, outcome, f"wait {number} + 1, ").compare(result, "late", 0)
    if not checked.unsafe:
        racing = _races(result)
        outcome.racing += bool(racing)
        if racing and not checked.unknown:
            outcome.failures.append(f"checker misses wait {number} + 1: {sorted(racing)}")
    set_integer(wait, rule.count, count, rule.count_bits)


class Second:
    """The second machine beside the machine, on a module as it is now."""

    def __init__(self, module: Any, program: Program, outcome: Outcome, what: str = "") -> None:
        self.program, self.outcome, self.what = program, outcome, what
        target = None if program.target is None else Target.parse(program.target)
        self.lanes = 32 if target is None else target.chip.lanes
        text = module.operation.get_asm(print_generic_op_form=True, use_local_scope=True)
        self.judged = None
        try:
            self.judged = second_machine.Program(text, vendor_of(program.target))
        except NotJudged as error:
            outcome.not_judged.append(str(error))

    def compare(self, first: RunResult, completion: str, seed: int) -> None:
        """Run as the machine did, and note where the two differ."""
        if self.judged is None:
            return
        try:
            second = self.judged.run(
                self.program.function,
                passed(self.program.arguments()),
                threads=self.program.threads,
                completion=completion,
                seed=seed,
                warp=self.lanes,
            )
        except NotJudged as error:
            self.outcome.not_judged.append(str(error))
            return
        self.outcome.compared += 1
        says, says_too = of_machine(first), of_second(second)
        if says == says_too and (says["wrong"] or same_arrays(first, second)):
            return
        self.outcome.disagreed += 1
        self.outcome.failures.append(
            f"machines disagree, {self.what}{completion}: {says}, second {says_too}"
        )


def _counted_waits(module: Any) -> Iterator[Any]:
    for op in walk(module.operation):
        row = row_of(op)
        if row is None or row.wait is None or not row.wait.count:
            continue
        if integer_attribute(op, row.wait.count) is not None:
            yield op


def _run(module: Any, program: Program, completion: str, seed: int) -> RunResult:
    target = None if program.target is None else Target.parse(program.target)
    return machine.run(
        module,
        program.function,
        program.arguments(),
        threads=program.threads,
        completion=completion,
        seed=seed,
        target=target,
    )


def _races(result: RunResult) -> frozenset[str]:
    return frozenset(race.code for race in result.races if race.code in HAZARDS)
