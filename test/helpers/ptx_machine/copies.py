"""cp.async: copies move their bytes at any moment from their issue to the wait that retires them.

Each thread commits groups of its own; `wait_group N` retires all but its N youngest. A copy
that is in no group is never waited for (PTX ISA, cp.async).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helpers.ptx_machine.faults import PtxFault


@dataclass
class Batch:
    """One cp.async of several threads: a row for each thread.

    `kept` bytes are read from `source`, the rest of the `size` bytes are zeros.
    """

    lanes: np.ndarray
    source: np.ndarray
    target: np.ndarray
    size: int
    kept: np.ndarray
    group: np.ndarray
    moved: np.ndarray
    retired: np.ndarray
    allocations: frozenset[int]


class AsyncCopies:
    """`completion` is "eager", "late" or "random"."""

    def __init__(self, threads: int, completion: str, rng: np.random.Generator):
        self.committed = np.zeros(threads, np.int64)
        self.in_flight: list[Batch] = []
        self.completion, self.rng = completion, rng
        # By line: whether a wait ran, and whether it retired a group that one more would leave.
        self.waits: dict[int, bool] = {}

    def issue(self, machine, lanes, source, target, size: int, kept) -> None:
        memory, shared = machine.memory, machine.memory.shared
        at = shared.offsets(target, size, size)
        machine.memory.shared_history.take_off(at, size, lanes)
        from_ = source.astype(np.int64) - memory.global_.base
        read = kept > 0
        owners: frozenset[int] = frozenset()
        if read.any():
            memory.global_.offsets(source[read], 1, size)
            last = source[read] + (kept[read] - 1).astype(source.dtype)
            memory.global_.offsets(last, 1, 1)
            ends = memory.global_.owner[np.stack((from_[read], from_[read] + kept[read] - 1))]
            if (ends[0] != ends[1]).any():
                raise PtxFault("out-of-bounds", "a copy reads across an allocation's end")
            owners = frozenset(np.unique(ends[0]).tolist())
            memory.note_global_read(from_[read], size, lanes[read])
        batch = Batch(
            lanes, from_, at, size, kept, self.committed[lanes],
            np.zeros(len(lanes), bool), np.zeros(len(lanes), bool), owners,
        )  # fmt: skip
        self.in_flight.append(batch)
        if self.completion == "eager":
            self._move(machine, batch, np.ones(len(lanes), bool))

    def commit(self, lanes: np.ndarray | slice) -> None:
        self.committed[lanes] += 1

    def wait(self, machine, active: np.ndarray, allowed: int, line: int = 0) -> None:
        """Retire all but the `allowed` youngest groups of the `active` threads."""
        self.waits.setdefault(line, False)
        for batch in self.in_flight:
            ripe = ~batch.retired & active[batch.lanes]
            ripe &= batch.group < self.committed[batch.lanes] - allowed
            if ripe.any():
                last = batch.group[ripe] == self.committed[batch.lanes[ripe]] - allowed - 1
                self.waits[line] |= bool(last.any())
                self._move(machine, batch, ripe & ~batch.moved)
                batch.retired |= ripe
                machine.memory.shared_history.land(
                    batch.target[ripe], batch.size, batch.lanes[ripe]
                )
        self.in_flight = [batch for batch in self.in_flight if not batch.retired.all()]

    def some_may_complete(self, machine) -> None:
        if self.completion == "random":
            for batch in self.in_flight:
                chosen = self.rng.random(len(batch.lanes)) < 0.3
                self._move(machine, batch, chosen & ~batch.moved)

    def check_store(self, offsets: np.ndarray, size: int, owner: np.ndarray) -> None:
        """A store to global memory must not touch what a copy in flight still reads."""
        stored = None
        for batch in self.in_flight:
            if stored is None:
                stored = frozenset(np.unique(owner[offsets]).tolist())
            if not stored & batch.allocations:
                continue
            open_ = ~batch.retired
            start = batch.source[open_][:, None]
            end = start + batch.kept[open_][:, None]
            if ((offsets < end) & (offsets + size > start)).any():
                raise PtxFault("in-flight", "a store to bytes that a copy in flight still reads")

    def _move(self, machine, batch: Batch, rows: np.ndarray) -> None:
        if not rows.any():
            return
        step = np.arange(batch.size)
        read = np.where(step < batch.kept[rows][:, None], batch.source[rows][:, None] + step, 0)
        # Offset 0 is a guard zone, whose bytes stay 0.
        data = machine.memory.global_.data[read]
        machine.memory.shared.data[batch.target[rows][:, None] + step] = data
        batch.moved |= rows
