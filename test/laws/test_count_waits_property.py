"""The law of the count pass: equal to the minimum over all paths, found by enumeration.

Covers: waits/count.py, waits/summaries.py, waits/minplus.py, waits/correlation.py,
waits/witness_paths.py
"""

from __future__ import annotations

from collections import Counter

import pytest

from helpers.random_wait_programs import Maker
from helpers.wait_programs import OLDEST, TooLarge, enumerate_counts, print_program
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

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
        pytest.skip("runs after the batches of the same process")
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


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_groups_on_the_witness_add_up_to_the_count(seed):
    """Law: the path that is shown commits exactly as many younger groups as the count says."""
    program = Maker(seed).make()
    if program.function_scope:
        pytest.skip("a foreign group is not among the marks that the path shows")
    found = passes.find("async-pipe-count-waits")
    session = Session()
    with new_context():
        module = ir.Module.parse(print_program(program))
        found.run(module.operation, passes.parse_options(found, ""), session)
    for record in session.report().of("waits"):
        if record.exact is not None and record.exact >= 0:
            assert sum(step.groups for step in record.witness) == record.exact


def counts_by_place(text: str, function_scope: bool, pipeline: str) -> dict[str, list[int]]:
    """The exact counts after a pipeline of upstream passes, by the place of the wait."""
    found = passes.find("async-pipe-count-waits")
    options = "chip=gfx950" if function_scope else ""
    session = Session()
    with new_context():
        module = ir.Module.parse(text)
        if pipeline:
            manager = passmanager.PassManager.parse(f"builtin.module({pipeline})")
            manager.run(module.operation)
        found.run(module.operation, passes.parse_options(found, options), session)
    counts: dict[str, list[int]] = {}
    for record in session.report().of("waits"):
        # A wait that no path reaches has no count; after a clean-up it may be gone.
        if record.exact is not None:
            counts.setdefault(str(record.place), []).append(max(0, record.exact))
    return counts


@pytest.mark.parametrize("pipeline", ["canonicalize", "cse", "canonicalize,cse"])
@pytest.mark.parametrize("seed", range(1, 120, 4))
def test_clean_ups_never_lower_a_count(seed, pipeline):
    """Law: canonicalize and cse leave each wait that they keep an equal or better count."""
    program = Maker(seed).make()
    text = print_program(program)
    before = counts_by_place(text, program.function_scope, "")
    after = counts_by_place(text, program.function_scope, pipeline)
    assert set(after) <= set(before)
    for place, counts in after.items():
        assert min(counts) >= min(before[place])


@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_counts_after_scf_to_cf_are_the_same_without_static_trips(seed):
    """Law: blocks and branches allow every path that structured code does, and no other one
    where no trip count is static."""
    program = Maker(seed).make()
    text = print_program(program)
    if program.function_scope or "scf.forall" in text or "affine.for" in text:
        pytest.skip("not converted by convert-scf-to-cf")
    for trips in range(5):
        text = text.replace(f"to %trips{trips} step", "to %dynamic step")
    assert counts_by_place(text, False, "convert-scf-to-cf") == counts_by_place(text, False, "")


@pytest.mark.parametrize("seed", range(2, 120, 5))
def test_counting_again_changes_nothing(seed):
    """Law: a second run writes the same counts."""
    program = Maker(seed).make()
    found = passes.find("async-pipe-count-waits")
    with new_context():
        module = ir.Module.parse(print_program(program))
        texts = []
        for _ in range(2):
            found.run(module.operation, passes.parse_options(found, ""), Session())
            texts.append(str(module))
    assert texts[0] == texts[1]
