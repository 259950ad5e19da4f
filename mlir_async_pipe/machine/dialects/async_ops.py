"""Queues: copies, commits and waits, whatever dialect they are from.

What an op issues, commits or waits for is read off its row in the vocabulary; this file
gives rows their meaning on the completion model of `queues`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.access import ByteSpan
from mlir_async_pipe.machine.decode import Activation, DecodedRegion, Execute, Site, Unit, semantics
from mlir_async_pipe.machine.fifos import AsyncOp, Footprint
from mlir_async_pipe.machine.kinds import BYTE, POISON_BYTE, Kind
from mlir_async_pipe.machine.lane_values import UNKNOWN_GROUP, Array, Token, lanes_of, uniform
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary import Queue, given_count, queue_of
from mlir_async_pipe.vocabulary.async_ops import count_operand
from mlir_async_pipe.vocabulary.control_flow import SCOPE
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS


def byte_span(unit: Unit, first: Array, count: int, active: Array | None) -> ByteSpan:
    """`count` bytes from byte address `first` on, each of them listed, for each active lane."""
    return access.span(unit, first[..., None] + np.arange(count), 1, active)


def pointed_bytes(unit: Unit, pointer: Array, count: int) -> ByteSpan:
    """`count` bytes from any pointer on, for each lane that is on."""
    return byte_span(unit, access.within_memory(unit, pointer, count), count, unit.mask)


def copier(site: Site) -> Callable[..., None]:
    """A function (unit, source, target, bytes) that copies between two pointers of each lane; from
    byte `valid` on it fills with zeros. Ops without a queue are tracked by the compiler, so they
    are over when they return."""
    queue = None if site.row.queue is None else site.queue()

    def copy(
        unit: Unit, source: Array, target: Array, size: int, valid: Array | None = None
    ) -> None:
        origin, place = pointed_bytes(unit, source, size), pointed_bytes(unit, target, size)
        if queue is None:
            copy_now(unit, site, origin, place, valid)
        else:
            issue_copy(unit, site, queue, origin, place, valid)

    return copy


def issue_copy(
    unit: Unit,
    site: Site,
    queue: Queue,
    source: ByteSpan,
    destination: ByteSpan,
    valid: Array | None = None,
) -> None:
    """Copy the bytes of `source` to `destination` between now and the wait that covers it.

    Both spans list bytes, in (lanes, bytes). From byte `valid` on (for each lane) the source
    is not read and zeros are written.
    """
    if unit.deferred is not None or not site.is_async:
        copy_now(unit, site, source, destination, valid)
        return
    access.aligned(unit, site, destination)
    access.aligned(unit, site, source if valid is None else _reading(source, valid))
    rows = np.flatnonzero(_both(unit, source, destination))
    if not len(rows):
        return
    origin, place = (lanes_of(end.addresses, unit.width)[rows] for end in (source, destination))
    used = everywhere = np.ones(place.shape, np.bool_)
    filled = None
    if valid is not None:
        used = np.arange(place.shape[1]) < lanes_of(valid, unit.width)[rows][:, None]
        filled = unit.mask_of(rows[~used.any(axis=1)])
    copy = ElementCopy(unit, BYTE, rows, origin, used, place, everywhere)
    copy.issue(site, queue, filled=filled)


def start(
    unit: Unit,
    site: Site,
    queue: Queue,
    lanes: Array,
    reads: list[Footprint],
    writes: list[Footprint],
    sample: Callable[[Array], None],
    write: Callable[[Array], None],
    **more: Any,
) -> AsyncOp:
    """Put an async op in flight; `more` are further fields of it."""
    given = {"counter": site.row.counter, **more}
    operation = AsyncOp(site.number, queue, lanes, reads, writes, sample, write, **given)
    unit.queues.issue(operation)
    if lanes[0]:
        size = sum(one.granules.shape[1] for one in writes) * unit.launch.detector.granule
        unit.note("issue", site, queue=queue.name, bytes=size, cost=site.cost)
    return operation


def copy_now(
    unit: Unit, site: Site, source: ByteSpan, destination: ByteSpan, valid: Array | None
) -> None:
    """The synchronous form: read, then write."""
    data = access.read(unit, site, source, BYTE)
    if valid is not None:
        data = np.where(np.arange(data.shape[1]) < valid[:, None], data, 0)
    access.write(unit, site, destination, data, BYTE)


def _reading(source: ByteSpan, valid: Array) -> ByteSpan:
    """The lanes that read: the others are sent to the null page."""
    return replace(source, addresses=np.where(valid[:, None] > 0, source.addresses, 0))


def _both(unit: Unit, source: ByteSpan, destination: ByteSpan) -> Array:
    lanes = unit.active()
    for span in (source, destination):
        if span.lanes is not None:
            lanes = lanes & span.lanes
    return lanes


Combine = Callable[[Array, Array], Array]
"""What is stored, of what is there and what comes."""


@dataclass(eq=False)
class ElementCopy:
    """Elements of a kind that a copy moves, a row for each of some lanes: from the addresses `source` where they are
    `read`, else zeros, to `target` where they are `written`, or are combined with what is there."""

    unit: Unit
    kind: Kind
    lanes: Array
    source: Array
    read: Array
    target: Array
    written: Array
    combine: Combine | None = None

    def __post_init__(self) -> None:
        self.memory = self.unit.launch.memory
        self.held = self.memory.zeros(self.target.shape, self.kind.dtype)

    def sample(self, rows: Any) -> None:
        read = self.read[rows]
        if read.any():
            loaded = self.memory.load(np.where(read, self.source[rows], 0), self.kind)
            self.held[rows] = np.where(read, loaded, self.held[rows])

    def write(self, rows: Any) -> None:
        # What is combined comes one after the other, since two rows may have one target.
        for some in [rows] if self.combine is None else [[row] for row in rows]:
            written = self.written[some]
            where, values = self.target[some][written], self.held[some][written]
            if self.combine is not None:
                values = self.kind.settle(self.combine(self.memory.load(where, self.kind), values))
            self.memory.store(where, values, self.kind)

    def poison(self, rows: Any) -> None:
        """What has not arrived is no number; what is combined stays as it is until then."""
        if self.combine is None:
            first = self.target[rows][self.written[rows]]
            self.memory.data[first[:, None] + np.arange(self.kind.item_bytes)] = POISON_BYTE

    def footprints(self) -> tuple[list[Footprint], list[Footprint]]:
        """What it reads, and what it writes; elements that it does not use fall on the first one of its row."""
        return self._touched(self.source, self.read), self._touched(self.target, self.written)

    def _touched(self, addresses: Array, used: Array) -> list[Footprint]:
        detector, size = self.unit.launch.detector, self.kind.item_bytes
        long = self.memory.in_long_arrays(addresses)
        some = used.any(axis=1) if long is None else (used & ~long).any(axis=1)
        if not some.any():
            return []
        # Bytes that are neighbours: one for each granule.
        each = max(1, detector.granule // size)
        addresses, used = np.asarray(addresses[some][:, ::each]), used[some][:, ::each]
        first = addresses[np.arange(len(used)), used.argmax(axis=1)]
        where = np.where(used, addresses, first[:, None])
        lanes = self.lanes[some]
        return [Footprint(lanes, self.unit.grid_threads(lanes), detector.granules(where, size))]

    def issue(self, site: Site, queue: Queue, **more: Any) -> None:
        """Put it in flight until the wait for its queue; `more` are further fields of the op."""
        unit, row_of = self.unit, np.zeros(self.unit.width, np.int64)
        row_of[self.lanes] = np.arange(len(self.lanes))
        mask = unit.mask_of(self.lanes)
        moves = (
            lambda chosen: self.sample(row_of[chosen]),
            lambda chosen: self.write(row_of[chosen]),
        )
        operation = start(unit, site, queue, mask, *self.footprints(), *moves, **more)
        if unit.launch.policy.poisons:
            self.poison(row_of[mask & ~operation.moved])


def copy_of_lane(
    unit: Unit,
    lane: int,
    kind: Kind,
    source: Array,
    target: Array,
    inside: Any = True,
    combine: Combine | None = None,
) -> ElementCopy:
    """The elements that one lane copies; those that are not `inside` are zeros."""
    read, everywhere = np.broadcast_to(inside, target.shape), np.ones((1, target.size), np.bool_)
    rows = (source[None], read[None], target[None], everywhere)
    return ElementCopy(unit, kind, np.array([lane]), *rows, combine)


# Commits and waits ----------------------------------------------------------------------


def own_queue(site: Site) -> Queue | None:
    """The abstract queue of an op, None if it has none."""
    return queue_of(site.op) if site.row.queue == "attribute" else None


def refuse_in_scope(unit: Unit, site: Site) -> None:
    """Groups, waits and barriers cannot run at any moment after a scope is issued.

    Raises MachineError (synchronisation-in-scope)."""
    if unit.deferred is not None:
        raise MachineError(
            f"'{site.name}' inside an async scope", code="synchronisation-in-scope", at=site.place
        )


def commit(unit: Unit, site: Site, queue: Queue, own: Queue | None = None) -> Token:
    """Make a group of all that was issued since the last commit; it is one of the abstract queue
    `own`."""
    refuse_in_scope(unit, site)
    number = unit.queues.commit(queue, unit.active(), unit.marks(queue))
    if own is not None:
        unit.queues.slots_of(own).groups.push(unit.active(), number)
    unit.note("commit", site, queue=queue.name, group=int(number[0]))
    return Token(queue.name, number)


def wait_groups(unit: Unit, site: Site, queue: Queue, left: Array, *, reads: bool = False) -> None:
    """Block until at most `left` groups are in flight, or may still read their source if only `reads`
    are waited for."""
    refuse_in_scope(unit, site)
    unit.tick()
    wait = unit.queues.wait_reads if reads else unit.queues.wait
    wait(queue, unit.active(), left, unit.marks(queue))
    _trace_wait(unit, site, queue, int(left[0]))


def _trace_wait(unit: Unit, site: Site, queue: Queue, left: int) -> None:
    fifo = unit.queues.fifo(queue)
    covers = int(max(fifo.covered[0], fifo.read[0])) + 1
    unit.note("wait", site, queue=queue.name, left=left, covers=covers)


def younger_groups(unit: Unit, queue: Queue, tokens: tuple[Token, ...]) -> Array | None:
    """For each active lane the number of groups younger than the youngest that is named."""
    named = [
        token.number for token in tokens if isinstance(token, Token) and token.queue == queue.name
    ]
    if not named:
        return None
    youngest = lanes_of(np.max(np.broadcast_arrays(*named), axis=0), unit.width)
    count = unit.marks(queue).count
    known = unit.active() & (youngest != UNKNOWN_GROUP)
    return (count - 1 - youngest)[known]


def log_wait(unit: Unit, site: Site, queue: Queue, left: int, tokens: tuple[Token, ...]) -> None:
    """Keep what is needed to judge the count of a token wait."""
    younger = younger_groups(unit, queue, tokens)
    if younger is not None and (younger < 0).any():
        unit.launch.detector.report("wait-before-commit", site.number)
    unit.launch.waits.add(site, queue.name, left, younger)


@semantics(
    "nvgpu.device_async_create_group",
    "nvvm.cp.async.commit.group",
    "nvvm.cp.async.bulk.commit.group",
    "nvvm.wgmma.commit.group.sync.aligned",
    "rocdl.asyncmark",
    "async_pipe.commit_queue",
)
def physical_commit(site: Site) -> Execute:
    """A commit; one with a token gives the group that it makes."""
    queue, own = site.queue(), own_queue(site)
    return lambda unit, *operands: commit(unit, site, queue, own)


@semantics(
    "nvgpu.device_async_wait",
    "nvvm.cp.async.wait.group",
    "nvvm.cp.async.bulk.wait_group",
    "nvvm.wgmma.wait.group.sync.aligned",
    "rocdl.wait.asyncmark",
)
def physical_wait(site: Site) -> Execute:
    """A wait runs with its count, 0 without one; the count is clamped as the target does."""
    queue = site.queue()
    left = _left(site)
    if queue.largest_count is not None:
        left = min(left, queue.largest_count)
    count = uniform(left)
    reads = site.row.wait is not None and site.row.wait.completes(site.op) == "read"

    def execute(unit: Unit, *tokens: Token) -> None:
        log_wait(unit, site, queue, left, tokens)
        wait_groups(unit, site, queue, count, reads=reads)

    return execute


@semantics("rocdl.s.wait.asynccnt", "rocdl.s.wait.tensorcnt")
def counter_wait(site: Site) -> Execute:
    """A counter counts ops, not groups: at most N of them stay in flight."""
    counter = site.queue()
    # Each counts some of the async LDS copies, whose marks are another way to wait for them.
    queue = ASYNC_LDS
    left = _left(site)
    count = uniform(left)

    def execute(unit: Unit) -> None:
        refuse_in_scope(unit, site)
        unit.tick()
        unit.queues.wait_counter(queue, counter, unit.active(), count)
        _trace_wait(unit, site, queue, left)

    return execute


def _left(site: Site) -> int:
    """The constant count of a wait. Raises MachineError (unsupported-op) where it has another."""
    assert site.row.wait is not None
    left = given_count(site.op)
    if left is None and site.row.wait.operand is not None:
        raise site.unsupported("its count is not a constant")
    if left is not None and left < 0:
        raise site.unsupported(f"a count of {left}")
    return left or 0


# Abstract ops ------------------------------------------------------------------------------------
#
# The abstract ops of RFC 0077: scope, commit_queue, wait_queue, and the producer/consumer form.
#
# A scope's region runs at any moment between issue and completion. At issue a *recording* run
# finds what it touches, without changing memory; the real run happens when the adversary lets
# it, sees memory as it is then, and is not checked again.


class Deferred:
    """A run of a scope's region: `recording` keeps footprints, else memory just changes."""

    def __init__(self, recording: bool) -> None:
        self.recording = recording
        self.reads: list[Footprint] = []
        self.writes: list[Footprint] = []

    def access(self, unit: Unit, where: ByteSpan, how: str) -> bool:
        """Note an access; True if it must not change memory."""
        if not self.recording:
            return False
        if where.lanes is None or where.lanes.any():
            touched = access.touched_by(unit, where)
            if how != "write":
                self.reads.append(touched)
            if how != "read":
                self.writes.append(touched)
        return how != "read"


