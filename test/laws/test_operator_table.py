"""Every row of the table of integer ops in every domain, beside what the machine computes.

Sound: for all operands that abstract ones stand for, the machine's result is among the numbers
that the domain's answer stands for; forms and numbers are the result. i8 is tried in full, index
at small numbers and both ends. Complete: a domain that has a method answers.

Covers: vocabulary/operator_table.py, facts/values/domains.py, facts/values/linear.py, facts/values/linear.py, facts/values/sums.py, facts/values/numbers.py, facts/values/alignment.py, checker/arithmetic.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.integer_meaning import PREDICATES
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import FORMS
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.thread_grid import number_of
from mlir_async_pipe.facts.values.alignment import DIVISORS, Multiple
from mlir_async_pipe.facts.values.domains import Domain, Typed, typed
from mlir_async_pipe.facts.values.linear import LINEAR_FORMS, RANGES, Arithmetic
from mlir_async_pipe.facts.values.numbers import NUMBERS
from mlir_async_pipe.facts.values.sums import add, of_symbol, scale
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

BITS = {"i1": 1, "i8": 8, "i16": 16, "index": 64}
POINTS = 65536
# Numbers of index: small ones of both signs, and both ends.
ENDS = (-(1 << 63), -(1 << 63) + 1, (1 << 63) - 2, (1 << 63) - 1)

FUNCTION = """
func.func @f(%A: memref<{points}x{a}>, %B: memref<{points}x{b}>, %O: memref<{points}x{o}>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c1024 = arith.constant 1024 : index
  %t = gpu.thread_id x
  scf.for %i = %c0 to %c64 step %c1 {{
    %start = arith.muli %i, %c1024 : index
    %p = arith.addi %start, %t : index
    %la = memref.load %A[%p] : memref<{points}x{a}>
    %lb = memref.load %B[%p] : memref<{points}x{b}>
    {before}
    {op}
    {after}
    memref.store %o, %O[%p] : memref<{points}x{o}>
  }}
  return
}}
"""


@dataclass(frozen=True)
class Case:
    """An op with the types of its first operand and its result; `text` is what it is written as,
    with %a, %b and %c (an i1: %a's lowest bit) for operands; `result` the number of its result."""

    name: str
    given: str
    made: str
    text: str
    operands: int = 2
    result: int = 0
    note: str = ""

    @property
    def id(self) -> str:
        """What the test is called."""
        return f"{self.name}{self.note}-{self.given}-{self.made}"


def _generic(name: str, given: str, made: str, operands: str, attributes: str = "") -> str:
    values = operands.split()
    kinds = ", ".join("i1" if value == "%c" else given for value in values)
    return f'%r = "{name}"({", ".join(values)}) {{tested{attributes}}} : ({kinds}) -> {made}'


MAPS = {
    "affine.apply": (
        "(d0, d1) -> (d0 * 3 + d1 - 5)",
        "(d0, d1) -> ((d0 + d1) floordiv 4)",
        "(d0, d1) -> (d0 ceildiv 3 - d1 mod 7)",
        "(d0, d1) -> ((d0 * 8 + 16) floordiv 8 + d1 mod 4)",
    ),
    "affine.min": ("(d0, d1) -> (d0, d1 + 3, 9)",),
    "affine.max": ("(d0, d1) -> (d0 * 2, d1 - 3)",),
}
CASTS = {
    "arith.index_cast": (("i8", "index"), ("index", "i8"), ("i1", "index")),
    "arith.index_castui": (("i8", "index"), ("index", "i8"), ("i1", "index")),
    "arith.extsi": (("i8", "i16"), ("i1", "i8")),
    "arith.extui": (("i8", "i16"), ("i1", "i8")),
    "arith.trunci": (("i16", "i8"), ("i8", "i1")),
    "index.casts": (("i8", "index"), ("index", "i8")),
    "index.castu": (("i8", "index"), ("index", "i8")),
    "llvm.sext": (("i8", "i16"), ("i1", "i8")),
    "llvm.zext": (("i8", "i16"), ("i1", "i8")),
    "llvm.trunc": (("i16", "i8"), ("i8", "i1")),
}


def cases_of(name: str) -> Iterator[Case]:
    """The forms in which the op of a row is tried."""
    row = OPERATORS[name]
    kinds = ("index",) if name.startswith("index.") else ("i8", "i1")
    if name in MAPS:
        for number, text in enumerate(MAPS[name]):
            op = f'%r = "{name}"(%a, %b) {{tested, map = affine_map<{text}>}} : (index, index) -> index'
            yield Case(name, "index", "index", op, note=f"#{number}")
    elif row.method == "split":
        op = f'%r:3 = "{name}"(%a) {{tested, static_basis = array<i64: 5, 4>}} : (index) -> (index, index, index)'
        for number in range(3):
            yield Case(name, "index", "index", op, 1, number, f"#{number}")
    elif row.method == "join":
        op = "%r = affine.linearize_index [%a, %b] by (5, 4) {tested} : index"
        yield Case(name, "index", "index", op)
    elif row.method == "cast":
        for given, made in CASTS[name]:
            yield Case(name, given, made, _generic(name, given, made, "%a"), 1)
    elif row.method == "cmp":
        for number, predicate in enumerate(PREDICATES):
            of_index = f", pred = #index<cmp_predicate {predicate}>"
            attribute = of_index if kinds == ("index",) else f", predicate = {number} : i64"
            for kind in kinds:
                op = _generic(name, kind, "i1", "%a %b", attribute)
                yield Case(name, kind, "i1", op, note=f" {predicate}")
    elif row.method == "select":
        for kind in ("i8", "i1"):
            yield Case(name, kind, kind, _generic(name, kind, kind, "%c %a %b"), 3)
    else:
        for kind in kinds:
            if kind == "i1" and row.method in ("div", "rem", "shl", "shr"):
                continue
            yield Case(name, kind, kind, _generic(name, kind, kind, "%a %b"))


CASES = [case for name in OPERATORS for case in cases_of(name)]


# -- what the machine computes ------------------------------------------------------------------


@cache
def columns(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Two operands of a type at all points: all pairs of i8, others at random, ends among them."""
    rng = np.random.default_rng(7)
    if kind == "i8":
        numbers = np.arange(POINTS)
        return numbers // 256 - 128, numbers % 256 - 128
    if kind == "i1":
        numbers = np.arange(POINTS)
        return numbers // 2 % 2, numbers % 2
    if kind == "i16":
        return np.arange(POINTS) - 32768, rng.integers(-32768, 32768, POINTS)
    a, b = (rng.integers(-40, 41, POINTS) for _ in range(2))
    for column in (a, b):
        places = rng.integers(0, POINTS, 4000)
        column[places] = rng.choice(np.array(ENDS), 4000)
    return a, b


def _widened(kind: str) -> str:
    return "i8" if kind == "i1" else kind


def written(case: Case) -> str:
    """The function that computes a case at all points; i1 stands in memory as i8."""
    before = "%lowest = arith.trunci %la : i8 to i1\n" if case.operands == 3 else ""
    for operand in "ab":
        if case.given == "i1":
            before += f"%{operand} = arith.trunci %l{operand} : i8 to i1\n"
    op = case.text.replace("%c,", "%lowest,")
    if case.given != "i1":
        op = op.replace("%a", "%la").replace("%b", "%lb")
    made = "%r" if ":3 = " not in case.text else f"%r#{case.result}"
    after = f"%o = arith.extui {made} : i1 to i8" if case.made == "i1" else ""
    if case.made != "i1":
        after = (
            f"%zero = arith.constant 0 : {case.made}\n%o = arith.ori {made}, %zero : {case.made}"
        )
    kinds = {"a": _widened(case.given), "b": _widened(case.given), "o": _widened(case.made)}
    return FUNCTION.format(points=POINTS, before=before, op=op, after=after, **kinds)


@dataclass(frozen=True)
class Tried:
    """An op as it is read, its operands, its result and where that is defined, at all points."""

    module: ir.Module
    value: Any
    op: Typed
    operands: list[np.ndarray]
    made: np.ndarray
    defined: np.ndarray


def tried(case: Case) -> Tried:
    """Run a case on the machine."""
    module = ir.Module.parse(written(case), bindings.new_context())
    op = next(op for op in walk(module) if "tested" in op.attributes)
    kind = {"i1": np.int8, "i8": np.int8, "i16": np.int16, "index": np.int64}
    a, b = columns(case.given)
    arrays = [a.astype(kind[case.given]), b.astype(kind[case.given])]
    out = np.zeros(POINTS, kind[case.made])
    ran = machine.run(module, "f", [*arrays, out], threads=1024)
    operands = {1: [a], 2: [a, b], 3: [a & 1, a, b]}[case.operands]
    one = typed(op)
    made = ran.arrays[-1].astype(np.int64)
    return Tried(module, op.results[case.result], one, operands, made, _defined(one, operands))


def _defined(op: Typed, operands: list[np.ndarray]) -> np.ndarray:
    """Where an op has a result: numbers of index stay away from the ends of sums."""
    a, b = operands[0], operands[-1]
    if op.row.method in ("div", "rem"):
        least = -(1 << (op.bits - 1))
        return (b != 0) & ~((a == least) & (b == -1))
    if op.row.method in ("shl", "shr"):
        return (b >= 0) & (b < op.bits)
    if op.row.method in ("apply", "apply_least", "apply_largest", "join"):
        return np.all([(operand > -100) & (operand < 100) for operand in operands], axis=0)
    return np.ones(POINTS, bool)


# -- abstract operands --------------------------------------------------------------------------


def intervals(t: Tried, rng: random.Random) -> list[tuple[int, int]]:
    """An interval for each operand, short or long, around a point of it, often a small one."""
    found = []
    for operand in t.operands:
        low = high = int(operand[rng.randrange(POINTS)])
        if rng.random() < 0.5:
            low = high = int(np.clip(rng.randint(-4, 9), operand.min(), operand.max()))
        far = rng.choice((0, 1, 6, 40, 300))
        least, most = int(operand.min()), int(operand.max())
        found.append((max(least, low - rng.randint(0, far)), min(most, high + rng.randint(0, far))))
    return found


def within(t: Tried, found: list[tuple[int, int]]) -> np.ndarray:
    """The points whose operands lie in their intervals, and whose result is defined."""
    inside = [(low <= o) & (o <= high) for o, (low, high) in zip(t.operands, found, strict=True)]
    return np.all([*inside, t.defined], axis=0)


# At least so many tries, and more until each domain that has a method has answered.
ROUNDS, MOST = (20, 400) if not os.environ.get("ASYNC_PIPE_NIGHTLY") else (300, 400)


def answers(domain: Domain[Any, Any], op: Typed) -> bool:
    """Whether a domain has a method for an op, not counting those that are made of others."""
    own = getattr(type(domain), op.row.method, None)
    return own is not getattr(Domain, op.row.method, None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_domains_hold_what_the_machine_computes(case: Case) -> None:
    t = tried(case)
    rng = random.Random(case.id)
    _numbers_are_exact(t)
    missing = {"range", "linear", "form"}
    if not answers(LINEAR_FORMS, t.op):
        missing.discard("linear")
    if not answers(FORMS, t.op):
        missing.discard("form")
    for number in range(MOST):
        if number >= ROUNDS and not missing:
            break
        for name, hold in TRIES.items():
            if hold(t, rng):
                missing.discard(name)
    assert not missing


def _numbers_are_exact(t: Tried) -> None:
    operands = [operand[t.defined] for operand in t.operands]
    found = NUMBERS.result(t.value, t.op, operands, None)
    assert found is not None
    assert np.array_equal(np.broadcast_to(found, t.made[t.defined].shape), t.made[t.defined])


def _ranges_and_divisors_hold(t: Tried, rng: random.Random) -> bool:
    """Whether points were left, which prove something."""
    found = intervals(t, rng)
    places = within(t, found)
    if not places.any():
        return False
    _is_in(RANGES.result(t.value, t.op, list(found), None), t.made[places])
    factors = [rng.choice((0, 1, 2, 3, 4, 6, 8, 12, 64)) for _ in found]
    for operand, factor in zip(t.operands, factors, strict=True):
        places &= operand % factor == 0 if factor else operand == 0
    if not places.any():
        return True
    if not all(a <= 0 <= b for f, (a, b) in zip(factors, found, strict=True) if f == 0):
        return True
    operands = [Multiple(f, interval) for f, interval in zip(factors, found, strict=True)]
    multiple = DIVISORS.result(t.value, t.op, operands, None)
    if multiple is not None:
        _is_in(multiple.interval, t.made[places])
        # In Python's numbers: 2^64 divides what is always 0 and may wrap.
        made = np.unique(t.made[places]).tolist()
        factor = multiple.divisor
        assert not any(number % factor if factor else number for number in made), operands
    return True


def _is_in(interval: Any, made: np.ndarray) -> None:
    low, high = interval or (None, None)
    assert low is None or low <= made.min(), interval
    assert high is None or high >= made.max(), interval


class Symbols(Arithmetic):
    """Ranges of symbols that are no values of the IR."""

    def __init__(self, ranges: dict[Any, tuple[int, int]]) -> None:
        super().__init__()
        self.ranges = ranges

    def value_range(self, value: Any) -> tuple[int | None, int | None]:
        """The interval of a symbol."""
        return self.ranges[value]


@dataclass(frozen=True)
class Sum:
    """constant + factor * symbol, the symbol in an interval."""

    constant: int
    factor: int
    low: int
    high: int


def sums(t: Tried, rng: random.Random) -> tuple[list[Sum], np.ndarray] | None:
    """A sum for each operand and the points whose operands it can be."""
    found = []
    places = t.defined.copy()
    for operand, (low, high) in zip(t.operands, intervals(t, rng), strict=True):
        factor = rng.choice((0, 1, 1, 2, 3, 8, -1))
        if found and rng.random() < 0.5:
            # A divisor, a shift or a mask.
            factor, low = 0, min(rng.choice((1, 1, 2, 4)), int(operand.max()))
            high = low
        constant = rng.choice((0, 0, 1, 16, -3)) if factor else low
        ends = (
            sorted((-(-(low - constant) // factor), (high - constant) // factor))
            if factor
            else [0, 0]
        )
        if factor < 0:
            ends = sorted((-(-(constant - high) // -factor), (constant - low) // -factor))
        if abs(low) > 1 << 50 or abs(high) > 1 << 50:
            return None
        # 64-bit numbers from an end leave the range of what a sum can be.
        places &= (operand >= low) & (operand <= high)
        numbers = np.where((operand >= low) & (operand <= high), operand, 0) - constant
        places &= (numbers % factor == 0) if factor else (numbers == 0)
        symbol = numbers // factor if factor else numbers
        places &= (symbol >= ends[0]) & (symbol <= ends[1])
        found.append(Sum(constant, factor, *ends))
    least = [min(s.constant + s.factor * e for e in (s.low, s.high)) for s in found]
    most = [max(s.constant + s.factor * e for e in (s.low, s.high)) for s in found]
    fit = all(
        o.min() <= a and b <= o.max() for o, a, b in zip(t.operands, least, most, strict=True)
    )
    return (found, places) if fit and places.any() else None


def _symbols_at(t: Tried, found: list[Sum], places: np.ndarray) -> list[np.ndarray]:
    return [
        (operand[places] - s.constant) // s.factor if s.factor else operand[places] * 0
        for operand, s in zip(t.operands, found, strict=True)
    ]


def _linear_forms_are_exact(t: Tried, rng: random.Random) -> bool:
    """Whether there is one."""
    made = sums(t, rng)
    if made is None:
        return False
    found, places = made
    operands = [add(Form(s.constant), scale(of_symbol(n), s.factor)) for n, s in enumerate(found)]
    known = Symbols({n: (s.low, s.high) for n, s in enumerate(found)})
    form = LINEAR_FORMS.result(t.value, t.op, operands, known)
    if form is None:
        return False
    at = _symbols_at(t, found, places)
    total = form.constant + sum(c * at[n] for n, c in form.terms)
    assert np.array_equal(np.broadcast_to(total, t.made[places].shape), t.made[places]), operands
    return True


def _forms_are_exact(t: Tried, rng: random.Random) -> bool:
    """Whether there is one."""
    made = sums(t, rng)
    if made is None:
        return False
    found, places = made
    atoms = [Atom("symbol", n) for n in range(len(found))]
    operands = [
        forms.add(Form(s.constant), forms.scale(forms.of_atom(atom), s.factor))
        for atom, s in zip(atoms, found, strict=True)
    ]
    facts = {atom: AtomRange(s.low, s.high) for atom, s in zip(atoms, found, strict=True)}
    try:
        form = FORMS.result(t.value, t.op, operands, facts)
    except OpenError:
        return True
    if form is None:
        return False
    if not _has_numbers(form):
        _is_in(forms.bounds(form, facts), t.made[places])
        return True
    at = dict(zip(atoms, _symbols_at(t, found, places), strict=True))
    numbers = np.broadcast_to(number_of(form, at), t.made[places].shape)
    assert np.array_equal(numbers, t.made[places]), (operands, form)
    _is_in(forms.bounds(form, facts), t.made[places])
    for modulus in (2, 3, 8):
        rest = forms.residue(form, modulus, facts)
        assert rest is None or not ((t.made[places] - rest) % modulus).any()
    return True


TRIES: dict[str, Callable[[Tried, random.Random], bool]] = {
    "range": _ranges_and_divisors_hold,
    "linear": _linear_forms_are_exact,
    "form": _forms_are_exact,
}


def _has_numbers(form: Form) -> bool:
    """Whether nothing is divided by what is no constant."""
    calls = [forms.operator_of(atom)[0] for atom in forms.atoms_of(form) if atom.kind == "call"]
    return not {"quotient", "remainder"} & set(calls)


# -- flags --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["nsw", "nuw"])
@pytest.mark.parametrize("name", ["arith.addi", "arith.subi", "arith.muli", "llvm.shl"])
def test_flags_are_believed_where_they_hold(name: str, flag: str) -> None:
    """What does not fit, as a signed or an unsigned number, does not occur; the rest is exact."""
    t = tried(next(cases_of(name)))
    a, b = (operand if flag == "nsw" else operand % 256 for operand in t.operands)
    shift = np.clip(b, 0, 7)
    exact = {"add": a + b, "sub": a - b, "mul": a * b, "shl": a << shift}[t.op.row.method]
    least, most = (-128, 127) if flag == "nsw" else (0, 255)
    defined = t.defined & (exact >= least) & (exact <= most)
    believed = Tried(t.module, t.value, t.op._replace(**{flag: True}), t.operands, t.made, defined)
    rng = random.Random(name + flag)
    for _ in range(5 * ROUNDS):
        _ranges_and_divisors_hold(believed, rng)
        _linear_forms_are_exact(believed, rng)
        _forms_are_exact(believed, rng)


def test_an_op_without_a_row_is_opaque() -> None:
    assert "arith.addui_extended" not in OPERATORS
    text = "func.func @f(%a: i8) { %r:2 = arith.addui_extended %a, %a : i8, i1\n return }"
    module = ir.Module.parse(text, bindings.new_context())
    op = next(op for op in walk(module) if op.name == "arith.addui_extended")
    numbers = Arithmetic()
    assert numbers.linear(op.results[0]) == of_symbol(op.results[0])
    assert numbers.value_range(op.results[0]) == (-128, 127)
