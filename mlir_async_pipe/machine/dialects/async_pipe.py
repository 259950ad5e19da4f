"""The abstract ops of RFC 0077: scope, commit_queue, wait_queue, and the producer/consumer form.

A scope's region runs at any moment between issue and completion. At issue a *recording* run
finds what it touches, without changing memory; the real run happens when the adversary lets
it, sees memory as it is then, and is not checked again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.access import ByteSpan
from mlir_async_pipe.machine.decode import DecodedRegion, Site
from mlir_async_pipe.machine.dialects.async_ops import log_wait, own_queue, start, wait_groups
from mlir_async_pipe.machine.engine import Activation, Unit
from mlir_async_pipe.machine.fifos import Footprint
from mlir_async_pipe.machine.kinds import POISON_BYTE
from mlir_async_pipe.machine.lane_values import Token, lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.vocabulary.async_ops import count_operand
from mlir_async_pipe.vocabulary.control_flow import SCOPE

Array = np.ndarray


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
    """Run the region asynchronously on a queue."""
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
