"""Arguments that take no memory: those whose size nobody has given, in a run for all trip counts, and large ones that are only read.

    argument 0    bytes from 1 << 48 on       element 5 + 32 t of it is the term arg0[5, 32, 0]
    argument 1    bytes from 2 << 48 on

They hold data alone, and no bytes: a load makes the term of the element, by its number (`counted_terms`), and a store is
kept in a list. What is loaded is what was there at first, so that a program may not both read and write one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlir_async_pipe.machine.counted_terms import counted, forms
from mlir_async_pipe.machine.lane_values import Array, Parts, uniform
from mlir_async_pipe.machine.memory import MemRefShape
from mlir_async_pipe.machine.term_table import PLACES, TermTable, needs_numbers
from mlir_async_pipe.machine.terms import Terms
from mlir_async_pipe.session.diagnostics import MachineError

# Bytes from one array to the next; the machine's own memory is number 0.
APART = 1 << 48


@dataclass(frozen=True)
class Moving:
    """The number first + slope (t + r)."""

    first: int
    slope: int

    def number(self, table: TermTable, dtype: Any) -> Terms:
        """It as an argument."""
        kind = np.dtype(dtype)
        return Terms(
            table, counted(table, kind, np.array([[self.first, self.slope, self.slope]])), kind
        )


@dataclass(frozen=True, eq=False)
class LongArray(Parts):
    """An argument: `number` among those of the run, from 1; its sizes (`shape`) are numbers, or depend on the trip count."""

    name: str
    number: int
    shape: tuple[Any, ...]
    dtype: np.dtype

    @property
    def count(self) -> int | None:
        """Its elements, None where that depends on the trip count."""
        sizes = [size for size in self.shape if not isinstance(size, Terms)]
        return math.prod(sizes) if len(sizes) == len(self.shape) else None

    def view(self, shape: MemRefShape | None) -> Any:
        """It as a memref of this type, or as a pointer. Raises MachineError (unsupported-type)."""
        base = uniform(self.number * APART)
        if shape is None:
            return base
        if shape.element.shape or shape.element.stored != self.dtype or shape.element.name == "i4":
            raise MachineError(
                f"{self.name} holds {self.dtype}, expected {shape.element.name}",
                code="unsupported-type",
            )
        return replace(shape, sizes=(None,) * len(self.shape)).over(
            base, [size if isinstance(size, Terms) else uniform(size) for size in self.shape]
        )


@dataclass(eq=False)
class LongArrays:
    """All of a run. `stored`: (array, (b, s, u) of each byte, its cell) of each store, in order.
    `induction` follows the loop whose trip count is not known."""

    table: TermTable
    induction: Any = None
    arrays: dict[int, LongArray] = field(default_factory=dict)
    stored: list[tuple[int, Array, Array]] = field(default_factory=list)
    written: set[int] = field(default_factory=set)
    _read: set[int] = field(default_factory=set)

    def in_arrays(self, addresses: Any) -> Array | None:
        """Which addresses are in one of the arrays, None where none is, and none moves."""
        if isinstance(addresses, Terms):
            rows, known = forms(self.table, addresses.inner)
            inside = known & (rows[..., 0] >= APART // 2)
            return inside if inside.any() or rows[..., 1:].any() else None
        if not isinstance(addresses, np.ndarray) or addresses.dtype.kind != "i":
            return None
        inside = addresses >= APART // 2
        return inside if inside.any() else None

    def load(self, memory: Any, addresses: Any) -> Array:
        """The cells at byte addresses, of the machine's memory and of arrays."""
        rows, numbers = self._split(addresses)
        found = np.empty(numbers.shape, np.int64)
        found[numbers == 0] = memory.inner[rows[numbers == 0][:, 0]]
        for number in np.unique(numbers[numbers > 0]):
            chosen = numbers == number
            array = self._array(int(number), rows[chosen])
            elements, byte = np.divmod(rows[chosen], array.dtype.itemsize)
            if byte[:, 1:].any():
                raise moves("an address that is not aligned")
            ids = self.table.make_rows(array.name, array.dtype, elements)
            found[chosen] = (ids << PLACES) | byte[:, 0]
            self._read.add(int(number))
        self._check()
        return found

    def store(self, memory: Any, addresses: Any, cells: Array) -> None:
        """Store cells at byte addresses."""
        rows, numbers = self._split(addresses)
        cells = np.broadcast_to(cells, numbers.shape)
        near = numbers == 0
        memory.inner[rows[near][:, 0]] = cells[near]
        for number in np.unique(numbers[~near]):
            chosen = numbers == number
            array = self._array(int(number), rows[chosen])
            if self.induction is None:
                raise MachineError(f"{array.name} is written", code="reads-what-it-writes")
            self.stored.append((int(number), rows[chosen], cells[chosen]))
            self.written.add(int(number))
        self._check()

    def _array(self, number: int, rows: Array) -> LongArray:
        """The array in which these places are. Raises MachineError (out-of-bounds), where its size is known, too."""
        array = self.arrays.get(number)
        end = None if array is None or array.count is None else array.count * array.dtype.itemsize
        if array is None or (end is not None and ((rows[:, 0] < 0) | (rows[:, 0] >= end)).any()):
            raise MachineError("an address is in no argument", code="out-of-bounds")
        return array

    def stored_bytes(self) -> int:
        return sum(len(cells) for *_, cells in self.stored)

    def taken(self) -> Array:
        """Rows (array, b, s, u, cell) of the bytes stored since the last time, the arrays one after the other. Those of one array that move alike
        are in the order of their places, each with what it holds at the end; others, of which two may be one place, as they were stored."""
        rows = [
            np.column_stack((np.full(len(cells), number), places, cells))
            for number, places, cells in self.stored
        ]
        self.stored = []
        found = np.concatenate([np.zeros((0, 5), np.int64), *rows])
        parts = (found[found[:, 0] == number] for number in np.unique(found[:, 0]))
        return np.concatenate([found[:0], *map(_in_order, parts)])

    def _split(self, addresses: Any) -> tuple[Array, Array]:
        """(b, s, u) in the array of each address, and the numbers of the arrays."""
        ids = addresses.inner if isinstance(addresses, Terms) else self.table.constants(addresses)
        rows, known = forms(self.table, ids)
        if not known.all():
            raise needs_numbers("an address")
        numbers = (rows[..., 0] + APART // 2) // APART
        moving = rows[..., 1:].any(axis=-1)
        if (moving & (numbers == 0)).any():
            raise moves("an address in memory of fixed size")
        rows[..., 0] -= numbers * APART
        if moving.any():
            slopes = np.abs(rows[..., 1:]).sum(axis=-1)[moving]
            room = (APART // 2 - np.abs(rows[..., 0])[moving]) // slopes
            self.table.horizon = min(self.table.horizon, int(room.min()))
        return rows, numbers

    def _check(self) -> None:
        both = self._read & self.written
        if both:
            name = self.arrays[min(both)].name
            raise MachineError(
                f"{name}, whose size depends on the trip count, is read and written",
                code="reads-what-it-writes",
            )


def _in_order(rows: Array) -> Array:
    """The bytes that are stored to one array, as `LongArrays.taken` gives them."""
    if (rows[:, 2:4] != rows[0, 2:4]).any():
        return rows
    _, last = np.unique(rows[::-1, 1], return_index=True)
    return rows[::-1][last]


def moves(what: str) -> MachineError:
    """The error for what is another one in each iteration; the op is put in by who runs it."""
    return MachineError(f"{what} depends on the iteration", code="iteration-dependent")
