"""Integers of a width as forms: which number stands for the bits, and what fits into them.

    i8    the bits 1111 1110     the form -2; 254 where an op reads them as unsigned
    i1    the bit 1              the form 1; -1 where an op reads it as signed

A sum that does not provably fit into its type becomes `wrap(sum, bits)`, the same modulo 2^bits,
unless the op says `overflow<nsw>`. Of 64 bits (index, i64) only sums of numbers with known ends
are looked at: the others, sizes and iteration numbers times strides, are taken not to wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Facts, Form, Known
from mlir_async_pipe.facts.values.domains import Typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, bits_of

Rule = Callable[[Typed, list[Form], Facts], Form | None]


def values_of(kind: Any) -> Known | None:
    """What an unknown value of a type can be; None where saying so would help nobody."""
    bits = bits_of(kind)
    if bits >= INDEX_BITS:
        return None
    return Known(0, 1) if bits == 1 else forms.type_range(bits)


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
    fits = forms.type_range(bits).contains(Known(low, high))
    return form if fits else operators.wrap(form, bits, facts)


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
