"""Random modulo scheduling problems, and what a mixed-integer solver says of them."""

from __future__ import annotations

import random

from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    LiveRange,
    ModuloProblem,
    Precedence,
    Task,
)

SECONDS = 120.0


def random_problem(seed: int, size: int) -> ModuloProblem:
    """`size` tasks on up to four units and, half of them, an issue slot; precedences inside an
    iteration, and some that recur."""
    draw = random.Random(seed)
    units = ("tensor", "special", "arithmetic", "load/store")[: draw.randint(2, 4)]
    tasks = []
    for _ in range(size):
        uses = [(draw.choice(units), draw.randint(1, 12))]
        if draw.random() < 0.5:
            uses.append(("issue", draw.randint(1, 4)))
        tasks.append(Task(tuple(uses)))
    inside = [
        Precedence(i, j, draw.randint(0, 25), 0)
        for j in range(size)
        for i in draw.sample(range(j), min(j, draw.randint(0, 2)))
    ]
    # Half of the problems have recurrences that are about as long as the units are held.
    tight = draw.random() < 0.5
    around = [
        Precedence(j, i, draw.randint(1, 60 if tight else 25), draw.randint(1, 2))
        for i, j in (sorted(draw.sample(range(size), 2)) for _ in range(draw.randint(0, 4)))
    ]
    ranges = tuple(
        LiveRange(draw.choice((1, 2, 4)), ((p.source, p.target, 0),))
        for p in inside
        if draw.random() < 0.5
    )
    return ModuloProblem(tuple(tasks), (*inside, *around), ranges, 16)


def mixed_integer_interval(problem: ModuloProblem, first: int) -> int:
    """The smallest interval from `first` on for which HiGHS finds stages, offsets, and which of two
    tasks on a unit comes first in a step. Raises TimeoutError where it does not decide one in time."""
    interval = first
    while not _is_possible(problem, interval):
        interval += 1
    return interval


def _is_possible(problem: ModuloProblem, interval: int) -> bool:
    import highspy

    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    model.setOptionValue("time_limit", SECONDS)
    offset = [model.addIntegral(0, interval - 1) for _ in problem.tasks]
    stage = [model.addIntegral(0, problem.largest_stages - 1) for _ in problem.tasks]
    for p in problem.precedences:
        begins, ends = (interval * stage[n] + offset[n] for n in (p.source, p.target))
        model.addConstr(ends - begins >= p.delay - p.distance * interval)
    for i, j, held_by_i, held_by_j in problem.pairs:
        first = model.addBinary()
        # first = 1: j - i in [held_by_i, interval - held_by_j]; first = 0: i - j likewise.
        model.addConstr(offset[j] - offset[i] - (held_by_i + interval) * first >= -interval)
        model.addConstr(offset[i] - offset[j] + (held_by_j + interval) * first >= held_by_j)
        model.addConstr(offset[i] - offset[j] >= held_by_j - interval)
        model.addConstr(offset[j] - offset[i] >= held_by_i - interval)
    model.run()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kTimeLimit:
        raise TimeoutError(f"HiGHS does not decide in {SECONDS:g} s whether {interval} is possible")
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    return status == highspy.HighsModelStatus.kOptimal
