"""Where a path splits: what each truth value of a condition adds to the facts.

    k < n      true: n - k >= 1      false: n - k <= 0
    %p         true: %p = 1          false: %p = 0          (the same at every use of %p)

A split is *exact* if the two sets of facts describe exactly the values that take each side. Where they do not (k * n <
7), the path is tainted: it may not exist, so what is found on it is undecided.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import exact, settle
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form, Knowns
from mlir_async_pipe.checker.thread_grid import is_about_threads, is_thread_number
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.integer_ops import as_signed


class SplitSide(NamedTuple):
    """Facts on one side of a split; `exact` False taints the path."""

    truth: int
    facts: Knowns
    exact: bool


Held = tuple[Knowns | None, bool]
"""Facts with something added, None if that cannot be; and whether they say exactly that."""


def split(condition: Form, facts: Knowns) -> list[SplitSide]:
    """Both sides of an i1 form (or of the first undecided part of it).

    Sides that contradict the facts are left out. A compound condition may stay undecided on
    a side; its caller asks again.
    """
    settled = settle(condition, facts)
    value = exact(settled, facts)
    if value is not None:
        return [SplitSide(value, facts, True)]
    atom = min(settled.terms, key=lambda term: repr(term[0]))[0]
    name, arguments = forms.operator_of(atom)
    if name in ("cmp<", "cmp="):
        sides = (_negative_or_not if name == "cmp<" else _zero_or_not)(arguments[0], facts)
        # Which threads go where is found by trying them all: that is exact.
        sure = is_thread_number(arguments[0])
        return [
            SplitSide(truth, {**held, atom: AtomRange(truth, truth)}, exactly or sure)
            for truth, (held, exactly) in zip((1, 0), sides, strict=True)
            if held is not None
        ]
    if name in ("and", "or", "xor"):
        for argument in arguments:
            if exact(settle(argument, facts), facts) is None:
                return split(argument, facts)
    exactly = atom.kind in ("symbol", "any") or _is_free(atom)
    return [SplitSide(truth, {**facts, atom: AtomRange(truth, truth)}, exactly) for truth in (1, 0)]


def by_truth(condition: Form, sides: list[SplitSide]) -> dict[int, SplitSide] | None:
    """The two sides of a condition by its value; None if they do not say it exactly."""
    found = {exact(settle(condition, side.facts), side.facts): side for side in sides}
    known = {value: side for value, side in found.items() if value is not None and side.exact}
    return known if len(sides) == 2 and known.keys() == {0, 1} else None


def _negative_or_not(form: Form, facts: Knowns) -> tuple[Held, Held]:
    return at_most(form, -1, facts), at_least(form, 0, facts)


def _zero_or_not(form: Form, facts: Knowns) -> tuple[Held, Held]:
    first, last = forms.bounds(form, facts)
    other: Knowns | None = facts
    if first == 0:
        other, _ = at_least(form, 1, facts)
    elif last == 0:
        other, _ = at_most(form, -1, facts)
    return between(form, 0, 0, facts), (other, first in (0, None) or last == 0)


def at_least(form: Form, bound: int, facts: Knowns) -> Held:
    """The facts with form >= bound."""
    form = forms.with_remainders(settle(form, facts))
    low, high = forms.bounds(form, facts)
    if high is not None and high < bound:
        return None, True
    if low is not None and low >= bound:
        return facts, True
    if len(form.terms) == 1:
        ((atom, coefficient),) = form.terms
        known = _multiple_at_least(atom, coefficient, bound - form.constant, facts).tightened()
        if known.is_empty:
            return None, True
        exactly = atom.kind in ("symbol", "tid", "iteration") or _is_free(atom)
        facts = {**facts, atom: known}
        return _before_wrapping(atom, known, facts) or (_with_dividend(atom, known, facts), exactly)
    return sum_at_least(form, bound, facts)


def _before_wrapping(atom: Atom, known: AtomRange, facts: Knowns) -> Held | None:
    """The facts with what is known of a number that wraps at one place at most, said of the number
    before: 126 + k as i8 is below 0 for 2 <= k, if k <= 3. None for others."""
    name, arguments = forms.operator_of(atom)
    low, high = forms.bounds(arguments[0], facts) if name == "wrap" else (None, None)
    if low is None or high is None:
        return None
    bits = arguments[1].constant
    least, most = forms.type_range(bits)[:2]
    modulus, begin = 1 << bits, low - as_signed(low, bits)
    parts = []
    for start in (begin, begin + modulus):
        ends = (
            least if known.low is None else known.low,
            most if known.high is None else known.high,
        )
        first, last = (start + (end or 0) for end in ends)
        parts += [(max(low, first), min(high, last))] if max(low, first) <= min(high, last) else []
    if high - low >= modulus or len(parts) != 1:
        return None
    return between(arguments[0], *parts[0], facts)


def _with_dividend(atom: Atom, known: AtomRange, facts: Knowns) -> Knowns | None:
    """The facts with what a quotient says of the number that is divided: with tid div 128 = 1 the id
    is from 128 to 255."""
    name, arguments = forms.operator_of(atom)
    if name != "div":
        return facts
    divisor = arguments[1].constant
    low, high = sums.scaled(known.ends, divisor)
    return between(arguments[0], low, None if high is None else high + divisor - 1, facts)[0]


def sum_at_least(form: Form, bound: int, facts: Knowns) -> tuple[Knowns, bool]:
    """The facts with form >= bound, of a form of several atoms."""
    divisor = gcd(*(coefficient for _, coefficient in form.terms))
    reduced = Form(0, frozenset((a, c // divisor) for a, c in form.terms))
    # sum >= (bound - constant) / divisor, rounded up to a whole number.
    rest = -(-(bound - form.constant) // divisor)
    positive, negative = forms.sum_atom(reduced), forms.sum_atom(forms.scale(reduced, -1))
    facts = each_at_least(reduced, rest, facts)
    if negative in facts:
        return {**facts, negative: facts[negative].within((None, -rest))}, True
    # What wraps or is divided may be made of the very symbol beside it: n + 1 and n, n div 4 - n.
    under = {atom: forms.atoms_of(forms.of_atom(atom)) - {atom} for atom, _ in form.terms}
    inside = {a for found in under.values() for a in found}
    has_symbol = any(atom.kind in ("symbol", "any") for atom in under.keys() - inside)
    has_quotient = any(
        _is_free(atom)
        and found.isdisjoint(under)
        and not any(found & other for beside, other in under.items() if beside != atom)
        for atom, found in under.items()
    )
    free = (has_symbol or has_quotient) and not forms.may_wrap(form)
    return {**facts, positive: facts.get(positive, forms.ANYTHING).within((rest, None))}, free


def each_at_least(form: Form, bound: int, facts: Knowns) -> Knowns:
    """What form >= bound says of each atom by the ends of the others: with n - k >= 1 and an i32
    as n, k is at most 2^31 - 2. Of what threads compare it is kept that a size is 0 or more, or 1 or more: n - tid >= 1. More
    would make a state of each iteration of n - tid - 64 k >= 1."""
    highs = {
        atom: forms.bounds(Form(0, frozenset(((atom, c),))), facts)[1] for atom, c in form.terms
    }
    open_ends = [atom for atom, high in highs.items() if high is None]
    if len(open_ends) > 1:
        return facts
    of_threads = any(map(is_about_threads, highs))
    narrowed = dict(facts)
    for atom, coefficient in form.terms:
        own = atom.kind in ("iteration", "symbol") and not is_about_threads(atom)
        if not own or (open_ends and atom not in open_ends):
            continue
        rest = bound - sum(high or 0 for other, high in highs.items() if other != atom)
        known = _multiple_at_least(atom, coefficient, rest, facts)
        if not of_threads:
            narrowed[atom] = known
        elif atom.kind == "symbol" and known.low is not None and known.low >= 0:
            before = forms.knowledge(atom, facts)
            narrowed[atom] = before._replace(low=sums.most(before.low, min(known.low, 1)))
    return narrowed


def _multiple_at_least(atom: Atom, coefficient: int, bound: int, facts: Knowns) -> AtomRange:
    """What is known of an atom with coefficient * atom >= bound."""
    return forms.knowledge(atom, facts).within(sums.factor((bound, None), coefficient))


def at_most(form: Form, bound: int, facts: Knowns) -> Held:
    """The facts with form <= bound."""
    return at_least(forms.scale(form, -1), -bound, facts)


def between(form: Form, low: int | None, high: int | None, facts: Knowns) -> Held:
    """The facts with low <= form <= high; an end may be left out."""
    held, exactly = (facts, True) if low is None else at_least(form, low, facts)
    if held is None or high is None:
        return held, exactly
    held, also = at_most(form, high, held)
    return held, exactly and also


def without_ends(form: Form, values: set[int], facts: Knowns) -> Held:
    """The facts with `values` cut off at both ends of the form's range (None if nothing is
    left), and whether that leaves none of them."""
    left = set(values)
    low, high = forms.bounds(form, facts)
    while low is not None and low in left:
        left.discard(low)
        low += 1
    while high is not None and high in left:
        left.discard(high)
        high -= 1
    return between(form, low, high, facts)[0], not left


def _is_free(atom: Atom) -> bool:
    """Whether every value of an operator's range is taken: a quotient of a symbol, what is loaded."""
    name, arguments = forms.operator_of(atom)
    return name.startswith(forms.LOADED) or (
        name == "div"
        and all(inner.kind == "symbol" for argument in arguments for inner, _ in argument.terms)
    )


def hull(a: AtomRange, b: AtomRange) -> AtomRange:
    """What holds for both: bounds that moved are dropped, residues keep their common modulus."""
    low = None
    if a.low is not None and b.low is not None:
        # Sizes and iteration numbers stay non-negative, however far they are widened.
        low = a.low if b.low >= a.low else (0 if b.low >= 0 else None)
    high = a.high if a.high is not None and b.high is not None and b.high <= a.high else None
    modulus, residue = _common_residue(a, b)
    return AtomRange(low, high, residue, modulus)


def _common_residue(a: AtomRange, b: AtomRange) -> tuple[int, int]:
    values = []
    modulus = 0
    for known in (a, b):
        if known.exact is not None:
            values.append(known.exact)
        elif known.modulus > 1:
            values.append(known.residue)
            modulus = gcd(modulus, known.modulus)
        else:
            return 1, 0
    modulus = gcd(modulus, abs(values[0] - values[1]))
    return (modulus, values[0] % modulus) if modulus > 1 else (1, 0)
