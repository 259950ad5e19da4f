"""A change runs on a copy; the module takes over what came of it, or stays as it was.

Covers: bindings/run_on_copy.py, bindings/raw_ops.py
"""

from __future__ import annotations

import gc

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import (
    create,
    functions,
    operations,
    outermost,
    symbol_name,
    walk,
)
from mlir_async_pipe.bindings.run_on_copy import run_on_copy

TWO = """
module attributes {test.first} {
  memref.global "private" @table : memref<4xf32>
  func.func @one(%a: i32) -> i32 attributes {test.keep, test.drop} {
    cf.br ^bb1(%a : i32)
  ^bb1(%b: i32):
    return %b : i32
  }
  gpu.module @kernels {
    gpu.func @two(%a: memref<4xf32>) kernel {
      gpu.return
    }
  }
}
"""


@pytest.fixture
def module():
    with new_context() as context, ir.Location.unknown(context):
        yield ir.Module.parse(TWO)


def add_constant(root):
    """A constant before the last op of every function, an attribute less, a global more."""
    for function in functions(root):
        last = operations(list(function.regions[0].blocks)[-1])[-1]
        kind = ir.IntegerType.get_signless(32)
        ip = ir.InsertionPoint(last)
        create(
            "arith.constant",
            [],
            [kind],
            {"value": ir.IntegerAttr.get(kind, 7)},
            ip=ip,
            loc=last.location,
        )
    (one,) = (op for op in walk(root) if symbol_name(op) == "one")
    del one.attributes["test.drop"]
    root.attributes["test.second"] = ir.UnitAttr.get()
    table = operations(root.regions[0].blocks[0])[0].clone(ip=ir.InsertionPoint(one)).operation
    table.attributes["sym_name"] = ir.StringAttr.get("more")
    return "done"


def test_the_module_becomes_what_the_change_made_of_the_copy(module):
    changed = ir.Module.parse(TWO)
    add_constant(changed.operation)
    assert run_on_copy(module.operation, add_constant) == "done"
    assert str(module) == str(changed)
    assert module.operation.verify()


def test_functions_stay_the_same_operations(module):
    before = functions(module.operation)
    run_on_copy(module.operation, add_constant)
    assert [symbol_name(op) for op in before] == ["one", "two"]
    assert before == functions(module.operation)


def test_symbols_that_the_change_erased_go(module):
    def erase_global(root):
        operations(root.regions[0].blocks[0])[0].erase()

    run_on_copy(module.operation, erase_global)
    assert "@table" not in str(module)
    assert "@one" in str(module)


def test_a_change_that_raises_leaves_the_module_and_handles_into_it(module):
    text = str(module)
    inside = [op for op in walk(module.operation) if op.name == "cf.br"]

    def fail(root):
        add_constant(root)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_on_copy(module.operation, fail)
    assert str(module) == text
    assert inside[0].name == "cf.br"
    assert inside[0].verify()


def test_a_function_can_be_the_root(module):
    (one,) = (op for op in functions(module.operation) if symbol_name(op) == "one")

    def name_it(root):
        root.attributes["test.named"] = ir.UnitAttr.get()
        operations(root.regions[0].blocks[0])[0].attributes["last"] = ir.UnitAttr.get()

    run_on_copy(one, name_it)
    assert "test.named" in str(one)
    assert "{last}" in str(one)
    assert module.operation.verify()


LAUNCHED = """
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @copies(%from: memref<32xf32>, %to: memref<32xf32>) kernel {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %many = arith.constant 32 : index
      scf.for %i = %zero to %many step %one {
        %v = memref.load %from[%i] : memref<32xf32>
        memref.store %v, %to[%i] : memref<32xf32>
      }
      gpu.return
    }
  }
}
"""


@pytest.mark.parametrize("alone", (False, True))
def test_a_function_changes_as_its_module_does(alone):
    """Also one that no module holds: the op of a copy asks for what is around it, and lives on."""
    with new_context() as context, ir.Location.unknown(context):
        module = ir.Module.parse(LAUNCHED)
        (function,) = (op for op in walk(module.operation) if op.name == "gpu.func")
        if alone:
            function = function.clone(ip=False).operation

        def count_and_mark(copy):
            loops = [op for op in walk(copy) if op.name == "scf.for"]
            for _ in range(2):
                around = [outermost(op).name for op in loops]
                gc.collect()
            loops[0].attributes["test.seen"] = ir.UnitAttr.get()
            return around

        assert run_on_copy(function, count_and_mark) == ["builtin.module"]
        assert str(function).count("test.seen") == 1
        assert str(module).count("test.seen") == (not alone)


def test_an_error_leaves_a_function_of_a_module(module):
    (two,) = (op for op in walk(module.operation) if symbol_name(op) == "two")
    before = str(module)

    def fails(copy):
        copy.attributes["test.half"] = ir.UnitAttr.get()
        raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        run_on_copy(two, fails)
    assert str(module) == before
