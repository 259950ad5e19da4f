"""A loop as a modulo scheduling problem: numbers only, no IR.

    t_j + d * II >= t_i + delay_i      for every dependence i -> j at distance d

where t_j = stage_j * II + the place of j in the kernel, in cycles (B. R. Rau, "Iterative Modulo
Scheduling", MICRO 1994). An op that is not asynchronous holds the thread for all of its delay;
an asynchronous one holds its queue, and arrives later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir_async_pipe.facts.flow.algorithms import reached


@dataclass(frozen=True)
class Node:
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
class Edge:
    """`target` of iteration k + distance depends on `source` of iteration k."""

    source: int
    target: int
    distance: int


@dataclass(frozen=True)
class Buffer:
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

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    buffers: tuple[Buffer, ...]
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


def versions_of(buffer: Buffer, stages: Sequence[int], places: Sequence[int]) -> int:
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
