"""Forms, facts and overlaps: the arithmetic under the checker.

Covers: checker/forms.py, checker/arithmetic.py, checker/overlap.py, checker/paths.py,
checker/thread_grid.py, facts/values/views.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import FORMS, compare
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form
from mlir_async_pipe.checker.overlap import Comparer
from mlir_async_pipe.checker.paths import at_least, hull, split
from mlir_async_pipe.checker.thread_grid import Threads
from mlir_async_pipe.facts.values.domains import Typed
from mlir_async_pipe.facts.values.views import BYTES, Piece, Region
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

K = Atom("iteration", 0)
N = Atom("symbol", 1)
TID = Atom("tid", "x")
k, n, tid = (forms.of_atom(atom) for atom in (K, N, TID))


def plus(form: Form, constant: int) -> Form:
    return forms.add(form, Form(constant))


def at(start: Form, length: int = 1, *, certain: bool = True) -> Region:
    return Region(0, BYTES, (Piece(start, (), length),), certain, None)


def verdict(
    a: Form, b: Form, *, same_thread: bool, facts: dict[Atom, AtomRange], length: int = 1
) -> str:
    comparer = Comparer(Threads((32, 1, 1)))
    return comparer.overlap(at(a, length), at(b, length), facts, same_thread=same_thread).verdict


@pytest.mark.parametrize(("low", "residue"), [(0, 0), (1, 1), (5, 2)])
def test_a_slot_folds_when_the_residue_of_the_iteration_is_known(low: int, residue: int) -> None:
    facts = {K: AtomRange(low, None, residue, 3)}
    assert forms.modulo(plus(k, 2), 3, facts) == Form((residue + 2) % 3)


def test_a_slot_of_an_unknown_iteration_stays_a_remainder() -> None:
    slot = forms.modulo(plus(k, 4), 3, {K: AtomRange(0, None)})
    assert slot == forms.call("mod", plus(k, 1), Form(3))


def test_a_phase_bit_follows_from_the_residue_modulo_twice_the_slots() -> None:
    facts = {K: AtomRange(4, None, 4, 6)}
    phase = forms.floor_divide(k, 3, facts)
    assert forms.modulo(phase, 2, facts) == Form(1)


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotients", "remainders", "sum_"),
    [
        (k, 8, 8192, 1024, forms.scale(k, 1024)),
        (forms.add(forms.scale(k, 9), Form(3)), 8, -16, -2, Form(-6, forms.scale(k, -18).terms)),
        (k, 8, 4096, 1024, None),
        (k, 8, 8193, 1024, None),
    ],
)
def test_a_quotient_and_its_remainder_are_what_was_divided(
    dividend: Form, divisor: int, quotients: int, remainders: int, sum_: Form | None
) -> None:
    high = forms.scale(forms.floor_divide(dividend, divisor, {}), quotients)
    low = forms.scale(forms.modulo(dividend, divisor, {}), remainders)
    total = forms.add(high, low)
    assert total == sum_ if sum_ is not None else len(total.terms) == 2
    for number in (0, 5, 8, 23, -9):
        value = forms.substitute(dividend, {K: Form(number)}, {}).constant
        expected = quotients * (value // divisor) + remainders * (value % divisor)
        assert forms.substitute(total, {K: Form(number)}, {}) == Form(expected)


def test_a_remainder_of_something_else_stays() -> None:
    high = forms.scale(forms.floor_divide(k, 8, {}), 8)
    low = forms.modulo(n, 8, {})
    assert len(forms.add(high, low).terms) == 2


@pytest.mark.parametrize(
    ("dividend", "name", "versions", "extra", "nested"),
    [
        (forms.scale(k, 12), "mod", 32, 0, False),
        (forms.add(forms.scale(k, 12), Form(3)), "mod", 32, 3, False),
        (forms.add(forms.scale(k, -4), Form(1)), "mod", 32, 2, False),
        (forms.add(forms.scale(k, 12), Form(3)), "wrap", 5, 3, False),
        # 4 divides neither 30 nor 3 k; of a number of 2 bits its sign is left.
        (forms.scale(k, 12), "mod", 30, 0, True),
        (forms.scale(k, 3), "mod", 32, 0, True),
        (forms.scale(k, 3), "wrap", 5, 0, True),
        (forms.scale(k, 4), "wrap", 2, 0, True),
    ],
)
def test_a_remainder_of_multiples_is_divided_inside(
    dividend: Form, name: str, versions: int, extra: int, nested: bool
) -> None:
    whole = forms.add(forms.call(name, dividend, Form(versions)), Form(extra))
    part = forms.floor_divide(whole, 4, {})
    (atom,) = (atom for atom, _ in part.terms)
    assert (forms.operator_of(atom)[0] == "div") == nested
    for number in range(-20, 20):
        at = {K: Form(number)}
        exact = forms.substitute(whole, at, {}).constant // 4
        assert forms.substitute(part, at, {}) == Form(exact)


@pytest.mark.parametrize(
    ("mask", "number", "known"),
    [
        # Of 8192 k + 2048 bit 12 is 0: a compiler leaves it out of the mask of a slot.
        (10240, plus(forms.scale(k, 8192), 2048), True),
        (14336, plus(forms.scale(k, 8192), 2048), True),
        (10240, forms.call("wrap", plus(forms.scale(k, 8192), 2048), Form(32)), True),
        (-6, plus(forms.scale(k, 8), 5), True),
        (0b10101, forms.scale(k, 3), False),
    ],
)
def test_a_mask_with_gaps_is_a_sum_of_its_parts(mask: int, number: Form, known: bool) -> None:
    op = Typed(None, OPERATORS["arith.andi"], bits=32)
    masked = FORMS.and_(op, [number, Form(mask)], {})
    kinds = {forms.operator_of(atom)[0] for atom, _ in masked.terms}
    assert ("and" not in kinds) == known
    for value in (*range(-9, 9), 2**17, 2**18 + 1):
        at_value = {K: Form(value)}
        exact = forms.substitute(number, at_value, {}).constant & mask
        assert forms.substitute(masked, at_value, {}) == Form(exact)


@pytest.mark.parametrize(("name", "most"), [("xor", 504), ("or", 504), ("and", 56)])
def test_bits_of_multiples_of_eight_end_at_one(name: str, most: int) -> None:
    swizzled = forms.call(name, forms.scale(n, 8), forms.scale(k, 8))
    facts = {N: AtomRange(0, 63), K: AtomRange(0, 7)}
    assert forms.bounds(swizzled, facts) == (0, most)


@pytest.mark.parametrize("name", ["xor", "or"])
@pytest.mark.parametrize("swapped", [False, True])
def test_low_bits_leave_what_is_above_them_as_it_is(name: str, swapped: bool) -> None:
    facts = {N: AtomRange(0, 3)}
    a = forms.add(forms.scale(k, 64), forms.add(forms.scale(tid, 24), Form(130)))
    b = forms.scale(n, 16)
    both = forms.apply(name, (b, a) if swapped else (a, b), facts)
    assert dict(both.terms)[K] == 64 and both.constant == 128
    for values in ((0, 0, 0), (5, 3, 3), (-2, 31, 1), (7, -9, 2)):
        known = {atom: Form(value) for atom, value in zip((K, TID, N), values, strict=True)}
        numbers = (forms.substitute(form, known, {}).constant for form in (a, b))
        exact = forms.FOLDS[name](*numbers)
        assert forms.substitute(both, known, {}) == Form(exact)


def test_bits_that_may_be_negative_leave_nothing() -> None:
    a, b = forms.scale(k, 64), forms.scale(n, 16)
    assert forms.apply("xor", (a, b), {}) == forms.call("xor", a, b)


def test_equal_symbols_cancel() -> None:
    assert forms.subtract(plus(forms.scale(n, 3), 5), forms.scale(n, 3)) == Form(5)


def test_a_comparison_is_decided_by_bounds() -> None:
    facts = {N: AtomRange(4, None)}
    assert compare("slt", n, Form(4), facts) == Form(0)
    assert compare("uge", n, Form(4), facts) == Form(1)
    assert compare("slt", n, Form(5), facts).terms


def test_a_split_narrows_what_is_known_on_each_side() -> None:
    facts = {N: AtomRange(0, None)}
    sides = {side.truth: side for side in split(compare("slt", n, Form(3), facts), facts)}
    assert sides[1].facts[N] == AtomRange(0, 2)
    assert sides[0].facts[N] == AtomRange(3, None)
    assert sides[0].exact and sides[1].exact


def test_a_fact_about_a_sum_bounds_that_sum() -> None:
    held, exactly = at_least(forms.subtract(n, k), 1, {K: AtomRange(0, None)})
    assert held is not None and exactly
    assert forms.bounds(forms.subtract(n, k), held) == (1, None)
    assert forms.bounds(forms.subtract(k, n), held) == (None, -1)


def test_a_contradiction_has_no_facts() -> None:
    assert at_least(n, 5, {N: AtomRange(0, 4)}) == (None, True)


def test_widening_keeps_the_distance_of_repeated_states_as_a_residue() -> None:
    assert hull(AtomRange(1, 1), AtomRange(4, 4)) == AtomRange(1, None, 1, 3)
    assert hull(hull(AtomRange(1, 1), AtomRange(4, 4)), AtomRange(6, 6)) == AtomRange(1, None)


def test_other_slots_of_one_iteration_are_apart() -> None:
    facts = {K: AtomRange(0, None)}
    now, before = forms.modulo(k, 3, facts), forms.modulo(plus(k, 2), 3, facts)
    assert verdict(now, before, same_thread=True, facts=facts) == "no"
    assert verdict(now, now, same_thread=True, facts=facts) == "yes"


def test_the_same_thread_meets_itself_and_no_other() -> None:
    assert verdict(tid, tid, same_thread=True, facts={}) == "yes"
    assert verdict(tid, tid, same_thread=False, facts={}) == "no"
    assert verdict(tid, tid, same_thread=False, facts={}, length=2) == "yes"


def test_mirrored_threads_meet_unless_they_are_one() -> None:
    mirrored = forms.subtract(Form(31), tid)
    assert verdict(tid, mirrored, same_thread=False, facts={}) == "yes"
    assert verdict(tid, mirrored, same_thread=True, facts={}) == "no"


def test_an_opaque_subscript_is_undecided() -> None:
    assert verdict(n, Form(3), same_thread=True, facts={}) == "cannot tell"


def test_an_iteration_meets_a_fixed_place_only_if_the_facts_allow_it() -> None:
    assert verdict(plus(k, 2), Form(5), same_thread=True, facts={K: AtomRange(0, 9)}) == "yes"
    assert verdict(plus(k, 2), Form(5), same_thread=True, facts={K: AtomRange(0, 2)}) == "no"
    even = {K: AtomRange(0, None, 0, 2)}
    assert verdict(plus(k, 2), Form(5), same_thread=True, facts=even) == "no"


def test_an_access_that_may_not_happen_is_never_certain() -> None:
    comparer = Comparer(Threads((32, 1, 1)))
    masked = at(tid, certain=False)
    assert comparer.overlap(masked, at(tid), {}, same_thread=True).reason == "uncertain-access"


def test_threads_of_an_unknown_block_count_within_one_warp_only() -> None:
    comparer = Comparer(Threads(None))
    near, far = plus(tid, 1), plus(tid, 500)
    assert comparer.overlap(at(tid), at(near), {}, same_thread=False).verdict == "yes"
    assert comparer.overlap(at(tid), at(far), {}, same_thread=False).reason == "block-size"
    assert comparer.overlap(at(tid), at(plus(tid, 2000)), {}, same_thread=False).verdict == "no"
