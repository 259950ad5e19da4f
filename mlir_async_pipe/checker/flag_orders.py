"""Which accesses a release and an acquire may order, beside the barriers of a block.

    thread 0: store %x; store release 1, %flag
    thread 1: while (load acquire %flag == 0) {}; load %x         ordered, if it is that store it read
    thread 2: load %x; load acquire %flag                         a race

What is after an acquire begins after what is before the release that it reads from (PTX ISA, "Causality
order"). Two accesses *may* be ordered if a release may follow the one and an acquire precede the other,
on any paths: whether they race is unknown then (`memory-order`), unless `awaited_flags` proves that
they are ordered. If there is neither, nothing orders them. Between threads of a block what
counts stands in one barrier interval; between blocks the releases and acquires of any thread that
the block meets in between do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from mlir_async_pipe.checker.sites import NOT_STRONG, Site
from mlir_async_pipe.checker.step_graph import Flow, Lost, Run
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.vocabulary import order_of, use_of
from mlir_async_pipe.vocabulary.rows import (
    EVERYTHING,
    UNORDERED,
    MemoryOrder,
    Scope,
    covers,
)

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
        self._before: list[list[int]] = [[] for _ in self.flow.blocks]
        for block in self.flow.blocks:
            self.steps.append(
                [
                    step
                    for step in block.steps
                    if isinstance(step, Lost) or (isinstance(step, Run) and not step.makes_values)
                ]
            )
            for number, step in enumerate(self.steps[-1]):
                self.of[step.op, step.frame] = (block.number, number)
            for target in self.flow.after(block.number):
                self._before[target].append(block.number)

    def step(self, point: Point) -> Run | Lost | None:
        """The step that runs at a point; None at the end of a block."""
        steps = self.steps[point[0]]
        return steps[point[1]] if point[1] < len(steps) else None

    def end(self, block: int) -> Point:
        return block, len(self.steps[block])

    def all(self) -> Iterable[Point]:
        """The points at which steps run."""
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
        """The point after a step."""
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


@dataclass
class FlagOrders:
    """The releases and acquires of one kernel. `clusters`: mbarriers may be those of other blocks."""

    points: Points
    sites: list[Site]
    clusters: bool = False
    _orders: dict[Point, MemoryOrder] = field(default_factory=dict)
    _ordered: dict[tuple[Point, frozenset[str], Scope, bool], bool] = field(default_factory=dict)
    _met: dict[frozenset[str], bool] = field(default_factory=dict)

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
        key = (point, frozenset(end.space for end in ends), threads, release)
        if key not in self._ordered:
            self._ordered[key] = self._find(*key)
        return self._ordered[key]

    def _find(self, start: Point, spaces: frozenset[str], threads: Scope, release: bool) -> bool:
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

    def _is_met_by_fences(self, spaces: frozenset[str]) -> bool:
        """Whether threads meet where fences of such memory count: at strong accesses, barriers that leave it to
        fences, and ops with orders of their own."""
        if spaces not in self._met:
            points = self.points
            self._met[spaces] = any(site.strong != NOT_STRONG for site in self.sites) or any(
                (points.fences(p, frozenset()) and not points.fences(p, spaces))
                or (self.order(p).orders and not self._is_fence(p))
                for p in points.all()
            )
        return self._met[spaces]

    def order(self, point: Point) -> MemoryOrder:
        """What the step at a point orders, beside being a barrier of the block. A volatile or relaxed
        read in a loop, which may spin on it, acquires."""
        found = self._orders.get(point)
        if found is None:
            found = self._orders[point] = self._read(point)
        return found

    def _read(self, point: Point) -> MemoryOrder:
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
