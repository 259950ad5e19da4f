"""Small loops as numbers, every kernel of one, and how fast a kernel is by itself.

A kernel is a graph of moments: the top of a step, the begin of each node on the thread, the begin of
each copy on its queue, and its arrival. Its interval is the largest ratio of cycles to steps over
all cycles of the graph (F. Baccelli et al., "Synchronization and Linearity", 1992). No solver is
asked, and nothing is planned, so this judges both.

    copy in stage 0, first in order, latency 500; its user in stage 2, computing 300 cycles
      thread   300 cycles a step                                        300
      copy     500 cycles, and back over 2 steps                        250
    the interval is 300; with the user in stage 1 it is 500
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import strategies as st

from mlir_async_pipe.pipeliner.schedule.modulo.problems import formulations
from mlir_async_pipe.pipeliner.schedule.modulo.read import (
    DependenceEdge,
    LoopNumbers,
    ScheduledNode,
)
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import KernelSchedule, kernel_of
from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    LiveRange,
    Precedence,
    largest_ratio,
    solve,
)


def copy(number: int, latency: float, *, occupancy: float = 0, group: int = -1) -> ScheduledNode:
    """An asynchronous copy on one common queue."""
    return ScheduledNode((number,), 0, "cp.async", occupancy, latency, group)


def work(number: int, held: float) -> ScheduledNode:
    """A synchronous statement."""
    return ScheduledNode((number,), held)


def problem(
    nodes: list[ScheduledNode],
    edges: list[DependenceEdge],
    buffers: list[LiveRange] | None = None,
    *,
    barrier: float = 0,
    modes: tuple[bool, ...] = (False,),
    stages: int = 8,
) -> LoopNumbers:
    """A loop; without a barrier waits stand before their consumers."""
    return LoopNumbers(
        tuple(nodes), tuple(edges), tuple(buffers or ()), barrier, len(modes) > 1, modes, stages
    )


def copied(copy_node: int, readers: list[int], size: int = 64) -> LiveRange:
    """A workgroup buffer that one node writes and others read."""
    return LiveRange(size, tuple((copy_node, r, 0) for r in readers))


@st.composite
def problems(draw: st.DrawFn, largest: int = 4, stages: int = 3) -> LoopNumbers:
    """Copies, and work that reads what they copy and depends on other work."""
    count = draw(st.integers(2, largest))
    copies = draw(st.integers(1, count - 1))
    occupancy = draw(st.sampled_from([0, 30]))
    nodes = [
        copy(n, draw(st.sampled_from([100, 250, 500])), occupancy=occupancy, group=n)
        for n in range(copies)
    ]
    nodes += [work(n, draw(st.sampled_from([10, 60, 150]))) for n in range(copies, count)]
    edges: dict[tuple[int, int], DependenceEdge] = {}
    buffers = []
    workers = list(range(copies, count))
    for number in range(copies):
        readers = draw(st.lists(st.sampled_from(workers), min_size=1, max_size=2, unique=True))
        buffers.append(copied(number, readers, draw(st.sampled_from([64, 128]))))
        edges.update({(number, reader): DependenceEdge(number, reader, 0) for reader in readers})
    for a, b in itertools.combinations(workers, 2):
        if draw(st.booleans()):
            edges[(a, b)] = DependenceEdge(a, b, 0)
    if draw(st.sampled_from([False, False, True])):
        late, early = draw(st.sampled_from(workers)), draw(st.integers(0, count - 1))
        edges[(late, early)] = DependenceEdge(late, early, draw(st.integers(1, 2)))
    modes = draw(st.sampled_from([(False,), (True, False)]))
    return problem(nodes, list(edges.values()), buffers, modes=modes, stages=stages)


def every_schedule(given: LoopNumbers) -> Iterator[KernelSchedule]:
    """All stages and orders within the largest number of stages."""
    count = len(given.nodes)
    for stages in itertools.product(range(given.largest_stages), repeat=count):
        for order in itertools.permutations(range(count)):
            for at_top in given.wait_modes:
                yield KernelSchedule(stages, order, at_top)


@dataclass(frozen=True)
class Judged:
    """A kernel's interval, stages, and bytes of versions by the sync rule."""

    kernel: KernelSchedule
    interval: float
    stages: int
    bytes: int

    @property
    def key(self) -> tuple[float, int, int]:
        return round(self.interval, 6), self.stages, self.bytes