@semantics(SCOPE)
def scope(site: Site) -> Execute:
    queue = site.queue()
    captures = site.captures()
    region = site.region()

    def execute(unit: Unit) -> None:
        if unit.deferred is not None:
            unit.run_region(region)
            return
        values = {key: unit.frame.values[key] for key in captures}
        footprint = Deferred(recording=True)
        _run(unit, region, values, unit.mask, footprint)

        def write(chosen: Array) -> None:
            _run(unit, region, values, chosen, Deferred(recording=False))

        _issue(unit, site, queue, footprint, write)

    return execute


def _run(
    unit: Unit,
    region: DecodedRegion,
    values: dict[int, Any],
    mask: Array | None,
    deferred: Deferred,
) -> None:
    """Run the region in a frame of its own that holds the values captured at issue."""
    outer = (unit.frame, unit.mask, unit.deferred)
    unit.frame, unit.mask, unit.deferred = Activation(dict(values)), mask, deferred
    try:
        unit.run_region(region)
    finally:
        unit.frame, unit.mask, unit.deferred = outer


def _issue(unit: Unit, site: Site, queue: Queue, footprint: Deferred, write: Any) -> None:
    # A scope that works in place reads what it writes, so such a location is not poisoned.
    written = _all_granules(footprint.writes)
    read = _all_granules(footprint.reads)
    reads, writes = (
        [one for one in given if len(one.granules)] for given in (footprint.reads, footprint.writes)
    )
    lanes = unit.active().copy()
    operation = start(unit, site, queue, lanes, reads, writes, lambda chosen: None, write)
    if unit.launch.policy.poisons and not operation.moved.any():
        fresh = np.setdiff1d(written, read)
        granule = unit.launch.detector.granule
        bytes_ = (fresh[:, None] * granule + np.arange(granule)).ravel()
        unit.launch.memory.data[bytes_] = POISON_BYTE


