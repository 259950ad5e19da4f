"""What threads themselves do to the memory that copies and products touch: loads, stores, atomics.

memref.load %ring[%slot, %t]     the threads that are there read these bytes
"my.op"(%ring)                   may do anything to them: not followed
vector.store %v, %x[%t]          %x is global: looked at if a tensor copy may touch it, too
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.byte_places import (
    Place,
    Region,
    region_of_access,
)
from mlir_async_pipe.checker.phases.cluster_blocks import is_of_cluster
from mlir_async_pipe.checker.phases.far_memory import FarMemory
from mlir_async_pipe.checker.phases.memory_ends import Bounds
from mlir_async_pipe.checker.phases.spot import Spot
from mlir_async_pipe.checker.phases.thread_numbers import threads_of
from mlir_async_pipe.checker.phases.touches import Touch
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_bytes,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.rows import Share

Effect = Callable[[Spot], None]


@dataclass(frozen=True)
class GenericEffects:
    """Effects of the ops of one kernel that no proxy runs, as `OpEffects` has its own; blocks have
    `width` threads along x."""

    sites: Sites
    touched: set[int]
    far: FarMemory | None
    bounds: Bounds
    number: Callable[[Run], int]
    width: int

    def access(self, run: Run) -> Effect | None:
        op = run.op
        known = self.far.touched(run) if self.far is not None else ()
        near = [
            access
            for access in accesses(op)
            if self._is_touched(access.memory, run.frame)
            or self.root(access.memory, run.frame) in known
        ]
        if not near:
            return None
        if any(access.asynchronous for access in near):
            return not_followed
        number = self.number(run)

        def execute(spot: Spot) -> None:
            for access in near:
                value = spot.get(run.operands[access.memory_operand])
                if isinstance(value, Place) and access.shares is not None:
                    region = _region_of_shares(
                        value, access.memory.type, access.shares, spot.threads(), self.width
                    )
                elif isinstance(value, Place):
                    indices = [spot.mine(run.operands[n]) for n in access.index_operands]
                    region = region_of_access(value, access.memory.type, indices, access.extent)
                else:
                    region = Region(self.root(access.memory, run.frame))
                if not access.certain:
                    region = region._replace(exact=False)
                self.bounds.check(region, number)
                region = self._as_far(region, run) or region
                if access.kind != "read" or access.over_lanes:
                    spot.memory.write(Touch(region, number, spot.mask))
                if access.kind != "write":
                    spot.memory.read(Touch(region, number, spot.mask))

        return execute

    def _as_far(self, region: Region, run: Run) -> Region | None:
        """A region as one of global memory that copies touch."""
        if self.far is None:
            return None
        region = region._replace(exact=region.exact and not (run.maybe or run.variables))
        return self.far.seen(region, run.op)

    def root(self, memory: Any, frame: int) -> int:
        """The number of the root of a memref or pointer."""
        return self.sites.roots.number(root_of(memory), frame)

    def _is_touched(self, memory: Any, frame: int) -> bool:
        root = self.root(memory, frame)
        alias = self.sites.roots.may_alias
        return is_of_cluster(memory) or any(alias(root, other) for other in self.touched)

    def opaque(self, run: Run) -> Effect | None:
        """An op outside the vocabulary: not followed if it may reach what copies touch."""
        op = run.op
        if self.sites.is_harmless(op):
            return None
        given = {
            self.root(operand, run.frame)
            for operand in op.operands
            if str(operand.type).startswith(("memref<", "!llvm.ptr"))
        }
        reached = self.sites.reachable(op, given)
        roots = self.sites.roots
        if self.far is not None and self.far.touched(run):
            return not_followed
        if any(roots.may_alias(root, other) for root in reached for other in self.touched):
            return not_followed
        return None if given else not_followed


@lru_cache(maxsize=256)
def _places_of_shares(
    shares: tuple[Share, ...], strides: tuple[int, ...], mask: int, width: int
) -> tuple[int, int, bool]:
    """The first element and the last plus 1 that some threads have, and whether they have all between."""
    x = np.array(threads_of(mask)) % width
    places = np.zeros((len(x), 1), np.int64)
    for share, stride in zip(shares, strides, strict=True):
        mine = share.first(x)[:, None] + np.array(share.offsets())
        places = (places[:, :, None] + stride * mine[:, None, :]).reshape(len(x), -1)
    once = np.unique(places)
    return int(once[0]), int(once[-1]) + 1, len(once) == once[-1] + 1 - once[0]


def _region_of_shares(
    place: Place, kind: Any, shares: tuple[Share, ...], mask: int, width: int
) -> Region:
    """What threads have of a memref that they share out, in blocks of `width` threads along x."""
    memref = ir.MemRefType(kind)
    try:
        strides, _ = strides_and_offset(memref)
        size = element_bytes(memref)
    except UnknownLayoutError:
        return Region(place.root)
    known = tuple(stride for stride in strides if stride is not None)
    if place.low is None or place.high is None or len(known) < len(strides):
        return Region(place.root)
    low, high, dense = _places_of_shares(shares, known, mask, width)
    exact = dense and place.low == place.high
    return Region(place.root, place.low + low * size, place.high + high * size, exact)


def not_followed(spot: Spot) -> None:
    """The effect of an op of which no rule is known here."""
    raise NotFollowedError("async-proxy")
