"""Affine maps and integer sets, read from their text and evaluated on arrays.

The text form is the same in every stack, while the classes of the expressions are not:

    affine_map<(d0)[s0] -> (d0 * 4 + s0 floordiv 2)>     affine_set<(d0) : (d0 - 1 >= 0)>
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mlir_async_pipe.session.diagnostics import MachineError

_TEXT = re.compile(
    r"affine_(?:map|set)<\((?P<dims>[^)]*)\)(?:\[(?P<symbols>[^\]]*)\])?\s*(?:->|:)\s*"
    r"\((?P<body>.*)\)>$"
)


@dataclass(frozen=True)
class AffineMap:
    """A map from dimensions and symbols to results; `results` are parsed expressions."""

    names: tuple[str, ...]
    results: tuple[ast.expr, ...]

    def __call__(self, operands: tuple[Any, ...]) -> list[Any]:
        """The results for arrays of dimensions and symbols."""
        values = dict(zip(self.names, operands, strict=True))
        return [_evaluate(result, values) for result in self.results]

    def permutation(self) -> tuple[int | None, ...]:
        """For a projected permutation: the dimension of each result, None for a constant."""
        return tuple(
            self.names.index(result.id) if isinstance(result, ast.Name) else None
            for result in self.results
        )


def parse_map(text: str) -> AffineMap:
    """Read an affine map, or an integer set: its results tell where each constraint holds."""
    match = _TEXT.match(text.strip())
    if match is None:
        raise MachineError(f"cannot read the affine map or set '{text}'", code="unsupported-op")
    listed = f"{match['dims']},{match['symbols'] or ''}".split(",")
    # Python's `@` has the precedence of `*` and `//`, so it can stand for ceildiv.
    body = match["body"].replace("floordiv", "//").replace("ceildiv", "@").strip()
    body = re.sub(r"\bmod\b", "%", body)
    parsed = ast.parse(f"({body},)" if body else "()", mode="eval").body
    assert isinstance(parsed, ast.Tuple)
    return AffineMap(tuple(name.strip() for name in listed if name.strip()), tuple(parsed.elts))


def parse_set(text: str) -> Callable[[tuple[Any, ...]], Any]:
    """Read an integer set; the result tells for which lanes all its constraints hold."""
    constraints = parse_map(text)
    return lambda operands: reduce(np.logical_and, constraints(operands), np.array([True]))


def _evaluate(node: ast.expr, values: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(value=number):
            return np.array([number], np.int64)
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_evaluate(left, values), _evaluate(right, values))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _OPERATORS[type(operator)](_evaluate(left, values), _evaluate(right, values))
    raise MachineError(f"cannot evaluate {ast.dump(node)}", code="unsupported-op")


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.MatMult: lambda a, b: -np.floor_divide(-a, b),
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
}
