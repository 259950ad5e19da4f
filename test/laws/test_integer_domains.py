"""Every abstract evaluator of integers beside Python's own numbers, op by op and on random trees.

range       the number lies in it
linear      constant + sum of coefficient * symbol is the number
numbers     are the numbers
divisor     divides, as far as powers of two go
form        of the checker: is the number, lies in its bounds, has its residues

Covers: facts/values/linear.py, facts/values/linear.py, facts/values/numbers.py, facts/values/integer_ops.py, facts/values/alignment.py, facts/values/alignment.py, facts/values/domains.py, vocabulary/operator_table.py, checker/arithmetic.py, checker/forms.py, checker/thread_grid.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from helpers.integer_meaning import BINARY, CASTS, PREDICATES, cast, compare, compute, width
from helpers.integer_programs import Writer
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.checker import arithmetic, forms
from mlir_async_pipe.checker.arithmetic import of_constant, values_of
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.thread_grid import number_of
from mlir_async_pipe.facts.values.alignment import divisor
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.numbers import evaluate

FUNCTION = """
gpu.module @m {{
  gpu.func @k() kernel attributes {{known_block_size = array<i32: 16, 4, 1>}} {{
    %tid = gpu.thread_id x
    %n = gpu.thread_id y
    {lines}
    gpu.return
  }}
}}
"""
SIZE = (16, 4, 1)
POINTS = [(x, y) for x in range(16) for y in range(4)]
X, Y = Atom("tid", "x"), Atom("tid", "y")

Column = list[int]


def examine(lines: Iterable[str], *, largest: int = 1 << 64) -> set[str]:
    """Compare all evaluators on all values of a function; the names of the ops met. It ends at an
    op that is not defined for some point, or makes a 64-bit number beyond `largest`."""
    with new_context():
        module = ir.Module.parse(FUNCTION.format(lines="\n    ".join(lines)))
        kernel = module.body.operations[0].regions[0].blocks[0].operations[0]
        tid, n, *ops, _ = list(kernel.regions[0].blocks[0].operations)
        columns: dict[Any, Column] = {
            tid.result: [x for x, _ in POINTS],
            n.result: [y for _, y in POINTS],
        }
        forms_of = {tid.result: forms.of_atom(X), n.result: forms.of_atom(Y)}
        numbers = Arithmetic(SIZE)
        seen = _Checker(forms_of)
        names = set()
        for op in ops:
            column = _column(op.operation, columns)
            if column is None:
                return names
            kind = str(op.results[0].type)
            if width(kind) == 64 and max(map(abs, column)) > largest:
                return names
            names.add(op.operation.name)
            columns[op.results[0]] = column
            _compare_with_ranges(op.results[0], column, columns, numbers)
            seen.compare(op.operation, column)
        return names


def _column(op: Any, columns: dict[Any, Column]) -> Column | None:
    name = op.name.split(".")[1]
    kind = str(op.results[0].type)
    if name == "constant":
        value = constant_value(op.results[0])
        assert value is not None
        return [value & 1 if kind == "i1" else value] * len(POINTS)
    rows = list(zip(*(columns[operand] for operand in op.operands), strict=True))
    given = str(op.operands[0].type)
    made: list[int | None]
    if name == "cmpi":
        predicate = PREDICATES[int(ir.IntegerAttr(op.attributes["predicate"]).value)]
        made = [compare(predicate, given, *row) for row in rows]
    elif name == "select":
        made = [b if a else c for a, b, c in rows]
    elif name in CASTS:
        made = [cast(name, given, kind, *row) for row in rows]
    else:
        made = [compute(name, kind, *row) for row in rows]
    return None if None in made else [number for number in made if number is not None]


def _compare_with_ranges(
    value: Any, column: Column, columns: dict[Any, Column], numbers: Arithmetic
) -> None:
    if str(value.type) == "i1":
        return
    low, high = numbers.value_range(value)
    assert low is None or low <= min(column), (str(value), low, min(column))
    assert high is None or high >= max(column), (str(value), high, max(column))
    form = numbers.linear(value)
    for place, number in enumerate(column):
        total = form.constant + sum(c * columns[s][place] for s, c in form.terms)
        assert total == number, str(value)
    factor = divisor(value, numbers)
    two = factor & -factor
    assert all(number % two == 0 if two else number == 0 for number in column), str(value)
    ids = {
        known: np.array(columns[known], dtype=np.int64)
        for known in columns
        if known.owner.name == "gpu.thread_id"
    }
    found = evaluate(value, ids, lambda leaf: None)
    if found is not None:
        assert np.broadcast_to(found, len(column)).tolist() == column, str(value)


class _Checker:
    """The forms of the checker; what has none is a symbol of its own."""

    def __init__(self, known: dict[Any, Form]) -> None:
        self.known = known
        self.facts = {X: AtomRange(0, 15), Y: AtomRange(0, 3)}
        grid = np.array(POINTS, dtype=np.int64)
        self.values = {X: grid[:, 0], Y: grid[:, 1]}

    def compare(self, op: Any, column: Column) -> None:
        """The form of the result of one op is its numbers at all points."""
        value = op.results[0]
        form = self._form(op)
        if form is None:
            atom = Atom("symbol", len(self.known))
            form = forms.of_atom(atom)
            self.values[atom] = np.array(column, dtype=np.int64)
            known = values_of(value.type)
            if known is not None:
                self.facts[atom] = known
        self.known[value] = form
        made = np.broadcast_to(number_of(form, self.values), len(column)).tolist()
        assert made == column, str(value)
        low, high = forms.bounds(form, self.facts)
        assert low is None or low <= min(column), (str(value), low, min(column))
        assert high is None or high >= max(column), (str(value), high, max(column))
        for modulus in (2, 3, 8):
            rest = forms.residue(form, modulus, self.facts)
            assert rest is None or all(number % modulus == rest for number in column)

    def _form(self, op: Any) -> Form | None:
        constant = constant_value(op.results[0])
        if constant is not None:
            return of_constant(constant, op.results[0].type)
        rule = arithmetic.rule_of(op)
        if rule is None:
            return None
        try:
            return rule([self.known[operand] for operand in op.operands], self.facts)
        except OpenError:
            return None


CORNERS = {
    "i8": (-128, -127, -7, -1, 0, 1, 3, 8, 127),
    "i16": (-(1 << 15), -3, 2, (1 << 15) - 1),
    "i32": (-(1 << 31), -1, 5, (1 << 31) - 1),
    "i64": (-(1 << 63), -1, 6, (1 << 63) - 1),
    "index": (-(1 << 63), -2, 4, (1 << 63) - 1),
    "i1": (0, -1),
}


# Divisions and shifts of one bit are defined for few operands.
BINARY_OF_TYPES = [
    (name, kind)
    for name in BINARY
    for kind in CORNERS
    if kind != "i1" or not any(part in name for part in ("div", "rem", "sh"))
]


@pytest.mark.parametrize(("name", "kind"), BINARY_OF_TYPES)
def test_binary_ops_at_the_ends_of_their_types(name: str, kind: str) -> None:
    """17 tid + a, tid - 8 and constants at both ends, with each constant on the right."""
    for constant in CORNERS[kind]:
        word = {0: "false", -1: "true"}[constant] if kind == "i1" else str(constant)
        typed = "" if kind == "i1" else f" : {kind}"
        lines = [
            f"%c = arith.constant {word}{typed}",
            f"%a = arith.constant {'true' if kind == 'i1' else '17'}{typed}",
            "%t = arith.addi %tid, %n : index"
            if kind == "index"
            else f"%t = arith.index_cast %tid : index to {kind}",
            f"%u = arith.muli %t, %a : {kind}",
            f"%s = arith.addi %u, %c : {kind}",
            f"%r = arith.{name} %t, %c : {kind}",
            f"%q = arith.{name} %u, %c : {kind}",
            f"%p = arith.{name} %s, %a : {kind}",
            f"%o = arith.{name} %s, %t : {kind}",
        ]
        for last in range(6, len(lines) + 1):
            examine([*lines[:5], *lines[last - 1 : last]])


@pytest.mark.parametrize("kind", CORNERS)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons_at_the_ends_of_their_types(predicate: str, kind: str) -> None:
    for constant in CORNERS[kind]:
        word = {0: "false", -1: "true"}[constant] if kind == "i1" else str(constant)
        typed = "" if kind == "i1" else f" : {kind}"
        lines = [
            f"%c = arith.constant {word}{typed}",
            "%t = arith.addi %tid, %n : index"
            if kind == "index"
            else f"%t = arith.index_cast %tid : index to {kind}",
            f"%s = arith.subi %t, %c : {kind}",
            f"%r = arith.cmpi {predicate}, %t, %c : {kind}",
            f"%q = arith.cmpi {predicate}, %c, %t : {kind}",
            f"%p = arith.cmpi {predicate}, %s, %c : {kind}",
            f"%o = arith.cmpi {predicate}, %s, %t : {kind}",
        ]
        assert "arith.cmpi" in examine(lines)


TREES = 100 if not os.environ.get("ASYNC_PIPE_NIGHTLY") else 20_000


def test_random_trees() -> None:
    """64-bit numbers that nothing bounds are taken to be far from the ends of their type."""
    met: set[str] = set()
    for seed in range(TREES):
        rng = random.Random(seed)
        writer = Writer(rng, ["%tid", "%tid", "%n"])
        for _ in range(2):
            writer.tree(rng.choice(("i8", "i16", "i32", "i64", "index")), rng.randint(1, 3))
        writer.condition(1)
        met |= examine(writer.lines, largest=1 << 48)
    assert len(met) > 25
