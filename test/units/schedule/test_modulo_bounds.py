"""Lower bounds of the interval, and the interval of a schedule, against numbers worked by hand.

Covers: pipeliner/schedule/modulo/problem.py, pipeliner/schedule/modulo/stages.py
"""

from __future__ import annotations

import pytest

from helpers.modulo_problems import copied, copy, problem, work
from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    Arc,
    DependenceEdge,
    Schedule,
    all_bounds,
    largest_ratio,
    queue_bounds,
    recurrence_bound,
    thread_bound,
    versions_of,
)
from mlir_async_pipe.pipeliner.schedule.modulo.stages import is_legal, moments


def interval(given, stages, order, *, at_top=False) -> float:
    """The interval of one schedule."""
    ratio, _ = largest_ratio(*moments(given, Schedule(stages, order, at_top)))
    return ratio


def test_the_thread_is_held_by_its_work_and_one_barrier():
    given = problem([copy(0, 500), work(1, 20), work(2, 280)], [], barrier=20, modes=(True, False))
    assert thread_bound(given).cycles == 20 + 280 + 20
    assert thread_bound(given).nodes == (1, 2)


def test_a_queue_is_held_by_the_turns_of_its_copies():
    nodes = [copy(0, 500, occupancy=128), copy(1, 400, occupancy=64), work(2, 100)]
    (bound,) = queue_bounds(problem(nodes, []))
    assert (bound.cycles, bound.nodes, bound.queue) == (192, (0, 1), "cp.async")


@pytest.mark.parametrize(
    ("distance", "cycles"),
    # copy 500, load 20, store 30, and the next copy but `distance` - 1 needs what was stored.
    [(1, 550), (2, 275), (3, 550 / 3)],
)
def test_a_recurrence_is_delays_over_distance(distance, cycles):
    edges = [DependenceEdge(0, 1, 0), DependenceEdge(1, 2, 0), DependenceEdge(2, 0, distance)]
    bound = recurrence_bound(problem([copy(0, 500), work(1, 20), work(2, 30)], edges))
    assert bound is not None
    assert bound.cycles == pytest.approx(cycles)
    assert (set(bound.nodes), bound.distance) == ({0, 1, 2}, distance)


def test_the_recurrence_with_the_largest_ratio_counts():
    # 0 -> 1 -> 0 over one iteration: 70; 2 -> 3 -> 2 over two: (500 + 40) / 2 = 270.
    edges = [
        DependenceEdge(0, 1, 0),
        DependenceEdge(1, 0, 1),
        DependenceEdge(2, 3, 0),
        DependenceEdge(3, 2, 2),
    ]
    nodes = [work(0, 30), work(1, 40), copy(2, 500), work(3, 40)]
    given = problem(nodes, edges)
    bound = recurrence_bound(given)
    assert bound is not None and (bound.cycles, set(bound.nodes)) == (270, {2, 3})
    assert all_bounds(given)[0] == bound


def test_without_a_cycle_nothing_recurs():
    assert recurrence_bound(problem([copy(0, 500), work(1, 20)], [DependenceEdge(0, 1, 0)])) is None


def test_the_largest_ratio_of_two_cycles_that_share_a_node():
    arcs = [Arc(0, 1, 10, 1), Arc(1, 0, 20, 1), Arc(1, 2, 5, 0), Arc(2, 1, 40, 2)]
    ratio, cycle = largest_ratio(3, arcs)
    assert ratio == 22.5
    assert cycle is not None and {arc.source for arc in cycle} == {1, 2}


@pytest.mark.parametrize(
    ("stages", "at_top", "in_front"),
    # Latency 500, 300 cycles of work, copy first. With waits at the top 500 / (S - 1), until the
    # work is what counts. Before the work the wait lets one copy more be in flight: 500 and
    # the 300 cycles until the copy after the next, over S steps.
    [((0, 1), 500, 400), ((0, 2), 300, 300), ((0, 3), 300, 300)],
)
def test_a_copy_is_hidden_by_stages(stages, at_top, in_front):
    given = problem([copy(0, 500), work(1, 300)], [DependenceEdge(0, 1, 0)])
    assert interval(given, stages, (0, 1), at_top=True) == at_top
    assert interval(given, stages, (0, 1)) == in_front


def test_in_one_stage_latency_and_work_add_up():
    given = problem([copy(0, 500), work(1, 300)], [DependenceEdge(0, 1, 0)])
    assert interval(given, (0, 0), (0, 1)) == 800


def test_work_after_the_copy_hides_it_inside_a_step():
    # copy, other work (200), user (100): the user of the step before waits 500 - 200 after the
    # copy, so with one stage the interval is 500 + 100 and with two 300.
    given = problem([copy(0, 500), work(1, 200), work(2, 100)], [DependenceEdge(0, 2, 0)])
    assert interval(given, (0, 0, 0), (0, 1, 2)) == 600
    assert interval(given, (0, 0, 1), (0, 1, 2)) == 300


def test_a_queue_completes_in_order():
    nodes = [copy(0, 900, group=0), copy(1, 100, group=1), work(2, 100)]
    given = problem(nodes, [DependenceEdge(1, 2, 0)])
    # Issued after the long one, the short copy arrives with it; issued before it, with
    # that of the step before, 900 cycles over two steps.
    assert interval(given, (0, 0, 1), (0, 1, 2), at_top=True) == 900
    assert interval(given, (0, 0, 1), (1, 0, 2), at_top=True) == 450
    assert (
        interval(problem(nodes[1:], [DependenceEdge(0, 1, 0)]), (0, 1), (0, 1), at_top=True) == 100
    )


def test_what_is_committed_together_is_waited_for_together():
    nodes = [copy(0, 100), copy(1, 900), work(2, 500)]
    given = problem(nodes, [DependenceEdge(0, 2, 0), DependenceEdge(1, 2, 1)])
    assert interval(given, (0, 0, 1), (0, 1, 2), at_top=True) == 900
    # In another stage it is another group: the older ones are two steps old.
    assert interval(given, (1, 0, 2), (0, 1, 2), at_top=True) == 500


def test_legality_is_stage_then_place():
    given = problem([work(0, 10), work(1, 10)], [DependenceEdge(0, 1, 0)])
    assert is_legal(given, Schedule((0, 0), (0, 1), False))
    assert is_legal(given, Schedule((0, 1), (1, 0), False))
    assert not is_legal(given, Schedule((0, 0), (1, 0), False))
    assert not is_legal(given, Schedule((1, 0), (0, 1), False))


@pytest.mark.parametrize(
    ("places", "versions"), [([0, 1], 3), ([1, 0], 2)], ids=["copy first", "reader first"]
)
def test_versions_are_the_sync_rule(places, versions):
    assert versions_of(copied(0, [1]), [0, 2], places) == versions
