"""Globals are declared under a fresh name, and found in the symbol table of who names them.

Covers: bindings/structured_ops.py, vocabulary/memory_names.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import (
    before,
    defining_op,
    integer_attribute,
    operations,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import address_of, declare_global, fresh_name
from mlir_async_pipe.vocabulary.memory_names import declaration_of

# Two kernels of one name beside each other, each with its own @tile.
TEXT = """
module {
  gpu.module @a {
    memref.global "private" @tile : memref<4xf32> {alignment = 16 : i64}
    gpu.func @k() {
      %0 = memref.get_global @tile : memref<4xf32>
      gpu.return
    }
  }
  gpu.module @b {
    memref.global "private" @tile : memref<4xf32> {alignment = 64 : i64}
    gpu.func @k() {
      %0 = memref.get_global @tile : memref<4xf32>
      gpu.return
    }
  }
}
"""


@pytest.fixture
def module():
    with new_context():
        yield ir.Module.parse(TEXT)


def test_an_address_is_that_of_the_global_of_its_own_table(module) -> None:
    found = [declaration_of(op) for op in walk(module) if op.name == "memref.get_global"]
    assert [integer_attribute(op, "alignment") for op in found] == [16, 64]


def test_what_nobody_declares_has_no_declaration(module) -> None:
    address = next(op for op in walk(module) if op.name == "memref.get_global")
    address.attributes["name"] = ir.FlatSymbolRefAttr.get("nobody", module.context)
    assert declaration_of(address) is None
    assert declaration_of(module.operation) is None


def test_a_name_that_is_taken_gets_a_number(module) -> None:
    first, second = (op for op in walk(module) if op.name == "gpu.module")
    assert fresh_name(first, "new") == "new"
    assert fresh_name(first, "tile") == "tile_0"
    declare_global(
        first, "tile_0", ir.Type.parse("memref<4xf32>"), ir.UnitAttr.get(), 16, first.location
    )
    assert fresh_name(first, "tile") == "tile_1"
    assert fresh_name(second, "tile") == "tile_0"


def test_a_declared_global_can_be_named_and_verifies(module) -> None:
    table = next(op for op in walk(module) if op.name == "gpu.module")
    kind = ir.Type.parse("memref<2xf16, #gpu.address_space<workgroup>>")
    declared = declare_global(table, "made", kind, ir.UnitAttr.get(), 16, table.location)
    kernel = next(op for op in walk(table) if op.name == "gpu.func")
    first = operations(kernel.regions[0].blocks[0])[0]
    value = address_of("made", kind, before(first), kernel.location)
    assert module.operation.verify()
    assert declaration_of(defining_op(value)) == declared
