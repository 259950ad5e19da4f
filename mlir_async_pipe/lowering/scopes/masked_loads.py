"""The load behind a stored value, and which of its elements a mask or a condition keeps.

    %m = vector.create_mask %n
    %v = vector.maskedload %A[%i], %m, %zeros          load, kept = (Leading(%n),)
    %v = vector.transfer_read %A[%i], %zero            load, kept = (UntilEnd(%A, %i),)
    %v = arith.select %c, %loaded, %zero               load, kept = (AllIf(%c, True),)
    %v = scf.if %c { load } else { %zero }             load, kept = (AllIf(%c, True),)

An asynchronous copy reads leading elements and writes zeros after them (PTX ISA, cp.async,
src-size), so no other mask and no other value can be copied. A transfer's first element lies at
subscripts of 0 or more, as MLIR's own lowering of transfers takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import copysign
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    before,
    defining_op,
    integer_attribute,
    operations,
    parent,
    terminator,
    users,
)
from mlir_async_pipe.facts.values.llvm_builder import REGISTERS, LlvmBuilder
from mlir_async_pipe.vocabulary import accesses, groups_of, is_pure, order_of
from mlir_async_pipe.vocabulary.memory_layout import layout_of
from mlir_async_pipe.vocabulary.memory_ops import shape_of

SYNC_FALLBACK = "sync-fallback"
NONZERO_FILL = "nonzero-fill"
_LOADS = ("memref.load", "vector.load", "vector.maskedload", "vector.transfer_read", "llvm.load")
# Pure, but undefined for a divisor of 0, which a condition may rule out.
_DIVISIONS = ("div", "rem")


@dataclass(frozen=True)
class Leading:
    """The first `count` elements; below 0 is none, more than there are is all."""

    count: Value | int


@dataclass(frozen=True)
class UntilEnd:
    """The elements from subscript `index` to the end of the last dimension of `memory`."""

    memory: Value
    index: Value


@dataclass(frozen=True)
class AllIf:
    """All elements where the i1 `condition` equals `holds`, else none."""

    condition: Value
    holds: bool


Part = Leading | UntilEnd | AllIf


@dataclass(frozen=True)
class LoadedValue:
    """`load` reads the elements that all parts of `kept` keep, () being all of them.

    `through` are the selections and conditions between it and the value, the last one first.
    """

    load: Operation
    kept: tuple[Part, ...]
    through: tuple[Operation, ...]


@dataclass(frozen=True)
class NotCopies:
    """Why a value is none that a copy could write, or a chip cannot issue a scope asynchronously: a
    sentence, and the op that it is about.

    `code` is `nonzero-fill` where that is refused, else `sync-fallback`.
    """

    reason: str
    at: Operation
    code: str = SYNC_FALLBACK


def loaded_value(store: Operation) -> LoadedValue | NotCopies:
    """The load whose result the store of operand 0 writes, with what it keeps."""
    value = store.operands[0]
    kept: list[Part] = []
    through: list[Operation] = []
    while (op := defining_op(value)) is not None:
        if len(users(value)) > 1:
            return NotCopies(f"the value that '{op.name}' gives has another use", op)
        if order_of(op).strong:
            return NotCopies(f"'{op.name}' is volatile or atomic", op)
        if op.name in _LOADS:
            guarded = _reaches(op.block, store) and not through
            if not guarded and op.block != store.block and not _is_then(op.block, through):
                return NotCopies(f"'{op.name}' stands in another block than the store", op)
            found = _kept_by_load(op)
            if isinstance(found, NotCopies):
                return found
            return LoadedValue(op, (*kept, *found), tuple(through))
        if accesses(op):
            return NotCopies(f"'{op.name}' is no load that a copy can do", op)
        step = _selected(op) if op.name == "arith.select" else _conditional(op)
        if isinstance(step, NotCopies):
            return step
        if step is None or op.block != store.block:
            break
        value, parts = step
        kept += parts
        through.append(op)
    return NotCopies(f"the value that '{store.name}' writes is computed, not loaded", store)


def _reaches(block: Any, store: Operation) -> bool:
    """Whether `store` stands in `block`, or in it under conditions: if it runs, it runs once."""
    current = store
    while current.block != block:
        above = parent(current)
        if above is None or above.name != "scf.if":
            return False
        current = above
    return True


def _is_then(block: Any, through: list[Operation]) -> bool:
    return (
        bool(through) and through[-1].name == "scf.if" and through[-1].regions[0].blocks[0] == block
    )


_Step = tuple[Value, tuple[Part, ...]]


def _selected(select: Operation) -> _Step | NotCopies | None:
    """arith.select of a loaded value and zero; None if nothing that is loaded is selected."""
    condition, first, second = select.operands
    holds = _may_be_loaded(first)
    loaded, other = (first, second) if holds else (second, first)
    if not _may_be_loaded(loaded):
        return None
    if not is_zero(other):
        return _nonzero(select) if _is_constant(other) else None
    if not shape_of(condition.type):
        return loaded, (AllIf(condition, holds),)
    parts = _kept_by_mask(condition) if holds else None
    return _no_prefix(select) if parts is None else (loaded, parts)


def _conditional(op: Operation) -> _Step | NotCopies | None:
    """scf.if that loads, else gives zero; None for any other op."""
    if op.name != "scf.if" or len(op.results) != 1:
        return None
    block, otherwise = (region.blocks[0] for region in op.regions)
    (loaded,), (other,) = terminator(block).operands, terminator(otherwise).operands
    source = defining_op(loaded)
    if source is None or source.name not in _LOADS or source.block != block:
        return None
    inside = (*operations(block)[:-1], *operations(otherwise)[:-1])
    if not all(may_move(inner) for inner in inside if inner != source):
        return None
    return (loaded, (AllIf(op.operands[0], True),)) if is_zero(other) else _nonzero(op)


def _may_be_loaded(value: Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name in (*_LOADS, "scf.if", "arith.select")


def may_move(op: Operation) -> bool:
    """Whether an op may run where its condition does not hold."""
    plain = is_pure(op) and len(op.regions) == 0
    return plain and not any(part in op.name for part in _DIVISIONS)


def _kept_by_load(load: Operation) -> tuple[Part, ...] | NotCopies:
    if load.name not in ("vector.maskedload", "vector.transfer_read"):
        return ()
    groups = groups_of(load)
    masked = [load.operands[i] for i in groups["mask"]]
    otherwise = load.operands[groups["padding"][0]]
    kept = _kept_by_mask(masked[0]) if masked else ()
    if kept is None:
        return _no_prefix(load)
    if load.name == "vector.transfer_read":
        if not moves_row(load):
            return NotCopies("its elements are not next to each other in memory", load)
        if not in_bounds(load):
            (access,) = accesses(load)
            kept = (*kept, UntilEnd(access.memory, access.indices[-1]))
    if kept and not is_zero(otherwise):
        return _nonzero(load)
    return kept


def _kept_by_mask(mask: Value) -> tuple[Part, ...] | None:
    """What a one-dimensional mask keeps, None if that may be other than leading elements."""
    op = defining_op(mask)
    if op is None or len(shape_of(mask.type)) != 1:
        return None
    match op.name:
        case "vector.create_mask":
            return (Leading(op.operands[0]),)
        case "vector.constant_mask":
            (kept,) = ir.DenseI64ArrayAttr(op.attributes["mask_dim_sizes"])
            return (Leading(int(kept)),)
        case "vector.broadcast" if not shape_of(op.operands[0].type):
            return (AllIf(op.operands[0], True),)
        case "arith.andi":
            both = [_kept_by_mask(operand) for operand in op.operands]
            return None if None in both else tuple(part for kept in both for part in kept or ())
        case "arith.constant":
            flags = [bool(flag) for flag in ir.DenseIntElementsAttr(op.attributes["value"])]
            count = sum(flags)
            return (Leading(count),) if all(flags[:count]) else None
    return None


def _is_constant(value: Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name == "arith.constant"


def is_zero(value: Value) -> bool:
    """Whether all bits of the value are 0 (-0.0 has one), or may be: ub.poison."""
    op = defining_op(value)
    if op is None:
        return False
    if op.name in ("vector.broadcast", "vector.splat"):
        return is_zero(op.operands[0])
    constant = op.name == "arith.constant" and _is_zero_attribute(op.attributes["value"])
    return constant or op.name == "ub.poison"


def _is_zero_attribute(given: Any) -> bool:
    if (elements := as_kind(ir.DenseElementsAttr, given)) is not None:
        return elements.is_splat and _is_zero_attribute(elements.get_splat_value())
    if (number := as_kind(ir.FloatAttr, given)) is not None:
        return number.value == 0 and copysign(1, number.value) > 0
    integer = as_kind(ir.IntegerAttr, given)
    return integer is not None and int(integer.value) == 0


def _nonzero(op: Operation) -> NotCopies:
    return NotCopies(
        f"'{op.name}' gives another value than zero where it does not load", op, NONZERO_FILL
    )


def _no_prefix(op: Operation) -> NotCopies:
    return NotCopies(f"the mask of '{op.name}' may keep other elements than the leading ones", op)


# What `vector.transfer_read` and `vector.transfer_write` move, beside a plain load or store.
#
# A transfer is a load or a store if it moves neighbours of the last dimension, has no mask and
# stays in bounds; MLIR's own lowering (`lower_transfer`) makes the same distinction.


def moves_row(transfer: Operation) -> bool:
    """Whether a transfer moves neighbours in the last dimension, as vector.load does."""
    moved = ir.AffineMapAttr(transfer.attributes["permutation_map"]).value
    return list(moved.results) == [ir.AffineExpr.get_dim(moved.n_dims - 1, transfer.context)]


def in_bounds(transfer: Operation) -> bool:
    """Whether a transfer says of every dimension that it does not leave the memory."""
    if "in_bounds" not in transfer.attributes:
        return False
    flags = list(ir.ArrayAttr(transfer.attributes["in_bounds"]))
    return bool(flags) and all(ir.BoolAttr(flag).value for flag in flags)


def is_plain(transfer: Operation) -> bool:
    """Whether a transfer moves every element of a row, as vector.load and vector.store do."""
    masked = groups_of(transfer).get("mask")
    return not masked and moves_row(transfer) and in_bounds(transfer)


# Loads of LLVM -----------------------------------------------------------------------------------
#
# Keeps LLVM's NVIDIA back end from reading what a mask leaves out.
#
#     llvm.intr.masked.load %p, 0b00011111, %zero   -->  loads of 4 and of 1, inserted into %zero
#     llvm.intr.masked.load %p, %mask, %zero        -->  the same with %mask through an empty asm
#
# With a mask that it knows and 16 aligned bytes the back end loads the whole vector and gives its
# elements also where the mask is 0: memory instead of the pass-through. It learns a mask too by
# unrolling a loop, so a mask that is no constant yet is hidden from it; it then tests each bit.


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
        offset, elements = first * size, 1
        alignment = min(known, offset & -offset) if offset else known
        most = min(alignment, _LARGEST_LOAD_BYTES) // size
        while 2 * elements <= most and mask[first : first + 2 * elements] == [True] * 2 * elements:
            elements *= 2
        if mask[first]:
            yield _Piece(first, elements, alignment)
        first += elements if mask[first] else 1


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
