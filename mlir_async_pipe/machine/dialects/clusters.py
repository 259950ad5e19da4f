"""Blocks of a cluster: the barrier of all their threads, and addresses in each other's memory.

Variables of workgroup memory lie at the same offset in every block, so an address of one block names
the same variable in another (PTX ISA, mapa).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.dialects.gpu import whole_warps
from mlir_async_pipe.machine.dialects.mbarriers import warps_of
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


@semantics("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
def arrive(site: Site) -> Execute:
    """The active threads arrive at the barrier of the cluster, and go on."""
    is_relaxed, aligned = site.name.endswith("relaxed"), site.has("aligned")

    def execute(unit: Unit) -> None:
        launch, lanes = unit.launch, _lanes(unit, site, aligned)
        threads, warps = launch.in_cluster(unit)[lanes], warps_of(unit, lanes)
        if not launch.cluster_barrier.arrive(threads, warps, is_relaxed):
            thread = int(launch.grid_threads(unit.threads[lanes[:1]])[0])
            launch.detector.report_between(
                "too-many-arrivals", site.number, site.number, thread=thread
            )

    return execute


@semantics("nvvm.cluster.wait")
def wait(site: Site) -> Execute:
    """The active threads stop until all threads of the cluster have arrived."""
    aligned = site.has("aligned")

    def execute(unit: Unit) -> None:
        launch, lanes = unit.launch, _lanes(unit, site, aligned)
        if launch.random_completion:
            unit.queues.tick()
        meeting, threads = launch.cluster_barrier, launch.in_cluster(unit)[lanes]
        if (meeting.phases[threads] < 0).any():
            raise site.unsupported("a wait of threads that have not arrived")
        launch.scheduler.block(unit, site, [meeting.barrier], lambda: meeting.is_over(threads))
        meeting.waited(threads, warps_of(unit, lanes))

    return execute


@semantics("nvvm.mapa")
def address_in_block(site: Site) -> Execute:
    """The same place in the workgroup memory of another block of the cluster."""

    def execute(unit: Unit, address: Array, rank: Array) -> Array:
        pairs = np.stack(
            (
                lanes_of(address, unit.width).astype(np.int64),
                lanes_of(rank, unit.width).astype(np.int64),
            )
        )
        found = np.zeros(unit.width, np.int64)
        chosen = np.flatnonzero(unit.active())
        for one, block in np.unique(pairs[:, chosen], axis=1).T:
            same = chosen[(pairs[0, chosen] == one) & (pairs[1, chosen] == block)]
            found[same] = place_in_block(unit, site, int(one), int(block), int(same[0]))
        return found

    return execute


def place_in_block(unit: Unit, site: Site, address: int, rank: int, lane: int) -> int:
    """The address in a block of the cluster; where there is none it is reported, and null."""
    found = unit.launch.in_block(address, rank)
    if found is None:
        thread = int(unit.launch.grid_threads(unit.threads[[lane]])[0])
        told = f"block {rank} of a cluster of {unit.launch.cluster_size}"
        unit.launch.detector.report("out-of-bounds", site.number, thread=thread, detail=told)
        return 0
    return int(found)


def each_target(
    unit: Unit, site: Site, mask: int | None, lane: int, barrier: int, place: Array
) -> Iterator[tuple[int, Array]]:
    """Where a copy lands, as (address of its mbarrier, its place): with a `mask` in each block that
    has a bit there, at the same offsets; else where they say."""
    if mask is None or not place.size:
        yield barrier, place
        return
    first = int(place.min())
    for rank in range(16):
        if mask >> rank & 1:
            there = place_in_block(unit, site, first, rank, lane)
            other = place_in_block(unit, site, barrier, rank, lane)
            if there and other:
                yield other, place - first + there


def mask_of(unit: Unit, given: tuple[Any, ...], group: Any, lane: int) -> int | None:
    """The blocks that a copy lands in, None where the op has no mask."""
    return int(lanes_of(given[group[0]], unit.width)[lane]) & 0xFFFF if len(group) else None


def _lanes(unit: Unit, site: Site, aligned: bool) -> Array:
    refuse_in_scope(unit, site)
    if aligned:
        whole_warps(unit, site)
    return np.flatnonzero(unit.active())
