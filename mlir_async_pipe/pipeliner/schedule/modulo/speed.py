"""How fast a schedule is: the interval of its kernel, and what is critical.

The kernel is a graph of moments: the top of a step, the begin of each node on the thread, the
begin of each copy on its queue, and its arrival. Arcs say how much later one moment comes than
another, and how many steps lie between; the interval is the largest ratio of cycles to steps
over all cycles of the graph (F. Baccelli et al., "Synchronization and Linearity", 1992).

    copy in stage 0, first in order, latency 500; its user in stage 2, computing 300 cycles
      thread   300 cycles a step                                        300
      copy     500 cycles, and back over 2 steps                        250
    the interval is 300; with the user in stage 1 it is 500
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mlir_async_pipe.pipeliner.schedule.modulo.bounds import Arc
from mlir_async_pipe.pipeliner.schedule.modulo.problem import Edge, Problem, Schedule


def lag(edge: Edge, stages: Sequence[int]) -> int:
    """Kernel steps between the source of a dependence and its target."""
    return stages[edge.target] + edge.distance - stages[edge.source]


def is_legal(problem: Problem, schedule: Schedule) -> bool:
    """T(source, k) < T(target, k + distance) for every dependence, T = (k + stage, place)."""
    places = schedule.places()
    for edge in problem.edges:
        between = lag(edge, schedule.stages)
        if between < 0 or (between == 0 and places[edge.source] >= places[edge.target]):
            return False
    return True


def moments(problem: Problem, schedule: Schedule) -> tuple[int, list[Arc]]:
    """The number of moments of a legal schedule, and the arcs between them."""
    nodes, order = problem.nodes, schedule.order
    count = len(nodes)
    top, begins, arrives = count, count + 1, 2 * count + 1
    arcs = [Arc(top, order[0], problem.barrier, 0)]
    arcs += [Arc(a, b, nodes[a].held, 0) for a, b in pairwise(order)]
    arcs.append(Arc(order[-1], top, nodes[order[-1]].held, 1))
    queues: dict[str, list[int]] = {}
    for node in order:
        if nodes[node].asynchronous:
            queues.setdefault(nodes[node].queue, []).append(node)
    for members in queues.values():
        for node, following in zip(members, [*members[1:], members[0]], strict=True):
            # The turn after the last one of a step is the first of the next.
            steps = 1 if following == members[0] else 0
            arcs += [
                Arc(node, begins + node, 0, 0),
                Arc(begins + node, arrives + node, nodes[node].delay, 0),
                Arc(begins + node, begins + following, nodes[node].occupancy, steps),
                Arc(arrives + node, arrives + following, 0, steps),
            ]
    committed_with = last_of_group(problem, schedule)
    for number, edge in enumerate(problem.edges):
        if nodes[edge.source].asynchronous:
            steps = lag(edge, schedule.stages)
            at_top = schedule.wait_at_top and steps > 0
            waits = top if at_top else edge.target
            arcs.append(Arc(arrives + committed_with[edge.source], waits, 0, steps, number))
    return 3 * count + 1, arcs


def last_of_group(problem: Problem, schedule: Schedule) -> dict[int, int]:
    """For each copy the last one that is committed with it: neighbours in the kernel of one
    stage, one queue and one group of the input."""
    runs: list[list[int]] = []
    before: int | None = None
    for node in schedule.order:
        found = problem.nodes[node]
        if found.asynchronous:
            if before is not None and _joined(problem, schedule, before, node):
                runs[-1].append(node)
            else:
                runs.append([node])
        before = node
    return {node: run[-1] for run in runs for node in run}


def _joined(problem: Problem, schedule: Schedule, before: int, node: int) -> bool:
    a, b = problem.nodes[before], problem.nodes[node]
    same = (a.queue, a.group) == (b.queue, b.group)
    return same and schedule.stages[before] == schedule.stages[node]
