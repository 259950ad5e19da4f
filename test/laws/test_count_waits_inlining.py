"""The law of inlining, on the random programs with calls.

Covers: waits/summaries.py
"""

import pytest

from helpers.inline_wait_programs import inlined
from helpers.random_wait_programs import Maker
from helpers.wait_programs import print_program, waits_in
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session


def with_calls(seed: int) -> bool:
    """Whether a program has waits on queues of the thread and calls of known functions."""
    program = Maker(seed).make()
    return "call" in program.features and not program.function_scope


SEEDS = [seed for seed in range(400) if with_calls(seed)]


def counts(program) -> list[tuple[int, int | None, str]]:
    """(number of the wait, exact count, reason) in textual order."""
    found = passes.find("async-pipe-count-waits")
    session = Session()
    with new_context():
        module = ir.Module.parse(print_program(program))
        assert module.operation.verify()
        found.run(module.operation, passes.parse_options(found, ""), session)
    waits = [wait for function in program.functions for wait in waits_in(function.body)]
    records = session.report().of("waits")
    return [
        (wait.number, record.exact, record.reason)
        for wait, record in zip(waits, records, strict=True)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_inlining_never_lowers_a_count(seed):
    """Law: counted again with the callees' bodies in place, each wait of the caller and each
    copy of a wait of a callee has an equal or better count (thread-scope queues)."""
    program = Maker(seed).make()
    before = {number: exact for number, exact, _ in counts(program)}
    for number, exact, reason in counts(inlined(program)):
        if reason == "correlation-limit" or exact is None or before[number] is None:
            continue
        assert max(0, exact) >= max(0, before[number])


def test_the_programs_have_copies_with_better_counts():
    """Some counts do rise: the law is not met by equality alone."""
    better = copies = 0
    for seed in SEEDS[:40]:
        program = Maker(seed).make()
        before = {number: exact for number, exact, _ in counts(program)}
        after = counts(inlined(program))
        copies += len(after) - len(before)
        better += sum((exact or 0) > (before[number] or 0) for number, exact, _ in after)
    assert copies >= 40
    assert better >= 10
