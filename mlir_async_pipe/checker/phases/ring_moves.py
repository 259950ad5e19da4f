"""What a later beginning of rings does to memory: slots are others, in a circle, and parities flip.

full[2] of three, moved by 2 tiles        full[1], and its phase 0 is now one of parity 1
bytes 32768 … of three slots of 16384     bytes 16384 …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.byte_places import ByteRange
from mlir_async_pipe.checker.phases.mbarrier_state import CopyInFlight, Issued, Key, Touch
from mlir_async_pipe.checker.phases.tensor_state import Product
from mlir_async_pipe.checker.phases.warp_clocks import ClockPair, Known
from mlir_async_pipe.checker.precision import RefineError
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES

# What a step does to a memory: the method's name, and what it is given.
Call = tuple[str, tuple[Any, ...]]
# Methods that are given an mbarrier first.
_AT_MBARRIERS = (
    *("init", "arrive", "announce", "wait", "issue_copy", "commit_products"),
    "arrive_after_copies",
)


class RingArea(NamedTuple):
    """The slots of a ring: one from each `stride` bytes after `low` on, of which the first `used` are touched."""

    low: int
    stride: int
    used: int


@dataclass
class RingMoves:
    """Rings that repeat after `period` tiles, by the number of their root."""

    period: int
    areas: Mapping[int, list[RingArea]] = field(default_factory=dict)
    _found: dict[tuple[type, Any, int], Any] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        return self.period // 2

    def _end(self, area: RingArea) -> int:
        return area.low + (self.slots - 1) * area.stride + area.used

    def place(self, root: int, low: int, high: int, by: int) -> tuple[int, int]:
        """Where bytes are `by` tiles later, and whether the parity flips. Raises NotFollowedError if in several slots."""
        for area in self.areas.get(root, ()):
            if high <= area.low or low >= self._end(area):
                continue
            slot, inner = divmod(low - area.low, area.stride)
            if inner >= area.used and inner + high - low <= area.stride:
                continue
            if slot < 0 or inner + high - low > area.used:
                raise NotFollowedError("rings")
            wraps, moved = divmod(slot + by, self.slots)
            return low + (moved - slot) * area.stride, wraps % 2
        return low, 0

    def region(self, region: ByteRange, by: int) -> ByteRange:
        """The bytes that are touched instead; all of a root is all of it."""
        if region.low is None or region.high is None:
            return region
        low, _ = self.place(region.root, region.low, region.high, by)
        return region._replace(low=low, high=low + region.high - region.low)

    def key(self, key: Key, by: int) -> tuple[Key, int]:
        """The mbarrier that is used instead, and whether the parities of its phases flip."""
        at, flips = self.place(key[0], key[1], key[1] + MBARRIER_BYTES, by)
        return (key[0], at), flips

    def touched(self, one: Any, by: int) -> Any:
        """A touch or a copy in flight, moved, or each of some; all else is as it was."""
        if not isinstance(one, tuple):
            return one
        key = type(one), one, by
        if key not in self._found:
            made: Any = one
            if isinstance(one, Touch | CopyInFlight):
                made = one._replace(region=self.region(one.region, by))
            elif isinstance(one, Product):
                made = one._replace(reads=self.touched(one.reads, by))
            elif type(one) is tuple:
                made = tuple([self.touched(each, by) for each in one])
            self._found[key] = made
        return self._found[key]

    # Steps --------------------------------------------------------------------------------

    def check(self, calls: Sequence[list[Call]]) -> None:
        """Raises RefineError or NotFollowedError unless a step does the same for each beginning, moved; one of `calls` for each."""
        for by in range(self.period):
            there = calls[by % len(calls)]
            if [self._moved(call, by) for call in calls[0]] != there:
                rings = self._learned(calls)
                if rings == self.areas:
                    raise NotFollowedError("rings")
                raise RefineError(rings=rings)

    def _moved(self, call: Call, by: int) -> Call:
        name, arguments = call
        if name not in _AT_MBARRIERS:
            return name, tuple(self.touched(one, by) for one in arguments)
        key, flips = self.key(arguments[0], by)
        rest = [self.touched(one, by) for one in arguments[1:]]
        if name == "wait":
            rest[-1] ^= flips
        return name, (key, *rest)

    def _learned(self, calls: Sequence[list[Call]]) -> dict[int, list[RingArea]]:
        """The rings, with those that these show."""
        areas = {root: list(areas) for root, areas in self.areas.items()}
        for same in zip(*calls, strict=False):
            for each in zip(*map(_places, same), strict=False):
                if len(set(each)) > 1:
                    self._learn(each, areas.setdefault(each[0][0], []))
        return areas

    def _learn(self, places: Sequence[tuple[int, int, int]], others: list[RingArea]) -> None:
        """The places of one access, for each beginning, are the slots of a ring in order."""
        (root, start, size), lows = places[0], [low for _, low, _ in places]
        first, second = sorted(set(lows))[:2] if len(set(lows)) > 1 else (start, start)
        area = RingArea(first, second - first, size)
        in_order = [
            first + area.stride * (((start - first) // max(area.stride, 1) + n) % self.slots)
            for n in range(self.period)
        ]
        if (
            {(root, size)} != {(r, s) for r, _, s in places}
            or lows != in_order
            or size > area.stride
        ):
            raise NotFollowedError("rings")
        for other in [
            o for o in others if o.stride == area.stride and abs(o.low - area.low) < area.stride
        ]:
            others.remove(other)
            low = min(other.low, area.low)
            used = max(other.low + other.used, area.low + area.used) - low
            area = RingArea(low, area.stride, used)
        apart = all(o.low >= self._end(area) or area.low >= self._end(o) for o in others)
        if area.used > area.stride or not apart:
            raise NotFollowedError("rings")
        others.append(area)

    # Memory -------------------------------------------------------------------------------

    def rotate(self, memory: Any, by: int) -> None:
        """Make a memory of roles that of the beginning `by` tiles later."""
        to = {key: self.key(key, by) for key in memory.mbarriers}
        if any(key not in memory.mbarriers for key, _ in to.values()):
            raise NotFollowedError("rings")
        column = {
            one.column: memory.mbarriers[to[key][0]].column for key, one in memory.mbarriers.items()
        }
        clocks = memory.clocks
        source = list(range(clocks.columns))
        for one, there in column.items():
            source[there] = one
        known, touched = partial(_known, source), partial(self.touched, by=by)

        def moved(one: ClockPair) -> ClockPair:
            before = known(one.before)
            return ClockPair(before, before if one.seen is one.before else known(one.seen))

        clocks.known = [moved(one) for one in clocks.known]
        memory.mbarriers = {
            to[key][0]: one._replace(
                column=column[one.column],
                running=one.running._replace(copies=touched(one.running.copies)),
                gathered=moved(one.gathered),
                released=moved(one.released),
                waits=tuple(w._replace(parity=w.parity ^ to[key][1]) for w in one.waits),
                first=one.first ^ to[key][1],
                init=memory.mbarriers[to[key][0]].init,
            )
            for key, one in memory.mbarriers.items()
        }
        memory.queues = {name: _issued(one, touched) for name, one in memory.queues.items()}
        memory.over = {
            (touched(reads), queue): event for (reads, queue), event in memory.over.items()
        }
        landed = [
            one._replace(copy=touched(one.copy), column=column[one.column])
            for one in memory.brought.values()
        ]
        memory.brought = {(o.copy.region, o.copy.op, o.copy.sources): o for o in landed}
        tensor = memory.tensor
        tensor.reading = {touched(product): at for product, at in tensor.reading.items()}
        tensor.fenced = {number: known(one) for number, one in tensor.fenced.items()}
        memory.generic = {touched(write): one for write, one in memory.generic.items()}


def _places(call: Call) -> list[tuple[int, int, int]]:
    """The root, first byte and size of what is touched, as far as they are known."""
    name, arguments = call
    read = [touch for one in arguments if isinstance(one, Product) for touch in one.reads]
    touches = [one for one in (*arguments, *read) if isinstance(one, Touch | CopyInFlight)]
    found = [one.region for one in touches]
    places = [
        (r.root, r.low, r.high - r.low) for r in found if r.low is not None and r.high is not None
    ]
    if name in _AT_MBARRIERS:
        places.append((*arguments[0], MBARRIER_BYTES))
    return places


def _known(source: list[int], known: Known) -> Known:
    return tuple([known[n] if n < len(known) else 0 for n in source]) if known else known


def _issued(one: Issued, touched: Callable[[Any], Any]) -> Issued:
    return Issued(touched(one.open), touched(one.groups))
