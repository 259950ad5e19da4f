"""Integers of the IR as linear forms.

    %0 = arith.muli %i, %c4        linear(%1) = 4 * %i + %t + 8
    %1 = arith.addi %0, %t + 8

A linear form is a constant plus multiples of *symbols*, values that are not sums themselves, or
sums that may not fit into their type: forms are exact numbers, not numbers modulo 2^bits.
`numbers` has the numbers of the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, constant_value, defining_op
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.domains import Domain, SplitPart, Typed
from mlir_async_pipe.facts.values.integer_ops import (
    INDEX_BITS,
    as_signed,
    bits_of,
    is_induction_variable,
    is_size,
    memoised,
)
from mlir_async_pipe.facts.values.sums import ANYTHING, Form, Interval
from mlir_async_pipe.vocabulary.launch_ids import LaunchId, launch_id
from mlir_async_pipe.vocabulary.memory_names import SIZE_OPS
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, is_operator

Linear = Form[Value]


class Arithmetic:
    """Linear forms and ranges of values, each computed once.

    `block_size` is the number of threads in x, y, z, None where it is not known; `assumed` are divisors of
    values that are taken for granted.
    """

    def __init__(
        self,
        block_size: tuple[int, int, int] | None = None,
        assumed: Mapping[Value, int] | None = None,
    ) -> None:
        self.block_size = block_size
        self.assumed = assumed or {}
        self._linear: dict[Value, Linear] = {}
        self._wrapped: dict[Value, Linear] = {}
        self._ranges: dict[Value, Interval] = {}

    def linear(self, value: Value) -> Linear:
        return memoised(
            value, self._linear, lambda v, get: LINEAR_FORMS.of(v, get, self) or sums.of_symbol(v)
        )

    def wrapped(self, value: Value) -> Linear:
        """The linear form that a value of 64 bits is equal to modulo 2^64; of fewer bits the exact one."""
        return memoised(value, self._wrapped, self._wrapped_step)

    def _wrapped_step(self, value: Value, get: Callable[[Value], Linear]) -> Linear:
        wraps = bits_of(value.type) == INDEX_BITS
        form = WRAPPED_FORMS.of(value, get, self) if wraps else None
        return form or self.linear(value)

    def value_range(self, value: Value) -> Interval:
        """An interval [low, high] that holds the value; None is an unbounded end."""
        known = self._ranges
        if value not in known:
            # Bounds of loops are no operands of their induction variables: asked for as they come.
            memoised(value, known, lambda v, _: range_step(v, self.value_range, self.block_size))
        return known[value]

    def remainder(self, value: Value) -> tuple[Linear, int] | None:
        """(f, V) if the value is f mod V: a remainder of what is not negative, or a mask for a power of two."""
        op = defining_op(value)
        while op is not None and is_operator(op.name, "cast"):
            source = op.operands[0]
            if self.linear(op.results[0]) != self.linear(source):
                break
            op = defining_op(source)
        row = OPERATORS.get(op.name) if op is not None else None
        if op is None or row is None or row.method not in ("rem", "and_"):
            return None
        versions = constant_value(op.operands[1])
        if versions is None:
            return None
        if row.method == "and_":
            versions += 1
            if versions & (versions - 1):
                return None
        elif (low := self.value_range(op.operands[0])[0]) is None or low < 0:
            return None
        return (self.linear(op.operands[0]), versions) if versions > 0 else None

    def range_of(self, form: Linear) -> Interval:
        """An interval that holds the linear form."""
        return sums.interval_of(form, self.value_range)


class LinearForms(Domain[Linear, Arithmetic]):
    def constant(self, number: int) -> Linear:
        return Form(number)

    def evaluate(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        """The form of an op's result, if that is the number which the op computes."""
        form = super().evaluate(op, v, known)
        # Of 2^15 times a part it would not be certain that it fits into 64 bits.
        if form is None or any(abs(part) > 1 << 48 for part in _parts(form)):
            return None
        if op.bits > 1 and (op.nsw or (op.nuw and _stays_small(op, v, known))):
            return form
        return form if fits(known.range_of(form), op.bits) else None

    def add(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear:
        return sums.add(v[0], v[1])

    def sub(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear:
        return sums.subtract(v[0], v[1])

    def mul(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        if not v[1].terms:
            return sums.scale(v[0], v[1].constant)
        return None if v[0].terms else sums.scale(v[1], v[0].constant)

    def shl(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        shift = v[1].constant
        if v[1].terms or not 0 <= shift < min(op.given, INDEX_BITS - 1):
            return None
        return sums.scale(v[0], 1 << shift)

    def div(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        """A quotient by a constant that divides every part, whatever is rounded."""
        read, divisor = _form_read(op, v[0], known), v[1].constant
        if read is None or v[1].terms or divisor <= 0:
            return None
        if any(part % divisor for part in _parts(read)):
            return None
        return Form(read.constant // divisor, frozenset((s, c // divisor) for s, c in read.terms))

    def cast(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        return _form_read(op, v[0], known) if op.bits > op.given else v[0]


class WrappedForms(LinearForms):
    """Linear forms modulo 2^64: sums and products of 64 bits, whether or not they fit."""

    def evaluate(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        if op.row.method not in _MADE_OF_SUMS:
            return None
        form = Domain.evaluate(self, op, v, known)
        return None if form is None else modulo_index(form)


LINEAR_FORMS = LinearForms()
WRAPPED_FORMS = WrappedForms()
_MADE_OF_SUMS = frozenset({"add", "sub", "mul", "shl", "apply", "join"})


def modulo_index(form: Linear) -> Linear:
    """The same form modulo 2^64, with the numbers nearest to 0."""
    terms = ((symbol, as_signed(number, INDEX_BITS)) for symbol, number in form.terms)
    return Form(as_signed(form.constant, INDEX_BITS), frozenset(t for t in terms if t[1]))


def _parts(form: Linear) -> list[int]:
    return [form.constant, *(coefficient for _, coefficient in form.terms)]


def _form_read(op: Typed, form: Linear, known: Arithmetic) -> Linear | None:
    """What an op reads of a form by its sign; None if that is another number."""
    if op.row.sign == "s":
        return sums.scale(form, -1) if op.given == 1 else form
    low, _ = known.range_of(form)
    return form if low is not None and low >= 0 else None


def _stays_small(op: Typed, v: list[Linear], known: Arithmetic) -> bool:
    """Whether a result that fits as an unsigned number is below its signed end too, as a difference from 0 on is."""
    lows = [known.range_of(form)[0] for form in v]
    return op.row.method == "sub" and all(low is not None and low >= 0 for low in lows)


# Intervals of integer values: what a remainder, a mask or a thread id can be.
#
#     %lane = arith.remui %tid, %c32      [0, 31]
#     %row = arith.divui %tid, %c4        [0, 31] with 128 threads
#
# An unbounded end is None. Integers are held as signed numbers: what does not provably fit its type
# has the whole range of it; of 64 bits that are only numbers whose ends are known to be too large.


def fits(interval: Interval, bits: int) -> bool:
    """Whether all numbers of an interval are of a type; of 64 bits those without an end, sizes and their like, are."""
    low, high = interval
    if bits < INDEX_BITS and (low is None or high is None):
        return False
    least, most = type_range(bits)
    return (low is None or low >= least) and (high is None or high <= most)


def type_range(bits: int) -> tuple[int, int]:
    half = 1 << (bits - 1)
    return (0, 1) if bits == 1 else (-half, half - 1)


def stored(interval: Interval, bits: int) -> Interval:
    """What numbers are as bits of a type: themselves where they fit."""
    return interval if fits(interval, bits) else type_range(bits)


class Ranges(Domain[Interval, None]):
    def constant(self, number: int) -> Interval:
        return number, number

    def exact(self, op: Typed, v: list[Interval]) -> Interval:
        """The interval of the number that an op computes, before it is fitted into a type."""
        return super().evaluate(op, v, None) or ANYTHING

    def evaluate(self, op: Typed, v: list[Interval], known: None = None) -> Interval:
        return stored(self.exact(op, v), op.bits)

    def add(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return sums.added(v[0], v[1])

    def sub(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return sums.added(v[0], sums.scaled(v[1], -1))

    def mul(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return sums.product(v[0], v[1])

    def div(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """Of a divisor above 0: each rounding grows with the dividend."""
        (a, b), (c, d) = (_read(op, interval) for interval in v)
        if c is None or c <= 0:
            return ANYTHING
        round_ = _ROUNDED[op.row.rounding]
        if d is not None:
            lows = None if a is None else min(round_(a, c), round_(a, d))
            return lows, None if b is None else max(round_(b, c), round_(b, d))
        if a is not None and a >= 0:
            return 0, None if b is None else round_(b, c)
        return ANYTHING

    def rem(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """Of a divisor above 0; rounded to zero it has the sign of the dividend."""
        (a, b), (c, d) = (_read(op, interval) for interval in v)
        if c is None or c <= 0:
            return ANYTHING
        most = None if d is None else d - 1
        if a is not None and a >= 0:
            return 0, sums.least(b, most)
        if op.row.rounding == "down":
            return 0, most
        low, _ = sums.larger((a, None), sums.scaled((None, most), -1))
        return low, 0 if b is not None and b <= 0 else sums.least(b, most)

    def and_(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """No larger than an operand that is not negative."""
        return sums.common_bits(v[0], v[1])

    def or_(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """No longer than the longer operand."""
        return sums.either_bits(v[0], v[1])

    xor = or_

    def shl(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return _shifted(op, v[0], v[1], lambda x, y: x << y)

    def shr(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return _shifted(op, _read(op, v[0]), v[1], lambda x, y: x >> y)

    def min(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return _as_bit(op, sums.smaller(*(_read(op, interval) for interval in v)))

    def max(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return _as_bit(op, sums.larger(*(_read(op, interval) for interval in v)))

    def select(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return sums.either(v[1], v[2])

    def cmp(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return 0, 1

    def cast(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """The number; cut bits are the same read either way."""
        return _read(op, v[0]) if op.bits > op.given else v[0]

    def part(self, op: Typed, part: SplitPart, v: list[Interval], known: None) -> Interval:
        """Below the size that the op gives."""
        found = super().part(op, part, v, known) or ANYTHING
        if part.bound is None:
            return found
        return max(found[0] or 0, 0), sums.least(found[1], part.bound - 1)


RANGES = Ranges()

_ROUNDED: dict[str, Callable[[int, int], int]] = {
    "down": lambda a, b: a // b,
    "up": lambda a, b: -(-a // b),
    "zero": lambda a, b: a // b if a >= 0 else -(-a // b),
}


def _read(op: Typed, interval: Interval) -> Interval:
    """What an op reads of numbers in an interval: by its sign, -1 or 0 of a signed bit."""
    if op.row.sign == "u":
        return as_unsigned(interval, op.given)
    return sums.scaled(interval, -1) if op.given == 1 else interval


def _as_bit(op: Typed, interval: Interval) -> Interval:
    """The number that stands for a signed bit."""
    return sums.scaled(interval, -1) if op.given == 1 and op.row.sign == "s" else interval


def _shifted(
    op: Typed, interval: Interval, by: Interval, shift: Callable[[int, int], int]
) -> Interval:
    least, most = by
    if least is None or most is None or least < 0 or most >= op.given:
        return ANYTHING
    low, high = interval
    return (
        None if low is None else min(shift(low, least), shift(low, most)),
        None if high is None else max(shift(high, least), shift(high, most)),
    )


def range_step(
    value: Value, get: Callable[[Value], Interval], block_size: tuple[int, int, int] | None
) -> Interval:
    """The interval of one value; `get` gives those of others, its operands above all."""
    known = launch_id(value)
    if known is not None:
        return _launch_range(known, block_size, bits_of(value.type))
    op = defining_op(value)
    if op is None:
        found = (0, None) if is_size(value) else _induction_range(value, get)
        return stored(found, bits_of(value.type))
    if op.name in SIZE_OPS:
        return 0, None
    return RANGES.of(value, get, None) or stored(ANYTHING, bits_of(value.type))


def _launch_range(known: LaunchId, block_size: tuple[int, int, int] | None, bits: int) -> Interval:
    """Hardware has no more than 2^31 - 1 of anything: ids are not negative in 32 bits either."""
    if known.kind == "lane":
        return 0, 63
    if block_size is None or known.kind not in ("thread", "block_size"):
        return 0, None if bits == INDEX_BITS else type_range(bits)[1]
    size = block_size[known.axis]
    return (0, size - 1) if known.kind == "thread" else (size, size)


def as_unsigned(interval: Interval, bits: int) -> Interval:
    """What unsigned ops read of signed numbers in an interval."""
    low, high = interval
    if low is not None and low >= 0:
        return interval
    modulus = 1 << bits
    if low is not None and high is not None and high < 0:
        return low + modulus, high + modulus
    return 0, modulus - 1


def _induction_range(value: Value, get: Callable[[Value], Interval]) -> Interval:
    """The range of an scf.for induction variable, by the ranges of its bounds."""
    if not is_induction_variable(value):
        return ANYTHING
    loop = ir.BlockArgument(value).owner.owner.operation
    lower, upper = get(loop.operands[0]), get(loop.operands[1])
    if "unsignedCmp" in loop.attributes:
        bits = bits_of(value.type)
        lower, upper = as_unsigned(lower, bits), as_unsigned(upper, bits)
    return lower[0], (None if upper[1] is None else upper[1] - 1)
