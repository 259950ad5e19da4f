"""Integers of the IR as linear forms, value ranges, and numbers.

    %0 = arith.muli %i, %c4        linear(%1) = 4 * %i + %t + 8
    %1 = arith.addi %0, %t + 8     value_range(%t) = [0, 127] for a thread id of 128 threads

Three views of the same SSA arithmetic, each exact where it answers:
* `linear`: a constant plus multiples of *symbols* (values that are not sums themselves);
* `value_range`: an interval that holds the value (unbounded ends are None);
* `evaluate`: the value as NumPy numbers, given numbers for the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import Value, constant_value, defining_op, is_block_argument

_CASTS = ("arith.index_cast", "arith.index_castui", "index.casts", "index.castu")
_ADD = ("arith.addi", "index.add")
_SUB = ("arith.subi", "index.sub")
_MUL = ("arith.muli", "index.mul")


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
        return _memoised(value, self._linear, _linear_step)

    def value_range(self, value: Value) -> tuple[int | None, int | None]:
        """An interval [low, high] that holds the value; None is an unbounded end."""
        return _memoised(value, self._ranges, lambda v, get: _range_step(v, get, self.block_size))

    def remainder(self, value: Value) -> tuple[Linear, int] | None:
        """(f, V) if the value is f mod V: a remainder, or a mask for a power of two."""
        op = defining_op(value)
        while op is not None and op.name in _CASTS:
            op = defining_op(op.operands[0])
        if op is None or (op.name not in _REMAINDER and op.name != "arith.andi"):
            return None
        versions = constant_value(op.operands[1])
        if versions is None:
            return None
        if op.name == "arith.andi":
            versions += 1
            if versions & (versions - 1):
                return None
        return (self.linear(op.operands[0]), versions) if versions > 0 else None

    def range_of(self, form: Linear) -> tuple[int | None, int | None]:
        """An interval that holds the linear form."""
        low: int | None = form.constant
        high: int | None = form.constant
        for symbol, coefficient in form.terms.items():
            a, b = scale_range(self.value_range(symbol), coefficient)
            low = None if low is None or a is None else low + a
            high = None if high is None or b is None else high + b
        return low, high


def scale_range(
    interval: tuple[int | None, int | None], factor: int
) -> tuple[int | None, int | None]:
    """The interval of `factor * x` for x in `interval`."""
    low, high = interval
    a = None if low is None else low * factor
    b = None if high is None else high * factor
    return (a, b) if factor >= 0 else (b, a)


def _memoised(value: Value, known: dict[Value, Any], step: Callable[..., Any]) -> Any:
    """Compute `step` bottom-up without Python recursion: chains may be 10^5 ops long."""
    if value in known:
        return known[value]
    pending = [value]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        op = defining_op(current)
        missing = (
            [o for o in op.operands if o not in known]
            if op is not None and op.name in _FOLLOWED
            else []
        )
        if missing:
            pending.extend(missing)
            continue
        known[current] = step(current, known.__getitem__)
        pending.pop()
    return known[value]


def _linear_step(value: Value, get: Callable[[Value], Linear]) -> Linear:
    constant = constant_value(value)
    if constant is not None:
        return Linear(constant)
    op = defining_op(value)
    if op is None:
        return Linear(0, {value: 1})
    name = op.name
    if name in _ADD:
        return get(op.operands[0]) + get(op.operands[1])
    if name in _SUB:
        return get(op.operands[0]) - get(op.operands[1])
    if name in _MUL:
        a, b = get(op.operands[0]), get(op.operands[1])
        if not b.terms:
            return a.scaled(b.constant)
        if not a.terms:
            return b.scaled(a.constant)
    if name == "arith.shli":
        shift = constant_value(op.operands[1])
        if shift is not None and 0 <= shift < 63:
            return get(op.operands[0]).scaled(1 << shift)
    if name in _CASTS:
        return get(op.operands[0])
    if name == "affine.apply":
        form = _affine_apply(op, get)
        if form is not None:
            return form
    return Linear(0, {value: 1})


def _affine_apply(op: Any, get: Callable[[Value], Linear]) -> Linear | None:
    """The linear form of an affine.apply, None if it divides or takes a modulus."""
    affine_map = ir.AffineMapAttr(op.attributes["map"]).value
    operands = list(op.operands)

    def form(expression: Any) -> Linear | None:
        if ir.AffineConstantExpr.isinstance(expression):
            return Linear(ir.AffineConstantExpr(expression).value)
        if ir.AffineDimExpr.isinstance(expression):
            return get(operands[ir.AffineDimExpr(expression).position])
        if ir.AffineSymbolExpr.isinstance(expression):
            position = ir.AffineSymbolExpr(expression).position
            return get(operands[affine_map.n_dims + position])
        if ir.AffineAddExpr.isinstance(expression):
            binary = ir.AffineAddExpr(expression)
            a, b = form(binary.lhs), form(binary.rhs)
            return None if a is None or b is None else a + b
        if ir.AffineMulExpr.isinstance(expression):
            binary = ir.AffineMulExpr(expression)
            a, b = form(binary.lhs), form(binary.rhs)
            if a is None or b is None or (a.terms and b.terms):
                return None
            return a.scaled(b.constant) if not b.terms else b.scaled(a.constant)
        return None

    return form(affine_map.results[0])


_THREAD_OPS = ("gpu.thread_id",)
_UNSIGNED_DIV = ("arith.divui", "arith.divsi", "index.divu", "index.divs")
_REMAINDER = ("arith.remui", "arith.remsi", "index.remu", "index.rems")
_FOLLOWED = frozenset(
    (
        *_ADD,
        *_SUB,
        *_MUL,
        *_CASTS,
        *_UNSIGNED_DIV,
        *_REMAINDER,
        "affine.apply",
        "arith.shli",
        "arith.shrui",
        "arith.andi",
        "arith.ori",
        "arith.xori",
        "arith.select",
        "arith.minui",
        "arith.minsi",
        "arith.maxui",
        "arith.maxsi",
    )
)


def _range_step(
    value: Value,
    get: Callable[[Value], tuple[int | None, int | None]],
    block_size: tuple[int, int, int] | None,
) -> tuple[int | None, int | None]:
    constant = constant_value(value)
    if constant is not None:
        return constant, constant
    op = defining_op(value)
    if op is None:
        return _induction_range(value)
    name = op.name
    if name == "gpu.thread_id":
        return 0, (None if block_size is None else block_size[thread_dimension(op)] - 1)
    if name == "gpu.lane_id":
        return 0, 63
    if name in ("gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "memref.dim"):
        return 0, None
    if name not in _FOLLOWED:
        return None, None
    ranges = [get(operand) for operand in op.operands]
    return _operator_range(op, name, ranges)


def _operator_range(
    op: Any, name: str, ranges: list[tuple[int | None, int | None]]
) -> tuple[int | None, int | None]:
    if name in _CASTS:
        return ranges[0]
    if name == "arith.select":
        (a, b), (c, d) = ranges[1], ranges[2]
        return (
            None if a is None or c is None else min(a, c),
            None if b is None or d is None else max(b, d),
        )
    if len(ranges) != 2:
        return None, None
    (a, b), (c, d) = ranges
    if name in _ADD:
        return (
            None if a is None or c is None else a + c,
            None if b is None or d is None else b + d,
        )
    if name in _SUB:
        return (
            None if a is None or d is None else a - d,
            None if b is None or c is None else b - c,
        )
    if name in _REMAINDER and c is not None and c == d and c > 0 and a is not None and a >= 0:
        return 0, c - 1 if b is None else min(b, c - 1)
    if name == "arith.andi":
        masks = [high for low, high in ranges if low is not None and low >= 0 and high is not None]
        return (0, min(masks)) if masks else (None, None)
    if name in ("arith.minui", "arith.minsi") and a is not None and c is not None:
        highs = [h for h in (b, d) if h is not None]
        return min(a, c), (min(highs) if highs else None)
    if a is None or b is None or c is None or d is None or a < 0 or c < 0:
        return None, None
    if name in _MUL:
        return a * c, b * d
    if name in _UNSIGNED_DIV and c > 0:
        return a // d, b // c
    if name == "arith.shli" and d < 63:
        return a << c, b << d
    if name == "arith.shrui":
        return a >> d, b >> c
    if name in ("arith.ori", "arith.xori"):
        return 0, (1 << max(b.bit_length(), d.bit_length())) - 1
    if name in ("arith.maxui", "arith.maxsi"):
        return max(a, c), max(b, d)
    return None, None


def _induction_range(value: Value) -> tuple[int | None, int | None]:
    """The range of an scf.for induction variable with constant bounds."""
    block = ir.BlockArgument(value).owner
    loop = block.owner.operation
    if loop.name != "scf.for" or ir.BlockArgument(value).arg_number != 0:
        return None, None
    lower, upper = constant_value(loop.operands[0]), constant_value(loop.operands[1])
    return lower, (None if upper is None else upper - 1)


def thread_dimension(op: Any) -> int:
    """0, 1, 2 for the dimension x, y, z of a gpu id op."""
    text = str(op.attributes["dimension"])
    return next(i for i, axis in enumerate("xyz") if f" {axis}>" in text)


def evaluate(
    value: Value, leaves: Mapping[Value, np.ndarray], leaf: Callable[[Any], np.ndarray | None]
) -> np.ndarray | None:
    """The value as int64 numbers, one for each point of an enumeration.

    `leaves` gives numbers for block arguments (inner induction variables), `leaf` for ops
    without operands (thread ids). None where something else is met: cannot tell.
    """
    known: dict[Value, np.ndarray | None] = dict(leaves)

    def step(current: Value, get: Callable[[Value], np.ndarray | None]) -> np.ndarray | None:
        constant = constant_value(current)
        if constant is not None:
            return np.asarray(constant, dtype=np.int64)
        op = defining_op(current)
        if op is None:
            return None
        if op.name not in _FOLLOWED:
            return leaf(op)
        numbers = [get(operand) for operand in op.operands]
        if any(number is None for number in numbers):
            return None
        if op.name == "affine.apply":
            return _evaluate_affine(op, numbers)
        return _NUMPY.get(op.name, lambda *_: None)(*numbers)

    result: np.ndarray | None = _memoised(value, known, step)
    return result


def _evaluate_affine(op: Any, numbers: list[Any]) -> np.ndarray | None:
    affine_map = ir.AffineMapAttr(op.attributes["map"]).value
    operators: tuple[tuple[Any, Callable[[Any, Any], Any]], ...] = (
        (ir.AffineAddExpr, np.add),
        (ir.AffineMulExpr, np.multiply),
        (ir.AffineModExpr, np.mod),
        (ir.AffineFloorDivExpr, np.floor_divide),
        (ir.AffineCeilDivExpr, lambda a, b: -np.floor_divide(-a, b)),
    )

    def number(expression: Any) -> Any:
        if ir.AffineConstantExpr.isinstance(expression):
            return np.int64(ir.AffineConstantExpr(expression).value)
        if ir.AffineDimExpr.isinstance(expression):
            return numbers[ir.AffineDimExpr(expression).position]
        if ir.AffineSymbolExpr.isinstance(expression):
            return numbers[affine_map.n_dims + ir.AffineSymbolExpr(expression).position]
        for kind, operator in operators:
            if kind.isinstance(expression):
                binary = kind(expression)
                return operator(number(binary.lhs), number(binary.rhs))
        return None

    result: np.ndarray | None = number(affine_map.results[0])
    return result


_NUMPY: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_ADD, np.add),
    **dict.fromkeys(_SUB, np.subtract),
    **dict.fromkeys(_MUL, np.multiply),
    **dict.fromkeys(_CASTS, lambda a: a),
    # Address arithmetic is non-negative, where signed and unsigned division agree.
    **dict.fromkeys(_UNSIGNED_DIV, np.floor_divide),
    **dict.fromkeys(_REMAINDER, np.remainder),
    "arith.shli": np.left_shift,
    "arith.shrui": np.right_shift,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.select": lambda c, a, b: np.where(c != 0, a, b),
    "arith.minui": np.minimum,
    "arith.minsi": np.minimum,
    "arith.maxui": np.maximum,
    "arith.maxsi": np.maximum,
}


def product(sizes: Any) -> int:
    """The product of a sequence of integers."""
    return reduce(lambda a, b: a * b, sizes, 1)


def is_induction_variable(value: Value) -> bool:
    """Whether the value is the induction variable of an scf.for."""
    if not is_block_argument(value):
        return False
    argument = ir.BlockArgument(value)
    return argument.arg_number == 0 and argument.owner.owner.operation.name == "scf.for"
