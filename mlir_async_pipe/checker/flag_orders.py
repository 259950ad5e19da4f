"""Which accesses a release and an acquire may order, beside the barriers of a block.

    thread 0: store %x; store release 1, %flag
    thread 1: while (load acquire %flag == 0) {}; load %x         ordered, if it is that store it read
    thread 2: load %x; load acquire %flag                         a race

What is after an acquire begins after what is before the release that it reads from (PTX ISA, "Causality order"). Two
accesses *may* be ordered if a release may follow the one and an acquire precede the other, on any paths: whether they
race is unknown then (`memory-order`), unless `AwaitedFlags` proves that they are ordered. If there is neither, nothing
orders them. Between threads of a block what counts stands in one barrier interval; between blocks the releases and
acquires of any thread that the block meets in between do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.bindings.raw_ops import Value, constant_value
from mlir_async_pipe.checker.sites import NOT_STRONG, Site, Sites
from mlir_async_pipe.checker.step_graph import Branch, Flow, Lost, Run, Stop
from mlir_async_pipe.checker.thread_divergence import Divergence
from mlir_async_pipe.facts.flow.algorithms import natural_loops, reached
from mlir_async_pipe.facts.values.memory_roots import GIVEN
from mlir_async_pipe.facts.values.numbers import Array, evaluate
from mlir_async_pipe.vocabulary import is_partial_barrier, order_of, row_of, use_of
from mlir_async_pipe.vocabulary.launch_ids import launch_id
from mlir_async_pipe.vocabulary.rows import EVERYTHING, UNORDERED, MemoryOrder, Scope, covers

MEMORY_ORDER = "memory-order"

Point = tuple[int, int]
"""Before a step with effects of a block of the flow graph; after the last one: the block's end."""
Edges = Callable[[int], Iterable[int]]


@dataclass
class Points:
    """The steps with effects of one kernel, and the paths between them."""

    flow: Flow
    steps: list[list[Run | Lost]] = field(default_factory=list)
    of: dict[tuple[object, int], Point] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = self.flow.before()
        for block in self.flow.blocks:
            steps = [step for step in block.steps if isinstance(step, Lost | Run)]
            own = [step for step in steps if isinstance(step, Lost) or not step.makes_values]
            self.steps.append(own)
            for number, step in enumerate(own):
                self.of[step.op, step.frame] = (block.number, number)

    def step(self, point: Point) -> Run | Lost | None:
        """The step that runs at a point; None at the end of a block."""
        steps = self.steps[point[0]]
        return steps[point[1]] if point[1] < len(steps) else None

    def end(self, block: int) -> Point:
        return block, len(self.steps[block])

    def all(self) -> Iterable[Point]:
        return [(block, n) for block, steps in enumerate(self.steps) for n in range(len(steps))]

    def onwards(
        self, start: Point, closed: Callable[[Point], bool], edges: Edges | None = None
    ) -> set[Point]:
        """The points that paths from `start` come to, which pass no step that is `closed`."""

        def after(point: Point) -> Iterable[Point]:
            if self.step(point) is None:
                return [(target, 0) for target in (edges or self.flow.after)(point[0])]
            return () if closed(point) else ((point[0], point[1] + 1),)

        return reached([start], after)

    def after(self, point: Point) -> Point:
        return point[0], point[1] + 1

    def backwards(self, start: Point, closed: Callable[[Point], bool]) -> set[Point]:
        """The points from which paths come to `start`, which pass no step that is `closed`."""

        def before(point: Point) -> Iterable[Point]:
            block, number = point
            if not number:
                return [self.end(source) for source in self._before[block]]
            return () if closed((block, number - 1)) else ((block, number - 1),)

        return reached([start], before) - {start}

    def beside(self, point: Point) -> set[Point]:
        """The points of the loops around one that are followed as straight code."""
        step = self.step(point)
        around = set(step.variables) if isinstance(step, Run) else set()
        return {
            other
            for other in (self.all() if around else ())
            if isinstance(step := self.step(other), Run) and around.intersection(step.variables)
        }

    def fences(self, point: Point, spaces: frozenset[str]) -> bool:
        """Whether a barrier of the block, which orders memory of all `spaces`, stands at a point."""
        step = self.step(point)
        if not isinstance(step, Run) or step.row.barrier is None:
            return False
        return spaces <= step.row.barrier(step.op)

    def counts_waves(self, point: Point) -> bool:
        """Whether a barrier stands at a point that waves may meet at another one."""
        step = self.step(point)
        return isinstance(step, Run) and step.row.counts_waves


