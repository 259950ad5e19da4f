"""Linear forms: a constant plus multiples of symbols, whatever a symbol is.

    4 * %i + %t + 8            of values, to find dependences (`linear`)
    512 * k + 16 * tid.x       of atoms, which are numbers of one path (`checker.forms`)

Forms are exact numbers, not numbers modulo 2^bits. Two of them are equal exactly if they are the
same number whatever the symbols are.
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
        """How often a symbol is in the form."""
        return next((number for symbol, number in self.terms if symbol == wanted), 0)


ZERO: Form[Any] = Form()


def of_symbol(symbol: S) -> Form[S]:
    return Form(0, frozenset(((symbol, 1),)))


def add(a: Form[S], b: Form[S]) -> Form[S]:
    """a + b."""
    if not b.terms:
        return Form(a.constant + b.constant, a.terms)
    if not a.terms:
        return Form(a.constant + b.constant, b.terms)
    terms = dict(a.terms)
    for symbol, coefficient in b.terms:
        total = terms.get(symbol, 0) + coefficient
        if total:
            terms[symbol] = total
        else:
            del terms[symbol]
    return Form(a.constant + b.constant, frozenset(terms.items()))


def scale(a: Form[S], factor: int) -> Form[S]:
    """factor * a."""
    if factor == 0:
        return ZERO
    if factor == 1:
        return a
    return Form(a.constant * factor, frozenset((symbol, c * factor) for symbol, c in a.terms))


def subtract(a: Form[S], b: Form[S]) -> Form[S]:
    """a - b."""
    return add(a, scale(b, -1))


def without(form: Form[S], left_out: S) -> Form[S]:
    """The form with one symbol's term dropped."""
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
