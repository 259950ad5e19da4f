"""Keeps LLVM's NVIDIA back end from reading what a mask leaves out.

    llvm.intr.masked.load %p, 0b00011111, %zero   -->  loads of 4 and of 1, inserted into %zero
    llvm.intr.masked.load %p, %mask, %zero        -->  the same with %mask through an empty asm

With a mask that it knows and 16 aligned bytes the back end loads the whole vector and gives its
elements also where the mask is 0: memory instead of the pass-through. It learns a mask too by
unrolling a loop, so a mask that is no constant yet is hidden from it; it then tests each bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    defining_op,
    integer_attribute,
)
from mlir_async_pipe.facts.values.llvm_builder import REGISTERS, LlvmBuilder
from mlir_async_pipe.vocabulary.memory_layout import layout_of

MASKED_LOAD = "llvm.intr.masked.load"
_LARGEST_LOAD_BYTES = 16


def settle_masked_loads(loads: Iterable[Operation]) -> None:
    """Rewrite masked loads of a converted gpu.module."""
    for op in loads:
        mask = _constant_mask(op.operands[1])
        if mask is None:
            op.operands[1] = _hidden_mask(op)
            continue
        op.results[0].replace_all_uses_with(_loaded(op, mask))
        op.erase()


def _constant_mask(mask: Value) -> list[bool] | None:
    """The elements of a mask that is a constant, else None."""
    op = defining_op(mask)
    length = int(ir.VectorType(mask.type).shape[0])
    if op is None or op.name not in ("llvm.mlir.constant", "llvm.mlir.zero"):
        return None
    if op.name == "llvm.mlir.zero":
        return [False] * length
    return [bool(flag) for flag in ir.DenseIntElementsAttr(op.attributes["value"])]


def _loaded(op: Operation, mask: list[bool]) -> Value:
    """The pass-through with the elements that the mask keeps."""
    pointer, _, value = op.operands
    kind = ir.VectorType(op.results[0].type).element_type
    size = layout_of(kind).stride_bytes
    build = LlvmBuilder(before(op), op.location)
    for piece in _pieces(mask, size, integer_attribute(op, "alignment") or size):
        offset = build.number(piece.first * size)
        # LLVM's vectoriser makes neighbouring loads one again, and fills the gaps after them.
        place = build.at(pointer, build.hidden(offset) if piece.first else offset)
        loaded = _load(build, place, kind, piece)
        for number in range(piece.elements):
            element = build.element(loaded, number) if piece.elements > 1 else loaded
            value = build.with_element(value, element, piece.first + number)
    return value


@dataclass(frozen=True)
class _Piece:
    """`elements` neighbours from element `first` on that one load reads."""

    first: int
    elements: int
    alignment: int


def _pieces(mask: list[bool], size: int, known: int) -> Iterator[_Piece]:
    """The loads that read what the mask keeps: five halves at 16 are one of four and one."""
    first = 0
    while first < len(mask):
        offset = first * size
        alignment = min(known, offset & -offset) if offset else known
        elements = 1
        while (
            2 * elements * size <= min(alignment, _LARGEST_LOAD_BYTES)
            and first + 2 * elements <= len(mask)
            and all(mask[first : first + 2 * elements])
        ):
            elements *= 2
        if mask[first]:
            yield _Piece(first, elements, alignment)
            first += elements
        else:
            first += 1


def _hidden_mask(op: Operation) -> Value:
    """The mask of a load as a value that LLVM cannot know."""
    mask = op.operands[1]
    length = int(ir.VectorType(mask.type).shape[0])
    build = LlvmBuilder(before(op), op.location)
    wide = next((width for width in REGISTERS if width >= length), None)
    number = build.cast("llvm.bitcast", mask, build.integer(length))
    if wide is None:
        ones = build.cast("llvm.sext", build.hidden(build.number(-1)), build.integer(length))
        number = build.binary("llvm.and", number, ones)
    elif wide == length:
        number = build.hidden(number)
    else:
        number = build.hidden(build.cast("llvm.zext", number, build.integer(wide)))
        number = build.cast("llvm.trunc", number, build.integer(length))
    return build.cast("llvm.bitcast", number, mask.type)


def _load(build: LlvmBuilder, place: Value, kind: Any, piece: _Piece) -> Value:
    if piece.elements > 1:
        kind = ir.VectorType.get([piece.elements], kind, loc=build.location)
    alignment = ir.IntegerAttr.get(build.integer(64), piece.alignment)
    return build.make("llvm.load", [place], kind, {"alignment": alignment})
