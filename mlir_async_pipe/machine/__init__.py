"""The async machine: runs modules on the CPU, with adversarial completion and race detection.

result = machine.run(module, "kernel", [a, b, c], threads=128, completion="late")
result.arrays[2]      # c as the kernel left it
result.races          # findings, each with both ends at their locations
"""

from mlir_async_pipe.diagnostics import MachineError
from mlir_async_pipe.machine.api import RunResult, run
from mlir_async_pipe.machine.completion import COMPLETIONS
from mlir_async_pipe.machine.races import CODES, Race
from mlir_async_pipe.machine.schedule import SCHEDULES

__all__ = ["CODES", "COMPLETIONS", "SCHEDULES", "MachineError", "Race", "RunResult", "run"]
