"""Flags on which threads spin until one release has been made: what is ordered by them.

    block p                                    block c
    store %x[64 p + t]
    barrier                                    thread 0: while (load acquire %flag[c - 1] == 0) {}
    thread 0: store release 1, %flag[p]        barrier
                                               load %x[64 (c - 1) + t]

One store of the kernel ends the loop: all others store numbers that do not, and nothing else writes the
flag. What the kernel finds in it does not end it either: that is assumed. Then

1. the acquire that ended the loop has read what the release of some block q stored;
2. the block q is p, if the places that meet, and those of the flag, say the same of p - c and q - c;
3. each access of block p before the release is over before it: a barrier that all its threads come to,
   once, stands between, and no path leads from it back to the access; or one thread does both;
4. no access of block c after the loop begins before it: a path to it passes the loop in its own thread,
   or a barrier that all threads come to, before which thread 0 always passes the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.bindings.raw_ops import Value, constant_value
from mlir_async_pipe.checker.flag_orders import FlagOrders, Point, Points
from mlir_async_pipe.checker.sites import Site, Sites
from mlir_async_pipe.checker.step_graph import Branch, ControlEdge, Flow, Lost, Run, Stop
from mlir_async_pipe.checker.thread_divergence import Divergence
from mlir_async_pipe.facts.flow.algorithms import natural_loops
from mlir_async_pipe.facts.values.memory_roots import GIVEN
from mlir_async_pipe.facts.values.numbers import Array, evaluate
from mlir_async_pipe.vocabulary import is_partial_barrier, row_of
from mlir_async_pipe.vocabulary.launch_ids import launch_id
from mlir_async_pipe.vocabulary.rows import covers


class AwaitedFlag(NamedTuple):
    """The sites of the acquire that spins on a flag, in the blocks `loop`, and of the only store that
    ends it."""

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
        """The barriers that order global memory and that all threads of a block come to, if one of
        them does."""
        fences = self._points.fences
        found = [p for p in self._points.all() if fences(p, frozenset({"global"}))]
        return [point for point in found if self.divergence.is_met(point[0])]

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
        edges: list[tuple[int, ControlEdge]] = [
            (block.number, edge)
            for block in blocks
            for edge in self.flow.edges(block)
            if edge.target not in loop
        ]
        if len(edges) != 1 or any(isinstance(block.exit, Stop) for block in blocks):
            return None
        number, edge = edges[0]
        last = self.flow.blocks[number].exit
        if not isinstance(last, Branch):
            return None
        return self.flow.values[last.condition], edge == last.then

    def _writes(self, acquire: int) -> list[int]:
        """The sites that may write a flag."""
        root, alias = self.sites.static_root(acquire), self.sites.roots.may_alias
        return [
            number
            for number, site in enumerate(self.sites.sites)
            if site.writes and alias(self.sites.static_root(number), root)
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
        return self.sites.roots.roots[self.sites.static_root(access)].kind in (*GIVEN, "global")

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
