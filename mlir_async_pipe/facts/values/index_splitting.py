"""affine.delinearize_index and affine.linearize_index as division, remainder and sum.

    %r:3 = affine.delinearize_index %x into (4, 8, 16)      %x div 128, %x div 16 mod 8, %x mod 16
    %y = affine.linearize_index [%a, %b, %c] by (4, 8, 16)  128 %a + 16 %b + %c

The outermost size is a promise about the range only and may be left out. It is no modulus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import DYNAMIC
from mlir_async_pipe.facts.values.integer_ops import product


@dataclass(frozen=True)
class Part:
    """One result of a split: x div `stride`, and that mod `modulus` where there is one.

    `bound`: the result is below this number, None if the op does not say.
    """

    stride: int
    modulus: int | None
    bound: int | None


def parts_of(op: Any) -> tuple[Part, ...] | None:
    """What each result of a split is, None where a size is no constant."""
    outer, inner = _sizes(op, len(op.results))
    if any(size is None for size in inner):
        return None
    strides = _strides(inner)
    first = Part(strides[0], None, outer)
    return (first, *(Part(s, size, size) for s, size in zip(strides[1:], inner, strict=True)))


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
    return tuple(product(inner[place:]) for place in range(len(inner) + 1))
