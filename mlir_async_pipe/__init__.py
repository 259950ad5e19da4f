"""Software pipelining with exact asynchronous waits, on MLIR's Python bindings.

Nothing is imported until it is asked for, so that `use("…")` can choose the bindings first.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "use": "mlir_async_pipe.bindings",
    "annotate": "mlir_async_pipe.annotations",
    "find_loops": "mlir_async_pipe.annotations",
    "pipeline": "mlir_async_pipe.api",
    "count_waits": "mlir_async_pipe.api",
    "check": "mlir_async_pipe.api",
    "lower": "mlir_async_pipe.api",
    "Pipeline": "mlir_async_pipe.builder",
    "AsyncPipeError": "mlir_async_pipe.diagnostics",
    "Target": "mlir_async_pipe.targets",
}

__all__ = ["__version__", *_EXPORTS]


class _Package(types.ModuleType):
    """Keeps the call `check` from being hidden by the subpackage of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _EXPORTS and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    if name in ("machine", "bindings"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
