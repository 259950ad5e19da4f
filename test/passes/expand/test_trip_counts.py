"""Every iteration's work happens exactly once and in order, whatever the loop's bounds are.

The loop writes down each induction variable that its first, middle and last stage see. What
it should write down is counted here, by stepping from lb to ub; the printed result of the
expander is run by `ir_to_python`, which shares no code with the package.

Covers: pipeliner/expand/write/integers.py, pipeliner/expand/write/write_loop.py, facts/loops/annotations.py, vocabulary/control_flow.py
"""

from __future__ import annotations

import pytest

from helpers.counting_loops import WIDTHS, iterations, observe, pipelined
from helpers.ir_to_python import wrap
from mlir_async_pipe import bindings

ir = bindings.ir
BOUNDS = range(-3, 10)
STEPS = range(1, 5)


def check_grid(function, kind: str, is_unsigned: bool, least: int = 0) -> int:
    """Compare every grid point that has at least `least` iterations; returns how many."""
    width, checked = WIDTHS[kind], 0
    for lower in BOUNDS:
        for upper in BOUNDS:
            for step in STEPS:
                try:
                    expected = iterations(lower, upper, step, width, is_unsigned)
                except OverflowError:
                    continue
                if len(expected) < least:
                    continue
                seen, total = observe(function, lower, upper, step)
                assert seen == [expected] * 3, (lower, upper, step)
                assert total == wrap(sum(expected), width), (lower, upper, step)
                checked += 1
    return checked


@pytest.mark.slow
@pytest.mark.parametrize("stages", range(2, 6))
@pytest.mark.parametrize("is_unsigned", [False, True], ids=["signed", "unsigned"])
@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize(
    "options",
    ["", ', async_pipe.epilogue = "predicate"', ', async_pipe.short_trip = "predicate"'],
    ids=["version", "predicated-epilogue", "predicated-short-trip"],
)
def test_dynamic_bounds_run_every_iteration_once_and_in_order(kind, is_unsigned, stages, options):
    function, _, _ = pipelined(kind, stages, is_unsigned, options)
    # 13 * 13 * 4 = 676 points. Unsigned, 10 * 3 * 4 of them (lb >= 0 > ub) would run for 2^32
    # turns and more, and 7 of those with lb < ub < 0 step over the end of the type.
    assert check_grid(function, kind, is_unsigned) == (676 - 120 - 7 if is_unsigned else 676)


@pytest.mark.parametrize("stages", range(2, 6))
def test_assume_leaves_out_the_short_loop_and_is_right_from_s_minus_1_on(stages):
    function, _, text = pipelined("index", stages, options=', async_pipe.short_trip = "assume"')
    assert "scf.if" not in text
    assert text.count("scf.for") == 1
    assert check_grid(function, "index", False, least=stages - 1) > 50


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("bounds", [(0, 0, 1), (5, 2, 1), (0, 1, 3), (-3, 9, 4), (2, 9, 1)])
def test_static_bounds_need_no_test_of_the_trip_count(stages, bounds):
    function, session, text = pipelined("index", stages, bounds=bounds)
    expected = iterations(*bounds, 64, False)
    seen, total = observe(function, 0, 0, 0)
    assert seen == [expected] * 3
    assert total == sum(expected)
    assert "scf.if" not in text
    short = len(expected) < stages - 1
    assert [d.code for d in session.diagnostics.items] == ["short-trip"] * short
    # A loop that stays as it is has no versions.
    assert ("memref<1xindex>" in text) == short


@pytest.mark.parametrize("bounds", [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 7, 2)])
@pytest.mark.parametrize("option", ["epilogue", "short_trip"])
def test_static_bounds_with_predicates(bounds, option):
    function, _, _ = pipelined(
        "index", 4, options=f', async_pipe.{option} = "predicate"', bounds=bounds
    )
    expected = iterations(*bounds, 64, False)
    seen, _ = observe(function, 0, 0, 0)
    assert seen == [expected] * 3


@pytest.mark.parametrize("options", ["", ', async_pipe.epilogue = "predicate"'])
@pytest.mark.parametrize("is_unsigned", [False, True], ids=["signed", "unsigned"])
@pytest.mark.parametrize("step", [1, 3, 4])
def test_bounds_at_the_end_of_the_type_do_not_overflow(is_unsigned, options, step):
    function, _, _ = pipelined("i32", 4, is_unsigned, options)
    upper = -1 if is_unsigned else (1 << 31) - 1
    for distance in range(step, 24, step):
        lower = upper - distance
        expected = iterations(lower, upper, step, 32, is_unsigned)
        seen, _ = observe(function, lower, upper, step)
        assert seen == [expected] * 3, (lower, upper, step)
