"""Types and attributes are told apart without asking the bindings in vain.

Covers: bindings/raw_ops.py
"""

from __future__ import annotations

from threading import Event, Thread

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import (
    as_kind,
    constant_value,
    edited,
    operations,
    remembered,
    type_text,
    unchanged,
    walk,
)

TEXT = """
func.func @f(%A : memref<16xf32>) {
  %c = arith.constant 3 : index
  %t = arith.constant true
  %x = arith.constant 1.0 : f32
  memref.store %x, %A[%c] : memref<16xf32>
  return
}
"""


@pytest.fixture
def function():
    with new_context():
        module = ir.Module.parse(TEXT)
        yield operations(module.body)[0]


@pytest.mark.parametrize("again", range(2))
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("memref<16xf32>", ("MemRefType", "ShapedType")),
        ("vector<4xf32>", ("VectorType", "ShapedType")),
        ("i32", ("IntegerType",)),
        ("index", ("IndexType",)),
        ("!llvm.ptr", ()),
    ],
)
def test_a_type_is_what_the_bindings_say_each_time(text: str, kinds, again: int) -> None:
    asked = ("MemRefType", "VectorType", "ShapedType", "IntegerType", "IndexType", "ComplexType")
    with new_context():
        kind = ir.Type.parse(text)
        found = [name for name in asked if as_kind(getattr(ir, name), kind) is not None]
    assert found == [name for name in asked if name in kinds]


def test_attributes_of_one_class_may_be_of_several_kinds() -> None:
    with new_context():
        true, three = ir.Attribute.parse("true"), ir.Attribute.parse("3 : i64")
        assert as_kind(ir.IntegerAttr, true) is not None
        assert as_kind(ir.BoolAttr, true) is not None
        assert as_kind(ir.BoolAttr, ir.Attribute.parse("1.0 : f32")) is None
        assert int(as_kind(ir.IntegerAttr, three).value) == 3


def test_constants_are_integers_and_signed_truth_values_only(function) -> None:
    values = [op.results[0] for op in walk(function) if op.name == "arith.constant"]
    assert [constant_value(value) for value in values] == [3, -1, None]


def test_a_question_is_asked_once_while_nothing_is_edited(function) -> None:
    asked = []

    @remembered
    def name_of(op):
        asked.append(op.name)

    for _ in range(2):
        name_of(function)
    with unchanged():
        for _ in range(3):
            name_of(function)
    assert len(asked) == 3


def test_a_thread_that_edits_is_answered_anew_while_another_one_reads(function) -> None:
    asked = []
    reads, edited_enough = Event(), Event()

    @remembered
    def name_of(op):
        asked.append(op.name)

    def read() -> None:
        with unchanged():
            reads.set()
            edited_enough.wait()

    other = Thread(target=read)
    other.start()
    reads.wait()
    for _ in range(2):
        name_of(function)
    edited_enough.set()
    other.join()
    assert len(asked) == 2


def test_what_is_walked_is_read_anew_after_an_edit(function) -> None:
    with unchanged():
        before = [op.name for op in walk(function)]
        assert [op.name for op in walk(function)] == before
    body = function.regions[0].blocks[0]
    operations(body)[1].erase()
    with unchanged():
        assert len(list(walk(function))) == len(before) - 1
        names = ["arith.constant", "arith.constant", "memref.store", "func.return"]
        assert [op.name for op in operations(body)] == names


def test_what_an_edit_made_untrue_is_forgotten_at_once(function) -> None:
    body = function.regions[0].blocks[0]
    with unchanged():
        assert len(operations(body)) == 5
        operations(body)[1].erase()
        edited()
        assert len(operations(body)) == 4


def test_lists_of_a_block_are_the_callers_own(function) -> None:
    body = function.regions[0].blocks[0]
    with unchanged():
        operations(body).clear()
        assert len(operations(body)) == 5
        assert type_text(body.arguments[0].type) == "memref<16xf32>"
