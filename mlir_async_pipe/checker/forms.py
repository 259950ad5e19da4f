"""Integers of the checked program as forms over atoms, and what is known about the atoms.

    slot = (k + 2) mod 3        the form of one atom: mod of (iteration of loop 0) + 2 by 3
    row  = tid div 8 + 16       the form 16 + 1 * (tid.x div 8)

A form (`values.sums`) is a constant plus multiples of atoms. The iteration number of a loop is an atom that always
means *now*: on a back edge every form that lives on replaces it by itself minus 1, so "the slot issued two iterations
ago" is a form with k - 2 in it, and two forms are equal exactly if they denote the same number on this path. Divisions
and remainders fold by what is known about their operands: with k ≡ 1 (mod 3) the slot above is the constant 0.

What is easy to get wrong: `mod` and `div` here are the mathematical ones, rounded down, also for
negative operands; `arithmetic` says where the IR's own agree. Numbers of iN stand as signed ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from math import gcd, lcm, prod
from typing import NamedTuple, Protocol

from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS
from mlir_async_pipe.facts.values.sums import ZERO as ZERO
from mlir_async_pipe.facts.values.sums import Form, Interval


class Atom(NamedTuple):
    """An unknown integer.

    kind "tid": a thread id ("x", "y", "z") or "lane"; "iteration": how often a loop's header
    was left into its body; "any": some value of a range, another one at each end of a
    comparison; "symbol": an opaque value of now; "call": an operator on forms.
    """

    kind: str
    key: Hashable

    @property
    def tag(self) -> Hashable:
        """What a key of several parts begins with, None of others: "thread" of ("thread", 7)."""
        return self.key[0] if isinstance(self.key, tuple) and self.key else None


class AtomRange(NamedTuple):
    """low <= atom <= high (None: no bound), and atom ≡ residue (mod modulus)."""

    low: int | None = None
    high: int | None = None
    residue: int = 0
    modulus: int = 1

    @property
    def exact(self) -> int | None:
        """The value, if there is only one."""
        return self.low if self.low is not None and self.low == self.high else None

    @property
    def ends(self) -> Interval:
        return self.low, self.high

    def within(self, ends: Interval) -> AtomRange:
        """The range where the atom is in an interval, too."""
        low, high = sums.both(self.ends, ends)
        return self._replace(low=low, high=high)

    def moved(self, by: int) -> AtomRange:
        """The range of the atom plus a number."""
        return AtomRange(
            *sums.moved(self.ends, by), (self.residue + by) % self.modulus, self.modulus
        )

    def tightened(self) -> AtomRange:
        """The range with its ends moved to numbers of the right residue."""
        low = None if self.low is None else self.low + (self.residue - self.low) % self.modulus
        high = None if self.high is None else self.high - (self.high - self.residue) % self.modulus
        return self._replace(low=low, high=high)

    @property
    def is_empty(self) -> bool:
        """Whether no number is left of a tightened range."""
        return self.low is not None and self.high is not None and self.low > self.high

    def is_apart(self, other: AtomRange) -> bool:
        """Whether the ends of both ranges say that no value is in both."""
        low, high = sums.difference(self.ends, other.ends)
        return (low is not None and low > 0) or (high is not None and high < 0)

    def contains(self, other: AtomRange) -> bool:
        """Whether every value that `other` allows is allowed here."""
        low = self.low is None or (other.low is not None and self.low <= other.low)
        high = self.high is None or (other.high is not None and other.high <= self.high)
        if self.modulus == 1 or not (low and high):
            return low and high
        if other.exact is not None:
            return other.exact % self.modulus == self.residue
        return other.modulus % self.modulus == 0 and other.residue % self.modulus == self.residue


class Known(Protocol):
    """What is known of atoms."""

    def get(self, atom: Atom, /) -> AtomRange | None: ...


Facts = Mapping[Atom, AtomRange]
Knowns = dict[Atom, AtomRange]
ANYTHING = AtomRange()

# States, iterations and unrolled copies of an op ask for the same few sums over and over. Atoms are
# plain data, so that what is remembered keeps no IR alive.
subtract: Callable[[Form[Atom], Form[Atom]], Form[Atom]] = lru_cache(maxsize=1 << 15)(sums.subtract)
scale: Callable[[Form[Atom], int], Form[Atom]] = lru_cache(maxsize=1 << 14)(sums.scale)
of_atom: Callable[[Atom], Form[Atom]] = lru_cache(maxsize=1 << 14)(sums.of_symbol)


@lru_cache(maxsize=1 << 15)
def add(a: Form[Atom], b: Form[Atom]) -> Form[Atom]:
    """a + b. A quotient and its remainder become what was divided: 1024 (k mod 8) + 8192 (k div 8) is 1024 k."""
    total = sums.add(a, b)
    if a.terms and b.terms:
        for atom, coefficient in total.terms:
            if operator_of(atom)[0] == "div":
                remainder = _remainder_of(atom, coefficient, total)
                if remainder is not None:
                    dividend = operator_of(atom)[1][0]
                    split = frozenset(((atom, coefficient), remainder))
                    return add(
                        Form(total.constant, total.terms - split), scale(dividend, remainder[1])
                    )
    return total


def _remainder_of(quotient: Atom, coefficient: int, total: Form[Atom]) -> tuple[Atom, int] | None:
    """The term c * (x mod d) of a sum in which c * d * (x div d) is, too."""
    dividend, divisor = operator_of(quotient)[1]
    if coefficient % divisor.constant:
        return None
    alike = inner_modulo(dividend, divisor.constant)
    wanted = Atom("call", ("mod", (alike, divisor))), coefficient // divisor.constant
    return wanted if wanted in total.terms else None


def inner_modulo(form: Form, modulus: int) -> Form:
    """The same residue with coefficients in 0 .. modulus-1 (a normal form)."""
    return Form(
        form.constant % modulus,
        frozenset((atom, c % modulus) for atom, c in form.terms if c % modulus),
    )


# Operators of this name and the number of a root give what is loaded from memory that nobody writes: of the bits of what
# is loaded, and the place. It may be any number.
LOADED = "loaded "


def operator_of(atom: Atom) -> tuple[str, tuple[Form, ...]]:
    """Operator name and operands of an atom of kind "call"; "" and none of others."""
    return atom.key if atom.kind == "call" else ("", ())  # type: ignore[return-value]


def modulus_of(atom: Atom) -> int | None:
    """The number m of an atom that is some x modulo m; None for other atoms."""
    name, arguments = operator_of(atom)
    if name == "mod":
        return arguments[1].constant
    return 1 << arguments[1].constant if name == "wrap" else None


def terms_of(atom: Atom) -> frozenset[tuple[Atom, int]]:
    """The terms of an atom of kind "sum"."""
    return atom.key  # type: ignore[return-value]


class _Asked:
    """Facts, and which of them were asked for, also those that are not there."""

    def __init__(self, facts: Known) -> None:
        self.facts = facts
        self.asked: dict[Atom, AtomRange | None] = {}

    def get(self, atom: Atom, /) -> AtomRange | None:
        found = self.asked[atom] = self.facts.get(atom)
        return found


# Accesses are compared with many others under facts of which few are about them: by form, the facts that its
# bounds rest on, and the bounds. They hold wherever these facts are the same.
_BOUNDS: dict[Form, tuple[dict[Atom, AtomRange | None], Interval]] = {}
_MOST_BOUNDS = 1 << 14


def range_of(atom: Atom) -> AtomRange:
    """The range of an atom of kind "any"."""
    return atom.key[1]  # type: ignore[index]


def bounds(form: Form, facts: Known) -> Interval:
    """An interval that holds the form; None is an unbounded end."""
    if not form.terms:
        return form.constant, form.constant
    if len(form.terms) == 1 and not any(atom.kind == "call" for atom in form.symbols):
        return sums.interval_of(form, lambda atom: knowledge(atom, facts))
    before = _BOUNDS.get(form)
    if before is not None:
        asked, interval = before
        for atom, known in asked.items():
            if facts.get(atom) != known:
                break
        else:
            return interval
    asking = _Asked(facts)
    interval = sums.interval_of(form, lambda atom: knowledge(atom, asking))
    if len(form.terms) > 1:
        interval = _sharpened_by_sum(form, asking, interval)
        # A number is at most c - 1 more than c times its quotient: n - 2 (n div 2) is 0 or 1.
        rest = with_remainders(form)
        interval = interval if rest == form else sums.both(interval, bounds(rest, asking))
    if len(_BOUNDS) > _MOST_BOUNDS:
        _BOUNDS.clear()
    _BOUNDS[form] = asking.asked, interval
    return interval


def _sharpened_by_sum(form: Form, facts: Known, found: Interval) -> Interval:
    """Use what is known about this very sum of atoms, or a multiple of it (k < n)."""
    # Conditions are kept without their common divisor: 512 n - 512 k is 512 (n - k).
    divisor = gcd(*(coefficient for _, coefficient in form.terms))
    for factor in (divisor, -divisor):
        known = facts.get(Atom("sum", frozenset((a, c // factor) for a, c in form.terms)))
        if known is None:
            continue
        found = sums.both(found, sums.moved(sums.scaled(known.ends, factor), form.constant))
    return found


def with_remainders(form: Form) -> Form:
    """The form with x mod c for x - c (x div c): 512 k + 256 - 768 ((2 k + 1) div 3) is 256 ((2 k + 1) mod 3); and with
    c (x div c) for x - (x mod c)."""
    for atom, factor in form.terms:
        name, operands = operator_of(atom)
        if name not in ("div", "mod") or not operands[1].is_constant:
            continue
        x, c = operands
        times = -factor if name == "mod" else -factor // c.constant
        if name == "div" and factor % c.constant:
            continue
        # Fewer terms are left where the form has some of t x: these and - t c (x div c) are t (x mod c).
        rest = subtract(form, scale(x, times))
        if len(rest.terms) < len(form.terms):
            without = Form(rest.constant, rest.terms - {(atom, factor)})
            part = call("mod", x, c) if name == "div" else scale(call("div", x, c), c.constant)
            return with_remainders(add(without, scale(part, times)))
    return form


def earlier(counter: Atom) -> tuple[Atom, Atom]:
    """How many iterations before the youngest one an access was, and what is left of the iteration number then, as a sum."""
    before = Atom("any", (("earlier", counter.key), AtomRange(0, None)))
    return before, Atom("sum", frozenset(((counter, 1), (before, -1))))


def is_earlier(atom: Atom) -> bool:
    """Whether an atom is how many iterations before the youngest one an access was."""
    return atom.kind == "any" and atom.tag[0] == "earlier"  # type: ignore[index]


def is_of_summary(atom: Atom) -> bool:
    """Whether an atom is the number of some iteration of a summary loop."""
    return atom.kind == "any" and atom.tag[0] == "summary"  # type: ignore[index]


def counter_of(atom: Atom) -> Atom:
    """The iteration number that `is_earlier` counts back from."""
    return Atom("iteration", atom.tag[1])  # type: ignore[index]


def sum_atom(form: Form) -> Atom:
    """The atom under which facts about the non-constant part of `form` are kept."""
    if len(form.terms) == 1:
        ((atom, coefficient),) = form.terms
        if coefficient == 1:
            return atom
    return Atom("sum", form.terms)


def knowledge(atom: Atom, facts: Known) -> AtomRange:
    """What is known about an atom: a recorded fact, or what its operator implies."""
    known = facts.get(atom)
    if known is not None:
        return known
    if atom.kind == "iteration":
        return AtomRange(0, None)
    if atom.kind == "call":
        return _call_knowledge(*operator_of(atom), facts)
    if atom.kind == "any":
        return range_of(atom)
    if atom.kind == PRODUCT:
        return AtomRange(*reduce(sums.product, (bounds(of_atom(a), facts) for a in factors(atom))))
    return AtomRange(0, None) if is_launch_symbol(atom) else ANYTHING


def is_launch_symbol(atom: Atom) -> bool:
    """Whether the atom is an id or a size that the launch gives: it is named by its op, and not
    negative. So is the number that such an id begins with in a loop."""
    name = atom.tag if atom.kind == "symbol" else None
    return isinstance(name, tuple) or (isinstance(name, str) and "." in name)


def _call_knowledge(name: str, arguments: tuple[Form, ...], facts: Known) -> AtomRange:
    if name == "mod":
        return AtomRange(0, arguments[1].constant - 1)
    if name == "div":
        return AtomRange(*sums.divided(bounds(arguments[0], facts), arguments[1].constant))
    if name.startswith("cmp"):
        low, high = bounds(arguments[0], facts)
        below, above = high is not None and high < 0, low is not None and low > 0
        if name == "cmp<" and (below or above or low == 0):
            return AtomRange(int(below), int(below))
        return AtomRange(0, 0) if below or above else AtomRange(0, 1)
    if name == "wrap":
        return type_range(arguments[1].constant)
    if name.startswith(LOADED):
        bits = arguments[0].constant
        return AtomRange(0, 1) if bits == 1 else type_range(bits) if bits < INDEX_BITS else ANYTHING
    ranges = [bounds(argument, facts) for argument in arguments]
    if name in _JOINED:
        low, high = _JOINED[name](*ranges)
        if name in ("or", "xor") and high is not None:
            # Of multiples of 8 no bit below 8 is set: at most 504, not 511.
            parts = (c for a in arguments for c in (a.constant, *(c for _, c in a.terms)))
            high -= high % gcd(1 << high.bit_length(), *parts)
        return AtomRange(low, high)
    if name in ("quotient", "remainder"):
        # Of numbers that are not negative: neither is above what is divided.
        return AtomRange(0, ranges[0][1])
    positive = all(low is not None and low >= 0 for low, _ in ranges)
    return AtomRange(0, None) if positive else ANYTHING


_JOINED = {
    "min": sums.smaller,
    "max": sums.larger,
    "mul": sums.product,
    "and": sums.common_bits,
    "or": sums.either_bits,
    "xor": sums.either_bits,
}


@lru_cache(maxsize=64)
def type_range(bits: int) -> AtomRange:
    """What a signed number of so many bits can be."""
    return AtomRange(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def narrowed(known: AtomRange | None, least: AtomRange) -> AtomRange:
    """What is known of an atom whose type leaves no more than `least`, a missing end filled in."""
    if known is None:
        return least
    low = least.low if known.low is None else known.low
    high = least.high if known.high is None else known.high
    return known._replace(low=low, high=high)


Residues = Callable[[Atom, int], int | None]
"""What is known of an atom by itself: a number that is congruent to it by a modulus."""


def residue(form: Form, modulus: int, facts: Known) -> int | None:
    """form mod modulus, if it is the same for all values that the facts allow."""

    def recorded(atom: Atom, needed: int) -> int | None:
        known = knowledge(atom, facts)
        if known.exact is not None:
            return known.exact
        return None if known.modulus % needed else known.residue

    return residue_by(form, modulus, recorded)


def residue_by(form: Form, modulus: int, known: Residues) -> int | None:
    """form mod modulus, if each unknown in it is known by a modulus that is large enough."""
    total = form.constant
    for atom, coefficient in form.terms:
        needed = modulus // gcd(coefficient, modulus)
        if needed == 1:
            continue
        value = known(atom, needed)
        if value is None and atom.kind == "call":
            value = _call_residue(atom, needed, known)
        if value is None:
            return None
        total += coefficient * value
    return total % modulus


def _call_residue(atom: Atom, modulus: int, known: Residues) -> int | None:
    """floor(x / d) mod m = floor((x mod d m) / d); (x mod d) mod m = x mod m if m divides d."""
    name, arguments = operator_of(atom)
    if name == "div":
        divisor = arguments[1].constant
        inside = residue_by(arguments[0], divisor * modulus, known)
        return None if inside is None else inside // divisor
    own = modulus_of(atom)
    return None if own is None or own % modulus else residue_by(arguments[0], modulus, known)


def call(name: str, *arguments: Form) -> Form:
    """An operator on forms that nothing more is known about."""
    return of_atom(Atom("call", (name, arguments)))


@lru_cache(maxsize=1 << 14)
def atoms_within(atom: Atom) -> frozenset[Atom]:
    """An atom, and those that it is named by: the operands of its operator, or of an op of no known meaning."""
    found = {atom}
    parts = [atom.key]
    while parts:
        part = parts.pop()
        if isinstance(part, Form):
            found |= atoms_of(part)
        elif type(part) is tuple:
            parts += part
    return frozenset(found)


@lru_cache(maxsize=1 << 16)
def atoms_of(form: Form) -> frozenset[Atom]:
    """All atoms of a form, those that its atoms are named by included."""
    return frozenset[Atom]().union(*map(atoms_within, form.symbols))


@lru_cache(maxsize=1 << 12)
def atoms_under(atom: Atom) -> frozenset[Atom]:
    """The atoms that a fact about `atom` is about: those of a sum, or itself and what is in its operands."""
    return atoms_of(form_under(atom))


def in_products(atoms: Iterable[Atom]) -> frozenset[Atom]:
    """What is multiplied in products among the atoms: r and n of r * n."""
    products = (atom for atom in atoms if operator_of(atom)[0] == "mul")
    return frozenset().union(*map(atoms_under, products))


def form_under(atom: Atom) -> Form:
    """The form that facts about an atom are about."""
    return Form(0, terms_of(atom)) if atom.kind == "sum" else of_atom(atom)


def may_wrap(form: Form) -> bool:
    """Whether a number in the form may not fit into its type."""
    return any(operator_of(atom)[0] == "wrap" for atom in atoms_of(form))


# Operators on forms, folded as far as what is known of their operands allows.
#
#     (k + 2) mod 3      with k = 1 (mod 3)     0
#     (16 t + 5) div 8                          2 t, and nothing of the rest of 5
#     130 as 8 bits                             -126
#
# `substitute` folds again where atoms are replaced by what is better known.


def modulo(form: Form, modulus: int, facts: Known) -> Form:
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


def wrap(form: Form, bits: int, facts: Known) -> Form:
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


def _in_one_period(form: Form, first: int, modulus: int, facts: Known) -> Form | None:
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


def floor_divide(form: Form, divisor: int, facts: Known) -> Form:
    """floor(form / divisor) for divisor > 0: what divides evenly moves out."""
    outside = Form(
        form.constant // divisor,
        frozenset((atom, c // divisor) for atom, c in form.terms if c % divisor == 0),
    )
    inside = Form(form.constant % divisor, frozenset(t for t in form.terms if t[1] % divisor))
    low, high = bounds(inside, facts)
    if low is not None and high is not None and low // divisor == high // divisor:
        return add(outside, Form(low // divisor))
    part = _divided_remainder(inside, divisor, facts)
    return add(outside, part or call("div", inside, Form(divisor)))


def _divided_remainder(form: Form, divisor: int, facts: Known) -> Form | None:
    """x mod V div d as x div d mod (V / d), where all that is unknown in x is a multiple of d, and the same of x as a number
    of so many bits; None for other forms."""
    (atom, coefficient), *others = form.terms
    own = modulus_of(atom)
    if others or coefficient != 1 or own is None or own % divisor or own == divisor:
        return None
    name, (inner, _) = operator_of(atom)
    if any(c % divisor for _, c in inner.terms):
        return None
    part, versions = floor_divide(inner, divisor, facts), own // divisor
    bits = versions.bit_length() - 1
    part = modulo(part, versions, facts) if name == "mod" else wrap(part, bits, facts)
    return add(part, Form((inner.constant % divisor + form.constant) // divisor))


def product(a: Form, b: Form) -> Form:
    """a * b. What one adds to an unknown multiplies the other: (k - 1) * n is k * n - n, so that what was
    in iteration k can be said of iteration k - 1."""
    for one, other in ((a, b), (b, a)):
        if one.constant or not one.terms:
            rest = Form(0, one.terms)
            whole = product(rest, other) if rest.terms else Form(0)
            return add(whole, scale(other, one.constant))
    return call("mul", a, b)


# The kind of an atom that is a product of others, each a form of its own, in one order.
PRODUCT = "product"


def factors(atom: Atom) -> tuple[Atom, ...]:
    """The atoms that an atom is the product of."""
    if atom.kind != PRODUCT:
        return (atom,)
    return tuple(inner for form in atom.key for inner, _ in form.terms)  # type: ignore[attr-defined]


def of_product(atoms: Iterable[Atom]) -> Form:
    """The product of atoms; 1 of none."""
    parts = sorted(atoms, key=repr)
    if not parts:
        return Form(1)
    return of_atom(parts[0] if len(parts) == 1 else Atom(PRODUCT, tuple(map(of_atom, parts))))


def products_of(form: Form) -> Iterator[tuple[tuple[Atom, ...], int]]:
    """The products of atoms that a form is the sum of, with their coefficients; of a constant that of none."""
    if form.constant:
        yield (), form.constant
    for atom, coefficient in form.terms:
        yield factors(atom), coefficient


@lru_cache(maxsize=1 << 12)
def multiplied(a: Form, b: Form) -> Form:
    """a * b, multiplied out: a sum of products of atoms."""
    made: Form = ZERO
    for one, by in products_of(a):
        for other, times in products_of(b):
            made = sums.add(made, scale(of_product((*one, *other)), by * times))
    return made


def _bits_below(name: str, a: Form, b: Form, facts: Known) -> Form | None:
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


def substitute(
    form: Form, mapping: Mapping[Atom, Form], facts: Known, known: dict[Form, Form] | None = None
) -> Form:
    """The form with atoms replaced, in the operands of operators too.

    Operators fold again where they can; facts must hold for the new atoms. `known`: forms of which that is known already;
    the operands of a swizzle's bits are one form, hundreds of times.
    """
    if not form.terms or atoms_of(form).isdisjoint(mapping):
        return form
    known = {} if known is None else known
    if form in known:
        return known[form]
    result: Form = Form(form.constant)
    for atom, coefficient in form.terms:
        new = mapping.get(atom)
        if new is None and atom.kind == "call":
            name, arguments = operator_of(atom)
            changed = tuple(substitute(a, mapping, facts, known) for a in arguments)
            new = apply(name, changed, facts) if changed != arguments else None
        result = add(result, scale(of_atom(atom) if new is None else new, coefficient))
    known[form] = result
    return result


def apply(name: str, arguments: tuple[Form, ...], facts: Known) -> Form:
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


# Unknowns that a form depends on modulo something only: they are enumerated by residues.
#
#     512 ((k + 1) mod 2)  vs  512 (k mod 2) + 4      k = 0 and k = 1 say it all, for both ends
#     ring[(k - 1 - q) mod 3]                         q = 0, 1, 2 say it all

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
        name, arguments = operator_of(atom)
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
            known = range_of(atom)
            first = known.low or 0
            if known.high is None or known.high - first >= period:
                key = (atom.key[0], AtomRange(first, first + period - 1))  # type: ignore[index]
                cuts[atom] = of_atom(Atom("any", key))
    return [substitute(form, cuts, {}) for form in values] if cuts else values


def cases(values: list[Form], facts: Facts) -> Iterator[list[Form]] | None:
    """The forms for each residue of the iteration numbers and symbols in them, and for each number of
    those of which more counts; None if these have no bounds, or there are too many."""
    numbers = {
        atom: _numbers(period, knowledge(atom, facts))
        for atom, period in periods_of(values).items()
        if atom.kind in ("iteration", "symbol")
    }
    if not 0 < prod(map(len, numbers.values())) <= LARGEST_PERIOD:
        return None
    return (
        [
            substitute(form, {a: Form(r) for a, r in zip(numbers, chosen, strict=True)}, facts)
            for form in values
        ]
        for chosen in itertools.product(*numbers.values())
    )


def _numbers(period: int, known: AtomRange) -> Sequence[int]:
    """The residues that an unknown may have, or the numbers that it may be; none where that is not known. Where
    they are too many to be used, so many as say so: all of a 64-bit number cannot be counted."""
    if period > LARGEST_PERIOD:
        return range(LARGEST_PERIOD + 1)
    if period:
        return [r for r in range(period) if _is_possible(r, period, known)]
    low, high = known.tightened().ends
    if low is None or high is None:
        return ()
    most = low + (LARGEST_PERIOD + 1) * known.modulus
    return range(low, min(high + 1, most), known.modulus)


def _is_possible(residue: int, period: int, known: AtomRange) -> bool:
    """Whether a number that is `residue` modulo `period` can be what is known."""
    if known.exact is not None:
        return known.exact % period == residue
    return (residue - known.residue) % gcd(period, known.modulus) == 0
