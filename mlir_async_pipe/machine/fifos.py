"""The completion model: FIFOs of commit groups for each thread, and async ops in flight.

Every async op of a queue gets an ordinal in each thread that issues it. A commit pushes a
*mark*: the ordinal of the last op before it. `wait N` finds the (N+1)th youngest mark and
covers all ops up to its ordinal, which gives FIFO order between groups and none inside one
(PTX ISA, cp.async.wait_group; RFC 0077). A mark covers ops that callees issued before it;
with function scope the marks themselves belong to the running function body (LLVM, AMDGPU
asynchronous operations).

*Covered* (a wait promises it) and *moved* (the adversary let the data arrive) are two things:
races are judged by the first, values by the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.vocabulary import Queue

Array = np.ndarray


class Footprint(NamedTuple):
    """What some lanes touch: their numbers, their threads of the grid, and granules of memory, a row for each."""

    lanes: Array
    threads: Array
    granules: Array


@dataclass(eq=False)
class AsyncOp:
    """One async op instance of all lanes that issue it together.

    `lanes` (bool), `ordinal`, `covered` and `moved` have one entry for each lane of the
    unit. `reads` and `writes` are what it touches. `sample` reads the source and `write` fills the destination, for some lanes. Of what completes
    on an mbarrier, and has no queue: `size` in bytes, and since its phase is over `agent` and `tick`, under which
    its writes are known (`warp_clock`). `is_proxy`: it goes past the caches of generic accesses.
    `registers` is what a product fills. `over` is called when an arrival says that the op is over;
    one with `by_core` is of a tensor core, whose reads are known under `agent` and `tick` too.
    `is_remote`: it lands in another block of its cluster. `counter` counts it beside its queue, as number
    `rank` of each lane. `released`: lanes whose source a wait for reads alone has given back. `filled`: lanes (bool) that
    read nothing, and write zeros. `on_mbarrier`: an arrival comes when it is over.
    """

    site: int
    queue: Queue | None
    lanes: Array
    reads: list[Footprint]
    writes: list[Footprint]
    sample: Callable[[Array], None]
    write: Callable[[Array], None]
    serial: int = 0
    size: int = 0
    agent: int | None = None
    tick: int = 0
    is_proxy: bool = False
    registers: Any = None
    over: Callable[[], None] | None = None
    by_core: bool = False
    is_remote: bool = False
    counter: Queue | None = None
    filled: Array | None = None
    on_mbarrier: bool = False
    ordinal: Array = field(init=False)
    covered: Array = field(init=False)
    sampled: Array = field(init=False)
    moved: Array = field(init=False)
    rank: Array = field(init=False)
    released: Array = field(init=False)

    def __post_init__(self) -> None:
        self.ordinal = np.zeros(len(self.lanes), np.int64)
        self.covered, self.sampled, self.moved, self.released = (
            np.zeros(len(self.lanes), np.bool_) for _ in range(4)
        )

    def rows(self, which: str, done: Array) -> Iterator[tuple[Array, Array]]:
        """The footprint rows of the lanes in `done`: threads, and granules."""
        for lanes, threads, where in getattr(self, which):
            chosen = done[lanes] & ~self.released[lanes] if which == "reads" else done[lanes]
            if chosen.all():
                yield threads, where
            elif chosen.any():
                yield threads[chosen], where[chosen]

    @property
    def is_over(self) -> bool:
        """Whether a wait has covered it in all of its lanes."""
        return bool((self.covered | ~self.lanes).all())

    @property
    def has_moved(self) -> bool:
        """Whether the data of all lanes has arrived."""
        return bool((self.moved | ~self.lanes).all())

    def covers(self, which: str, where: Array) -> Array:
        """Which of the granules `where` are still pending in this op."""
        found = np.zeros(where.shape, np.bool_)
        for _, mine in self.rows(which, self.lanes & ~self.covered):
            found |= np.isin(where, mine)
        return found

    def thread_at(self, which: str, granule: int) -> int:
        """A thread whose footprint holds the granule, -1 if none does."""
        for threads, mine in self.rows(which, self.lanes & ~self.covered):
            hit = np.flatnonzero((mine == granule).any(axis=1))
            if len(hit):
                return int(threads[hit[0]])
        return -1

    def move(self, chosen: Array) -> None:
        """Let the data of the lanes `chosen` arrive, if it has not: sample what is not sampled, write."""
        chosen = chosen & ~self.moved
        if not chosen.any():
            return
        self.take(chosen)
        self.write(chosen)
        self.moved |= chosen

    def take(self, chosen: Array) -> None:
        """Sample the source for the lanes `chosen`, if it has not been."""
        late = chosen & ~self.sampled
        if late.any():
            self.sample(late)
            self.sampled |= late


class Marks:
    """The marks of one queue in one thread or function body, for all lanes of a unit."""

    def __init__(self, width: int) -> None:
        self.count = np.zeros(width, np.int64)
        self.ordinals = np.full((8, width), -1, np.int64)

    def push(self, active: Array, ordinal: Array) -> None:
        """Add a mark that covers the ops up to `ordinal`, in the active lanes."""
        if self.count.max() == len(self.ordinals):
            self.ordinals = np.concatenate([self.ordinals, np.full_like(self.ordinals, -1)])
        lanes = np.flatnonzero(active)
        self.ordinals[self.count[lanes], lanes] = ordinal[lanes]
        self.count[lanes] += 1

    def covered_by(self, active: Array, left: Array) -> Array:
        """The youngest ordinal that `wait left` covers in each lane, -1 for none."""
        position = self.count - left - 1
        wanted = active & (position >= 0)
        lanes = np.arange(len(active))
        found = self.ordinals[np.maximum(position, 0), lanes]
        return np.where(wanted, found, -1)


@dataclass
class Fifo:
    """One queue of one unit of threads.

    For each lane: `issued` ops, and the ordinals up to which ops are `covered` by waits, are `read`
    and `committed`.
    """

    queue: Queue
    issued: Array
    covered: Array
    read: Array
    committed: Array
    thread_marks: Marks
    pending: list[AsyncOp] = field(default_factory=list)
    # For each counter of the hardware how many ops of each lane it has counted.
    counted: dict[Queue, Array] = field(default_factory=dict)


@dataclass
class SlotQueue:
    """An abstract queue of one unit of threads, whose groups share a FIFO with those of others.

    `groups` has the numbers that its groups have there; for each lane: how many of them are `taken`,
    and the slots `acquired` and `released`.
    """

    groups: Marks
    taken: Array
    acquired: Array
    released: Array

    def oldest(self, active: Array) -> tuple[Array, Array]:
        """The number of the oldest group not taken, and whether there is one, in each lane; the
        active lanes take it."""
        there = self.taken < self.groups.count
        lanes = np.arange(len(active))
        number = self.groups.ordinals[np.where(there, self.taken, 0), lanes]
        self.taken = self.taken + active
        return number, there


class Queues:
    """All FIFOs of one unit of `width` threads.

    `detector` is notified when ops start and when waits cover them; `policy` decides when data
    moves in between.
    """

    def __init__(self, width: int, detector: Any, policy: Any) -> None:
        self.width = width
        self.detector = detector
        self.policy = policy
        self.fifos: dict[str, Fifo] = {}
        # Of abstract queues that were used.
        self.slots: dict[str, SlotQueue] = {}
        # Copies of the whole block that complete on mbarriers, None if the program has none.
        self.mbarriers: Any = None
        self._serial = 0

    def fifo(self, queue: Queue) -> Fifo:
        """The FIFO of a queue, made on first use."""
        found = self.fifos.get(queue.name)
        if found is None:
            none = np.full(self.width, -1)
            zero = np.zeros(self.width, np.int64)
            found = Fifo(queue, zero, none, none, none, Marks(self.width))
            self.fifos[queue.name] = found
        return found

    def slots_of(self, queue: Queue) -> SlotQueue:
        """What is forwarded through an abstract queue, made on first use."""
        zero = np.zeros(self.width, np.int64)
        return self.slots.setdefault(queue.name, SlotQueue(Marks(self.width), zero, zero, zero))

    def issue(self, operation: AsyncOp) -> None:
        """Start an async op; its ordinal is set here."""
        assert operation.queue is not None
        fifo = self.fifo(operation.queue)
        operation.ordinal = np.where(operation.lanes, fifo.issued, -1)
        fifo.issued = fifo.issued + operation.lanes
        if operation.counter is not None:
            counted = fifo.counted.get(operation.counter, np.zeros(self.width, np.int64))
            operation.rank = counted
            fifo.counted[operation.counter] = counted + operation.lanes
        operation.serial = self._serial
        self._serial += 1
        self.detector.issue(operation)
        fifo.pending.append(operation)
        self.policy.issued(operation)

    def commit(self, queue: Queue, active: Array, marks: Marks) -> Array:
        """Push a group; returns its number in each lane."""
        number = marks.count.copy()
        fifo = self.fifo(queue)
        marks.push(active, fifo.issued - 1)
        fifo.committed = np.where(active, fifo.issued - 1, fifo.committed)
        return number

    def wait(self, queue: Queue, active: Array, left: Array, marks: Marks) -> None:
        """Block until at most `left` groups of `marks` are in flight."""
        fifo = self.fifo(queue)
        fifo.covered = np.maximum(fifo.covered, marks.covered_by(active, left))
        self._finish(fifo, [(op, op.ordinal <= fifo.covered) for op in fifo.pending])

    def wait_reads(self, queue: Queue, active: Array, left: Array, marks: Marks) -> None:
        """Block until at most `left` groups of `marks` may still read their source."""
        fifo = self.fifo(queue)
        fifo.read = np.maximum(fifo.read, marks.covered_by(active, left))
        for operation in fifo.pending:
            done = operation.lanes & ~operation.covered & ~operation.released
            done &= operation.ordinal <= fifo.read
            operation.take(done & ~operation.moved)
            if done.any():
                self.detector.complete_reads(operation, done)
                operation.released |= done

    def wait_counter(self, queue: Queue, counter: Queue, active: Array, left: Array) -> None:
        """Block until at most `left` ops (not groups) that `counter` counts are in flight."""
        fifo = self.fifo(queue)
        counted = fifo.counted.get(counter)
        if counted is not None:
            last = np.where(active, counted - left - 1, -1)
            mine = [op for op in fifo.pending if op.counter == counter]
            self._finish(fifo, [(op, op.rank <= last) for op in mine])

    def _finish(self, fifo: Fifo, covered: list[tuple[AsyncOp, Array]]) -> None:
        """The ops are over in the lanes given with each."""
        finished = []
        for operation, over in covered:
            done = operation.lanes & ~operation.covered & over
            if done.any():
                finished.append((operation, done))
        for operation, done in self.policy.order(finished):
            operation.move(done)
        for operation, done in finished:
            self.detector.complete(operation, done)
            operation.covered |= done
            if operation.is_over:
                self.detector.retire(operation)
        fifo.pending = [op for op in fifo.pending if not op.is_over]

    def is_committed(self, operation: AsyncOp, lane: int) -> bool:
        """Whether some commit covers the op in this lane."""
        assert operation.queue is not None
        return bool(operation.ordinal[lane] <= self.fifo(operation.queue).committed[lane])

    def pending(self) -> list[AsyncOp]:
        """All ops that no wait has covered yet, in order of issue."""
        # Of those that complete on an mbarrier its waits cover some.
        found = [op for fifo in self.fifos.values() for op in fifo.pending if not op.is_over]
        return sorted(found, key=lambda operation: operation.serial)

    def tick(self) -> None:
        pending = [operation for fifo in self.fifos.values() for operation in fifo.pending]
        if self.mbarriers is not None:
            pending += self.mbarriers.unmoved()
        if pending:
            self.policy.tick(pending)
        if self.mbarriers is not None:
            self.mbarriers.settle()
