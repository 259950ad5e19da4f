"""What divides an integer in every execution.

    %row = arith.muli %tid, %c8          8
    %at = arith.xori %row, %c16          8: low bits that are 0 in both stay 0

0 is what is always 0. Of a linear form it is the common divisor of its parts; what is no sum is
looked at op by op, beside its range: a result that may not fit keeps factors of 2 only.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, defining_op, integer_attribute
from mlir_async_pipe.facts.values.domains import Domain, Typed
from mlir_async_pipe.facts.values.integer_ops import bits_of, is_induction_variable
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.ranges import RANGES, fits, stored
from mlir_async_pipe.facts.values.sums import Interval
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, declaration_of

# Nothing is aligned to more, what is always 0 included.
LARGEST_BYTES = 4096


def divisor(value: Value, numbers: Arithmetic) -> int:
    """A number that divides the integer `value` in every execution; 0 if it is always 0."""
    form = numbers.linear(value)
    found = gcd(form.constant, *(c * _symbol_divisor(s, numbers) for s, c in form.terms))
    return lcm(found, numbers.assumed.get(value, 1))


def _symbol_divisor(symbol: Value, numbers: Arithmetic) -> int:
    """What divides a value that is no sum: bit operations, choices, induction variables."""
    if is_induction_variable(symbol):
        loop = ir.BlockArgument(symbol).owner.owner.operation
        found = gcd(divisor(loop.operands[0], numbers), divisor(loop.operands[2], numbers))
        # An unsigned counter may be held as a negative number.
        return gcd(found, 1 << bits_of(symbol.type)) if "unsignedCmp" in loop.attributes else found
    op = defining_op(symbol)
    if op is not None and ADDRESS_OPS.get(op.name) == "same":
        pointer = defining_op(op.operands[0])
        return 1 if pointer is None else global_alignment(pointer)
    made = DIVISORS.of(
        symbol, lambda o: Multiple(divisor(o, numbers), numbers.value_range(o)), None
    )
    return 1 if made is None else made.divisor


def global_alignment(op: Any) -> int:
    """What the address of the global that an op names is a multiple of; 1 for other ops."""
    declared = declaration_of(op)
    return 1 if declared is None else integer_attribute(declared, "alignment") or 1


def power_of_two(number: int) -> int:
    """The largest power of two that divides `number`; 0 (always zero) stands for any."""
    return LARGEST_BYTES if number == 0 else number & -number


class Multiple(NamedTuple):
    """Numbers of an interval that `divisor` divides."""

    divisor: int
    interval: Interval


class Divisors(Domain[Multiple, None]):
    """Divisors, beside the intervals that say whether a result fits."""

    def constant(self, number: int) -> Multiple:
        """One number divides itself."""
        return Multiple(abs(number), (number, number))

    def evaluate(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """What is only the same modulo 2^bits keeps the factors of 2 of those bits."""
        found = super().evaluate(op, v, known)
        interval = RANGES.exact(op, [operand.interval for operand in v])
        factor = 1 if found is None else found.divisor
        believed = op.nsw and op.bits > 1
        if op.row.method not in _CHOICES and not believed and not fits(interval, op.bits):
            factor = gcd(factor, 1 << op.bits)
        return Multiple(factor, stored(interval, op.bits))

    def add(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """What divides both."""
        return _of(gcd(v[0].divisor, v[1].divisor))

    sub = add

    def mul(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """The factors of both."""
        return _of(v[0].divisor * v[1].divisor)

    def div(self, op: Typed, v: list[Multiple], known: None) -> Multiple | None:
        """A constant that divides leaves the rest."""
        number, rest = v[1].interval[0], _read(op, v[0])
        if number is None or number <= 0 or v[1].interval[1] != number or rest % number:
            return None
        return _of(rest // number)

    def rem(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """a mod b = a - qb."""
        return _of(gcd(*(_read(op, operand) for operand in v)))

    def and_(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """Low bits that are 0 in one are 0."""
        return _of(max(power_of_two(operand.divisor) for operand in v))

    def or_(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """Low bits that are 0 in both stay 0; an odd factor does not survive."""
        return _of(min(power_of_two(operand.divisor) for operand in v))

    xor = or_

    def shl(self, op: Typed, v: list[Multiple], known: None) -> Multiple | None:
        """A product with a power of two."""
        least, most = v[1].interval
        if least is None or most is None or least < 0 or most >= op.given:
            return None
        return _of(v[0].divisor << least)

    def shr(self, op: Typed, v: list[Multiple], known: None) -> Multiple | None:
        """A quotient by a power of two, of what has it as a factor."""
        least, most = v[1].interval
        rest = _read(op, v[0])
        if least is None or least != most or not 0 <= least < op.given or rest % (1 << least):
            return None
        return _of(rest >> least)

    def min(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return self.add(op, v, known)

    max = min

    def select(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return self.add(op, v[1:], known)

    def cast(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return _of(_read(op, v[0]) if op.bits > op.given else v[0].divisor)


DIVISORS = Divisors()
# The result is an operand, bit for bit.
_CHOICES = frozenset({"min", "max", "select"})


def _of(factor: int) -> Multiple:
    return Multiple(factor, (None, None))


def _read(op: Typed, operand: Multiple) -> int:
    """What divides the number that an op reads: of a negative one without a sign, 2^bits more."""
    low = operand.interval[0]
    if op.row.sign != "u" or (low is not None and low >= 0):
        return operand.divisor
    return gcd(operand.divisor, 1 << op.given)
