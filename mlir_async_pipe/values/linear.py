"""Integers of the IR as linear forms.

    %0 = arith.muli %i, %c4        linear(%1) = 4 * %i + %t + 8
    %1 = arith.addi %0, %t + 8

A linear form is a constant plus multiples of *symbols*, values that are not sums themselves, or
sums that may not fit into their type: forms are exact numbers, not numbers modulo 2^bits.
`ranges` has intervals of the same values, `numbers` their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, constant_value, defining_op
from mlir_async_pipe.values.index_splitting import JOIN, weights_of
from mlir_async_pipe.values.integer_ops import (
    ADD,
    CASTS,
    MUL,
    REMAINDERS,
    SUB,
    memoised,
)
from mlir_async_pipe.values.ranges import is_exact, range_step, scale_range


@dataclass(frozen=True)
class Linear:
    """constant + sum of coefficient * symbol; coefficients are never 0."""

    constant: int = 0
    terms: Mapping[Value, int] = field(default_factory=dict)

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for symbol, coefficient in other.terms.items():
            total = terms.get(symbol, 0) + coefficient
            if total:
                terms[symbol] = total
            else:
                terms.pop(symbol, None)
        return Linear(self.constant + other.constant, terms)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Linear:
        """Every part times `factor`."""
        if factor == 0:
            return Linear()
        return Linear(
            self.constant * factor, {symbol: c * factor for symbol, c in self.terms.items()}
        )

    def without(self, symbol: Value) -> Linear:
        """The form with one symbol's term dropped."""
        return Linear(self.constant, {s: c for s, c in self.terms.items() if s != symbol})

    @property
    def is_large(self) -> bool:
        """Whether 2^15 of a part of the form may not fit into 64 bits."""
        return any(abs(number) > 1 << 48 for number in (self.constant, *self.terms.values()))

    def same_as(self, other: Linear) -> bool:
        """Whether both forms are equal for all values of the symbols."""
        difference = self - other
        return difference.constant == 0 and not difference.terms


class Arithmetic:
    """Linear forms and ranges of values, each computed once.

    `block_size` is the number of threads in x, y, z, None where it is not known.
    """

    def __init__(self, block_size: tuple[int, int, int] | None = None) -> None:
        self.block_size = block_size
        self._linear: dict[Value, Linear] = {}
        self._ranges: dict[Value, tuple[int | None, int | None]] = {}

    def linear(self, value: Value) -> Linear:
        """The linear form of an integer or index value."""
        return memoised(value, self._linear, self._linear_step)

    def _linear_step(self, value: Value, get: Callable[[Value], Linear]) -> Linear:
        form = _linear_step(value, get)
        op = defining_op(value)
        if op is None or form.terms.get(value) == 1 or constant_value(value) is not None:
            return form
        exact = not form.is_large and is_exact(op, self.value_range)
        return form if exact else Linear(0, {value: 1})

    def value_range(self, value: Value) -> tuple[int | None, int | None]:
        """An interval [low, high] that holds the value; None is an unbounded end."""
        known = self._ranges
        if value not in known:
            # Bounds of loops are no operands of their induction variables: asked for as they come.
            memoised(value, known, lambda v, _: range_step(v, self.value_range, self.block_size))
        return known[value]

    def remainder(self, value: Value) -> tuple[Linear, int] | None:
        """(f, V) if the value is f mod V: a remainder of what is not negative, or a mask for a
        power of two."""
        op = defining_op(value)
        while op is not None and op.name in CASTS and is_exact(op, self.value_range):
            op = defining_op(op.operands[0])
        if op is None or (op.name not in REMAINDERS and op.name != "arith.andi"):
            return None
        versions = constant_value(op.operands[1])
        if versions is None:
            return None
        if op.name == "arith.andi":
            versions += 1
            if versions & (versions - 1):
                return None
        elif not self._is_not_negative(op.operands[0]):
            return None
        return (self.linear(op.operands[0]), versions) if versions > 0 else None

    def _is_not_negative(self, value: Value) -> bool:
        low, _ = self.value_range(value)
        return low is not None and low >= 0

    def range_of(self, form: Linear) -> tuple[int | None, int | None]:
        """An interval that holds the linear form."""
        low: int | None = form.constant
        high: int | None = form.constant
        for symbol, coefficient in form.terms.items():
            a, b = scale_range(self.value_range(symbol), coefficient)
            low = None if low is None or a is None else low + a
            high = None if high is None or b is None else high + b
        return low, high


def _linear_step(value: Value, get: Callable[[Value], Linear]) -> Linear:
    constant = constant_value(value)
    if constant is not None:
        return Linear(constant)
    op = defining_op(value)
    if op is None:
        return Linear(0, {value: 1})
    name = op.name
    if name in ADD:
        return get(op.operands[0]) + get(op.operands[1])
    if name in SUB:
        return get(op.operands[0]) - get(op.operands[1])
    if name in MUL:
        a, b = get(op.operands[0]), get(op.operands[1])
        if not b.terms:
            return a.scaled(b.constant)
        if not a.terms:
            return b.scaled(a.constant)
    if name == "arith.shli":
        shift = constant_value(op.operands[1])
        if shift is not None and 0 <= shift < 63:
            return get(op.operands[0]).scaled(1 << shift)
    if name in CASTS:
        return get(op.operands[0])
    if name == "affine.apply":
        form = _affine_apply(op, get)
        if form is not None:
            return form
    if name == JOIN:
        weights = weights_of(op)
        if weights is not None:
            parts = (get(i).scaled(w) for i, w in zip(op.operands, weights, strict=False))
            return reduce(Linear.__add__, parts)
    return Linear(0, {value: 1})


def _affine_apply(op: Any, get: Callable[[Value], Linear]) -> Linear | None:
    """The linear form of an affine.apply, None if it divides or takes a modulus."""
    affine_map = ir.AffineMapAttr(op.attributes["map"]).value
    operands = list(op.operands)

    def form(expression: Any) -> Linear | None:
        if isinstance(expression, ir.AffineConstantExpr):
            return Linear(ir.AffineConstantExpr(expression).value)
        if isinstance(expression, ir.AffineDimExpr):
            return get(operands[ir.AffineDimExpr(expression).position])
        if isinstance(expression, ir.AffineSymbolExpr):
            position = ir.AffineSymbolExpr(expression).position
            return get(operands[affine_map.n_dims + position])
        if isinstance(expression, ir.AffineAddExpr):
            binary = ir.AffineAddExpr(expression)
            a, b = form(binary.lhs), form(binary.rhs)
            return None if a is None or b is None else a + b
        if isinstance(expression, ir.AffineMulExpr):
            binary = ir.AffineMulExpr(expression)
            a, b = form(binary.lhs), form(binary.rhs)
            if a is None or b is None or (a.terms and b.terms):
                return None
            return a.scaled(b.constant) if not b.terms else b.scaled(a.constant)
        return None

    return form(affine_map.results[0])
