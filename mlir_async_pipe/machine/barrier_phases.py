"""The mbarriers of a block, or of a cluster of blocks: pending arrivals, bytes to come, phases, and copies
that complete there.

    init 1        phase 0: 1 arrival pending, 0 bytes
    expect_tx 64  0 arrivals pending, 64 bytes to come
    copies land   0 bytes: phase 0 is over; phase 1: 1 arrival pending
    try_wait      parity 0 passes, since the running phase has parity 1

(PTX ISA, mbarrier: phases, tx-count.) A copy is in flight from its issue until a wait passes for
the phase in which it landed; when it lands in between is the adversary's choice. Products of tensor
memory, and cp.async, are as copies, but land without bytes: the arrival after them comes when all have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlir_async_pipe.machine.fifos import AsyncOp
from mlir_async_pipe.machine.warp_clock import WarpClock

Array = np.ndarray


class StuckError(Exception):
    """Nobody can go on; what the threads wait for is reported already."""


@dataclass(eq=False)
class Mbarrier:
    """One mbarrier. `agent` stands for its copies in the detector, `ends` for the ends of its phases, of which a warp may
    know without having seen what they brought; `site` initialised it.

    `count` arrivals make a phase; `phase` phases are over; `pending` arrivals and `bytes` are left
    of the running one. `gathered` is what its arrivals released, `released` what those of all phases that
    are over did. `landed` are copies of the running phase, `over` those of earlier ones that
    nobody has waited for, with their phase. `rank` is its block's number in the cluster; of a
    barrier of threads, `arrived` is the phase in which each warp arrived last. `warp` of the
    cluster set it up; its init `is_fenced` by now; `shown` is the phase of the barrier of the
    cluster in which others were shown that, `seen` the warps that were. Sites and threads have `asked` for
    phases before.
    """

    name: str
    site: int
    agent: int
    ends: int
    count: int
    pending: int
    gathered: Array
    released: Array
    phase: int = 0
    bytes: int = 0
    landed: list[AsyncOp] = field(default_factory=list)
    over: list[tuple[int, AsyncOp]] = field(default_factory=list)
    rank: int = 0
    warp: int = 0
    is_fenced: bool = False
    shown: int | None = None
    seen: set[int] = field(default_factory=set)
    arrived: dict[int, int] = field(default_factory=dict)
    asked: set[tuple[int, int, int]] = field(default_factory=set)

    def lacks(self) -> str:
        """What the running phase still waits for."""
        return f"{self.name}: phase {self.phase} lacks {self.pending} arrivals, {self.bytes} bytes"


@dataclass(eq=False)
class Commit:
    """`arrivals` to come when all `operations` are over, made at `site` by `thread`; they tell `released`."""

    barrier: Mbarrier
    operations: list[AsyncOp]
    released: Array
    site: int
    thread: int
    arrivals: int = 1

    @property
    def is_due(self) -> bool:
        return all(operation.has_moved for operation in self.operations)


class Mbarriers:
    """All mbarriers of the running blocks, by address, and the copies in flight on them.

    `detector` judges, `policy` decides when copies land, `clock` keeps what warps tell each other.
    """

    def __init__(self, detector: Any, policy: Any, clock: WarpClock) -> None:
        self.detector, self.policy, self.clock = detector, policy, clock
        self.at: dict[int, Mbarrier] = {}
        self.in_flight: list[tuple[Mbarrier, AsyncOp]] = []
        # Products of tensor memory that no wait has covered, and the commits that are to arrive.
        self.products: list[AsyncOp] = []
        self.commits: list[Commit] = []

    def init(self, address: int, name: str, site: int, count: int) -> Mbarrier:
        """A new mbarrier whose phases have `count` arrivals."""
        agent, ends = self.clock.new_agent(), self.clock.new_agent()
        none = np.zeros(self.clock.known.shape[1], np.int32)
        self.at[address] = Mbarrier(name, site, agent, ends, count, count, none, none)
        return self.at[address]

    def arrive(self, barrier: Mbarrier, warps: Array, arrivals: int, size: int) -> bool:
        """Arrivals of some warps, and bytes to come; False if not so many were pending. Without
        `warps` nothing is released."""
        if len(warps):
            barrier.gathered = _joined(barrier.gathered, self.clock.release(warps))
        if arrivals > barrier.pending:
            return False
        barrier.pending -= arrivals
        barrier.bytes += size
        self._end_phase(barrier)
        return True

    def leave(self, barrier: Mbarrier, arrived: int, others: int) -> None:
        """Threads end that arrivals were counted of: some have arrived in the running phase."""
        barrier.count -= arrived + others
        barrier.pending -= others
        if others:
            self._end_phase(barrier)

    def issue(self, operation: AsyncOp, barrier: Mbarrier | None = None) -> None:
        """A copy starts that completes on a barrier, or a product of tensor memory, which some commit completes."""
        self.detector.issue(operation)
        if barrier is None:
            self.products.append(operation)
        else:
            self.in_flight.append((barrier, operation))
        self.policy.issued(operation)
        self.settle()

    def commit(self, commit: Commit, warps: Array) -> None:
        """Arrive when all that the commit of some warps covers is over. That tells which phases they all knew to be over, not
        what these brought."""
        ends = self.clock.column(np.array([barrier.ends for barrier in self.at.values()]))
        commit.released[ends] = self.clock.known[warps][:, ends].min(axis=0)
        self.commits.append(commit)
        self.settle()

    def unmoved(self) -> list[AsyncOp]:
        found = [operation for _, operation in self.in_flight]
        return found + [op for op in self.products if not op.moved.all()]

    def settle(self) -> None:
        """Count the bytes of what has arrived, and the commits of products that are over."""
        landed = [pair for pair in self.in_flight if pair[1].moved.all()]
        self.in_flight = [pair for pair in self.in_flight if not pair[1].moved.all()]
        for barrier, operation in landed:
            barrier.landed.append(operation)
            barrier.bytes -= operation.size
            self._end_phase(barrier)
        due = [commit for commit in self.commits if commit.is_due]
        self.commits = [commit for commit in self.commits if not commit.is_due]
        for commit in due:
            self._arrive_for(commit)

    def _arrive_for(self, commit: Commit) -> None:
        barrier = commit.barrier
        barrier.landed += commit.operations
        barrier.gathered = _joined(barrier.gathered, commit.released)
        if barrier.pending < commit.arrivals:
            self.detector.report(
                "too-many-arrivals", commit.site, barrier.site, thread=commit.thread
            )
            return
        barrier.pending -= commit.arrivals
        self._end_phase(barrier)

    def force(self, wanted: list[Mbarrier]) -> bool:
        """Let one copy land, of the barriers that are waited for if there is one; False if none
        is in flight."""
        pairs = self.in_flight + [
            (commit.barrier, operation)
            for commit in self.commits
            for operation in commit.operations
            if not operation.has_moved
        ]
        chosen = [pair for pair in pairs if pair[0] in wanted] or pairs
        if not chosen:
            return False
        ((operation, _),) = self.policy.order([(pair[1], pair[1].lanes) for pair in chosen])[:1]
        operation.move(operation.lanes)
        self.settle()
        return True

    def waited(self, barrier: Mbarrier, warps: Array) -> bool:
        """A wait passes in some warps: they see what the phases that are over brought.

        False if two phases or more are over that some of them do not know of, so that the parity
        may be that of another phase than they mean.
        """
        columns = self.clock.column(np.array([barrier.agent, barrier.ends]))
        is_late = bool((self.clock.known[warps, columns[1]] + 1 < barrier.phase).any())
        for _, operation in barrier.over:
            self._complete(operation)
        barrier.over.clear()
        self.products = [op for op in self.products if not op.is_over]
        released = _joined(barrier.released, np.zeros(self.clock.known.shape[1], np.int32))
        released[columns] = barrier.phase
        self.clock.acquire(warps, released)
        return not is_late

    def finish(self, site: int) -> None:
        """The block at `site` has ended: copies that no wait has covered are reported, and land."""
        waiting = [op for b in self.at.values() for op in (*b.landed, *(op for _, op in b.over))]
        waiting += [operation for _, operation in self.in_flight]
        waiting += [operation for commit in self.commits for operation in commit.operations]
        for operation in [*waiting, *self.products]:
            if operation.is_over:
                continue
            thread = next(
                (int(one.threads[0]) for one in (*operation.writes, *operation.reads)), -1
            )
            code = "unwaited-copy" if operation in waiting else "uncommitted-copy"
            if operation.is_remote:
                self.detector.report("block-ended", site, operation.site)
            else:
                self.detector.report(code, operation.site, thread=thread)
            operation.move(operation.lanes)
            self._complete(operation)
        self.at.clear()
        for each in (self.in_flight, self.products, self.commits):
            each.clear()

    def _complete(self, operation: AsyncOp) -> None:
        """A wait has passed that covers an op, the first time."""
        if operation.is_over:
            return
        self.detector.complete(operation, operation.lanes)
        self.detector.retire(operation)
        operation.covered |= operation.lanes
        if operation.over is not None:
            operation.over()

    def _end_phase(self, barrier: Mbarrier) -> None:
        """Begin the next phase if the running one is over."""
        if barrier.pending or barrier.bytes:
            return
        for operation in barrier.landed:
            if not operation.by_core:
                operation.agent, operation.tick = barrier.agent, barrier.phase
        barrier.over += [(barrier.phase, operation) for operation in barrier.landed]
        barrier.landed.clear()
        barrier.released = _joined(barrier.released, barrier.gathered)
        barrier.phase += 1
        self.detector.memory.changes += 1
        barrier.pending = barrier.count


def _joined(one: Array, other: Array) -> Array:
    """The join of two clocks; mbarriers may have been added in between."""
    size = max(len(one), len(other))
    return np.maximum(np.pad(one, (0, size - len(one))), np.pad(other, (0, size - len(other))))
