"""Linear forms, a constant plus multiples of symbols, and intervals of integers.

    4 * %i + %t + 8            of values, to find dependences (`linear`)
    512 * k + 16 * tid.x       of atoms, which are numbers of one path (`checker.forms`)

Forms are exact numbers, not numbers modulo 2^bits. Two of them are equal exactly if they are the
same number whatever the symbols are. An end of an interval that is not known is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S")

Ends = Callable[[S], Any]
"""The least and the largest number that a symbol can be, as items 0 and 1; None: no bound."""


class Form(NamedTuple, Generic[S]):
    """constant + sum of coefficient * symbol; coefficients are never 0."""

    constant: int = 0
    terms: frozenset[tuple[S, int]] = frozenset()

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def symbols(self) -> Iterator[S]:
        return (symbol for symbol, _ in self.terms)

    def coefficient(self, wanted: S) -> int:
        return next((number for symbol, number in self.terms if symbol == wanted), 0)


ZERO: Form[Any] = Form()


def of_symbol(symbol: S) -> Form[S]:
    return Form(0, frozenset(((symbol, 1),)))


def add(a: Form[S], b: Form[S], times: int = 1) -> Form[S]:
    """a + `times` b."""
    constant = a.constant + times * b.constant
    if not b.terms or not times:
        return Form(constant, a.terms)
    if not a.terms and times == 1:
        return Form(constant, b.terms)
    terms = dict(a.terms)
    for symbol, coefficient in b.terms:
        total = terms.get(symbol, 0) + times * coefficient
        if total:
            terms[symbol] = total
        else:
            del terms[symbol]
    return Form(constant, frozenset(terms.items()))


def scale(a: Form[S], factor: int) -> Form[S]:
    if factor == 0:
        return ZERO
    if factor == 1:
        return a
    return Form(a.constant * factor, frozenset((symbol, c * factor) for symbol, c in a.terms))


def subtract(a: Form[S], b: Form[S]) -> Form[S]:
    return add(a, b, -1)


def without(form: Form[S], left_out: S) -> Form[S]:
    return Form(form.constant, frozenset(term for term in form.terms if term[0] != left_out))


def interval_of(form: Form[S], ends: Ends[S]) -> tuple[int | None, int | None]:
    """An interval that holds the form; None is an unbounded end."""
    low: int | None = form.constant
    high: int | None = form.constant
    for symbol, coefficient in form.terms:
        known = ends(symbol)
        least, most = (known[0], known[1]) if coefficient > 0 else (known[1], known[0])
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or most is None else high + coefficient * most
    return low, high


Interval = tuple[int | None, int | None]
ANYTHING: Interval = (None, None)


def scaled(interval: Interval, factor: int) -> Interval:
    low, high = interval
    a = None if low is None else low * factor
    b = None if high is None else high * factor
    return (a, b) if factor >= 0 else (b, a)


def added(first: Interval, second: Interval) -> Interval:
    (a, b), (c, d) = first, second
    return (None if a is None or c is None else a + c, None if b is None or d is None else b + d)


def moved(interval: Interval, by: int) -> Interval:
    return added(interval, (by, by))


def difference(first: Interval, second: Interval) -> Interval:
    """The interval of x - y, for x in the first and y in the second."""
    return added(first, scaled(second, -1))


def divided(interval: Interval, divisor: int) -> Interval:
    """The interval of x / divisor, rounded down, for a divisor above 0."""
    low, high = interval
    return None if low is None else low // divisor, None if high is None else high // divisor


def factor(interval: Interval, other: int) -> Interval:
    """The interval of the whole numbers x with other * x in the interval, for another factor than 0."""
    low, high = interval if other > 0 else scaled(interval, -1)
    least = None if low is None else -(-low // abs(other))
    return least, None if high is None else high // abs(other)


def product(first: Interval, second: Interval) -> Interval:
    """The least and the largest product of ends."""
    (a, b), (c, d) = first, second
    for one, other in ((first, second), (second, first)):
        if one[0] is not None and one[0] == one[1]:
            return scaled(other, one[0])
    if a is not None and b is not None and c is not None and d is not None:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    if a is None or a < 0 or c is None or c < 0:
        return ANYTHING
    return a * c, None


def common_bits(first: Interval, second: Interval) -> Interval:
    """Bits that both have: no larger than one that is not negative."""
    masks = [h for low, h in (first, second) if low is not None and low >= 0 and h is not None]
    return (0, min(masks)) if masks else ANYTHING


def either_bits(first: Interval, second: Interval) -> Interval:
    """Bits that one of them has: no longer than the longer one."""
    (a, b), (c, d) = first, second
    if a is None or c is None or a < 0 or c < 0:
        return ANYTHING
    return 0, None if b is None or d is None else (1 << max(b.bit_length(), d.bit_length())) - 1


def least(first: int | None, second: int | None) -> int | None:
    """The smaller one of what is given."""
    return second if first is None else first if second is None else min(first, second)


def most(first: int | None, second: int | None) -> int | None:
    """The larger one of what is given."""
    return second if first is None else first if second is None else max(first, second)


def smaller(first: Interval, second: Interval) -> Interval:
    """The smaller one: no larger than the largest number of either."""
    (a, b), (c, d) = first, second
    return None if a is None or c is None else min(a, c), least(b, d)


def larger(first: Interval, second: Interval) -> Interval:
    """The larger one: no smaller than the smallest number of either."""
    low, high = smaller(scaled(first, -1), scaled(second, -1))
    return scaled((low, high), -1)


def both(first: Interval, second: Interval) -> Interval:
    return most(first[0], second[0]), least(first[1], second[1])


def either(first: Interval, second: Interval) -> Interval:
    return smaller(first, second)[0], larger(first, second)[1]
