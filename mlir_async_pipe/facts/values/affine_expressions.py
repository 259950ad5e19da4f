"""The ops of the affine dialect as the operators that they are made of.

    affine_map<(d0)[s0] -> (d0 * 4 + s0)>     (SUM, (PRODUCT, Place(0), 4), Place(1))

    %r:3 = affine.delinearize_index %x into (4, 8, 16)      %x div 128, %x div 16 mod 8, %x mod 16
    %y = affine.linearize_index [%a, %b, %c] by (4, 8, 16)  128 %a + 16 %b + %c

The outermost size of a split or a join is a promise about the range only and may be left out. It is no modulus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeAlias

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import DYNAMIC
from mlir_async_pipe.vocabulary.operator_table import (
    CEILING_DIVISION,
    FLOOR_DIVISION,
    MODULUS,
    PRODUCT,
    SUM,
    Operator,
)


class OperandPlace(NamedTuple):
    """The number of an operand: dimensions first, symbols after them."""

    operand: int


Expression: TypeAlias = "int | OperandPlace | tuple[Operator, Expression, Expression]"


def results_of(attribute: Any) -> tuple[Expression, ...]:
    """The results of an affine map."""
    affine_map = ir.AffineMapAttr(attribute).value
    return tuple(_read(result, affine_map.n_dims) for result in affine_map.results)


def _read(expression: Any, dimensions: int) -> Expression:
    if isinstance(expression, ir.AffineConstantExpr):
        return int(ir.AffineConstantExpr(expression).value)
    if isinstance(expression, ir.AffineDimExpr):
        return OperandPlace(int(ir.AffineDimExpr(expression).position))
    if isinstance(expression, ir.AffineSymbolExpr):
        return OperandPlace(dimensions + int(ir.AffineSymbolExpr(expression).position))
    kind, row = next((k(), row) for k, row in _BINARY if isinstance(expression, k()))
    binary = kind(expression)
    return row, _read(binary.lhs, dimensions), _read(binary.rhs, dimensions)


_BINARY: tuple[tuple[Callable[[], Any], Operator], ...] = (
    (lambda: ir.AffineAddExpr, SUM),
    (lambda: ir.AffineMulExpr, PRODUCT),
    (lambda: ir.AffineModExpr, MODULUS),
    (lambda: ir.AffineFloorDivExpr, FLOOR_DIVISION),
    (lambda: ir.AffineCeilDivExpr, CEILING_DIVISION),
)


@dataclass(frozen=True)
class SplitPart:
    """One result of a split: x div `stride`, and that mod `modulus` where there is one.

    `bound`: the result is below this number, None if the op does not say.
    """

    stride: int
    modulus: int | None
    bound: int | None


def parts_of(op: Any) -> tuple[SplitPart, ...] | None:
    """What each result of a split is, None where a size is no constant."""
    outer, inner = _sizes(op, len(op.results))
    if any(size is None for size in inner):
        return None
    strides = _strides(inner)
    first = SplitPart(strides[0], None, outer)
    return (first, *(SplitPart(s, size, size) for s, size in zip(strides[1:], inner, strict=True)))


def weights_of(op: Any) -> tuple[int, ...] | None:
    """What each index of a join counts, None where a size is no constant."""
    count = int(next(iter(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))))
    _, inner = _sizes(op, count)
    return None if any(size is None for size in inner) else _strides(inner)


def _sizes(op: Any, count: int) -> tuple[int | None, list[Any]]:
    """The outermost size, None if it is not given, and the `count` - 1 inner ones."""
    static = list(ir.DenseI64ArrayAttr(op.attributes["static_basis"]))
    sizes = [None if size == DYNAMIC else int(size) for size in static]
    return (sizes[0], sizes[1:]) if len(sizes) == count else (None, sizes)


def _strides(inner: list[int]) -> tuple[int, ...]:
    return tuple(prod(inner[place:]) for place in range(len(inner) + 1))
