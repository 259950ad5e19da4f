"""The memory of one launch: global, shared, local and parameter space, and generic addresses.

A generic address is a global one, or lies in the window of shared or of local memory.
"""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import PtxFault
from helpers.ptx_machine.history import History
from helpers.ptx_machine.ordering import Ordering
from helpers.ptx_machine.spaces import Space

GLOBAL_BASE = 1 << 33
SHARED_WINDOW = 1 << 45
LOCAL_WINDOW = 1 << 46
STATIC_LIMIT_BYTES = 48 * 1024


class Memory:
    """Spaces are placed first, then `start` makes those of one block of threads. Where `unwritten` is a
    number, shared memory holds that byte everywhere, and reading it is no fault."""

    def __init__(self, unwritten: int | None = None) -> None:
        self.unwritten = unwritten
        self.global_ = Space("global", GLOBAL_BASE)
        self.symbols: dict[str, int] = {}
        self.local_bytes = 0
        self.shared_placed: list[tuple[str, int, int]] = []
        self.dynamic: list[tuple[str, int]] = []
        self.static_bytes = 0

    def place_global(self, name: str, size: int, align: int, read_only: bool) -> int:
        return self.global_.place(name, size, align, read_only)

    def place_shared(self, name: str, size: int, align: int) -> None:
        self.static_bytes = -(-self.static_bytes // align) * align + size
        if self.static_bytes > STATIC_LIMIT_BYTES:
            raise PtxFault("static-limit", f"{self.static_bytes} bytes of static shared memory")
        self.shared_placed.append((name, size, align))

    def place_dynamic(self, name: str, align: int) -> None:
        self.dynamic.append((name, align))

    def place_local(self, name: str, size: int, align: int) -> None:
        self.local_bytes = -(-self.local_bytes // align) * align
        self.symbols[name] = self.local_bytes
        self.local_bytes += size

    def start(self, threads: int, dynamic_bytes: int, granules: tuple[int, int]) -> None:
        """Fresh shared and local memory for a block; global memory keeps its bytes."""
        self.ordering = Ordering(threads)
        self.shared = Space("shared", 0)
        for name, size, align in self.shared_placed:
            self.symbols[name] = self.shared.place(name, size, align)
        if self.dynamic:
            align = max(align for _, align in self.dynamic)
            at = self.shared.place("dynamic shared memory", dynamic_bytes, align)
            self.symbols.update((name, at) for name, _ in self.dynamic)
        self.shared.reserve()
        # What nobody wrote are NaNs, in each float type, and large integers.
        self.shared.data[:] = 0xFF if self.unwritten is None else self.unwritten
        self.shared_history = History(
            "shared",
            len(self.shared.data),
            granules[0],
            self.ordering,
            written=self.unwritten is not None,
        )
        self.global_history = History(
            "global", len(self.global_.data), granules[1], self.ordering, written=True
        )
        self.local = np.zeros((threads, max(self.local_bytes, 8)), np.uint8)

    def note_global_read(self, at: np.ndarray, size: int, lanes: np.ndarray) -> None:
        """Nobody may write to read-only allocations, so their readers need no record."""
        open_ = ~self.global_.read_only[self.global_.owner[at]]
        if open_.all():
            self.global_history.read(at, size, lanes)
        elif open_.any():
            self.global_history.read(at[open_], size, lanes[open_])

    def load(self, space: str, addresses, lanes, dtype, count: int) -> np.ndarray:
        """`count` values for each lane, a row for each; `addresses` are those of the lanes."""
        size = np.dtype(dtype).itemsize * count
        if space == "":
            space, addresses = self._generic(addresses)
        if space == "local":
            return self._local(addresses, lanes, dtype, count, size)
        if space == "shared":
            at = self.shared.offsets(addresses, size, size)
            self.shared_history.read(at, size, lanes)
            return self.shared.gather(at, dtype, count)
        at = self.global_.offsets(addresses, size, size)
        self.note_global_read(at, size, lanes)
        return self.global_.gather(at, dtype, count)

    def store(self, space: str, addresses, lanes, values: np.ndarray, copies) -> None:
        size = values.dtype.itemsize * values.shape[1]
        if space == "":
            space, addresses = self._generic(addresses)
        if space == "local":
            at = self._local_offsets(addresses, size)
            self.local[lanes[:, None], at[:, None] + np.arange(size)] = (
                np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), size)
            )
        elif space == "shared":
            at = self.shared.offsets(addresses, size, size)
            self.shared_history.write(at, size, lanes)
            self.shared.scatter(at, values)
        else:
            at = self.global_.offsets(addresses, size, size)
            self.global_.check_writable(at)
            copies.check_store(at, size, self.global_.owner)
            self.global_history.write(at, size, lanes)
            self.global_.scatter(at, values)

    def atomic(self, space: str, addresses, lanes, dtype, change) -> np.ndarray:
        """`change(lane position, old) -> new`, lane after lane; returns the old values."""
        size = np.dtype(dtype).itemsize
        if space == "":
            space, addresses = self._generic(addresses)
        if space not in ("shared", "global"):
            raise PtxFault("bad-program", f"an atomic on {space} memory")
        where, history = (
            (self.shared, self.shared_history)
            if space == "shared"
            else (self.global_, self.global_history)
        )
        at = where.offsets(addresses, size, size)
        where.check_writable(at)
        if not history.written[history.cells(at, size)].all():
            raise PtxFault("uninitialised", f"an atomic on {space} memory that nobody wrote")
        history.write(at, size, lanes, atomic=True)
        typed = where.data[: len(where.data) // size * size].view(dtype)
        old = np.empty(len(at), dtype)
        for position, offset in enumerate(at):
            old[position] = typed[offset // size]
            typed[offset // size] = change(position, old[position])
        return old

    def _generic(self, addresses: np.ndarray) -> tuple[str, np.ndarray]:
        """The one space that generic addresses lie in."""
        for space, base in (("local", LOCAL_WINDOW), ("shared", SHARED_WINDOW), ("global", 0)):
            inside = addresses >= np.uint64(base)
            if inside.all():
                return space, addresses - np.uint64(base)
            if inside.any():
                raise PtxFault("unknown-instruction", "generic addresses of several spaces")
        raise AssertionError

    def _local_offsets(self, addresses: np.ndarray, size: int) -> np.ndarray:
        at = addresses.astype(np.int64)
        if (at % size).any():
            raise PtxFault("misaligned", f"{size} bytes of local memory")
        if (at < 0).any() or (at + size > self.local_bytes).any():
            raise PtxFault("out-of-bounds", f"{size} bytes of local memory")
        return at

    def _local(self, addresses, lanes, dtype, count: int, size: int) -> np.ndarray:
        at = self._local_offsets(addresses, size)
        data = self.local[lanes[:, None], at[:, None] + np.arange(size)]
        return np.ascontiguousarray(data).view(dtype).reshape(len(lanes), count)
