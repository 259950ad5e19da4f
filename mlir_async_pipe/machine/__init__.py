"""The async machine: runs modules on the CPU, with adversarial completion and race detection.

result = machine.run(module, "kernel", [a, b, c], threads=128, completion="late")
result.arrays[2]      # c as the kernel left it
result.races          # findings, each with both ends at their locations

Nothing is imported until it is asked for: schedules by latency need the table of costs alone.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "CODES": "mlir_async_pipe.machine.detector",
    "COMPLETIONS": "mlir_async_pipe.machine.launch",
    "SCHEDULES": "mlir_async_pipe.machine.warp_order",
    "MachineError": "mlir_async_pipe.session.diagnostics",
    "Race": "mlir_async_pipe.machine.detector",
    "From": "mlir_async_pipe.machine.validation",
    "RunOptions": "mlir_async_pipe.machine.launch",
    "RunResult": "mlir_async_pipe.machine.run_kernel",
    "TensorMap": "mlir_async_pipe.machine.lane_values",
    "Data": "mlir_async_pipe.machine.validation",
    "Difference": "mlir_async_pipe.machine.validation",
    "Validation": "mlir_async_pipe.machine.validation",
    "run": "mlir_async_pipe.machine.run_kernel",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
