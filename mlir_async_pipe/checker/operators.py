"""Operators on forms, folded as far as what is known of their operands allows.

    (k + 2) mod 3      with k = 1 (mod 3)     0
    (16 t + 5) div 8                          2 t, and nothing of the rest of 5
    130 as 8 bits                             -126

`substitute` folds again where atoms are replaced by what is better known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir_async_pipe.checker.forms import (
    Atom,
    Facts,
    Form,
    add,
    atoms_of,
    bounds,
    call,
    inner_modulo,
    modulus_of,
    of_atom,
    operator_of,
    residue,
    scale,
    type_range,
)


def modulo(form: Form, modulus: int, facts: Facts) -> Form:
    """form mod modulus, in 0 .. modulus-1, for modulus > 0."""
    value = residue(form, modulus, facts)
    if value is not None:
        return Form(value)
    form = _without_inner_modulo(form, modulus)
    kept = Form(form.constant, frozenset(t for t in form.terms if t[1] % modulus))
    low, high = bounds(kept, facts)
    if low is not None and high is not None and low // modulus == high // modulus:
        return add(kept, Form(-(low // modulus) * modulus))
    inner = inner_modulo(kept, modulus)
    return call("mod", inner, Form(modulus))


def wrap(form: Form, bits: int, facts: Facts) -> Form:
    """The signed number of so many bits that is congruent to the form modulo 2^bits.

    8 bits: 130 is -126; k + 3 - 5 of what wrapped before is k - 2 where that fits.
    """
    modulus = 1 << bits
    first = type_range(bits).low or 0
    folded = _in_one_period(form, first, modulus, facts)
    if folded is None and modulus <= 1 << 32:
        form = _without_inner_modulo(form, modulus)
        form = Form(
            _near_zero(form.constant, modulus),
            frozenset((atom, near) for atom, c in form.terms if (near := _near_zero(c, modulus))),
        )
        folded = _in_one_period(form, first, modulus, facts)
    return call("wrap", form, Form(bits)) if folded is None else folded


def _in_one_period(form: Form, first: int, modulus: int, facts: Facts) -> Form | None:
    """The form moved by a multiple of `modulus` to begin at `first`, if one multiple does for all."""
    low, high = bounds(form, facts)
    if low is None or high is None or (low - first) // modulus != (high - first) // modulus:
        return None
    return add(form, Form(-((low - first) // modulus) * modulus))


def _near_zero(number: int, modulus: int) -> int:
    """The number's residue in -modulus/2 .. modulus/2 - 1."""
    return (number + modulus // 2) % modulus - modulus // 2


def _without_inner_modulo(form: Form, modulus: int) -> Form:
    """x mod V + c as x + c, which has the same residue: a slot that is counted up from an
    unknown one has V forms, not one for each iteration."""
    nested = [
        (term, operator_of(term[0])[1][0])
        for term in form.terms
        if (own := modulus_of(term[0])) is not None and own % modulus == 0
    ]
    result = Form(form.constant, form.terms.difference(term for term, _ in nested))
    for (_, coefficient), inner in nested:
        result = add(result, scale(inner, coefficient))
    return result


def floor_divide(form: Form, divisor: int, facts: Facts) -> Form:
    """floor(form / divisor) for divisor > 0: what divides evenly moves out."""
    outside = Form(
        form.constant // divisor,
        frozenset((atom, c // divisor) for atom, c in form.terms if c % divisor == 0),
    )
    inside = Form(form.constant % divisor, frozenset(t for t in form.terms if t[1] % divisor))
    low, high = bounds(inside, facts)
    if low is not None and high is not None and low // divisor == high // divisor:
        return add(outside, Form(low // divisor))
    return add(outside, call("div", inside, Form(divisor)))


def product(a: Form, b: Form) -> Form:
    """a * b. What one adds to an unknown multiplies the other: (k - 1) * n is k * n - n, so that what was
    in iteration k can be said of iteration k - 1."""
    for one, other in ((a, b), (b, a)):
        if one.constant or not one.terms:
            rest = Form(0, one.terms)
            whole = product(rest, other) if rest.terms else Form(0)
            return add(whole, scale(other, one.constant))
    return call("mul", a, b)


def _bits_below(name: str, a: Form, b: Form, facts: Facts) -> Form | None:
    """a ^ b or a | b, where b is below 2^n: what is a multiple of 2^n in a stays as it is; None if there is
    no such part. (1024 t + x) ^ 48 is 1024 t + (x ^ 48), for any x."""
    low, high = bounds(b, facts)
    if low is None or low < 0 or high is None:
        return None
    unit = 1 << high.bit_length()
    terms = frozenset((atom, c) for atom, c in a.terms if c % unit == 0)
    outside = Form(a.constant - a.constant % unit, terms)
    if outside == Form(0):
        return None
    inside = Form(a.constant % unit, a.terms - terms)
    return add(outside, apply(name, (inside, b), facts))


def substitute(form: Form, mapping: Mapping[Atom, Form], facts: Facts) -> Form:
    """The form with atoms replaced, in the operands of operators too.

    Operators fold again where they can; facts must hold for the new atoms.
    """
    if not form.terms or atoms_of(form).isdisjoint(mapping):
        return form
    result: Form = Form(form.constant)
    for atom, coefficient in form.terms:
        new = mapping.get(atom)
        if new is None and atom.kind == "call":
            name, arguments = operator_of(atom)
            changed = tuple(substitute(a, mapping, facts) for a in arguments)
            new = apply(name, changed, facts) if changed != arguments else None
        result = add(result, scale(of_atom(atom) if new is None else new, coefficient))
    return result


def apply(name: str, arguments: tuple[Form, ...], facts: Facts) -> Form:
    """An operator on forms, folded as far as the facts allow."""
    if name in _OF_ANY_DIVISOR and arguments[1].is_constant and arguments[1].constant > 0:
        name = _OF_ANY_DIVISOR[name]
    if name == "mod":
        return modulo(arguments[0], arguments[1].constant, facts)
    if name == "div":
        return floor_divide(arguments[0], arguments[1].constant, facts)
    if name == "wrap":
        return wrap(arguments[0], arguments[1].constant, facts)
    if name == "mul":
        return product(*arguments)
    if name in ("or", "xor"):
        a, b = arguments
        outside = _bits_below(name, a, b, facts) or _bits_below(name, b, a, facts)
        if outside is not None:
            return outside
    if all(not a.terms for a in arguments) and name in FOLDS:
        return Form(FOLDS[name](*(a.constant for a in arguments)))
    return call(name, *arguments)


# Divisions by what is no number, and what they are where it is one.
_OF_ANY_DIVISOR = {"quotient": "div", "remainder": "mod"}

FOLDS: dict[str, Callable[..., int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "shl": lambda a, b: a << b,
    "cmp<": lambda a: int(a < 0),
    "cmp=": lambda a: int(a == 0),
}
