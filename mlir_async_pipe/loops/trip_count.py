"""The trip count of a loop with constant bounds."""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, constant_value
from mlir_async_pipe.session.diagnostics import PipelineError


def static_trip_count(loop: Operation) -> int | None:
    """trips = lb < ub ? (ub - lb - 1) divui step + 1 : 0, None if not constant."""
    bounds = [constant_value(loop.operands[i]) for i in range(3)]
    if any(bound is None for bound in bounds):
        return None
    lower, upper, step = (int(bound) for bound in bounds if bound is not None)
    if "unsignedCmp" in loop.attributes:
        bits = _width(loop)
        lower, upper, step = (value % (1 << bits) for value in (lower, upper, step))
    if step <= 0:
        raise PipelineError(
            f"cannot pipeline: the step is {step}, expected 1 or more", code="bad-step", at=loop
        )
    return (upper - lower - 1) // step + 1 if lower < upper else 0


def _width(loop: Operation) -> int:
    """Bits of the induction variable; index counts as 64."""
    kind = loop.operands[0].type
    return 64 if str(kind) == "index" else int(ir.IntegerType(kind).width)
