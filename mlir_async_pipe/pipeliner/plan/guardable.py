"""Whether a step can be made conditional, as a predicated pipeline needs it: copies that can be
told to read nothing, and statements whose results have a neutral value."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.pipeliner.plan.statement_places import is_physical
from mlir_async_pipe.pipeliner.plan.units import Units
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import row_of

SOURCE_ELEMENTS = "source_elements"


def check_guardable(units: Units) -> None:
    """Raise PipelineError (predicate-unsupported) for a statement that cannot be skipped."""
    for op in units.statement_places:
        if is_physical(op) and not _takes_source_elements(op):
            raise PipelineError(
                f"cannot pipeline: '{op.name}' cannot be predicated, it has no source size",
                code="predicate-unsupported",
                at=op,
                advice='use async_pipe.epilogue = "peel" and short_trip = "version"',
            )
        for result in op.results:
            if not is_physical(op) and zero_of(result.type) is None:
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' cannot be predicated, its result of type "
                    f"{result.type} has no neutral value",
                    code="predicate-unsupported",
                    at=op,
                    advice='use async_pipe.epilogue = "peel" and short_trip = "version"',
                )


def _takes_source_elements(op: Operation) -> bool:
    row = row_of(op)
    return f"{SOURCE_ELEMENTS}?" in row.operands


def zero_of(kind: Any) -> Any:
    """The zero of a scalar or static vector type, None for any other."""
    try:
        vector = ir.VectorType(kind)
    except ValueError:
        return _scalar_zero(kind)
    zero = _scalar_zero(vector.element_type)
    return None if zero is None else ir.DenseElementsAttr.get_splat(kind, zero)


def _scalar_zero(kind: Any) -> Any:
    text = str(kind)
    if text == "index" or (text.startswith("i") and text[1:].isdigit()):
        return ir.IntegerAttr.get(kind, 0)
    if text.startswith(("f", "bf", "tf")):
        return ir.FloatAttr.get(kind, 0.0, loc=ir.Location.unknown(kind.context))
    return None
