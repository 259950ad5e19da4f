"""What is true of a loop whatever its schedule: its accesses, which buffers may have versions,
and every dependence through memory with its distance.

A buffer may have a version an iteration if every iteration overwrites what it reads, and if whoever reads it outside of
the loop sees nothing of the loop's, or the last iteration's version, which then lies in slot 0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, ancestors, source_op
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, overlapping_windows
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.memory_dependences import (
    Assertions,
    Dependence,
    memory_dependences,
)
from mlir_async_pipe.pipeliner.dependence.outside_reads import (
    sees_nothing_of,
    sees_own_block,
    user_elsewhere,
    writes_the_same,
)
from mlir_async_pipe.pipeliner.dependence.privatise import unproven_read
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings


@dataclass(frozen=True)
class Analysis:
    """The facts about a loop body.

    `privatisation` says whose iterations may have versions, and what stands against it for the
    others. `around` is what stands around the loop.
    """

    body: Body
    regions: list[CoveredRegion]
    index: LoopIndex
    privatisation: Privatisation
    dependences: list[Dependence]
    around: Surroundings


def analyse(
    body: Body, independent: bool, noalias_arguments: bool, around: Surroundings
) -> Analysis:
    """Gather the facts; `independent` and `noalias_arguments` are what the user vouches for."""
    loop = body.loop
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    tops = list(dict.fromkeys(statement.op for statement in body.statements))
    regions = regions_of(tops, arithmetic, around.lanes(loop))
    privatisation = private_buffers(loop, regions, around, arithmetic)
    dependences = memory_dependences(
        regions, privatisation.private, index, Assertions(independent, noalias_arguments)
    )
    return Analysis(body, regions, index, privatisation, dependences, around)


@dataclass(frozen=True)
class Obstacle:
    """Why a buffer cannot have versions: a read that may see another iteration's value, or
    (`outside`) one outside of the loop that may see what is not in slot 0. `open_block`: that
    depends on the size of the block, which is not known."""

    op: Operation
    outside: bool
    open_block: bool = False


@dataclass(frozen=True)
class Privatisation:
    """Which roots (by identity) may have a version an iteration, and what stands against the
    other owned ones. Of those in `seen_after` the last iteration's version has to lie in
    slot 0, where reads after the loop find it."""

    private: frozenset[Any]
    seen_after: frozenset[Any]
    obstacles: dict[Any, Obstacle]


def private_buffers(
    loop: Operation, regions: list[CoveredRegion], around: Surroundings, arithmetic: Arithmetic
) -> Privatisation:
    """Decide for each buffer that the loop writes."""
    by_root: dict[Any, list[CoveredRegion]] = defaultdict(list)
    roots: dict[Any, Root] = {}
    opaque = any(region.opaque for region in regions)
    for region in regions:
        if region.root is not None and _is_ours(region.root):
            by_root[region.root.identity].append(region)
            roots[region.root.identity] = region.root
    private: set[Any] = set()
    seen_after: set[Any] = set()
    obstacles: dict[Any, Obstacle] = {}
    for key, found in by_root.items():
        root = roots[key]
        if opaque or not any(r.writes for r in found) or _inside(root, loop):
            continue
        if root.kind == "dynamic" and overlapping_windows(loop, root):
            continue
        written = around.writes_outside(loop, key)
        missing = unproven_read(root, found, arithmetic.block_size, written_elsewhere=written)
        if missing is not None:
            obstacles[key] = Obstacle(missing.read.op, outside=False, open_block=missing.open_block)
            continue
        elsewhere = user_elsewhere(loop, root)
        if elsewhere is not None:
            obstacles[key] = Obstacle(elsewhere, outside=True)
            continue
        seeing = around.readers_outside(
            loop,
            root,
            arithmetic.block_size,
            sees_own_block(root, arithmetic),
            partial(sees_nothing_of, loop, root=root, arithmetic=arithmetic),
        )
        if seeing and not writes_the_same(found, arithmetic.block_size):
            obstacles[key] = Obstacle(seeing[0], outside=True)
            continue
        private.add(key)
        if seeing:
            seen_after.add(key)
    return Privatisation(frozenset(private), frozenset(seen_after), obstacles)


def _inside(root: Root, loop: Operation) -> bool:
    return root.kind != "global" and loop in list(ancestors(source_op(root.value)))


def _is_ours(root: Root) -> bool:
    """Memory that is ours alone; a thread's own has to be a memref, which has a place for slots."""
    return root.is_buffer or (root.owned and root.space != "private")
