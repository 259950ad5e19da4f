"""Numbers on a path of all threads: exact ones, one for each thread, or sums of unknowns.

    %leader = cmpi eq, %tid, 0     EachThread [1, 0, 0, …]
    %slot                          2
    %left = subi %n, %k            the form n - k

None is a number that may differ between threads, of which nothing is known. Comparisons of forms
are decided by what the path knows, else the path splits. Numbers of iN stand as signed ones;
sums of unknowns are taken to fit their type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.address_numbers import (
    ADDRESS_BITS,
    UNIT_BYTES,
    beside_addresses,
    in_units,
    is_address,
    is_number,
)
from mlir_async_pipe.checker.phases.kinds_of_unknowns import RATIO
from mlir_async_pipe.checker.phases.open_questions import UndecidedError
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge
from mlir_async_pipe.checker.phases.thread_numbers import Amount, EachThread, chosen, of_array
from mlir_async_pipe.checker.phases.unknown_products import exact_quotient, product
from mlir_async_pipe.facts.values.domains import Domain, Typed
from mlir_async_pipe.facts.values.numbers import NUMBERS


def form_of(value: int | Form) -> Form:
    """A uniform number as a form."""
    return Form(value) if isinstance(value, int) else value


def normal(form: Form) -> int | Form:
    """A form without unknowns is a number."""
    return form if form.terms else form.constant


def call(name: str, operand: Form, by: int) -> Form:
    """A quotient or remainder that is not known."""
    return forms.of_atom(Atom("call", (name, (operand, Form(by)))))


def quotient(a: Form, b: Form, known: Knowledge) -> Form | None:
    """a div b for an unknown b of 0 or more, which is then 1 or more, and an a of 0 or more; None if b
    may be less."""
    low, _ = known.bounds(b)
    if low is None or low < 0 or not (is_number(a) and is_number(b)):
        return None
    if not low:
        known.suppose(b)
    exact = exact_quotient(a, b)
    return forms.of_atom(Atom(RATIO, (a, b))) if exact is None else exact


def trip_count(lower: Form, upper: Form, step: Form, known: Knowledge) -> Form:
    """The iterations of a loop whose step is not known, as pipelines count them:
    lb < ub ? (ub - lb - 1) div step + 1 : 0. Raises UndecidedError."""
    known.suppose(step)
    left = forms.subtract(upper, lower)
    if not known.at_least_one(left):
        return Form(0)
    found = quotient(forms.add(left, Form(-1)), step, known)
    assert found is not None
    return forms.add(found, Form(1))


class TakeApartError(Exception):
    """An unknown is better followed as another form, made of a quotient and a remainder."""

    def __init__(self, atom: Atom, form: Form, quotient: Atom) -> None:
        super().__init__(str(atom))
        self.atom, self.form, self.quotient = atom, form, quotient


def _take_apart(form: Form, by: int) -> None:
    """Of (n + c) div 64 there is more to say if n is 64 q + r - c."""
    if len(form.terms) != 1:
        return
    ((atom, coefficient),) = form.terms
    if coefficient == 1 and atom.kind in ("size", "unknown") and isinstance(atom.key, int):
        quotient, rest = (Atom(kind, (atom, by)) for kind in ("quotient", "remainder"))
        terms = frozenset({(quotient, by), (rest, 1)})
        raise TakeApartError(atom, Form(-form.constant, terms), quotient)


Operator = Callable[["Amounts", Typed, list[Amount], Knowledge], Amount]


def _numbers_first(rule: Operator) -> Operator:
    """Exact operands are left to `Numbers`; the rest is about forms and numbers."""

    @wraps(rule)
    def apply(self: Amounts, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        if any(value is None for value in v):
            return None
        if any(isinstance(value, Form) for value in v):
            if any(isinstance(value, EachThread) for value in v):
                v = beside_addresses(v)
            return rule(self, op, v, known) if None not in v else None
        arrays = [np.asarray(v.numbers if isinstance(v, EachThread) else v) for v in v]
        made = getattr(NUMBERS, op.row.method)(op, arrays, None)
        if made is None:
            return None
        made = np.asarray(made).astype(np.int64)
        if op.bits == 1:
            made = made & 1
        elif op.bits < 64:
            unused = 64 - op.bits
            made = np.right_shift(np.left_shift(made, unused), unused)
        return of_array(made)

    return apply


class Amounts(Domain[Amount, Knowledge]):
    def constant(self, number: int) -> Amount:
        return number

    @_numbers_first
    def add(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        return normal(forms.add(a, b))

    @_numbers_first
    def sub(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        return normal(forms.subtract(a, b))

    @_numbers_first
    def mul(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if a.terms and b.terms and not (is_number(a) and is_number(b)):
            return _opaque(op, a, b)
        return normal(product(a, b))

    @_numbers_first
    def shl(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """A product with a power of two."""
        a, b = _forms(v)
        return _opaque(op, a, b) if b.terms else normal(forms.scale(a, 1 << b.constant))

    @_numbers_first
    def shr(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """A quotient by a power of two."""
        a, b = _forms(v)
        if not b.terms and (op.row.sign == "u" or 1 << b.constant == UNIT_BYTES):
            units = in_units(a, b.constant, op.bits)
            if units is not None:
                return units
        return _opaque(op, a, b) if b.terms else self._divided(op, a, 1 << b.constant, known)

    @_numbers_first
    def div(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if b.terms and op.row.rounding != "up" and not _may_be_negative(a, known):
            found = quotient(a, b, known)
            if found is not None:
                return normal(found)
        if b.terms or b.constant <= 0:
            return _opaque(op, a, b)
        up = b.constant - 1 if op.row.rounding == "up" else 0
        return self._divided(op, forms.add(a, Form(up)), b.constant, known)

    def _divided(self, op: Typed, a: Form, by: int, known: Knowledge) -> Amount:
        if _may_be_negative(a, known):
            return _opaque(op, a, Form(by))
        if by == 1:
            return a
        found = known.parts(a, by)
        if found is not None and found[1] // by == found[2] // by:
            return forms.add(found[0], Form(found[1] // by))
        _take_apart(a, by)
        return call("div", a, by)

    @_numbers_first
    def rem(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """A remainder by a number."""
        a, b = _forms(v)
        if b.terms or b.constant <= 0 or _may_be_negative(a, known):
            return _opaque(op, a, b)
        residue, by = known.residue(a, b.constant), b.constant
        if residue is not None:
            return residue
        found = known.parts(a, by)
        if found is not None and found[1] // by == found[2] // by:
            return normal(forms.subtract(a, forms.scale(found[0], by)))
        known.ask_residue(a, by)
        return call("rem", a, by)

    @_numbers_first
    def and_(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Of bits: decided; of numbers: a remainder by a power of two."""
        if op.bits == 1:
            return int(all(_bit(value, known) for value in v))
        a, b = _forms(v) if isinstance(v[0], Form) else _forms(v[::-1])
        if b.terms or b.constant < 0 or b.constant & (b.constant + 1):
            return _opaque(op, a, b)
        if is_address(a) and b.constant.bit_length() >= ADDRESS_BITS - 4:
            return a
        return self.rem(op, [a, b.constant + 1], known)

    @_numbers_first
    def or_(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Of bits: decided; of a descriptor's parts: their sum."""
        if op.bits == 1:
            return int(any(_bit(value, known) for value in v))
        a, b = _forms(v)
        return normal(forms.add(a, b)) if is_address(a) != is_address(b) else _opaque(op, a, b)

    @_numbers_first
    def xor(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Of bits: decided."""
        a, b = _forms(v)
        return _bit(v[0], known) ^ _bit(v[1], known) if op.bits == 1 else _opaque(op, a, b)

    @_numbers_first
    def min(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        return v[1] if known.at_least_one(forms.subtract(a, b)) else v[0]

    @_numbers_first
    def max(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        return v[0] if known.at_least_one(forms.subtract(a, b)) else v[1]

    def select(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        condition = v[0]
        if isinstance(condition, int | Form):
            return v[1] if _bit(condition, known) else v[2]
        return chosen(condition, v[1], v[2])

    @_numbers_first
    def cmp(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Decided by what is known, else the path splits."""
        a, b = _forms(v)
        predicate = op.detail
        if predicate is None:
            return None
        if predicate in ("eq", "ne"):
            return int(_equal(forms.subtract(a, b), known) == (predicate == "eq"))
        if predicate[0] == "u" and (_may_be_negative(a, known) or _may_be_negative(b, known)):
            return forms.of_atom(Atom("bit", (predicate, a, b)))
        if predicate[1] == "g":
            a, b = b, a
        # a < b: b - a >= 1; a <= b: b - a + 1 >= 1.
        rest = forms.add(forms.subtract(b, a), Form(int(predicate[2] == "e")))
        return int(known.at_least_one(rest))

    @_numbers_first
    def cast(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """The same number, or its lowest bit."""
        (form,) = _forms(v)
        if op.bits > 1:
            return normal(form)
        residue = known.residue(form, 2)
        return forms.of_atom(Atom("bit", ("cast", form))) if residue is None else residue


AMOUNTS = Amounts()


def _forms(v: list[Amount]) -> list[Form]:
    return [form_of(value) for value in v if isinstance(value, int | Form)]


def _opaque(op: Typed, a: Form, b: Form) -> Form:
    """One number, named by what it is made of."""
    kind = "bit" if op.bits == 1 else "unknown"
    return forms.of_atom(Atom(kind, (op.row, op.bits, a, b)))


def _may_be_negative(form: Form, known: Knowledge) -> bool:
    # s (k - 1) is 0 or more where k is 1 or more, as s is.
    low, _ = known.bounds(known.without_factors(forms.add(form, Form(1))))
    return low is None or low < 1


def _bit(value: Amount, known: Knowledge) -> int:
    """The truth of a bit. Raises UndecidedError."""
    return value & 1 if isinstance(value, int) else int(known.at_least_one(value))  # type: ignore[arg-type]


def _equal(difference: Form, known: Knowledge) -> bool:
    """Whether a form is 0. Raises UndecidedError."""
    if not difference.terms:
        return difference.constant == 0
    if not difference.constant:
        difference = known.without_factors(difference)
    low, high = known.bounds(difference)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    if low == high == 0:
        return True
    for modulus in {modulus for _, modulus in known.residues.values()}:
        if known.residue(difference, modulus):
            return False
    if high is None or high > 0:
        raise UndecidedError(difference)
    raise UndecidedError(forms.scale(difference, -1))
