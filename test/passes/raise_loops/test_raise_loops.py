"""Loops between blocks become `scf.for` that do the same, or stay.

Covers: pipeliner/normalise/raise_loops.py
"""

from __future__ import annotations

import os
import random
from collections import Counter

import numpy as np
import pytest

from helpers import branch_programs
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import Operation, enclosing, functions, walk
from mlir_async_pipe.pipeliner.normalise.raise_loops import BranchGraph
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Report, Session

SAMPLES = int(os.environ.get("ASYNC_PIPE_SAMPLES", "40"))
ARGUMENTS = ((0, 1), (5, 2), (12, -1), (-2, 3))


def raised(text: str) -> tuple[ir.Module, Report]:
    with new_context():
        module = ir.Module.parse(text)
        session = Session()
        found = passes.find("async-pipe-raise-loops")
        found.run(module, found.options(), session)
        assert module.operation.verify()
        return module, session.report()


def results(module: ir.Module, n: int, s: int) -> tuple[int, int]:
    with module.context:
        run = machine.run(module, "f", [np.zeros(2, np.int64), n, s])
    assert run.arrays[0] is not None
    total, last = (int(value) & branch_programs.MASK for value in run.arrays[0])
    return total, last


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_nested_loops_and_ifs_are_all_raised_and_do_what_python_does(seed: int) -> None:
    program = branch_programs.draw(random.Random(seed), 3)
    module, report = raised(branch_programs.text(program))
    assert not report.diagnostics
    assert all(not BranchGraph(function.regions[0]).loops for function in functions(module))
    for n, s in ARGUMENTS:
        assert results(module, n, s) == branch_programs.run(program, n, s)


@pytest.mark.parametrize("seed", range(SAMPLES))
@pytest.mark.parametrize("jumps", [("continue",), ("continue", "break")], ids="-".join)
def test_loops_with_jumps_are_raised_or_stay_and_do_what_python_does(
    seed: int, jumps: tuple[str, ...]
) -> None:
    program = branch_programs.draw(random.Random(1000 + seed), 3, jumps)
    module, report = raised(branch_programs.text(program))
    codes = {entry.code for entry in report.diagnostics}
    assert codes <= {"loop-early-exit", "loop-not-structured"}
    for n, s in ARGUMENTS:
        assert results(module, n, s) == branch_programs.run(program, n, s)


def test_the_programs_hold_what_they_are_for() -> None:
    """Most programs have a raised loop; a `continue` mostly is an `if`, a `break` never is."""
    raised_ones, refused = Counter[str](), Counter[str]()
    for seed in range(40):
        for jumps in ((), ("continue",), ("break",)):
            program = branch_programs.draw(random.Random(seed), 3, jumps)
            _, report = raised(branch_programs.text(program))
            raised_ones["".join(jumps)] += bool(report.of("raised"))
            refused["".join(jumps)] += bool(report.diagnostics)
    assert min(raised_ones.values()) > 15
    assert refused[""] == 0
    assert 0 < refused["continue"] < refused["break"]


COUNT_UP = """
func.func @f(%a: memref<64xi64>, %n: i64) -> i64 {
  %c0 = arith.constant 0 : i64
  %c4 = arith.constant 4 : i64
  cf.br ^h(%c0, %c0 : i64, i64)
^h(%i: i64, %sum: i64):
  %more = arith.cmpi PREDICATE, OPERANDS : i64
  cf.cond_br %more, SUCCESSORS
^b:
  %at = arith.index_cast %i : i64 to index
  %v = memref.load %a[%at] : memref<64xi64>
  %sum1 = arith.addi %sum, %v : i64
  %i1 = arith.addi %i, %c4 : i64
  cf.br ^h(%i1, %sum1 : i64, i64)
^out:
  %r = arith.addi %sum, %i : i64
  return %r : i64
}
"""
FORMS = {
    "below": ("slt", "%i, %n", "^b, ^out"),
    "above": ("sgt", "%n, %i", "^b, ^out"),
    "not reached": ("sge", "%i, %n", "^out, ^b"),
    "not passed": ("sle", "%n, %i", "^out, ^b"),
}


def count_up(form: str) -> str:
    predicate, operands, successors = FORMS[form]
    text = COUNT_UP.replace("PREDICATE", predicate).replace("OPERANDS", operands)
    return text.replace("SUCCESSORS", successors)


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_that_counts_up_keeps_its_variable(form: str) -> None:
    module, report = raised(count_up(form))
    assert len(report.of("raised")) == 1
    assert "scf.for %arg2 = %c0_i64 to %arg1 step %c4_i64" in str(module)
    array = np.arange(64)
    for n in (-3, 0, 1, 4, 9, 64):
        with module.context:
            (found,) = machine.run(module, "f", [array, n]).results
        end = -(-max(n, 0) // 4) * 4
        assert found == sum(range(0, max(n, 0), 4)) + end


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        # i = n is never met exactly: no count is known.
        ("slt, %i, %n", "ne, %i, %n", "loop-not-counted"),
        ("slt, %i, %n", "sle, %i, %n", "loop-not-counted"),
        ("slt, %i, %n", "ult, %i, %n", "loop-not-counted"),
        # The end moves.
        ("slt, %i, %n", "slt, %i, %sum", "loop-not-counted"),
        # The step is what was read.
        ("%i1 = arith.addi %i, %c4", "%i1 = arith.addi %i, %v", "loop-not-counted"),
        ("%i1 = arith.addi %i, %c4", "%i1 = arith.muli %i, %c4", "loop-not-counted"),
        # The header reads memory, once more than the body runs.
        (
            "%more = arith.cmpi slt, %i, %n",
            "%z = memref.load %a[%q] : memref<64xi64>\n  %more = arith.cmpi slt, %i, %z",
            "loop-header-effects",
        ),
        (
            "  cf.br ^h(%i1, %sum1",
            "  cf.cond_br %p, ^out, ^l\n^l:\n  cf.br ^h(%i1, %sum1",
            "loop-early-exit",
        ),
    ],
)
def test_what_cannot_be_raised_stays_with_the_reason(old: str, new: str, code: str) -> None:
    text = count_up("below").replace(old, new).replace("%n: i64", "%n: i64, %p: i1, %q: index")
    with new_context():
        before = str(ir.Module.parse(text))
    module, report = raised(text)
    assert [entry.code for entry in report.diagnostics] == [code]
    assert report.diagnostics[0].place.line > 0
    assert str(module) == before


