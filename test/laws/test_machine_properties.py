"""Laws of pipelining, judged by the machine on random loops.

ASYNC_PIPE_EXAMPLES is the number of loops for each law (60 take about ten seconds); a
failing loop is printed with what reproduces it, and --hypothesis-seed starts elsewhere.

Covers: pipeliner/expand/expand_pass.py, waits/count_pass.py, machine/run_kernel.py, machine/launch.py,
machine/warp_order.py
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, example, find, given, settings
from hypothesis import strategies as st

from helpers.machine_loops import LARGEST_TRIPS, Loop, loops
from helpers.machine_programs import parse
from mlir_async_pipe import api, machine
from mlir_async_pipe.bindings.raw_ops import integer_attribute, set_integer, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.machine.run_kernel import RunResult
from mlir_async_pipe.session.diagnostics import AsyncPipeError, PipelineError

EXAMPLES = int(os.environ.get("ASYNC_PIPE_EXAMPLES", "60"))
LAW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def sequential(loop: Loop) -> RunResult:
    """The loop as it was written."""
    module = parse(loop.text(annotated=False))
    result = machine.run(module, "f", loop.arguments(), threads=loop.threads)
    assert result.races == ()
    return result


def pipelined(loop: Loop) -> Any:
    """The module after the pipeline; raises PipelineError where the loop is refused."""
    module = parse(loop.text(annotated=True))
    api.pipeline(module, target=loop.target)
    return module


def run(module: Any, loop: Loop, **options: Any) -> RunResult:
    target = None if loop.target is None else Target.parse(loop.target)
    return machine.run(
        module, "f", loop.arguments(), threads=loop.threads, target=target, **options
    )


def same(left: RunResult, right: RunResult) -> bool:
    """Whether all arrays are equal."""
    pairs = zip(left.arrays, right.arrays, strict=True)
    return all(np.array_equal(a, b) for a, b in pairs if a is not None and b is not None)


def test_random_loops_are_as_varied_as_promised():
    seen: Counter[str] = Counter()

    @settings(max_examples=400, database=None, derandomize=True)
    @given(loops())
    def count(loop: Loop) -> None:
        seen.update(["all", *loop.traits])

    count()
    share = {trait: number / seen["all"] for trait, number in seen.items()}
    assert share["two async stages"] >= 0.2 and share["if"] >= 0.2
    assert share["nested"] >= 0.1 and share["dynamic"] >= 0.3 and share["threads"] >= 0.3


def test_pipelined_equals_sequential_under_every_completion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For every loop that is pipelined: the same arrays and no races, whatever the adversary
    does; a loop that is refused is skipped, and the number of skips is printed."""
    outcomes: Counter[str] = Counter()

    @LAW
    @given(loops(), st.integers(0, 1000))
    def law(loop: Loop, seed: int) -> None:
        expected = sequential(loop)
        try:
            module = pipelined(loop)
        except PipelineError as error:
            event(f"skipped: {error.code}")
            outcomes[f"skipped: {error.code}"] += 1
            return
        outcomes["pipelined"] += 1
        for completion in ("eager", "late", f"random:{seed}"):
            result = run(module, loop, completion=completion)
            assert result.races == ()
            assert same(result, expected)

    law()
    with capsys.disabled():
        print(f"\npipelined equals sequential: {dict(outcomes)}")
    assert outcomes["pipelined"] >= 0.6 * sum(outcomes.values())


@LAW
@given(loops(), st.integers(0, 1000), st.sampled_from(["forward", "backward", "random"]))
def test_pipelined_equals_sequential_under_every_thread_schedule(
    loop: Loop, seed: int, schedule: str
) -> None:
    """Warps of one thread that run one after the other between barriers change nothing."""
    loop = replace(loop, threads=4)
    try:
        module = pipelined(loop)
    except PipelineError:
        return
    result = run(module, loop, completion="late", schedule=schedule, seed=seed, warp=1)
    assert result.races == ()
    assert same(result, sequential(loop))


@LAW
@example(
    Loop(
        threads=1,
        copies=(0,),
        middle=True,
        sinks=("store", "store"),
        stages=(0, 1, 1, 1),
        order=(1, 0, 2, 3),
        async_stages=(0, 1),
        trips=2,
        dynamic=False,
        outer_trips=1,
        num_stages=0,
        target="nvvm:sm_80",
    )
)
@example(
    Loop(
        threads=1,
        copies=(0, 0),
        middle=False,
        sinks=("store",),
        stages=(0, 1, 1),
        order=(0, 1, 2),
        async_stages=(0, 1),
        trips=0,
        dynamic=True,
        outer_trips=1,
        num_stages=0,
        target=None,
    )
)
@given(loops())
def test_counts_are_exact_on_the_paths_that_attain_them(loop: Loop) -> None:
    """Each emitted count is the smallest number of younger groups over all executions: with
    one more, the group that the token names would still be in flight on that path."""
    try:
        # Copies of one wait share its location; parsed again, each has a line of its own.
        module = parse(str(pipelined(loop)))
    except PipelineError:
        return
    smallest: dict[Any, tuple[int, int]] = {}
    for trips in range(LARGEST_TRIPS + 1) if loop.dynamic else (loop.trips,):
        for record in run(module, replace(loop, trips=trips)).waits:
            assert record.exact is None or record.count <= record.exact
            if record.exact is not None:
                key = (record.op, record.place)
                _, known = smallest.get(key, (record.count, record.exact))
                smallest[key] = (record.count, min(known, record.exact))
    assert all(count == exact for count, exact in smallest.values())


def raise_one_count(module: Any) -> bool:
    """Let the first wait of a loop leave one group more in flight."""
    for op in walk(module):
        if op.name == "nvgpu.device_async_wait" and op.parent.name == "scf.for":
            set_integer(op, "numGroups", (integer_attribute(op, "numGroups") or 0) + 1, 32)
            return True
    return False


def test_a_planted_bug_is_found_and_shrinks_to_a_small_loop():
    """Shrinking works: what is left of a count that is one too large is one copy that one
    thread reads in the shortest loop that shows it."""

    def shows_the_bug(loop: Loop) -> bool:
        if loop.target is None or loop.outer_trips > 1:
            return False
        try:
            module = pipelined(loop)
        except AsyncPipeError:
            return False
        return raise_one_count(module) and bool(run(module, loop, completion="late").races)

    smallest = find(
        loops(), shows_the_bug, settings=settings(max_examples=300, database=None, deadline=None)
    )
    assert (smallest.threads, smallest.copies, smallest.sinks) == (1, (0,), ("store",))
    assert not smallest.middle and smallest.trips <= 3
