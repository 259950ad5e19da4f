"""How far apart two pieces may begin, and what that leaves of them to compare.

`then` is what is known of the thread of the first piece, `facts` of that of the second.
"""

from __future__ import annotations

from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Atom, Facts, Form
from mlir_async_pipe.checker.slots import other_slot, span
from mlir_async_pipe.checker.thread_grid import has_numbers, is_common
from mlir_async_pipe.facts.values.views import Piece


def disjoint_by_bounds(a: Piece, b: Piece, then: Facts, facts: Facts, same_thread: bool) -> bool:
    """Whether bounds keep both ends apart:

    D[512 (k - 2 - q) + 4 tid']  vs  D[512 k + 4 tid]     q >= 0, tid, tid' <= 127
    512 (k - 2) - 512 k + [-inf, 508] + 4 <= 0            so they are apart
    """
    if other_slot(a, b, facts):
        return True
    low, high = _distance(a.start, b.start, then, facts, same_thread)
    return (high is not None and high + span(a) <= 0) or (low is not None and low >= span(b))


def _distance(
    a: Form, b: Form, then: Facts, facts: Facts, same_thread: bool
) -> tuple[int | None, int | None]:
    """Bounds of a - b: one difference of what both share, plus each end's own."""
    common_a, own_a = _parted(a, same_thread)
    common_b, own_b = _parted(b, same_thread)
    ends = [forms.bounds(forms.subtract(common_a, common_b), facts), forms.bounds(own_a, then)]
    low, high = forms.bounds(own_b, facts)
    ends.append((None if high is None else -high, None if low is None else -low))
    lows, highs = zip(*ends, strict=True)
    return (
        None if None in lows else sum(lows),
        None if None in highs else sum(highs),
    )


def _parted(form: Form, same_thread: bool) -> tuple[Form, Form]:
    """A form as the sum of what has one value at both ends and what has not."""
    common = frozenset(term for term in form.terms if is_common(term[0], same_thread))
    return Form(form.constant, common), Form(0, form.terms - common)


def in_reach(
    pairs: list[tuple[Piece, Piece]], then: Facts, facts: Facts, same_thread: bool
) -> list[tuple[Piece, Piece]]:
    """The pairs, with "some earlier iteration" of the earlier end cut to those that can meet.

    D[512 (k - 1 - q) + 4 tid']  vs  D[512 (k - 1) + 4 tid]     only q = 0 can
    """
    cuts: dict[Atom, Form] = {}
    for x, y in pairs:
        for atom, factor in x.start.terms:
            if atom.kind != "any" or forms.range_of(atom).high is not None or atom in cuts:
                continue
            rest = Form(x.start.constant, x.start.terms - {(atom, factor)})
            low, high = _distance(rest, y.start, then, facts, same_thread)
            # They meet iff 1 - span(x) <= factor * q + rest - y <= span(y) - 1.
            room = high if factor < 0 else None if low is None else -low
            if room is not None:
                last = (room + span(x if factor < 0 else y) - 1) // abs(factor)
                known = forms.range_of(atom)
                known = known._replace(high=last if known.low is None else max(last, known.low))
                cuts[atom] = forms.of_atom(Atom("any", (atom.key[0], known)))
    if not cuts:
        return pairs
    return [
        (Piece(operators.substitute(x.start, cuts, then), x.steps, x.length), y) for x, y in pairs
    ]


def within_a_turn(
    x: Piece, y: Piece, then: Facts, facts: Facts, same_thread: bool
) -> tuple[Piece, Piece]:
    """Both ends with the number under a remainder instead of the remainder, where they meet only if
    these numbers do: they are less than a turn apart.

        A[wrap(n + t)]  vs  A[wrap(n + t')]     |t - t'| < 2^32: only where t = t'
    """
    one, other = _turning(x.start), _turning(y.start)
    if one is None or other is None or one[1] != other[1]:
        return x, y
    low, high = _distance(one[0], other[0], then, facts, same_thread)
    longest = max(span(x), span(y))
    if low is None or high is None or max(-low, high) + longest > abs(one[1]):
        return x, y
    return x._replace(start=one[0]), y._replace(start=other[0])


def _turning(form: Form) -> tuple[Form, int] | None:
    """The form without the only remainder in its terms, c (x mod m) --> c x, and c m; None for other
    forms, and those that are enumerated as they are."""
    turning = [term for term in form.terms if term[0].kind == "call"]
    if len(turning) != 1 or has_numbers(form):
        return None
    ((atom, factor),) = turning
    modulus = forms.modulus_of(atom)
    if modulus is None:
        return None
    inner = forms.operator_of(atom)[1][0]
    rest = Form(form.constant, form.terms - {(atom, factor)})
    return forms.add(rest, forms.scale(inner, factor)), factor * modulus
