"""Copies of several stages share the one FIFO of cp.async: right, and with the largest counts.

Covers: pipeliner/plan/sync_state.py
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from helpers.shared_queue import LENGTH, program
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow

ir = bindings.ir
SAMPLES = int(os.environ.get("ASYNC_PIPE_SAMPLES", "12"))
TRIPS = range(5, 9)


def expanded(source: str):
    module = ir.Module.parse(source, bindings.new_context())
    session = Session()
    for name in (
        "async-pipe-normalise",
        "async-pipe-schedule",
        "async-pipe-expand",
        "async-pipe-count-waits",
    ):
        found = passes.find(name)
        found.run(module.operation, found.options(), session)
    return module, session


def kernel_counts(module) -> list[int]:
    kernel = next(op for op in walk(module.operation) if op.name == "scf.for")
    return [
        ir.IntegerAttr(op.attributes["numGroups"]).value
        for op in walk(kernel)
        if op.name == "nvgpu.device_async_wait"
    ]


def assert_right(module, producers: int, trips: int) -> None:
    arrays = [np.arange(LENGTH, dtype=np.int32) * (n + 3) + 100 * n for n in range(producers)]
    expected = np.zeros(LENGTH, dtype=np.int32)
    expected[:trips] = sum(arrays)[:trips]
    for completion in ("late", "random", "eager"):
        result = np.zeros(LENGTH, dtype=np.int32)
        run = machine.run(module, "f", [trips, *arrays, result], completion=completion)
        assert not run.race_codes, (completion, trips)
        assert (np.asarray(run.arrays[-1]) == expected).all(), (completion, trips)


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_copies_in_several_stages_equal_the_sequential_result(seed):
    """Law: any schedule that is not refused gives the sum, however late copies finish."""
    choice = random.Random(seed)
    legal = 0
    while legal < 3:
        producers = choice.randint(2, 3)
        statements = 2 * producers + 1
        first = [choice.randint(0, 2) for _ in range(producers)]
        stage = [s - min(first) for s in first]
        stage += [choice.randint(max(stage), 4)] * (producers + 1)
        order = choice.sample(range(statements), statements)
        options = choice.choice(["", ', async_pipe.wait_at = "iteration"'])
        try:
            module, _ = expanded(program(producers, stage, order, options))
        except AsyncPipeError as refusal:
            assert refusal.code == "dependence-violated"
            continue
        legal += 1
        for trips in (0, 1, choice.choice(TRIPS)):
            assert_right(module, producers, trips)


def test_first_turns_do_not_wait_for_what_never_was():
    """Copies in stages 0 and 2, both used in stage 4: nine younger groups than the first copy
    that is used, four than the second, from the first iteration on."""
    module, _ = expanded(program(2, [0, 2, 4, 4, 4], [0, 1, 2, 3, 4], ""))
    assert kernel_counts(module) == [9, 4]
    for trips in range(9):
        assert_right(module, 2, trips)


def test_report_says_what_the_empty_groups_save():
    """Two steps of the prologue lack the second copy: the first iteration's wait for the first copy
    would have 7 groups after it instead of 9, the wait for the second one has all of its 4."""
    _, session = expanded(program(2, [0, 2, 4, 4, 4], [0, 1, 2, 3, 4], ""))
    (record,) = session.records["loops"]
    assert (record.filling.empty_groups, record.filling.kept_in_flight) == (2, 2)


def test_without_the_empty_groups_the_count_is_that_much_smaller():
    source = program(2, [0, 2, 4, 4, 4], [0, 1, 2, 3, 4], "")
    constant = "%c20 = arith.constant 20 : index\nscf.for %i = %c0 to %c20 step"
    module, session = expanded(source.replace("scf.for %i = %c0 to %n step", constant))
    with_them = sum(kernel_counts(module))
    empty = [op for op in walk(module.operation) if "async_pipe.empty" in op.attributes]
    assert len(empty) == session.records["loops"][0].filling.empty_groups
    for op in empty:
        op.erase()
    count = passes.find("async-pipe-count-waits")
    count.run(module.operation, count.options(), Session())
    (record,) = session.records["loops"]
    assert with_them - sum(kernel_counts(module)) == record.filling.kept_in_flight


@pytest.mark.parametrize("stage", [[0, 0, 2, 2, 2], [1, 1, 3, 3, 3]])
def test_one_stage_on_the_queue_needs_no_empty_groups(stage):
    _, session = expanded(program(2, stage, [0, 1, 2, 3, 4], ""))
    (record,) = session.records["loops"]
    assert record.filling.empty_groups == 0
