"""Numbers on a path of all threads: exact ones, one for each thread, or sums of unknowns.

    %leader = cmpi eq, %tid, 0     EachThread [1, 0, 0, …]
    %slot                          2
    %left = subi %n, %k            the form n - k

None is a number that may differ between threads, of which nothing is known. Comparisons of forms
are decided by what the path knows, else the path splits. Numbers of iN stand as signed ones;
sums of unknowns are taken to fit their type.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form, multiplied
from mlir_async_pipe.checker.phases.ranges_of_sums import RATIO, Knowledge, exact_quotient
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.facts.values.domains import Domain, Typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS
from mlir_async_pipe.facts.values.numbers import NUMBERS


@dataclass(frozen=True)
class EachThread:
    data: bytes

    @property
    def numbers(self) -> np.ndarray:
        return np.frombuffer(self.data, np.int64)

    @property
    def mask(self) -> int:
        """The threads in which a bit holds."""
        return _mask_of(self.data)

    def split(self, mask: int) -> list[int]:
        return list(self.groups(mask).values())

    def groups(self, mask: int) -> dict[int, int]:
        """Of some threads those that have each number."""
        found: dict[int, int] = {}
        for thread in threads_of(mask):
            number = int(self.numbers[thread])
            found[number] = found.get(number, 0) | 1 << thread
        return found


@lru_cache(maxsize=1 << 10)
def _mask_of(bits: bytes) -> int:
    return sum(1 << int(number) for number in np.frombuffer(bits, np.int64).nonzero()[0])


@lru_cache(maxsize=64)
def threads_of(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


@lru_cache(maxsize=1 << 10)
def among(value: EachThread, mask: int) -> int | EachThread:
    """The numbers of some threads: one, if it is the same; what others have does not count."""
    chosen = list(threads_of(mask))
    numbers = np.full(len(value.numbers), value.numbers[chosen[0]])
    numbers[chosen] = value.numbers[chosen]
    return of_array(numbers)


Amount = int | Form | EachThread | None
"""A number, a sum of unknowns, one number for each thread; None is one of which nothing is known."""


def of_array(numbers: Any) -> int | EachThread:
    """One number if all are the same."""
    array = np.asarray(numbers).astype(np.int64)
    flat = array.reshape(-1)
    if (flat == flat[0]).all():
        return int(flat[0])
    return EachThread(np.ascontiguousarray(flat).tobytes())


def gathered(parts: list[tuple[int, Any]], whole: int) -> Any:
    """What each thread has, where threads of some masks have one value each."""
    first = parts[0][1]
    if all(value == first for _, value in parts):
        return first
    if not all(isinstance(value, int | EachThread) for _, value in parts):
        return None
    numbers = np.zeros(whole.bit_length(), np.int64)
    for mask, value in parts:
        for thread in threads_of(mask):
            numbers[thread] = value if isinstance(value, int) else value.numbers[thread]
    return of_array(numbers)


def chosen(condition: Amount, one: Any, other: Any) -> Amount:
    """What each thread has of two values, by a bit."""
    if one == other or not isinstance(condition, EachThread):
        return one if one == other else None
    if not isinstance(one, int | EachThread) or not isinstance(other, int | EachThread):
        return None
    a, b = (v.numbers if isinstance(v, EachThread) else v for v in (one, other))
    return of_array(np.where(condition.numbers != 0, a, b))


def form_of(value: int | Form) -> Form:
    return Form(value) if isinstance(value, int) else value


def normal(form: Form) -> int | Form:
    """A form without unknowns is a number."""
    return form if form.terms else form.constant


def quotient(a: Form, b: Form, known: Knowledge) -> Form | None:
    """a div b for an a of 0 or more and an unknown b, then 1 or more; None if b may be below 0."""
    low, _ = known.bounds(b)
    if low is None or low < 0 or not (is_number(a) and is_number(b)):
        return None
    if not low:
        known.suppose(b)
    exact = exact_quotient(a, b)
    return forms.of_atom(Atom(RATIO, (a, b))) if exact is None else exact


def trip_count(lower: Form, upper: Form, step: Form, known: Knowledge) -> Form:
    """The iterations of a loop whose step is not known, as pipelines count them:
    lb < ub ? (ub - lb - 1) div step + 1 : 0. Raises OpenError."""
    known.suppose(step)
    left = forms.subtract(upper, lower)
    if not known.at_least_one(left):
        return Form(0)
    found = quotient(forms.add(left, Form(-1)), step, known)
    assert found is not None
    return forms.add(found, Form(1))


def _take_apart(form: Form, by: int) -> None:
    """Of (n + c) div 64 there is more to say if n is 64 q + r - c."""
    if len(form.terms) != 1:
        return
    ((atom, coefficient),) = form.terms
    if coefficient == 1 and atom.kind in ("size", "unknown") and isinstance(atom.key, int):
        quotient, rest = (Atom(kind, (atom, by)) for kind in ("quotient", "remainder"))
        terms = frozenset({(quotient, by), (rest, 1)})
        raise OpenError(atom, Form(-form.constant, terms), quotient)


# Choices, and what is made of other operators, whose operands need not be numbers.
_OF_ANYTHING = frozenset({"select", "apply", "apply_least", "apply_largest", "join"})


# What may not fit into the type of its result; of as many bits and more numbers are taken to fit.
_WRAPPING = frozenset({"add", "sub", "mul", "shl", "cast"})
TAKEN_TO_FIT = 32


class Amounts(Domain[Amount, Knowledge]):
    def constant(self, number: int) -> Amount:
        return number

    def evaluate(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Exact operands are left to `Numbers`: the operators here are about forms and numbers."""
        if op.row.method in _OF_ANYTHING:
            return super().evaluate(op, v, known)
        if None in v:
            return None
        if not any(isinstance(value, Form) for value in v):
            arrays = [np.asarray(v.numbers if isinstance(v, EachThread) else v) for v in v]
            made = NUMBERS.evaluate(op, arrays, None)
            return None if made is None else of_array(made)
        if any(isinstance(value, EachThread) for value in v):
            v = beside_addresses(v)
        if None in v:
            return None
        found = super().evaluate(op, v, known)
        if (
            not isinstance(found, Form)
            or not 1 < op.bits < TAKEN_TO_FIT
            or op.row.method not in _WRAPPING
        ):
            return found
        least = -(1 << (op.bits - 1))
        return found if is_within(found, least, op.bits, known) else _opaque(op, found, Form(0))

    def add(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        return normal(forms.add(a, b))

    def sub(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        return normal(forms.subtract(a, b))

    def mul(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if a.terms and b.terms and not (is_number(a) and is_number(b)):
            return _opaque(op, a, b)
        return normal(multiplied(a, b))

    def shl(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        return _opaque(op, a, b) if b.terms else normal(forms.scale(a, 1 << b.constant))

    def shr(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if not b.terms and (op.row.sign == "u" or 1 << b.constant == UNIT_BYTES):
            units = in_units(a, b.constant, op.bits)
            if units is not None:
                return units
        return _opaque(op, a, b) if b.terms else self._divided(op, a, 1 << b.constant, known)

    def div(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if b.terms and op.row.rounding != "up" and not _may_be_negative(a, known):
            found = quotient(a, b, known)
            if found is not None:
                return normal(found)
        if b.terms or b.constant <= 0:
            return _opaque(op, a, b)
        if op.row.sign == "u" and _is_signed(a, known):
            return _opaque(op, a, b)
        up = b.constant - 1 if op.row.rounding == "up" else 0
        return self._divided(op, forms.add(a, Form(up)), b.constant, known)

    def _divided(self, op: Typed, a: Form, by: int, known: Knowledge) -> Amount:
        if _may_be_negative(a, known):
            return _opaque(op, a, Form(by))
        if by > 1:
            _take_apart(a, by)
        return normal(forms.floor_divide(a, by, known))

    def rem(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if b.terms or b.constant <= 0 or _may_be_negative(a, known):
            return _opaque(op, a, b)
        residue = known.residue(a, b.constant)
        if residue is not None:
            return residue
        known.ask_residue(a, b.constant)
        return normal(forms.modulo(a, b.constant, known))

    def and_(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Of bits: decided; of numbers: of the bits from 2^l to 2^h what is left by 2^(h + 1), without what is left by
        2^l.

            %n & 24    -->    n mod 32 - n mod 8
        """
        if op.bits == 1:
            return int(all(_bit(value, known) for value in v))
        a, b = _forms(v) if isinstance(v[0], Form) else _forms(v[::-1])
        mask = b.constant
        if b.terms or mask < 0:
            return _opaque(op, a, b)
        if not mask:
            return 0
        low = mask & -mask
        if low != 1 and (taken := _taken_bits(a, mask, known)) is not None:
            return taken
        if low == 1 and is_address(a) and mask.bit_length() >= ADDRESS_BITS - 4:
            return a
        if mask & (mask + low):
            return _opaque(op, a, b)
        above, below = (known.residue(a, by) for by in (mask + low, low))
        if above is not None and below is not None:
            return above - below
        if _may_be_negative(a, known):
            return _opaque(op, a, b)
        upper, lower = _forms([self.rem(op, [a, by], known) for by in (mask + low, low)])
        return normal(forms.subtract(upper, lower))

    def or_(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Of bits: decided; of a descriptor's parts: their sum."""
        if op.bits == 1:
            return int(any(_bit(value, known) for value in v))
        a, b = _forms(v)
        return normal(forms.add(a, b)) if is_address(a) != is_address(b) else _opaque(op, a, b)

    def xor(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Of bits: decided; all bits of a number inverted: -1 less it."""
        a, b = _forms(v) if not _is_each(v[0]) else _forms(v[::-1])
        if op.bits == 1:
            return _bit(v[0], known) ^ _bit(v[1], known)
        if b == Form(-1):
            return normal(forms.subtract(b, a))
        changed = _changed_bits(a, b, known)
        return _opaque(op, a, b) if changed is None else changed

    def min(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if self._compares_unlike(op, a, b, known):
            return _opaque(op, a, b)
        return v[1] if known.at_least_one(forms.subtract(a, b)) else v[0]

    def max(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        a, b = _forms(v)
        if self._compares_unlike(op, a, b, known):
            return _opaque(op, a, b)
        return v[0] if known.at_least_one(forms.subtract(a, b)) else v[1]

    def _compares_unlike(self, op: Typed, a: Form, b: Form, known: Knowledge) -> bool:
        """Whether the smaller one of two numbers may not be that without signs."""
        return op.row.sign == "u" and (_is_signed(a, known) or _is_signed(b, known))

    def select(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        condition = v[0]
        if isinstance(condition, int | Form):
            return v[1] if _bit(condition, known) else v[2]
        return chosen(condition, v[1], v[2])

    def cmp(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """Decided by what is known, else the path splits."""
        a, b = _forms(v)
        predicate = op.detail
        if predicate is None:
            return None
        if predicate in ("eq", "ne"):
            return int(_equal(forms.subtract(a, b), known) == (predicate == "eq"))
        if predicate[0] == "u" and (_may_be_negative(a, known) or _may_be_negative(b, known)):
            return forms.of_atom(Atom("bit", (predicate, a, b)))
        if predicate[1] == "g":
            a, b = b, a
        # a < b: b - a >= 1; a <= b: b - a + 1 >= 1.
        rest = forms.add(forms.subtract(b, a), Form(int(predicate[2] == "e")))
        return int(known.at_least_one(rest))

    def cast(self, op: Typed, v: list[Amount], known: Knowledge) -> Amount:
        """The same number, or its lowest bit."""
        (form,) = _forms(v)
        if op.bits > 1:
            if op.given == 1 and op.row.sign == "s":
                return normal(forms.scale(form, -1))
            if op.row.sign == "u" and op.given < op.bits and _is_signed(form, known):
                return _opaque(op, form, Form(0))
            return normal(form)
        residue = known.residue(form, 2)
        return forms.of_atom(Atom("bit", ("cast", form))) if residue is None else residue


AMOUNTS = Amounts()


def _forms(v: list[Amount]) -> list[Form]:
    return [form_of(value) for value in v if isinstance(value, int | Form)]


def _opaque(op: Typed, a: Form, b: Form) -> Form:
    """One number, named by what it is made of."""
    kind = "bit" if op.bits == 1 else "unknown"
    return forms.of_atom(Atom(kind, (op.row, op.bits, a, b)))


def is_within(form: Form, least: int, bits: int, known: Knowledge) -> bool:
    """Whether a number is certainly from `least` on, and below 2^(bits - 1): of so many bits, with a sign. Sizes are taken to
    be below 2^63."""
    low, high = known.bounds(form)
    below = bits >= INDEX_BITS or (high is not None and high < 1 << (bits - 1))
    return low is not None and low >= least and below


def _is_signed(form: Form, known: Knowledge) -> bool:
    """Whether a number is known to begin below 0, as n - 5 does, or is one that the kernel is given and is no size."""
    low, _ = known.bounds(form)
    given = any(atom.kind == "unknown" and isinstance(atom.key, int) for atom in form.symbols)
    return low < 0 if low is not None else given


def _may_be_negative(form: Form, known: Knowledge) -> bool:
    # s (k - 1) is 0 or more where k is 1 or more, as s is.
    low, _ = known.bounds(known.without_factors(forms.add(form, Form(1))))
    return low is None or low < 1


def _bit(value: Amount, known: Knowledge) -> int:
    """The truth of a bit. Raises OpenError."""
    return value & 1 if isinstance(value, int) else int(known.at_least_one(value))  # type: ignore[arg-type]


def _equal(difference: Form, known: Knowledge) -> bool:
    """Whether a form is 0. Raises OpenError."""
    if not difference.terms:
        return difference.constant == 0
    if not difference.constant:
        difference = known.without_factors(difference)
    low, high = known.bounds(difference)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    if low == high == 0:
        return True
    for modulus in {modulus for _, modulus in known.residues.values()}:
        if known.residue(difference, modulus):
            return False
    if high is None or high > 0:
        raise OpenError(difference)
    raise OpenError(forms.scale(difference, -1))


# Low bits of addresses, where buffers are aligned to as many, as swizzles change them.
#
# %p = %base + 72 %tid, %base a multiple of 1024
# %p >> 3 & 48                              (72 %tid >> 3) & 48, one number a thread
# %p ^ (%p >> 3 & 48)                       %base + one number a thread


def _is_each(value: Amount) -> bool:
    """Whether a value is numbers only, one or one for each thread."""
    return not isinstance(value, Form) or all(atom.kind == EACH for atom, _ in value.terms)


def _low_bits(form: Form, bits: int, known: Knowledge) -> Any:
    """The lowest bits of a sum, in each thread; None if they are not known."""
    others = [factor * known.aligned.get(a, 1) for a, factor in form.terms if a.kind != EACH]
    return None if any(n % (1 << bits) for n in others) else _each(form) & ((1 << bits) - 1)


def _each(form: Form) -> np.ndarray:
    """The numbers in a sum, one or one for each thread, without what else is in it."""
    numbers = np.asarray(form.constant, np.int64)
    for atom, factor in form.terms:
        if atom.kind == EACH:
            numbers = numbers + factor * np.frombuffer(atom.key, np.int64)
    return numbers


def _taken_bits(form: Form, mask: int, known: Knowledge) -> Amount:
    """form & mask, or (sum >> shift) & mask; None if that is not known."""
    shift = 0
    if len(form.terms) == 1 and not form.constant:
        ((atom, factor),) = form.terms
        made: Any = atom.key
        if factor == 1 and atom.kind == "unknown" and isinstance(made, tuple) and len(made) == 4:
            row, _, form_shifted, by = made
            if row.method == "shr" and not by.terms:
                # It is kept as a quotient.
                form, shift = form_shifted, by.constant.bit_length() - 1
    low = _low_bits(form, shift + mask.bit_length(), known)
    return None if low is None else of_array(low >> shift & mask)


def _changed_bits(form: Form, numbers: Form, known: Knowledge) -> Amount:
    """A sum of which some low bits are inverted; None if they are not known."""
    if not _is_each(numbers):
        return None
    by = _low_bits(numbers, 62, known)
    low = _low_bits(form, int(by.max()).bit_length(), known)
    if low is None:
        return None
    return forms.add(form, _of_numbers(of_array((low ^ by) - low)))


def _of_numbers(numbers: int | EachThread) -> Form:
    return Form(numbers) if isinstance(numbers, int) else forms.of_atom(Atom(EACH, numbers.data))


# Addresses of workgroup memory as numbers, and descriptors of products that are made of them.
#
# %base + 16384 %slot + 8192 %warpgroup     the buffer's address, 32768, and one number a thread
# … >> 4 & 0x3fff | layout                  the same in units of 16 bytes, and bits above them

# An address in units of 16 bytes, as descriptors of products hold it.
UNIT_BYTES = 16
# Fewer bits than these of an address are not all of it.
ADDRESS_BITS = 18
# The kind of an atom that is one number for each thread.
EACH = "each"


def address_of(root: int, offset: int) -> Form:
    return Form(offset, frozenset({(Atom("address", root), 1)}))


def is_number(form: Form) -> bool:
    """Whether a form is one number, the same in all threads, and no address is in it."""
    return not any(atom.kind in ("address", "units", EACH) for atom, _ in form.terms)


def is_address(form: Form) -> bool:
    """Whether a form is an address, in bytes or units, plus a number, or one for each thread."""
    kinds = [atom.kind for atom, coefficient in form.terms if atom.kind == EACH or coefficient == 1]
    return len(kinds) == len(form.terms) == 1 + kinds.count(EACH) and any(
        kind in ("address", "units") for kind in kinds
    )


def address_parts(form: Form, mask: int | None = None) -> tuple[Atom, list[int]]:
    """The buffer of an address, and all numbers that threads, perhaps those of a mask, add to it."""
    atom, added = added_to_address(form)
    numbers = np.asarray(added.numbers if isinstance(added, EachThread) else added)
    if mask is not None and numbers.ndim:
        numbers = numbers[list(threads_of(mask))]
    return atom, sorted({int(number) for number in numbers.reshape(-1)})


def added_to_address(form: Form) -> tuple[Atom, int | EachThread]:
    """The buffer of an address, and what each thread adds to it."""
    (atom,) = (atom for atom, _ in form.terms if atom.kind != EACH)
    return atom, of_array(_each(form))


def beside_addresses(v: list[Amount]) -> list[Amount]:
    """Numbers of threads as forms, where all else is addresses; None of those elsewhere."""
    if not all(is_address(value) for value in v if isinstance(value, Form)):
        return [None]
    return [_of_numbers(value) if isinstance(value, EachThread) else value for value in v]


def in_units(form: Form, shift: int, bits: int) -> Form | None:
    """An address in units of 16 bytes, as a shift of a number of `bits` bits by `shift` gives it; buffers
    that descriptors name begin at whole ones.

    %address >> 4        %address << 46 >> 50: no bit of an address is above the 18 that stay
    """
    left = shift - (UNIT_BYTES.bit_length() - 1)
    if left < 0 or (left and bits - left < ADDRESS_BITS):
        return None
    scale = 1 << left
    if form.constant % scale or any(factor % scale for _, factor in form.terms):
        return None
    scaled = frozenset((atom, factor // scale) for atom, factor in form.terms)
    form = Form(form.constant // scale, scaled)
    if not is_address(form):
        return None
    atom, numbers = address_parts(form)
    if atom.kind != "address" or any(number % UNIT_BYTES for number in numbers):
        return None
    added = of_array(_each(form) // UNIT_BYTES)
    units = forms.of_atom(Atom("units", atom.key))
    return forms.add(units, _of_numbers(added))
