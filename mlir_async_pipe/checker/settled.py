"""Forms of which the facts leave one value."""

from __future__ import annotations

from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Atom, Facts, Form


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
