"""Evaluates the IR's integer ops on forms: one table from op name to rule.

    arith.addi, index.add, llvm.add      a + b, as it fits into the type (see `widths`)
    arith.remui, index.remu, llvm.urem   a mod b, for a constant b, of a as an unsigned number
    arith.select                         decided by the condition, else the path splits

A rule answers None where the result is not a form of its operands; the caller then makes it an
opaque symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial, reduce
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.comparisons import cmp
from mlir_async_pipe.checker.forms import Atom, Facts, Form
from mlir_async_pipe.checker.thread_grid import is_about_threads
from mlir_async_pipe.checker.type_kinds import is_integer
from mlir_async_pipe.checker.widths import (
    Typed,
    in_64_bits,
    result,
    signed,
    stored,
    typed,
    unsigned,
)
from mlir_async_pipe.index_splitting import SPLIT, Part, parts_of, weights_of

Rule = Callable[[Typed, list[Form], Facts], Form | None]
Bound = Callable[[list[Form], Facts], Form | None]


class UndecidedError(Exception):
    """The path splits here: `condition` may be 0 or 1."""

    def __init__(self, condition: Form) -> None:
        self.condition = condition


@lru_cache(maxsize=256)
def _rule_of(name: str) -> Rule | None:
    return _RULES.get(name.split(".", 1)[1]) if name.startswith(_DIALECTS) else None


def has_rule(name: str) -> bool:
    """Whether the results of the ops called `name` are forms of their operands."""
    return _rule_of(name) is not None


def rule_of(op: Any) -> Bound | None:
    """The rule for an op, its types and flags read once: (forms of its operands, facts) to the
    form of its result, None if that is opaque. Raises UndecidedError where a select is open.
    """
    rule = _rule_of(op.name)
    return None if rule is None else partial(rule, typed(op))


def folds_remainders(name: str) -> bool:
    """Whether the ops called `name` make quotients and remainders, which fold to numbers where
    enough is known of what they divide."""
    return _rule_of(name) in _DIVIDING


def rules_of_parts(op: Any) -> list[Bound] | None:
    """A rule for each result of an op that splits an index, None for other ops."""
    parts = parts_of(op) if op.name == SPLIT else None
    return None if parts is None else [partial(_part, part) for part in parts]


def _part(part: Part, v: list[Form], facts: Facts) -> Form | None:
    low, _ = forms.bounds(v[0], facts)
    if low is None or low < 0:
        return None
    divided = operators.floor_divide(v[0], part.stride, facts)
    return divided if part.modulus is None else operators.modulo(divided, part.modulus, facts)


def _join(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    weights = weights_of(op.op)
    if weights is None:
        return None
    scaled = (forms.scale(form, weight) for form, weight in zip(v, weights, strict=False))
    return stored(reduce(forms.add, scaled), op.bits, facts)


_DIALECTS = ("arith.", "index.", "llvm.", "affine.")


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


def _sum(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    return result(op, forms.add(v[0], v[1]), v, facts)


def _difference(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    return result(op, forms.subtract(v[0], v[1]), v, facts)


def _mul(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    return result(op, _product(*(settle(x, facts) for x in v)), v, facts)


def _product(a: Form, b: Form) -> Form:
    if b.is_constant:
        return forms.scale(a, b.constant)
    return forms.scale(b, a.constant) if a.is_constant else forms.call("mul", a, b)


def _shl(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    if not _is_shift(op, v[1]):
        return None
    return result(op, forms.scale(v[0], 1 << v[1].constant), v[:1], facts)


def _is_shift(op: Typed, form: Form) -> bool:
    """Whether a shift is by a number below the width; more is poison."""
    return form.is_constant and 0 <= form.constant < min(op.bits, 63)


# Divisions ---------------------------------------------------------------------------------


def _read(op: Typed, v: list[Form], facts: Facts, sign: str) -> tuple[Form, int] | None:
    """Dividend and divisor as an op reads them; None unless the divisor is a known number
    above 0."""
    if sign == "u":
        a, b = (unsigned(x, op.bits, facts) for x in v)
    else:
        a, b = (signed(x, op.bits) for x in v)
    if a is None or b is None or not b.is_constant or b.constant <= 0:
        return None
    return a, b.constant


def _not_negative(form: Form, facts: Facts) -> bool:
    """Whether rounding towards zero and rounding down agree."""
    low, _ = forms.bounds(form, facts)
    return low is not None and low >= 0


def _divide(sign: str, *, down: bool = False, up: bool = False) -> Rule:
    """The rule of a division; `down`: it rounds down for negative numbers too."""

    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        found = _read(op, v, facts, sign)
        if found is None or not (down or _not_negative(found[0], facts)):
            return None
        a, divisor = found
        if up:
            a = forms.add(a, Form(divisor - 1))
            if not in_64_bits(a, facts):
                return None
        return stored(operators.floor_divide(a, divisor, facts), op.bits, facts)

    return rule


def _remainder(sign: str) -> Rule:
    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        found = _read(op, v, facts, sign)
        if found is None or not _not_negative(found[0], facts):
            return None
        return stored(operators.modulo(*found, facts), op.bits, facts)

    return rule


def _shift_right(sign: str) -> Rule:
    divide = _divide(sign, down=True)

    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        if op.bits == 1 or not _is_shift(op, v[1]):
            return None
        return divide(op, [v[0], Form(1 << v[1].constant)], facts)

    return rule


# Bits --------------------------------------------------------------------------------------


def _is_ones(op: Typed, form: Form) -> bool:
    return form.is_constant and form.constant == (1 if op.bits == 1 else -1)


def _and(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    a, b = (settle(x, facts) for x in v)
    if b.is_constant:
        a, b = b, a
    if a.is_constant:
        mask = a.constant
        if mask == 0 or _is_ones(op, a):
            return b if mask else forms.ZERO
        if mask & (mask + 1) == 0 and mask > 0:
            return operators.modulo(b, mask + 1, facts)
    return operators.apply("and", (a, b), facts)


def _or(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    a, b = (settle(x, facts) for x in v)
    for one, other in ((a, b), (b, a)):
        if one.is_constant and (one.constant == 0 or _is_ones(op, one)):
            return one if one.constant else other
    return operators.apply("or", (a, b), facts)


def _xor(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    a, b = (settle(x, facts) for x in v)
    for one, other in ((a, b), (b, a)):
        if one.is_constant and one.constant == 0:
            return other
        if _is_ones(op, one):
            return forms.subtract(one, other)
    return operators.apply("xor", (a, b), facts)


# Casts -------------------------------------------------------------------------------------


def _cast(sign: str) -> Rule:
    """The rule of a cast that extends by `sign` where it widens."""

    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        if op.bits <= op.given:
            return result(op, v[0], v, facts)
        return signed(v[0], op.given) if sign == "s" else unsigned(v[0], op.given, facts)

    return rule


# Choices -----------------------------------------------------------------------------------


def _select(op: Typed, v: list[Form], facts: Facts) -> Form | None:
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
            raise UndecidedError(v[0])
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


def _extreme(name: str, sign: str) -> Rule:
    def rule(op: Typed, v: list[Form], facts: Facts) -> Form | None:
        if sign == "u":
            a, b = (unsigned(x, op.bits, facts) for x in v)
        else:
            a, b = (signed(x, op.bits) for x in v)
        if a is None or b is None:
            return None
        return stored(_least(name, a, b, facts), op.bits, facts)

    return rule


def _least(name: str, a: Form, b: Form, facts: Facts) -> Form:
    low, high = forms.bounds(forms.subtract(a, b), facts)
    if high is not None and high <= 0:
        return a if name == "min" else b
    if low is not None and low >= 0:
        return b if name == "min" else a
    return forms.call(name, a, b)


# Affine maps -------------------------------------------------------------------------------


def _affine_apply(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    affine_map = ir.AffineMapAttr(op.op.attributes["map"]).value

    def form(expression: Any) -> Form | None:
        if isinstance(expression, ir.AffineConstantExpr):
            return Form(ir.AffineConstantExpr(expression).value)
        if isinstance(expression, ir.AffineDimExpr):
            return v[ir.AffineDimExpr(expression).position]
        if isinstance(expression, ir.AffineSymbolExpr):
            return v[affine_map.n_dims + ir.AffineSymbolExpr(expression).position]
        for kind, rule in _AFFINE:
            if isinstance(expression, kind()):
                binary = kind()(expression)
                a, b = form(binary.lhs), form(binary.rhs)
                return None if a is None or b is None else rule(Typed(op.op), [a, b], facts)
        return None

    return form(affine_map.results[0])


_AFFINE: tuple[tuple[Callable[[], Any], Rule], ...] = (
    (lambda: ir.AffineAddExpr, _sum),
    (lambda: ir.AffineMulExpr, _mul),
    (lambda: ir.AffineModExpr, _remainder("s")),
    (lambda: ir.AffineFloorDivExpr, _divide("s", down=True)),
    (lambda: ir.AffineCeilDivExpr, _divide("s", down=True, up=True)),
)


_RULES: dict[str, Rule] = {
    "apply": _affine_apply,
    "linearize_index": _join,
    **dict.fromkeys(("addi", "add"), _sum),
    **dict.fromkeys(("subi", "sub"), _difference),
    **dict.fromkeys(("muli", "mul"), _mul),
    **dict.fromkeys(("divui", "divu", "udiv"), _divide("u")),
    **dict.fromkeys(("divsi", "divs", "sdiv"), _divide("s")),
    **dict.fromkeys(("floordivsi", "floordivs"), _divide("s", down=True)),
    **dict.fromkeys(("ceildivui", "ceildivu"), _divide("u", up=True)),
    **dict.fromkeys(("ceildivsi", "ceildivs"), _divide("s", down=True, up=True)),
    **dict.fromkeys(("remui", "remu", "urem"), _remainder("u")),
    **dict.fromkeys(("remsi", "rems", "srem"), _remainder("s")),
    **dict.fromkeys(("andi", "and"), _and),
    **dict.fromkeys(("ori", "or"), _or),
    **dict.fromkeys(("xori", "xor"), _xor),
    **dict.fromkeys(("shli", "shl"), _shl),
    **dict.fromkeys(("shrui", "shru", "lshr"), _shift_right("u")),
    **dict.fromkeys(("shrsi", "shrs", "ashr"), _shift_right("s")),
    "select": _select,
    **dict.fromkeys(("minui", "minu", "intr.umin"), _extreme("min", "u")),
    **dict.fromkeys(("minsi", "mins", "intr.smin"), _extreme("min", "s")),
    **dict.fromkeys(("maxui", "maxu", "intr.umax"), _extreme("max", "u")),
    **dict.fromkeys(("maxsi", "maxs", "intr.smax"), _extreme("max", "s")),
    **dict.fromkeys(("cmpi", "icmp", "cmp"), cmp),
    **dict.fromkeys(("index_cast", "casts", "extsi", "sext", "trunci", "trunc"), _cast("s")),
    **dict.fromkeys(("index_castui", "castu", "extui", "zext"), _cast("u")),
}
# What folds to numbers where enough is known of iteration numbers.
_DIVIDING = {
    *(_RULES[name] for name in ("divui", "divsi", "floordivsi", "ceildivui", "ceildivsi")),
    *(_RULES[name] for name in ("remui", "remsi", "andi", "shrui", "shrsi", "apply")),
}
