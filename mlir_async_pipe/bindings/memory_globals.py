"""Globals of memory: declared in a symbol table, and their addresses taken.

memref.global "private" @tile : memref<64xf32> {alignment = 16}
%b = memref.get_global @tile : memref<64xf32>
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, create, operations, symbol_name


def fresh_name(table: Operation, name: str) -> str:
    """`name`, or with a number after it where the symbol table has one called so."""
    taken = {symbol_name(op) for op in operations(table.regions[0].blocks[0])}
    candidate, number = name, 0
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def declare_global(
    table: Operation, name: str, kind: Any, initial: Any, alignment: int, loc: Any
) -> Operation:
    """A private global at the begin of a symbol table."""
    i64 = ir.IntegerType.get_signless(64, table.context)
    attributes = {
        "sym_name": ir.StringAttr.get(name, table.context),
        "sym_visibility": ir.StringAttr.get("private", table.context),
        "type": ir.TypeAttr.get(kind, table.context),
        "initial_value": initial,
        "alignment": ir.IntegerAttr.get(i64, alignment),
    }
    ip = ir.InsertionPoint.at_block_begin(table.regions[0].blocks[0])
    return create("memref.global", attributes=attributes, ip=ip, loc=loc)


def address_of(name: str, kind: Any, ip: Any, loc: Any) -> Value:
    named = {"name": ir.FlatSymbolRefAttr.get(name, kind.context)}
    return create("memref.get_global", (), [kind], named, ip=ip, loc=loc).results[0]
