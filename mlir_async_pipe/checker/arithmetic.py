"""Integer ops on forms: the checker's domain beside those of `values`.

    arith.addi, index.add, llvm.add      a + b, as it fits into the type (see `widths`)
    arith.remui, index.remu, llvm.urem   a mod b (see `divisions`)
    arith.select                         decided by the condition, else the path splits (`choices`)

The answer is None where the result is not a form of the operands; the caller then makes it an
opaque symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from mlir_async_pipe.checker import choices, comparisons, divisions, forms, operators
from mlir_async_pipe.checker.forms import Facts, Form
from mlir_async_pipe.checker.settled import settle
from mlir_async_pipe.checker.widths import result, signed, unsigned
from mlir_async_pipe.facts.values.domains import Domain, Typed, typed
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

Bound = Callable[[list[Form], Facts], Form | None]


def has_rule(name: str) -> bool:
    """Whether the result of the ops called `name` is a form of their operands."""
    return name in OPERATORS and OPERATORS[name].method != "split"


def rule_of(op: Any) -> Bound | None:
    """The rule for an op, its types and attributes read once: (forms of its operands, facts) to
    the form of its result, None if that is opaque. Raises `choices.UndecidedError` where a
    select is open.
    """
    return meaning_of(op)[1] if has_rule(op.name) else None


def meaning_of(op: Any) -> tuple[Hashable, Bound]:
    """What the rule of an op reads of it, and the rule. Ops of one meaning have one rule, but for
    selections, which read what they choose from."""
    one = typed(op)
    return one[1:], partial(getattr(FORMS, one.row.method), one)


def folds_remainders(name: str) -> bool:
    """Whether the ops called `name` make quotients and remainders, which fold to numbers where
    enough is known of what they divide."""
    return name in OPERATORS and OPERATORS[name].method in _DIVIDING


# What folds to numbers where enough is known of iteration numbers.
_DIVIDING = frozenset({"div", "rem", "and_", "shr", "apply", "apply_least", "apply_largest"})


def rules_of_parts(op: Any) -> list[Bound] | None:
    """A rule for each result of an op that splits an index, None for other ops."""
    if op.name not in OPERATORS or has_rule(op.name):
        return None
    one = typed(op)
    return None if one.detail is None else [partial(FORMS.part, one, part) for part in one.detail]


class Forms(Domain[Form, Facts]):
    """Forms, and facts about their atoms."""

    def constant(self, number: int) -> Form:
        return Form(number)

    def add(self, op: Typed, v: list[Form], known: Facts) -> Form:
        return result(op, forms.add(v[0], v[1]), v, known)

    def sub(self, op: Typed, v: list[Form], known: Facts) -> Form:
        return result(op, forms.subtract(v[0], v[1]), v, known)

    def mul(self, op: Typed, v: list[Form], known: Facts) -> Form:
        """A product. What is multiplied by a constant stays what it is, so that an address of iteration
        0 is one of iteration k too."""
        a, b = v if v[0].is_constant or v[1].is_constant else [settle(x, known) for x in v]
        if a.is_constant:
            a, b = b, a
        made = forms.scale(a, b.constant) if b.is_constant else forms.call("mul", a, b)
        return result(op, made, v, known)

    def shl(self, op: Typed, v: list[Form], known: Facts) -> Form | None:
        """A product with a constant power of two."""
        if not divisions.is_shift(op, v[1]):
            return None
        return result(op, forms.scale(v[0], 1 << v[1].constant), v[:1], known)

    def and_(self, op: Typed, v: list[Form], known: Facts) -> Form:
        """With a mask of ones side by side a quotient, a remainder, or one of the other."""
        a, b = (settle(x, known) for x in v)
        if b.is_constant:
            a, b = b, a
        if a.is_constant:
            mask = a.constant
            if mask == 0 or _is_ones(op, a):
                return b if mask else forms.ZERO
            # Ones side by side from bit n on: quotients by 2^n, without what is above the last one.
            unit = mask & -mask
            ones = mask // unit
            if ones & (ones + 1) == 0:
                high = operators.floor_divide(b, unit, known)
                part = high if ones < 0 else operators.modulo(high, ones + 1, known)
                return forms.scale(part, unit)
        return operators.apply("and", (a, b), known)

    def or_(self, op: Typed, v: list[Form], known: Facts) -> Form:
        """Bits that one has."""
        a, b = (settle(x, known) for x in v)
        for one, other in ((a, b), (b, a)):
            if one.is_constant and (one.constant == 0 or _is_ones(op, one)):
                return one if one.constant else other
        return operators.apply("or", (a, b), known)

    def xor(self, op: Typed, v: list[Form], known: Facts) -> Form:
        """With all ones -1 - x."""
        a, b = (settle(x, known) for x in v)
        for one, other in ((a, b), (b, a)):
            if one.is_constant and one.constant == 0:
                return other
            if _is_ones(op, one):
                return forms.subtract(one, other)
        return operators.apply("xor", (a, b), known)

    def cast(self, op: Typed, v: list[Form], known: Facts) -> Form | None:
        """Extended by the sign that is read, or cut."""
        if op.bits <= op.given:
            return result(op, v[0], v, known)
        return signed(v[0], op.given) if op.row.sign == "s" else unsigned(v[0], op.given, known)

    div = staticmethod(divisions.divide)
    rem = staticmethod(divisions.remainder)
    shr = staticmethod(divisions.shift_right)
    select = staticmethod(choices.select)
    min = max = staticmethod(choices.extreme)
    cmp = staticmethod(comparisons.cmp)


FORMS = Forms()


def _is_ones(op: Typed, form: Form) -> bool:
    return form.is_constant and form.constant == (1 if op.bits == 1 else -1)
