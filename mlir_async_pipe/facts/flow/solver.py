"""One solver over nested regions and graphs of blocks: what all paths to a point are worth.

    op after op               then
    where paths meet          join
    for, T iterations         power(body, T); T unknown: star(body)
    while                     star(first then second) then first
    if, switch, once          the join of the regions that may run
    parallel, unknown         apart: in another thread, or any number of times

A `Semiring` says what a path is worth. Regions are summarised first, inner before outer; then their
worth comes in from outside, so that each point knows that of all paths from the start of its
function. A domain that knows about values is given what is forwarded to which value: on an edge, and
by numbered slots into an op with regions, from the ends of its regions and out of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import reduce
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from mlir_async_pipe.facts.flow.algorithms import by_loops
from mlir_async_pipe.facts.flow.conditions import Conditions
from mlir_async_pipe.facts.flow.flow_graph import Edge, Frame, Item, Node

T = TypeVar("T")


class Semiring(ABC, Generic[T]):
    """A semiring with a star. `unit` is the worth of an empty path, `never` that of no path at
    all (`join` leaves it out, and what follows it is never either), `outside` what comes to a
    region that other threads may run, `over` gives the worth of an op without regions.
    `has_values`: what is forwarded to a value is part of a path's worth."""

    unit: T
    never: T
    outside: T
    over: Callable[[Any], T]
    has_values: ClassVar[bool] = False

    @abstractmethod
    def then(self, first: T, later: T) -> T:
        """One path after the other."""

    @abstractmethod
    def join(self, first: T, second: T) -> T:
        """Either path."""

    def power(self, body: T, times: int) -> T:
        """Exactly so many times, by repeated squaring."""
        result = self.unit
        while times:
            if times & 1:
                result = self.then(result, body)
            body = self.then(body, body)
            times >>= 1
        return result

    def star(self, body: T, most: int | None = None) -> T:
        """Any number of times, none included, up to `most`."""
        found, before, power = self.unit, None, self.unit
        # What one iteration more adds nothing to, no later one does: `then` distributes.
        while found != before and most != 0:
            power = self.then(power, body)
            before, found = found, self.join(found, power)
            most = None if most is None else most - 1
        return found

    def widen(self, before: T, now: T, visits: int, blocks: int) -> T:
        """What to go on with where `now` came to a block of a graph of so many blocks, which has
        changed `visits` times: after finitely many visits it may change no more."""
        return now

    def forward(self, sources: dict[int, int]) -> T:
        """Each value (or slot, below 0) takes what another one is, all at once."""
        return self.unit

    def take(self, worth: T, sources: dict[int, int]) -> T:
        """A path that leaves a block or a region: nothing reads its other values any more."""
        return self.then(worth, self.forward(sources))

    def along(self, edge: Edge) -> dict[int, int]:
        """What the values take that an edge forwards; if `take` forgets the others, all that are read after it."""
        return {edge.target.arguments[place]: value for place, value in edge.values.items()}

    def is_apart(self, item: Item) -> bool:
        """Whether the regions of an op do not run in place."""
        return item.is_boundary

    def past(self, item: Item, through: list[T]) -> T:
        """The worth of an op with such regions, whose paths are worth `through`."""
        return reduce(self.join, map(self.star, through), self.unit)


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
        items: Iterable[Any],
        domain: Semiring[T],
        start: Callable[[Item], T],
    ) -> None:
        layout = ItemLayout(items)
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
        self._orders: dict[Frame, tuple[list[Node], dict[Node, int]]] = {}
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
        starts = self._starts(frame, self._forward(self.domain.unit, _arguments, frame))
        ends = [
            self._take(then(start, self._blocks[node]), _leaving, node)
            for node, start in starts.items()
            if node.exits
        ]
        return reduce(self.domain.join, ends, self.domain.never)

    def _forward(self, worth: T, sources: Callable[[Any], dict[int, int]], place: Any) -> T:
        """A path that then forwards values at a place."""
        domain = self.domain
        return domain.then(worth, domain.forward(sources(place))) if domain.has_values else worth

    def _take(self, worth: T, sources: Callable[[Any], dict[int, int]], place: Any) -> T:
        return self.domain.take(worth, sources(place)) if self.domain.has_values else worth

    def _change(self, item: Item) -> T:
        domain = self.domain
        if item.kind != "nested":
            return domain.over(item)
        frames = self.conditions.frames(item, {})
        through = [self._through.get(frame, domain.unit) for frame in frames]
        if domain.is_apart(item):
            return domain.past(item, through)
        if item.row.flow == "for":
            body = through[0]
            inside = domain.star(body) if item.trips is None else domain.power(body, item.trips)
        elif item.row.flow == "while":
            first, second = through
            inside = domain.then(domain.star(domain.then(first, second)), first)
        else:
            inside = reduce(domain.join, through)
        start = self._forward(domain.unit, _operands, item)
        return self._take(domain.then(start, inside), _results, item)

    def _starts(self, frame: Frame, start: T) -> dict[Node, T]:
        """What comes to each block of a frame that can be reached, by a work list: each of its
        loops comes to rest before what follows it is looked at."""
        domain = self.domain
        starts = {frame.entry: start}
        if len(frame.nodes) == 1:
            return starts
        visits: dict[Node, int] = {}
        order, place = self._order(frame)
        work, waiting = [0], {0}
        while work:
            number = heappop(work)
            waiting.remove(number)
            node = order[number]
            end = domain.then(starts[node], self._blocks[node])
            if end == domain.never:
                continue
            for edge in node.edges:
                target = edge.target
                known = starts.get(target, domain.never)
                found = domain.join(known, self._take(end, domain.along, edge))
                if found != known:
                    visits[target] = visits.get(target, 0) + 1
                    starts[target] = domain.widen(known, found, visits[target], len(frame.nodes))
                    self.came_from[target] = node
                    if place[target] not in waiting:
                        waiting.add(place[target])
                        heappush(work, place[target])
        return starts

    def _order(self, frame: Frame) -> tuple[list[Node], dict[Node, int]]:
        """The blocks of a frame, loop after loop, and the place of each."""
        if frame not in self._orders:
            order = by_loops([frame.entry], attrgetter("successors"))
            self._orders[frame] = order, {node: number for number, node in enumerate(order)}
        return self._orders[frame]

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
        frames = [frame for frame in self.conditions.frames(item, {}) if frame.nodes]
        if domain.is_apart(item):
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
        start = self._forward(value, _operands, item)
        for frame in frames:
            inside = domain.then(start, self.entered[frame])
            self._coming[frame] = self._forward(inside, _arguments, frame)


