"""The law of the count pass: equal to the minimum over all paths, found by enumeration."""

from __future__ import annotations

from collections import Counter

import pytest
from random_wait_programs import Maker
from wait_programs import OLDEST, TooLarge, enumerate_counts, print_program

from mlir_async_pipe import passes
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.report import Session

BATCHES = 12
PROGRAMS_A_BATCH = 100


@pytest.fixture(scope="module")
def seen():
    """What all batches together tried; the last test judges it."""
    return {"programs": 0, "features": Counter(), "counts": Counter()}


def count(text: str, function_scope: bool) -> list[int]:
    """The exact counts by the pass, saturated like those of the enumeration."""
    found = passes.find("async-pipe-count-waits")
    options = "chip=gfx950" if function_scope else ""
    session = Session()
    with new_context():
        module = ir.Module.parse(text)
        found.run(module.operation, passes.parse_options(found, options), session)
        assert module.operation.verify()
    records = session.report().of("waits")
    return [max(0, min(OLDEST, record.exact or 0)) for record in records]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_counts_equal_the_minimum_over_all_paths(batch, seen):
    """Law: for each wait of a random program the pass finds the least number of younger
    groups over all paths with up to four trips a dynamic loop, neither more nor less."""
    for seed in range(batch * PROGRAMS_A_BATCH, (batch + 1) * PROGRAMS_A_BATCH):
        program = Maker(seed).make()
        try:
            expected = enumerate_counts(program)
        except TooLarge:
            continue
        text = print_program(program)
        assert count(text, program.function_scope) == expected, f"seed {seed}\n{text}"
        seen["programs"] += 1
        seen["features"].update(program.features)
        seen["counts"].update(expected)


def test_the_random_programs_are_hard_enough(seen):
    """At least 1000 programs, 30 % with shifted or permuted tokens, 20 % with graphs of
    blocks, 10 % with calls, and fewer than 40 % of the counts 0."""
    if seen["programs"] == 0:
        pytest.skip("runs behind the batches of the same process")
    programs, counts = seen["programs"], seen["counts"]
    total = counts.total()
    print(f"\n{programs} programs, {total} waits")
    for feature, number in sorted(seen["features"].items()):
        print(f"  {feature:<10}{number / programs:6.1%}")
    for value, number in sorted(counts.items()):
        print(f"  count {value:<3} {number:5} {number / total:6.1%}")
    assert programs >= 1000
    assert seen["features"]["shifted"] >= 0.3 * programs
    assert seen["features"]["graph"] >= 0.2 * programs
    assert seen["features"]["call"] >= 0.1 * programs
    assert counts[0] < 0.4 * total
