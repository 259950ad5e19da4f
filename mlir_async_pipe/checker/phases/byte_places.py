"""Where a view, a pointer or an access lies in its root, in bytes.

    %t = memref.subview %ring[%slot, 0, 0] …   %slot = 2: bytes 32768 to 49151 of %ring
    memref.load %ring[%slot, %tid, %c]         %slot = 2: the same, for no thread leaves its slot

A place that threads or unknown numbers decide is the interval of all it may be. Subscripts stay
within their dimensions, as MLIR demands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, defining_op
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases import amounts
from mlir_async_pipe.checker.phases.amounts import (
    Amount,
    EachThread,
    address_of,
    is_address,
    of_array,
)
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge, mentions
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.sums import Interval
from mlir_async_pipe.facts.values.views import Operand, ViewStep, beginning, reached
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_bytes,
    offset_bytes,
    strides_and_bytes,
)
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    ADDRESS_OPS,
    MEMBER_TAKEN,
    POINTER_OF_ADDRESS,
    POINTER_STEPS,
    VIEW_OPS,
    position_of,
)
from mlir_async_pipe.vocabulary.rows import Share

# Members of a memref's descriptor: two pointers, an offset, sizes and strides.
_OFFSET = 2


class BytePlace(NamedTuple):
    """A view's first element: from byte `low` to byte `high` of `root` (None: anywhere in it).
    `base` is the byte of its aligned pointer, from which a reinterpret_cast counts. `each`: the byte of each thread,
    where a pointer is another one in some of them."""

    root: int
    low: int | None
    high: int | None
    base: int | None = 0
    each: EachThread | None = None


class OfRanks(NamedTuple):
    """A place in the block of the cluster that each thread names: some threads, and theirs."""

    parts: tuple[tuple[int, BytePlace], ...]


def _of_threads(root: int, at: int | EachThread) -> BytePlace:
    if isinstance(at, int):
        return BytePlace(root, at, at, at)
    numbers = at.numbers
    return BytePlace(root, int(numbers.min()), int(numbers.max()), None, at)


class ByteRange(NamedTuple):
    """The bytes from `low` up to `high` of `root` (None: all of it); `exact`: each is certainly touched."""

    root: int
    low: int | None = None
    high: int | None = None
    exact: bool = False
    # What an author asserts of it: regions of one number meet only where that is sure.
    asserted: int | None = None


# Sums that decide on one value: a ring's beginning, and what another role is ahead by.
MOST_INDICES = 2
# The number of tiles after which a ring has begun (`rotations`), modulo what it repeats after.
BEGINNING = forms.of_atom(Atom("beginning", ()))


@dataclass(frozen=True)
class EachRotation:
    """A value for each residue of some sums, the `indices`; those of the last one are next to each other."""

    indices: tuple[Form, ...]
    values: tuple[Any, ...]
    period: int

    @cached_property
    def _hash(self) -> int:
        return hash((self.indices, self.values))

    def __hash__(self) -> int:
        return self._hash

    def at(self, residues: Mapping[Form, int]) -> Any:
        place = 0
        for index in self.indices:
            place = place * self.period + residues[index]
        return self.values[place]


@dataclass(frozen=True)
class Asked:
    """What the op `test` answered, or what is made of that: the first of two values for no. Yes means that a
    phase of an mbarrier is over, and each thread may have got another answer."""

    test: int
    mbarrier: tuple[int, int]
    phase: int
    values: tuple[Any, Any] = (0, 1)


Value = Amount | BytePlace | OfRanks | ByteRange | EachRotation | Asked
"""A number, or a place; a range of bytes is a descriptor of products."""


def with_answers(function: Callable[[list[Any]], Any], values: Sequence[Value]) -> Value:
    """What a function gives of some values, whatever one test answered; None of several tests."""
    tests = {replace(value, values=(0, 1)) for value in values if isinstance(value, Asked)}
    if len(tests) != 1:
        return None
    no, yes = (
        function([value.values[answer] if isinstance(value, Asked) else value for value in values])
        for answer in (0, 1)
    )
    return no if no == yes else replace(tests.pop(), values=(no, yes))


@lru_cache(maxsize=1 << 12)
def of_each(indices: tuple[Form, ...], values: tuple[Any, ...], period: int) -> Value:
    """What has these values: one if all are the same, of one sum if that decides.

    slot(i) + n mod 2V, if that is slot(i + n)        a number for each residue of i + n
    """
    if len(set(values)) == 1:
        return values[0]
    constants = [index.constant % period for index in indices]
    if any(constants) or any(index.constant for index in indices):
        indices = tuple(Form(0, index.terms) for index in indices)
        places = product(*(_from(first, period) for first in constants))
        at = [sum(n * period**k for k, n in enumerate(reversed(place))) for place in places]
        return of_each(indices, tuple([values[place] for place in at]), period)
    for number, index in enumerate(indices):
        if not index.terms:
            rest = (*indices[:number], *indices[number + 1 :])
            size = period ** (len(rest) - number)
            parts = [values[n : n + size] for n in range(0, len(values), size * period)]
            chosen = tuple(chain.from_iterable(parts))
            return of_each(rest, chosen, period) if rest else chosen[0]
    if len(indices) == 2:
        rows = [values[n : n + period] for n in range(0, len(values), period)]
        first = tuple(row[0] for row in rows)
        if indices[0] == indices[1]:
            return of_each(indices[:1], tuple(row[n] for n, row in enumerate(rows)), period)
        if len(set(rows)) == 1:
            return of_each(indices[1:], rows[0], period)
        if all(len(set(row)) == 1 for row in rows):
            return of_each(indices[:1], first, period)
        if all(row == first[n:] + first[:n] for n, row in enumerate(rows)):
            return of_each((forms.add(*indices),), first, period)
    return EachRotation(indices, values, period)


def for_each(function: Callable[[list[Any]], Any], values: Sequence[Value]) -> Value:
    """What a function gives of each that some values may be. Raises NotFollowedError where too many sums decide."""
    each = [value for value in values if isinstance(value, EachRotation)]
    indices = tuple(dict.fromkeys(index for value in each for index in value.indices))
    if not each:
        return function(list(values))
    if len(indices) > MOST_INDICES:
        raise NotFollowedError("unknown-number")
    period, made = each[0].period, []
    for at in product(range(period), repeat=len(indices)):
        residues = dict(zip(indices, at, strict=True))
        made.append(function([value_at(value, residues) for value in values]))
    return of_each(indices, tuple(made), period)


def value_at(value: Value, residues: Mapping[Form, int]) -> Value:
    return value.at(residues) if isinstance(value, EachRotation) else value


def gathered(parts: list[tuple[int, Value]], whole: int) -> Value:
    masks, values = [mask for mask, _ in parts], [value for _, value in parts]
    return for_each(
        lambda each: amounts.gathered(list(zip(masks, each, strict=True)), whole), values
    )


@lru_cache(maxsize=1 << 12)
def among(value: EachThread | EachRotation | BytePlace | OfRanks, mask: int) -> Value:
    if isinstance(value, OfRanks):
        parts = tuple((mine & mask, place) for mine, place in value.parts if mine & mask)
        return parts[0][1] if [mine for mine, _ in parts] == [mask] else OfRanks(parts)
    if isinstance(value, EachThread):
        return amounts.among(value, mask)
    if isinstance(value, BytePlace):
        return (
            value
            if value.each is None
            else _of_threads(value.root, amounts.among(value.each, mask))
        )
    return for_each(
        lambda each: among(each[0], mask) if isinstance(each[0], EachThread) else each[0], [value]
    )


def _from(first: int, period: int) -> list[int]:
    return [(first + n) % period for n in range(period)]


@lru_cache(maxsize=1 << 12)
def rotated(value: Value, by: int) -> Value:
    """The same, of a ring that begins `by` tiles later."""
    ((beginning, _),) = BEGINNING.terms
    return with_indices(
        value, lambda index: forms.add(index, Form(by * dict(index.terms).get(beginning, 0)))
    )


def with_indices(value: Value, change: Callable[[Form], Form | None]) -> Value:
    """The same, where each sum that decides is written differently; None where that is not known."""
    if not isinstance(value, EachRotation):
        return value
    indices = [index for index in map(change, value.indices) if index is not None]
    if len(indices) < len(value.indices):
        return None
    return of_each(tuple(indices), value.values, value.period)


def is_made_of(value: Value, atom: Atom) -> bool:
    """Whether an unknown decides on a value."""
    if isinstance(value, EachRotation):
        return any(mentions(index, atom) for index in value.indices)
    return isinstance(value, Form) and mentions(value, atom)


def settled(value: Value, known: Knowledge) -> Value:
    """A value by the sums that are not known: k tiles after a ring began, where k is 3, are 3."""
    if not isinstance(value, EachRotation) or value.indices == (BEGINNING,):
        return value

    def now(index: Form) -> Form:
        beginnings = frozenset(term for term in index.terms if term in BEGINNING.terms)
        low, high = known.bounds(Form(0, index.terms - beginnings))
        return Form(low, beginnings) if low is not None and low == high else index

    return with_indices(value, now)


def meet(one: ByteRange, other: ByteRange) -> bool:
    """Whether two regions may share a byte: of one root, or of two that may be one memory."""
    vouched = one.asserted is not None and one.asserted == other.asserted
    if one.root != other.root:
        return not vouched and max(one.root, other.root) < 0 and _family(one) == _family(other)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return not vouched
    close = one.low < other.high and other.low < one.high
    return close and (not vouched or must_meet(one, other))


def must_meet(one: ByteRange, other: ByteRange) -> bool:
    return one.root == other.root and (
        (one.exact and (other.exact or _within(other, one)))
        or (other.exact and _within(one, other))
    )


# Roots of one family, at most, and among them those of tensor maps.
_FAMILY = 1 << 20
_OF_MAPS = 1 << 19


def global_root(family: int, number: int, *, of_maps: bool) -> int:
    """A root of global memory that tensor copies may touch, or of their maps; those of one family may be one memory."""
    return -1 - (family * _FAMILY + number + of_maps * _OF_MAPS)


def is_map(region: ByteRange) -> bool:
    """Whether bytes are of tensor maps by which the kernel copies."""
    return region.root < 0 and bool(-1 - region.root & _OF_MAPS)


def _family(region: ByteRange) -> int:
    return (-1 - region.root) // _FAMILY


def _within(part: ByteRange, whole: ByteRange) -> bool:
    """Whether all that a region may be lies in another one."""
    if part.low is None or part.high is None or whole.low is None or whole.high is None:
        return False
    return whole.low <= part.low and part.high <= whole.high


def root_place(root: int, kind: Any) -> BytePlace:
    memref = as_kind(ir.MemRefType, kind)
    start = None if memref is None else offset_bytes(memref)
    start = 0 if str(kind).startswith("!llvm.ptr") else start
    return BytePlace(root, start, start)


def value_of(op: Any, operands: Sequence[Value]) -> Value:
    """What an op that names memory gives: a place, or an address as a number."""
    source = operands[0]
    if op.name == POINTER_OF_ADDRESS:
        return source if isinstance(source, BytePlace) else _from_address(source)
    if not isinstance(source, BytePlace):
        return None
    if op.name in ADDRESS_OPS:
        start = source.base if op.name == ADDRESS_OF_MEMREF else source.low
        known = start is not None and (source.low == source.high or start == source.base)
        return address_of(source.root, start) if known and start is not None else None
    try:
        if op.name == MEMBER_TAKEN:
            return _of_descriptor(op, source)
        return _begun(op, source, operands)
    except UnknownLayoutError:
        return BytePlace(source.root, None, None, None)


def _of_descriptor(op: Any, source: BytePlace) -> Value:
    """A member of a memref's descriptor: its pointers lead to where the allocation begins, and what
    comes then is the number of elements from there to the first one."""
    position, *inner = position_of(op)
    made = defining_op(op.operands[0])
    if made is None or made.name not in CAST_OPS or inner:
        return None
    if position < _OFFSET:
        return BytePlace(source.root, source.base, source.base, source.base)
    known = source.low is not None and source.low == source.high and source.base is not None
    if position > _OFFSET or not known:
        return None
    assert source.low is not None and source.base is not None
    return (source.low - source.base) // element_bytes(made.operands[0].type)


def _begun(op: Any, source: BytePlace, operands: Sequence[Value]) -> BytePlace:
    """The place of a view or pointer, whose numbers are known or lie in sums."""
    begin = beginning(op)

    first = (source.base, source.base) if begin.of_aligned else (source.low, source.high)
    low, high = _after(first, begin.steps, operands)
    if VIEW_OPS.get(op.name, "bytes") != "bytes":
        return BytePlace(source.root, low, high, source.base)
    if low != high and op.name in POINTER_STEPS:
        each = _each_after(source, begin.steps, operands)
        if each is not None:
            return _of_threads(source.root, each)
    return BytePlace(source.root, low, high, low if low == high else None)


def _each_after(
    source: BytePlace, steps: Sequence[ViewStep], operands: Sequence[Value]
) -> int | EachThread | None:
    """The byte of each thread that is so many steps after a start; None where one is not known."""
    start = source.each.numbers if source.each is not None else source.low
    if start is None or (source.each is None and source.low != source.high):
        return None
    at = np.asarray(start, np.int64)
    for step in steps:
        amount = step.amount if isinstance(step.amount, int) else operands[step.amount.position]
        if step.stride is None or not isinstance(amount, int | EachThread):
            return None
        number = amount if isinstance(amount, int) else amount.numbers
        at = at + np.asarray(number, np.int64) * (step.stride * step.size)
    return of_array(at)


def _after(start: Interval, steps: Sequence[ViewStep], operands: Sequence[Value]) -> Interval:
    """The byte that is so many steps after a start, from the least to the largest it may be."""

    def of(step: ViewStep) -> Interval | None:
        amount = step.amount if isinstance(step.amount, int) else operands[step.amount.position]
        return _along(_interval(amount, step.last), step)

    return reached(start, steps, of, sums.added) or sums.ANYTHING


def _interval(value: Value, last: int | None) -> Interval | None:
    """The least and the largest number that a value may be; `last`: the largest that stays in bounds."""
    if isinstance(value, int):
        return value, value
    if isinstance(value, EachThread):
        return int(value.numbers.min()), int(value.numbers.max())
    return None if last is None else (0, last)


def _along(amount: Interval | None, step: ViewStep) -> Interval | None:
    if amount == (0, 0):
        return amount
    if amount is None or step.stride is None:
        return None
    return sums.scaled(amount, step.stride * step.size)


def _from_address(number: Value) -> BytePlace | None:
    if not isinstance(number, Form) or not is_address(number):
        return None
    atom, at = amounts.added_to_address(number)
    return _of_threads(int(str(atom.key)), at) if atom.kind == "address" else None


def region_of_view(place: BytePlace, kind: Any) -> ByteRange:
    """All elements of a memref that begins at a place."""
    memref = as_kind(ir.MemRefType, kind)
    if memref is None or place.low is None or place.high is None or not memref.has_static_shape:
        return ByteRange(place.root)
    strides, size = strides_and_bytes(memref) or ([None], 0)
    if None in strides:
        return ByteRange(place.root)
    shape = [int(length) for length in memref.shape]
    span = 1 + sum(
        (length - 1) * stride
        for length, stride in zip(shape, strides, strict=True)
        if stride is not None
    )
    dense = int(np.prod(shape)) == span
    return ByteRange(
        place.root, place.low, place.high + span * size, dense and place.low == place.high
    )


def region_of_access(
    place: BytePlace,
    kind: Any,
    indices: Sequence[Value],
    extent: tuple[int, ...] | None,
    contiguous: bool = False,
) -> ByteRange:
    """The elements from some subscripts on, of all threads that access them."""
    if extent is None:
        return ByteRange(place.root) if contiguous else region_of_view(place, kind)
    memref = as_kind(ir.MemRefType, kind)
    if memref is None and len(extent) == 1 and place.low is not None and place.high is not None:
        return ByteRange(place.root, place.low, place.high + extent[0], place.low == place.high)
    layout = None if memref is None else strides_and_bytes(memref)
    if memref is None or layout is None:
        return ByteRange(place.root)
    strides, size = layout
    if len(indices) != len(strides) or len(extent) > len(strides):
        return ByteRange(place.root)
    steps = [
        ViewStep(Operand(number), stride, size, None if length < 0 else int(length) - 1)
        for number, (stride, length) in enumerate(zip(strides, memref.shape, strict=True))
    ]
    low, high = _after((place.low, place.high), steps, indices)
    if low is None or high is None:
        return ByteRange(place.root)
    span = 1
    apart_by = [*strides[:-1], 1] if contiguous else strides
    for length, stride in zip(reversed(extent), reversed(apart_by), strict=False):
        if stride is None:
            return ByteRange(place.root)
        span += (length - 1) * stride
    # Threads with neighbouring subscripts touch all that lies between, one row of elements wide.
    apart = [value for value in indices if not isinstance(value, int)]
    row = (
        len(apart) == 1
        and apart[0] is indices[-1]
        and strides[-1] == 1
        and isinstance(apart[0], EachThread)
        and bool((np.diff(np.unique(apart[0].numbers)) <= span).all())
    )
    exact = place.low == place.high and (not apart or row)
    return ByteRange(place.root, low, high + span * size, exact)


@lru_cache(maxsize=256)
def _places_of_shares(
    shares: tuple[Share, ...], strides: tuple[int, ...], mask: int, width: int
) -> tuple[int, int, bool]:
    """The first element and the last plus 1 that some threads have, and whether they have all between."""
    x = np.array(amounts.threads_of(mask)) % width
    places = np.zeros((len(x), 1), np.int64)
    for share, stride in zip(shares, strides, strict=True):
        mine = share.first(x)[:, None] + np.array(share.offsets())
        places = (places[:, :, None] + stride * mine[:, None, :]).reshape(len(x), -1)
    once = np.unique(places)
    return int(once[0]), int(once[-1]) + 1, len(once) == once[-1] + 1 - once[0]


def region_of_shares(
    place: BytePlace, kind: Any, shares: tuple[Share, ...], mask: int, width: int
) -> ByteRange:
    """What threads have of a memref that they share out, in blocks of `width` threads along x."""
    strides, size = strides_and_bytes(ir.MemRefType(kind)) or ([None], 0)
    known = tuple(stride for stride in strides if stride is not None)
    if place.low is None or place.high is None or len(known) < len(strides):
        return ByteRange(place.root)
    low, high, dense = _places_of_shares(shares, known, mask, width)
    exact = dense and place.low == place.high
    return ByteRange(place.root, place.low + low * size, place.high + high * size, exact)


def bytes_from(place: BytePlace, size: int | None) -> ByteRange:
    """The bytes from a pointer on that a copy moves."""
    if place.low is None or place.low != place.high or size is None:
        return ByteRange(place.root)
    return ByteRange(place.root, place.low, place.low + size, True)


def bytes_of_each(place: BytePlace, mask: int, size: int | None) -> ByteRange | None:
    """The bytes that several threads copy so many of, each from a place of its own on; None where two of them may copy to
    one byte, or there is one thread."""
    if place.each is None or size is None or mask & mask - 1 == 0:
        return None
    firsts = np.sort(place.each.numbers[list(amounts.threads_of(mask))])
    gaps = np.diff(firsts)
    if (gaps < size).any():
        return None
    return ByteRange(place.root, int(firsts[0]), int(firsts[-1]) + size, bool((gaps == size).all()))