@dataclass
class FlagOrders:
    """The releases and acquires of one kernel. `clusters`: mbarriers may be those of other blocks."""

    points: Points
    sites: list[Site]
    clusters: bool = False

    def __post_init__(self) -> None:
        self.order = cache(self._order)
        self._find, self._is_met_by_fences = cache(self._found), cache(self._met_by_fences)

    def may_order(self, one: int, other: int, threads: Scope) -> bool:
        """Whether something may order two accesses of threads of one block, or of the device."""
        return any(
            self._is_ordered(a, b, threads, release=True)
            and self._is_ordered(b, a, threads, release=False)
            for a, b in ((one, other), (other, one))
        )

    def _is_ordered(self, site: int, other: int, threads: Scope, *, release: bool) -> bool:
        """Whether a release may follow an access, or an acquire precede it."""
        ends = self.sites[site], self.sites[other]
        point = self.points.of[ends[0].op, ends[0].frame]
        return self._find(point, frozenset(end.space for end in ends), threads, release)

    def _found(self, start: Point, spaces: frozenset[str], threads: Scope, release: bool) -> bool:
        points = self.points

        def closed(point: Point) -> bool:
            return threads == "block" and points.fences(point, spaces)

        if release:
            passed = points.onwards(points.after(start), closed)
        else:
            passed = points.backwards(start, closed)
        passed |= points.beside(start)

        def orders(point: Point, threads: Scope) -> bool:
            return self._has_order(point, threads, spaces, release=release)

        if any(orders(point, threads) for point in passed):
            return True
        # Another thread of the block, which meets this one, may do it.
        meets = threads != "block" and any(
            points.fences(point, frozenset()) or orders(point, "block") for point in passed
        )
        return meets and any(orders(point, threads) for point in points.all())

    def _has_order(
        self, point: Point, threads: Scope, spaces: frozenset[str], *, release: bool
    ) -> bool:
        order = self.order(point)
        if not (order.release if release else order.acquire):
            return False
        if self._is_fence(point) and not self._is_met_by_fences(spaces):
            return False
        if threads == "block":
            return order.scope != "thread"
        step = self.points.step(point)
        own = step is not None and use_of(step.op) is not None and not self.clusters
        return covers(order.scope, "cluster") and not own

    def _is_fence(self, point: Point) -> bool:
        """Whether the step orders what its thread does, and releases to nobody."""
        step = self.points.step(point)
        return isinstance(step, Run) and step.row.fence is not None

    def _met_by_fences(self, spaces: frozenset[str]) -> bool:
        """Whether threads meet where fences of such memory count: at strong accesses, barriers that leave it to
        fences, and ops with orders of their own."""
        points = self.points
        return any(site.strong != NOT_STRONG for site in self.sites) or any(
            (points.fences(p, frozenset()) and not points.fences(p, spaces))
            or (self.order(p).orders and not self._is_fence(p))
            for p in points.all()
        )

    def _order(self, point: Point) -> MemoryOrder:
        """What the step at a point orders, beside being a barrier of the block. A volatile or relaxed
        read in a loop, which may spin on it, acquires."""
        step = self.points.step(point)
        if step is None or self.points.fences(point, frozenset()):
            return UNORDERED
        if isinstance(step, Lost):
            return EVERYTHING
        order = order_of(step.op)
        reads = order.strong and not order.acquire and len(step.results)
        if reads and point in self.points.onwards(self.points.after(point), lambda _: False):
            return replace(order, acquire=True, spins=True)
        return order


