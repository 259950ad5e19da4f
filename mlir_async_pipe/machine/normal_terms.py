"""Terms in one form, where they are the same number for all data: what compilers make of arithmetic.

    (x + 3) * 2, 6 + (x << 1)                         -->   6 + 2 x          integers, modulo 2^bits
    i8(byte 0 of (3 + i16(x)))                        -->   3 + x            their lower bits
    x - 2.0, x * 2.0, x * 1.0, x / 4.0                -->   x + -2.0, x + x, x, x * 0.25
    f32(f64(x) + f64(y))                              -->   x + y
    max(max(x, y), max(z, x))                         -->   max(x, y, z)
    (1 if b else 0) != 0                              -->   b
    i32(byte 0 of x, three times that of x >> 7)      -->   i32(x)           x is an i8
    NaN if x or y is NaN else fmax(x, y)              -->   max(x, y)

All of it is exact for floating-point numbers, too, but for a NaN's payload: a sum, product or quotient that is rounded to 53 bits and then to 24
is rounded once (Figueroa, When is double rounding innocuous?, 1995: 53 >= 2 * 24 + 2); 0.0 is left out of a sum only
where the other addend cannot be -0.0, as x + -2.0 cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import numpy as np

from mlir_async_pipe.machine.kinds import ROUND
from mlir_async_pipe.machine.term_table import (
    BITS,
    BYTE,
    BYTE_VALUES,
    CAST,
    CONSTANT,
    DOT,
    JOIN,
    LINEAR,
    PLACES,
    SELECT,
    SUM,
    Operator,
    TermTable,
    in_cells,
    is_leaf,
    too_many,
)
from mlir_async_pipe.machine.terms import EXTREMES, Terms, apply, lift, made_again

Array = np.ndarray

_BY_BITS = ("multiply", "bitwise_and", "bitwise_or", "bitwise_xor")
_BY_TRUTHS = _BY_BITS[1:]
_RING = frozenset((*_BY_BITS, "add", "subtract", "negative", "left_shift", CAST, BITS, JOIN, BYTE))
_EXTREMES = ("maximum", "minimum", "fmax", "fmin")
_NARROWED = frozenset(("add", "subtract", "multiply", "divide"))
# What is computed in the second type and then rounded to the first is the same computed in the first.
_WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.float16): np.dtype(np.float32)}
_ROUND = "round "
_OFFSETS = (1 << PLACES) - 1
_ZERO = -BYTE_VALUES
# An operand of a chain of maxima, and above it the number of the chain.
_OWNER = 32
_PART = (1 << _OWNER) - 1


class NormalForms:
    """The normal forms of the terms of one table, each found once."""

    def __init__(self, table: TermTable) -> None:
        self.table = table
        self._found = np.full(0, -1, np.int64)

    def of(self, ids: Array) -> Array:
        needed = self._needed(ids)
        links = self._links(needed, ids)
        for terms in self._levels(needed):
            terms = terms[~links[terms]]
            for operator, chosen in self.table.groups(terms):
                self._put(terms[chosen], self._normal(operator, terms[chosen]))
        return self._found[ids]

    def _make_room(self) -> None:
        missing = self.table.count - len(self._found)
        if missing > 0:
            more = np.full(missing + len(self._found) // 2, -1, np.int64)
            self._found = np.concatenate([self._found, more])

    def _put(self, terms: Array, forms: Array) -> None:
        self._make_room()
        self._found[terms] = forms
        # A normal form is its own.
        self._found[forms] = forms

    def _operands(self, operator: Operator, terms: Array) -> Array:
        """The terms that terms of one operator are made of, a row each; bytes that are numbers are -1."""
        if is_leaf(operator.name):
            return np.empty((len(terms), 0), np.int64)
        rows = self.table.rows(terms, operator.arity)
        return np.maximum(rows >> PLACES, -1) if operator.name in (JOIN, BYTE) else rows

    def _needed(self, ids: Array) -> Array:
        """All terms in these whose form is not known."""
        self._make_room()
        seen = self._found >= 0
        found, left = [np.empty(0, np.int64)], np.unique(ids)
        while len(left):
            left = left[~seen[left]]
            seen[left] = True
            found.append(left)
            inner = [np.empty(0, np.int64)]
            for operator, chosen in self.table.groups(left):
                inner.append(self._operands(operator, left[chosen]).reshape(-1))
            left = np.unique(np.concatenate(inner))
            left = left[left >= 0]
        return np.concatenate(found)

    def _links(self, needed: Array, ids: Array) -> Array:
        """Of all terms those that are only compared in longer chains of maxima: the form of the whole chain is asked
        for, and a form of each link would take as many operands as links squared."""
        table = self.table
        links, used = np.zeros((2, table.count), np.bool_)
        used[ids] = True
        for operator, chosen in table.groups(needed):
            operands = self._operands(operator, needed[chosen]).reshape(-1)
            operands = operands[operands >= 0]
            if operator.name in _EXTREMES and operator.dtype.kind in "iuf":
                links[needed[chosen]] = True
                of = table.code[operands]
                same = table.named(operator.name)[of] & table.has_dtype(operands, operator.dtype)
                operands = operands[~same]
            used[operands] = True
        return links & ~used

    def _levels(self, needed: Array) -> Iterator[Array]:
        """These terms by levels: those without operands among them, then those that need no others than terms of
        earlier levels."""
        place = np.full(self.table.count + 1, -1, np.int64)
        place[needed] = np.arange(len(needed))
        sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for operator, chosen in self.table.groups(needed):
            operands = place[self._operands(operator, needed[chosen])]
            sources.append(operands.reshape(-1))
            targets.append(np.repeat(chosen, operands.shape[1]))
        source, target = np.concatenate(sources), np.concatenate(targets)
        source, target = source[source >= 0], target[source >= 0]
        target = target[np.argsort(source, kind="stable")]
        uses = np.bincount(source, minlength=len(needed))
        first = np.cumsum(uses) - uses
        left = np.bincount(target, minlength=len(needed))
        level = np.flatnonzero(left == 0)
        while len(level):
            yield needed[level]
            count = uses[level]
            starts = np.repeat(first[level] - np.cumsum(count) + count, count)
            users, times = np.unique(target[starts + np.arange(len(starts))], return_counts=True)
            left[users] -= times
            level = users[left[users] == 0]

    # Rules --------------------------------------------------------------------------------------

    def _normal(self, operator: Operator, terms: Array) -> Array:
        table = self.table
        if is_leaf(operator.name):
            return terms
        rows = table.rows(terms, operator.arity)
        if operator.name in _EXTREMES and operator.dtype.kind in "iuf":
            made = self._extremes(terms)
        elif operator.name in (JOIN, BYTE):
            made = table.join(in_cells(rows, self._found.__getitem__), operator.dtype)
        else:
            rows = self._found[rows]
            made = self._folded(operator, rows)
        if operator.dtype.kind in "iu" and operator.name in _RING:
            return self._each(made, self._linear)
        return made

    def _folded(self, operator: Operator, rows: Array) -> Array:
        """Terms of an operator on normal forms."""
        made = made_again(self.table, operator, rows)
        if operator.name in _EXTREMES and operator.dtype.kind in "iuf":
            return self._extremes(made)
        if operator.name == "bitwise_xor" and operator.dtype.kind == "b":
            return self._each(made, self._parity)
        rule = _RULES.get((operator.name, operator.dtype.kind))
        if rule is not None:
            rule(self, operator, rows, made)
        return made

    def _each(self, terms: Array, rule: Callable[[int], int]) -> Array:
        distinct, back = np.unique(terms, return_inverse=True)
        return np.array([rule(term) for term in distinct.tolist()], np.int64)[back.reshape(-1)]

    def make(self, name: str, dtype: np.dtype, *columns: Array) -> Array:
        """Terms of an operator on normal forms, in normal form."""
        operator = Operator(name, dtype, len(columns))
        return self._folded(operator, np.stack(columns, axis=-1))

    def is_number(self, terms: Array, number: float, dtype: np.dtype) -> Array:
        """Which terms are this number, bit for bit."""
        return np.asarray(terms == self.table.constants(np.array([number], dtype))[0])

    def _extremes(self, terms: Array) -> Array:
        """Of terms of one operator the largest, or smallest, of all that its chain compares, each once."""
        self._make_room()
        table = self.table
        operator = table.operators[table.code[terms[0]]]
        left, done = np.arange(len(terms)) << _OWNER | terms, [np.empty(0, np.int64)]
        count = 0
        while len(left):
            _check_operands(table, count := count + len(left))
            owners, parts = left >> _OWNER << _OWNER, left & _PART
            # Links of the chain, and what was just made, have no form of their own.
            forms = self._found[parts]
            parts = np.where(forms < 0, parts, forms)
            linked = table.named(operator.name)[table.code[parts]]
            linked &= table.has_dtype(parts, operator.dtype)
            done.append((owners | parts)[~linked])
            owners, parts = owners[linked], parts[linked]
            more = [
                (owners[chosen, None] | table.rows(parts[chosen], of.arity)).reshape(-1)
                for of, chosen in table.groups(parts)
            ]
            left = np.unique(np.concatenate([*more, done[0]]))
        found = np.unique(np.concatenate(done))
        constant = table.is_constant(found & _PART)
        constants, found = found[constant], found[~constant]
        others = np.bincount(found >> _OWNER, minlength=len(terms))
        holders, first = np.unique(constants >> _OWNER, return_index=True)
        bounds = []
        for owner, mine in zip(holders.tolist(), np.split(constants, first[1:]), strict=False):
            numbers = table.numbers(mine & _PART, operator.dtype)
            last = reduce(EXTREMES[getattr(np, operator.name)], numbers)
            if not others[owner] or not _is_first(last, operator):
                bounds.append(owner << _OWNER | int(table.constants(np.array([last]))[0]))
        found = np.sort(np.concatenate([found, np.array(bounds, np.int64)]))
        made = terms.copy()
        _gather(table, operator.name, operator.dtype, found >> _OWNER, found & _PART, made)
        return made

    def _extreme(self, name: str, dtype: np.dtype, operands: list[Any]) -> int:
        made = self.table.make_rows(name, dtype, np.array([operands]))
        return int(self._extremes(made)[0])

    def _parity(self, term: int) -> int:
        """Whether an odd number of truth values hold; True is one of them, and what is there twice goes."""
        found: set[int] = set()
        left = [term]
        while left:
            one = left.pop()
            operator, parts = self.table.of(one)
            of_truths = operator.dtype.kind == "b" and operator.name == "bitwise_xor"
            if of_truths:
                left += parts
            elif not self.is_number(np.array([one]), 0, operator.dtype)[0]:
                found ^= {one}
        if len(found) < 2:
            return found.pop() if found else int(self.table.constants(np.array([False]))[0])
        return int(
            self.table.make_rows("bitwise_xor", np.dtype(bool), np.array([sorted(found)]))[0]
        )

    # Integers -----------------------------------------------------------------------------------

    def _linear(self, term: int) -> int:
        """An integer as c + n1 t1 + …, modulo its bits."""
        dtype = self.table.of(term)[0].dtype
        return self._cast_bits(self._lower_sum(term, dtype.itemsize), dtype)

    def _lower_sum(self, term: int, size: int) -> int:
        """The lower bytes of an integer as such a sum, which is signed."""
        constant, parts = self._sum_of(term, size)
        whole = np.dtype(f"i{size}")
        numbers = sorted((atom, n) for atom, n in parts.items() if n)
        if not numbers:
            return self._constant(constant, whole)
        if constant == 0 and len(numbers) == 1 and numbers[0][1] == 1:
            return numbers[0][0]
        row = [_signed(constant, size)]
        for atom, n in numbers:
            row += [_signed(n, size), atom]
        return int(self.table.make_rows(LINEAR, whole, np.array([row]))[0])

    def _constant(self, number: int, dtype: np.dtype) -> int:
        bits = number % (1 << 8 * dtype.itemsize)
        raw = np.array([bits], np.dtype(f"u{dtype.itemsize}")).view(dtype)
        return int(self.table.constants(raw)[0])

    def _cast_bits(self, term: int, dtype: np.dtype) -> int:
        return int(self.table.bitcast(np.array([term]), dtype)[0])

    def _sum_of(self, term: int, size: int) -> tuple[int, dict[int, int]]:
        """The lower `size` bytes of a term: a constant, and how often each other term is added."""
        operator, operands = self.table.of(term)
        name, modulus = operator.name, 1 << 8 * size
        parts: dict[int, int] = {}
        if name == CONSTANT:
            return int(operands[0]) % modulus, {}
        if name == LINEAR:
            constant = operands[0] % modulus
            for n, atom in zip(operands[1::2], operands[2::2], strict=True):
                constant = _add(parts, constant, self._sum_of(atom, size), n, modulus)
            return constant, parts
        if operator.dtype.kind in "iu":
            if name == BITS and self.table.of(operands[0])[0].dtype.kind in "iu":
                return self._sum_of(operands[0], size)
            if name == CAST:
                of = self.table.of(operands[0])[0].dtype
                if of.kind in "iu" and size <= of.itemsize:
                    return self._sum_of(operands[0], size)
            if name in ("add", "subtract", "negative"):
                constant = 0
                signs = {"add": (1, 1), "subtract": (1, -1), "negative": (-1,)}[name]
                for sign, operand in zip(signs, operands, strict=True):
                    constant = _add(parts, constant, self._sum_of(operand, size), sign, modulus)
                return constant, parts
            if name in ("multiply", "left_shift"):
                for factor, other in (operands, operands[::-1]):
                    number = self.number(factor)
                    if number is None or (name == "left_shift" and factor != operands[1]):
                        continue
                    if name == "left_shift" and not 0 <= number < 8 * operator.dtype.itemsize:
                        continue
                    times = number if name == "multiply" else 1 << number
                    return _add(parts, 0, self._sum_of(other, size), times, modulus), parts
        atom = self._lower(term, size)
        if self.table.of(atom)[0].name in (LINEAR, CONSTANT):
            return self._sum_of(atom, size)
        return 0, {atom: 1}

    def number(self, term: int) -> int | None:
        operator, _ = self.table.of(term)
        if operator.name != CONSTANT or operator.dtype.kind not in "iu":
            return None
        return int(self.table.numbers(np.array([term]), operator.dtype)[0])

    def _lower(self, term: int, size: int) -> int:
        """The lower bytes of a term that is no sum, as a signed integer."""
        operator, operands = self.table.of(term)
        whole = np.dtype(f"i{size}")
        have = operator.dtype.itemsize
        truth = self.truth_of(term)
        if truth is not None:
            if self.table.of(truth)[0].name == CONSTANT:
                return self._constant(self.table.of(truth)[1][0], whole)
            return int(self.table.make(CAST, whole, np.array([truth]))[0])
        if operator.name in (JOIN, BYTE) and have >= size:
            if size == have and (extended := self._extended(operands)) is not None:
                return self._cast_bits(extended, whole)
            if size == have and (short := self._signed(operands)) is not None:
                return self._widened(short, whole)
            if size == have and (larger := self._shifted(operands)) is not None:
                return larger
            cells = np.array([operands[:size]])
            first = cells[0, 0]
            source = int(first >> PLACES)
            if first >= 0 and not first & _OFFSETS and (cells[0] == first + np.arange(size)).all():
                # The lower bytes of something larger, which may be a sum.
                inner = self.table.of(source)[0]
                if inner.dtype.kind in "iu" and inner.dtype.itemsize > size:
                    return self._lower_sum(source, size)
            return int(self.table.join(cells, whole)[0])
        if operator.name in _BY_BITS:
            row = [self._lower_sum(one, size) for one in operands]
            if operator.name == "bitwise_and":
                row = self._masked(row, whole)
            return int(self.table.make_rows(operator.name, whole, np.array([sorted(row)]))[0])
        if operator.name == CAST and size > self.table.of(operands[0])[0].dtype.itemsize:
            inner, parts = self.table.of(operands[0])
            if inner.name in _EXTREMES and inner.dtype.kind == "i":
                # The larger one of two, extended, is the larger one of both, extended.
                longer = [self._widened(one, whole) for one in parts]
                return self._extreme(inner.name, whole, longer)
            return self._widened(operands[0], whole)
        if operator.name in _EXTREMES and size < have:
            for of in dict.fromkeys((operator.dtype.kind, "u")):
                small = np.dtype(f"{of}{size}")
                narrow = [self._extended_from(one, small) for one in operands]
                if None not in narrow:
                    made = self._extreme(operator.name, small, narrow)
                    return self._cast_bits(made, whole)
        if size == have:
            return self._cast_bits(term, whole)
        cells = self.table.cells_of(np.array([term]), have)[:, :size]
        return int(self.table.join(cells, whole)[0])

    def _masked(self, row: list[int], dtype: np.dtype) -> list[int]:
        """(x & 15) & 7 is x & 7."""
        for outer, term in (row, row[::-1]):
            operator, parts = self.table.of(term)
            if (mask := self.number(outer)) is None or operator.name != "bitwise_and":
                continue
            for inner, rest in (parts, parts[::-1]):
                if (number := self.number(inner)) is not None:
                    return [self._constant(mask & number, dtype), rest]
        return row

    def _widened(self, term: int, dtype: np.dtype) -> int:
        number = self.number(term)
        if number is not None:
            return self._constant(number, dtype)
        operator, operands = self.table.of(term)
        if operator.name == CAST:
            of = self.table.of(operands[0])[0].dtype
            if of.itemsize < operator.dtype.itemsize and of.kind in ("b", "u", operator.dtype.kind):
                # What holds every number of a shorter type is that number.
                return self._widened(operands[0], dtype)
        if operator.name == JOIN and operands[-1] == _ZERO:
            zeros = [_ZERO] * (dtype.itemsize - len(operands))
            return int(self.table.join(np.array([[*operands, *zeros]]), dtype)[0])
        return int(self.table.make(CAST, dtype, np.array([term]))[0])

    def _extended(self, cells: tuple[int, ...]) -> int | None:
        """The conversion of a shorter integer of which these are the bytes, its own lower ones or that one's."""
        last = cells[-1] >> PLACES
        if cells[-1] < 0 or self.table.of(last)[0].name != CAST:
            return None
        if self.table.of(last)[0].dtype.itemsize != len(cells):
            return None
        source = self.table.of(last)[1][0]
        size = self.table.of(source)[0].dtype.itemsize
        for place, cell in enumerate(cells):
            if cell != last << PLACES | place and (
                place >= size or cell != source << PLACES | place
            ):
                return None
        return last

    def _shifted(self, cells: tuple[int, ...]) -> int | None:
        """x << n, of which the first bytes are its own, and the others those of x >> (32 - n), or another whole number of bytes."""
        size, found = len(cells), None
        whole = np.dtype(f"i{size}")
        for place in reversed(range(size)):
            term, byte = cells[place] >> PLACES, cells[place] & _OFFSETS
            if cells[place] < 0 or self.table.of(term)[0].dtype.itemsize != size:
                return None
            operator, operands = self.table.of(term)
            if operator.name == "right_shift" and (by := self.number(operands[1])) is not None:
                now = self._cast_bits(operands[0], whole), 8 * (place - byte) - by
                if now != (found or now) or now[1] <= 0 or by < 0:
                    return None
                found = now
            elif found is None:
                return None
            else:
                row = np.array([found[0]]), np.array([self._constant(found[1], whole)])
                shifted = self._lower_sum(int(self.table.make("left_shift", whole, *row)[0]), size)
                if (self._cast_bits(term, whole), byte) != (shifted, place):
                    return None
        return shifted

    def _signed(self, cells: tuple[int, ...]) -> int | None:
        """The signed integer whose bytes the first of these are, and whose sign the others."""
        for size in (1, 2, 4):
            if size < len(cells) and all(
                self._is_sign(one, cells[size - 1]) for one in cells[size:]
            ):
                return int(self.table.join(np.array([cells[:size]]), np.dtype(f"i{size}"))[0])
        return None

    def _is_sign(self, cell: int, last: int) -> bool:
        """Whether a byte is eight times the sign of an integer with this `last` byte: x >> 31 has no other bits."""
        if cell < 0:
            return False
        operator, operands = self.table.of(cell >> PLACES)
        size = operator.dtype.itemsize
        if operator.name != "right_shift" or operator.dtype.kind != "i":
            return False
        amount = self.number(operands[1])
        if amount is None or not 8 * (size - (cell & _OFFSETS)) - 1 <= amount < 8 * size:
            return False
        term = self._short_of(operands[0])
        size = self.table.of(term)[0].dtype.itemsize
        return bool(self.table.cells_of(np.array([term]), size)[0, -1] == last)

    def _short_of(self, term: int) -> int:
        """The shortest signed integer that is the same number."""
        operator, operands = self.table.of(term)
        of = self.table.of(operands[0])[0].dtype if operator.name == CAST else operator.dtype
        if of.kind == "i" and of.itemsize < operator.dtype.itemsize:
            return self._short_of(operands[0])
        return term

    def _extended_from(self, term: int, small: np.dtype) -> int | None:
        """The term of a smaller type that this is an extension of, with signs or zeros as that type has them."""
        number = self.number(term)
        if number is not None:
            ends = np.iinfo(small)
            return self._constant(number, small) if ends.min <= number <= ends.max else None
        operator, operands = self.table.of(term)
        size = small.itemsize
        if operator.name == CAST and small.kind == "i":
            of = self.table.of(operands[0])[0].dtype
            return operands[0] if of == small else None
        zeros = operands[size:]
        if operator.name != JOIN or small.kind == "i" or any(cell != _ZERO for cell in zeros):
            return None
        return int(self.table.join(np.array([operands[:size]]), small)[0])

    def truth_of(self, term: int) -> int | None:
        """The truth value that an integer is, 0 or 1; None if it is another one."""
        operator, operands = self.table.of(term)
        if operator.dtype.kind == "b":
            return term
        if operator.name == BITS:
            return self.truth_of(operands[0])
        if operator.name == CAST:
            return operands[0] if self.table.of(operands[0])[0].dtype.kind == "b" else None
        if operator.name in _BY_TRUTHS:
            truths = [self._truth_or_number(one) for one in operands]
            if None in truths:
                return None
            return int(self.make(operator.name, np.dtype(np.bool_), *np.array(truths)[:, None])[0])
        if operator.name not in (JOIN, BYTE) or operands[0] < 0 or operands[0] & _OFFSETS:
            return None
        if any(cell != _ZERO for cell in operands[1:]):
            return None
        return self.truth_of(operands[0] >> PLACES)

    def _truth_or_number(self, term: int) -> int | None:
        number = self.number(term)
        if number in (0, 1):
            return int(self.table.constants(np.array([number == 1]))[0])
        return self.truth_of(term)


