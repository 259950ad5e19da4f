"""Libraries that only some extra of this package installs."""

from __future__ import annotations

import importlib
from typing import Any

from mlir_async_pipe.session.diagnostics import UsageError


def library(module: str, *, extra: str, wanted_by: str) -> Any:
    """The module called `module`, which `pip install 'mlir-async-pipe[extra]'` brings.

    Raises UsageError (missing-extra), which names what wants it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise UsageError(
            f"{wanted_by} needs the library {module.partition('.')[0]}, which is not installed",
            code="missing-extra",
            advice=f"pip install 'mlir-async-pipe[{extra}]'",
        ) from None
