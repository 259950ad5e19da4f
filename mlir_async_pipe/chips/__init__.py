"""Where a module is going, as data: a `Target` is a lowering and one `Chip` of it.

    Target.parse("nvvm:sm_80")     Target.parse("rocdl:gfx950")

Public: `Target`, `Chip`, `CHIPS`. Imports session and the names of queues from vocabulary.
"""

from mlir_async_pipe.chips.table import CHIPS, Chip
from mlir_async_pipe.chips.target import Target

__all__ = ["CHIPS", "Chip", "Target"]