# Flags on which threads spin until one release has been made: what is ordered by them.
#
#     block p                                    block c
#     store %x[64 p + t]
#     barrier                                    thread 0: while (load acquire %flag[c - 1] == 0) {}
#     thread 0: store release 1, %flag[p]        barrier
#                                                load %x[64 (c - 1) + t]
#
# One store of the kernel ends the loop: all others store numbers that do not, and nothing else writes the
# flag. What the kernel finds in it does not end it either: that is assumed. Then
#
# 1. the acquire that ended the loop has read what the release of some block q stored;
# 2. the block q is p, if the places that meet, and those of the flag, say the same of p - c and q - c;
# 3. each access of block p before the release is over before it: a barrier that all its threads come to,
#    once, stands between, and no path leads from it back to the access; or one thread does both;
# 4. no access of block c after the loop begins before it: a path to it passes the loop in its own thread,
#    or a barrier that all threads come to, before which thread 0 always passes the loop.


class AwaitedFlag(NamedTuple):
    """The sites of the acquire that spins on a flag, in the blocks `loop`, and of the only store that ends it."""

    acquire: int
    release: int
    loop: frozenset[int]


@dataclass
class AwaitedFlags:
    """The flags that threads of one kernel spin on, for accesses to global memory of other blocks."""

    flow: Flow
    sites: Sites
    orders: FlagOrders
    divergence: Divergence

    @cached_property
    def found(self) -> tuple[AwaitedFlag, ...]:
        """All of them; none in kernels with ops of which nobody knows what they write."""
        if any(map(self._is_opaque, self._points.all())):
            return ()
        return tuple(self._find())

    def is_over_before(self, flag: AwaitedFlag, access: int, *, one_thread: bool) -> bool:
        """Whether an access of the block that releases a flag is always over before it does; one
        thread does both, or any threads do."""
        at, release = self._point(access), self._point(flag.release)
        if not self._is_plain(access):
            return False
        if one_thread:
            return not self._leads(release, at)
        return any(
            not self._leads(barrier, barrier)
            and self._dominates(barrier, release)
            and not self._leads(barrier, at)
            for barrier in self._barriers
        )

    def begins_after(self, flag: AwaitedFlag, access: int) -> bool:
        """Whether an access begins after its block has seen the flag."""
        at, acquire = self._point(access), self._point(flag.acquire)
        if not self._is_plain(access) or at[0] in flag.loop:
            return False
        if self._dominates(acquire, at):
            return True
        return any(
            barrier[0] not in flag.loop
            and self._dominates(barrier, at)
            and self._dominates(acquire, barrier, first_thread=True)
            for barrier in self._barriers
        )

    # Paths --------------------------------------------------------------------------------

    @cached_property
    def _barriers(self) -> list[Point]:
        """The barriers that order global memory and that all threads of a block come to, if one of them does."""
        fences = self._points.fences
        found = [p for p in self._points.all() if fences(p, frozenset({"global"}))]
        waves = [p for p in self._points.all() if self._points.counts_waves(p)]
        if any(block in self.divergence.parted for block, _ in waves):
            # Groups of waves meet each other at other barriers than their own.
            return []
        return [point for point in found if point[0] not in self.divergence.parted]

    def _leads(self, one: Point, other: Point) -> bool:
        points = self._points
        onwards = points.onwards(points.after(one), lambda _: False)
        return other in onwards or other in points.beside(one)

    def _dominates(self, one: Point, other: Point, *, first_thread: bool = False) -> bool:
        """Whether all paths to a point, or those of thread 0 of a block, run the step at another."""
        step = self._points.step(one)
        if not isinstance(step, Run) or step.maybe or step.variables:
            # Loops and conditions that are followed as straight code may leave it out.
            return False
        edges = self._edges_of_thread_0 if first_thread else self.flow.after
        return one != other and other not in self._points.onwards(
            (0, 0), lambda point: point == one, edges
        )

    def _edges_of_thread_0(self, number: int) -> list[int]:
        block = self.flow.blocks[number]
        if not isinstance(block.exit, Branch):
            return self.flow.after(number)
        _, condition = self.flow.values[block.exit.condition]
        taken = evaluate(condition, {}, _of_thread_0) if hasattr(condition, "type") else None
        if taken is None:
            return self.flow.after(number)
        return [(block.exit.then if taken else block.exit.otherwise).target]

    # Flags --------------------------------------------------------------------------------

    def _find(self) -> Iterator[AwaitedFlag]:
        loops = natural_loops(0, self.flow.after)
        for number, site in enumerate(self.sites.sites):
            if site.access is None or site.writes or not covers(site.strong.scope, "device"):
                continue
            at = self._point(number)
            order = self.orders.order(at)
            acquires = order.acquire and not order.spins and "global" in order.spaces
            if not acquires or not self._is_plain(number):
                continue
            inside = [frozenset(body) for body in loops.values() if at[0] in body]
            loop = min(inside, key=len, default=frozenset())
            release = self._release(number, loop) if loop else None
            if release is not None:
                yield AwaitedFlag(number, release, loop)

    def _release(self, acquire: int, loop: frozenset[int]) -> int | None:
        """The site of the only store that ends a loop which spins on a flag."""
        left = self._exit_of(loop)
        if left is None:
            return None
        condition, truth = left
        site = self.sites.sites[acquire]
        writes = {n: self._leaves(n, site, condition, truth) for n in self._writes(acquire)}
        if None in writes.values() or sum(map(bool, writes.values())) != 1:
            return None
        release = next(number for number, leaves in writes.items() if leaves)
        last = self.sites.sites[release]
        order = self.orders.order(self._point(release))
        is_known = self._stored(release) is not None and order.release and "global" in order.spaces
        is_acquired = covers(last.strong.scope, "device") and last.strong.bytes == site.strong.bytes
        return release if is_known and is_acquired else None

    def _exit_of(self, loop: frozenset[int]) -> tuple[Any, bool] | None:
        """The condition of the only exit of a loop, and the truth value with which it is taken."""
        blocks = [self.flow.blocks[number] for number in loop]
        out = [(b.exit, e) for b in blocks for e in self.flow.edges(b) if e.target not in loop]
        if len(out) != 1 or any(isinstance(block.exit, Stop) for block in blocks):
            return None
        ((last, edge),) = out
        if not isinstance(last, Branch):
            return None
        return self.flow.values[last.condition], edge == last.then

    def _writes(self, acquire: int) -> list[int]:
        """The sites that may write a flag."""
        root, alias = self.sites.sites[acquire].root, self.sites.roots.may_alias
        return [
            number
            for number, site in enumerate(self.sites.sites)
            if site.access is not None and site.writes and alias(site.root, root)
        ]

    def _leaves(self, store: int, acquire: Site, condition: Any, truth: bool) -> bool | None:
        """Whether threads that read what is stored leave the loop; None if that is not known, or if
        something else decides it, too."""
        frame, value = condition
        number = self._stored(store)
        if number is None or not hasattr(value, "type") or frame != acquire.frame:
            return None
        read = {acquire.op.results[0]: np.asarray(number, dtype=np.int64)}
        found = evaluate(value, read, lambda _: None)
        return None if found is None else bool(found) == truth

    def _stored(self, store: int) -> int | None:
        """The number that a store writes, whole; None of other writes."""
        site = self.sites.sites[store]
        row = row_of(site.op)
        if site.access is None or site.asynchronous or not row.stores:
            return None
        return constant_value(site.op.operands[0])

    def _is_plain(self, access: int) -> bool:
        """Whether an access is a synchronous one to memory that all blocks have."""
        site = self.sites.sites[access]
        if site.access is None or site.asynchronous or site.space != "global":
            return False
        return self.sites.roots.roots[site.root].kind in (*GIVEN, "global")

    def _is_opaque(self, point: Point) -> bool:
        step = self._points.step(point)
        if isinstance(step, Lost):
            return True
        return (
            step is not None
            and not step.row.known
            and not (self.sites.is_harmless(step.op) or is_partial_barrier(step.op))
        )

    def _point(self, number: int) -> Point:
        site = self.sites.sites[number]
        return self._points.of[site.op, site.frame]

    @property
    def _points(self) -> Points:
        return self.orders.points


def _of_thread_0(value: Value) -> Array | None:
    known = launch_id(value)
    return np.asarray(0, dtype=np.int64) if known is not None and known.kind == "thread" else None