class ItemLayout:
    """`of`: by block the items that stand in it, or contain one, in order; `roots`: the functions that hold them."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.of: dict[Node, list[Item]] = {}
        placed: set[Item] = set()
        roots: dict[Item, None] = {}
        for item in items:
            while item not in placed:
                placed.add(item)
                node = item.node
                if node is None or item.is_root:
                    roots[item] = None
                    break
                self.of.setdefault(node, []).append(item)
                item = node.frame.item
        for found in self.of.values():
            found.sort(key=lambda item: item.position)
        self.roots = list(roots)

    def frames(self, root: Item) -> list[Frame]:
        """The frames below a root that hold items, outer ones first."""
        found: list[Frame] = []
        work = [frame for frame in root.frames if frame.nodes]
        while work:
            frame = work.pop()
            found.append(frame)
            for node in frame.nodes:
                for item in self.of.get(node, ()):
                    work.extend(inner for inner in item.frames if inner.nodes)
        return found


# What is forwarded, to which token values and slots (-1 for number 0, -2 for number 1, …) ------------


def _operands(item: Item) -> dict[int, int]:
    """Into an op with regions."""
    return {~number: value for number, value in item.operands.items()}


def _arguments(frame: Frame) -> dict[int, int]:
    """To the start of one of its regions."""
    first = frame.first_carried
    return {value: ~(place - first) for place, value in frame.entry.arguments.items()}


def _leaving(node: Node) -> dict[int, int]:
    """By a block that leaves one."""
    return {~number: value for number, value in node.leaving.items()}


def _results(item: Item) -> dict[int, int]:
    """Out of the op."""
    return {value: ~number for number, value in item.results.items()}