def _is_first(number: Any, operator: Operator) -> bool:
    """Whether this number is no other one's extreme: for fmax and fmin it is NaN, of which -inf is the larger one."""
    if operator.name in ("fmax", "fmin"):
        return bool(np.isnan(number))
    ends = (-np.inf, np.inf)
    if operator.dtype.kind in "iu":
        ends = np.iinfo(operator.dtype).min, np.iinfo(operator.dtype).max
    return bool(number == ends[operator.name == "minimum"])


def _signed(number: int, size: int) -> int:
    half = 1 << (8 * size - 1)
    return (number + half) % (2 * half) - half


def _add(
    parts: dict[int, int], constant: int, more: tuple[int, dict[int, int]], times: int, modulus: int
) -> int:
    """Add a multiple of a sum to `parts`; the constants' sum."""
    for atom, n in more[1].items():
        parts[atom] = (parts.get(atom, 0) + times * n) % modulus
    return (constant + times * more[0]) % modulus


# Rules of single operators, on the normal forms of their operands, a row each: what was `made` of them changes ----


def _difference(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """x - c is x + -c."""
    table = forms.table
    chosen = table.is_constant(rows[:, 1])
    if chosen.any():
        negated = table.constants(-table.numbers(rows[chosen, 1], operator.dtype))
        made[chosen] = forms.make("add", operator.dtype, rows[chosen, 0], negated)


def _sum(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """x + -0.0 is x; x + 0.0 is x where that is no -0.0."""
    table = forms.table
    for zero, other in (rows.T, rows.T[::-1]):
        left_out = forms.is_number(zero, -0.0, operator.dtype)
        for at in np.flatnonzero(forms.is_number(zero, 0.0, operator.dtype)):
            left_out[at] = _is_no_negative_zero(table, int(other[at]))
        made[left_out] = other[left_out]


def _is_no_negative_zero(table: TermTable, term: int, depth: int = 0) -> bool:
    """Whether a term is never -0.0: rounded to nearest, a sum is -0.0 only if all of its addends are."""
    operator, operands = table.of(term)
    if operator.name == CONSTANT:
        number = table.numbers(np.array([term]), operator.dtype)[0]
        return bool(number != 0 or not np.signbit(number))
    if operator.name.startswith(_ROUND):
        # Of numbers that have few bits a sum that is no zero has a bit as large as the last one of theirs: it is rounded to no zero.
        inner, parts = table.of(operands[0])
        name = operator.name.removeprefix(_ROUND)
        if inner.name == "add" and all(_is_of_kind(table, one, name) for one in parts):
            return _is_no_negative_zero(table, operands[0], depth)
        return False
    if depth > _DEEPEST or operator.name not in ("add", *_EXTREMES):
        return False
    # Constants come first.
    ordered = sorted(operands, key=lambda one: table.of(one)[0].name != CONSTANT)
    some = any if operator.name == "add" else all
    return some(_is_no_negative_zero(table, one, depth + 1) for one in ordered)


def _is_of_kind(table: TermTable, term: int, name: str) -> bool:
    """Whether a term is a number of a type with few bits."""
    operator, operands = table.of(term)
    if operator.name == CONSTANT:
        number = table.numbers(np.array([term]), operator.dtype)
        return bool((ROUND[name](number.astype(np.float32)) == number).all())
    if operator.name in _EXTREMES:
        return all(_is_of_kind(table, one, name) for one in operands)
    return operator.name in (f"{_ROUND}{name}", f"decode {name}")


def _rounded_again(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """What is of a type with few bits is not changed by rounding to it."""
    name = operator.name.removeprefix(_ROUND)
    for term in np.unique(rows[:, 0]):
        if _is_of_kind(forms.table, int(term), name):
            made[rows[:, 0] == term] = term


def _product(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """x * 1.0 is x, x * 2.0 is x + x."""
    for number, other in (rows.T, rows.T[::-1]):
        one, two = (forms.is_number(number, n, operator.dtype) for n in (1.0, 2.0))
        made[one] = other[one]
        if two.any():
            made[two] = forms.make("add", operator.dtype, other[two], other[two])


def _quotient(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """x / 4.0 is x * 0.25: both are the same number, rounded once, if the divisor is a power of two."""
    table = forms.table
    constant = np.flatnonzero(table.is_constant(rows[:, 1]))
    divisors = table.numbers(rows[constant, 1], operator.dtype)
    inverse = 1 / divisors
    exact = (
        np.isfinite(inverse) & (np.abs(np.frexp(divisors)[0]) == 0.5) & (1 / inverse == divisors)
    )
    if exact.any():
        chosen = constant[exact]
        factor = table.constants(inverse[exact])
        made[chosen] = forms.make("multiply", operator.dtype, rows[chosen, 0], factor)


def _rounded(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """f32(f64(x) + f64(y)) is x + y, and so of products, quotients and halves."""
    table = forms.table
    wide = _WIDER.get(operator.dtype)
    for inner, chosen in table.groups(rows[:, 0]):
        if inner.dtype != wide or inner.name not in _NARROWED:
            continue
        operands = table.rows(rows[chosen, 0], 2)
        narrow, known = _narrow(table, operands, operator.dtype)
        both = known.all(axis=1)
        if both.any():
            made[chosen[both]] = forms.make(inner.name, operator.dtype, *narrow[both].T)


def _narrow(table: TermTable, terms: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """The terms of a narrower type that terms are conversions of, and which are."""
    flat = terms.reshape(-1)
    found, known = flat.copy(), np.zeros(len(flat), np.bool_)
    for operator, chosen in table.groups(flat):
        if operator.name == CAST:
            inner = table.operand(flat[chosen], 0)
            same = table.has_dtype(inner, dtype)
            found[chosen[same]], known[chosen[same]] = inner[same], True
        elif operator.name == CONSTANT:
            numbers = table.numbers(flat[chosen], operator.dtype)
            with np.errstate(all="ignore"):
                same = numbers.astype(dtype).astype(operator.dtype) == numbers
            found[chosen[same]] = table.constants(numbers[same].astype(dtype))
            known[chosen[same]] = True
    return found.reshape(terms.shape), known.reshape(terms.shape)


def _choice(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """1 if b else 0 is the number of b."""
    condition, yes, no = rows.T
    truth = forms.is_number(yes, 1, operator.dtype) & forms.is_number(no, 0, operator.dtype)
    if truth.any():
        made[truth] = forms.table.make(CAST, operator.dtype, condition[truth])


def _is_set(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """(1 if b else 0) != 0 is b; of integers, of which none is NaN, x != x is False."""
    for of, chosen in forms.table.groups(rows[:, 0]):
        same = chosen[rows[chosen, 0] == rows[chosen, 1]]
        if of.dtype.kind != "f":
            made[same] = forms.table.constants(np.array([False]))
    for at, truth, _ in _beside_truths(forms, rows, 0):
        made[at] = truth


def _mask(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """(1 if b else 0) & 1 is itself."""
    for at, _, integer in _beside_truths(forms, rows, 1):
        made[at] = integer


def _both(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """b and True is b, b and False is False; b or False is b, b or True is True."""
    keeps = operator.name == "bitwise_and"
    for number, other in (rows.T, rows.T[::-1]):
        for is_true in (False, True):
            chosen = forms.is_number(number, is_true, operator.dtype)
            made[chosen] = (other if is_true == keeps else number)[chosen]


def _beside_truths(forms: NormalForms, rows: Array, number: int) -> Iterator[tuple[int, int, int]]:
    """Rows of this number and an integer that is a truth value: which row, that value, and the integer."""
    for at, row in enumerate(rows.tolist()):
        for one, other in (row, row[::-1]):
            truth = forms.truth_of(other) if forms.number(one) == number else None
            if truth is not None:
                yield at, truth, other


def _not_a_number(forms: NormalForms, operator: Operator, rows: Array, made: Array) -> None:
    """NaN if x or y is, else fmax(x, y), is max(x, y)."""
    table = forms.table
    asked, nan, other = rows.T
    for name, extreme in (("fmax", "maximum"), ("fmin", "minimum")):
        chosen = table.named(name)[table.code[other]] & table.is_constant(nan)
        chosen &= table.named("bitwise_or")[table.code[asked]]
        for at in np.flatnonzero(chosen):
            operands = np.array(table.of(int(other[at]))[1])
            data = operands[~table.is_constant(operands)]
            unordered = table.make("isnan", np.dtype(np.bool_), data)
            is_nan = np.isnan(table.numbers(nan[at : at + 1], operator.dtype))[0]
            if is_nan and set(table.of(int(asked[at]))[1]) == set(unordered.tolist()):
                made[at] = forms.make(extreme, operator.dtype, *operands[:, None])[0]


Rule = Callable[[NormalForms, Operator, Array, Array], None]
_RULES: dict[tuple[str, str], Rule] = {
    ("subtract", "f"): _difference,
    ("add", "f"): _sum,
    ("multiply", "f"): _product,
    ("divide", "f"): _quotient,
    (CAST, "f"): _rounded,
    ("not_equal", "b"): _is_set,
    **{(f"{_ROUND}{name}", "f"): _rounded_again for name in ROUND},
    **{(SELECT, kind): _choice for kind in "iu"},
    (SELECT, "f"): _not_a_number,
    **{("bitwise_and", kind): _mask for kind in "iu"},
    **{(name, "b"): _both for name in ("bitwise_and", "bitwise_or")},
}


# Sums in any order: terms in which a sum is the multiset of its addends ---------------------------
#
#     ((0.0 + dot(a0 a1, b0 b1)) + c)   and   ((c + (a1 * b1)) + (a0 * b0))   -->   sum(c, a0 * b0, a1 * b1)
#
# Sums of floating-point numbers and matrix products are written like this, wherever they are in a term; zeros are left out. A sum
# ends where another operator is applied to it, be it a conversion: f32(f16(a + b)) + c has two addends.

# Terms nested deeper than this are not looked into; a sum is one level, however many addends it has.
_DEEPEST = 300


def reassociated(table: TermTable, ids: Array, depth: int = 0) -> Array:
    """The terms with their sums as multisets: equal where they are equal but for the order of sums.

    Raises MachineError (too-many-terms) for sums of more addends than the table may have bytes.
    """
    if depth > _DEEPEST:
        return ids
    terms, back = np.unique(ids, return_inverse=True)
    found = terms.copy()
    for operator, chosen in table.groups(terms):
        mine = terms[chosen]
        if operator.name in ("add", DOT) and operator.dtype.kind == "f":
            found[chosen] = _sums(table, mine, operator.dtype, depth)
        elif not is_leaf(operator.name):
            rows, inner = (
                table.rows(mine, operator.arity),
                partial(reassociated, table, depth=depth + 1),
            )
            operands = in_cells(rows, inner) if operator.name in (JOIN, BYTE) else inner(rows)
            found[chosen] = made_again(table, operator, operands)
    return found[back.reshape(-1)].reshape(ids.shape)


def _sums(table: TermTable, terms: Array, dtype: np.dtype, depth: int) -> Array:
    owners, addends = _addends(table, terms, dtype)
    addends = reassociated(table, addends, depth + 1)
    zeros = table.constants(np.array([0.0, -0.0], dtype))
    left = ~np.isin(addends, zeros)
    owners, addends = owners[left], addends[left]
    addends = addends[np.lexsort((addends, owners))]
    found = np.full(len(terms), zeros[0])
    _gather(table, SUM, dtype, owners, addends, found)
    return found


def _gather(
    table: TermTable, name: str, dtype: np.dtype, owners: Array, operands: Array, found: Array
) -> None:
    """Put terms of as many operands as each owner has, by which they are sorted, in their owners' places; one stays what it is."""
    counts = np.bincount(owners, minlength=len(found))
    starts = np.cumsum(counts) - counts
    for count in np.unique(counts[counts > 0]):
        chosen = np.flatnonzero(counts == count)
        rows = operands[starts[chosen][:, None] + np.arange(count)]
        found[chosen] = rows[:, 0] if count == 1 else table.make_rows(name, dtype, rows)


def _check_operands(table: TermTable, count: int) -> None:
    if 16 * count > table.limit:
        raise too_many(
            f"sums, or maxima, of {count} operands are more than {table.limit} bytes hold"
        )


def _addends(table: TermTable, terms: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """What sums of one type add, and which of the sums does."""
    owners, left = np.arange(len(terms)), terms
    done: list[tuple[Array, Array]] = []
    count = 0
    while len(left):
        codes, typed = table.code[left], table.has_dtype(left, dtype)
        added, product = (table.named(name)[codes] & typed for name in ("add", DOT))
        other = ~added & ~product
        done.append((owners[other], left[other]))
        more = np.repeat(owners[added], 2), table.rows(left[added], 2).reshape(-1)
        for row in np.unique(table.code[table.operand(left[product], 0)]):
            size = table.operators[row].arity
            of = np.flatnonzero(product)
            of = of[table.code[table.operand(left[of], 0)] == row]
            left_rows, right_rows = (
                Terms(table, table.rows(table.operand(left[of], side), size), dtype)
                for side in (0, 1)
            )
            products = lift(table, apply(table, np.multiply, (left_rows, right_rows)), dtype)
            done.append((np.repeat(owners[of], size), products.reshape(-1)))
        owners, left = more
        count += len(done[-1][1])
        _check_operands(table, count + len(left))
    owners, addends = (np.concatenate(parts) for parts in zip(*done, strict=True))
    return owners, addends
