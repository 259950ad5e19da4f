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

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import takewhile
from math import gcd, prod

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    constant_value,
    defining_op,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.costs.warp_traffic import Enumeration, NotKnownError, WarpTraffic
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.domains import Domain, Typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, is_induction_variable, memoised
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.thread_numbers import is_counted, steps_of_access
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


# Polynomials -------------------------------------------------------------------------------------

Product = frozenset[tuple[object, int]]
"""Symbols with their powers; none of them is 1."""
Polynomial = dict[Product, Array]
ONE: Product = frozenset()


def _added(a: Polynomial, b: Polynomial) -> Polynomial:
    return {key: np.add(a.get(key, 0), b.get(key, 0)) for key in a.keys() | b.keys()}


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for one, x in a.items():
        for other, y in b.items():
            powers = Counter(dict(one))
            powers.update(dict(other))
            found = _added(found, {frozenset(powers.items()): np.asarray(x * y)})
    return found


def _symbol(name: object) -> Polynomial:
    return {frozenset({(name, 1)}): np.asarray(1)}


def _number(number: int | Array) -> Polynomial:
    return {ONE: np.asarray(number)}


class _Polynomials(Domain[Polynomial, None]):
    def constant(self, number: int) -> Polynomial:
        return _number(number)

    def evaluate(self, op: Typed, v: list[Polynomial], known: None) -> Polynomial | None:
        # What may not fit into fewer bits is no sum.
        if op.bits < INDEX_BITS and not op.nsw:
            return None
        return super().evaluate(op, v, known)

    def add(self, op: Typed, v: list[Polynomial], known: None) -> Polynomial:
        return _added(*v)

    def sub(self, op: Typed, v: list[Polynomial], known: None) -> Polynomial:
        return _added(v[0], _times(_number(-1), v[1]))

    def mul(self, op: Typed, v: list[Polynomial], known: None) -> Polynomial:
        return _times(*v)

    def shl(self, op: Typed, v: list[Polynomial], known: None) -> Polynomial | None:
        by = v[1].get(ONE)
        if v[1].keys() != {ONE} or by is None or by.ndim or not 0 <= by < INDEX_BITS - 1:
            return None
        return _times(v[0], _number(1 << int(by)))

    def cast(self, op: Typed, v: list[Polynomial], known: None) -> Polynomial | None:
        return v[0] if op.row.sign == "s" and op.bits >= op.given else None


_POLYNOMIALS = _Polynomials()


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

    def __init__(self, block: Size, chip: Chip, grid: Size, loop: Operation) -> None:
        super().__init__(block, chip)
        self.block, self.grid, self.loop = block, grid, loop

    def of_wave(self, reads: Iterable[Access], wave: Wave) -> list[Reads]:
        """What each memory gives to a wave in an iteration. Raises NotKnownError."""
        places: dict[Value, list[tuple[Polynomial, Array, int]]] = {}
        for access in reads:
            memory, place = self._places(access, wave)
            places.setdefault(memory, []).append(place)
        return [Reads(str(root_of(memory)), *_counted(found)) for memory, found in places.items()]

    def _places(self, access: Access, wave: Wave) -> tuple[Value, tuple[Polynomial, Array, int]]:
        """The memory, where each execution begins in bytes, which of them are, and the bytes of one."""
        size, _ = self._sizes(access)
        points = self._points(access.op, wave)
        steps = steps_of_access(access)
        if not steps.whole or access.over_lanes:
            raise NotKnownError("the layout of its memory is not known")
        if not self.is_fixed(steps.memory):
            raise NotKnownError("which memory it is may differ from block to block")
        total = _number(0)
        for step in steps.steps:
            stride = _symbol(step.key) if step.stride is None else _number(step.stride)
            amount = self._polynomial(step.amount, points)
            total = _added(total, _times(amount, _times(stride, _number(step.size))))
        active = self._active(access.op, points)
        if access.active_lanes is not None:
            raise NotKnownError("which lanes run it is not decided by thread ids")
        shape = np.broadcast_shapes(
            (len(wave.ids[0]), *([1] * points.runs.ndim)),
            points.runs.shape,
            points.threads[0].shape,
        )
        return steps.memory, (total, np.broadcast_to(active, shape), size)

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
        """Whether all threads of the grid have one value."""
        if self._differs(value):
            return False
        made_of = map(launch_id, walked([value], lambda each: sources(each)[0]))
        return all(known is None or known.kind in _OF_THE_GRID for known in made_of)

    def _polynomial(self, value: Value | int, points: _WavePoints) -> Polynomial:
        if isinstance(value, int):
            return _number(value)
        found = self._known_polynomial(value, points, {})
        if found is None:
            raise NotKnownError(
                "a subscript is no sum of what ids decide and what is the same in the whole grid"
            )
        return found

    def _known_polynomial(
        self, value: Value, points: _WavePoints, known: dict[Value, Polynomial | None]
    ) -> Polynomial | None:
        def step(current: Value, get: Callable[[Value], Polynomial | None]) -> Polynomial | None:
            decided = points.evaluate(current)
            if decided is not None:
                return _number(decided)
            op = defining_op(current)
            if op is not None and op.name == "memref.dim" and self.is_fixed(current):
                return _symbol((op.operands[0], constant_value(op.operands[1])))
            made = None if op is None else _POLYNOMIALS.of(current, get, None)
            if made is None and self.is_fixed(current):
                return _symbol(current)
            if made is None and is_induction_variable(current):
                # Blocks that run an iteration together began at their own numbers.
                loop = ir.BlockArgument(current).owner.owner.operation
                lower, by = (memoised(loop.operands[n], known, step) for n in (0, 2))
                return lower and by and _added(lower, _times(by, _symbol(loop)))
            return made

        found: Polynomial | None = memoised(value, known, step)
        return found


def _counted(found: list[tuple[Polynomial, Array, int]]) -> tuple[int, int]:
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
