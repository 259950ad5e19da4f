"""Memory whose every byte has an owner: allocations apart, alignment and bounds checked.

Between allocations lie guard zones, and an allocation is aligned to what it promises and no
better, so that code which believes in more is caught.
"""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import PtxFault

GUARD_BYTES = 512


class Space:
    """The bytes of a state space, from address `base` on."""

    def __init__(self, name: str, base: int):
        self.name, self.base = name, base
        self.end = GUARD_BYTES
        self.placed: list[tuple[int, int, int, bool]] = []  # owner, offset, size, read-only
        self.names = ["nothing"]

    def place(self, name: str, size: int, align: int, read_only: bool = False) -> int:
        """Reserve `size` bytes at an odd multiple of `align`; returns the address."""
        align = max(align, 1)
        offset = -(-self.end // (2 * align)) * 2 * align + align
        self.placed.append((len(self.names), offset, size, read_only))
        self.names.append(name)
        self.end = offset + size + GUARD_BYTES
        return self.base + offset

    def reserve(self) -> None:
        """Make the bytes; called once all allocations are placed."""
        size = -(-self.end // 64) * 64
        self.data = np.zeros(size, np.uint8)
        self.owner = np.zeros(size, np.int16)
        self.read_only = np.zeros(len(self.names), bool)
        for owner, offset, length, read_only in self.placed:
            self.owner[offset : offset + length] = owner
            self.read_only[owner] = read_only

    def write_bytes(self, address: int, data: np.ndarray) -> None:
        offset = address - self.base
        self.data[offset : offset + len(data)] = data

    def read_bytes(self, address: int, size: int) -> np.ndarray:
        return self.data[address - self.base :][:size].copy()

    def offsets(self, addresses: np.ndarray, size: int, align: int) -> np.ndarray:
        """Offsets of checked accesses of `size` bytes. Raises PtxFault."""
        at = addresses.astype(np.int64) - self.base
        if align > 1 and ((at + self.base) & (align - 1)).any():
            wrong = addresses[((at + self.base) & (align - 1)) != 0][0]
            raise PtxFault("misaligned", f"{size} bytes of {self.name} at {int(wrong):#x}")
        if size == 0:
            return at
        outside = (at < 0) | (at + size > len(self.data))
        if not outside.any():
            first = self.owner[at]
            outside = (first == 0) | (first != self.owner[at + size - 1])
        if outside.any():
            raise PtxFault("out-of-bounds", self._where(int(at[outside][0]), size))
        return at

    def check_writable(self, at: np.ndarray) -> None:
        if self.read_only[self.owner[at]].any():
            raise PtxFault("read-only", f"a store to an input in {self.name} memory")

    def _where(self, offset: int, size: int) -> str:
        """The nearest allocation, for people who have to find the access."""
        near = min(
            self.placed, key=lambda p: max(p[1] - offset, offset - p[1] - p[2] + 1), default=None
        )
        if near is None:
            return f"{size} bytes of {self.name} memory, which has no allocation"
        owner, start, length, _ = near
        return (
            f"{size} bytes of {self.name} memory at byte {offset - start} of "
            f"'{self.names[owner]}', which has {length}"
        )

    def gather(self, at: np.ndarray, dtype: np.dtype, count: int) -> np.ndarray:
        """`count` neighbours at each offset, a row for each."""
        size = np.dtype(dtype).itemsize
        typed = self.data[: len(self.data) // size * size].view(dtype)
        if count == 1:
            return typed[at // size][:, None]
        return typed[(at // size)[:, None] + np.arange(count)]

    def scatter(self, at: np.ndarray, values: np.ndarray) -> None:
        """Rows of neighbours; of several rows at one place the last one stays."""
        size = values.dtype.itemsize
        typed = self.data[: len(self.data) // size * size].view(values.dtype)
        typed[(at // size)[:, None] + np.arange(values.shape[1])] = values
