"""Who wrote and read each granule of memory last: races, poison, and bytes in flight.

A granule is the smallest number of bytes that the kernel accesses at once. An access races with
an earlier one of another thread that no barrier separates from it, one of the two being a
write. A byte of shared memory that nobody wrote, or that a copy in flight will write, is poison.
"""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import PtxFault
from helpers.ptx_machine.ordering import Ordering

SEVERAL = -2
ATOMIC = -3


class History:
    def __init__(self, name: str, size: int, granule: int, ordering: Ordering, written: bool):
        count = size // granule + 2
        self.name, self.granule, self.ordering = name, granule, ordering
        self.writer = np.full(count, -1, np.int32)
        self.written_at = np.zeros(count, np.int32)
        self.reader = np.full(count, -1, np.int32)
        self.read_at = np.zeros(count, np.int32)
        self.flying = np.zeros(count, bool)
        self.written = np.full(count, written)

    def cells(self, at: np.ndarray, size: int) -> np.ndarray:
        """The granules of accesses of `size` bytes, a row for each."""
        count = max(size // self.granule, 1)
        first = (at // self.granule)[:, None]
        return first if count == 1 else first + np.arange(count)

    def read(self, at: np.ndarray, size: int, lanes: np.ndarray, shared_by: int = 0) -> None:
        """`shared_by` lanes get each value (ldmatrix): only a barrier orders such a read."""
        cells, column = self.cells(at, size), lanes[:, None]
        if self.flying[cells].any():
            self._fault(
                "in-flight", "read while a copy to it is in flight", cells, self.flying[cells]
            )
        if not self.written[cells].all():
            self._fault(
                "uninitialised", "read before anybody wrote it", cells, ~self.written[cells]
            )
        writer = self.writer[cells]
        other = (writer != column) if not shared_by else (writer != -1)
        if other.any():
            racing = other & self.ordering.concurrent(lanes, self.written_at[cells], writer)
            if racing.any():
                self._fault("race", "read beside another thread's write", cells, racing)
        self._note_read(cells, column, lanes, shared_by)

    def _note_read(
        self, cells: np.ndarray, column: np.ndarray, lanes: np.ndarray, shared_by: int
    ) -> None:
        now = self.ordering.now(lanes)
        before = self.reader[cells]
        recent = self.ordering.concurrent(lanes, self.read_at[cells], before)
        several = recent & (before != column) & (before != -1)
        self.reader[cells] = column if not shared_by else SEVERAL
        several |= self.reader[cells] != column
        if several.any():
            self.reader[cells[several]] = SEVERAL
        self.read_at[cells] = now

    def write(self, at: np.ndarray, size: int, lanes: np.ndarray, atomic: bool = False) -> None:
        cells, column = self.cells(at, size), lanes[:, None]
        self._check_write(cells, column, lanes, atomic)
        self.writer[cells] = ATOMIC if atomic else column
        if not atomic and (self.writer[cells] != column).any():
            self._fault(
                "race", "written by two threads at once", cells, self.writer[cells] != column
            )
        self.written_at[cells] = self.ordering.now(lanes)
        self.written[cells] = True

    def _check_write(
        self, cells: np.ndarray, column: np.ndarray, lanes: np.ndarray, atomic: bool
    ) -> None:
        if self.flying[cells].any():
            self._fault(
                "in-flight", "written while a copy to it is in flight", cells, self.flying[cells]
            )
        writer = self.writer[cells]
        other = (writer != column) & (writer != -1)
        if atomic:
            other &= writer != ATOMIC
        if other.any():
            racing = other & self.ordering.concurrent(lanes, self.written_at[cells], writer)
            if racing.any():
                self._fault("race", "written beside another thread's write", cells, racing)
        reader = self.reader[cells]
        other = (reader != column) & (reader != -1)
        if other.any():
            racing = other & self.ordering.concurrent(lanes, self.read_at[cells], reader)
            if racing.any():
                self._fault("race", "written beside another thread's read", cells, racing)

    def take_off(self, at: np.ndarray, size: int, lanes: np.ndarray) -> None:
        """A copy to these bytes is issued: they are poison until it is waited for."""
        self.write(at, size, lanes)
        self.flying[self.cells(at, size)] = True

    def land(self, at: np.ndarray, size: int, lanes: np.ndarray) -> None:
        """The copies were waited for by `lanes`, which is when they wrote for all others."""
        cells = self.cells(at, size)
        self.flying[cells] = False
        self.written_at[cells] = self.ordering.now(lanes)

    def _fault(self, kind: str, what: str, cells: np.ndarray, wrong: np.ndarray) -> None:
        place = int(cells[wrong].flat[0]) * self.granule
        raise PtxFault(kind, f"byte {place} of {self.name} memory is {what}")
