"""Tuning: many versions of one kernel, compiled beside each other, told in order.

Public: `tune` and what it gives (`Tuning`, `Outcome`). One candidate's way is `evaluate`, what was
found before is in a `Store`, how many blocks fit is `occupancy`. Imports the calls (api), the
machine and the costs; nothing imports it but the tool's command.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "tune": "mlir_async_pipe.tuning.tune",
    "Outcome": "mlir_async_pipe.tuning.outcome",
    "Tuning": "mlir_async_pipe.tuning.tune",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
