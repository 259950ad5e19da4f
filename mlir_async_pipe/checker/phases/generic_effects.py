"""What the generic proxy does to the memory that copies and products touch: loads, stores, atomics, cp.async.

memref.load %ring[%slot, %t]     the threads that are there read these bytes
nvvm.cp.async %ring[%slot, %t]   they write these, until they have waited for its group
"my.op"(%ring)                   may do anything to them: not followed
vector.store %v, %x[%t]          %x is global: looked at if a tensor copy may touch it, too
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import constant_value, defining_op
from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.amounts import threads_of
from mlir_async_pipe.checker.phases.byte_places import (
    BytePlace,
    ByteRange,
    OfRanks,
    among,
    region_of_access,
)
from mlir_async_pipe.checker.phases.cluster_blocks import is_of_cluster, named_root
from mlir_async_pipe.checker.phases.global_memory import GlobalMemory
from mlir_async_pipe.checker.phases.mbarrier_state import Touch
from mlir_async_pipe.checker.phases.path_state import Spot
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.facts.values.memory_roots import Root, bytes_of_global, is_pointer, root_of
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES, number_of_mbarriers
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_bytes,
    span_bytes,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.rows import CP_ASYNC, Share

Effect = Callable[[Spot], None]


@dataclass
class GenericEffects:
    """Effects of the ops of one kernel that no proxy runs. `touched` are the roots that copies and products
    touch, and `in_global` the global memory that is followed with them, if it is. Blocks have `width` threads along x.
    `ops` are the steps that faults may name, by number."""

    sites: Sites
    touched: set[int]
    in_global: GlobalMemory | None = None
    width: int = 1
    ops: list[Run] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.sites, self.number)

    def number(self, run: Run) -> int:
        if id(run) not in self._numbers:
            self._numbers[id(run)] = len(self.ops)
            self.ops.append(run)
        return self._numbers[id(run)]

    @cached_property
    def has_copies(self) -> bool:
        """Whether some cp.async may write what copies and products touch: then its groups matter."""
        sites = self.sites.sites
        roots = {site.root for site in sites if site.queue == CP_ASYNC.name and site.writes}
        alias = self.sites.roots.may_alias
        return any(alias(root, other) for root in roots for other in self.touched)

    def access(self, run: Run) -> Effect | None:
        op = run.op
        known = self.in_global.touched(run) if self.in_global is not None else ()
        near = [
            access
            for access in accesses(op)
            if self._is_touched(access.memory, run.frame)
            or self.root(access.memory, run.frame) in known
        ]
        if not near:
            return None
        queue = run.row.queue
        if any(access.asynchronous for access in near) and (
            queue != CP_ASYNC or any(access.kind != "write" for access in near)
        ):
            return not_followed
        number = self.number(run)

        def execute(spot: Spot) -> None:
            for access in near:
                value = spot.get(run.operands[access.memory_operand])
                if isinstance(value, BytePlace) and access.shares is not None:
                    region = _region_of_shares(
                        value, access.memory.type, access.shares, spot.threads(), self.width
                    )
                elif isinstance(value, BytePlace):
                    indices = [spot.get(run.operands[n]) for n in access.index_operands]
                    region = region_of_access(
                        value, access.memory.type, indices, access.extent, access.contiguous
                    )
                else:
                    region = ByteRange(self.root(access.memory, run.frame))
                if not access.certain:
                    region = region._replace(exact=False)
                self.bounds.check(region, number)
                region = self._as_global(region, run) or region
                if access.asynchronous:
                    spot.memory.issue_write(CP_ASYNC.name, Touch(region, number, spot.threads()))
                elif access.kind != "read" or access.over_lanes:
                    spot.memory.write(Touch(region, number, spot.mask))
                if access.kind != "write":
                    spot.memory.read(Touch(region, number, spot.mask))

        return execute

    def _as_global(self, region: ByteRange, run: Run) -> ByteRange | None:
        """A region as one of global memory that copies touch."""
        if self.in_global is None:
            return None
        region = region._replace(exact=region.exact and not (run.maybe or run.variables))
        return self.in_global.seen(region, run.op)

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
        given = self.sites.roots_given(run)
        reached = self.sites.reachable(op, given)
        roots = self.sites.roots
        if self.in_global is not None and self.in_global.touched(run):
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
    place: BytePlace, kind: Any, shares: tuple[Share, ...], mask: int, width: int
) -> ByteRange:
    """What threads have of a memref that they share out, in blocks of `width` threads along x."""
    memref = ir.MemRefType(kind)
    try:
        strides, _ = strides_and_offset(memref)
        size = element_bytes(memref)
    except UnknownLayoutError:
        return ByteRange(place.root)
    known = tuple(stride for stride in strides if stride is not None)
    if place.low is None or place.high is None or len(known) < len(strides):
        return ByteRange(place.root)
    low, high, dense = _places_of_shares(shares, known, mask, width)
    exact = dense and place.low == place.high
    return ByteRange(place.root, place.low + low * size, place.high + high * size, exact)


def not_followed(spot: Spot, reason: str = "async-proxy") -> None:
    """The effect of an op of which no rule is known here."""
    raise NotFollowedError(reason)


# What is certainly beyond its piece of memory: an mbarrier beyond its group, bytes beyond their buffer.
#
#     nvgpu.mbarrier.arrive %full[%slot]             2 mbarriers, %slot = 2     out-of-bounds
#     nvgpu.tma.async.load … to %ring[%slot, 0]      2 slots, %slot = 2         out-of-bounds
#
# Of memory whose size the launch decides nothing is said, nor of bytes that an access may or may not touch.


class MemoryPiece(NamedTuple):
    """A buffer or a group of mbarriers: its bytes (None: not known), and the number of the op that
    makes it (None: it is an argument)."""

    size: int | None
    made: int | None


@dataclass
class Bounds:
    """The pieces of memory of a kernel by the numbers of their roots; `number` is that of a step."""

    sites: Sites
    number: Callable[[Run], int]
    _pieces: dict[int, MemoryPiece] = field(default_factory=dict)
    _columns: dict[int, int] = field(default_factory=dict)

    def add_group(self, group: int, create: Run) -> None:
        """A group of mbarriers that an op makes."""
        size = MBARRIER_BYTES * number_of_mbarriers(create.op.results[0].type)
        self._pieces[group] = MemoryPiece(size, self.number(create))

    def add_columns(self, allocation: Run) -> None:
        """Columns of tensor memory that an op takes."""
        count = constant_value(allocation.op.operands[1])
        if count is not None:
            self._columns[self.number(allocation)] = count

    def check_columns(self, taken: int, first: int, size: int, op: int) -> None:
        """`size` columns that the op touches, of those that the op `taken` has taken."""
        count = self._columns.get(taken, first + size)
        if first + size > count:
            detail = f"it touches columns {first} to {first + size - 1} of {count}, counted from 0"
            raise PhaseFault("out-of-bounds", op, taken, detail)

    def check_given_back(self, taken: int, first: int, size: int, op: int) -> None:
        """`size` columns from `first` on that the op gives back: all that the op `taken` has taken."""
        count = self._columns.get(taken, size)
        if first or size != count:
            detail = f"it gives back {size} columns from column {first} on, and all {count} belong together"
            raise PhaseFault("out-of-bounds", op, taken, detail)

    def mbarrier(self, spot: Spot, at: dict[str, int], op: int) -> tuple[int, int]:
        """The root and byte of the mbarrier that the op names."""
        place = spot.get(at["barrier"])
        if isinstance(place, BytePlace | OfRanks) and spot.mask is not None:
            place = among(place, spot.mask)
        index = spot.exact(at["index"]) if "index" in at else 0
        if isinstance(place, BytePlace) and place.each is not None:
            # Threads that do the same to different mbarriers are roles of their own.
            raise OpenError(place.each)
        if not isinstance(place, BytePlace) or place.low is None or place.low != place.high:
            raise NotFollowedError("unknown-mbarrier")
        first = place.low + MBARRIER_BYTES * index
        piece = self._piece(place.root)
        if piece.size is not None and not 0 <= first <= piece.size - MBARRIER_BYTES:
            number, count = first // MBARRIER_BYTES, piece.size // MBARRIER_BYTES
            raise _beyond(op, piece, f"it names mbarrier {number} of {count}, counted from 0")
        return place.root, first

    def check(self, region: ByteRange, op: int) -> ByteRange:
        """Some bytes that the op touches, which are not certainly beyond their buffer."""
        root, low, high, exact, _ = region
        size = None if low is None else self._piece(root).size
        if size is None or low is None or high is None or low >= high:
            return region
        if low >= size or high <= 0 or (exact and (low < 0 or high > size)):
            detail = f"it touches bytes {low} to {high - 1} of {size}, counted from 0"
            raise _beyond(op, self._piece(root), detail)
        return region

    def _piece(self, root: int) -> MemoryPiece:
        at = named_root(root)
        if at not in self._pieces:
            known = 0 <= at < len(self.sites.roots.roots)
            self._pieces[at] = (
                self._found(self.sites.roots.roots[at]) if known else MemoryPiece(None, None)
            )
        return self._pieces[at]

    def _found(self, root: Root) -> MemoryPiece:
        if not root.owned or root.kind == "dynamic":
            return MemoryPiece(None, None)
        made = defining_op(root.value)
        if made is None:
            return MemoryPiece(_bytes_of(root.value), None)
        step = Run(made, made.name, row_of(made), 0, (), (), makes_values=True)
        return MemoryPiece(_bytes_of(root.value), self.number(step))


def _bytes_of(memory: Any) -> int | None:
    """The bytes of a buffer, None where its type does not say them."""
    if is_pointer(memory):
        return bytes_of_global(memory)
    try:
        return span_bytes(memory.type)
    except (UnknownLayoutError, ValueError):
        return None


def _beyond(op: int, piece: MemoryPiece, detail: str) -> PhaseFault:
    return PhaseFault("out-of-bounds", op, op if piece.made is None else piece.made, detail)
