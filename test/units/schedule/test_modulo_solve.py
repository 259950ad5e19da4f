"""The best modulo schedules: by hand, against every schedule of small problems, and against a
mixed-integer solver.

ASYNC_PIPE_NIGHTLY=1 asks HiGHS about 1,000 random problems of up to 24 tasks.

Covers: pipeliner/schedule/modulo/solve.py
"""

from __future__ import annotations

import itertools
import math
import os
import random
from dataclasses import replace

import pytest

from helpers.solver_problems import mixed_integer_interval, random_problem
from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    LiveRange,
    ModuloProblem,
    ModuloSchedule,
    Precedence,
    Task,
    bounds_of,
    bytes_of_ranges,
    is_kept,
    solve,
    taken,
)

NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"


def solved(problem: ModuloProblem) -> ModuloSchedule:
    """The schedule, which keeps everything."""
    found = solve(problem)
    assert found is not None
    assert is_kept(problem, found.begins, found.interval)
    assert found.bytes == bytes_of_ranges(problem, found.begins, found.interval)
    assert min(found.begins) >= 0 and problem.length(found.begins) == found.length
    assert found.least <= found.interval and found.least_bytes <= found.bytes
    return found


def on(unit: str, cycles: int) -> Task:
    return Task(((unit, cycles),))


# Scores, their exponentials, and the product with the values: what attention does in an iteration.
ATTENTION = ModuloProblem(
    (on("tensor", 32), on("special", 40), on("tensor", 32)),
    (Precedence(0, 1, 32, 0), Precedence(1, 2, 40, 0)),
)


