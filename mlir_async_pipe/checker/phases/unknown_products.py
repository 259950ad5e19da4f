"""Products of unknowns in sums of them: the bounds of a loop whose step s is not known.

lb + k s < lb + (q + 1 - 2) s        s q - s k - s is 1 or more where q - k - 1 is, as s is
an iteration later                   what was k s is k s - s
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce
from itertools import chain

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import ZERO, Atom, Form

# The kind of an atom that is a product of others, each a form of its own, in one order.
PRODUCT = "product"


def factors(atom: Atom) -> tuple[Atom, ...]:
    """The unknowns that an atom is the product of."""
    if atom.kind != PRODUCT:
        return (atom,)
    return tuple(inner for form in parts_of(atom) for inner, _ in form.terms)


def parts_of(atom: Atom) -> tuple[Form, ...]:
    """The forms that an atom is named by."""
    return atom.key  # type: ignore[return-value]


def _product_of(atoms: Iterable[Atom]) -> Form:
    parts = sorted(atoms, key=repr)
    if not parts:
        return Form(1)
    return forms.of_atom(
        parts[0] if len(parts) == 1 else Atom(PRODUCT, tuple(map(forms.of_atom, parts)))
    )


@lru_cache(maxsize=1 << 12)
def product(a: Form, b: Form) -> Form:
    made: Form = Form(a.constant * b.constant)
    made = forms.add(made, forms.scale(Form(0, a.terms), b.constant))
    made = forms.add(made, forms.scale(Form(0, b.terms), a.constant))
    for one, by in a.terms:
        for other, times in b.terms:
            both = _product_of((*factors(one), *factors(other)))
            made = forms.add(made, forms.scale(both, by * times))
    return made


@lru_cache(maxsize=1 << 12)
def common_factors(form: Form) -> tuple[Atom, ...]:
    """The unknowns that each term of a sum is a multiple of."""
    return reduce(_in_both, (factors(atom) for atom, _ in form.terms)) if form.terms else ()


def _in_both(one: tuple[Atom, ...], other: tuple[Atom, ...]) -> tuple[Atom, ...]:
    left, found = list(other), []
    for atom in one:
        if atom in left:
            left.remove(atom)
            found.append(atom)
    return tuple(found)


def without_factor(form: Form, atom: Atom) -> Form:
    """The terms of a sum, of each of which `atom` is a factor, divided by it."""
    made = ZERO
    for term, coefficient in form.terms:
        left = list(factors(term))
        left.remove(atom)
        made = forms.add(made, forms.scale(_product_of(left), coefficient))
    return made


@lru_cache(maxsize=1 << 12)
def exact_quotient(a: Form, b: Form) -> Form | None:
    """a / b if b is a multiple of one product, and all of a are multiples of that."""
    if b.constant or len(b.terms) != 1 or a.constant:
        return None
    ((divisor, by),) = b.terms
    if any(coefficient % by for _, coefficient in a.terms):
        return None
    for atom in factors(divisor) if a.terms else ():
        if atom not in common_factors(a):
            return None
        a = without_factor(a, atom)
    return Form(a.constant // by, frozenset((atom, c // by) for atom, c in a.terms))


@lru_cache(maxsize=1 << 14)
def moved(form: Form, atom: Atom, by: int) -> Form | None:
    """A form in which an unknown means what it was `by` less: n - k is n - k + 1 an iteration later.
    None if that is no sum of products."""
    before = forms.add(forms.of_atom(atom), Form(-by))
    made: Form = Form(form.constant)
    for term, coefficient in form.terms:
        parts = factors(term)
        if atom not in parts:
            if atom in chain.from_iterable(map(atoms_within, parts)):
                return None
            made = forms.add(made, Form(0, frozenset({(term, coefficient)})))
            continue
        whole: Form = Form(coefficient)
        for part in parts:
            whole = product(whole, before if part == atom else forms.of_atom(part))
        made = forms.add(made, whole)
    return made


@lru_cache(maxsize=1 << 14)
def atoms_within(atom: Atom) -> frozenset[Atom]:
    """An atom, and those that it is named by: the operands of an operator, or of an op of which
    nothing else is known."""
    found = {atom}
    parts = [atom.key]
    while parts:
        part = parts.pop()
        if isinstance(part, Form):
            for inner, _ in part.terms:
                found |= atoms_within(inner)
        elif type(part) is tuple:
            parts += part
    return frozenset(found)


def mentions(form: Form, atom: Atom) -> bool:
    """Whether a form is made of an atom."""
    return any(atom in atoms_within(inner) for inner, _ in form.terms)
