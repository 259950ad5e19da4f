"""Selections, minima and maxima, of forms.

    arith.select       decided by the condition, else the path splits
    arith.minui        the one that is never larger, else `min(a, b)`

A ring's slot that is counted up by a selection is a remainder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Atom, AtomRange, Facts, Form
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.step_graph import is_integer
from mlir_async_pipe.checker.thread_grid import is_about_threads
from mlir_async_pipe.facts.values.domains import Typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, bits_of


def select(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    """The value that the condition chooses; OpenError where a path must split."""
    condition = exact(settle(v[0], facts), facts)
    if condition is None:
        if v[1] == v[2]:
            return v[1]
        following = wrapped(v, facts)
        if (
            following is None
            and chooses_numbers(op.op)
            and any(is_about_threads(atom) for atom, _ in v[0].terms)
        ):
            # b + (a - b) * c: each thread has a number of its own, and no path splits.
            between = forms.subtract(v[1], v[2])
            chosen = (
                forms.scale(v[0], between.constant)
                if between.is_constant
                else forms.call("mul", v[0], between)
            )
            following = forms.add(v[2], chosen)
        if following is None:
            raise OpenError(v[0])
        return following
    return v[1] if condition else v[2]


def chooses_numbers(op: Any) -> bool:
    """Whether one condition selects one of two integers: a form of all three says which."""
    return str(op.operands[0].type) == "i1" and is_integer(op.results[0].type)


def wrapped(v: list[Form], facts: Facts) -> Form | None:
    """x = V ? 0 : x, with x in 0 … V, is x mod V: how a ring's slot is counted up.

    `v` are condition and values of the selection; None if it is no such one.
    """
    condition, zero, x = v
    if zero != forms.ZERO or len(condition.terms) != 1:
        return None
    ((atom, sign),) = condition.terms
    if (condition.constant, sign, atom.kind) != (0, 1, "call"):
        return None
    name, (difference, *_) = forms.operator_of(atom)
    versions = forms.subtract(x, difference)
    low, high = forms.bounds(x, facts)
    if name != "cmp=" or not versions.is_constant or low is None or high is None:
        return None
    if low < 0 or high > versions.constant:
        return None
    return operators.modulo(x, versions.constant, facts)


def extreme(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    """The smaller or the larger one, as the row says, of signed or unsigned numbers."""
    if op.row.sign == "u":
        a, b = (unsigned(x, op.bits, facts) for x in v)
    else:
        a, b = (signed(x, op.bits) for x in v)
    if a is None or b is None:
        return None
    return stored(_least(op.row.method, a, b, facts), op.bits, facts)


def _least(name: str, a: Form, b: Form, facts: Facts) -> Form:
    low, high = forms.bounds(forms.subtract(a, b), facts)
    if high is not None and high <= 0:
        return a if name == "min" else b
    if low is not None and low >= 0:
        return b if name == "min" else a
    return forms.call(name, a, b)


# Integers of a width as forms: which number stands for the bits, and what fits into them.
#
#     i8    the bits 1111 1110     the form -2; 254 where an op reads them as unsigned
#     i1    the bit 1              the form 1; -1 where an op reads it as signed
#
# A sum that does not provably fit into its type becomes `wrap(sum, bits)`, the same modulo 2^bits,
# unless the op says `overflow<nsw>`. Of 64 bits (index, i64) only sums of numbers with known ends
# are looked at: the others, sizes and iteration numbers times strides, are taken not to wrap.

Rule = Callable[[Typed, list[Form], Facts], Form | None]


def values_of(kind: Any) -> AtomRange | None:
    """What an unknown value of a type can be; None where saying so would help nobody."""
    bits = bits_of(kind)
    if bits >= INDEX_BITS:
        return None
    return AtomRange(0, 1) if bits == 1 else forms.type_range(bits)


def of_constant(value: int, kind: Any) -> Form:
    """The form of a constant of a type."""
    return Form(value & 1 if type_text(kind) == "i1" else value)


def stored(form: Form, bits: int, facts: Facts) -> Form:
    """What a number is as bits of a type: itself where it fits."""
    if bits == 1:
        return operators.modulo(form, 2, facts)
    if bits > INDEX_BITS:
        return form
    low, high = forms.bounds(form, facts)
    if low is None or high is None:
        return form if bits == INDEX_BITS else operators.wrap(form, bits, facts)
    fits = forms.type_range(bits).contains(AtomRange(low, high))
    return form if fits else operators.wrap(form, bits, facts)


def fitting(form: Form | None, facts: Facts) -> Form | None:
    """The form without a `wrap` around it where these facts show that the number fits."""
    if form is None or form.constant or len(form.terms) != 1:
        return form
    ((atom, factor),) = form.terms
    if factor != 1 or atom.kind != "call" or forms.operator_of(atom)[0] != "wrap":
        return form
    inside, bits = forms.operator_of(atom)[1]
    fits = forms.type_range(bits.constant).contains(AtomRange(*forms.bounds(inside, facts)))
    return inside if fits else form


def in_64_bits(form: Form, facts: Facts) -> bool:
    """Whether numbers of the form may stand under an operator: they are enumerated in 64 bits."""
    low, high = forms.bounds(form, facts)
    least, most = forms.type_range(INDEX_BITS)[:2]
    return (low is None or low >= (least or 0)) and (high is None or high <= (most or 0))


def result(op: Typed, form: Form, operands: list[Form], facts: Facts) -> Form:
    """What an op makes of the number that it computes, its flags believed."""
    if op.bits > 1 and (op.nsw or (op.nuw and _stays_small(form, operands, facts))):
        return form
    return stored(form, op.bits, facts)


def _stays_small(form: Form, operands: list[Form], facts: Facts) -> bool:
    """Whether a result that fits as an unsigned number is below its signed end too: with
    operands that are not negative, a difference is."""
    lows = [forms.bounds(operand, facts)[0] for operand in operands]
    if any(low is None or low < 0 for low in lows):
        return False
    rest = forms.bounds(forms.subtract(operands[0], form), facts)[0]
    return rest is not None and rest >= 0


def signed(form: Form, bits: int) -> Form:
    return forms.scale(form, -1) if bits == 1 else form


def unsigned(form: Form, bits: int, facts: Facts) -> Form | None:
    """The number that unsigned ops read; None where it may have more than 63 bits."""
    low, _ = forms.bounds(form, facts)
    if bits == 1 or (low is not None and low >= 0):
        return form
    return operators.modulo(form, 1 << bits, facts) if bits < INDEX_BITS else None


def exact(form: Form, facts: Facts) -> int | None:
    """The value of a form, if the facts leave only one."""
    if not form.terms:
        return form.constant
    low, high = forms.bounds(form, facts)
    return low if low == high else None


def settle(form: Form, facts: Facts) -> Form:
    """The form with every atom that has one value replaced by it."""
    values: dict[Atom, Form] = {}
    for atom in forms.atoms_of(form) if form.terms else ():
        known = facts.get(atom)
        if known is not None and known.exact is not None:
            values[atom] = Form(known.exact)
    return operators.substitute(form, values, facts) if values else form
