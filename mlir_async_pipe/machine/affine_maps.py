"""Affine maps and integer sets, read from their text and evaluated on arrays.

The text form is the same in every stack, while the classes of the expressions are not:

    affine_map<(d0)[s0] -> (d0 * 4 + s0 floordiv 2)>     affine_set<(d0) : (d0 - 1 >= 0)>
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.session.diagnostics import MachineError

_MAP = re.compile(
    r"affine_map<\((?P<dims>[^)]*)\)(?:\[(?P<symbols>[^\]]*)\])?\s*->\s*\((?P<body>.*)\)>$"
)
_SET = re.compile(
    r"affine_set<\((?P<dims>[^)]*)\)(?:\[(?P<symbols>[^\]]*)\])?\s*:\s*\((?P<body>.*)\)>$"
)


@dataclass(frozen=True)
class AffineMap:
    """A map from dimensions and symbols to results; `results` are parsed expressions."""

    names: tuple[str, ...]
    results: tuple[ast.expr, ...]
    dimensions: int

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
    """Read an affine map."""
    match = _MAP.match(text.strip())
    if match is None:
        raise MachineError(f"cannot read the affine map '{text}'", code="unsupported-op")
    dims, symbols = _names(match["dims"]), _names(match["symbols"] or "")
    results = tuple(_parse(part) for part in _split(match["body"]))
    return AffineMap((*dims, *symbols), results, len(dims))


def parse_set(text: str) -> Callable[[tuple[Any, ...]], Any]:
    """Read an integer set; the result tells for which lanes all its constraints hold."""
    match = _SET.match(text.strip())
    if match is None:
        raise MachineError(f"cannot read the integer set '{text}'", code="unsupported-op")
    names = (*_names(match["dims"]), *_names(match["symbols"] or ""))
    constraints = []
    for part in _split(match["body"]):
        left, relation, _ = re.split(r"(>=|==)", part)
        constraints.append((_parse(left), relation))

    def holds(operands: tuple[Any, ...]) -> Any:
        values = dict(zip(names, operands, strict=True))
        result = np.array([True])
        for expression, relation in constraints:
            value = _evaluate(expression, values)
            result = result & (value >= 0 if relation == ">=" else value == 0)
        return result

    return holds


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _split(body: str) -> list[str]:
    """Cut at the commas outside parentheses."""
    parts, depth, current = [], 0, ""
    for character in body:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part for part in (*parts, current) if part.strip()]


def _parse(text: str) -> ast.expr:
    # Python's `@` has the precedence of `*` and `//`, so it can stand for ceildiv.
    python = text.replace("floordiv", "//").replace("ceildiv", "@")
    python = re.sub(r"\bmod\b", "%", python).strip()
    return ast.parse(python, mode="eval").body


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
    raise MachineError(f"cannot evaluate {ast.dump(node)}", code="unsupported-op")


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.MatMult: lambda a, b: -np.floor_divide(-a, b),
}
