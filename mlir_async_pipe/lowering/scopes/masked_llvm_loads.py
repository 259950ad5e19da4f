"""Keeps LLVM's NVIDIA back end from reading what a mask leaves out.

    llvm.intr.masked.load %p, 0b00011111, %zero   -->  loads of 4 and of 1, inserted into %zero
    llvm.intr.masked.load %p, %mask, %zero        -->  the same with %mask through an empty asm

With a mask that it knows and 16 aligned bytes the back end loads the whole vector and gives its
elements also where the mask is 0: memory instead of the pass-through. It learns a mask too by
unrolling a loop, so a mask that is no constant yet is hidden from it; it then tests each bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    create,
    defining_op,
    integer_attribute,
    walk,
)
from mlir_async_pipe.vocabulary.memory_layout import layout_of

_MASKED_LOAD = "llvm.intr.masked.load"
# Register classes of inline PTX, by their bits.
_REGISTERS = {16: "h", 32: "r", 64: "l"}
_LARGEST_LOAD_BYTES = 16


def settle_masked_loads(gpu_module: Operation) -> None:
    """Rewrite every masked load of a converted gpu.module."""
    for op in [op for op in walk(gpu_module) if op.name == _MASKED_LOAD]:
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
    build = _Builder(before(op), op.location)
    for piece in _pieces(mask, size, integer_attribute(op, "alignment") or size):
        offset = build.number(piece.first * size)
        # LLVM's vectoriser makes neighbouring loads one again, and fills the gaps after them.
        place = build.at(pointer, build.hidden(offset) if piece.first else offset)
        loaded = build.load(place, kind, piece)
        for number in range(piece.elements):
            element = build.extract(loaded, number) if piece.elements > 1 else loaded
            value = build.insert(value, element, piece.first + number)
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
    build = _Builder(before(op), op.location)
    wide = next((width for width in _REGISTERS if width >= length), None)
    number = build.cast("llvm.bitcast", mask, build.integer(length))
    if wide is None:
        ones = build.cast("llvm.sext", build.hidden(build.number(-1)), build.integer(length))
        number = build.both(number, ones)
    elif wide == length:
        number = build.hidden(number)
    else:
        number = build.hidden(build.cast("llvm.zext", number, build.integer(wide)))
        number = build.cast("llvm.trunc", number, build.integer(length))
    return build.cast("llvm.bitcast", number, mask.type)


@dataclass(frozen=True)
class _Builder:
    """Makes ops of the LLVM dialect in one place."""

    ip: Any
    loc: Any

    def integer(self, width: int) -> Any:
        return ir.IntegerType.get_signless(width, self.loc.context)

    def _make(
        self, name: str, operands: list[Value], result: Any, attributes: dict[str, Any]
    ) -> Value:
        made = create(name, operands, [result], attributes, ip=self.ip, loc=self.loc)
        return made.results[0]

    def number(self, value: int) -> Value:
        attribute = ir.IntegerAttr.get(self.integer(64), value)
        return self._make("llvm.mlir.constant", [], self.integer(64), {"value": attribute})

    def cast(self, name: str, value: Value, kind: Any) -> Value:
        return self._make(name, [value], kind, {})

    def both(self, a: Value, b: Value) -> Value:
        return self._make("llvm.and", [a, b], a.type, {})

    def hidden(self, value: Value) -> Value:
        """The same integer, of which LLVM knows nothing: an inline asm without instructions."""
        register = _REGISTERS[ir.IntegerType(value.type).width]
        attributes = {
            "asm_string": ir.StringAttr.get("", self.loc.context),
            "constraints": ir.StringAttr.get(f"={register},0", self.loc.context),
        }
        return self._make("llvm.inline_asm", [value], value.type, attributes)

    def at(self, pointer: Value, offset: Value) -> Value:
        """The pointer, `offset` bytes further on."""
        dynamic = -(2**31)
        attributes = {
            "rawConstantIndices": ir.DenseI32ArrayAttr.get([dynamic], self.loc.context),
            "elem_type": ir.TypeAttr.get(self.integer(8), self.loc.context),
        }
        return self._make("llvm.getelementptr", [pointer, offset], pointer.type, attributes)

    def load(self, place: Value, kind: Any, piece: _Piece) -> Value:
        if piece.elements > 1:
            kind = ir.VectorType.get([piece.elements], kind, loc=self.loc)
        alignment = ir.IntegerAttr.get(self.integer(64), piece.alignment)
        return self._make("llvm.load", [place], kind, {"alignment": alignment})

    def extract(self, vector: Value, number: int) -> Value:
        element = ir.VectorType(vector.type).element_type
        return self._make("llvm.extractelement", [vector, self.number(number)], element, {})

    def insert(self, vector: Value, element: Value, number: int) -> Value:
        operands = [vector, element, self.number(number)]
        return self._make("llvm.insertelement", operands, vector.type, {})
