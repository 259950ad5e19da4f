"""Kernel orders that are worth trying first, and all there are for loops of any size.

A list scheduler places the nodes by their height, the longest path of delays to a sink at the
interval, as B. R. Rau's iterative modulo scheduling does ("Iterative Modulo Scheduling", MICRO
1994); the order in the kernel is the order of the flat times modulo the interval. Beside it stand
the orders that people write: what copies need and the copies first, or last, or the text's.
"""

from __future__ import annotations

from mlir_async_pipe.schedule.modulo.problem import Problem, Schedule, needed_by


def candidate_orders(problem: Problem, interval: float) -> list[tuple[int, ...]]:
    """Orders to try, without repeats."""
    ahead = _with_producers(problem)
    textual = range(len(problem.nodes))
    found = [
        _copies_first(problem),
        tuple(textual),
        tuple(sorted(textual, key=lambda n: (n in ahead, n))),
        _behind_last_user(problem),
        _list_schedule(problem, interval),
    ]
    return list(dict.fromkeys(found))


def _copies_first(problem: Problem) -> tuple[int, ...]:
    ahead = _with_producers(problem)
    return tuple(sorted(range(len(problem.nodes)), key=lambda n: (n not in ahead, n)))


def usual_schedules(problem: Problem) -> list[Schedule]:
    """What `num_stages` gives: what copies need and the copies in stage 0 and first in order, all
    others in the last stage."""
    ahead = _with_producers(problem)
    order = _copies_first(problem)
    return [
        Schedule(tuple(0 if n in ahead else last for n in range(len(order))), order, at_top)
        for last in range(1, problem.largest_stages)
        for at_top in problem.wait_modes
    ]


def _with_producers(problem: Problem) -> set[int]:
    """The copies, and what they depend on inside one iteration."""
    return needed_by(problem, (n for n, node in enumerate(problem.nodes) if node.asynchronous))


def _behind_last_user(problem: Problem) -> tuple[int, ...]:
    """Each copy right after the last node that uses the buffers it writes: one version less."""
    order = [n for n, node in enumerate(problem.nodes) if not node.asynchronous]
    for number, node in enumerate(problem.nodes):
        if node.asynchronous:
            users = [e.target for e in problem.edges if e.source == number and e.target in order]
            last = max((order.index(user) for user in users), default=-1)
            order.insert(last + 1, number)
    return tuple(order)


def heights(problem: Problem, interval: float) -> list[float]:
    """The longest path of delays from each node to a sink, less the interval for each iteration
    of distance; paths that gain around a cycle are cut after one round of all nodes."""
    found = [node.delay for node in problem.nodes]
    for _ in problem.nodes:
        for edge in problem.edges:
            delay = problem.nodes[edge.source].delay
            over = delay + found[edge.target] - interval * edge.distance
            found[edge.source] = max(found[edge.source], over)
    return found


def _list_schedule(problem: Problem, interval: float) -> tuple[int, ...]:
    """The highest node that is ready goes to the first moment, modulo the interval, at which the
    thread is free for it; without such a moment, after what is there."""
    height = heights(problem, interval)
    begins: dict[int, float] = {}
    waiting = set(range(len(problem.nodes)))
    while waiting:
        ready = [n for n in waiting if not _unplaced_sources(problem, n, waiting)] or list(waiting)
        node = min(ready, key=lambda n: (-height[n], n))
        waiting.discard(node)
        earliest = 0.0
        for edge in problem.edges:
            if edge.target == node and edge.source in begins:
                delay = problem.nodes[edge.source].delay
                earliest = max(earliest, begins[edge.source] + delay - interval * edge.distance)
        begins[node] = _first_free(problem, node, earliest, begins, interval)
    return tuple(sorted(begins, key=lambda n: (begins[n] % interval, begins[n], n)))


def _unplaced_sources(problem: Problem, node: int, waiting: set[int]) -> bool:
    return any(
        e.target == node and e.distance == 0 and e.source in waiting and e.source != node
        for e in problem.edges
    )


def _first_free(
    problem: Problem, node: int, earliest: float, begins: dict[int, float], interval: float
) -> float:
    held = problem.nodes[node].held
    taken = [
        (begin % interval, begin % interval + problem.nodes[other].held)
        for other, begin in begins.items()
        if problem.nodes[other].held > 0
    ]
    if held <= 0:
        return earliest
    moments = [earliest, *(earliest + (end - earliest) % interval for _, end in taken)]
    for moment in sorted(moments):
        place = moment % interval
        if place + held <= interval and all(
            place + held <= begin or place >= end for begin, end in taken
        ):
            return moment
    return max(moments)
