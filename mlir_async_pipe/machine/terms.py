"""Arrays of terms: the machine runs on data that nobody has given it.

`Terms` is an array of numbers in a `TermTable`, with a type that says what one is computed in. It answers to NumPy's own protocols
(NEP 13 for ufuncs, NEP 18 for other functions), so that the semantics of an op, `np.add`, makes a sum of numbers, or a
term that is one. What is all constants is handed back as a NumPy array. A function that
has no meaning on terms, a branch on one, and a term as a subscript raise MachineError (data-dependent): nothing is ever
taken for a number that is none.

`Cells` are bytes: byte k of a term, or a number. Memory holds them, copies move them, and a load finds the term again
if all its bytes are there in order.

Nothing is simplified but constants (computed as the machine computes them), the order of two operands that may be exchanged
(IEEE 754 and integers, a NaN's payload apart), the same bits read as another type and back, and what moves whole bytes
(`moved_bytes`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mlir_async_pipe.machine.counted_terms import FOLDED, counted, folded, forms
from mlir_async_pipe.machine.term_table import (
    BITS,
    BYTE,
    BYTE_VALUES,
    CAST,
    DOT,
    JOIN,
    PLACES,
    ROW,
    SELECT,
    Operator,
    TermTable,
    bits_of,
    needs_numbers,
)

Array = np.ndarray

_BYTES = (np.dtype(np.uint8), np.dtype(np.int8))
COMMUTATIVE = frozenset(
    "add multiply bitwise_and bitwise_or bitwise_xor equal not_equal logical_and logical_or "
    "maximum minimum fmax fmin".split()
)


class Symbols(np.lib.mixins.NDArrayOperatorsMixin, ABC):
    """An array whose elements are data: `inner` holds their numbers in `table`.

    A view of terms as another type of the same size is made when it is asked for: a register holds the bits of a number, which the
    next op takes as that again. `of` is what it is a view of, until then."""

    def __init__(
        self, table: TermTable, inner: Any, dtype: Any, base: Any = None, of: Terms | None = None
    ) -> None:
        self.table, self._inner, self.dtype = table, inner, np.dtype(dtype)
        self.base, self.of = base, of

    @property
    def inner(self) -> Array:
        if self.of is not None:
            self._inner, self.of = self.table.bitcast(self.of.inner, self.dtype), None
        return self._inner

    def with_inner(self, inner: Any) -> Any:
        return type(self)(self.table, np.asarray(inner), self.dtype)

    @abstractmethod
    def terms(self) -> Terms: ...

    @abstractmethod
    def lifted(self, value: Any) -> Array:
        """Any value as elements of this array."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self._inner.shape if self.of is None else self.of.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def moved(self, function: Callable[[Array], Array]) -> Any:
        """The same elements, at other places."""
        if self.of is not None:
            return self.of.moved(function).view(self.dtype)
        return self.with_inner(function(self._inner))

    @property
    def T(self) -> Any:
        return self.moved(np.transpose)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if self.of is not None:
            return self.of[key].view(self.dtype)
        found = self.with_inner(self._inner[_subscript(key)])
        found.base = self if self.base is None else self.base
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.inner[_subscript(key)] = self.lifted(value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.asarray(self.numbers(), dtype)

    def numbers(self, what: str = "what is asked for") -> Array:
        """The elements as numbers; raises MachineError (data-dependent) where they are none."""
        terms = self.terms()
        if not terms.table.is_constant(terms.inner).all():
            raise needs_numbers(what)
        return terms.table.numbers(terms.inner, self.dtype)

    def __bool__(self) -> bool:
        return bool(self.numbers("a branch"))

    def __int__(self) -> int:
        return int(self.numbers("a count, or an address,"))

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.numbers())

    def any(self, axis: Any = None) -> Any:
        return self.numbers("a branch").any(axis=axis)

    def all(self, axis: Any = None) -> Any:
        return self.numbers("a branch").all(axis=axis)

    def max(self, axis: Any = None) -> Any:
        return self.numbers("a count").max(axis=axis)

    def min(self, axis: Any = None) -> Any:
        return self.numbers("a count").min(axis=axis)

    def tolist(self) -> Any:
        return self.numbers().tolist()

    def tobytes(self) -> bytes:
        """Equal for equal elements."""
        return self.terms().inner.tobytes()

    def reshape(self, *shape: Any) -> Any:
        return self.moved(lambda inner: inner.reshape(*shape))

    def swapaxes(self, one: int, other: int) -> Any:
        return self.moved(lambda inner: inner.swapaxes(one, other))

    def copy(self) -> Any:
        return self.moved(np.copy)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        wanted = np.dtype(dtype)
        return self if wanted == self.dtype else self.terms().converted(wanted)

    @abstractmethod
    def view(self, dtype: Any = None) -> Any:
        """The same bits as another type; of another size, along the last axis."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or any(value is not None for value in kwargs.values()):
            return _of_numbers(getattr(ufunc, method), inputs, kwargs)
        return apply(self.table, ufunc, inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = _FUNCTIONS.get(function)
        if handler is None:
            return _of_numbers(function, args, kwargs)
        return handler(self.table, *args, **kwargs)


class Terms(Symbols):
    """An array of terms: `inner` has their numbers, `dtype` says what one is computed in."""

    def terms(self) -> Terms:
        return self

    def lifted(self, value: Any) -> Array:
        return lift(self.table, value, self.dtype)

    def settled(self) -> Any:
        """The numbers, if all are."""
        constant = self.table.is_constant(self.inner)
        return self.table.numbers(self.inner, self.dtype) if constant.all() else self

    def converted(self, dtype: np.dtype) -> Any:
        if dtype.hasobject:
            raise TypeError("Python's integers")
        table = self.table
        whole = self.dtype.kind in "iu" and dtype.kind in "iu"
        if whole and self.dtype.itemsize == dtype.itemsize:
            return Terms(table, table.bitcast(self.inner, dtype), dtype)
        number = _counted(table, CAST, dtype, [self.dtype], [self])
        if number is not None:
            return number
        return _folded(table, CAST, dtype, (self,), lambda values: values.astype(dtype, copy=False))

    def view(self, dtype: Any = None) -> Any:
        if dtype is None:
            return Terms(self.table, self._inner, self.dtype, self.base, self.of)
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        if self.of is not None:
            return self.of.view(wanted)
        if wanted.itemsize == self.dtype.itemsize and wanted not in _BYTES:
            return Terms(self.table, None, wanted, of=self)
        size = self.dtype.itemsize
        cells = self.table.cells_of(self.inner, size)
        flat = cells.reshape(*self.shape[:-1], size * self.shape[-1]) if self.ndim else cells
        return Cells(self.table, flat, np.uint8).view(wanted)

    def decoded(self, name: str, dtype: np.dtype, compute: Callable[[Array], Array]) -> Any:
        """Values of a type that NumPy lacks, from their bits: of those that were encoded, what they were; of numbers
        what `compute` makes of them."""
        if name == "i1":
            ids = self.table.bitcast(self.inner, dtype)
            made = self.table.has_dtype(ids, dtype) & ~self.table.named(BITS)[self.table.code[ids]]
            return Terms(self.table, ids, dtype) if made.all() else self != 0
        return self._undone(f"encode {name}", f"decode {name}", dtype, compute)

    def encoded(self, name: str, stored: np.dtype, compute: Callable[[Array], Array]) -> Terms:
        """The bits of values of a type that NumPy lacks."""
        return self._undone(f"decode {name}", f"encode {name}", stored, compute)

    def _undone(
        self, inverse: str, name: str, dtype: np.dtype, compute: Callable[[Array], Array]
    ) -> Terms:
        table, ids = self.table, self.inner.copy()
        known = table.named(inverse)[table.code[ids]]
        ids[known] = table.operand(ids[known], 0)
        self._apply(ids, name, dtype, ~known, compute)
        return Terms(table, table.bitcast(ids, dtype), dtype)

    def _apply(
        self,
        ids: Array,
        name: str,
        dtype: np.dtype,
        chosen: Array,
        compute: Callable[[Array], Array],
    ) -> None:
        """Put a function of the chosen elements in their places; of constants what it computes."""
        constant = chosen & self.table.is_constant(ids)
        if constant.any():
            numbers = self.table.numbers(ids[constant], self.dtype)
            ids[constant] = self.table.constants(np.asarray(compute(numbers)).astype(dtype))
        others = chosen & ~constant
        if others.any():
            ids[others] = self.table.make(name, dtype, ids[others])

    def kept(self, name: str, compute: Callable[[Array], Array]) -> Terms:
        """What a rounding makes of values; of those that it made, or that were decoded, the same."""
        rounded = f"round {name}"
        made = self.table.named(rounded) | self.table.named(f"decode {name}")
        ids = self.inner.copy()
        self._apply(ids, rounded, self.dtype, ~made[self.table.code[ids]], compute)
        return Terms(self.table, ids, self.dtype)


class Cells(Symbols):
    """An array of bytes: byte k of term t is 8 t + k, a number n is n - 256."""

    def terms(self) -> Terms:
        return Terms(self.table, self.table.join(self.inner[..., None], self.dtype), self.dtype)

    def lifted(self, value: Any) -> Array:
        return _cells(self.table, value)

    def __getitem__(self, key: Any) -> Any:
        arrays = self.table.long_arrays
        if arrays is not None and arrays.in_arrays(key) is not None:
            return self.with_inner(arrays.load(self, key))
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        arrays = self.table.long_arrays
        if arrays is not None and arrays.in_arrays(key) is not None:
            arrays.store(self, key, self.lifted(value))
        else:
            super().__setitem__(key, value)

    def settled(self) -> Any:
        """The numbers, if all are."""
        if (self.inner >= 0).any():
            return self
        return (self.inner + BYTE_VALUES).astype(np.uint8).view(self.dtype)

    def view(self, dtype: Any = None) -> Any:
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        if wanted in _BYTES:
            return Cells(self.table, self.inner, wanted, self.base)
        size = wanted.itemsize
        grouped = self.inner.reshape(*self.shape[:-1], self.shape[-1] // size, size)
        if (grouped < 0).all():
            raw = (grouped + BYTE_VALUES).astype(np.uint8)
            return np.ascontiguousarray(raw).view(wanted)[..., 0]
        whole = self._whole(grouped)
        if whole is not None:
            return whole.view(wanted)
        return Terms(self.table, self.table.join(grouped, wanted), wanted)

    def _whole(self, grouped: Array) -> Terms | None:
        """The terms whose bytes these are, if all are of one type that has so many."""
        first, size, table = grouped[..., 0], grouped.shape[-1], self.table
        if (grouped != first[..., None] + np.arange(size)).any() or (first % (1 << PLACES)).any():
            return None
        if (first < 0).any() or not first.size:
            return None
        codes = table.code[ids := first >> PLACES]
        one = codes.flat[0]
        if table.item_bytes[one] != size or (table.dtypes[codes] != table.dtypes[one]).any():
            return None
        return Terms(table, ids, table.operators[one].dtype)


def is_symbolic(value: Any) -> bool:
    return isinstance(value, Symbols)


def is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, Symbols))


def as_array(value: Any) -> Any:
    """`np.asarray` that leaves data as it is."""
    return value if isinstance(value, Symbols) else np.asarray(value)


def contiguous(value: Any, dtype: Any = None) -> Any:
    """A contiguous array of the same shape; data stays as it is."""
    if isinstance(value, Symbols):
        return value if dtype is None else value.astype(dtype)
    return np.asarray(value, dtype, order="C")


def identities(value: Any) -> Array:
    """An array of integers that are equal where elements are, bit for bit."""
    return value.terms().inner if isinstance(value, Symbols) else bits_of(value)


def room_for(held: Any, value: Any) -> Any:
    """A copy of an array into which a value can be put, be it data."""
    if not is_symbolic(value) or is_symbolic(held):
        return held.copy()
    made = np.zeros_like(value, shape=held.shape, dtype=held.dtype)
    made[...] = held
    return made


def opaque(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is not looked into: of data it is a term by its name."""

    def of(*values: Any) -> Any:
        table = next((value.table for value in values if isinstance(value, Symbols)), None)
        if table is None:
            return function(*values)
        operands = tuple(Terms(table, lift(table, v, v.dtype), v.dtype) for v in values)
        dtype = np.asarray(function(*(np.ones(1, v.dtype) for v in values))).dtype
        return _folded(table, name, dtype, operands, function)

    return of


