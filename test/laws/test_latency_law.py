"""A schedule by latencies on the machine: right, and never slower than a number of stages.

Costs of both are those of the machine's time line; the numbers of stages are 2 to 6. The loops are the
same in each run; ASYNC_PIPE_NIGHTLY=1 draws 100 others.

Covers: pipeliner/schedule/modulo/problems.py, pipeliner/schedule/modulo/schedule_loop.py,
pipeliner/schedule/modulo/read.py
"""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.gemm_kernels import gemm_text, run_gemm
from helpers.latency_loops import (
    COPY_COMPUTE,
    ONE_THREAD,
    RECURRENT,
    TWO_LATENCIES,
    LatencyLoop,
    gemm_with_latency,
)
from mlir_async_pipe import api, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.machine.timeline import Trace, lay_out
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import ScheduleRecord

COST = "latency=500,barrier=20"
STAGES = range(2, 7)
SLOWER = 1.02
NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"


def cycles(loop: LatencyLoop, request: str) -> tuple[float, ScheduleRecord | None]:
    """Cycles of a run under late completion, with what NumPy says of its outputs checked."""
    with new_context():
        module = ir.Module.parse(loop.text(request))
        report = api.pipeline(module, cost=COST)
        result = machine.run(module, "f", loop.arguments(), threads=loop.threads, completion="late")
    assert result.races == ()
    for found, expected in zip(result.arrays[len(loop.copies) :], loop.expected(), strict=True):
        assert found is not None and np.array_equal(found, expected)
    schedules = report.of("schedules")
    total = lay_out(result.trace, CostModel.parse(COST)).total
    return total, schedules[0] if schedules else None


def best_of_stages(loop: LatencyLoop) -> float:
    """The fewest cycles of 2 to 6 stages."""
    return min(cycles(loop, str(stages))[0] for stages in STAGES)


@st.composite
def latency_loops(draw: st.DrawFn) -> LatencyLoop:
    """Loops with random latencies."""
    count = draw(st.integers(1, 3))
    loads = [(n, draw(st.sampled_from([0, 5, 20, 100]))) for n in range(count)]
    for _ in range(draw(st.integers(0, 2))):
        loads.append((draw(st.integers(0, count - 1)), draw(st.sampled_from([0, 5, 20]))))
    sources = st.lists(st.integers(0, len(loads) - 1), min_size=1, max_size=3, unique=True)
    stores = draw(
        st.lists(
            st.tuples(sources.map(tuple), st.sampled_from([5, 50, 200])), min_size=1, max_size=2
        )
    )
    return LatencyLoop(
        copies=tuple(draw(st.sampled_from([100, 300, 500, 900])) for _ in range(count)),
        loads=tuple(loads),
        stores=tuple(stores),
        threads=draw(st.sampled_from([1, 4])),
        barriers=draw(st.booleans()),
        recurrence=draw(st.sampled_from([0, 0, 1, 2])),
    )


@settings(deadline=None, max_examples=100 if NIGHTLY else 12, derandomize=not NIGHTLY)
@given(latency_loops())
# Barriers that nothing in the tiles needs: none is counted, and waits at the top are tried as well.
@example(LatencyLoop((100,), ((0, 0),), (((0,), 5),), threads=1, barriers=True, recurrence=0))
@example(
    LatencyLoop(
        copies=(100, 500, 100),
        loads=((0, 20), (1, 20), (2, 100), (0, 20), (0, 5)),
        stores=(((0,), 50), ((0, 1, 2), 5)),
        threads=1,
        barriers=True,
        recurrence=2,
    )
)
def test_random_latencies_are_never_slower_than_a_number_of_stages(loop: LatencyLoop) -> None:
    """At most 2 % more cycles than the best of 2 to 6 stages, and right on the machine; the
    interval of the schedule is that of the run, but for filling the pipeline."""
    total, record = cycles(loop, "latency")
    assert total <= SLOWER * best_of_stages(loop)
    assert record is not None
    fill = max(loop.copies) + 8 * sum(cost for _, cost in (*loop.loads, *loop.stores)) + 400
    assert abs(total - record.interval * loop.trips) <= fill
    assert record.interval >= record.lower_bound - 1e-3


@pytest.mark.parametrize(
    ("loop", "interval", "stages"),
    [
        # 20 + 280 and a barrier of 20: 500 cycles are hidden behind two iterations.
        (COPY_COMPUTE, 320, 3),
        # 200 + 20: 900 cycles take 5 iterations at the top of a step.
        (TWO_LATENCIES, 220, 6),
        # 20 + 60 + 10 + 20.
        (RECURRENT, 110, 6),
        # 100: 300 cycles, and the copies are issued before the wait.
        (ONE_THREAD, 100, 4),
    ],
    ids=["copy-compute", "two latencies", "recurrence", "one thread"],
)
def test_small_loops_have_the_interval_that_a_person_works_out(loop, interval, stages):
    total, record = cycles(loop, "latency")
    assert record is not None
    assert (record.interval, record.stages, record.proven) == (interval, stages, True)
    assert total <= SLOWER * best_of_stages(loop)


@functools.cache
def gemm_trace(stages: int) -> Trace:
    """What thread 0 does in the example GEMM at K = 512 with a number of stages."""
    with new_context():
        module = ir.Module.parse(gemm_text(f"--stages={stages}"))
        api.pipeline(module, target="nvvm:sm_80")
        result, right = run_gemm(module, (128, 128, 512))
    assert right
    return result.trace


@pytest.mark.parametrize(("latency", "stages"), [(500, 3), (800, 4)])
def test_the_gemm_takes_the_stages_that_its_latency_needs(latency: int, stages: int) -> None:
    with new_context():
        module = ir.Module.parse(gemm_with_latency(latency))
        report = api.pipeline(module, target="nvvm:sm_80", cost="nvgpu.mma.sync=4.6875")
        result, right = run_gemm(module, (128, 128, 512))
    assert right and result.races == ()
    (record,) = report.of("schedules")
    # 64 products of 300 / 64 cycles; 8 KiB a tile and operand.
    assert (record.interval, record.stages) == (300, stages)
    assert record.shared_bytes == stages * 2 * 8192
    model = CostModel.parse(f"latency={latency},nvgpu.mma.sync=4.6875")
    others = [lay_out(gemm_trace(number), model).total for number in STAGES]
    assert lay_out(result.trace, model).total <= SLOWER * min(others)
