"""Evaluates the IR's integer ops on forms: one table from op name to rule.

    arith.addi, index.add, llvm.add      a + b
    arith.remui, index.remu, llvm.urem   a mod b, for a >= 0 and constant b
    arith.select                         decided by the condition, else the path splits

Index arithmetic is taken not to wrap. A rule answers None where the result is not a form of
its operands; the caller then makes it an opaque symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial, reduce
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Facts, Form
from mlir_async_pipe.index_splitting import SPLIT, Part, parts_of, weights_of

Rule = Callable[[Any, list[Form], Facts], Form | None]


class UndecidedError(Exception):
    """The path splits here: `condition` may be 0 or 1."""

    def __init__(self, condition: Form) -> None:
        self.condition = condition


@lru_cache(maxsize=256)
def rule_of(name: str) -> Rule | None:
    """The rule for the ops called `name`: (op, forms of its operands, facts) to the form of
    its result, None if that is opaque. Rules raise UndecidedError where a select is open.
    """
    return _RULES.get(name.split(".", 1)[1]) if name.startswith(_DIALECTS) else None


def folds_remainders(name: str) -> bool:
    """Whether the ops called `name` make quotients and remainders, which fold to numbers where
    enough is known of what they divide."""
    return rule_of(name) in (_div, _ceil_div, _rem, _and, _shr, _affine_apply)


def rules_of_parts(op: Any) -> list[Rule] | None:
    """A rule for each result of an op that splits an index, None for other ops."""
    parts = parts_of(op) if op.name == SPLIT else None
    return None if parts is None else [partial(_part, part=part) for part in parts]


def _part(op: Any, v: list[Form], facts: Facts, *, part: Part) -> Form | None:
    divided = _div(op, [v[0], Form(part.stride)], facts)
    if divided is None or part.modulus is None:
        return divided
    return _rem(op, [divided, Form(part.modulus)], facts)


def _join(op: Any, v: list[Form], facts: Facts) -> Form | None:
    weights = weights_of(op)
    if weights is None:
        return None
    scaled = (forms.scale(form, weight) for form, weight in zip(v, weights, strict=False))
    return reduce(forms.add, scaled)


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
    return forms.substitute(form, values, facts) if values else form


def _mul(op: Any, v: list[Form], facts: Facts) -> Form | None:
    a, b = (settle(x, facts) for x in v)
    if b.is_constant:
        return forms.scale(a, b.constant)
    return forms.scale(b, a.constant) if a.is_constant else forms.call("mul", a, b)


def _div(op: Any, v: list[Form], facts: Facts) -> Form | None:
    low, _ = forms.bounds(v[0], facts)
    if not v[1].is_constant or v[1].constant <= 0 or low is None or low < 0:
        return None
    return forms.floor_divide(v[0], v[1].constant, facts)


def _ceil_div(op: Any, v: list[Form], facts: Facts) -> Form | None:
    if not v[1].is_constant or v[1].constant <= 0:
        return None
    return _div(op, [forms.add(v[0], Form(v[1].constant - 1)), v[1]], facts)


def _rem(op: Any, v: list[Form], facts: Facts) -> Form | None:
    low, _ = forms.bounds(v[0], facts)
    if not v[1].is_constant or v[1].constant <= 0 or low is None or low < 0:
        return None
    return forms.modulo(v[0], v[1].constant, facts)


def _is_bit(op: Any) -> bool:
    return str(op.results[0].type) == "i1"


def _and(op: Any, v: list[Form], facts: Facts) -> Form | None:
    a, b = (settle(x, facts) for x in v)
    if b.is_constant:
        a, b = b, a
    if a.is_constant:
        mask = a.constant
        if mask == 0 or (_is_bit(op) and mask == 1):
            return b if mask else forms.ZERO
        if mask & (mask + 1) == 0 and mask > 0:
            return forms.modulo(b, mask + 1, facts)
    return forms.apply("and", (a, b), facts)


def _or(op: Any, v: list[Form], facts: Facts) -> Form | None:
    a, b = (settle(x, facts) for x in v)
    for one, other in ((a, b), (b, a)):
        if one.is_constant and (one.constant == 0 or (_is_bit(op) and one.constant == 1)):
            return one if one.constant else other
    return forms.apply("or", (a, b), facts)


def _xor(op: Any, v: list[Form], facts: Facts) -> Form | None:
    a, b = (settle(x, facts) for x in v)
    for one, other in ((a, b), (b, a)):
        if one.is_constant and one.constant == 0:
            return other
        if one.is_constant and _is_bit(op) and one.constant == 1:
            return forms.subtract(Form(1), other)
    return forms.apply("xor", (a, b), facts)


def _shl(op: Any, v: list[Form], facts: Facts) -> Form | None:
    return forms.scale(v[0], 1 << v[1].constant) if _is_shift(v[1]) else None


def _shr(op: Any, v: list[Form], facts: Facts) -> Form | None:
    return _div(op, [v[0], Form(1 << v[1].constant)], facts) if _is_shift(v[1]) else None


def _is_shift(form: Form) -> bool:
    return form.is_constant and 0 <= form.constant < 63


def _select(op: Any, v: list[Form], facts: Facts) -> Form | None:
    condition = exact(settle(v[0], facts), facts)
    if condition is None:
        if v[1] == v[2]:
            return v[1]
        following = wrapped(v, facts)
        if following is None:
            raise UndecidedError(v[0])
        return following
    return v[1] if condition else v[2]


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


def _extreme(name: str) -> Rule:
    def rule(op: Any, v: list[Form], facts: Facts) -> Form | None:
        low, high = forms.bounds(forms.subtract(v[0], v[1]), facts)
        if high is not None and high <= 0:
            return v[0] if name == "min" else v[1]
        if low is not None and low >= 0:
            return v[1] if name == "min" else v[0]
        return forms.call(name, v[0], v[1])

    return rule


def is_negative(form: Form, facts: Facts) -> Form:
    """1 if form < 0, 0 if not, else the undecided comparison."""
    low, high = forms.bounds(form, facts)
    if high is not None and high < 0:
        return Form(1)
    if low is not None and low >= 0:
        return Form(0)
    return forms.call("cmp<", form)


def is_zero(form: Form, facts: Facts) -> Form:
    """1 if form = 0, 0 if not, else the undecided comparison."""
    low, high = forms.bounds(form, facts)
    if low == high == 0:
        return Form(1)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return Form(0)
    return forms.call("cmp=", form)


def compare(name: str, a: Form, b: Form, facts: Facts) -> Form:
    """The i1 form of a comparison, by the name of its predicate ("eq", "slt", "uge", …).

    Unsigned predicates read like signed ones: addresses and counts are not negative.
    """
    kind = name if name in ("eq", "ne") else name[1:]
    difference = forms.subtract(a, b)
    if kind in ("eq", "ne"):
        equal = is_zero(difference, facts)
        return equal if kind == "eq" else forms.subtract(Form(1), equal)
    if kind in ("lt", "ge"):
        less = is_negative(difference, facts)
        return less if kind == "lt" else forms.subtract(Form(1), less)
    greater = is_negative(forms.scale(difference, -1), facts)
    return greater if kind == "gt" else forms.subtract(Form(1), greater)


_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def _cmp(op: Any, v: list[Form], facts: Facts) -> Form | None:
    if op.name == "index.cmp":
        text = str(op.attributes["pred"])
        predicate = next((p for p in _PREDICATES if f" {p}" in text or f"({p})" in text), None)
    else:
        number = int(ir.IntegerAttr(op.attributes["predicate"]).value)
        predicate = _PREDICATES[number]
    return None if predicate is None else compare(predicate, v[0], v[1], facts)


def _affine_apply(op: Any, v: list[Form], facts: Facts) -> Form | None:
    affine_map = ir.AffineMapAttr(op.attributes["map"]).value

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
                return None if a is None or b is None else rule(op, [a, b], facts)
        return None

    return form(affine_map.results[0])


def _sum(op: Any, v: list[Form], facts: Facts) -> Form | None:
    return forms.add(v[0], v[1])


def _same(op: Any, v: list[Form], facts: Facts) -> Form | None:
    return v[0]


_AFFINE: tuple[tuple[Callable[[], Any], Rule], ...] = (
    (lambda: ir.AffineAddExpr, _sum),
    (lambda: ir.AffineMulExpr, _mul),
    (lambda: ir.AffineModExpr, _rem),
    (lambda: ir.AffineFloorDivExpr, _div),
    (lambda: ir.AffineCeilDivExpr, _ceil_div),
)


_RULES: dict[str, Rule] = {
    "apply": _affine_apply,
    "linearize_index": _join,
    **dict.fromkeys(("addi", "add"), _sum),
    **dict.fromkeys(("subi", "sub"), lambda op, v, facts: forms.subtract(v[0], v[1])),
    **dict.fromkeys(("muli", "mul"), _mul),
    **dict.fromkeys(("divui", "divsi", "floordivsi", "divu", "divs", "udiv", "sdiv"), _div),
    **dict.fromkeys(("ceildivui", "ceildivsi", "ceildivu", "ceildivs"), _ceil_div),
    **dict.fromkeys(("remui", "remsi", "remu", "rems", "urem", "srem"), _rem),
    **dict.fromkeys(("andi", "and"), _and),
    **dict.fromkeys(("ori", "or"), _or),
    **dict.fromkeys(("xori", "xor"), _xor),
    **dict.fromkeys(("shli", "shl"), _shl),
    **dict.fromkeys(("shrui", "shrsi", "shru", "shrs", "lshr", "ashr"), _shr),
    "select": _select,
    **dict.fromkeys(("minui", "minsi", "minu", "mins"), _extreme("min")),
    **dict.fromkeys(("maxui", "maxsi", "maxu", "maxs"), _extreme("max")),
    **dict.fromkeys(("cmpi", "icmp", "cmp"), _cmp),
    **dict.fromkeys(
        ("index_cast", "index_castui", "casts", "castu", "extui", "trunci", "zext", "trunc"), _same
    ),
    **dict.fromkeys(
        ("extsi", "sext"),
        lambda op, v, facts: None if str(op.operands[0].type) == "i1" else v[0],
    ),
}
