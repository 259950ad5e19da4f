"""Evaluates the IR's integer ops on forms: one table from op name to rule.

    arith.addi, index.add, llvm.add      a + b, as it fits into the type (see `widths`)
    arith.remui, index.remu, llvm.urem   a mod b (see `divisions`)
    arith.select                         decided by the condition, else the path splits (`choices`)

A rule answers None where the result is not a form of its operands; the caller then makes it an
opaque symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial, reduce
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.choices import extreme, select
from mlir_async_pipe.checker.comparisons import cmp
from mlir_async_pipe.checker.divisions import divide, is_shift, remainder, shift_right
from mlir_async_pipe.checker.forms import Facts, Form
from mlir_async_pipe.checker.settled import settle
from mlir_async_pipe.checker.widths import (
    Rule,
    Typed,
    result,
    signed,
    stored,
    typed,
    unsigned,
)
from mlir_async_pipe.values.index_splitting import (
    SPLIT,
    Part,
    parts_of,
    weights_of,
)

Bound = Callable[[list[Form], Facts], Form | None]


@lru_cache(maxsize=256)
def _rule_of(name: str) -> Rule | None:
    return _RULES.get(name.split(".", 1)[1]) if name.startswith(_DIALECTS) else None


def has_rule(name: str) -> bool:
    """Whether the results of the ops called `name` are forms of their operands."""
    return _rule_of(name) is not None


def rule_of(op: Any) -> Bound | None:
    """The rule for an op, its types and flags read once: (forms of its operands, facts) to the
    form of its result, None if that is opaque. Raises `choices.UndecidedError` where a select
    is open.
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
    if not is_shift(op, v[1]):
        return None
    return result(op, forms.scale(v[0], 1 << v[1].constant), v[:1], facts)


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
    (lambda: ir.AffineModExpr, remainder("s")),
    (lambda: ir.AffineFloorDivExpr, divide("s", down=True)),
    (lambda: ir.AffineCeilDivExpr, divide("s", down=True, up=True)),
)


_RULES: dict[str, Rule] = {
    "apply": _affine_apply,
    "linearize_index": _join,
    **dict.fromkeys(("addi", "add"), _sum),
    **dict.fromkeys(("subi", "sub"), _difference),
    **dict.fromkeys(("muli", "mul"), _mul),
    **dict.fromkeys(("divui", "divu", "udiv"), divide("u")),
    **dict.fromkeys(("divsi", "divs", "sdiv"), divide("s")),
    **dict.fromkeys(("floordivsi", "floordivs"), divide("s", down=True)),
    **dict.fromkeys(("ceildivui", "ceildivu"), divide("u", up=True)),
    **dict.fromkeys(("ceildivsi", "ceildivs"), divide("s", down=True, up=True)),
    **dict.fromkeys(("remui", "remu", "urem"), remainder("u")),
    **dict.fromkeys(("remsi", "rems", "srem"), remainder("s")),
    **dict.fromkeys(("andi", "and"), _and),
    **dict.fromkeys(("ori", "or"), _or),
    **dict.fromkeys(("xori", "xor"), _xor),
    **dict.fromkeys(("shli", "shl"), _shl),
    **dict.fromkeys(("shrui", "shru", "lshr"), shift_right("u")),
    **dict.fromkeys(("shrsi", "shrs", "ashr"), shift_right("s")),
    "select": select,
    **dict.fromkeys(("minui", "minu", "intr.umin"), extreme("min", "u")),
    **dict.fromkeys(("minsi", "mins", "intr.smin"), extreme("min", "s")),
    **dict.fromkeys(("maxui", "maxu", "intr.umax"), extreme("max", "u")),
    **dict.fromkeys(("maxsi", "maxs", "intr.smax"), extreme("max", "s")),
    **dict.fromkeys(("cmpi", "icmp", "cmp"), cmp),
    **dict.fromkeys(("index_cast", "casts", "extsi", "sext", "trunci", "trunc"), _cast("s")),
    **dict.fromkeys(("index_castui", "castu", "extui", "zext"), _cast("u")),
}
# What folds to numbers where enough is known of iteration numbers.
_DIVIDING = {
    *(_RULES[name] for name in ("divui", "divsi", "floordivsi", "ceildivui", "ceildivsi")),
    *(_RULES[name] for name in ("remui", "remsi", "andi", "shrui", "shrsi", "apply")),
}
