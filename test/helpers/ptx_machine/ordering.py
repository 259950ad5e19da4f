"""Which earlier accesses of other threads a thread knows to be over.

Barriers of the whole block make one clock do for all: an access of interval k is over in
interval k + 1. From the first barrier of some threads only, each thread has a vector clock
(Mattern), which barriers join.
"""

from __future__ import annotations

import numpy as np


class Ordering:
    def __init__(self, threads: int):
        self.threads = threads
        self.interval = 1
        self.clocks: np.ndarray | None = None

    def now(self, lanes: np.ndarray) -> np.ndarray | int:
        """The time stamp of an access of `lanes`."""
        if self.clocks is None:
            return self.interval
        return self.clocks[lanes, lanes][:, None]

    def concurrent(self, lanes: np.ndarray, stamp: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Whether accesses at `stamp` by threads `other` may still run beside `lanes`.

        `stamp` and `other` have a row for each lane; 0 is no access; a thread below 0 is
        several threads (or an atomic), and then the stamp has to be older than all.
        """
        if self.clocks is None:
            return stamp == self.interval
        known = self.clocks[lanes[:, None], np.maximum(other, 0)]
        floor = self.clocks[lanes].min(axis=1)[:, None]
        return np.where(other < 0, stamp > floor, stamp > known) & (stamp > 0)

    def whole_barrier(self) -> None:
        self.interval += 1
        if self.clocks is not None:
            self.clocks[:] = self.clocks.max(axis=0)
            np.fill_diagonal(self.clocks, self.clocks.max() + 1)

    def partial_barrier(self, arrived: np.ndarray, waiting: np.ndarray) -> None:
        """`arrived` threads are known to `waiting` ones; some arrive without waiting."""
        if self.clocks is None:
            self.clocks = np.full((self.threads, self.threads), self.interval - 1, np.int32)
            np.fill_diagonal(self.clocks, self.interval)
        self.clocks[waiting] = self.clocks[arrived].max(axis=0)
        both = np.union1d(arrived, waiting)
        self.clocks[both, both] += 1
