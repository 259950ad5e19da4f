"""The symbol that a call names.

func.call @f(%x)                   "f"
func.call_indirect %f(%x)          None
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.type_classes import as_kind
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS


def callee_name(call: Any) -> str | None:
    """The symbol that a call names; None for an indirect call, and for what is no call."""
    attribute = CALL_OPS.get(call.name, "")
    if not attribute or attribute not in call.attributes:
        return None
    symbol = as_kind(ir.FlatSymbolRefAttr, call.attributes[attribute])
    return None if symbol is None else str(symbol.value)
