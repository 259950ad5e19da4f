"""Loops near both ends of their counter's type run the same iterations after pipelining.

Bounds at the smallest, the largest and around 0; steps up to half of the type, that jump past the
upper bound but not past the type: where the loop itself does not wrap, lb + trips * step and the
other numbers that the expander writes must not tell.

Covers: pipeliner/expand/write/integers.py, pipeliner/expand/write/write_loop.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from helpers import counting_loops as loops
from helpers.ir_to_python import wrap

pytestmark = pytest.mark.slow

WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
COUNTERS = [(kind, s) for kind in WIDTHS for s in (False, True) if kind != "index" or not s]
OPTIONS = {
    "version": "",
    "predicated-epilogue": ', async_pipe.epilogue = "predicate"',
    "predicated-short-trip": ', async_pipe.short_trip = "predicate"',
}
SAMPLES = 40 if not os.environ.get("ASYNC_PIPE_NIGHTLY") else 2000
CONSTANT = 3 if not os.environ.get("ASYNC_PIPE_NIGHTLY") else 60


def bounds(
    rng: random.Random, width: int, is_unsigned: bool
) -> Iterator[tuple[int, int, int, list[int]]]:
    """lb, ub, step and the counters of all iterations of loops that do not wrap."""
    low = 0 if is_unsigned else -(1 << (width - 1))
    high = low + (1 << width) - 1
    while True:
        step = rng.choice((1, 2, 3, 7, 30, 60, 1 << (width - 2), (1 << (width - 1)) - 1))
        trips = rng.randint(0, 6)
        ends_high = high - step * trips
        lower = rng.choice((low, low + 1, -1, 0, 1, ends_high - 1, ends_high, high - 1, high))
        upper = lower + step * trips - rng.choice((0, 0, 1, step - 1))
        if low <= lower <= high and low <= upper <= high:
            first, end = wrap(lower, width), wrap(upper, width)
            try:
                yield first, end, step, loops.iterations(first, end, step, width, is_unsigned)
            except OverflowError:
                continue


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("kind", "is_unsigned"), COUNTERS)
def test_bounds_at_the_ends_of_the_type(kind: str, is_unsigned: bool, options: str) -> None:
    rng = random.Random(f"{kind} {is_unsigned} {options}")
    for stages in (2, 4):
        function, _, _ = loops.pipelined(kind, stages, is_unsigned, options)
        points = bounds(rng, WIDTHS[kind], is_unsigned)
        for _ in range(SAMPLES):
            lower, upper, step, expected = next(points)
            seen, total = loops.observe(function, lower, upper, step)
            assert seen == [expected] * 3, (stages, lower, upper, step)
            assert total == wrap(sum(expected), WIDTHS[kind])
        for _ in range(CONSTANT):
            lower, upper, step, expected = next(points)
            function, _, _ = loops.pipelined(
                kind, stages, is_unsigned, options, (lower, upper, step)
            )
            seen, _ = loops.observe(function, lower, upper, step)
            assert seen == [expected] * 3, (stages, lower, upper, step)


@pytest.mark.parametrize("option", ["predicated-epilogue", "predicated-short-trip"])
@pytest.mark.parametrize("step", [1, 60])
@pytest.mark.parametrize("first", [0, 1, 100, 127, 200])
@pytest.mark.parametrize("is_unsigned", [False, True], ids=["signed", "unsigned"])
def test_a_constant_begin_and_step_near_the_ends_of_the_type(
    is_unsigned: bool, first: int, step: int, option: str
) -> None:
    """Above the smallest number ub - 3 * step is compared as it is; at it that would wrap."""
    lower = wrap(first if is_unsigned else first - 128, 8)
    function, _, _ = loops.pipelined("i8", 4, is_unsigned, OPTIONS[option], (lower, None, step))
    for upper in range(-128, 128):
        try:
            expected = loops.iterations(lower, upper, step, 8, is_unsigned)
        except OverflowError:
            continue
        seen, _ = loops.observe(function, 0, upper, 0)
        assert seen == [expected] * 3, upper


@pytest.mark.parametrize(("lower", "trips"), [((1 << 63) - 1, 0), (1, 1)])
def test_a_prologue_of_constants_past_the_end_of_64_bits(lower: int, trips: int) -> None:
    """The counter of a guarded step may be a constant that index does not have: it wraps."""
    step = 1 << 62
    function, _, _ = loops.pipelined(
        "index", 4, False, OPTIONS["predicated-short-trip"], (lower, lower + trips * step, step)
    )
    seen, _ = loops.observe(function, 0, 0, 0)
    assert seen == [[lower] * trips] * 3
