"""Which function a call runs, and what a kernel does with all that it calls.

func.call @f        the @f of the symbol table around the caller: its module or gpu.module
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    enclosing,
    has_body,
    is_function,
    operations,
    parent,
    symbol_name,
    walk,
)
from mlir_async_pipe.vocabulary import flag_order
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, callee_name

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


def with_callees(kernel: Any, callees: Callees) -> Iterator[Any]:
    """The ops of a kernel, and of the functions that it calls."""
    pending = [kernel]
    for function in pending:
        for op in walk(function):
            yield op
            callee = callee_of(op, callees) if op.name in CALL_OPS else None
            if callee is not None and callee not in pending:
                pending.append(callee)


def releases_flags(kernel: Any, callees: Callees) -> bool:
    """Whether a kernel may tell other threads, by a flag, a fence or an op that nobody knows, that what
    it did before is over."""
    return any(
        flag_order(op).release
        for op in with_callees(kernel, callees)
        if not _is_followed_call(op, callees)
    )


def _is_followed_call(op: Any, callees: Callees) -> bool:
    callee = callee_of(op, callees) if op.name in CALL_OPS else None
    return callee is not None and has_body(callee)