def _all_granules(touched: list[Footprint]) -> Array:
    if not touched:
        return np.zeros(0, np.int64)
    return np.unique(np.concatenate([one.granules.ravel() for one in touched]))


@semantics("async_pipe.wait_queue")
def wait_queue(site: Site) -> Execute:
    """Wait with a count: the attribute, the operand that is one, or 0."""
    queue = site.queue()
    given = site.integer("count")
    number = count_operand(site.op)
    place = None if number is None else list(site.op.operands).index(number)

    def execute(unit: Unit, *operands: Any) -> None:
        tokens = tuple(value for value in operands if isinstance(value, Token))
        left = np.array([given or 0]) if place is None else np.maximum(operands[place], 0)
        log_wait(unit, site, queue, int(left.max()), tokens)
        wait_groups(unit, site, queue, left)

    return execute


@semantics("async_pipe.consumer_wait")
def consumer_wait(site: Site) -> Execute:
    """Wait for the oldest group of its queue that was not taken yet, and for all that are older on
    the FIFO."""
    queue, own = site.queue(), own_queue(site)
    given = site.integer("count")
    assert own is not None

    def execute(unit: Unit) -> None:
        active = unit.active()
        number, there = unit.queues.slots_of(own).oldest(active)
        if not there[active].all():
            unit.launch.detector.report("wait-before-commit", site.number)
        exact = np.where(there, unit.marks(queue).count - 1 - number, 0)
        left = exact if given is None else np.array([given])
        unit.launch.waits.add(site, queue.name, int(left[0]), exact[active])
        wait_groups(unit, site, queue, lanes_of(left, unit.width))

    return execute


@semantics("async_pipe.producer_acquire")
def producer_acquire(site: Site) -> Execute:
    """Take a free slot; taking more than `depth` would wait for ever."""
    queue = own_queue(site) or site.queue()
    depth = site.integer("depth")

    def execute(unit: Unit) -> None:
        slots = unit.queues.slots_of(queue)
        active = unit.active()
        slots.acquired = slots.acquired + active
        if depth is not None and ((slots.acquired - slots.released) > depth)[active].any():
            unit.launch.detector.report("queue-overflow", site.number)

    return execute


@semantics("async_pipe.consumer_release")
def consumer_release(site: Site) -> Execute:
    """Give the oldest slot taken back."""
    queue = own_queue(site) or site.queue()

    def execute(unit: Unit) -> None:
        slots = unit.queues.slots_of(queue)
        slots.released = slots.released + unit.active()

    return execute
