"""Integer ops on forms: the checker's domain beside those of `values`.

    arith.addi, index.add, llvm.add      a + b, as it fits into the type
    arith.remui, index.remu, llvm.urem   a mod b
    arith.select                         decided by the condition, else the path splits
    arith.minui                          the one that is never larger, else `min(a, b)`

The answer is None where the result is not a form of the operands; the caller then makes it an opaque symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial, reduce
from typing import Any

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Facts, Form
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.step_graph import is_integer
from mlir_async_pipe.checker.thread_grid import is_about_threads
from mlir_async_pipe.facts.values.domains import Domain, Typed, typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, bits_of
from mlir_async_pipe.facts.values.linear import fits
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, Operator

# Integers of a width as forms: which number stands for the bits, and what fits into them.
#
#     i8    the bits 1111 1110     the form -2; 254 where an op reads them as unsigned
#     i1    the bit 1              the form 1; -1 where an op reads it as signed
#
# A sum that does not provably fit into its type becomes `wrap(sum, bits)`, the same modulo 2^bits,
# unless the op says `overflow<nsw>`. Of 64 bits (index, i64) only sums of numbers with known ends
# are looked at: the others, sizes and iteration numbers times strides, are taken not to wrap.


def values_of(kind: Any) -> AtomRange | None:
    """What an unknown value of a type can be; None where saying so would help nobody."""
    bits = bits_of(kind)
    if bits >= INDEX_BITS:
        return None
    return AtomRange(0, 1) if bits == 1 else forms.type_range(bits)


def of_constant(value: int, kind: Any) -> Form:
    return Form(value & 1 if type_text(kind) == "i1" else value)


def stored(form: Form, bits: int, facts: Facts) -> Form:
    """What a number is as bits of a type: itself where it fits."""
    if bits == 1:
        return forms.modulo(form, 2, facts)
    is_exact = bits > INDEX_BITS or _fits(form, bits, facts)
    return form if is_exact else forms.wrap(form, bits, facts)


def _fits(form: Form, bits: int, facts: Facts) -> bool:
    """Whether numbers of the form are of a type; of 64 bits they may stand under an operator then: they are enumerated so."""
    return fits(forms.bounds(form, facts), bits)


def fitting(form: Form | None, facts: Facts) -> Form | None:
    """The form without a `wrap` around it where these facts show that the number fits."""
    if form is None or form.constant or len(form.terms) != 1:
        return form
    ((atom, factor),) = form.terms
    name, arguments = forms.operator_of(atom)
    if factor != 1 or name != "wrap":
        return form
    inside, bits = arguments
    return inside if _fits(inside, bits.constant, facts) else form


def result(op: Typed, form: Form, operands: list[Form], facts: Facts) -> Form:
    """What an op makes of the number that it computes, its flags believed."""
    if op.bits > 1 and (op.nsw or (op.nuw and _stays_small(form, operands, facts))):
        return form
    return stored(form, op.bits, facts)


def _stays_small(form: Form, operands: list[Form], facts: Facts) -> bool:
    """Whether a result that fits as an unsigned number is below its signed end too: with
    operands that are not negative, a difference is."""
    numbers = (*operands, forms.subtract(operands[0], form))
    return all(_not_negative(number, facts) for number in numbers)


def _not_negative(form: Form, facts: Facts) -> bool:
    """Whether a number, of which nothing is known, is 0 or more: rounding towards zero and rounding down agree."""
    low, _ = forms.bounds(form, facts)
    return low is not None and low >= 0


def signed(form: Form, bits: int) -> Form:
    return forms.scale(form, -1) if bits == 1 else form


def unsigned(form: Form, bits: int, facts: Facts) -> Form | None:
    """The number that unsigned ops read; None where it may have more than 63 bits. Of a number that fits because an op says so
    the sign is kept apart, which may be known later: x + 2^32 (x < 0)."""
    if bits == 1 or _not_negative(form, facts):
        return form
    if bits >= INDEX_BITS:
        return None
    if _fits(form, bits, facts):
        return forms.modulo(form, 1 << bits, facts)
    return forms.add(form, forms.scale(is_negative(form, facts), 1 << bits))


def _as_read(op: Typed, v: list[Form], facts: Facts) -> list[Form | None]:
    """The numbers that an op reads, with a sign or without one."""
    if op.row.sign == "u":
        return [unsigned(x, op.bits, facts) for x in v]
    return [signed(x, op.bits) for x in v]


def exact(form: Form, facts: Facts) -> int | None:
    """The value of a form, if the facts leave only one."""
    if not form.terms:
        return form.constant
    low, high = forms.bounds(form, facts)
    return low if low == high else None


def settle(form: Form, facts: Facts) -> Form:
    """The form with every atom that has one value replaced by it, and what that makes of others, too."""
    values: dict[Atom, Form] = {}
    for atom in forms.atoms_of(form) if form.terms else ():
        known = facts.get(atom)
        if known is not None and known.exact is not None:
            values[atom] = Form(known.exact)
    settled = forms.substitute(form, values, facts) if values else form
    return form if settled == form else settle(settled, facts)


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
    return forms.modulo(x, versions.constant, facts)


# Division, remainder and shift to the right, of forms.
#
#     arith.divui, index.divu, llvm.udiv   a div b, for a constant b, of a as an unsigned number;
#                                          quotient(a, b) and remainder(a, b) for another b; the path
#                                          splits at n = 0 for a = n - 1, which is 2^64 - 1 there
#     arith.floordivsi                     a div b of a as a signed one
#     arith.divsi                          the same, where a is not negative
#


def _read(op: Typed, v: list[Form], facts: Facts) -> tuple[Form, Form] | None:
    """Dividend and divisor as an op reads them; None unless the divisor is not negative, and not
    0 (which is undefined). Raises OpenError where only what one symbol is says whether a
    dividend of 64 bits is negative: large as an unsigned number."""
    atoms = list(v[0].symbols)
    # A multiple of one symbol, the same in all threads, plus a constant.
    one = len(atoms) == 1 and atoms[0].kind == "symbol" and not is_about_threads(atoms[0])
    if one and op.row.sign == "u" and op.bits == INDEX_BITS:
        negative = is_negative(v[0], facts)
        if not settle(negative, facts).is_constant:
            raise OpenError(negative)
    a, b = _as_read(op, v, facts)
    if a is None or b is None or b == forms.ZERO or not _not_negative(b, facts):
        return None
    return a, b


def is_shift(op: Typed, form: Form) -> bool:
    """Whether a shift is by a number below the width; more is poison."""
    return form.is_constant and 0 <= form.constant < min(op.bits, 63)


# Comparisons of integers as forms: what is decided becomes 0 or 1, the rest an operator.
#
#     slt a, b       a - b < 0
#     ult a, b       a >= 0 and a - b < 0, for b >= 0: what is negative is large as unsigned
#     ult a, b       b < 0 or a - b < 0, for a >= 0
#
# Forms stand for exact numbers, so a difference of them does not wrap.

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
    if not _fits(forms.subtract(a, b), INDEX_BITS, facts):
        return None
    less = is_negative(forms.subtract(a, b), facts) if name[0] == "s" else _below(a, b, facts)
    if name[0] == "u" and not less.is_constant:
        less = _below_as_read(a, b, bits, facts) or less
    return less if kind in ("lt", "gt") else negation(less)


def negation(bit: Form) -> Form:
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
    return forms.apply("xor", (less, forms.apply("xor", (first, second), facts)), facts)


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


Bound = Callable[[list[Form], Facts], Form | None]


def has_rule(name: str) -> bool:
    """Whether the result of the ops called `name` is a form of their operands."""
    return name in OPERATORS and OPERATORS[name].method != "split"


def rule_of(op: Any) -> Bound | None:
    """The rule for an op, its types and attributes read once: (forms of its operands, facts) to the form of its result,
    None if that is opaque. Raises `OpenError` where a select is open.
    """
    return meaning_of(op)[1] if has_rule(op.name) else None


def meaning_of(op: Any) -> tuple[Hashable, Bound]:
    """What the rule of an op reads of it, and the rule. Ops of one meaning have one rule, but for
    selections, which read what they choose from."""
    one = typed(op)
    return one[1:], partial(getattr(FORMS, one.row.method), one)


def folds_remainders(name: str) -> bool:
    """Whether ops make quotients and remainders, which fold to numbers where enough is known of iteration numbers."""
    return name in OPERATORS and OPERATORS[name].method in _DIVIDING


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
        return result(op, forms.with_remainders(forms.add(v[0], v[1])), v, known)

    def sub(self, op: Typed, v: list[Form], known: Facts) -> Form:
        return result(op, forms.with_remainders(forms.subtract(v[0], v[1])), v, known)

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
        if not is_shift(op, v[1]):
            return None
        return result(op, forms.scale(v[0], 1 << v[1].constant), v[:1], known)

    def and_(self, op: Typed, v: list[Form], known: Facts) -> Form:
        """With a mask of ones side by side a quotient, a remainder, or one of the other; with several such parts their sum,
        if some of these bits are known."""
        a, b = (settle(x, known) for x in v)
        if b.is_constant:
            a, b = b, a
        if a.is_constant:
            mask = a.constant
            if mask == 0 or _is_ones(op, a):
                return b if mask else forms.ZERO
            parts = [_bits(b, unit, ones, known) for unit, ones in _runs(mask)]
            if len(parts) == 1 or any(part.is_constant for part in parts):
                return reduce(forms.add, parts)
        return forms.apply("and", (a, b), known)

    def or_(self, op: Typed, v: list[Form], known: Facts) -> Form:
        """Bits that one has."""
        a, b = (settle(x, known) for x in v)
        for one, other in ((a, b), (b, a)):
            if one.is_constant and (one.constant == 0 or _is_ones(op, one)):
                return one if one.constant else other
        return forms.apply("or", (a, b), known)

    def xor(self, op: Typed, v: list[Form], known: Facts) -> Form:
        """With all ones -1 - x."""
        a, b = (settle(x, known) for x in v)
        for one, other in ((a, b), (b, a)):
            if one.is_constant and one.constant == 0:
                return other
            if _is_ones(op, one):
                return forms.subtract(one, other)
        return forms.apply("xor", (a, b), known)

    def cast(self, op: Typed, v: list[Form], known: Facts) -> Form | None:
        """Extended by the sign that is read, or cut."""
        if op.bits <= op.given:
            return result(op, v[0], v, known)
        return signed(v[0], op.given) if op.row.sign == "s" else unsigned(v[0], op.given, known)

    def div(self, op: Typed, v: list[Form], facts: Facts) -> Form | None:
        found = _read(op, v, facts)
        if found is None or (op.row.rounding == "zero" and not _not_negative(found[0], facts)):
            return None
        a, b = found
        if op.row.rounding == "up":
            a = forms.add(a, forms.add(b, Form(-1)))
            if not _fits(a, INDEX_BITS, facts):
                return None
        if not (b.is_constant or _not_negative(a, facts)):
            return None
        quotient = forms.apply("quotient", (a, b), facts)
        # What fits into the type does so divided, too.
        return quotient if a == v[0] else stored(quotient, op.bits, facts)

    def rem(self, op: Typed, v: list[Form], facts: Facts) -> Form | None:
        """A remainder: of numbers that are not negative, or rounded down by a constant."""
        found = _read(op, v, facts)
        if found is None:
            return None
        down = op.row.rounding == "down" and found[1].is_constant
        if not (down or _not_negative(found[0], facts)):
            return None
        return stored(forms.apply("remainder", found, facts), op.bits, facts)

    def select(self, op: Typed, v: list[Form], facts: Facts) -> Form | None:
        """The value that the condition chooses; OpenError where a path must split."""
        condition = exact(settle(v[0], facts), facts)
        if condition is not None:
            return v[1] if condition else v[2]
        if v[1] == v[2]:
            return v[1]
        following = wrapped(v, facts)
        if following is not None:
            return following
        if not (chooses_numbers(op.op) and any(map(is_about_threads, v[0].symbols))):
            raise OpenError(v[0])
        # b + (a - b) * c: each thread has a number of its own, and no path splits.
        between = forms.subtract(v[1], v[2])
        if between.is_constant:
            return forms.add(v[2], forms.scale(v[0], between.constant))
        return forms.add(v[2], forms.call("mul", v[0], between))

    def min(self, op: Typed, v: list[Form], facts: Facts) -> Form | None:
        """The smaller or the larger one, as the row says, of signed or unsigned numbers."""
        a, b = _as_read(op, v, facts)
        if a is None or b is None:
            return None
        name, (low, high) = op.row.method, forms.bounds(forms.subtract(a, b), facts)
        if high is not None and high <= 0:
            found = a if name == "min" else b
        elif low is not None and low >= 0:
            found = b if name == "min" else a
        else:
            found = forms.call(name, a, b)
        return stored(found, op.bits, facts)

    max = min

    def cmp(self, op: Typed, v: list[Form], facts: Facts) -> Form | None:
        """A comparison by the predicate of its op, of what is known of its operands: what is asked of it by itself, and as
        a part of a condition, is then one atom."""
        name, (a, b) = op.detail, (settle(x, facts) for x in v)
        return None if name is None else compare(name, a, b, facts, op.given)

    def shr(self, op: Typed, v: list[Form], known: Facts) -> Form | None:
        """A division by a power of two that rounds down."""
        if op.bits == 1 or not is_shift(op, v[1]):
            return None
        division = op._replace(row=Operator("div", op.row.sign, "down"))
        return self.div(division, [v[0], Form(1 << v[1].constant)], known)


FORMS = Forms()


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """The ones of a mask that stand side by side: the lowest one, and as many of them from bit 0 on (-1: without an end)."""
    while mask:
        unit = mask & -mask
        high = mask // unit
        ones = high if high == -1 else (high ^ (high + 1)) >> 1
        yield unit, ones
        mask &= ~(ones * unit)


def _bits(form: Form, unit: int, ones: int, known: Facts) -> Form:
    """Some bits side by side of a number, where they stand."""
    high = forms.floor_divide(form, unit, known)
    return forms.scale(high if ones < 0 else forms.modulo(high, ones + 1, known), unit)


def _is_ones(op: Typed, form: Form) -> bool:
    return form.is_constant and form.constant == (1 if op.bits == 1 else -1)