def judged(given: LoopNumbers, kernel: KernelSchedule) -> Judged | None:
    """What a kernel gives, None if it breaks a dependence."""
    if not is_legal(given, kernel):
        return None
    interval, _ = largest_ratio(*moments(given, kernel), thread_cycles(given))
    size = sum(buffer.bytes * versions(buffer, kernel) for buffer in given.buffers)
    return Judged(kernel, interval, kernel.stage_count, size)


def found_by_search(
    given: LoopNumbers, limit: int | None = None, constraints: int = 20_000
) -> tuple[Judged | None, float]:
    """The best kernel of the schedules of a loop, and the interval that none is below."""
    kernels, least = [], []
    for formulation in formulations(given):
        limits = () if limit is None else (("workgroup", limit),)
        found = solve(replace(formulation.problem, limits=limits), constraints)
        if found is not None:
            kernel = kernel_of(given, formulation, found.begins, found.interval)
            kernels.append(judged(given, kernel))
            assert kernels[-1] is not None
            least.append(found.least / formulation.scale)
    best = min((k for k in kernels if k is not None), key=lambda k: k.key, default=None)
    return best, min(least, default=0)


def thread_cycles(given: LoopNumbers) -> float:
    return sum(node.held for node in given.nodes) + given.barrier


def lag(edge: DependenceEdge, stages: Sequence[int]) -> int:
    """Kernel steps between the source of a dependence and its target."""
    return stages[edge.target] + edge.distance - stages[edge.source]


def places(kernel: KernelSchedule) -> list[int]:
    return [kernel.order.index(node) for node in range(len(kernel.order))]


def versions(buffer: LiveRange, kernel: KernelSchedule) -> int:
    """V >= s_x - s_w + [o_x > o_w] for uses x and writes w that meet."""
    stages, place = kernel.stages, places(kernel)
    return max([1, *(stages[x] - stages[w] + (place[x] > place[w]) for w, x, _ in buffer.uses)])


def is_legal(given: LoopNumbers, kernel: KernelSchedule) -> bool:
    """T(source, k) < T(target, k + distance) for every dependence, T = (k + stage, place)."""
    place = places(kernel)
    return all(
        (lag(e, kernel.stages), place[e.target] - place[e.source]) > (0, 0) for e in given.edges
    )


def moments(given: LoopNumbers, kernel: KernelSchedule) -> tuple[int, list[Precedence]]:
    """The number of moments of a legal kernel, and the arcs between them."""
    nodes, order = given.nodes, kernel.order
    count = len(nodes)
    top, begins, arrives = count, count + 1, 2 * count + 1
    arcs = [Precedence(top, order[0], given.barrier, 0)]
    arcs += [Precedence(a, b, nodes[a].held, 0) for a, b in pairwise(order)]
    arcs.append(Precedence(order[-1], top, nodes[order[-1]].held, 1))
    queues: dict[str, list[int]] = {}
    for node in order:
        if nodes[node].asynchronous:
            queues.setdefault(nodes[node].queue, []).append(node)
    for members in queues.values():
        for node, following in zip(members, [*members[1:], members[0]], strict=True):
            # The copy after the last one of a step is the first of the next.
            steps = 1 if following == members[0] else 0
            arcs += [
                Precedence(node, begins + node, 0, 0),
                Precedence(begins + node, arrives + node, nodes[node].delay, 0),
                Precedence(begins + node, begins + following, nodes[node].occupancy, steps),
                Precedence(arrives + node, arrives + following, 0, steps),
            ]
    committed_with = last_of_group(given, kernel)
    for edge in given.edges:
        if nodes[edge.source].asynchronous:
            steps = lag(edge, kernel.stages)
            waits = top if kernel.wait_at_top and steps > 0 else edge.target
            arcs.append(Precedence(arrives + committed_with[edge.source], waits, 0, steps))
    return 3 * count + 1, arcs


def last_of_group(given: LoopNumbers, kernel: KernelSchedule) -> dict[int, int]:
    """For each copy the last one that is committed with it: neighbours in the kernel of one
    stage, one queue and one group of the input."""
    runs: list[list[int]] = []
    before: tuple[int, str, int] | None = None
    for n in kernel.order:
        node = given.nodes[n]
        now = (kernel.stages[n], node.queue, node.group) if node.asynchronous else None
        if now is not None and now == before:
            runs[-1].append(n)
        elif now is not None:
            runs.append([n])
        before = now
    return {node: run[-1] for run in runs for node in run}
