"""Comparisons of integers as forms: what is decided becomes 0 or 1, the rest an operator.

    slt a, b       a - b < 0
    ult a, b       a >= 0 and a - b < 0, for b >= 0: what is negative is large as unsigned
    ult a, b       b < 0 or a - b < 0, for a >= 0

Forms stand for exact numbers, so a difference of them does not wrap.
"""

from __future__ import annotations

from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Facts, Form
from mlir_async_pipe.checker.widths import (
    in_64_bits,
    signed,
    unsigned,
)
from mlir_async_pipe.facts.values.domains import Typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS

ONE: Form = Form(1)


def is_negative(form: Form, facts: Facts) -> Form:
    """1 if form < 0, 0 if not, else the undecided comparison."""
    low, high = forms.bounds(form, facts)
    if high is not None and high < 0:
        return ONE
    if low is not None and low >= 0:
        return forms.ZERO
    return forms.call("cmp<", form)


def is_zero(form: Form, facts: Facts) -> Form:
    """1 if form = 0, 0 if not, else the undecided comparison."""
    low, high = forms.bounds(form, facts)
    if low == high == 0:
        return ONE
    if (low is not None and low > 0) or (high is not None and high < 0):
        return forms.ZERO
    return forms.call("cmp=", form)


def compare(name: str, a: Form, b: Form, facts: Facts, bits: int = INDEX_BITS) -> Form | None:
    """The i1 form of a comparison, by the name of its predicate ("eq", "slt", "uge", …); None for
    64-bit numbers from the two ends of the type, whose difference does not fit."""
    if name in ("eq", "ne"):
        equal = is_zero(forms.subtract(a, b), facts)
        return equal if name == "eq" else negation(equal)
    if name[0] == "s":
        a, b = signed(a, bits), signed(b, bits)
    kind = name[1:]
    if kind in ("gt", "le"):
        a, b = b, a
    if not in_64_bits(forms.subtract(a, b), facts):
        return None
    less = is_negative(forms.subtract(a, b), facts) if name[0] == "s" else _below(a, b, facts)
    if name[0] == "u" and not less.is_constant:
        less = _below_as_read(a, b, bits, facts) or less
    return less if kind in ("lt", "gt") else negation(less)


def negation(bit: Form) -> Form:
    """1 for 0, 0 for 1."""
    return forms.subtract(ONE, bit)


def _below(a: Form, b: Form, facts: Facts) -> Form:
    """a < b as unsigned numbers: as signed ones, but for exactly one that is negative."""
    less = is_negative(forms.subtract(a, b), facts)
    first, second = is_negative(a, facts), is_negative(b, facts)
    if first == second:
        return less
    if second == forms.ZERO:
        return both(negation(first), less)
    if first == forms.ZERO:
        return negation(both(negation(second), negation(less)))
    return operators.apply("xor", (less, operators.apply("xor", (first, second), facts)), facts)


def _below_as_read(a: Form, b: Form, bits: int, facts: Facts) -> Form | None:
    """a < b of the numbers without a sign, if that is decided: 119 + k as i8 is below 256 however
    far k goes past 127."""
    first, second = unsigned(a, bits, facts), unsigned(b, bits, facts)
    if first is None or second is None:
        return None
    less = is_negative(forms.subtract(first, second), facts)
    return less if less.is_constant else None


def both(a: Form, b: Form) -> Form:
    """a and b, for bits."""
    for one, other in ((a, b), (b, a)):
        if one.is_constant:
            return other if one.constant else forms.ZERO
    return forms.call("and", a, b)


def cmp(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    """A comparison by the predicate of its op."""
    name = op.detail
    return None if name is None else compare(name, v[0], v[1], facts, op.given)
