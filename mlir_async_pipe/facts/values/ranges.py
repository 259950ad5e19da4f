"""Intervals of integer values: what a remainder, a mask or a thread id can be.

    %lane = arith.remui %tid, %c32      [0, 31]
    %row = arith.divui %tid, %c4        [0, 31] with 128 threads

An unbounded end is None. Integers are held as signed numbers: what does not provably fit its type
has the whole range of it; of 64 bits that are only numbers whose ends are known to be too large.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, defining_op
from mlir_async_pipe.facts.values.domains import Domain, SplitPart, Typed
from mlir_async_pipe.facts.values.integer_ops import (
    INDEX_BITS,
    bits_of,
    is_induction_variable,
    is_size,
)
from mlir_async_pipe.facts.values.sums import (
    ANYTHING,
    Interval,
    added,
    common_bits,
    either,
    either_bits,
    larger,
    least,
    product,
    scaled,
    smaller,
)
from mlir_async_pipe.vocabulary.launch_ids import LaunchId, launch_id


def fits(interval: Interval, bits: int) -> bool:
    """Whether all numbers of an interval are numbers of a type: for 64 bits those are that
    nothing bounds, sizes and what is made of them."""
    low, high = interval
    if bits < INDEX_BITS and (low is None or high is None):
        return False
    least, most = type_range(bits)
    return (low is None or low >= least) and (high is None or high <= most)


def type_range(bits: int) -> tuple[int, int]:
    """The smallest and the largest number of a type."""
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
        return added(v[0], v[1])

    def sub(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """Differences of the ends."""
        return added(v[0], scaled(v[1], -1))

    def mul(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """The least and the largest product of ends."""
        return product(v[0], v[1])

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
            return 0, least(b, most)
        if op.row.rounding == "down":
            return 0, most
        low, _ = larger((a, None), scaled((None, most), -1))
        return low, 0 if b is not None and b <= 0 else least(b, most)

    def and_(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """No larger than an operand that is not negative."""
        return common_bits(v[0], v[1])

    def or_(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """No longer than the longer operand."""
        return either_bits(v[0], v[1])

    xor = or_

    def shl(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """Products with powers of two."""
        return _shifted(op, v[0], v[1], lambda x, y: x << y)

    def shr(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """Quotients by powers of two, rounded down."""
        return _shifted(op, _read(op, v[0]), v[1], lambda x, y: x >> y)

    def min(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """No larger than the largest number of either."""
        return _as_bit(op, smaller(*(_read(op, interval) for interval in v)))

    def max(self, op: Typed, v: list[Interval], known: None) -> Interval:
        """No smaller than the smallest number of either."""
        return _as_bit(op, larger(*(_read(op, interval) for interval in v)))

    def select(self, op: Typed, v: list[Interval], known: None) -> Interval:
        return either(v[1], v[2])

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
        return max(found[0] or 0, 0), least(found[1], part.bound - 1)


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
    return scaled(interval, -1) if op.given == 1 else interval


def _as_bit(op: Typed, interval: Interval) -> Interval:
    """The number that stands for a signed bit."""
    return scaled(interval, -1) if op.given == 1 and op.row.sign == "s" else interval


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
    if op.name == "memref.dim":
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
