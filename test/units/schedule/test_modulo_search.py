"""The search finds what trying every schedule finds; larger loops are scheduled too.

Covers: pipeliner/schedule/modulo/search.py, pipeliner/schedule/modulo/stages.py,
pipeliner/schedule/modulo/by_latency.py, pipeliner/schedule/modulo/trial.py
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings

from helpers.modulo_problems import copied, copy, every_schedule, problem, problems, work
from mlir_async_pipe.pipeliner.schedule.modulo.by_latency import AbstractJudge
from mlir_async_pipe.pipeliner.schedule.modulo.problem import DependenceEdge, Problem
from mlir_async_pipe.pipeliner.schedule.modulo.search import (
    EXACT_NODES,
    Found,
    Search,
    candidate_orders,
    heights,
)
from mlir_async_pipe.pipeliner.schedule.modulo.trial import TrialResult


def search(what: Problem, limit: int | None = None) -> Found:
    """The result of a search that finds something."""
    found = Search(what, AbstractJudge(what, limit)).run()
    assert found is not None
    return found


def best_of_all(what: Problem) -> TrialResult:
    """The best of every schedule there is."""
    judge = AbstractJudge(what, None)
    outcomes = (judge.outcome(schedule) for schedule in every_schedule(what))
    return min((o for o in outcomes if o is not None), key=lambda o: o.key)


@settings(deadline=None, max_examples=60)
@given(problems(largest=3))
def test_the_search_finds_the_best_of_all_schedules_of_three_nodes(what: Problem) -> None:
    """Interval, stages, bytes and barriers are those of the best of all schedules."""
    found = search(what)
    assert found.proven
    assert found.best.key[:4] == best_of_all(what).key[:4]


@settings(deadline=None, max_examples=12)
@given(problems(largest=4))
def test_the_search_finds_the_best_of_all_schedules_of_four_nodes(what: Problem) -> None:
    """Interval, stages, bytes and barriers are those of the best of all schedules."""
    found = search(what)
    assert found.proven
    assert found.best.key[:4] == best_of_all(what).key[:4]


def tile_loop(copies: int, loads: int, latency: float) -> Problem:
    """Copies, loads that read them in turn, and one sum of everything."""
    count = copies + loads + 1
    nodes = [copy(n, latency) for n in range(copies)]
    nodes += [work(n, 20) for n in range(copies, count - 1)] + [work(count - 1, 150)]
    readers = {n: [copies + i for i in range(loads) if i % copies == n] for n in range(copies)}
    edges = [DependenceEdge(n, r, 0) for n, found in readers.items() for r in found]
    edges += [DependenceEdge(copies + i, count - 1, 0) for i in range(loads)]
    buffers = [copied(n, found, 4096) for n, found in readers.items()]
    return problem(nodes, edges, buffers, barrier=20, modes=(True, False))


@pytest.mark.parametrize(("copies", "loads"), [(1, 10), (2, 9), (3, 8), (4, 7)])
@pytest.mark.parametrize("latency", [300, 500, 1000])
def test_twelve_nodes_are_proven_well_under_a_second(copies: int, loads: int, latency: int) -> None:
    what = tile_loop(copies, loads, latency)
    assert len(what.nodes) == EXACT_NODES
    begin = time.process_time()
    found = search(what)
    assert time.process_time() - begin < 1
    assert found.proven
    work_cycles = 20 * loads + 150 + 20
    assert found.best.interval == work_cycles
    assert found.best.schedule.stage_count == 1 + -(-latency // work_cycles)


@pytest.mark.parametrize("loads", [10, 20, 40])
def test_list_scheduling_meets_the_bound_of_larger_loops(loads: int) -> None:
    what = tile_loop(4, loads, 800)
    found = search(what)
    assert not found.proven
    work_cycles = 20 * loads + 150 + 20
    assert found.best.interval == work_cycles
    assert found.best.schedule.stage_count == 1 + -(-800 // work_cycles)


def test_fewer_stages_come_before_fewer_bytes() -> None:
    # Two stages hold 500 cycles if the other work stands between the copy and its user.
    what = problem(
        [copy(0, 500), work(1, 100), work(2, 400)], [DependenceEdge(0, 1, 0)], [copied(0, [1])]
    )
    found = search(what)
    assert (found.best.interval, found.best.schedule.stage_count) == (500, 2)


def test_memory_limits_the_versions() -> None:
    what = problem([copy(0, 500), work(1, 100)], [DependenceEdge(0, 1, 0)], [copied(0, [1], 1024)])
    assert search(what).best.shared_bytes == 6 * 1024
    limited = search(what, 3 * 1024).best
    assert limited.shared_bytes <= 3 * 1024
    # Three versions, three copies in flight at the wait: (500 + 100) / 3.
    assert limited.interval == 200


def test_nothing_is_found_where_nothing_fits() -> None:
    what = problem([copy(0, 500), work(1, 100)], [DependenceEdge(0, 1, 0)], [copied(0, [1], 1024)])
    assert Search(what, AbstractJudge(what, 512)).run() is None


def test_heights_are_longest_paths() -> None:
    what = problem(
        [copy(0, 500), work(1, 20), work(2, 30)],
        [DependenceEdge(0, 1, 0), DependenceEdge(1, 2, 0), DependenceEdge(2, 0, 1)],
    )
    assert heights(problem(list(what.nodes), list(what.edges[:2])), 100)[0] == 550
    assert heights(what, 1000) == [550, 50, 30]


def test_candidates_are_whole_orders() -> None:
    what = tile_loop(3, 8, 500)
    for order in candidate_orders(what, 400):
        assert sorted(order) == list(range(len(what.nodes)))
