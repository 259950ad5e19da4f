"""A loop as a modulo scheduling problem: numbers only, no IR.

    t_j + d * II >= t_i + delay_i      for every dependence i -> j at distance d

where t_j = stage_j * II + the place of j in the kernel, in cycles (B. R. Rau, "Iterative Modulo
Scheduling", MICRO 1994). An op that is not asynchronous holds the thread for all of its delay;
an asynchronous one holds its queue, and arrives later.

`all_bounds` are lower bounds of the initiation interval, and what sets them:

    II >= cycles for which an iteration holds the thread                          (ResMII)
    II >= cycles for which its copies hold a queue                                (ResMII)
    II >= sum of delays on a cycle of dependences / sum of their distances        (RecMII)

ResMII and RecMII are those of B. R. Rau, "Iterative Modulo Scheduling", MICRO 1994, without
rounding up, since cycles are not bound to whole numbers here. The maximum cycle ratio is found
as by E. Lawler, "Combinatorial Optimization", 1976: a ratio is too small as long as some cycle
has positive weight under it, and that cycle gives the next larger one.

    worked example   copy (latency 500) -> load (20) -> addf, store (30), distance 1 to the copy:
                     (500 + 20 + 30) / 1 = 550 cycles; the thread is held for 50 of them
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.facts.flow.algorithms import reached


@dataclass(frozen=True)
class ScheduledNode:
    """What is scheduled as one piece: a statement, or the statements of one asynchronous copy.

    `held` are the cycles for which it holds the thread, with the pure ops that go with it;
    `occupancy` those for which it holds `queue`, and `latency` those from then until it has
    arrived (both 0 if it is synchronous, and `queue` is ""). `group` is its commit group in the
    input, -1 if it is in none: neighbours in the kernel of one stage and one group are committed
    together, and waited for together.
    """

    statements: tuple[int, ...]
    held: float
    queue: str = ""
    occupancy: float = 0
    latency: float = 0
    group: int = -1

    @property
    def asynchronous(self) -> bool:
        """Whether it completes later than it is issued."""
        return self.queue != ""

    @property
    def delay(self) -> float:
        """Cycles from its begin until what depends on it may begin."""
        return self.occupancy + self.latency if self.asynchronous else self.held


@dataclass(frozen=True)
class DependenceEdge:
    """`target` of iteration k + distance depends on `source` of iteration k."""

    source: int
    target: int
    distance: int


@dataclass(frozen=True)
class VersionedMemory:
    """A buffer that may get versions: the bytes of one, and the pairs (x, w) of nodes of which x
    uses an element that w writes. `readers` only read it."""

    bytes: int
    shared: bool
    pairs: tuple[tuple[int, int], ...]
    readers: frozenset[int]


@dataclass(frozen=True)
class Problem:
    """What the scheduler needs to know of a loop.

    `barrier` are the cycles of a thread barrier if every iteration has one, else 0;
    `has_barriers` whether the input orders threads at all. `wait_modes` says whether waits may
    stand at the top of a step (True) or before their consumers (False). `largest_stages`
    bounds the number of stages.
    """

    nodes: tuple[ScheduledNode, ...]
    edges: tuple[DependenceEdge, ...]
    buffers: tuple[VersionedMemory, ...]
    barrier: float
    has_barriers: bool
    wait_modes: tuple[bool, ...]
    largest_stages: int

    @property
    def thread_cycles(self) -> float:
        """Cycles for which an iteration holds the thread, with one barrier if it has any."""
        return sum(node.held for node in self.nodes) + self.barrier


@dataclass(frozen=True)
class Schedule:
    """A stage for each node, the nodes in kernel order, and where waits stand."""

    stages: tuple[int, ...]
    order: tuple[int, ...]
    wait_at_top: bool

    @property
    def stage_count(self) -> int:
        """S: one more than the last stage."""
        return max(self.stages) + 1

    def places(self) -> list[int]:
        """The place of each node in the kernel."""
        places = [0] * len(self.order)
        for place, node in enumerate(self.order):
            places[node] = place
        return places


def versions_of(buffer: VersionedMemory, stages: Sequence[int], places: Sequence[int]) -> int:
    """The sync rule of `versions`: V >= s_x - s_w + [o_x > o_w] for uses x, writes w that meet.

    A lower bound: an asynchronous use may need more, which the plan of the schedule tells.
    """
    needed = 1
    for x, w in buffer.pairs:
        later = 1 if places[x] > places[w] else 0
        needed = max(needed, stages[x] - stages[w] + later)
    return needed


def bytes_of(problem: Problem, stages: Sequence[int], places: Sequence[int]) -> tuple[int, int]:
    """Bytes of all versions by the sync rule: in workgroup memory, and elsewhere."""
    shared = private = 0
    for buffer in problem.buffers:
        size = buffer.bytes * versions_of(buffer, stages, places)
        if buffer.shared:
            shared += size
        else:
            private += size
    return shared, private


def needed_by(problem: Problem, nodes: Iterable[int]) -> set[int]:
    """Nodes and all that they depend on inside an iteration."""

    def before(node: int) -> list[int]:
        return [e.source for e in problem.edges if e.target == node and e.distance == 0]

    return reached(nodes, before)


TOLERANCE = 1e-6


@dataclass(frozen=True)
class Arc:
    """In a graph of moments: `target` comes at least `weight` cycles after `source` of `steps`
    intervals before. `edge` numbers the dependence behind it, -1 if there is none."""

    source: int
    target: int
    weight: float
    steps: int
    edge: int = -1


@dataclass(frozen=True)
class IntervalBound:
    """A lower bound of the interval in cycles, and the nodes that set it."""

    cycles: float
    kind: Literal["thread", "queue", "recurrence"]
    nodes: tuple[int, ...]
    queue: str = ""
    distance: int = 0


def positive_cycle(count: int, arcs: Sequence[Arc], interval: float) -> list[Arc] | None:
    """A cycle of arcs whose weights exceed `interval` times its steps, None if there is none.

    Bellman and Ford's longest paths, from all nodes at once.
    """
    weights = [arc.weight - interval * arc.steps for arc in arcs]
    longest = [0.0] * count
    reached: list[int] = [-1] * count
    last = -1
    for _ in range(count + 1):
        last = -1
        for number, arc in enumerate(arcs):
            found = longest[arc.source] + weights[number]
            if found > longest[arc.target] + TOLERANCE:
                longest[arc.target] = found
                reached[arc.target] = number
                last = arc.target
        if last < 0:
            return None
    # `last` was still improved after `count` rounds: walking back leads into a cycle.
    for _ in range(count):
        last = arcs[reached[last]].source
    cycle: list[Arc] = []
    node = last
    while not cycle or node != last:
        arc = arcs[reached[node]]
        cycle.append(arc)
        node = arc.source
    return cycle[::-1]


def largest_ratio(
    count: int, arcs: Sequence[Arc], least: float = 0.0
) -> tuple[float, list[Arc] | None]:
    """The largest ratio of weight to steps over all cycles, and a cycle that has it.

    `least` and None if no cycle exceeds it. A cycle without steps and of positive weight has no
    ratio: the graph has none of those if distances are those of a loop that can run.
    """
    ratio, critical = least, None
    while True:
        cycle = positive_cycle(count, arcs, ratio)
        if cycle is None:
            return ratio, critical
        steps = sum(arc.steps for arc in cycle)
        if steps <= 0:
            return float("inf"), cycle
        ratio, critical = sum(arc.weight for arc in cycle) / steps, cycle


def thread_bound(problem: Problem) -> IntervalBound:
    """ResMII of the thread: what holds it in an iteration, with one barrier if it has any."""
    holders = tuple(n for n, node in enumerate(problem.nodes) if node.held > 0)
    return IntervalBound(problem.thread_cycles, "thread", holders)


def queue_bounds(problem: Problem) -> list[IntervalBound]:
    """ResMII of each queue: the cycles that its copies take to issue."""
    queues = dict.fromkeys(node.queue for node in problem.nodes if node.asynchronous)
    found = []
    for queue in queues:
        members = tuple(n for n, node in enumerate(problem.nodes) if node.queue == queue)
        cycles = sum(problem.nodes[n].occupancy for n in members)
        found.append(IntervalBound(cycles, "queue", members, queue))
    return found


def recurrence_bound(problem: Problem) -> IntervalBound | None:
    """RecMII: the cycle of dependences with the largest ratio, None if nothing recurs."""
    arcs = [
        Arc(e.source, e.target, problem.nodes[e.source].delay, e.distance, n)
        for n, e in enumerate(problem.edges)
    ]
    ratio, cycle = largest_ratio(len(problem.nodes), arcs)
    if cycle is None:
        return None
    nodes = tuple(arc.source for arc in cycle)
    return IntervalBound(ratio, "recurrence", nodes, distance=sum(arc.steps for arc in cycle))


def all_bounds(problem: Problem) -> list[IntervalBound]:
    recurrence = recurrence_bound(problem)
    found = [thread_bound(problem), *queue_bounds(problem)]
    found += [] if recurrence is None else [recurrence]
    return sorted(found, key=lambda bound: -bound.cycles)
