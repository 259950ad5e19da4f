"""Upper bounds of the groups in flight: the max-plus side of the algebra.

Every piece of code maps the groups in flight x before it to at most

    min(max(x + grow, floor), cap)

commit: x + 1.  wait N: min(x, N).  These functions are closed under composition; where paths
join, the larger parameters bound both. A loop with a positive `grow` stays below its cap.
A wait that is met with no more than N groups in flight does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from mlir_async_pipe.flow.conditions import Conditions
from mlir_async_pipe.flow.flow_graph import FlowGraph
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.flow.layout import Layout
from mlir_async_pipe.values.uniformity import is_kernel

INFINITE = 1 << 60
ROUNDS = 80
"""Times that a block's bound may rise (a wait can leave 63 in flight) before it is infinite."""


@dataclass(frozen=True)
class Transfer:
    """x -> min(max(x + grow, floor), cap), in groups."""

    grow: int = 0
    floor: int = -INFINITE
    cap: int = INFINITE

    def of(self, value: int) -> int:
        """The bound behind, given the one before."""
        return min(max(_plus(value, self.grow), self.floor), self.cap)

    def then(self, later: Transfer) -> Transfer:
        """First this, then `later`."""
        return Transfer(
            _plus(self.grow, later.grow),
            max(_plus(self.floor, later.grow), later.floor),
            min(max(_plus(self.cap, later.grow), later.floor), later.cap),
        )

    def join(self, other: Transfer) -> Transfer:
        """One or the other."""
        return Transfer(
            max(self.grow, other.grow), max(self.floor, other.floor), max(self.cap, other.cap)
        )

    def star(self) -> Transfer:
        """Any number of times: x, or what one of the turns leaves."""
        return Transfer(0, self.cap if self.grow > 0 else min(self.floor, self.cap), INFINITE)

    def times(self, count: int) -> Transfer:
        """Exactly `count` times, by repeated squaring."""
        result, base = Transfer(), self
        while count:
            if count & 1:
                result = result.then(base)
            base = base.then(base)
            count >>= 1
        return result


# A thread starts here, with nothing in flight.
KERNEL_OP = "gpu.launch"


def starts_thread(op: Any) -> bool:
    """Whether an op is the start of a GPU thread."""
    return op.name == KERNEL_OP or is_kernel(op)


COMMIT = Transfer(grow=1)
ANYTHING = Transfer(grow=INFINITE)


def _plus(left: int, right: int) -> int:
    if left >= INFINITE or right >= INFINITE:
        return INFINITE
    return max(-INFINITE, min(INFINITE, left + right))


class InFlight:
    """The bound in front of each item, where `transfer` says what items do.

    `starts` gives the groups in flight at the start of a root: 0 in a kernel, `INFINITE` in a
    function that others call.
    """

    def __init__(
        self,
        graph: FlowGraph,
        conditions: Conditions,
        items: list[Item],
        transfer: Callable[[Item], Transfer],
        starts: Callable[[Item], int],
    ) -> None:
        layout = Layout(items)
        self.graph = graph
        self.conditions = conditions
        self.transfer = transfer
        self.of = layout.of
        self.before: dict[Item, int] = {}
        self._through: dict[Frame, Transfer] = {}
        frames = {root: layout.frames(root) for root in layout.roots}
        for root in layout.roots:
            for frame in reversed(frames[root]):
                self._through[frame] = self._summarise(frame)
        for root in layout.roots:
            bounds = dict.fromkeys((frame for frame in root.frames if frame.nodes), starts(root))
            for frame in frames[root]:
                if frame in bounds:
                    for node, value in self._block_bounds(frame, bounds[frame]).items():
                        self._record(node, value, bounds)

    def _summarise(self, frame: Frame) -> Transfer:
        if len(frame.nodes) == 1:
            return reduce(Transfer.then, map(self._over, self.of.get(frame.entry, ())), Transfer())
        cap = -INFINITE
        for node, value in self._block_bounds(frame, INFINITE).items():
            if node.exits:
                cap = max(cap, self._end(node, value))
        grows = any(
            self._over(item).of(0) > 0 for node in frame.nodes for item in self.of.get(node, ())
        )
        return Transfer(INFINITE if grows else 0, -INFINITE, cap)

    def _block_bounds(self, frame: Frame, start: int) -> dict[Node, int]:
        """The bound at the start of each block that can be reached."""
        bounds = {frame.entry: start}
        rises: dict[Node, int] = {}
        work = [frame.entry]
        while work:
            node = work.pop()
            end = self._end(node, bounds[node])
            for edge in node.edges:
                if edge.target not in bounds or end > bounds[edge.target]:
                    rises[edge.target] = rises.get(edge.target, 0) + 1
                    bounds[edge.target] = end if rises[edge.target] < ROUNDS else INFINITE
                    work.append(edge.target)
        return bounds

    def _end(self, node: Node, value: int) -> int:
        for item in self.of.get(node, ()):
            value = self._over(item).of(value)
        return value

    def _over(self, item: Item) -> Transfer:
        if item.kind != "nested":
            return self.transfer(item)
        if item.is_boundary:
            # Another thread's groups are not ours, but the region may run in this one too.
            inner = [self._through[frame].star() for frame in item.frames if frame in self._through]
            return reduce(Transfer.join, inner, Transfer())
        if item.row.flow == "for":
            trips = item.trips
            body = self._through[item.frames[0]]
            return body.star() if trips is None else body.times(trips)
        if item.row.flow == "while":
            first, second = (self._through[frame] for frame in item.frames)
            return first.then(second).star().then(first)
        frames = item.frames
        if item.row.flow == "branch":
            frames = self.conditions.frames(item, {})
        return reduce(Transfer.join, (self._through.get(frame, Transfer()) for frame in frames))

    def _record(self, node: Node, value: int, bounds: dict[Frame, int]) -> None:
        for item in self.of.get(node, ()):
            self.before[item] = value
            if item.kind == "nested":
                self._enter(item, value, bounds)
            value = self._over(item).of(value)

    def _enter(self, item: Item, value: int, bounds: dict[Frame, int]) -> None:
        inner = [frame for frame in item.frames if frame.nodes]
        if item.is_boundary:
            bounds.update(dict.fromkeys(inner, INFINITE))
        elif item.row.flow == "for":
            trips = item.trips
            body = self._through[inner[0]]
            if trips != 0:
                bounds[inner[0]] = value if trips == 1 else body.star().of(value)
        elif item.row.flow == "while":
            first, second = (self._through[frame] for frame in inner)
            bounds[inner[0]] = first.then(second).star().of(value)
            bounds[inner[1]] = first.of(bounds[inner[0]])
        else:
            if item.row.flow == "branch":
                inner = [frame for frame in self.conditions.frames(item, {}) if frame.nodes]
            bounds.update(dict.fromkeys(inner, value))
