"""Integer values as NumPy numbers: the exact answer where all leaves are enumerated.

%row = arith.divui %tid, %c4        [0, 0, 0, 0, 1, …] for %tid = [0, 1, 2, 3, 4, …]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.bindings.raw_ops import Value, defining_op
from mlir_async_pipe.facts.values.domains import Domain, Typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, integer_constant, memoised
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, Operator, Sign

Array = np.ndarray


def evaluate(
    value: Value, known: dict[Value, Any], leaf: Callable[[Value], Array | None]
) -> Array | None:
    """The value as int64 numbers, one for each point of an enumeration; None: cannot tell.

    `known` has the numbers of inner induction variables, and gets those of all values between; `leaf` gives those of
    other values that are not computed (thread ids).
    """

    def step(current: Value, get: Callable[[Value], Array | None]) -> Array | None:
        op = defining_op(current)
        if integer_constant(current) is None and (op is None or op.name not in OPERATORS):
            return leaf(current)
        return NUMBERS.of(current, get, None)

    result: Array | None = memoised(value, known, step)
    return result


class Numbers(Domain[Array, None]):
    def constant(self, number: int) -> Array:
        return np.asarray(number, dtype=np.int64)

    def evaluate(self, op: Typed, v: list[Array], known: None) -> Array | None:
        """The result of an op modulo 2^bits, as a signed number of its type."""
        made = None if op.bits > INDEX_BITS else super().evaluate(op, v, known)
        if made is None:
            return None
        made = np.asarray(made).astype(np.int64)
        if op.bits == 1:
            return made & 1
        unused = INDEX_BITS - op.bits
        return np.asarray(np.right_shift(np.left_shift(made, unused), unused))

    def add(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.asarray(v[0] + v[1])

    def sub(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.asarray(v[0] - v[1])

    def mul(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.asarray(v[0] * v[1])

    def div(self, op: Typed, v: list[Array], known: None) -> Array | None:
        a, b = (_read(op, number) for number in v)
        return _ROUNDED[op.row.rounding](a, b) if np.all(b) else None

    def rem(self, op: Typed, v: list[Array], known: None) -> Array | None:
        a, b = (_read(op, number) for number in v)
        # fmod has the sign of the dividend, mod that of the divisor.
        function = np.mod if op.row.rounding == "down" else np.fmod
        return function(a, b) if np.all(b) else None

    def and_(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.asarray(v[0] & v[1])

    def or_(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.asarray(v[0] | v[1])

    def xor(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.asarray(v[0] ^ v[1])

    def shl(self, op: Typed, v: list[Array], known: None) -> Array | None:
        return np.left_shift(*v) if _is_shift(op, v[1]) else None

    def shr(self, op: Typed, v: list[Array], known: None) -> Array | None:
        if not _is_shift(op, v[1]):
            return None
        number = _read(op, v[0])
        return np.right_shift(number, v[1].astype(number.dtype))

    def min(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.minimum(*(_read(op, number) for number in v))

    def max(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.maximum(*(_read(op, number) for number in v))

    def select(self, op: Typed, v: list[Array], known: None) -> Array:
        return np.where(v[0] != 0, v[1], v[2])

    def cmp(self, op: Typed, v: list[Array], known: None) -> Array | None:
        if op.detail is None:
            return None
        sign: Sign = "u" if op.detail[0] == "u" else "s"
        a, b = (_read(op._replace(row=Operator("cmp", sign)), number) for number in v)
        return np.asarray(_COMPARED[op.detail[-2:]](a, b))

    def cast(self, op: Typed, v: list[Array], known: None) -> Array:
        return _read(op, v[0])


NUMBERS = Numbers()


def _read(op: Typed, number: Array) -> Array:
    """What an op reads, by its sign: without one as uint64."""
    if op.row.sign == "u":
        return np.asarray(number).astype(np.uint64) & np.uint64((1 << op.given) - 1)
    return -number if op.given == 1 and op.row.sign == "s" else np.asarray(number)


def _is_shift(op: Typed, by: Array) -> bool:
    return bool(np.all((by >= 0) & (by < op.given)))


_ROUNDED: dict[str, Callable[[Array, Array], Array]] = {
    "down": np.floor_divide,
    "up": lambda a, b: np.floor_divide(a, b) + (np.mod(a, b) != 0).astype(a.dtype),
    "zero": lambda a, b: np.asarray((a - np.fmod(a, b)) // b),
}
_COMPARED: dict[str, Callable[[Array, Array], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
