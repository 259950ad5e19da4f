"""Unknowns that a form depends on modulo something only: they are enumerated by residues.

512 ((k + 1) mod 2)  vs  512 (k mod 2) + 4      k = 0 and k = 1 say it all, for both ends
ring[(k - 1 - q) mod 3]                         q = 0, 1, 2 say it all
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import gcd, lcm, prod

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Facts, Form

# Slots repeat after V <= 64 iterations in every ring that fits into workgroup memory.
LARGEST_PERIOD = 64


# Comparisons of the pieces of one kernel ask for the same few addresses 10^5 times.
@lru_cache(maxsize=1 << 14)
def needed_periods(form: Form, modulus: int = 0) -> tuple[tuple[Atom, int], ...]:
    """(unknown, modulus): modulo what `form` depends on each unknown; 0 if on all of it.

    With `modulus`, only the form's own residue counts.
    """
    return tuple(dict.fromkeys(_needed(form, modulus)))


def _needed(form: Form, modulus: int) -> Iterator[tuple[Atom, int]]:
    for atom, coefficient in form.terms:
        if atom.kind != "call":
            yield atom, modulus // gcd(modulus, coefficient) if modulus else 0
            continue
        name, arguments = forms.operator_of(atom)
        if name == "mod":
            yield from needed_periods(arguments[0], arguments[1].constant)
        elif name == "div":
            # floor(x / d) mod m depends on x mod d m.
            yield from needed_periods(arguments[0], arguments[1].constant * modulus)
        elif name == "wrap":
            own = 1 << arguments[1].constant
            divides = modulus and own % modulus == 0
            yield from needed_periods(arguments[0], modulus if divides else own)
        else:
            for argument in arguments:
                yield from needed_periods(argument)


def periods_of(values: Iterable[Form]) -> dict[Atom, int]:
    """Modulo what all the forms together depend on each unknown; 0 if on all of it."""
    found: dict[Atom, int] = {}
    for form in values:
        for atom, period in needed_periods(form):
            old = found.get(atom, 1)
            found[atom] = lcm(old, period) if old and period else 0
    return found


def shortened(values: list[Form]) -> list[Form]:
    """The forms with "any" unknowns that only residues of count cut to one period."""
    cuts: dict[Atom, Form] = {}
    for atom, period in periods_of(values).items():
        if atom.kind == "any" and 0 < period <= LARGEST_PERIOD:
            known = forms.range_of(atom)
            first = known.low or 0
            if known.high is None or known.high - first >= period:
                key = (atom.key[0], AtomRange(first, first + period - 1))  # type: ignore[index]
                cuts[atom] = forms.of_atom(Atom("any", key))
    return [forms.substitute(form, cuts, {}) for form in values] if cuts else values


def cases(values: list[Form], facts: Facts) -> Iterator[list[Form]] | None:
    """The forms for each residue of the iteration numbers and symbols in them, and for each number of
    those of which more counts; None if these have no bounds, or there are too many."""
    numbers = {
        atom: _numbers(period, forms.knowledge(atom, facts))
        for atom, period in periods_of(values).items()
        if atom.kind in ("iteration", "symbol")
    }
    if not 0 < prod(map(len, numbers.values())) <= LARGEST_PERIOD:
        return None
    return (
        [
            forms.substitute(
                form, {a: Form(r) for a, r in zip(numbers, chosen, strict=True)}, facts
            )
            for form in values
        ]
        for chosen in product(*numbers.values())
    )


def _numbers(period: int, known: AtomRange) -> Sequence[int]:
    """The residues that an unknown may have, or the numbers that it may be; none where that is not known. Where
    they are too many to be used, so many as say so: all of a 64-bit number cannot be counted."""
    if period > LARGEST_PERIOD:
        return range(LARGEST_PERIOD + 1)
    if period:
        return [r for r in range(period) if _is_possible(r, period, known)]
    if known.low is None or known.high is None:
        return ()
    first = known.low + (known.residue - known.low) % known.modulus
    most = first + (LARGEST_PERIOD + 1) * known.modulus
    return range(first, min(known.high + 1, most), known.modulus)


def _is_possible(residue: int, period: int, known: AtomRange) -> bool:
    """Whether a number that is `residue` modulo `period` can be what is known."""
    if known.exact is not None:
        return known.exact % period == residue
    return (residue - known.residue) % gcd(period, known.modulus) == 0
