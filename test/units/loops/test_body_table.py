"""The table of a loop body says who makes and who uses each value.

Covers: facts/loops/statements.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.statements import BodyTable, read_body

TEXT = """
func.func @f(%A : memref<16xf32>, %x : f32, %c : i1) -> (f32, f32, f32, index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 16 : index
  %r:4 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x, %o = %x, %p = %c0)
      -> (f32, f32, f32, index) {{
{body}
  }}
  return %r#0, %r#1, %r#2, %r#3 : f32, f32, f32, index
}}
"""
# Values: %i 0, %a 1, %b 2, %o 3, %p 4, %j 5, %v 6, %s 7.
BODY = """
    %j = arith.addi %i, %c1 : index
    %v = memref.load %A[%j] : memref<16xf32>
    %s = arith.addf %a, %v : f32
    scf.if %c {
      memref.store %s, %A[%j] : memref<16xf32>
    }
    scf.yield %s, %a, %x, %i : f32, f32, f32, index
"""


@pytest.fixture
def table() -> Iterator[BodyTable]:
    with new_context():
        module = ir.Module.parse(TEXT.format(body=BODY))
        loop = next(op for op in walk(module) if op.name == "scf.for")
        yield read_body(loop).table


def test_ops_use_values_of_the_body_and_what_their_regions_capture(table) -> None:
    assert [op.name for op in table.ops][3:] == ["scf.if", "scf.yield"]
    assert [set(values) for values in table.used] == [{0}, {5}, {1, 6}, {7, 5}, {7, 1, 0}]
    assert [list(values) for values in table.results] == [[5], [6], [7], [], []]


def test_makers_and_users_are_the_two_ends_of_a_use(table) -> None:
    assert table.maker == [-1, -1, -1, -1, -1, 0, 1, 2]
    for op, values in enumerate(table.used):
        for value in values:
            assert op in table.users[value]
            assert (table.maker[value] in table.makers(op)) == (value >= table.arguments)
    assert table.following(0) == [1, 3]


def test_a_carried_value_is_made_as_many_iterations_earlier_as_arguments_are_passed(table) -> None:
    assert table.chain(7) == (2, 0)
    assert table.chain(1) == (2, 1)
    assert table.chain(2) == (2, 2)
    assert [set(made) for made in table.sources] == [
        set(), {(0, 0)}, {(2, 1), (1, 0)}, {(2, 0), (0, 0)}, {(2, 0), (2, 1)},
    ]  # fmt: skip


@pytest.mark.parametrize("value", [0, 3, 4])
def test_what_no_op_of_the_body_makes_has_no_maker(table, value: int) -> None:
    """The induction variable, one from outside, and one that becomes the induction variable."""
    assert table.chain(value) is None


def test_arguments_that_only_swap_are_never_made() -> None:
    body = "    scf.yield %b, %a, %x, %p : f32, f32, f32, index"
    with new_context():
        module = ir.Module.parse(TEXT.format(body=body))
        loop = next(op for op in walk(module) if op.name == "scf.for")
        assert [read_body(loop).table.chain(value) for value in range(5)] == [None] * 5


def test_ops_follow_the_induction_variable_if_all_that_they_use_does(table) -> None:
    assert table.follows_induction(0, ())
    assert not table.follows_induction(1, ())
    assert table.follows_induction(1, {0})
    assert not table.follows_induction(2, {0, 1})