def test_products_of_the_next_iteration_run_beside_exponentials():
    found = solved(ATTENTION)
    # One iteration after the other takes 104 cycles.
    assert (found.interval, found.interval_proven) == (64, True)
    assert found.certificate() == "no smaller interval: the unit 'tensor', which is never idle"
    # The second product is in a stage of its own, beside the first one of the next iteration.
    assert [t // found.interval for t in found.begins] == [0, 0, 1]


def test_a_recurrence_bounds_the_interval():
    found = solved(
        ModuloProblem(
            ATTENTION.tasks, (*ATTENTION.precedences, Precedence(2, 0, 32, 1)), largest_stages=4
        )
    )
    assert (found.interval, found.certificate()) == (
        104,
        "no smaller interval: a recurrence over an iteration",
    )
    assert found.bound is not None and set(found.bound.tasks) == {0, 1, 2}


def test_an_interval_above_all_bounds_is_proven_by_search():
    # Both ends of the recurrence hold the unit; the third task fits into neither of their gaps:
    # 0..3 and 5..8 are held at II = 10, and 3 cycles would be needed between them.
    problem = ModuloProblem(
        (on("u", 3), on("u", 3), on("u", 3)), (Precedence(0, 1, 5, 0), Precedence(1, 0, 5, 1))
    )
    assert bounds_of(problem)[0].cycles == 10
    found = solved(problem)
    assert (found.interval, found.least) == (11, 11)
    assert found.bound is None
    assert "every order of the units was tried at 10" in found.certificate()


def test_memory_comes_before_length_and_after_the_interval():
    # The copy may run any number of cycles ahead: 500 of them take 6 versions at an interval of
    # 100, and no more are kept.
    problem = ModuloProblem(
        (on("queue", 10), on("thread", 100)),
        (Precedence(0, 1, 500, 0),),
        (LiveRange(4096, ((0, 1, 0),)),),
    )
    found = solved(problem)
    assert (found.interval, found.bytes, found.length) == (100, 5 * 4096, 500)
    assert found.least_bytes == found.bytes


def test_a_limit_of_bytes_makes_the_interval_larger():
    # Three versions of the copy: 500 <= t_1 - t_0 <= 3 II.
    problem = ModuloProblem(
        (on("queue", 10), on("thread", 100)),
        (Precedence(0, 1, 500, 0),),
        (LiveRange(4096, ((0, 1, 0),)), LiveRange(64, ((0, 1, 0),), "registers")),
        limits=(("workgroup", 3 * 4096),),
    )
    found = solved(problem)
    assert (found.interval, found.interval_proven, found.bytes) == (167, True, 3 * (4096 + 64))
    assert solve(replace(problem, limits=(("workgroup", 4095),))) is None


def test_offsets_are_kept_whatever_the_step():
    # A wait at the top of a step: the first one that comes 250 cycles after the copy.
    wait = Task((("thread", 20),), offset=0)
    found = solved(
        ModuloProblem(
            (on("queue", 10), wait, on("thread", 80)),
            (Precedence(0, 1, 250, 0), Precedence(1, 2, 0, 0)),
        )
    )
    assert (found.interval, found.begins[1] % 100, found.begins[2] % 100) == (100, 0, 20)
    assert found.begins[1] - found.begins[0] >= 250


def test_nothing_begins_inside_what_a_thread_runs():
    # The copy takes no time, but waits until the thread has ended its work of 300.
    problem = ModuloProblem(
        (on("thread", 0), on("thread", 300)), (Precedence(0, 1, 500, 0),), in_order="thread"
    )
    found = solved(problem)
    assert (found.interval, found.begins[1] - found.begins[0]) == (300, 600)
    # In two stages: 500 and then 300 cycles, t_1 + 300 <= 2 II.
    assert solved(replace(problem, largest_stages=2)).interval == 400


@pytest.mark.parametrize("thread_first", [True, False])
def test_a_step_may_begin_with_any_task_of_the_thread(thread_first: bool) -> None:
    # The copy begins in the middle of the thread's work, so no step begins with it: the 100 cycles are met.
    tasks = (on("thread", 100), on("queue", 10))
    thread, copy = (0, 1) if thread_first else (1, 0)
    around = (Precedence(copy, thread, 50, 0), Precedence(thread, copy, 50, 1))
    found = solved(ModuloProblem(tasks if thread_first else tasks[::-1], around, in_order="thread"))
    assert (found.interval, found.begins[thread] - found.begins[copy]) == (100, 50)


def test_linked_moments_come_in_the_order_of_what_they_are_linked_to():
    # Copies of 900 and 100 cycles on one queue: the second arrives after the first of its step.
    tasks = (on("thread", 0), on("thread", 0), on("thread", 100), Task(()), Task(()))
    arrive = (Precedence(0, 3, 900, 0), Precedence(1, 4, 100, 0), Precedence(4, 2, 0, 0))
    together = (Precedence(0, 1, 0, 0), Precedence(1, 0, 0, 0))
    free = ModuloProblem(tasks, (*arrive, *together), in_order="thread", linked=((0, 1, 3, 4),))
    found = solved(free)
    # The short one comes first, so that it waits for the long one of the step before: 900 - II cycles,
    # and then 100, are 8 II at most.
    assert (found.interval, found.interval_proven) == (112, True)
    assert found.begins[4] >= found.begins[3] - found.interval
    assert solved(replace(free, linked=())).interval == 100


def test_too_few_stages_make_the_interval_larger():
    problem = ModuloProblem(
        (on("queue", 10), on("thread", 100)), (Precedence(0, 1, 500, 0),), largest_stages=2
    )
    # 500 <= t < 2 II.
    assert solved(problem).interval == 251


def test_a_cycle_without_distance_is_no_problem_of_a_loop():
    problem = ModuloProblem(
        (on("u", 1), on("u", 1)), (Precedence(0, 1, 1, 0), Precedence(1, 0, 1, 0))
    )
    with pytest.raises(ValueError, match="without distance"):
        solve(problem)


def test_too_few_registers_keep_loads_near_their_products():
    # Two loads, each multiplied 10 cycles later; the tensor cores are never idle at 16, but both values are alive
    # at a time. With room for one, each load waits for the other one's product: 10 + 10.
    tasks = (on("load", 1), on("load", 1), on("tensor", 8), on("tensor", 8))
    values = tuple(LiveRange(4, ((n, n + 2, 0),), "registers") for n in (0, 1))
    free = ModuloProblem(tasks, (Precedence(0, 2, 10, 0), Precedence(1, 3, 10, 0)), values)
    assert solved(free).interval == 16
    assert taken(free, solved(free).begins, 16, "registers") == 8
    limited = replace(free, limits=(("registers", 4),))
    found = solved(limited)
    assert (found.interval, found.interval_proven) == (20, True)
    assert "every order of the units was tried at 19" in found.certificate()
    assert solve(replace(limited, limits=(("registers", 3),))) is None


@pytest.mark.parametrize("seed", range(20))
def test_no_schedule_of_three_tasks_is_shorter_with_so_few_registers(seed: int) -> None:
    """The smallest interval at which any schedule keeps the limit, values alive counted cycle by cycle."""
    draw = random.Random(seed)
    uses = ((0, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 0))
    problem = ModuloProblem(
        tuple(on(draw.choice("ab"), draw.randint(1, 2)) for _ in range(3)),
        (
            Precedence(0, 1, draw.randint(1, 4), 0),
            Precedence(draw.randint(0, 1), 2, draw.randint(1, 4), 0),
            Precedence(0, 2, 1, 0),
            Precedence(2, 0, 1, 1),
        ),
        tuple(LiveRange(draw.randint(1, 3), (use,), "registers") for use in uses),
        largest_stages=3,
    )
    ranges = problem.ranges

    def most_alive(begins: tuple[int, ...], interval: int) -> int:
        """Of iterations that began long ago and will begin, all that are alive in each cycle of a step."""
        return max(
            sum(
                r.bytes
                for r in ranges
                for w, x, d in r.uses
                for k in range(-8, 9)
                if begins[w] + k * interval <= cycle < begins[x] + (d + k) * interval
            )
            for cycle in range(interval)
        )

    limited = replace(problem, limits=(("registers", draw.randint(2, 7)),))
    found = solve(limited)
    most = dict(limited.limits)["registers"]
    for interval in range(1, found.interval if found is not None else 10):
        free = every_schedule(problem, interval, 3)
        assert all(most_alive(begins, interval) > most for begins in free)
    if found is not None:
        assert found.interval_proven
        assert most_alive(found.begins, found.interval) <= most
        assert is_kept(limited, found.begins, found.interval)


def every_schedule(problem: ModuloProblem, interval: int, stages: int):
    """All that are kept, with a first begin in stage 0."""
    moments = range(stages * interval)
    for begins in itertools.product(moments, repeat=len(problem.tasks)):
        if is_kept(problem, begins, interval):
            yield begins


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_better_among_all_schedules_of_three_tasks(seed: int) -> None:
    """Interval, stages, bytes and length, in this order."""
    draw = random.Random(seed)
    problem = ModuloProblem(
        tuple(on(draw.choice("ab"), draw.randint(1, 3)) for _ in range(3)),
        (
            Precedence(0, 1, draw.randint(0, 5), 0),
            Precedence(draw.randint(0, 1), 2, draw.randint(0, 5), 0),
            Precedence(2, 0, draw.randint(1, 6), draw.randint(1, 2)),
        ),
        (LiveRange(1, ((0, 1, 0),)), LiveRange(3, ((1, 2, 0),)), LiveRange(2, ((2, 0, 2),))),
        largest_stages=3,
    )
    found = solved(problem)
    assert (found.interval, found.stages, found.bytes) == (
        found.least,
        found.least_stages,
        found.least_bytes,
    )
    assert not any(every_schedule(problem, found.interval - 1, 3))
    costs = [
        (
            max(begins) // found.interval + 1,
            bytes_of_ranges(problem, begins, found.interval),
            max(begins),
        )
        for begins in every_schedule(problem, found.interval, 3)
    ]
    assert (found.stages, found.bytes, found.length) == min(costs)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_better_among_all_schedules_of_a_thread_and_linked_moments(seed: int) -> None:
    """Tasks of no cycles begin together with others, in either order, unless they are linked."""
    draw = random.Random(seed)
    tasks = [on("thread", draw.randint(0, 3)) for _ in range(3)]
    if draw.random() < 0.5:
        tasks[draw.randrange(3)] = on("queue", draw.randint(0, 3))
    ends = [tuple(draw.sample(range(3), 2)) for _ in range(4)]
    problem = ModuloProblem(
        tuple(tasks),
        tuple(Precedence(min(p), max(p), draw.randint(0, 5), 0) for p in ends[:2]),
        (LiveRange(1, ((0, 1, 0),)), LiveRange(2, ((1, 2, 0),))),
        largest_stages=2,
        in_order="thread",
        linked=((*ends[2], *ends[3]),),
    )
    found = solve(problem)
    for interval in range(1, 12 if found is None else found.interval):
        assert not any(every_schedule(problem, interval, 2))
    if found is not None:
        assert is_kept(problem, found.begins, found.interval)
        assert (found.interval, found.stages) == (found.least, found.least_stages)
        assert (found.bytes, found.length) == (found.least_bytes, found.least_length)


@pytest.mark.parametrize(
    ("seed", "interval"),
    # HiGHS finds those of 185, 249, 314 and 375, and proves 268 in half a minute. The others take it more
    # than four minutes; CP-SAT proves each in less than one.
    {
        83: 63,
        180: 71,
        185: 89,
        249: 74,
        268: 46,
        304: 50,
        314: 85,
        327: 49,
        375: 93,
        713: 73,
        855: 70,
    }.items(),
)
def test_a_unit_that_another_unit_keeps_idle_is_proven_in_few_constraints(
    seed: int, interval: int
) -> None:
    """Short tasks on a busy unit that hold the issue slot for longer: what follows them decides."""
    found = solve(random_problem(seed, 4 + seed % 21), 6_000)
    assert found is not None
    assert (found.interval, found.interval_proven) == (interval, True)


@pytest.mark.parametrize("seed", range(1000) if NIGHTLY else (0, 2, 4, 6, 8, 10, 12, 20))
def test_the_interval_is_that_of_a_mixed_integer_solver(seed: int) -> None:
    """Up to 24 tasks a problem; the smallest interval that HiGHS finds possible."""
    pytest.importorskip("highspy", reason="the test extra has it")
    problem = random_problem(seed, 4 + seed % 21)
    found = solved(problem)
    assert found.interval_proven
    least = math.ceil(bounds_of(problem)[0].cycles)
    try:
        judged = mixed_integer_interval(problem, least)
    except TimeoutError as error:
        pytest.skip(str(error))
    assert judged == found.interval
