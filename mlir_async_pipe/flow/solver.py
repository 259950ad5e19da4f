"""One solver over nested regions and graphs of blocks: what all paths to a point are worth.

    op after op               then
    where paths meet          join
    for, T iterations         power(body, T); T unknown: star(body)
    while                     star(first then second) then first
    if, switch, once          the join of the regions that may run
    parallel, unknown         unit, or star(region): in another thread, or any number of times

A `Domain` says what a path is worth. Regions are summarised first, inner before outer; then their
worth comes in from outside, so that each point knows that of all paths from the start of its
function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Generic, Protocol, TypeVar

from mlir_async_pipe.flow.conditions import Conditions
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.flow.layout import Layout

T = TypeVar("T")


class Domain(Protocol[T]):
    """A semiring with a star. `unit` is the worth of an empty path, `never` that of no path at
    all (`join` leaves it out, and what follows it is never either), `outside` what comes to a
    region that other threads may run."""

    @property
    def unit(self) -> T: ...  # noqa: D102
    @property
    def never(self) -> T: ...  # noqa: D102
    @property
    def outside(self) -> T: ...  # noqa: D102

    def over(self, item: Item) -> T:
        """The worth of an op without regions."""

    def then(self, first: T, later: T) -> T:
        """One path after the other."""

    def join(self, first: T, second: T) -> T:
        """Either path."""

    def power(self, body: T, times: int) -> T:
        """Exactly so many times."""

    def star(self, body: T, most: int | None = None) -> T:
        """Any number of times, none included, up to `most`."""

    def widen(self, before: T, now: T, visits: int, blocks: int) -> T:
        """What to go on with where `now` came to a block of a graph of so many blocks, which has
        changed `visits` times: after finitely many visits it may change no more."""


class Solver(Generic[T]):
    """Solves a domain: what the paths to and through some items of a module are worth.

    `of` are the items of each block, with the ops around them; `change` is the worth of passing
    one, `before` that of all paths to it from the start of its function, where `start` is what
    comes to a function, and `starts` that of all paths to a block. A path of that worth:
    `came_from` is the block before a block, `entered` the worth from an op with regions to the
    start of a frame of it.
    """

    def __init__(
        self,
        conditions: Conditions,
        items: Iterable[Item],
        domain: Domain[T],
        start: Callable[[Item], T],
    ) -> None:
        layout = Layout(items)
        self.conditions = conditions
        self.domain = domain
        self.of = layout.of
        self.change: dict[Item, T] = {}
        self.before: dict[Item, T] = {}
        self.starts: dict[Node, T] = {}
        self.came_from: dict[Node, Node] = {}
        self.entered: dict[Frame, T] = {}
        self._blocks: dict[Node, T] = {}
        self._through: dict[Frame, T] = {}
        self._coming: dict[Frame, T] = {}
        frames = {root: layout.frames(root) for root in layout.roots}
        for root in layout.roots:
            for frame in reversed(frames[root]):
                self._read(frame)
                if frame.item is not root:
                    self._through[frame] = self.through(frame)
        for root in layout.roots:
            self._coming.update((frame, start(root)) for frame in root.frames if frame.nodes)
            for frame in frames[root]:
                if frame in self._coming:
                    self._enter_blocks(frame)

    def after(self, item: Item) -> T:
        """The worth of all paths through an item."""
        return self.domain.then(self.before[item], self.change[item])

    # -- from inside to outside ---------------------------------------------------------

    def _read(self, frame: Frame) -> None:
        """The worth of the items and blocks of a frame whose inner frames have theirs."""
        then = self.domain.then
        for node in frame.nodes:
            worth = self.domain.unit
            for item in self.of.get(node, ()):
                change = self.change[item] = self._change(item)
                worth = then(worth, change)
            self._blocks[node] = worth

    def through(self, frame: Frame) -> T:
        """The worth of all paths through a frame."""
        then = self.domain.then
        starts = self._starts(frame, self.domain.unit)
        ends = [then(start, self._blocks[node]) for node, start in starts.items() if node.exits]
        return reduce(self.domain.join, ends, self.domain.never)

    def _change(self, item: Item) -> T:
        domain = self.domain
        if item.kind != "nested":
            return domain.over(item)
        frames = self._frames(item)
        through = [self._through.get(frame, domain.unit) for frame in frames]
        if item.is_boundary:
            return reduce(domain.join, map(domain.star, through), domain.unit)
        if item.row.flow == "for":
            body = through[0]
            return domain.star(body) if item.trips is None else domain.power(body, item.trips)
        if item.row.flow == "while":
            first, second = through
            return domain.then(domain.star(domain.then(first, second)), first)
        return reduce(domain.join, through)

    def _frames(self, item: Item) -> Sequence[Frame]:
        """The frames of an op that may run."""
        return self.conditions.frames(item, {}) if item.row.flow == "branch" else item.frames

    def _starts(self, frame: Frame, start: T) -> dict[Node, T]:
        """What comes to each block of a frame that can be reached, by a work list."""
        domain = self.domain
        starts = {frame.entry: start}
        if len(frame.nodes) == 1:
            return starts
        visits: dict[Node, int] = {}
        work = deque(starts)
        while work:
            node = work.popleft()
            end = domain.then(starts[node], self._blocks[node])
            if end == domain.never:
                continue
            for edge in node.edges:
                target = edge.target
                known = starts.get(target, domain.never)
                found = domain.join(known, end)
                if found != known:
                    visits[target] = visits.get(target, 0) + 1
                    starts[target] = domain.widen(known, found, visits[target], len(frame.nodes))
                    self.came_from[target] = node
                    work.append(target)
        return starts

    # -- from outside to inside ---------------------------------------------------------

    def _enter_blocks(self, frame: Frame) -> None:
        starts = self._starts(frame, self._coming[frame])
        self.starts.update(starts)
        for node, value in starts.items():
            for item in self.of.get(node, ()):
                self.before[item] = value
                if item.kind == "nested":
                    self._enter(item, value)
                value = self.domain.then(value, self.change[item])

    def _enter(self, item: Item, value: T) -> None:
        """Note what comes to the frames of an op that paths of worth `value` lead to."""
        domain, flow = self.domain, item.row.flow
        frames = [frame for frame in self._frames(item) if frame.nodes]
        if item.is_boundary:
            start = domain.join(value, domain.outside)
            for frame in frames:
                self._coming[frame] = domain.then(start, domain.star(self._through[frame]))
            return
        if flow == "for":
            trips = item.trips
            if trips == 0:
                return
            body = self._through[frames[0]]
            self.entered[frames[0]] = domain.star(body, None if trips is None else trips - 1)
        elif flow == "while":
            first, second = (self._through[frame] for frame in frames)
            again = domain.star(domain.then(first, second))
            self.entered |= {frames[0]: again, frames[1]: domain.then(again, first)}
        else:
            self.entered.update(dict.fromkeys(frames, domain.unit))
        for frame in frames:
            self._coming[frame] = domain.then(value, self.entered[frame])
