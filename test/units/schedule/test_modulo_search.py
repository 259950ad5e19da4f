"""Schedules by latencies are what trying every kernel finds; larger loops are scheduled too.

Covers: pipeliner/schedule/modulo/problems.py, pipeliner/schedule/modulo/schedule_loop.py
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from helpers.modulo_problems import (
    Judged,
    copied,
    copy,
    every_schedule,
    found_by_search,
    judged,
    problem,
    problems,
    work,
)
from mlir_async_pipe.pipeliner.schedule.modulo.problems import copies_first, formulations
from mlir_async_pipe.pipeliner.schedule.modulo.read import DependenceEdge, LoopNumbers


def search(what: LoopNumbers, limit: int | None = None) -> Judged:
    """The best kernel, which is proven to be."""
    best, least = found_by_search(what, limit)
    assert best is not None
    assert best.interval <= least * (1 + 1e-6)
    return best


def best_of_all(what: LoopNumbers) -> Judged:
    """The best of every kernel there is."""
    outcomes = (judged(what, kernel) for kernel in every_schedule(what))
    return min((o for o in outcomes if o is not None), key=lambda o: o.key)


def check_best(what: LoopNumbers) -> None:
    """Interval, stages and bytes are those of the best kernel. Intervals of a schedule are whole, so
    that of its kernel may be smaller by less than a cycle, and both by that of a fraction."""
    best, least = found_by_search(what)
    wanted = best_of_all(what)
    assert best is not None
    assert wanted.interval > least - 1
    if float(wanted.interval).is_integer():
        assert best.key == wanted.key
    else:
        assert best.interval < wanted.interval + 1


@settings(deadline=None, max_examples=25)
@given(problems(largest=3))
def test_the_search_finds_the_best_of_all_kernels_of_three_nodes(what: LoopNumbers) -> None:
    """Interval, stages and bytes are those of the best of all kernels."""
    check_best(what)


@settings(deadline=None, max_examples=12)
@given(problems(largest=4))
def test_the_search_finds_the_best_of_all_kernels_of_four_nodes(what: LoopNumbers) -> None:
    """Interval, stages and bytes are those of the best of all kernels."""
    check_best(what)


@pytest.mark.parametrize("modes", [(False,), (True, False)])
def test_copies_that_take_no_time_may_be_issued_at_one_moment(modes: tuple[bool, ...]) -> None:
    """Either may come first in the queue: the search ends, and one stage is enough."""
    nodes = [copy(0, 100, occupancy=0, group=0), copy(1, 250, occupancy=0, group=1), work(2, 10)]
    edges = [DependenceEdge(0, 2, 0), DependenceEdge(1, 2, 0), DependenceEdge(2, 1, 1)]
    buffers = [copied(number, [2], 64) for number in (0, 1)]
    what = problem(nodes, edges, buffers, modes=modes, stages=3)
    check_best(what)
    assert search(what).key == (260, 1, 128)


def tile_loop(copies: int, loads: int, latency: float) -> LoopNumbers:
    """Copies, loads that read them in turn, and one sum of everything."""
    count = copies + loads + 1
    nodes = [copy(n, latency) for n in range(copies)]
    nodes += [work(n, 20) for n in range(copies, count - 1)] + [work(count - 1, 150)]
    readers = {n: [copies + i for i in range(loads) if i % copies == n] for n in range(copies)}
    edges = [DependenceEdge(n, r, 0) for n, found in readers.items() for r in found]
    edges += [DependenceEdge(copies + i, count - 1, 0) for i in range(loads)]
    buffers = [copied(n, found, 4096) for n, found in readers.items()]
    return problem(nodes, edges, buffers, barrier=20, modes=(True, False))


@pytest.mark.parametrize(("copies", "loads"), [(1, 10), (2, 9), (3, 8), (4, 7), (4, 40)])
@pytest.mark.parametrize("latency", [300, 500, 1000])
def test_loops_of_many_reads_are_proven(copies: int, loads: int, latency: int) -> None:
    what = tile_loop(copies, loads, latency)
    found = search(what)
    work_cycles = 20 * loads + 150 + 20
    assert found.interval == work_cycles
    assert found.stages == 1 + -(-latency // work_cycles)


def test_fewer_stages_come_before_fewer_bytes() -> None:
    # Two stages hold 500 cycles if the other work stands between the copy and its user.
    what = problem(
        [copy(0, 500), work(1, 100), work(2, 400)], [DependenceEdge(0, 1, 0)], [copied(0, [1])]
    )
    found = search(what)
    assert (found.interval, found.stages) == (500, 2)


def test_memory_limits_the_versions() -> None:
    what = problem([copy(0, 500), work(1, 100)], [DependenceEdge(0, 1, 0)], [copied(0, [1], 1024)])
    assert search(what).bytes == 6 * 1024
    limited = search(what, 3 * 1024)
    assert limited.bytes <= 3 * 1024
    # Three versions, three copies in flight at the wait: (500 + 100) / 3.
    assert limited.interval == 200


def test_nothing_is_found_where_nothing_fits() -> None:
    what = problem([copy(0, 500), work(1, 100)], [DependenceEdge(0, 1, 0)], [copied(0, [1], 1024)])
    assert found_by_search(what, 512)[0] is None


def test_fractions_of_a_cycle_become_whole_ones() -> None:
    (found,) = formulations(problem([copy(0, 500), work(1, 4.6875)], [DependenceEdge(0, 1, 0)]))
    assert (found.scale, found.problem.tasks[1].cycles("the thread")) == (16, 75)


def test_copies_and_what_they_need_come_first_at_the_top_of_a_step() -> None:
    # 0 -> 2 (a copy), 1 -> 3 (its user).
    nodes = [work(0, 10), work(1, 20), copy(2, 500), work(3, 30)]
    edges = [DependenceEdge(0, 2, 0), DependenceEdge(1, 3, 0), DependenceEdge(2, 3, 0)]
    what = problem(nodes, edges, barrier=5, modes=(True,))
    assert copies_first(what) == (0, 2, 1, 3)
    (found,) = formulations(what)
    assert [task.offset for task in found.problem.tasks] == [5, 15, 15, 35, 0]
