"""The table of all terms of a validation: hash-consed, so that equal computations of the inputs have equal numbers.

    c[0, 0] = 0.0 + dot((a[0, 0], a[0, 1]), (b[0, 0], b[1, 0]))

A *term* is a number in one table: its operator and its operands. The bytes of a term are *cells*: byte k of term t
is 8 t + k, a byte that is a number is that less 256; bytes of one term, in order, are that term again.
Operands are never folded here; the same bits read as another type and back are the same term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlir_async_pipe.session.diagnostics import MachineError

Array = np.ndarray

# Sixteen million terms, which take some twenty seconds to make.
MEMORY_LIMIT_BYTES = 1 << 30
CONSTANT, JOIN, BITS, BYTE, SELECT, CAST, DOT, ROW, COUNT, SUM = (
    "constant", "join", "bits", "byte", "select", "cast", "dot", "row", "count", "sum",
)  # fmt: skip
# c + n1 t1 + n2 t2 …, modulo the bits of an integer: the operands are c, n1, t1, n2, t2, …, of which the t are terms; `normal_terms`.
LINEAR = "linear"
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


def too_many(message: str) -> MachineError:
    advice = "validate smaller shapes, or a smaller grid, or raise memory_limit"
    return MachineError(message, code="too-many-terms", advice=advice)


@dataclass(frozen=True)
class Operator:
    """What a term applies, to how many others, and the type of what it gives."""

    name: str
    dtype: np.dtype
    arity: int


def is_leaf(name: str) -> bool:
    """Whether operands of terms with this operator are numbers: constants, elements of inputs, and the like."""
    return name in (CONSTANT, COUNT, LINEAR, ANY, ANY_BYTE) or name.startswith("arg")


def in_cells(cells: Array, function: Callable[[Array], Array]) -> Array:
    """Cells with a function of their terms in the places of these; bytes that are numbers stay."""
    found, whole = cells.copy(), cells >= 0
    found[whole] = function(cells[whole] >> PLACES) << PLACES | cells[whole] & (1 << PLACES) - 1
    return found


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
        # Whether both sides of a branch on data were run: a race may be of sides that are never run both.
        self.has_branches = False
        self.code = np.zeros(1024, np.int32)
        self.origin = np.zeros(1024, np.int32)
        self.start = np.zeros(1024, np.int64)
        self._hash = np.zeros(1024, np.int64)
        self.operands = np.zeros(4096, np.int64)
        self._used = 0
        self._slots = np.full(4096, -1, np.int32)
        # By code: the operator's item size, whether it is a constant, and each of the names below.
        self.item_bytes = np.zeros(0, np.int64)
        self.constant = np.zeros(0, np.bool_)
        self.dtypes = np.zeros(0, np.int64)
        self.names = np.zeros(0, np.int64)
        self._dtype_numbers: dict[np.dtype, int] = {}
        self._name_numbers: dict[str, int] = {}

    def operator_code(self, name: str, dtype: np.dtype, arity: int) -> int:
        operator = Operator(name, dtype, arity)
        found = self._codes.get(operator)
        if found is None:
            found = self._codes[operator] = len(self.operators)
            self.operators.append(operator)
            self.item_bytes = np.append(self.item_bytes, dtype.itemsize)
            self.constant = np.append(self.constant, name == CONSTANT)
            number = self._dtype_numbers.setdefault(dtype, len(self._dtype_numbers))
            self.dtypes = np.append(self.dtypes, number)
            number = self._name_numbers.setdefault(name, len(self._name_numbers))
            self.names = np.append(self.names, number)
        return found

    def named(self, name: str) -> Array:
        """For each code whether its operator has this name."""
        return self.names == self._name_numbers.get(name, -1)

    def is_constant(self, ids: Array) -> Array:
        return self.constant[self.code[ids]]

    def has_dtype(self, ids: Array, dtype: np.dtype) -> Array:
        return self.dtypes[self.code[ids]] == self._dtype_numbers.get(dtype, -1)

    def operand(self, ids: Array, number: int) -> Array:
        """An operand of each of these terms, which have it."""
        return self.operands[self.start[ids] + number]

    def rows(self, ids: Array, arity: int) -> Array:
        """The first operands of each of these terms, in a last axis."""
        return self.operands[self.start[ids][:, None] + np.arange(arity)]

    def groups(self, ids: Array) -> Iterator[tuple[Operator, Array]]:
        """The operators of terms, and where they are."""
        codes = self.code[ids]
        for code in np.flatnonzero(np.bincount(codes)):
            yield self.operators[code], np.flatnonzero(codes == code)

    def of(self, term: int) -> tuple[Operator, tuple[int, ...]]:
        """The operator of one term, and its operands."""
        operator, first = self.operators[self.code[term]], int(self.start[term])
        return operator, tuple(map(int, self.operands[first : first + operator.arity]))

    def make(self, name: str, dtype: Any, *operands: Array) -> Array:
        """The terms of an operator on operands of one shape, which broadcast."""
        shape = np.broadcast(*operands).shape
        rows = np.empty((*shape, len(operands)), np.int64)
        for number, column in enumerate(operands):
            rows[..., number] = column
        flat = rows.reshape(-1, len(operands))
        return self.make_rows(name, np.dtype(dtype), flat).reshape(shape)

    def make_rows(self, name: str, dtype: np.dtype, rows: Array, salt: int = 0) -> Array:
        """The same of rows of operands, which are known by a hash of 64 bits; of rows that have one hash, the later by
        one with another `salt`."""
        count, arity = rows.shape
        code = self.operator_code(name, dtype, arity)
        self._reserve(count, count * arity)
        before = self.count
        found = self._entered(code, rows, _hash(code, rows, salt))
        if self.count == before + count:
            return found
        same = self.code[found] == code
        same[same] = (self.rows(found[same], arity) == rows[same]).all(axis=1)
        if not same.all():
            found[~same] = self.make_rows(name, dtype, rows[~same], salt + 1)
        return found

    def _entered(self, code: int, rows: Array, hashed: Array) -> Array:
        """The terms that have these hashes; where there is none the row is made one."""
        found, place = self._known(hashed)
        missing = np.flatnonzero(found < 0)
        if not len(missing):
            return found
        # Of several on one place the last wins, and the others look again.
        place = place[missing]
        self._slots[place] = missing
        wins = self._slots[place] == missing
        new = missing[wins]
        found[new] = self._slots[place[wins]] = self._append(code, rows[new], hashed[new])
        lost = missing[~wins]
        if len(lost):
            found[lost] = self._entered(code, rows[lost], hashed[lost])
        return found

    def _known(self, hashed: Array) -> tuple[Array, Array]:
        """The terms that have these hashes, -1 for none; and where they are entered, or would be."""
        mask = len(self._slots) - 1
        place = hashed & mask
        found = self._slots[place].astype(np.int64)
        left = np.flatnonzero((found >= 0) & (self._hash[found] != hashed))
        while len(left):
            wanted = hashed[left]
            at = place[left] = (place[left] + _stride(wanted)) & mask
            held = found[left] = self._slots[at]
            left = left[(held >= 0) & (self._hash[held] != wanted)]
        return found, place

    def _put(self, terms: Array) -> None:
        """Enter terms, no two of which have one hash."""
        mask = len(self._slots) - 1
        place = self._hash[terms] & mask
        while len(terms):
            free = self._slots[place] < 0
            # Of several on one place the last wins, and the others go on.
            self._slots[place[free]] = terms[free]
            left = self._slots[place] != terms
            terms, place = terms[left], place[left]
            place = (place + _stride(self._hash[terms])) & mask

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
        arrays = (self.code, self.origin, self.start, self._hash, self.operands, self._slots)
        return sum(array.nbytes for array in arrays)

    def _reserve(self, terms: int, operands: int) -> None:
        terms += self.count
        if terms > len(self.code):
            for name in ("code", "origin", "start", "_hash"):
                setattr(self, name, self._grown(getattr(self, name), terms, terms))
        self.operands = self._grown(self.operands, self._used + operands, terms)
        wanted = len(self._slots)
        # A third is used at most: of a thousand terms all but one are found in seven looks.
        while wanted < 3 * terms:
            wanted *= 2
        if wanted > len(self._slots):
            self._check(4 * wanted, terms)
            self._slots = np.full(wanted, -1, np.int32)
            self._put(np.arange(self.count))

    def _grown(self, array: Array, needed: int, terms: int) -> Array:
        if needed <= len(array):
            return array
        capacity = max(needed, len(array) + len(array) // 2)
        if self.bytes + (capacity - len(array)) * array.itemsize > self.limit:
            # Near the limit arrays grow often, by little.
            capacity = max(needed, len(array) + len(array) // 16)
        self._check((capacity - len(array)) * array.itemsize, terms)
        grown = np.empty(capacity, array.dtype)
        grown[: len(array)] = array
        return grown

    def check_room(self, terms: int) -> None:
        """Raise MachineError (too-many-terms) now, if that many more, as large as those there are, take a quarter more than the limit."""
        self._check(terms * self.bytes // self.count - self.limit // 4, self.count + terms)

    def _check(self, more: int, terms: int) -> None:
        if self.bytes + more > self.limit:
            raise too_many(f"{terms} terms are more than {self.limit} bytes hold")

    # Constants, bits and bytes ------------------------------------------------------------

    def constants(self, array: Array) -> Array:
        return self.make(CONSTANT, array.dtype, bits_of(array))

    def numbers(self, ids: Array, dtype: np.dtype) -> Array:
        """The numbers of terms that are all constants."""
        raw = np.asarray(self.operand(ids, 0), np.int64)
        return raw.astype(_carrier(dtype)).view(dtype)

    def bitcast(self, ids: Array, dtype: np.dtype) -> Array:
        """The same bits as another type of the same size."""
        if self.has_dtype(ids, dtype).all():
            return ids
        flat = self.bare(ids)
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

    def bare(self, ids: Array) -> Array:
        """Terms, in one row, as what they are the bits of."""
        flat = ids.reshape(-1).copy()
        bits = self.named(BITS)[self.code[flat]]
        flat[bits] = self.operand(flat[bits], 0)
        return flat

    def cells_of(self, ids: Array, size: int) -> Array:
        """The bytes of terms of so many, in a last axis of their own."""
        flat = self.bare(ids)
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


def _hash(code: int, rows: Array, salt: int) -> Array:
    """63 bits a row: the sum of its operands, each times a number of its own, mixed as splitmix64 does."""
    factors = _factors(rows.shape[1] + 1)
    sums = rows.view(np.uint64) @ factors[1:]
    sums += factors[:1] * np.uint64(code + (salt << 32))
    return (_mixed(sums) >> np.uint64(1)).view(np.int64)


@lru_cache(maxsize=256)
def _factors(count: int) -> Array:
    """So many odd numbers that look random."""
    return _mixed(
        np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    ) | np.uint64(1)


def _mixed(values: Array) -> Array:
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def _stride(hashed: Array) -> Array:
    """How far apart the places are on which a hash is looked for; odd, so that it comes to all."""
    return (hashed >> 32) | 1


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


# Printed terms -----------------------------------------------------------------------------------
#
# Terms as people read them, and where two of them part.
#
# (dot(f32(arg0[0, 0]) … f32(arg0[0, 15]), f32(arg1[0, 0]) … f32(arg1[0, 15])) + 0.0)


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "greater": ">",
    "less_equal": "<=", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
    "right_shift": ">>",
}  # fmt: skip
_NAMES = {"float": "f", "int": "i", "uint": "u", "bool": "i"}
_DEPTH = 4


def printed(
    table: TermTable, term: int, shapes: dict[str, tuple[int, ...]], depth: int = _DEPTH
) -> str:
    """A term, at most so deep; `shapes` are those of the inputs by name."""
    operator, operands = table.of(term)
    if operator.name == CONSTANT:
        return str(table.numbers(np.array([term]), operator.dtype)[0])
    if operator.name in (ANY, ANY_BYTE):
        return "what it was before"
    if operator.name in shapes and not any(operands[1:]):
        return _element(operator.name, operands[0], shapes[operator.name])
    if is_leaf(operator.name) and len(operands) == 3:
        number = " + ".join(f"{n}{x}" for n, x in zip(operands, ("", " t", " r"), strict=True) if n)
        return f"{operator.name}[{number or 0}]" if operator.name != COUNT else f"({number})"
    if depth == 0:
        return "…"

    def inner(number: int) -> str:
        return printed(table, number, shapes, depth - 1)

    def cell(number: int) -> str:
        return str(number + 256) if number < 0 else f"byte {number & 7} of {inner(number >> 3)}"

    if operator.name in (JOIN, BYTE):
        return f"{_type(operator.dtype)}({', '.join(map(cell, operands))})"
    if operator.name == ROW:
        first, last = inner(operands[0]), inner(operands[-1])
        return first if len(operands) == 1 else f"{first} … {last}"
    if operator.name == DOT:
        return f"dot({printed(table, operands[0], shapes, depth)}, {printed(table, operands[1], shapes, depth)})"
    if operator.name == SELECT:
        return "({1} if {0} else {2})".format(*map(inner, operands))
    if operator.name in _SIGNS and len(operands) == 2:
        return f"({inner(operands[0])} {_SIGNS[operator.name]} {inner(operands[1])})"
    name = _type(operator.dtype) if operator.name in ("cast", "bits") else operator.name
    return f"{name}({', '.join(map(inner, operands))})"


def _type(dtype: Any) -> str:
    word = str(dtype).rstrip("0123456789")
    return f"{_NAMES[word]}{8 * dtype.itemsize if word != 'bool' else 1}"


def _element(name: str, number: int, shape: tuple[int, ...]) -> str:
    index: list[str] = []
    for size in reversed(shape):
        number, place = divmod(number, size)
        index.insert(0, str(place))
    return f"{name}[{', '.join(index)}]" if index else name


def divergence(
    table: TermTable, before: int, after: int, is_new: Callable[[int], bool]
) -> tuple[int, int]:
    """The innermost terms in two different ones that differ in operator, or in operands that are leaves.

    Where both operands of a sum differ, the sum of earlier iterations is followed. What is told is a term that
    the program after made itself: `is_new` says of an origin whether it is one.
    """
    found = before, after
    while True:
        operator, operands = table.of(before)
        other, others = table.of(after)
        if operator != other or operator.name in (JOIN, BYTE) or is_leaf(operator.name):
            return found
        pairs = list(zip(operands, others, strict=True))
        if len(pairs) == 2 and _is_swapped(table, pairs):
            pairs = list(zip(operands, others[::-1], strict=True))
        apart = [pair for pair in pairs if pair[0] != pair[1]]
        if not apart:
            return found
        deeper = [p for p in apart if all(table.of(t)[0] == operator for t in p)]
        before, after = (deeper or apart)[0]
        leaves = [is_leaf(table.of(term)[0].name) for term in (before, after)]
        if is_new(int(table.origin[after])) and not all(leaves):
            found = before, after


def _is_swapped(table: TermTable, pairs: list[tuple[int, int]]) -> bool:
    (a, c), (b, d) = pairs
    if a == c or b == d:
        return False
    if a == d or b == c:
        return True
    one, two, three, four = (table.of(term)[0] for term in (a, b, c, d))
    return one != three and one == four and two == three
