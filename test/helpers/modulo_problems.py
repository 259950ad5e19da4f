"""Small modulo scheduling problems, and every schedule of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import strategies as st

from mlir_async_pipe.pipeliner.schedule.modulo.problem import (
    DependenceEdge,
    Problem,
    Schedule,
    ScheduledNode,
    VersionedMemory,
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
    buffers: list[VersionedMemory] | None = None,
    *,
    barrier: float = 0,
    modes: tuple[bool, ...] = (False,),
    stages: int = 8,
) -> Problem:
    """A problem; without a barrier waits stand before their consumers."""
    return Problem(
        tuple(nodes), tuple(edges), tuple(buffers or ()), barrier, len(modes) > 1, modes, stages
    )


def copied(copy_node: int, readers: list[int], size: int = 64) -> VersionedMemory:
    """A workgroup buffer that one node writes and others read."""
    return VersionedMemory(size, True, tuple((r, copy_node) for r in readers), frozenset(readers))


@st.composite
def problems(draw: st.DrawFn, largest: int = 4, stages: int = 3) -> Problem:
    """Copies, and work that reads what they copy and depends on other work."""
    count = draw(st.integers(2, largest))
    copies = draw(st.integers(1, count - 1))
    nodes = [
        copy(n, draw(st.sampled_from([100, 250, 500])), occupancy=draw(st.sampled_from([0, 30])))
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


def every_schedule(given: Problem) -> Iterator[Schedule]:
    """All stages and orders within the largest number of stages."""
    count = len(given.nodes)
    for stages in itertools.product(range(given.largest_stages), repeat=count):
        for order in itertools.permutations(range(count)):
            for at_top in given.wait_modes:
                yield Schedule(stages, order, at_top)
