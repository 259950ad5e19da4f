"""Integer values as NumPy numbers: the exact answer where all leaves are enumerated.

%row = arith.divui %tid, %c4        [0, 0, 0, 0, 1, …] for %tid = [0, 1, 2, 3, 4, …]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, constant_value, defining_op
from mlir_async_pipe.values.index_splitting import (
    JOIN,
    SPLIT,
    parts_of,
    weights_of,
)
from mlir_async_pipe.values.integer_ops import (
    ADD,
    CASTS,
    DIVISIONS,
    FOLLOWED,
    INDEX_BITS,
    MUL,
    REMAINDERS,
    SHIFTS,
    SUB,
    UNSIGNED,
    ZERO_EXTENDING,
    bits_of,
    memoised,
)


def evaluate(
    value: Value, leaves: Mapping[Value, np.ndarray], leaf: Callable[[Value], np.ndarray | None]
) -> np.ndarray | None:
    """The value as int64 numbers, one for each point of an enumeration.

    `leaves` gives numbers for inner induction variables, `leaf` for other values that are not
    computed (thread ids). None where something else is met: cannot tell.
    """
    known: dict[Value, np.ndarray | None] = dict(leaves)

    def step(current: Value, get: Callable[[Value], np.ndarray | None]) -> np.ndarray | None:
        constant = constant_value(current)
        if constant is not None:
            return np.asarray(constant, dtype=np.int64)
        op = defining_op(current)
        if op is None or op.name not in FOLLOWED:
            return leaf(current)
        numbers = [get(operand) for operand in op.operands]
        if any(number is None for number in numbers):
            return None
        if op.name == "affine.apply":
            return _evaluate_affine(op, numbers)
        if op.name == SPLIT:
            return _evaluate_part(current, op, numbers[0])
        if op.name == JOIN:
            weights = weights_of(op)
            return None if weights is None else _weighted_sum(numbers, weights)
        return _evaluate_operator(op, numbers)

    result: np.ndarray | None = memoised(value, known, step)
    return result


def _evaluate_operator(op: Any, numbers: list[Any]) -> np.ndarray | None:
    """The result of an op modulo 2^bits, as a signed number of its type."""
    function = _NUMPY.get(op.name)
    bits, given = bits_of(op.results[0].type), bits_of(op.operands[0].type)
    if function is None or (1 in (bits, given) and op.name != "arith.select"):
        return None
    if op.name in (*DIVISIONS, *REMAINDERS) and not np.all(numbers[1]):
        return None
    if op.name in SHIFTS and not np.all((numbers[1] >= 0) & (numbers[1] < bits)):
        return None
    if op.name in UNSIGNED or op.name in ZERO_EXTENDING:
        numbers = [_as_unsigned(number, given) for number in numbers]
    made = np.asarray(function(*numbers)).astype(np.int64)
    unused = INDEX_BITS - bits
    return np.asarray(np.right_shift(np.left_shift(made, unused), unused))


def _as_unsigned(number: np.ndarray, bits: int) -> np.ndarray:
    return np.asarray(number).astype(np.uint64) & np.uint64((1 << bits) - 1)


def _evaluate_part(value: Value, op: Any, whole: Any) -> np.ndarray | None:
    parts = parts_of(op)
    if parts is None:
        return None
    part = parts[ir.OpResult(value).result_number]
    divided: np.ndarray = np.floor_divide(whole, part.stride)
    return divided if part.modulus is None else np.mod(divided, part.modulus)


def _weighted_sum(numbers: list[Any], weights: tuple[int, ...]) -> np.ndarray:
    total: np.ndarray = np.asarray(0, dtype=np.int64)
    for number, weight in zip(numbers, weights, strict=False):
        total = total + number * weight
    return total


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
        if isinstance(expression, ir.AffineConstantExpr):
            return np.int64(ir.AffineConstantExpr(expression).value)
        if isinstance(expression, ir.AffineDimExpr):
            return numbers[ir.AffineDimExpr(expression).position]
        if isinstance(expression, ir.AffineSymbolExpr):
            return numbers[affine_map.n_dims + ir.AffineSymbolExpr(expression).position]
        for kind, operator in operators:
            if isinstance(expression, kind):
                binary = kind(expression)
                return operator(number(binary.lhs), number(binary.rhs))
        return None

    result: np.ndarray | None = number(affine_map.results[0])
    return result


def _rounded_to_zero(a: Any, b: Any) -> Any:
    return (a - np.fmod(a, b)) // b


_NUMPY: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(ADD, np.add),
    **dict.fromkeys(SUB, np.subtract),
    **dict.fromkeys(MUL, np.multiply),
    **dict.fromkeys(CASTS, lambda a: a),
    **dict.fromkeys(("arith.divui", "index.divu", "arith.floordivsi"), np.floor_divide),
    **dict.fromkeys(("arith.divsi", "index.divs"), _rounded_to_zero),
    # fmod has the sign of the dividend.
    **dict.fromkeys(REMAINDERS, np.fmod),
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
