"""MLIR's Python bindings: which stack this process uses, and what all of it stands on.

    from mlir_async_pipe.bindings import ir, new_context, use

Public: the names below. Also here: `raw_ops` (reading and making operations), `run_on_copy`,
`back_ends`, and the process that makes code: `back_end_process`, `back_end_child`. Imports only session.diagnostics
and session.parent.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import stack
from mlir_async_pipe.bindings.stack import (
    ENVIRONMENT_VARIABLE,
    OP_CLASSES,
    STACKS,
    Stack,
    allow_stub_parents,
    current,
    installed,
    load,
    new_context,
    use,
    without_op_classes,
)
from mlir_async_pipe.session.diagnostics import BindingsError

__all__ = [
    "ENVIRONMENT_VARIABLE",
    "OP_CLASSES",
    "STACKS",
    "BindingsError",
    "Stack",
    "allow_stub_parents",
    "current",
    "installed",
    "load",
    "new_context",
    "use",
    "without_op_classes",
]


def __getattr__(name: str) -> Any:
    if name in ("ir", "passmanager", "rewrite"):
        module = globals()[name] = getattr(stack, name)
        return module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
