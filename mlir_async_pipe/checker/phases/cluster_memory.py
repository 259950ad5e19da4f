"""The memory of all blocks of a cluster: what one does to that of another must be over when it ends.

    nvvm.cluster.arrive, .wait          an mbarrier without memory, of all threads
    arrive in block 1, from block 0     over for block 1 if one of its threads has waited for that
    block 1 ends                        what others did there is over for one of its threads

Each block begins as a role of its own, with its threads; threads do not leave their block.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases import mbarrier_state
from mlir_async_pipe.checker.phases.block_memory import BlockMemory, check_waited
from mlir_async_pipe.checker.phases.cluster_blocks import block_of
from mlir_async_pipe.checker.phases.mbarrier_state import MEETING, CopyInFlight, Key, unwaited
from mlir_async_pipe.checker.phases.tensor_state import Cells, Product
from mlir_async_pipe.checker.phases.warp_clocks import Event

_MEETING: Key = (MEETING, 0)


@dataclass
class ClusterMemory(BlockMemory):
    """The memory on one path of all blocks. `reached`: what threads did last, by an op, to the memory
    of a block of others; `met`: threads that have arrived where all meet, and not waited since;
    `ended`: those that have ended."""

    reached: dict[tuple[int, int, int], Event] = field(default_factory=dict)
    met: int = 0
    ended: int = 0

    def copy(self) -> ClusterMemory:
        made = super().copy()
        assert isinstance(made, ClusterMemory)
        made.reached = dict(self.reached)
        return made

    def key_of_blocks(self) -> Hashable:
        return self.met, self.ended

    def dones(self) -> Iterator[dict[Any, Event]]:
        yield from super().dones()
        yield self.reached

    # Memory of other blocks -----------------------------------------------------------------

    def arrive(
        self, key: Key, op: int, mask: int, count: int, size: int | None, releases: bool = True
    ) -> None:
        if key[0] >= 0:
            self._reach(key[0], op, mask)
        super().arrive(key, op, mask, count, size, releases)

    def issue_copy(self, key: Key, mask: int, copy: CopyInFlight, each: bool = False) -> None:
        """A thread issues a copy that lands in its block or another one, whose mbarrier says when."""
        self._check_alive(block_of(key[0]), copy.op)
        super().issue_copy(key, mask, copy, each)

    def issue_product(self, product: Product) -> None:
        """Not followed: each block has tensor memory of its own."""
        raise NotFollowedError("async-proxy")

    def use_tensor(self, use: str, cells: Cells, op: int, mask: int) -> None:
        """Not followed, as products."""
        raise NotFollowedError("async-proxy")

    def _reach(self, root: int, op: int, mask: int) -> None:
        rank = block_of(root)
        if rank != self.blocks.rank_of(mask):
            self._check_alive(rank, op)
            self.reached[rank, op, mask] = self.clocks.event(mask)

    def check_own(self, root: int, mask: int | None) -> None:
        """Memory of the threads' own block; what is global is everybody's."""
        if root < 0:
            return
        if block_of(root) < 0:
            raise NotFollowedError("unknown-place")
        if block_of(root) != self.blocks.rank_of(mask):
            raise NotFollowedError("other-block")

    def _check_alive(self, rank: int, op: int) -> None:
        if not self.blocks.members(rank) & ~self.ended:
            raise _ended(op, rank, "")

    # Where all meet -------------------------------------------------------------------------

    def arrive_all(self, op: int, mask: int, *, releases: bool) -> None:
        """Threads arrive where all of the cluster meet; without a release that shows only mbarriers that they fenced."""
        if _MEETING not in self.mbarriers:
            self._new(_MEETING, op, mask, (self.everybody & ~self.ended).bit_count())
            self.mbarriers[_MEETING] = self.mbarriers[_MEETING]._replace(born=())
        barrier = self.mbarriers[_MEETING]
        if self.met & mask:
            note = "these threads have arrived here before, and not waited since"
            raise PhaseFault("too-many-arrivals", op, op, note)
        self.met |= mask
        for key, one in self.mbarriers.items():
            if one.fenced and one.shown is None and not one.by & ~mask:
                self.mbarriers[key] = one._replace(shown=(barrier.column, barrier.over))
        self._note("arrives", op, mask, _MEETING)
        self.mbarriers[_MEETING] = mbarrier_state.arrive(
            barrier, self.clocks, op, mask, 1, 0, releases=releases
        )
        self.advance(_MEETING)

    def wait_all(self, op: int, mask: int) -> None:
        """They wait for all others. Raises BlockedError."""
        if mask & ~self.met:
            note = (
                "these threads wait for all to arrive, and have not done so since they waited last"
            )
            raise PhaseFault("deadlock", op, op, note)
        barrier = self.mbarriers[_MEETING]
        self._wait_for(barrier, barrier.over - (not barrier.arrived_by & mask), op, mask)
        self.met &= ~mask

    def advance(self, key: Key) -> None:
        super().advance(key)
        barrier = self.mbarriers[key]
        if key == _MEETING and not barrier.arrived_by:
            self.mbarriers[key] = barrier._replace(needs=(self.everybody & ~self.ended).bit_count())

    # Ends -----------------------------------------------------------------------------------

    def leave(self, mask: int) -> None:
        """Threads end: nobody waits for them where all meet. The last ones end their block."""
        self.ended |= mask
        barrier = self.mbarriers.get(_MEETING)
        if barrier is not None:
            missing = (mask & ~barrier.arrived_by).bit_count()
            self.mbarriers[_MEETING] = barrier._replace(needs=barrier.needs - missing)
            if barrier.running.arrived:
                self.advance(_MEETING)
        rank = self.blocks.rank_of(mask)
        if not self.blocks.members(rank) & ~self.ended:
            self._check_block_end(rank)

    def _check_block_end(self, rank: int) -> None:
        there = [self.clocks.known[n] for n in self.clocks.classes.of(self.blocks.members(rank))]
        for copy in self.running_copies():
            if block_of(copy.region.root) == rank:
                raise unwaited(copy)
        landed = (one for one in self.brought.values() if block_of(one.copy.region.root) == rank)
        check_waited(landed, there)
        for (block, op, _), event in self.reached.items():
            if block != rank:
                continue
            if not all(any(known.before[other] > tick for known in there) for other, tick in event):
                why = ": nothing that its threads wait for says that this is over"
                raise _ended(op, rank, why)


def _ended(op: int, rank: int, why: str) -> PhaseFault:
    return PhaseFault("block-ended", op, op, f"block {rank} may have ended before{why}")
