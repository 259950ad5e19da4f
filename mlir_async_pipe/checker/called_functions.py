"""Which function a call runs.

func.call @f        the @f of the symbol table around the caller: its module or gpu.module
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    enclosing,
    is_function,
    operations,
    parent,
    symbol_name,
)
from mlir_async_pipe.vocabulary.callees import callee_name

Callees = dict[tuple[Any, str], Any]
"""Functions by the op that holds them (None: nobody) and their name."""


def callable_functions(module: Any) -> Callees:
    """The functions of a module, those of its gpu.modules too."""
    if is_function(module):
        return {(parent(module), symbol_name(module)): module}
    if module.name not in SYMBOL_TABLES:
        return {}
    found: Callees = {}
    for region in module.regions:
        for block in region.blocks:
            for op in operations(block):
                found |= callable_functions(op)
    return found


def callee_of(call: Any, callees: Callees) -> Any | None:
    """The function that a call names, which may have no body; None if it is called by a value,
    or not to be seen from here."""
    return callees.get((enclosing(call, SYMBOL_TABLES), callee_name(call) or ""))
