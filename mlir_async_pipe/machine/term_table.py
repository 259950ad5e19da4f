"""The table of all terms of a validation: hash-consed, so that equal computations of the inputs have equal numbers.

    c[0, 0] = 0.0 + dot((a[0, 0], a[0, 1]), (b[0, 0], b[1, 0]))

A *term* is a number in one table: its operator and its operands. The bytes of a term are *cells*: byte k of term t
is 8 t + k, a byte that is a number is that less 256; bytes of one term, in order, are that term again.
Operands are never folded here; the same bits read as another type and back are the same term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.session.diagnostics import MachineError

Array = np.ndarray

MEMORY_LIMIT_BYTES = 1 << 30
CONSTANT, JOIN, BITS, BYTE, SELECT, CAST, DOT, ROW, COUNT = (
    "constant", "join", "bits", "byte", "select", "cast", "dot", "row", "count",
)  # fmt: skip
# Variables of an induction, by the terms that they were twice, or by cells; `induction`.
ANY, ANY_BYTE = "any", "any byte"
# Bits of a cell that say which byte of its term it is; a byte that is a number is that less 256.
PLACES = 3
BYTE_VALUES = 256


def needs_numbers(what: str) -> MachineError:
    """The error for data where only numbers will do; the op is put in by who runs it."""
    return MachineError(
        f"{what} depends on data",
        code="data-dependent",
        advice="give the argument that it depends on as an array of numbers",
    )


@dataclass(frozen=True)
class Operator:
    """What a term applies, to how many others, and the type of what it gives."""

    name: str
    dtype: np.dtype
    arity: int


def is_leaf(name: str) -> bool:
    """Whether operands of terms with this operator are numbers: constants, elements of inputs, and the like."""
    return name in (CONSTANT, COUNT, ANY, ANY_BYTE) or name.startswith("arg")


class TermTable:
    """All terms of a validation, of both programs. A term is `code` (its operator) and its operands: terms, or for leaves
    numbers. `origin` is the number that `now` had when it was first made.

    Raises MachineError (too-many-terms) where it grows beyond `limit` bytes.
    """

    def __init__(self, limit: int = MEMORY_LIMIT_BYTES) -> None:
        self.limit = limit
        self.operators: list[Operator] = []
        self._codes: dict[Operator, int] = {}
        self.count = 0
        self.now = 0
        # Arrays that have no end, in a run for all trip counts; how many periods of a loop have no wrap.
        self.long_arrays: Any = None
        self.horizon = 1 << 62
        self.code = np.zeros(1024, np.int32)
        self.origin = np.zeros(1024, np.int32)
        self.start = np.zeros(1024, np.int64)
        self._hash = np.zeros(1024, np.uint64)
        self.operands = np.zeros(4096, np.int64)
        self._used = 0
        self._slots = np.full(4096, -1, np.int32)
        # By code: the operator's item size, whether it is a constant, and each of the names below.
        self.item_bytes = np.zeros(0, np.int64)
        self.constant = np.zeros(0, np.bool_)
        self.dtypes = np.zeros(0, np.int64)
        self._dtype_numbers: dict[np.dtype, int] = {}

    def operator_code(self, name: str, dtype: np.dtype, arity: int) -> int:
        """The number of an operator."""
        operator = Operator(name, dtype, arity)
        found = self._codes.get(operator)
        if found is None:
            found = self._codes[operator] = len(self.operators)
            self.operators.append(operator)
            self.item_bytes = np.append(self.item_bytes, dtype.itemsize)
            self.constant = np.append(self.constant, name == CONSTANT)
            number = self._dtype_numbers.setdefault(dtype, len(self._dtype_numbers))
            self.dtypes = np.append(self.dtypes, number)
        return found

    def named(self, name: str) -> Array:
        """For each code whether its operator has this name."""
        return np.array([operator.name == name for operator in self.operators], np.bool_)

    def is_constant(self, ids: Array) -> Array:
        return self.constant[self.code[ids]]

    def has_dtype(self, ids: Array, dtype: np.dtype) -> Array:
        """Which terms are of this type."""
        return self.dtypes[self.code[ids]] == self._dtype_numbers.get(dtype, -1)

    def operand(self, ids: Array, number: int) -> Array:
        """An operand of each of these terms, which have it."""
        return self.operands[self.start[ids] + number]

    def rows(self, ids: Array, arity: int) -> Array:
        """The first operands of each of these terms, in a last axis."""
        return self.operands[self.start[ids][:, None] + np.arange(arity)]

    def of(self, term: int) -> tuple[Operator, tuple[int, ...]]:
        """The operator of one term, and its operands."""
        operator, first = self.operators[self.code[term]], int(self.start[term])
        return operator, tuple(map(int, self.operands[first : first + operator.arity]))

    def make(self, name: str, dtype: Any, *operands: Array) -> Array:
        """The terms of an operator on operands of one shape, which broadcast."""
        columns = np.broadcast_arrays(*operands)
        shape = columns[0].shape
        rows = np.empty((columns[0].size, len(columns)), np.int64)
        for number, column in enumerate(columns):
            rows[:, number] = column.reshape(-1)
        return self.make_rows(name, np.dtype(dtype), rows).reshape(shape)

    def make_rows(self, name: str, dtype: np.dtype, rows: Array) -> Array:
        """The same of rows of operands."""
        count, arity = rows.shape
        code = self.operator_code(name, dtype, arity)
        self._reserve(count, count * arity)
        hashed = _hash(code, rows)
        found = np.empty(count, np.int64)
        left = np.arange(count)
        mask = len(self._slots) - 1
        place = (hashed & np.uint64(mask)).astype(np.int64)
        while len(left):
            at = place[left]
            held = self._slots[at].astype(np.int64)
            empty = held < 0
            if empty.any():
                # Of equal rows, and of rows that fall on one place, one wins: the others look again.
                mine, spots = left[empty], at[empty]
                self._slots[spots] = -2 - np.arange(len(mine), dtype=np.int32)
                won = self._slots[spots] == -2 - np.arange(len(mine))
                mine, spots = mine[won], spots[won]
                made = self._append(code, rows[mine], hashed[mine])
                self._slots[spots] = made
                found[mine] = made
                held = self._slots[at].astype(np.int64)
            same = (self._hash[held] == hashed[left]) & (self.code[held] == code)
            if same.any():
                chosen = np.flatnonzero(same)
                there = self.rows(held[chosen], arity)
                same[chosen] = (there == rows[left[chosen]]).all(axis=1)
            found[left[same]] = held[same]
            left = left[~same]
            place[left] = (place[left] + 1) & mask
        return found

    def _append(self, code: int, rows: Array, hashed: Array) -> Array:
        count, arity = rows.shape
        first, used = self.count, self._used
        end = first + count
        self.code[first:end] = code
        self.origin[first:end] = self.now
        self.start[first:end] = used + arity * np.arange(count)
        self._hash[first:end] = hashed
        self.operands[used : used + rows.size] = rows.reshape(-1)
        self.count, self._used = end, used + rows.size
        return np.arange(first, end)

    @property
    def bytes(self) -> int:
        """The memory that the table takes."""
        arrays = (self.code, self.origin, self.start, self._hash, self.operands, self._slots)
        return sum(array.nbytes for array in arrays)

    def _reserve(self, terms: int, operands: int) -> None:
        for name in ("code", "origin", "start", "_hash"):
            setattr(self, name, self._grown(getattr(self, name), self.count + terms))
        self.operands = self._grown(self.operands, self._used + operands)
        wanted = len(self._slots)
        while wanted < 2 * (self.count + terms):
            wanted *= 2
        if wanted > len(self._slots):
            self._check(4 * wanted)
            self._slots = np.full(wanted, -1, np.int32)
            left = np.arange(self.count)
            place = (self._hash[: self.count] & np.uint64(wanted - 1)).astype(np.int64)
            while len(left):
                free = self._slots[place[left]] < 0
                self._slots[place[left[free]]] = left[free]
                left = left[self._slots[place[left]] != left]
                place[left] = (place[left] + 1) & (wanted - 1)

    def _grown(self, array: Array, needed: int) -> Array:
        if needed <= len(array):
            return array
        capacity = max(needed, len(array) + len(array) // 2)
        self._check((capacity - len(array)) * array.itemsize)
        return np.concatenate([array, np.zeros(capacity - len(array), array.dtype)])

    def _check(self, more: int) -> None:
        if self.bytes + more > self.limit:
            raise MachineError(
                f"{self.count} terms, and more are needed than {self.limit} bytes hold",
                code="too-many-terms",
                advice="validate smaller shapes, or a smaller grid",
            )

    # Constants, bits and bytes ------------------------------------------------------------

    def constants(self, array: Array) -> Array:
        """The terms of numbers."""
        return self.make(CONSTANT, array.dtype, bits_of(array))

    def numbers(self, ids: Array, dtype: np.dtype) -> Array:
        """The numbers of terms that are all constants."""
        raw = np.asarray(self.operand(ids, 0), np.int64)
        return raw.astype(_carrier(dtype)).view(dtype)

    def bitcast(self, ids: Array, dtype: np.dtype) -> Array:
        """The same bits as another type of the same size."""
        if self.has_dtype(ids, dtype).all():
            return ids
        flat = ids.reshape(-1).copy()
        stripped = self.named(BITS)[self.code[flat]]
        flat[stripped] = self.operand(flat[stripped], 0)
        differ = ~self.has_dtype(flat, dtype)
        number, joined = self.is_constant(flat), self.named(JOIN)[self.code[flat]]
        count = self.named(COUNT)[self.code[flat]] & (dtype.kind in "iu")
        for chosen, name, size in (
            (differ & number, CONSTANT, 1),
            (differ & joined, JOIN, dtype.itemsize),
            (differ & count, COUNT, 3),
        ):
            if chosen.any():
                rows = self.rows(flat[chosen], size)
                if name == COUNT:
                    rows[:, 0] = rows[:, 0].astype(dtype)
                flat[chosen] = self.make_rows(name, dtype, rows)
        differ &= ~number & ~joined & ~count
        if differ.any():
            flat[differ] = self.make(BITS, dtype, flat[differ])
        return flat.reshape(ids.shape)

    def cells_of(self, ids: Array, size: int) -> Array:
        """The bytes of terms of so many, in a last axis of their own."""
        flat = ids.reshape(-1).copy()
        stripped = self.named(BITS)[self.code[flat]]
        flat[stripped] = self.operand(flat[stripped], 0)
        cells = (flat[:, None] << PLACES) | np.arange(size)
        number = self.is_constant(flat)
        if number.any():
            raw = self.operand(flat[number], 0)
            cells[number] = np.ascontiguousarray(raw)[:, None].view(np.uint8)[:, :size]
            cells[number] -= BYTE_VALUES
        joined = self.named(JOIN)[self.code[flat]]
        if joined.any():
            cells[joined] = self.rows(flat[joined], size)
        bytes_ = self.named(BYTE)[self.code[flat]]
        if bytes_.any():
            cells[bytes_, 0] = self.operand(flat[bytes_], 0)
        return cells.reshape(*ids.shape, size)

    def join(self, cells: Array, dtype: np.dtype) -> Array:
        """The terms whose bytes are in the last axis."""
        size = dtype.itemsize
        flat = cells.reshape(-1, size)
        ids = np.empty(len(flat), np.int64)
        first = flat[:, 0]
        number = (flat < 0).all(axis=1)
        whole = (first >= 0) & (first & ((1 << PLACES) - 1) == 0)
        whole &= (flat == first[:, None] + np.arange(size)).all(axis=1)
        whole[whole] = self.item_bytes[self.code[first[whole] >> PLACES]] == size
        if number.any():
            raw = (flat[number] + BYTE_VALUES).astype(np.uint8)
            ids[number] = self.constants(np.ascontiguousarray(raw).view(dtype)[:, 0])
        if whole.any():
            ids[whole] = self.bitcast(first[whole] >> PLACES, dtype)
        parts = ~number & ~whole
        if parts.any():
            ids[parts] = self.make_rows(BYTE if size == 1 else JOIN, dtype, flat[parts])
        return ids.reshape(cells.shape[:-1])


def _hash(code: int, rows: Array) -> Array:
    """64 bits a row: a multiply and a shift an operand (the constants are those of splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = np.full(len(rows), np.uint64(code + 1) * np.uint64(0x9E3779B97F4A7C15), np.uint64)
        for number in range(rows.shape[1]):
            mixed ^= rows[:, number].view(np.uint64)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(31)
            mixed *= np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(29)
    return mixed


def _carrier(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def bits_of(array: Array) -> Array:
    """Numbers by their bits, as 64-bit integers."""
    return (
        np.ascontiguousarray(array)
        .view(_carrier(array.dtype))
        .astype(np.int64)
        .reshape(array.shape)
    )
