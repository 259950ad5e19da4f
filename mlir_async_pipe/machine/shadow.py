"""Shadow memory: what the race detector remembers of each granule.

A granule is the smallest element of the program in bytes (2 for f16), so that the shadow of
a 128 x 32 f16 tile has 4096 entries, not 8192.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine.memory import Memory

Array = np.ndarray

NOBODY = -1
SHADOW_FIELDS: tuple[tuple[str, Any, Any], ...] = (
    ("write_epoch", np.int32, 0),
    ("write_thread", np.int32, NOBODY),
    ("write_site", np.int32, NOBODY),
    ("read_epoch", np.int32, 0),
    ("reader", np.int32, NOBODY),
    ("reader_site", np.int32, NOBODY),
    ("second_reader", np.int32, NOBODY),
    ("second_site", np.int32, NOBODY),
    ("pending_writes", np.int16, 0),
    ("pending_reads", np.int16, 0),
    ("other_block_writer", np.int32, NOBODY),
    ("other_block_reader", np.int32, NOBODY),
)


class Shadow:
    """One array for each fact, with an entry for each granule of memory.

    The last writer and up to two readers of the current barrier interval (*epoch*), how many
    async ops in flight will write and read the granule, and who used it in earlier blocks.
    """

    fields = SHADOW_FIELDS
    write_epoch: Array
    write_thread: Array
    write_site: Array
    read_epoch: Array
    reader: Array
    reader_site: Array
    second_reader: Array
    second_site: Array
    pending_writes: Array
    pending_reads: Array
    other_block_writer: Array
    other_block_reader: Array

    def __init__(self, memory: Memory, granule: int) -> None:
        self.memory = memory
        self.granule = granule
        # The current barrier interval of each memory space; 0 is before the launch.
        self.epochs = np.ones(3, np.int32)
        self._capacity = 0

    def granules(self, addresses: Array, item_bytes: int) -> Array:
        """Granule numbers of elements, shape (threads, granules), from byte addresses."""
        first = addresses.reshape(len(addresses), -1) // self.granule
        each = max(1, item_bytes // self.granule)
        if each == 1:
            return first
        return (first[..., None] + np.arange(each)).reshape(len(first), -1)

    def cover_memory(self) -> None:
        """Grow with the memory."""
        needed = len(self.memory.data) // self.granule
        if needed == self._capacity:
            return
        extra = needed - self._capacity
        for name, dtype, empty in self.fields:
            fresh = np.full(extra, empty, dtype)
            old = getattr(self, name, None)
            setattr(self, name, fresh if old is None else np.concatenate([old, fresh]))
        self._capacity = needed

    def now(self, where: Array) -> Array:
        """The barrier interval of each granule's memory space."""
        return self.epochs[self.memory.space[where * self.granule]]

    def bytes_of(self, where: Array) -> Array:
        """The byte addresses of granules."""
        if self.granule == 1:
            return where
        return where[..., None] * self.granule + np.arange(self.granule)
