"""Numbers and places on paths of phases are those of the arithmetic that they stand for.

Covers: checker/phases/amounts.py, checker/phases/ranges_of_sums.py, checker/phases/byte_places.py,
checker/phases/path_numbers.py, checker/phases/path_state.py
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from helpers.tensor_kernels import Ring
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.amounts import AMOUNTS, EachThread, of_array
from mlir_async_pipe.checker.phases.byte_places import BytePlace, region_of_view, value_of
from mlir_async_pipe.checker.phases.ranges_of_sums import MOST_RESIDUES, Knowledge
from mlir_async_pipe.checker.precision import OpenError, RefineError
from mlir_async_pipe.facts.values.domains import typed
from mlir_async_pipe.facts.values.numbers import NUMBERS

N, K = Atom("size", "n"), Atom("loop", (0, 0))


def form(constant: int, n: int = 0, k: int = 0) -> Form:
    return Form(constant, frozenset((a, c) for a, c in ((N, n), (K, k)) if c))


def allows(known: Knowledge, n: int, k: int) -> bool:
    """Whether what is known allows two numbers."""
    at = {N: n, K: k}
    return (
        n >= 0
        and k >= 0
        and all(
            (low is None or low <= value) and (high is None or value <= high)
            for direction, (low, high) in known.ranges.items()
            for value in [sum(at[a] * c for a, c in direction)]
        )
    )


@pytest.mark.parametrize("seed", range(40))
def test_halves_part_the_numbers_where_the_form_is_one_or_more(seed: int) -> None:
    """Law: of the numbers that were allowed each half allows those on its side, and no bound is
    ever wrong."""
    draw = random.Random(seed)
    known = Knowledge()
    for _ in range(4):
        asked = form(draw.randint(-9, 9), draw.choice((-2, -1, 1, 2)), draw.choice((-2, -1, 0, 1)))
        halves = known.halves(asked)
        for n in range(-1, 12):
            for k in range(-1, 12):
                value = asked.constant + dict(asked.terms)[N] * n + dict(asked.terms).get(K, 0) * k
                inside = [half for half in halves if allows(half, n, k)]
                assert len(inside) == allows(known, n, k)
                for half in inside:
                    low, high = half.bounds(asked)
                    assert low is None or low <= value
                    assert high is None or value <= high
        if not halves:
            # Nothing was allowed any more, as the loops above have seen.
            return
        decided = draw.choice(halves)
        assert decided.bounds(asked)[0] is not None or decided.bounds(asked)[1] is not None
        known = decided


@pytest.mark.parametrize("seed", range(20))
def test_what_is_too_small_to_matter_is_left_out(seed: int) -> None:
    """Law: the coarse form is 1 or more exactly where the form is, for every remainder."""
    draw = random.Random(seed)
    by = draw.choice((2, 4, 64))
    rest = Atom("remainder", (N, by))
    asked = forms.add(
        form(draw.randint(-99, 99), by, draw.choice((-by, -2 * by))), forms.of_atom(rest)
    )
    coarse = Knowledge().coarse(asked)
    for n, k, r in itertools.product(range(6), range(6), range(by)):
        at = {N: n, K: k, rest: r}
        values = [f.constant + sum(at[a] * c for a, c in f.terms) for f in (asked, coarse)]
        assert (values[0] >= 1) == (values[1] >= 1)
    if coarse != asked:
        assert rest not in dict(coarse.terms)


def test_a_divided_argument_is_taken_apart() -> None:
    """n + 63 = 64 q + r: then (n - 1) div 64 + 1 is what (n + 63) div 64 is, and n > 64 a matter
    of q."""
    known = Knowledge()
    by = 64
    text = """func.func @f(%a: index, %b: index) {
      %c = arith.divui %a, %b : index
      return
    }"""
    with new_context():
        module = parse(text)
        division = typed(next(op for op in walk(module.operation) if op.name == "arith.divui"))
        size = Atom("size", 0)
        up = Form(63, frozenset({(size, 1)}))
        with pytest.raises(OpenError) as found:
            AMOUNTS.evaluate(division, [up, by], known)
        _, form, quotient = found.value.args
        made = forms.add(form, Form(63))
        quotient = forms.of_atom(quotient)
        known.learn(quotient, 0, None)
        assert AMOUNTS.evaluate(division, [made, by], known) == quotient
        down = forms.add(form, Form(63 + 64))
        assert AMOUNTS.evaluate(division, [down, by], known) == forms.add(quotient, Form(1))


def test_a_remainder_is_below_what_divides() -> None:
    """(64 n + r + 64) mod 64 is r, for r from 0 to 63."""
    rest = forms.of_atom(Atom("remainder", (N, 64)))
    text = """func.func @f(%a: index, %b: index) {
      %c = arith.remui %a, %b : index
      return
    }"""
    with new_context():
        module = parse(text)
        remainder = typed(next(op for op in walk(module.operation) if op.name == "arith.remui"))
        asked = forms.add(form(64, 64), rest)
        assert AMOUNTS.evaluate(remainder, [asked, 64], Knowledge()) == rest


def test_a_loop_goes_on_and_its_ranges_with_it() -> None:
    known = Knowledge(residues={K: (5, 6)})
    known.learn(form(0, 1, -1), 3, None)
    known.advance(K, 1)
    assert known.bounds(form(0, 1, -1)) == (2, None)
    assert known.residue(form(1, 0, 1), 6) == 1
    assert known.bounds(form(0, 0, 1)) == (0, None)
    known.forget(K)
    assert known.bounds(form(0, 1, -1)) == (None, None) and known.residue(form(0, 0, 1), 2) is None


def test_after_the_last_iteration_the_bound_has_the_residue_of_the_number() -> None:
    known = Knowledge(residues={K: (4, 6)})
    known.learn(form(0, 1, -1), 0, 0)
    known.learn_residue(form(0, 1, -1), 6)
    assert known.residue(form(0, 1), 6) == 4 and known.residue(form(1, 3), 2) == 1


OPS = {
    **dict.fromkeys("addi subi muli divui remui andi minui maxsi".split(), "index"),
    **{f"cmpi {p}": "index" for p in "eq ne slt sle sgt sge ult ule ugt uge".split()},
}


ANY = forms.of_atom(Atom("size", 7))


@pytest.mark.parametrize(("low", "high", "left"), [(1, None, [0, 1, 2, 3]), (2, 4, [0, 2, 3])])
def test_a_path_for_each_residue_that_a_number_in_its_range_has(low, high, left) -> None:
    known = Knowledge(beside_roles=True)
    known.learn(ANY, low, high)
    with pytest.raises(OpenError) as asked:
        known.ask_residue(ANY, 4)
    made = known.with_residues(*asked.value.args)
    assert [one.residue(ANY, 4) for one in made] == left
    for one in made:
        one.ask_residue(ANY, 4)


def test_threads_that_go_one_way_are_not_asked_for_residues() -> None:
    Knowledge().ask_residue(ANY, 4)
    Knowledge(beside_roles=True).ask_residue(ANY, MOST_RESIDUES + 1)


@pytest.mark.parametrize("residue", range(6))
def test_no_number_is_left_where_residue_and_range_are_apart(residue: int) -> None:
    """n from 3 to 4: each half has the numbers of the residue, or is none."""
    known = Knowledge()
    known.learn(ANY, 3, None)
    known.residues[Atom("size", 7)] = residue, 6
    halves = known.halves(forms.add(ANY, Form(-4)))
    assert len(halves) == 1 + (residue in (3, 4))


@pytest.mark.parametrize("name", OPS)
def test_an_op_on_a_form_is_the_op_on_its_numbers(name: str) -> None:
    """Law: for every n with the residue that is known, and every constant."""
    word, _, predicate = name.partition(" ")
    comma = f"{predicate}, " if predicate else ""
    text = f"""func.func @f(%a: index, %b: index) {{
      %c = arith.{word} {comma}%a, %b : index
      return
    }}"""
    with new_context():
        module = parse(text)
        op = next(op for op in walk(module.operation) if op.name.startswith(f"arith.{word}"))
        one = typed(op)
        compared = 0
        for b in (1, 2, 3, 4, 7):
            for start in (0, 1, 5):
                known = Knowledge(residues={N: (start % 12, 12)})
                known.learn(form(0, 1), 5, 40)
                try:
                    made = AMOUNTS.evaluate(one, [form(1, 1), b], known)
                except (OpenError, RefineError):
                    continue
                for n in range(5, 41):
                    if n % 12 != start % 12:
                        continue
                    right = NUMBERS.evaluate(one, [np.asarray(n + 1), np.asarray(b)], None)
                    assert right is not None
                    if isinstance(made, int):
                        compared += 1
                        assert made == int(right)
                    elif isinstance(made, Form) and set(dict(made.terms)) == {N}:
                        compared += 1
                        assert made.constant + dict(made.terms)[N] * n == int(right)
        assert compared


def test_numbers_of_threads() -> None:
    ids = of_array(np.arange(4))
    assert isinstance(ids, EachThread) and of_array([7, 7]) == 7
    assert of_array(ids.numbers == 2) == of_array([0, 0, 1, 0])
    bits = of_array([1, 0, 1, 1])
    assert isinstance(bits, EachThread) and bits.mask == 0b1101


VIEWS = """func.func @f(%m: memref<4x8x16xf32>, %i: index, %j: index) {
  %s = memref.subview %m[%i, 2, 0][1, 4, 16][1, 1, 1] : memref<4x8x16xf32> to memref<4x16xf32, strided<[16, 1], offset: ?>>
  %r = memref.reinterpret_cast %m to offset: [%j], sizes: [8], strides: [1] : memref<4x8x16xf32> to memref<8xf32, strided<[1], offset: ?>>
  return
}"""


@pytest.mark.parametrize(
    ("index", "low", "high", "exact"),
    [(3, 1664, 1920, True), (None, 128, 1920, False), (of_array([1, 2]), 640, 1408, False)],
)
def test_where_a_subview_lies(index: object, low: int, high: int, exact: bool) -> None:
    """Bytes 4 (128 i + 32) up to 256 more; of an unknown i all that it may be."""
    with new_context():
        module = parse(VIEWS)
        view = next(op for op in walk(module.operation) if op.name == "memref.subview")
        place = value_of(view, [BytePlace(0, 0, 0), index])  # type: ignore[list-item]
        assert isinstance(place, BytePlace)
        region = region_of_view(place, view.results[0].type)
        assert (region.low, region.high, region.exact) == (low, high, exact)


def test_a_reinterpreted_buffer_counts_from_its_aligned_pointer() -> None:
    with new_context():
        module = parse(VIEWS)
        name = "memref.reinterpret_cast"
        cast = next(op for op in walk(module.operation) if op.name == name)
        place = value_of(cast, [BytePlace(0, 64, 64), 5])
        assert isinstance(place, BytePlace) and (place.low, place.high) == (20, 20)
        unknown = value_of(cast, [BytePlace(0, 64, 64), forms.of_atom(N)])
        assert isinstance(unknown, BytePlace)
        assert region_of_view(unknown, cast.results[0].type).low is None


WARP0 = """%w = arith.divui %t, %c32 : index
%w32 = arith.index_cast %w : index to i32
%first_lane = arith.constant 0 : i32
%lanes = arith.constant -1 : i32
%clamp = arith.constant 31 : i32
%same = nvvm.shfl.sync idx %lanes, %w32, %first_lane, %clamp : i32 -> i32
%warp0 = arith.cmpi eq, %same, %first_lane : i32"""


@pytest.mark.parametrize(
    ("warp", "unsafe"), [(WARP0, False), (WARP0.replace("eq,", "sle,"), False)]
)
def test_a_warp_that_a_shuffle_names(warp: str, unsafe: bool) -> None:
    """All lanes of a warp have one number, so what they shuffle is that number."""
    first = "%warp0 = arith.cmpi ult, %t, %c32 : index"
    text = Ring(leader="elect").text()
    assert first in text
    (found,) = check_module(parse(text.replace(first, warp))).report.of("checks")
    assert (found.unsafe > 0, found.unknown) == (unsafe, 0)


def test_an_elected_lane_in_every_warp_is_too_many() -> None:
    text = (
        Ring(leader="elect").text().replace("arith.cmpi ult, %t, %c32", "arith.cmpi ult, %t, %c64")
    )
    (found,) = check_module(parse(text)).report.of("checks")
    assert found.unsafe > 0


SWIZZLED = """llvm.func @f(%t: i32, %address: i32) {
  %c3 = llvm.mlir.constant(3 : i32) : i32
  %c48 = llvm.mlir.constant(48 : i32) : i32
  %down = llvm.lshr %address, %c3 : i32
  %bits = llvm.and %down, %c48 : i32
  %swizzled = llvm.xor %bits, %address : i32
  llvm.return
}"""


@pytest.mark.parametrize("alignment", [1024, 512, 256, 1])
def test_a_swizzled_address_is_known_where_its_buffer_is_aligned_to_the_bits(
    alignment: int,
) -> None:
    """a ^ (a >> 3 & 48): bits 7 and 8 of an address change bits 4 and 5."""
    module = parse(SWIZZLED)
    ops = {op.name: op for op in walk(module.operation)}
    down, bits, swizzled = (typed(ops[f"llvm.{name}"]) for name in ("lshr", "and", "xor"))
    known, base = Knowledge(), Atom("address", 7)
    known.aligned[base] = alignment
    of_threads = 72 * np.arange(32)
    each = forms.of_atom(Atom("each", of_threads.astype(np.int64).tobytes()))
    address = forms.add(forms.of_atom(base), each)
    moved = AMOUNTS.evaluate(down, [address, 3], known)
    changed = AMOUNTS.evaluate(
        swizzled, [AMOUNTS.evaluate(bits, [moved, 48], known), address], known
    )
    assert isinstance(changed, Form)
    if alignment < 512:
        assert (base, 1) not in changed.terms
        return
    total = sum(
        factor * np.frombuffer(atom.key, np.int64)
        for atom, factor in changed.terms
        if atom.kind == "each"
    )
    assert (base, 1) in changed.terms
    assert np.array_equal(total + changed.constant, of_threads ^ (of_threads >> 3 & 48))
