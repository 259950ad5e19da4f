"""Integer ops on abstract numbers: what a domain is, and what of it is the same in all.

    arith.addi %x, %y     Ranges    [0, 31] + [0, 3] = [0, 34]
                          Divisors  8 divides %x, 4 divides %y: 4 divides the sum
                          Numbers, LinearForms, the checker's Forms

A domain has one method for each operator of `operator_table`: (op, operands, what else is known)
to the result, None where it does not know it. Numbers of iN stand as signed ones, i1 as 0 or 1.
Affine maps, split and joined indices are made of the other operators here, once for all.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import DYNAMIC, Value, defining_op, printed, type_text
from mlir_async_pipe.facts.values.integer_ops import (
    INDEX_BITS,
    PREDICATES,
    bits_of_text,
    integer_constant,
)
from mlir_async_pipe.vocabulary import operator_table
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, PRODUCT, SUM, Operator, is_operator

# The ops of the affine dialect as the operators that they are made of.
#
#     affine_map<(d0)[s0] -> (d0 * 4 + s0)>     (SUM, (PRODUCT, Place(0), 4), Place(1))
#
#     %r:3 = affine.delinearize_index %x into (4, 8, 16)      %x div 128, %x div 16 mod 8, %x mod 16
#     %y = affine.linearize_index [%a, %b, %c] by (4, 8, 16)  128 %a + 16 %b + %c
#
# The outermost size of a split or a join is a promise about the range only and may be left out. It is no modulus.


class OperandPlace(NamedTuple):
    """The number of an operand: dimensions first, symbols after them."""

    operand: int


Expression: TypeAlias = "int | OperandPlace | tuple[Operator, Expression, Expression]"


def results_of_map(attribute: Any) -> tuple[Expression, ...]:
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
    (lambda: ir.AffineModExpr, operator_table.MODULUS),
    (lambda: ir.AffineFloorDivExpr, operator_table.FLOOR_DIVISION),
    (lambda: ir.AffineCeilDivExpr, operator_table.CEILING_DIVISION),
)


@dataclass(frozen=True)
class SplitPart:
    """One result of a split: x div `stride`, and that mod `modulus` where there is one.

    `bound`: the result is below this number, None if the op does not say.
    """

    stride: int
    modulus: int | None
    bound: int | None


def parts_of_split(op: Any) -> tuple[SplitPart, ...] | None:
    """What each result of a split is, None where a size is no constant."""
    outer, inner = _sizes(op, len(op.results))
    if any(size is None for size in inner):
        return None
    strides = _strides(inner)
    first = SplitPart(strides[0], None, outer)
    return (first, *(SplitPart(s, size, size) for s, size in zip(strides[1:], inner, strict=True)))


def weights_of_join(op: Any) -> tuple[int, ...] | None:
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


T = TypeVar("T")
K = TypeVar("K")


class Typed(NamedTuple):
    """An op with a row, what is asked of its types and attributes read once: `bits` of its
    result, `given` those of its last operand; `nsw`, `nuw`: a result that does not fit, as a
    signed or an unsigned number, does not occur. `scalar`: its types are integers or index, and its row says what each result is.
    `detail` is a comparison's predicate, the results of an affine map, the parts of a split or
    the weights of a join (None where one is no constant)."""

    op: Any
    row: Operator
    bits: int = INDEX_BITS
    given: int = INDEX_BITS
    nsw: bool = False
    nuw: bool = False
    scalar: bool = True
    detail: Any = None


def typed(op: Any) -> Typed:
    """Read an op that has a row."""
    row, nsw, nuw = _promised(op)
    result = type_text(op.results[0].type)
    operands = op.operands
    last = type_text(operands[len(operands) - 1].type) if len(operands) else result
    bits, given = bits_of_text(result), bits_of_text(last)
    return Typed(
        op,
        row,
        bits or INDEX_BITS,
        given or INDEX_BITS,
        nsw,
        nuw,
        # Of several results one meaning is not that of each.
        bits is not None and given is not None and (len(op.results) == 1 or row.method == "split"),
        _DETAILS[row.method](op) if row.method in _DETAILS else None,
    )


def _promised(op: Any) -> tuple[Operator, bool, bool]:
    """The row of an op with what its flags promise; and its `nsw` and `nuw`.

    `or disjoint` is a sum that carries nothing; an operand that is not negative is read either way.
    """
    row, attributes = OPERATORS[op.name], op.attributes
    if row.method == "or_" and "isDisjoint" in attributes:
        return SUM, True, True
    if row.method == "cast" and any(name in attributes for name in ("nneg", "nonNeg")):
        row = row._replace(sign="s")
    if "overflowFlags" in attributes:
        flags = type_text(attributes["overflowFlags"])
    elif op.name in operator_table.FLAGS_AS_PROPERTY:
        found = _FLAGS.match(printed(op))
        flags = found[1] if found else ""
    else:
        flags = ""
    return row, "nsw" in flags, "nuw" in flags


def is_sum_or_product(name: str) -> bool:
    """Whether ops called `name` compute sums, differences or products, which wrap unless they say otherwise."""
    return OPERATORS.get(name) in (SUM, operator_table.DIFFERENCE, PRODUCT)


def set_no_wrap(op: Any) -> None:
    """Let an op say that its result fits, as a signed number."""
    kind = "llvm.overflow" if op.name in operator_table.FLAGS_AS_PROPERTY else "arith.overflow"
    op.attributes["overflowFlags"] = ir.Attribute.parse(f"#{kind}<nsw>", op.context)


# `%2 = llvm.add %0, %1 overflow<nsw, nuw> : i32`; in attributes behind it anything may stand.
_FLAGS = re.compile(r"[^{]*? overflow<([^>]*)>")


def predicate_of(op: Any) -> str | None:
    """The predicate of a comparison of integers; None of other ops, and of none."""
    return _predicate(op) if op is not None and is_operator(op.name, "cmp") else None


def _predicate(op: Any) -> str | None:
    if op.name != "index.cmp":
        return PREDICATES[int(ir.IntegerAttr(op.attributes["predicate"]).value)]
    text = str(op.attributes["pred"])
    return next((p for p in PREDICATES if f" {p}" in text or f"({p})" in text), None)


def _map(op: Any) -> tuple[Expression, ...]:
    return results_of_map(op.attributes["map"])


_DETAILS: dict[str, Callable[[Any], Any]] = {
    "cmp": _predicate,
    "apply": _map,
    "apply_least": _map,
    "apply_largest": _map,
    "split": parts_of_split,
    "join": weights_of_join,
}


class Domain(ABC, Generic[T, K]):
    """What a domain does not override it does not know."""

    @abstractmethod
    def constant(self, number: int) -> T:
        """A number."""

    def of(self, value: Value, get: Callable[[Value], T | None], known: K, /) -> T | None:
        """What a constant is, or an integer that an op with a row makes of operands that are known."""
        constant = integer_constant(value)
        if constant is not None:
            return self.constant(constant)
        op = defining_op(value)
        if op is None or op.name not in OPERATORS or not (one := typed(op)).scalar:
            return None
        operands = op.operands
        v = [made for operand in operands if (made := get(operand)) is not None]
        return self.result(value, one, v, known) if len(v) == len(operands) else None

    def evaluate(self, op: Typed, v: list[T], known: K, /) -> T | None:
        """What an op with one result makes of its operands."""
        made: T | None = getattr(self, op.row.method)(op, v, known)
        return made

    def result(self, value: Value, op: Typed, v: list[T], known: K, /) -> T | None:
        """What an op makes of its operands, for one of its results."""
        if op.row.method != "split":
            return self.evaluate(op, v, known)
        if op.detail is None:
            return None
        return self.part(op, op.detail[ir.OpResult(value).result_number], v, known)

    # -- operators ----------------------------------------------------------------------------

    def unknown(self, op: Typed, v: list[T], known: K, /) -> T | None:
        """What an operator is that the domain does not have."""
        return None

    # Shifts by the width or more are poison; `div` rounds, and `rem` is what that leaves, as the
    # row says; `select` gives the second operand where the first is 1, else the third; `cmp` has
    # its predicate in `detail`; `cast` extends as the row says, or cuts.
    add = sub = mul = div = rem = unknown
    and_ = or_ = xor = shl = shr = unknown
    min = max = select = cmp = cast = unknown

    # -- made of these ------------------------------------------------------------------------

    def apply(self, op: Typed, v: list[T], known: K, /) -> T | None:
        """affine.apply."""
        return self._expression(op, op.detail[0], v, known)

    def apply_least(self, op: Typed, v: list[T], known: K, /) -> T | None:
        """affine.min: the smallest result of a map."""
        return self._extreme(op, operator_table.LEAST, v, known)

    def apply_largest(self, op: Typed, v: list[T], known: K, /) -> T | None:
        """affine.max: the largest result of a map."""
        return self._extreme(op, operator_table.LARGEST, v, known)

    def join(self, op: Typed, v: list[T], known: K, /) -> T | None:
        """affine.linearize_index."""
        if op.detail is None:
            return None
        scaled = (
            self._binary(op, PRODUCT, number, self.constant(weight), known)
            for number, weight in zip(v, op.detail, strict=False)
        )
        return reduce(lambda a, b: self._binary(op, SUM, a, b, known), scaled)

    def part(self, op: Typed, part: SplitPart, v: list[T], known: K, /) -> T | None:
        """One result of affine.delinearize_index."""
        found = self._binary(
            op, operator_table.FLOOR_DIVISION, v[0], self.constant(part.stride), known
        )
        if part.modulus is None:
            return found
        return self._binary(op, operator_table.MODULUS, found, self.constant(part.modulus), known)

    def _expression(self, op: Typed, tree: Expression, v: list[T], known: K) -> T | None:
        if isinstance(tree, int):
            return self.constant(tree)
        if isinstance(tree, OperandPlace):
            return v[tree.operand]
        row, left, right = tree
        a, b = (self._expression(op, side, v, known) for side in (left, right))
        return self._binary(op, row, a, b, known)

    def _extreme(self, op: Typed, row: Operator, v: list[T], known: K) -> T | None:
        results = [self._expression(op, tree, v, known) for tree in op.detail]
        return reduce(lambda a, b: self._binary(op, row, a, b, known), results)

    def _binary(self, op: Typed, row: Operator, a: T | None, b: T | None, known: K) -> T | None:
        if a is None or b is None:
            return None
        return self.evaluate(op._replace(row=row, detail=None), [a, b], known)
