"""Affine maps as trees of operators over the operands of an op.

affine_map<(d0)[s0] -> (d0 * 4 + s0)>     (SUM, (PRODUCT, Place(0), 4), Place(1))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.vocabulary.operator_table import (
    CEILING_DIVISION,
    FLOOR_DIVISION,
    MODULUS,
    PRODUCT,
    SUM,
    Row,
)


class Place(NamedTuple):
    """The number of an operand: dimensions first, symbols after them."""

    operand: int


Expression: TypeAlias = "int | Place | tuple[Row, Expression, Expression]"


def results_of(op: Any, name: str = "map") -> tuple[Expression, ...]:
    """The results of the map of affine.apply, min, max, load or store; `name`: its attribute."""
    affine_map = ir.AffineMapAttr(op.attributes[name]).value
    return tuple(_read(result, affine_map.n_dims) for result in affine_map.results)


def _read(expression: Any, dimensions: int) -> Expression:
    if isinstance(expression, ir.AffineConstantExpr):
        return int(ir.AffineConstantExpr(expression).value)
    if isinstance(expression, ir.AffineDimExpr):
        return Place(int(ir.AffineDimExpr(expression).position))
    if isinstance(expression, ir.AffineSymbolExpr):
        return Place(dimensions + int(ir.AffineSymbolExpr(expression).position))
    kind, row = next((k(), row) for k, row in _BINARY if isinstance(expression, k()))
    binary = kind(expression)
    return row, _read(binary.lhs, dimensions), _read(binary.rhs, dimensions)


_BINARY: tuple[tuple[Callable[[], Any], Row], ...] = (
    (lambda: ir.AffineAddExpr, SUM),
    (lambda: ir.AffineMulExpr, PRODUCT),
    (lambda: ir.AffineModExpr, MODULUS),
    (lambda: ir.AffineFloorDivExpr, FLOOR_DIVISION),
    (lambda: ir.AffineCeilDivExpr, CEILING_DIVISION),
)
