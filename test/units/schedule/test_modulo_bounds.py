"""Lower bounds of the interval, and the interval of a loop, against numbers worked by hand.

Covers: pipeliner/schedule/modulo/solve.py, pipeliner/schedule/modulo/problems.py
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.modulo_problems import copied, copy, found_by_search, judged, problem, work
from mlir_async_pipe.pipeliner.schedule.modulo.problems import formulations
from mlir_async_pipe.pipeliner.schedule.modulo.read import DependenceEdge, LoopNumbers
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import KernelSchedule
from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    Bound,
    LiveRange,
    ModuloProblem,
    Precedence,
    Task,
    bounds_of,
    largest_ratio,
    versions_of,
)


def bounds(given: LoopNumbers) -> dict[str, Bound]:
    """The bounds by what sets them."""
    return {str(bound): bound for bound in bounds_of(formulations(given)[0].problem)}


def interval(given: LoopNumbers, stages, order, *, at_top=False) -> float:
    """The interval of one kernel."""
    found = judged(given, KernelSchedule(stages, order, at_top))
    assert found is not None
    return found.interval


def test_the_thread_is_held_by_its_work_and_one_barrier():
    nodes = [copy(0, 500), work(1, 20), work(2, 280)]
    found = bounds(problem(nodes, [], barrier=20, modes=(True,)))["the thread, which is never idle"]
    assert (found.cycles, found.tasks) == (20 + 280 + 20, (1, 2, 3))


def test_a_queue_is_held_by_the_bytes_of_its_copies():
    nodes = [copy(0, 500, occupancy=128), copy(1, 400, occupancy=64), work(2, 100)]
    bound = bounds(problem(nodes, []))["the queue 'cp.async', which is never idle"]
    # After the nodes, for each copy: its arrival, and the time on its queue.
    assert (bound.cycles, bound.tasks) == (192, (4, 6))


@pytest.mark.parametrize(
    ("distance", "cycles", "over"),
    # copy 500, load 20, store 30, and the next copy but `distance` - 1 needs what was stored.
    [(1, 550, "an iteration"), (2, 275, "2 iterations"), (3, 550 / 3, "3 iterations")],
)
def test_a_recurrence_is_delays_over_distance(distance, cycles, over):
    edges = [DependenceEdge(0, 1, 0), DependenceEdge(1, 2, 0), DependenceEdge(2, 0, distance)]
    found = bounds(problem([copy(0, 500), work(1, 20), work(2, 30)], edges))
    bound = found[f"a recurrence over {over}"]
    assert bound.cycles == pytest.approx(cycles)
    # The fourth is the arrival of the copy.
    assert (set(bound.tasks), bound.distance) == ({0, 1, 2, 3}, distance)


def test_the_recurrence_with_the_largest_ratio_counts():
    # 0 -> 1 -> 0 over one iteration: 70; 2 -> 3 -> 2 over two: (500 + 40) / 2 = 270.
    edges = [
        DependenceEdge(0, 1, 0),
        DependenceEdge(1, 0, 1),
        DependenceEdge(2, 3, 0),
        DependenceEdge(3, 2, 2),
    ]
    nodes = [work(0, 30), work(1, 40), copy(2, 500), work(3, 40)]
    bound = bounds_of(formulations(problem(nodes, edges))[0].problem)[0]
    assert (bound.cycles, set(bound.tasks)) == (270, {2, 3, 4})


def test_without_a_cycle_nothing_recurs():
    found = bounds(problem([copy(0, 500), work(1, 20)], [DependenceEdge(0, 1, 0)]))
    assert not any("recurrence" in name for name in found)


def test_a_path_has_to_fit_into_the_stages():
    given = problem([copy(0, 500), work(1, 300)], [DependenceEdge(0, 1, 0)], stages=2)
    bound = bounds(given)["what 2 stages hold"]
    assert (bound.cycles, set(bound.tasks)) == ((500 + 300) / 2, {0, 1, 2})


def test_the_largest_ratio_of_two_cycles_that_share_a_node():
    arcs = [
        Precedence(0, 1, 10, 1),
        Precedence(1, 0, 20, 1),
        Precedence(1, 2, 5, 0),
        Precedence(2, 1, 40, 2),
    ]
    ratio, cycle = largest_ratio(3, arcs)
    assert ratio == 22.5
    assert cycle is not None and {arc.source for arc in cycle} == {1, 2}


@pytest.mark.parametrize(
    ("stages", "at_top", "in_front"),
    # Latency 500, 300 cycles of work, copy first. With waits at the top 500 / (S - 1), until the
    # work is what counts. Before the work the wait lets one copy more be in flight: 500 and
    # the 300 cycles until the copy after the next, over S steps.
    [(2, 500, 400), (3, 300, 300), (4, 300, 300)],
)
def test_a_copy_is_hidden_by_stages(stages, at_top, in_front):
    edges = [DependenceEdge(0, 1, 0)]
    given = problem([copy(0, 500), work(1, 300)], edges, stages=stages)
    found, least = found_by_search(given)
    assert found is not None and (found.interval, least) == (in_front, in_front)
    found, least = found_by_search(replace(given, wait_modes=(True,)))
    assert found is not None and (found.interval, least) == (at_top, at_top)
    last = stages - 1
    assert interval(given, (0, last), (0, 1), at_top=True) == at_top
    assert interval(given, (0, last), (0, 1)) == in_front


def test_in_one_stage_latency_and_work_add_up():
    edges = [DependenceEdge(0, 1, 0)]
    found, _ = found_by_search(problem([copy(0, 500), work(1, 300)], edges, stages=1))
    assert found is not None and found.interval == 800


def test_work_after_the_copy_hides_it_inside_a_step():
    # copy, other work (200), user (100): the user of the step before waits 500 - 200 after the
    # copy, so with one stage the interval is 500 + 100 and with two 300.
    nodes = [copy(0, 500), work(1, 200), work(2, 100)]
    for stages, cycles in ((1, 600), (2, 300)):
        found, _ = found_by_search(problem(nodes, [DependenceEdge(0, 2, 0)], stages=stages))
        assert found is not None and found.interval == cycles


@pytest.mark.parametrize("at_top", [True, False])
def test_a_queue_completes_in_order(at_top):
    nodes = [copy(0, 900, group=0), copy(1, 100, group=1), work(2, 100)]
    given = problem(nodes, [DependenceEdge(1, 2, 0)], stages=2, modes=(at_top,))
    # Issued after the long one, the short copy arrives with it; issued before it, with
    # that of the step before, 900 cycles over two steps.
    assert interval(given, (0, 0, 1), (0, 1, 2), at_top=True) == 900
    assert interval(given, (0, 0, 1), (1, 0, 2), at_top=True) == 450
    found, least = found_by_search(given)
    assert found is not None
    # Intervals of a schedule are whole: 334 for 1000 / 3.
    assert least - 1 < found.interval <= (900 if at_top else 450)


def test_what_is_committed_together_is_waited_for_together():
    nodes = [copy(0, 100), copy(1, 900), work(2, 500)]
    given = problem(nodes, [DependenceEdge(0, 2, 0), DependenceEdge(1, 2, 1)])
    assert interval(given, (0, 0, 1), (0, 1, 2), at_top=True) == 900
    # In another stage it is another group: the older ones are two steps old.
    assert interval(given, (1, 0, 2), (0, 1, 2), at_top=True) == 500
    found, least = found_by_search(given)
    assert found is not None and (found.interval, least) == (500, 500)


@pytest.mark.parametrize(
    ("begins", "versions"), [((0, 210), 3), ((20, 200), 2)], ids=["copy first", "reader first"]
)
def test_versions_are_the_sync_rule(begins, versions):
    # V = ceil((the end of the reader - the copy) / II): 3 for 230 / 100, 2 for 200 / 100.
    live = LiveRange(64, ((0, 1, 0),))
    tasks = (Task((("thread", 0),)), Task((("thread", 20),)))
    given = ModuloProblem(tasks, (), (live,), in_order="thread")
    assert versions_of(given, begins, 100, live) == versions
    loop = problem([copy(0, 500), work(1, 20)], [], [copied(0, [1])])
    order = (0, 1) if begins[0] == 0 else (1, 0)
    found = judged(loop, KernelSchedule((0, 2), order, False))
    assert found is not None and found.bytes == versions * 64
