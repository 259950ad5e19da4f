"""Division, remainder and shift to the right, of forms.

    arith.divui, index.divu, llvm.udiv   a div b, for a constant b, of a as an unsigned number;
                                         quotient(a, b) and remainder(a, b) for another b
    arith.floordivsi                     a div b of a as a signed one
    arith.divsi                          the same, where a is not negative

`divide` and its like are methods of `arithmetic.Forms`.
"""

from __future__ import annotations

from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Facts, Form
from mlir_async_pipe.checker.widths import in_64_bits, signed, stored, unsigned
from mlir_async_pipe.facts.values.domains import Typed
from mlir_async_pipe.vocabulary.operator_table import Row


def _read(op: Typed, v: list[Form], facts: Facts) -> tuple[Form, Form] | None:
    """Dividend and divisor as an op reads them; None unless the divisor is not negative, and not
    0 (which is undefined)."""
    if op.row.sign == "u":
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


def divide(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    found = _read(op, v, facts)
    if found is None or (op.row.rounding == "zero" and not _not_negative(found[0], facts)):
        return None
    a, b = found
    if op.row.rounding == "up":
        a = forms.add(a, forms.add(b, Form(-1)))
        if not in_64_bits(a, facts):
            return None
    if not (b.is_constant or _not_negative(a, facts)):
        return None
    return stored(operators.apply("quotient", (a, b), facts), op.bits, facts)


def remainder(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    """A remainder: of numbers that are not negative, or rounded down by a constant."""
    found = _read(op, v, facts)
    if found is None:
        return None
    down = op.row.rounding == "down" and found[1].is_constant
    if not (down or _not_negative(found[0], facts)):
        return None
    return stored(operators.apply("remainder", found, facts), op.bits, facts)


def is_shift(op: Typed, form: Form) -> bool:
    """Whether a shift is by a number below the width; more is poison."""
    return form.is_constant and 0 <= form.constant < min(op.bits, 63)


def shift_right(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    """A division by a power of two that rounds down."""
    if op.bits == 1 or not is_shift(op, v[1]):
        return None
    division = op._replace(row=Row("div", op.row.sign, "down"))
    return divide(division, [v[0], Form(1 << v[1].constant)], facts)
