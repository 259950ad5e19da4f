"""The symbol that a call names, and the function of that name.

func.call @f(%x)                   "f", the @f of the symbol table around the caller
func.call_indirect %f(%x)          None
llvm.call @__nv_expf(%x)           a function of the vendors' libraries of mathematics: pure
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    Operation,
    enclosing,
    has_body,
    is_function,
    operations,
    symbol_name,
)
from mlir_async_pipe.bindings.type_classes import as_kind, type_text
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS


def callee_name(call: Any) -> str | None:
    """The symbol that a call names; None for an indirect call, and for what is no call."""
    attribute = CALL_OPS.get(call.name, "")
    if not attribute or attribute not in call.attributes:
        return None
    symbol = as_kind(ir.FlatSymbolRefAttr, call.attributes[attribute])
    return None if symbol is None else str(symbol.value)


def followed_callee(call: Any) -> Operation | None:
    """The function with a body that a call names; None if it is called by a value, or stands in
    another module."""
    name, table = callee_name(call), enclosing(call, SYMBOL_TABLES)
    for op in operations(table.regions[0].blocks[0]) if name and table else ():
        if is_function(op) and symbol_name(op) == name:
            return op if has_body(op) else None
    return None


def calls_mathematics(call: Any) -> bool:
    """Whether an op calls a function of CUDA's or ROCm's mathematics that is given numbers alone."""
    return (callee_name(call) or "").startswith(_MATHEMATICS) and not any(
        type_text(operand.type).startswith(("!llvm.ptr", "memref<")) for operand in call.operands
    )


_MATHEMATICS = ("__nv_", "__ocml_")
