"""The least sum over all paths of what ops add and take away, at each of some ops.

    sum at p = min over all paths to p of the weights of the ops on the way

Commits weigh +1 and `consumer_wait` -1, so their sum is producer head minus consumer head.
Weights may be negative, so a loop that takes more than it adds has no least sum when its trip
count is unknown: the sum is then `UNBOUNDED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mlir_async_pipe.flow.conditions import Conditions
from mlir_async_pipe.flow.flow_graph import FlowGraph
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.flow.layout import Layout
from mlir_async_pipe.waits.algebra.count_rows import FOREVER

UNBOUNDED = -(1 << 58)

Weight = Callable[[Item], int]


class Balance:
    """The least sums before and through the items of one module, for one weight.

    `at` is the sum behind an item, `starts` that at the start of a block. The paths that
    attain them: `came_from` is the block in front of a block, `entered` what earlier
    iterations add in front of the frame of a loop (0 for other frames of ops), `number` the
    place of an item in its block, `steps` the steps in front of a block, as they are asked for.
    """

    def __init__(
        self, graph: FlowGraph, conditions: Conditions, items: Iterable[Item], weight: Weight
    ) -> None:
        self.graph = graph
        self.conditions = conditions
        self.weight = weight
        layout = Layout(items)
        self.of = layout.of
        self.at: dict[Item, int] = {}
        self.starts: dict[Node, int] = {}
        self.came_from: dict[Node, Node] = {}
        self.entered: dict[Frame, int] = {}
        self.steps: dict[Node, int] = {}
        self.number = {item: n for items in self.of.values() for n, item in enumerate(items)}
        self._through: dict[Frame, int] = {}
        roots = layout.roots
        frames = {root: layout.frames(root) for root in roots}
        for root in roots:
            for frame in reversed(frames[root]):
                self._through[frame] = self._solve(frame, 0, record=False)
        for root in roots:
            starts = dict.fromkeys((frame for frame in root.frames if frame.nodes), 0)
            for frame in frames[root]:
                if frame in starts:
                    self._solve(frame, starts[frame], record=True, starts=starts)

    def _solve(
        self, frame: Frame, start: int, *, record: bool, starts: dict[Frame, int] | None = None
    ) -> int:
        """The least sum at the end of a frame that starts with `start`."""
        sums = self._block_starts(frame, start)
        best = FOREVER
        for node, value in sums.items():
            if record:
                self._record(node, value, starts if starts is not None else {})
            if node.exits:
                best = min(best, self._over(node, value))
        return best

    def _block_starts(self, frame: Frame, start: int) -> dict[Node, int]:
        """Bellman and Ford over the blocks; what still sinks after one round a block is in a
        cycle that takes more than it adds."""
        sums = {frame.entry: start}
        work = [frame.entry]
        visits: dict[Node, int] = {}
        while work:
            node = work.pop(0)
            end = self._over(node, sums[node])
            if end >= FOREVER:
                continue
            for edge in node.edges:
                if end < sums.get(edge.target, FOREVER):
                    self.came_from[edge.target] = node
                    visits[edge.target] = visits.get(edge.target, 0) + 1
                    sinking = visits[edge.target] > len(frame.nodes)
                    sums[edge.target] = UNBOUNDED if sinking else end
                    work.append(edge.target)
        return sums

    def _over(self, node: Node, value: int) -> int:
        for item in self.of.get(node, ()):
            value = _plus(value, self.change(item))
        return value

    def change(self, item: Item) -> int:
        """What an item adds to the sum at least."""
        return self.weight(item) + self._delta(item)

    def _delta(self, item: Item) -> int:
        """What passing an op with regions adds at least."""
        if item.kind != "nested" or item.is_boundary:
            return 0
        if item.row.flow == "for":
            return _turns(self._through[item.frames[0]], item.trips)
        if item.row.flow == "while":
            before, after = (self._through[frame] for frame in item.frames)
            return _plus(before, _turns(_plus(before, after), None))
        frames = item.frames
        if item.row.flow == "branch":
            frames = self.conditions.frames(item, {})
        return min(self._through.get(frame, 0) for frame in frames)

    def _record(self, node: Node, value: int, starts: dict[Frame, int]) -> None:
        self.starts[node] = value
        for item in self.of.get(node, ()):
            if value >= FOREVER:
                return
            if item.kind == "nested":
                self._enter(item, value, starts)
            self.at[item] = value = _plus(value, self.change(item))

    def _enter(self, item: Item, value: int, starts: dict[Frame, int]) -> None:
        inner = [frame for frame in item.frames if frame.nodes]
        if item.is_boundary:
            starts.update(dict.fromkeys(inner, 0))
        elif item.row.flow == "for":
            trips = item.trips
            if trips != 0:
                more = None if trips is None else trips - 1
                self.entered[inner[0]] = min(0, _turns(self._through[inner[0]], more))
        elif item.row.flow == "while":
            before, after = (self._through[frame] for frame in inner)
            self.entered[inner[0]] = _turns(_plus(before, after), None)
            self.entered[inner[1]] = _plus(self.entered[inner[0]], before)
        else:
            frames = inner
            if item.row.flow == "branch":
                frames = [f for f in self.conditions.frames(item, {}) if f.nodes]
            self.entered.update(dict.fromkeys(frames, 0))
        for frame in inner:
            if frame in self.entered:
                starts[frame] = _plus(value, self.entered[frame])


def _plus(left: int, right: int) -> int:
    if left >= FOREVER or right >= FOREVER:
        return FOREVER
    return max(UNBOUNDED, left + right)


def _turns(delta: int, trips: int | None) -> int:
    """The least sum of any number of iterations up to an unknown trip count, or of all."""
    if trips is not None:
        return 0 if trips == 0 else max(UNBOUNDED, min(FOREVER, delta * trips))
    return 0 if delta >= 0 else UNBOUNDED
