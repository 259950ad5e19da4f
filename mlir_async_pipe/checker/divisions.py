"""Division, remainder and shift to the right, of forms.

    arith.divui, index.divu, llvm.udiv   a div b, for a constant b, of a as an unsigned number;
                                         quotient(a, b) and remainder(a, b) for another b
    arith.floordivsi                     a div b of a as a signed one
    arith.divsi                          the same, where a is not negative

`divide` and its like make the rules of `arithmetic`.
"""

from __future__ import annotations

from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Facts, Form
from mlir_async_pipe.checker.widths import Rule, Typed, in_64_bits, signed, stored, unsigned


def _read(op: Typed, v: list[Form], facts: Facts, sign: str) -> tuple[Form, Form] | None:
    """Dividend and divisor as an op reads them; None unless the divisor is not negative, and not
    0 (which is undefined)."""
    if sign == "u":
        a, b = (unsigned(x, op.bits, facts) for x in v)
    else:
        a, b = (signed(x, op.bits) for x in v)
    if a is None or b is None or b == forms.ZERO or not _not_negative(b, facts):
        return None
    return a, b


def _not_negative(form: Form, facts: Facts) -> bool:
    """Whether rounding towards zero and rounding down agree."""
    low, _ = forms.bounds(form, facts)
    return low is not None and low >= 0


def divide(sign: str, *, down: bool = False, up: bool = False) -> Rule:
    """The rule of a division; `down`: it rounds down for negative numbers too."""

    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        found = _read(op, v, facts, sign)
        if found is None or not (down or _not_negative(found[0], facts)):
            return None
        a, b = found
        if up:
            a = forms.add(a, forms.add(b, Form(-1)))
            if not in_64_bits(a, facts):
                return None
        if not (b.is_constant or _not_negative(a, facts)):
            return None
        return stored(operators.apply("quotient", (a, b), facts), op.bits, facts)

    return rule


def remainder(sign: str) -> Rule:
    """The rule of a remainder, which is one for numbers that are not negative."""

    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        found = _read(op, v, facts, sign)
        if found is None or not _not_negative(found[0], facts):
            return None
        return stored(operators.apply("remainder", found, facts), op.bits, facts)

    return rule


def is_shift(op: Typed, form: Form) -> bool:
    """Whether a shift is by a number below the width; more is poison."""
    return form.is_constant and 0 <= form.constant < min(op.bits, 63)


def shift_right(sign: str) -> Rule:
    """The rule of a shift to the right: a division by a power of two that rounds down."""
    division = divide(sign, down=True)

    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        if op.bits == 1 or not is_shift(op, v[1]):
            return None
        return division(op, [v[0], Form(1 << v[1].constant)], facts)

    return rule
