"""Integers of the IR as linear forms.

    %0 = arith.muli %i, %c4        linear(%1) = 4 * %i + %t + 8
    %1 = arith.addi %0, %t + 8

A linear form is a constant plus multiples of *symbols*, values that are not sums themselves, or
sums that may not fit into their type: forms are exact numbers, not numbers modulo 2^bits.
`ranges` has intervals of the same values, `numbers` their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir_async_pipe.bindings.raw_ops import Value, constant_value, defining_op
from mlir_async_pipe.facts.values.domains import Domain, Typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, as_signed, bits_of, memoised
from mlir_async_pipe.facts.values.ranges import fits, range_step
from mlir_async_pipe.facts.values.sums import Form, add, interval_of, of_symbol, scale, subtract
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
        self._ranges: dict[Value, tuple[int | None, int | None]] = {}

    def linear(self, value: Value) -> Linear:
        """The linear form of an integer or index value."""
        return memoised(value, self._linear, self._linear_step)

    def _linear_step(self, value: Value, get: Callable[[Value], Linear]) -> Linear:
        return LINEAR_FORMS.of(value, get, self) or of_symbol(value)

    def wrapped(self, value: Value) -> Linear:
        """The linear form that a value of 64 bits is equal to modulo 2^64; of fewer bits the exact one."""
        return memoised(value, self._wrapped, self._wrapped_step)

    def _wrapped_step(self, value: Value, get: Callable[[Value], Linear]) -> Linear:
        wraps = bits_of(value.type) == INDEX_BITS
        form = WRAPPED_FORMS.of(value, get, self) if wraps else None
        return form or self.linear(value)

    def value_range(self, value: Value) -> tuple[int | None, int | None]:
        """An interval [low, high] that holds the value; None is an unbounded end."""
        known = self._ranges
        if value not in known:
            # Bounds of loops are no operands of their induction variables: asked for as they come.
            memoised(value, known, lambda v, _: range_step(v, self.value_range, self.block_size))
        return known[value]

    def remainder(self, value: Value) -> tuple[Linear, int] | None:
        """(f, V) if the value is f mod V: a remainder of what is not negative, or a mask for a
        power of two."""
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
        elif not self._is_not_negative(op.operands[0]):
            return None
        return (self.linear(op.operands[0]), versions) if versions > 0 else None

    def _is_not_negative(self, value: Value) -> bool:
        low, _ = self.value_range(value)
        return low is not None and low >= 0

    def range_of(self, form: Linear) -> tuple[int | None, int | None]:
        """An interval that holds the linear form."""
        return interval_of(form, self.value_range)


class LinearForms(Domain[Linear, Arithmetic]):
    """Linear forms; what may not fit into its type has none."""

    def constant(self, number: int) -> Linear:
        return Form(number)

    def evaluate(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        """The form of an op's result, if that is the number which the op computes."""
        form = super().evaluate(op, v, known)
        if form is None or _is_large(form):
            return None
        if op.bits > 1 and (op.nsw or (op.nuw and _stays_small(op, v, known))):
            return form
        return form if fits(known.range_of(form), op.bits) else None

    def add(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear:
        return add(v[0], v[1])

    def sub(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear:
        return subtract(v[0], v[1])

    def mul(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        if not v[1].terms:
            return scale(v[0], v[1].constant)
        return None if v[0].terms else scale(v[1], v[0].constant)

    def shl(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        """A product with a constant power of two."""
        shift = v[1].constant
        if v[1].terms or not 0 <= shift < min(op.given, INDEX_BITS - 1):
            return None
        return scale(v[0], 1 << shift)

    def div(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        """A quotient by a constant that divides every part, whatever is rounded."""
        read, divisor = _read(op, v[0], known), v[1].constant
        if read is None or v[1].terms or divisor <= 0:
            return None
        if any(part % divisor for part in _parts(read)):
            return None
        return Form(read.constant // divisor, frozenset((s, c // divisor) for s, c in read.terms))

    def cast(self, op: Typed, v: list[Linear], known: Arithmetic) -> Linear | None:
        return _read(op, v[0], known) if op.bits > op.given else v[0]


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


def _is_large(form: Linear) -> bool:
    """Whether 2^15 of a part of the form may not fit into 64 bits."""
    return any(abs(part) > 1 << 48 for part in _parts(form))


def _read(op: Typed, form: Linear, known: Arithmetic) -> Linear | None:
    """What an op reads of a form by its sign; None if that is another number."""
    if op.row.sign == "s":
        return scale(form, -1) if op.given == 1 else form
    low, _ = known.range_of(form)
    return form if low is not None and low >= 0 else None


def _stays_small(op: Typed, v: list[Linear], known: Arithmetic) -> bool:
    """Whether a result that fits as an unsigned number is below its signed end too: the
    difference of numbers that are not negative is."""
    lows = [known.range_of(form)[0] for form in v]
    return op.row.method == "sub" and all(low is not None and low >= 0 for low in lows)