def test_a_loop_inside_one_that_stays_is_raised() -> None:
    inner = """
  cf.br ^h2(%c0, %sum : i64, i64)
^h2(%j: i64, %inner: i64):
  %more2 = arith.cmpi slt, %j, %n : i64
  cf.cond_br %more2, ^b2, ^l
^b2:
  %inner1 = arith.addi %inner, %j : i64
  %j1 = arith.addi %j, %c4 : i64
  cf.br ^h2(%j1, %inner1 : i64, i64)
^l:
  %i1 ="""
    text = count_up("below").replace("\n  %i1 =", inner).replace("slt, %i, %n", "ne, %i, %n")
    text = text.replace("^h(%i1, %sum1", "^h(%i1, %inner")
    module, report = raised(text)
    assert [entry.code for entry in report.diagnostics] == ["loop-not-counted"]
    assert len(report.of("raised")) == 1
    assert [op.name for op in walk(module)].count("scf.for") == 1


def test_functions_without_a_raised_loop_stay_to_the_letter() -> None:
    other = """
func.func @g(%p: i1) -> i64 {
  %c1 = arith.constant 1 : i64
  %two = arith.addi %c1, %c1 : i64
  cf.cond_br %p, ^a, ^b
^a:
  return %two : i64
^b:
  return %c1 : i64
}
"""
    with new_context():
        alone = ir.Module.parse(other)
        before = [str(op) for op in functions(alone)]
    module, _ = raised(count_up("below") + other)
    assert [str(op) for op in functions(module)][1:] == before


STEPS = """
func.func @f(%a: memref<?xf32>, %n: i64, %s: i64) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %three = arith.constant 3 : i64
  %four = arith.constant 4 : i64
  %f = arith.constant 0.0 : f32
  %dim = memref.dim %a, %c0 : memref<?xf32>
  %size = arith.index_cast %dim : index to i64
  %d = arith.subi %size, %s : i64
  %up = arith.addi %d, %three : i64
  %q = arith.divui %up, %four : i64
  %some = arith.cmpi sgt, %d, %zero : i64
  %count = arith.select %some, %q, %zero : i64
  cf.br ^h(%count, %s : i64, i64)
^h(%left: i64, %i: i64):
  %more = arith.cmpi sgt, %left, %zero : i64
  %less = arith.subi %left, %one : i64
  %next = arith.addi %i, %four : i64
  cf.cond_br %more, ^a, ^out
^a:
  %at = arith.index_cast %i : i64 to index
  memref.store %f, %a[%at] : memref<?xf32>
  cf.br ^h(%less, %next : i64, i64)
^out:
  return
}
"""
# Which sums are known not to wrap, by what is changed in the text.
BELOW = {
    "up to a size": ([], True),
    "from 0 to a number": ([("subi %size, %s", "addi %n, %zero"), ("%count, %s", "%count, %zero")], True),
    "up to a number, which may be negative": ([("subi %size", "subi %n")], False),
    "another start": ([("%count, %s", "%count, %n")], False),
    "rounded up too far": ([("addi %d, %three", "addi %d, %four")], False),
    "divided by another number": ([("divui %up, %four", "divui %up, %three")], False),
    "larger steps": ([("addi %i, %four", "addi %i, %c5"), ("%one =", "%c5 = arith.constant 5 : i64\n  %one =")], False),
    "whatever the distance": ([("%some, %q, %zero", "%some, %q, %one")], False),
    "of a distance that is negative": ([("cmpi sgt, %d", "cmpi slt, %d")], False),
}  # fmt: skip


@pytest.mark.parametrize("name", BELOW)
def test_a_sum_that_its_count_stops_before_an_end_says_that_it_does_not_wrap(name: str) -> None:
    changes, stated = BELOW[name]
    text = STEPS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    module, report = raised(text)
    assert len(report.of("raised")) == 1
    sums = [op for op in walk(module) if op.name in ("arith.muli", "arith.addi") and in_loop(op)]
    assert sums
    assert all(("overflow<nsw>" in str(op)) == stated for op in sums)


def in_loop(op: Operation) -> bool:
    return enclosing(op, ("scf.for",)) is not None
