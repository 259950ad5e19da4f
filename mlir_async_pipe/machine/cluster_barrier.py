"""Where all threads of a cluster of blocks meet: each arrives, and waits later.

    cluster.arrive   64 of 128 threads: phase 0 lacks 64 arrivals
    …                block 1 arrives, or ends: phase 0 is over
    cluster.wait     passes; what was done before the arrivals has happened before

(PTX ISA, barrier.cluster.) Threads that have ended count as arrived, but tell nothing. Those that arrive
`relaxed` tell of the mbarriers alone that they have set up and fenced (PTX ISA, fence.mbarrier_init).
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.machine.barrier_phases import Mbarrier, Mbarriers

Array = np.ndarray

# The address of no mbarrier, and the number of no named barrier.
_KEY = -(1 << 30)


class ClusterBarrier:
    """An mbarrier without memory, and for each thread of the cluster the phase that it has arrived in
    and not yet waited for, -1 for none."""

    def __init__(self, mbarriers: Mbarriers, threads: int, site: int) -> None:
        self.mbarriers = mbarriers
        mbarriers.init(_KEY, "barrier of the cluster", site, threads)
        self.barrier: Mbarrier = mbarriers.at[_KEY]
        self.phases = np.full(threads, -1)

    def arrive(self, threads: Array, warps: Array, is_relaxed: bool) -> bool:
        """Threads of `warps` arrive; False if some arrived before and have not waited since."""
        if (self.phases[threads] >= 0).any():
            return False
        self.phases[threads] = self.barrier.phase
        for known in self.mbarriers.at.values():
            if known.is_fenced and known.shown is None and known.warp in warps:
                known.shown = self.barrier.phase
        told = warps[:0] if is_relaxed else warps
        return self.mbarriers.arrive(self.barrier, told, len(threads), 0)

    def is_over(self, threads: Array) -> bool:
        """Whether the phase is over that the threads have arrived in."""
        return bool((self.phases[threads] < self.barrier.phase).all())

    def waited(self, threads: Array, warps: Array) -> None:
        """Threads of `warps` go on after their wait."""
        for known in self.mbarriers.at.values():
            if known.shown is not None and known.shown <= self.phases[threads].min():
                known.seen.update(warps.tolist())
        self.phases[threads] = -1
        self.mbarriers.waited(self.barrier, warps)

    def leave(self, threads: Array) -> None:
        """Threads have ended."""
        arrived = int((self.phases[threads] == self.barrier.phase).sum())
        self.mbarriers.leave(self.barrier, arrived, len(threads) - arrived)
