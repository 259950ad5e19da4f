"""What the blocks that run at once read of global memory in one iteration, and how much of it is different.

    a GEMM of tiles of 128x128x32 in f16, 216 blocks of a grid of 32x32:
    216 * (8192 + 8192) bytes are asked for, rows of A of 7 numbers of block y, of B of 32 of block x:
    39 * 8192 of them are different

An address is a polynomial: numbers that ids of threads and blocks and counters of inner loops decide, which are enumerated,
times products of what is the same in the whole grid (a counter of the loop, a size, a stride). All blocks are taken to be in one
iteration. Places are the same where all coefficients are: rows of a stride that is not known are taken to be apart. What a
bound or a mask that is not known switches off takes part. All else is not known, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import takewhile
from math import gcd, prod

import numpy as np

from mlir_async_pipe.bindings.raw_ops import Operation, Value, ancestors
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.costs.warp_traffic import (
    ONE,
    Enumeration,
    NotKnownError,
    Sum,
    WarpTraffic,
)
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.thread_numbers import is_counted
from mlir_async_pipe.facts.values.uniformity import sources
from mlir_async_pipe.vocabulary import Access
from mlir_async_pipe.vocabulary.control_flow import LOOP_OPS
from mlir_async_pipe.vocabulary.launch_ids import Kind, LaunchId, Size, launch_id

Array = np.ndarray
# Places of one access: 132 blocks of 1024 threads, 32 places each.
LARGEST_WAVE = 1 << 22
# What is the same in the whole grid.
_OF_THE_GRID: frozenset[Kind] = frozenset({"block_size", "grid_size", "cluster_size", "cluster_blocks", "cluster_count"})  # fmt: skip


@dataclass(frozen=True)
class Reads:
    """Bytes of one memory that a wave asks for in an iteration, and how many of them are different."""

    memory: str
    asked: int
    different: int


# Waves -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wave:
    """Some blocks by their ids in x, y, z."""

    ids: tuple[Array, Array, Array]

    @classmethod
    def first(cls, grid: Size, blocks: int) -> Wave:
        """The first blocks of a grid: x is fastest, then y (CUDA C++ Programming Guide, thread hierarchy)."""
        x, y, _ = grid
        number = np.arange(min(blocks, prod(grid)))
        return cls((number % x, number // x % y, number // (x * y)))

    @classmethod
    def grouped(cls, grid: Size, blocks: int, group: int) -> Wave:
        """The same of an order in which each column of `group` blocks along y comes before the next one."""
        x, y, _ = grid
        number = np.arange(min(blocks, prod(grid)))
        plane, z = number % (x * y), number // (x * y)
        first = plane // (group * x) * group
        rows = np.minimum(y - first, group)
        place = plane % (group * x)
        return cls((place // rows, first + place % rows, z))


@dataclass
class _WavePoints(Enumeration):
    blocks: dict[LaunchId, Array] = field(default_factory=dict)

    def id(self, value: Value) -> Array | None:
        known = launch_id(value)
        return self.blocks[known] if known in self.blocks else super().id(value)


class WaveReads(WarpTraffic):
    """Answers for the reads in the body of one loop, of blocks of `block` threads in a `grid`."""

    SUMS_OF = "what ids decide and what is the same in the whole grid"

    def __init__(self, block: Size, chip: Chip, grid: Size, loop: Operation) -> None:
        super().__init__(block, chip)
        self.block, self.grid, self.loop = block, grid, loop

    def of_wave(self, reads: Iterable[Access], wave: Wave) -> list[Reads]:
        """What each memory gives to a wave in an iteration. Raises NotKnownError."""
        places: dict[Value, list[tuple[Sum, Array, int]]] = {}
        for access in reads:
            memory, place = self._places(access, wave)
            places.setdefault(memory, []).append(place)
        return [Reads(str(root_of(memory)), *_counted(found)) for memory, found in places.items()]

    def _places(self, access: Access, wave: Wave) -> tuple[Value, tuple[Sum, Array, int]]:
        """The memory, where each execution begins in bytes, which of them are, and the bytes of one."""
        size, _ = self._sizes(access)
        points = self._points(access.op, wave)
        if access.over_lanes:
            raise NotKnownError("the layout of its memory is not known")
        memory, total = self._place(access, points)
        active = self._active(access.op, points)
        if access.active_lanes is not None:
            raise NotKnownError("which lanes run it is not decided by thread ids")
        shape = np.broadcast_shapes(
            (len(wave.ids[0]), *([1] * points.runs.ndim)),
            points.runs.shape,
            points.threads[0].shape,
        )
        return memory, (total, np.broadcast_to(active, shape), size)

    def _points(self, op: Operation, wave: Wave) -> _WavePoints:
        inside = list(takewhile(self.loop.__ne__, (op, *ancestors(op))))
        if not all(is_counted(above) for above in inside if above.name in LOOP_OPS):
            raise NotKnownError("how often a loop in the loop runs is not known")
        below = inside[-1]
        points = _WavePoints.of_loops(op, below, self.block, self.chip.lanes)
        if points is None or points.runs.size * prod(self.block) * len(wave.ids[0]) > LARGEST_WAVE:
            raise NotKnownError(f"a wave reads more than {LARGEST_WAVE} places by it")
        for axis in range(3):
            ids = wave.ids[axis].reshape(-1, *([1] * points.runs.ndim))
            points.blocks[LaunchId("block", axis)] = ids
            points.blocks[LaunchId("grid_size", axis)] = np.asarray(self.grid[axis])
        return points

    def is_fixed(self, value: Value) -> bool:
        made_of = map(launch_id, walked([value], lambda each: sources(each)[0]))
        of_the_grid = all(known is None or known.kind in _OF_THE_GRID for known in made_of)
        return of_the_grid and super().is_fixed(value)

    def _same(self, memory: Value) -> None:
        if not self.is_fixed(memory):
            raise NotKnownError("which memory it is may differ from block to block")


def _counted(found: list[tuple[Sum, Array, int]]) -> tuple[int, int]:
    """The bytes that are asked for, and those that are different."""
    asked = sum(int(active.sum()) * size for _, active, size in found)
    products = list({product for total, _, _ in found for product in total})
    rows = []
    for total, active, size in found:
        columns = [np.broadcast_to(total.get(p, np.asarray(0)), active.shape)[active] for p in products]  # fmt: skip
        rows.append((_once(np.stack(columns, axis=1)), size))
    begin = products.index(ONE)
    numbers = [int(np.gcd.reduce(part[:, begin])) for part, _ in rows if len(part)]
    piece = gcd(*(size for _, size in rows), *numbers)
    pieces = []
    for part, size in rows:
        moved = np.repeat(part, size // piece, axis=0)
        moved[:, begin] += np.tile(np.arange(0, size, piece), len(part))
        pieces.append(moved)
    return asked, len(_once(np.concatenate(pieces))) * piece


def _once(rows: Array) -> Array:
    """Each row once. A row is one number, whose digits are the places of its numbers among those of their column."""
    keys = reduce(
        lambda key, column: np.unique(key * (len(column) + 1) + np.unique(column, return_inverse=True)[1], return_inverse=True)[1],
        rows.T,
        np.zeros(len(rows), np.int64),
    )  # fmt: skip
    return rows[np.unique(keys, return_index=True)[1]]
