"""Bounds and constant trip counts of scf.for and affine.for, as their attributes and operands say.

affine.for %i = 0 to 10 step 3            4 iterations
scf.for unsigned %i = %c0 to %c-1_i8 …    255: bounds are read in the loop's own signedness
"""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.bindings.type_classes import as_kind


def trip_count(lower: int, upper: int, step: int) -> int | None:
    """How often `for (i = lower; i < upper; i += step)` iterates; None for a step below 1."""
    if step < 1:
        return None
    return (upper - lower - 1) // step + 1 if lower < upper else 0


def scf_for_trips(op: Any) -> int | None:
    """The constant trip count of an scf.for, in its own signedness, else None."""
    bounds = []
    # The upper bound first: it is the one that is seldom constant.
    for number in (1, 0, 2):
        bound = constant_value(op.operands[number])
        if bound is None:
            return None
        bounds.append(bound)
    upper, lower, step = bounds
    if "unsignedCmp" in op.attributes:
        bits = _index_bits(op.operands[0].type)
        lower, upper, step = (bound % (1 << bits) for bound in (lower, upper, step))
    return trip_count(lower, upper, step)


def affine_for_trips(op: Any) -> int | None:
    """The constant trip count of an affine.for with constant bounds, else None."""
    lower = _constant_map(op.attributes["lowerBoundMap"])
    upper = _constant_map(op.attributes["upperBoundMap"])
    if lower is None or upper is None:
        return None
    return trip_count(lower, upper, int(ir.IntegerAttr(op.attributes["step"]).value))


def affine_for_bounds(op: Any) -> tuple[Any, Any, int] | None:
    """Lower bound, upper bound and step of an affine.for, each an operand or a number; None
    where a bound is more than that (a sum, the least of several)."""
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    operands = list(op.operands)
    lower = _simple_bound(op.attributes["lowerBoundMap"], operands[: sizes[0]])
    upper = _simple_bound(op.attributes["upperBoundMap"], operands[sizes[0] : sizes[0] + sizes[1]])
    if lower is None or upper is None:
        return None
    return lower, upper, int(ir.IntegerAttr(op.attributes["step"]).value)


def _simple_bound(attribute: Any, operands: list[Any]) -> Any:
    constant = _constant_map(attribute)
    if constant is not None:
        return constant
    return operands[0] if _IDENTITY_MAP.fullmatch(str(attribute)) else None


def _index_bits(kind: Any) -> int:
    integer = as_kind(ir.IntegerType, kind)
    return 64 if integer is None else int(integer.width)


def _constant_map(attribute: Any) -> int | None:
    match = _CONSTANT_MAP.fullmatch(str(attribute))
    return None if match is None else int(match.group(1))


# affine_map<() -> (10)>
_CONSTANT_MAP = re.compile(r"affine_map<\(\) -> \((-?\d+)\)>")
# affine_map<(d0) -> (d0)> or affine_map<()[s0] -> (s0)>
_IDENTITY_MAP = re.compile(r"affine_map<(\(d0\)|\(\)\[s0\]) -> \((d0|s0)\)>")
