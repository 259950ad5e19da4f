"""Terms as people read them, and where two of them part.

(dot(f32(arg0[0, 0]) … f32(arg0[0, 15]), f32(arg1[0, 0]) … f32(arg1[0, 15])) + 0.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.machine.term_table import (
    ANY,
    ANY_BYTE,
    BYTE,
    CONSTANT,
    COUNT,
    DOT,
    JOIN,
    ROW,
    SELECT,
    TermTable,
    is_leaf,
)

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "greater": ">",
    "less_equal": "<=", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
    "right_shift": ">>",
}  # fmt: skip
_NAMES = {"float": "f", "int": "i", "uint": "u", "bool": "i"}
_DEPTH = 4


def printed(
    table: TermTable, term: int, shapes: dict[str, tuple[int, ...]], depth: int = _DEPTH
) -> str:
    """A term, at most so deep; `shapes` are those of the inputs by name."""
    operator, operands = table.of(term)
    if operator.name == CONSTANT:
        return str(table.numbers(np.array([term]), operator.dtype)[0])
    if operator.name in (ANY, ANY_BYTE):
        return "what it was before"
    if is_leaf(operator.name) and len(operands) == 3:
        number = " + ".join(f"{n}{x}" for n, x in zip(operands, ("", " t", " r"), strict=True) if n)
        return f"{operator.name}[{number or 0}]" if operator.name != COUNT else f"({number})"
    if operator.name in shapes:
        return _element(operator.name, operands[0], shapes[operator.name])
    if depth == 0:
        return "…"

    def inner(number: int) -> str:
        return printed(table, number, shapes, depth - 1)

    def cell(number: int) -> str:
        return str(number + 256) if number < 0 else f"byte {number & 7} of {inner(number >> 3)}"

    if operator.name in (JOIN, BYTE):
        return f"{_type(operator.dtype)}({', '.join(map(cell, operands))})"
    if operator.name == ROW:
        first, last = inner(operands[0]), inner(operands[-1])
        return first if len(operands) == 1 else f"{first} … {last}"
    if operator.name == DOT:
        return f"dot({printed(table, operands[0], shapes, depth)}, {printed(table, operands[1], shapes, depth)})"
    if operator.name == SELECT:
        return "({1} if {0} else {2})".format(*map(inner, operands))
    if operator.name in _SIGNS and len(operands) == 2:
        return f"({inner(operands[0])} {_SIGNS[operator.name]} {inner(operands[1])})"
    name = _type(operator.dtype) if operator.name in ("cast", "bits") else operator.name
    return f"{name}({', '.join(map(inner, operands))})"


def _type(dtype: Any) -> str:
    word = str(dtype).rstrip("0123456789")
    return f"{_NAMES[word]}{8 * dtype.itemsize if word != 'bool' else 1}"


def _element(name: str, number: int, shape: tuple[int, ...]) -> str:
    index: list[str] = []
    for size in reversed(shape):
        number, place = divmod(number, size)
        index.insert(0, str(place))
    return f"{name}[{', '.join(index)}]" if index else name


@dataclass(frozen=True)
class Divergence:
    """The innermost terms that differ in operator, or in operands that are leaves."""

    before: int
    after: int


def divergence(table: TermTable, before: int, after: int, is_new: Any) -> Divergence:
    """Follow two different terms inwards while they apply the same operator.

    Where both operands of a sum differ, the sum of earlier iterations is followed. What is told is a term that
    the program after made itself: `is_new` says of an origin whether it is one.
    """
    found = Divergence(before, after)
    while True:
        operator, operands = table.of(before)
        other, others = table.of(after)
        if operator != other or operator.name in (JOIN, BYTE) or is_leaf(operator.name):
            return found
        pairs = list(zip(operands, others, strict=True))
        if len(pairs) == 2 and _is_swapped(table, pairs):
            pairs = list(zip(operands, others[::-1], strict=True))
        apart = [pair for pair in pairs if pair[0] != pair[1]]
        if not apart:
            return found
        deeper = [p for p in apart if all(table.of(t)[0] == operator for t in p)]
        before, after = (deeper or apart)[0]
        leaves = [is_leaf(table.of(term)[0].name) for term in (before, after)]
        if is_new(int(table.origin[after])) and not all(leaves):
            found = Divergence(before, after)


def _is_swapped(table: TermTable, pairs: list[tuple[int, int]]) -> bool:
    (a, c), (b, d) = pairs
    if a == c or b == d:
        return False
    if a == d or b == c:
        return True
    one, two, three, four = (table.of(term)[0] for term in (a, b, c, d))
    return one != three and one == four and two == three