def inputs(table: TermTable, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of data: element n is the term `name`[n]."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    found = Terms(table, table.make(name, kind, np.arange(count)).reshape(shape), kind)
    return found.view(kind) if kind in _BYTES else found


def memory_cells(table: TermTable, size: int, filled: int) -> Cells:
    """Memory of so many bytes that are all one number."""
    return Cells(table, np.full(size, filled - BYTE_VALUES, np.int64), np.uint8)


# Functions of them --------------------------------------------------------------------------


def lift(table: TermTable, value: Any, dtype: np.dtype) -> Array:
    """Any value as terms of a type, converted as NumPy does."""
    if isinstance(value, Symbols):
        return (
            lift(table, value.astype(dtype), dtype) if value.dtype != dtype else value.terms().inner
        )
    return table.constants(np.asarray(value).astype(dtype))


def _cells(table: TermTable, value: Any) -> Array:
    if isinstance(value, Cells):
        return value.inner
    if isinstance(value, Terms):
        return table.cells_of(value.astype(np.uint8).terms().inner, 1)[..., 0]
    return np.asarray(value).astype(np.uint8).astype(np.int64) - BYTE_VALUES


def _subscript(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_subscript(part) for part in key)
    return key.numbers("an address") if isinstance(key, Symbols) else key


def _of_numbers(function: Any, args: Any, kwargs: Any) -> Any:
    """A function without a meaning on data: its operands must be numbers."""
    name = getattr(function, "__name__", str(function))

    def number(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(number, value))
        return (
            value.numbers(f"what np.{name} is asked for") if isinstance(value, Symbols) else value
        )

    return function(*map(number, args), **{key: number(value) for key, value in kwargs.items()})


def _of_floats(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """The larger one, or the smaller, of floating-point numbers: of two zeros NumPy gives either, by the lane in which they are."""
    is_largest = ufunc in (np.maximum, np.fmax)

    def extreme(one: Any, other: Any) -> Any:
        found = ufunc(one, other)
        if is_symbolic(found) or found.dtype.kind != "f" or found.all():
            return found
        zero = one + other if is_largest else -(-one - other)
        return np.where((one == 0) & (other == 0), zero, found)

    return extreme


# -0.0 is less than 0.0 (IEEE 754-2019, maximum and maximumNumber; PTX ISA, max), so that operands may be exchanged.
EXTREMES: dict[Any, Callable[[Any, Any], Any]] = {
    ufunc: _of_floats(ufunc) for ufunc in (np.maximum, np.minimum, np.fmax, np.fmin)
}


@lru_cache(maxsize=4096)
def _types(ufunc: np.ufunc, given: tuple[Any, ...]) -> tuple[np.dtype, ...]:
    """The types that a ufunc computes in and gives."""
    return tuple(ufunc.resolve_dtypes((*given, *[None] * ufunc.nout)))


def apply(table: TermTable, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    given = tuple(type(x) if type(x) in (int, float) else as_array(x).dtype for x in inputs)
    *types, result = _types(ufunc, given)
    if ufunc is np.matmul:
        return _product(table, inputs, result)
    number = _counted(table, ufunc.__name__, result, types, inputs)
    if number is not None:
        return number
    operands = tuple(
        Terms(table, lift(table, value, dtype), dtype)
        for value, dtype in zip(inputs, types, strict=True)
    )
    return _folded(table, ufunc.__name__, result, operands, EXTREMES.get(ufunc, ufunc))


def _folded(
    table: TermTable,
    name: str,
    dtype: np.dtype,
    operands: tuple[Terms, ...],
    compute: Callable[..., Any],
) -> Any:
    """Terms of an operator; of constants what it computes."""
    columns = [operand.inner for operand in operands]
    if any(column.shape != columns[0].shape for column in columns):
        columns = list(np.broadcast_arrays(*columns))
    shape, types = columns[0].shape, [operand.dtype for operand in operands]
    flat = [column.reshape(-1) for column in columns]
    constant = np.logical_and.reduce([table.is_constant(column) for column in flat])
    if name in COMMUTATIVE:
        flat = [np.minimum(*flat), np.maximum(*flat)]
    if not constant.any():
        return Terms(table, _unfolded(table, name, dtype, types, flat).reshape(shape), dtype)
    numbers = [
        table.numbers(column[constant], kind) for column, kind in zip(flat, types, strict=True)
    ]
    computed = np.asarray(compute(*numbers)).astype(dtype, copy=False)
    if constant.all():
        return computed.reshape(shape)
    made = np.empty(len(constant), np.int64)
    made[constant] = table.constants(computed)
    made[~constant] = _unfolded(table, name, dtype, types, [one[~constant] for one in flat])
    return Terms(table, made.reshape(shape), dtype)


def _unfolded(
    table: TermTable, name: str, dtype: np.dtype, types: list[np.dtype], columns: list[Array]
) -> Array:
    """Terms of an operator on operands of which not all are constants: what only moves bytes is what it moves."""
    if name not in _MOVERS or dtype.kind not in "iu":
        return table.make(name, dtype, *columns)
    moved, known = moved_bytes(table, name, dtype, types, columns)
    if not known.all():
        moved[~known] = table.make(name, dtype, *(column[~known] for column in columns))
    return moved


def made_again(table: TermTable, operator: Operator, columns: Array) -> Array:
    """The terms of an operator, a row of other operands each."""
    if operator.name == BITS:
        return table.bitcast(columns[:, 0], operator.dtype)
    if operator.name in (JOIN, BYTE):
        return table.join(columns, operator.dtype)
    if operator.name in COMMUTATIVE:
        columns = np.sort(columns, axis=1)
    return table.make_rows(operator.name, operator.dtype, columns)


def _counted(
    table: TermTable, name: str, dtype: np.dtype, types: Sequence[np.dtype], values: Sequence[Any]
) -> Any:
    """An operator on integers that depend on how many iterations there are; None where that gives no such integer."""
    if table.long_arrays is None or name not in FOLDED or any(isinstance(v, Cells) for v in values):
        return None
    if any(kind.kind not in "iub" for kind in (dtype, *types)):
        return None
    rows = []
    for value, kind in zip(values, types, strict=True):
        if isinstance(value, Terms):
            found, known = forms(table, lift(table, value, kind))
            if not known.all():
                return None
        else:
            numbers = np.asarray(value).astype(kind)
            found = np.zeros((*numbers.shape, 3), np.int64)
            found[..., 0] = numbers
        rows.append(found)
    operands = np.broadcast_arrays(*rows)
    shape = operands[0].shape[:-1]
    made, known = folded(table, name, dtype, types, [one.reshape(-1, 3) for one in operands])
    if not known.all():
        return None
    if not made[:, 1:].any():
        return made[:, 0].astype(dtype).reshape(shape)
    return Terms(table, counted(table, dtype, made).reshape(shape), dtype)


def _product(table: TermTable, inputs: Sequence[Any], dtype: np.dtype) -> Terms:
    """A matrix product: for each element the sum of products in order, as one term of a row and a column."""
    left, right = (lift(table, value, dtype) for value in inputs)
    right = np.swapaxes(right, -1, -2)
    operands = np.concatenate([side.reshape(-1, side.shape[-1]) for side in (left, right)])
    ids = table.make_rows(ROW, dtype, operands)
    rows = ids[: math.prod(left.shape[:-1])].reshape(*left.shape[:-1], 1)
    columns = ids[rows.size :].reshape(*right.shape[:-2], 1, -1)
    return Terms(table, table.make(DOT, dtype, rows, columns), dtype)


def _common(table: TermTable, values: Sequence[Any]) -> tuple[list[Array], Callable[[Array], Any]]:
    """Values of one type, lifted, and how to make an array of them again."""
    if not any(isinstance(value, Terms) for value in values):
        kinds = {value.dtype for value in values if isinstance(value, Cells)}
        plain = [value for value in values if not isinstance(value, Cells)]
        if len(kinds) == 1 and all(type(v) is int or as_array(v).dtype in _BYTES for v in plain):
            (kind,) = kinds
            return [_cells(table, value) for value in values], lambda inner: Cells(
                table, inner, kind
            )
    dtype = np.result_type(
        *(value if type(value) in (int, float) else as_array(value).dtype for value in values)
    )
    return [lift(table, value, dtype) for value in values], lambda inner: Terms(table, inner, dtype)


def _where(table: TermTable, condition: Any, yes: Any, no: Any) -> Any:
    """A select, which is one of two elements where the condition is a number, and a term where it is data."""
    (one, other), wrap = _common(table, (yes, no))
    if not isinstance(condition, Symbols):
        return wrap(np.where(condition, one, other)).settled()
    made = wrap(one)
    if isinstance(made, Cells):
        return _where(
            table,
            condition,
            yes.terms() if is_symbolic(yes) else yes,
            no.terms() if is_symbolic(no) else no,
        )
    chosen, one, other = np.broadcast_arrays(lift(table, condition, np.dtype(np.bool_)), one, other)
    result = np.where(one == other, one, table.make(SELECT, made.dtype, chosen, one, other))
    constant = table.is_constant(chosen)
    if constant.any():
        numbers = np.zeros(chosen.shape, np.bool_)
        numbers[constant] = table.numbers(chosen[constant], np.dtype(np.bool_))
        result = np.where(constant, np.where(numbers, one, other), result)
    return Terms(table, result, made.dtype).settled()


def _on_first(function: Any) -> Any:
    """A function that only moves elements of its first operand."""

    def moved(table: TermTable, value: Any, *args: Any, **kwargs: Any) -> Any:
        return value.moved(lambda inner: function(inner, *args, **kwargs))

    return moved


def _on_list(function: Any) -> Any:
    """A function that only moves elements of a list of arrays."""

    def moved(table: TermTable, values: Any, *args: Any, **kwargs: Any) -> Any:
        inner, wrap = _common(table, list(values))
        return wrap(function(inner, *args, **kwargs))

    return moved


def _broadcast(table: TermTable, *values: Any, **kwargs: Any) -> Any:
    shape = np.broadcast_shapes(*(as_array(value).shape for value in values))
    return tuple(np.broadcast_to(value, shape) for value in values)


def _filled_like(number: int) -> Any:
    """An array of one number that can hold what the prototype holds."""

    def filled(
        table: TermTable, prototype: Any, *given: Any, dtype: Any = None, shape: Any = None
    ) -> Any:
        kind = prototype.dtype if dtype is None else np.dtype(dtype)
        extent = prototype.shape if shape is None else shape
        value = np.array(given[0] if given else number).astype(kind)
        if kind in _BYTES:
            return Cells(table, np.full(extent, _cells(table, value.view(np.uint8))), kind)
        return Terms(table, np.full(extent, table.constants(value)), kind)

    return filled


def _einsum(table: TermTable, formula: str, left: Any, right: Any, **kwargs: Any) -> Any:
    """Sums of products over the letters that the result lacks; "..." are the lanes.

    "...ik,...kj->...ij" is a product of matrices, and all others are brought into that form.
    """
    operands, result = formula.split("->")
    names, others = (part.removeprefix("...") for part in operands.split(","))
    result = result.removeprefix("...")
    shared = [letter for letter in names if letter in others]
    batch, summed = ([x for x in shared if (x in result) == kept] for kept in (True, False))
    free = [letter for letter in names if letter not in shared]
    last = [letter for letter in others if letter not in shared]
    if any(letter not in result for letter in free + last):
        raise needs_numbers(f"a sum of one operand alone, as in '{formula}',")
    sizes = {
        letter: extent
        for text, value in ((names, left), (others, right))
        for letter, extent in zip(text, value.shape[1:], strict=True)
    }

    def matrices(value: Any, text: str, *groups: list[str]) -> Any:
        order = [1 + text.index(letter) for group in groups for letter in group]
        extents = [int(np.prod([sizes[letter] for letter in group], dtype=int)) for group in groups]
        return np.transpose(value, (0, *order)).reshape(len(value), *extents)

    product = np.matmul(
        matrices(left, names, batch, free, summed), matrices(right, others, batch, summed, last)
    )
    order = [*batch, *free, *last]
    whole = product.reshape(len(product), *(sizes[letter] for letter in order))
    return np.transpose(whole, (0, *(1 + order.index(letter) for letter in result)))


_FUNCTIONS: dict[Any, Any] = {
    np.where: _where,
    np.broadcast_arrays: _broadcast,
    np.array_equal: lambda table, one, other, **kwargs: (
        one.shape == other.shape and bool((identities(one) == identities(other)).all())
    ),
    np.clip: lambda table, value, low, high, **kwargs: np.minimum(np.maximum(value, low), high),
    np.einsum: _einsum,
    np.zeros_like: _filled_like(0),
    np.empty_like: _filled_like(0),
    np.ones_like: _filled_like(1),
    np.full_like: _filled_like(0),
    np.shape: lambda table, value: value.shape,
    np.ndim: lambda table, value: value.ndim,
    **{
        function: _on_first(function)
        for function in (
            np.broadcast_to, np.reshape, np.moveaxis, np.transpose, np.swapaxes, np.expand_dims,
            np.squeeze, np.repeat, np.ravel, np.copy, np.atleast_1d,
        )
    },
    **{function: _on_list(function) for function in (np.stack, np.concatenate, np.column_stack)},
}  # fmt: skip


# Operators on integers that only move whole bytes of data ------------------------------------
#
#     i32(u16(x)) | (i32(u16(y)) << 16)   =   bytes 0 and 1 of x, then 0 and 1 of y
#     u16((that) >> 16)                   =   y
#
# Two halves in one register are written so in machine code, and as a vector in MLIR: both are the same bytes.

_ZERO, _ONES = -BYTE_VALUES, 255 - BYTE_VALUES


def moved_bytes(
    table: TermTable,
    name: str,
    dtype: np.dtype,
    types: Sequence[np.dtype],
    columns: Sequence[Array],
) -> tuple[Array, Array]:
    """Terms of an operator with these operands, element by element, and where they are known: where each byte of the
    result is a byte of an operand, or a number."""
    mover = _MOVERS.get(name)
    if mover is None or dtype.kind not in "iu" or any(kind.kind not in "iu" for kind in types):
        count = len(columns[0])
        return np.empty(count, np.int64), np.zeros(count, np.bool_)
    cells = [
        table.cells_of(column, kind.itemsize) for column, kind in zip(columns, types, strict=True)
    ]
    moved, known = mover(dtype, types[0], *cells)
    terms = np.empty(len(known), np.int64)
    terms[known] = table.join(moved[known], dtype)
    return terms, known


def _cast(dtype: np.dtype, of: np.dtype, cells: Array) -> tuple[Array, Array]:
    size, wanted = cells.shape[1], dtype.itemsize
    everywhere = np.full(len(cells), wanted <= size or of.kind == "u")
    zeros = np.full((len(cells), max(wanted - size, 0)), _ZERO)
    return np.concatenate([cells[:, :wanted], zeros], axis=1), everywhere


def _shift_left(dtype: np.dtype, of: np.dtype, cells: Array, amount: Array) -> tuple[Array, Array]:
    return _shifted(cells, amount, 1)


def _shift_right(dtype: np.dtype, of: np.dtype, cells: Array, amount: Array) -> tuple[Array, Array]:
    # Of signed integers copies of the sign come in.
    moved, known = _shifted(cells, amount, -1)
    return moved, known & (of.kind == "u")


def _shifted(cells: Array, amount: Array, direction: int) -> tuple[Array, Array]:
    """By a number of bytes, upwards or downwards; the lowest byte says how many bits."""
    size = cells.shape[1]
    bits = amount[:, 0] + BYTE_VALUES
    known = (amount < 0).all(axis=1) & (amount[:, 1:] == _ZERO).all(axis=1)
    known &= (bits % 8 == 0) & (bits < 8 * size)
    source = np.arange(size) - direction * np.where(known, bits // 8, 0)[:, None]
    inside = (source >= 0) & (source < size)
    moved = np.take_along_axis(cells, np.clip(source, 0, size - 1), axis=1)
    return np.where(inside, moved, _ZERO), known


def _and(dtype: np.dtype, of: np.dtype, one: Array, other: Array) -> tuple[Array, Array]:
    return _chosen([(one == _ZERO, one), (other == _ZERO, other), (one == _ONES, other), (other == _ONES, one)])  # fmt: skip


def _or(dtype: np.dtype, of: np.dtype, one: Array, other: Array) -> tuple[Array, Array]:
    return _chosen([(one == _ZERO, other), (other == _ZERO, one)])


def _chosen(cases: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The first case that holds, byte by byte, and for which elements each byte has one."""
    conditions, values = zip(*cases, strict=True)
    return np.select(conditions, values), np.logical_or.reduce(conditions).all(axis=1)


_MOVERS: dict[str, Callable[..., tuple[Array, Array]]] = {
    CAST: _cast,
    "left_shift": _shift_left,
    "right_shift": _shift_right,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _or,
}
