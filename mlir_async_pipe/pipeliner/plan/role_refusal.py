"""Why the threads of a block cannot be parted into roles, as an error at the op that it is about."""

from __future__ import annotations

from typing import Literal, NoReturn

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.facts.loops.annotations import ROLES
from mlir_async_pipe.session.diagnostics import PipelineError

Code = Literal["roles-unsupported", "roles-values", "roles-block", "memory-order"]


def refuse(why: str, at: Operation, loop: Operation, *, code: Code, advice: str = "") -> NoReturn:
    """Raise PipelineError: `why` about the op `at`."""
    raise PipelineError(
        f"cannot let warps of their own copy: {why}",
        code=code,
        at=at,
        notes=(("the loop", loop),) if at != loop else (),
        advice=advice or f"without '{ROLES}' all warps copy and compute",
    )
