"""Software pipelining with exact asynchronous waits, on MLIR's Python bindings.

Nothing is imported until it is asked for, so that `use("…")` can choose the bindings first; the
environment may ask for hooks (MLIR_ASYNC_PIPE_CHECK).
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlir_async_pipe.api import check as check
    from mlir_async_pipe.api import count_waits as count_waits
    from mlir_async_pipe.api import lower as lower
    from mlir_async_pipe.api import pipeline as pipeline
    from mlir_async_pipe.bindings import use as use
    from mlir_async_pipe.builder import Pipeline as Pipeline
    from mlir_async_pipe.builder import RolePipeline as RolePipeline
    from mlir_async_pipe.builder import copy_tile as copy_tile
    from mlir_async_pipe.chips.target import Target as Target
    from mlir_async_pipe.facts.loops.annotations import annotate as annotate
    from mlir_async_pipe.facts.loops.statements import find_loops as find_loops
    from mlir_async_pipe.hooks.composition import as_pass as as_pass
    from mlir_async_pipe.hooks.composition import patterns as patterns
    from mlir_async_pipe.machine.validation import validate as validate
    from mlir_async_pipe.session.diagnostics import AsyncPipeError as AsyncPipeError
    from mlir_async_pipe.tuning.tune import tune as tune

    __version__: str

_EXPORTS = {
    "use": "mlir_async_pipe.bindings",
    "annotate": "mlir_async_pipe.facts.loops.annotations",
    "find_loops": "mlir_async_pipe.facts.loops.statements",
    "pipeline": "mlir_async_pipe.api",
    "count_waits": "mlir_async_pipe.api",
    "check": "mlir_async_pipe.api",
    "lower": "mlir_async_pipe.api",
    "Pipeline": "mlir_async_pipe.builder",
    "RolePipeline": "mlir_async_pipe.builder",
    "copy_tile": "mlir_async_pipe.builder",
    "as_pass": "mlir_async_pipe.hooks.composition",
    "patterns": "mlir_async_pipe.hooks.composition",
    "validate": "mlir_async_pipe.machine.validation",
    "tune": "mlir_async_pipe.tuning.tune",
    "AsyncPipeError": "mlir_async_pipe.session.diagnostics",
    "Target": "mlir_async_pipe.chips.target",
}

__all__ = ["__version__", *_EXPORTS]


def __dir__() -> list[str]:
    return [*__all__, "bindings", "hooks", "machine"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    if name in ("bindings", "hooks", "machine"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version() -> str:
    """The version that was installed, by the tag of the repository."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("mlir-async-pipe"))
    except metadata.PackageNotFoundError:
        return "0+unknown"


_NAMED = os.environ.get("MLIR_ASYNC_PIPE_CHECK")
if _NAMED:
    importlib.import_module(f"{__name__}.hooks").install_named(_NAMED)
