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

from dataclasses import dataclass
from math import copysign
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    defining_op,
    operations,
    parent,
    terminator,
    users,
)
from mlir_async_pipe.vocabulary import (
    accesses,
    groups_of,
    is_pure,
    order_of,
)
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
        if _is_constant(other):
            return _nonzero(select)
        return None
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
    if not all(may_move(inner) for inner in operations(block)[:-1] if inner != source):
        return None
    if not all(may_move(inner) for inner in operations(otherwise)[:-1]):
        return None
    if not is_zero(other):
        return _nonzero(op)
    return loaded, (AllIf(op.operands[0], True),)


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
    if op.name == "vector.create_mask":
        return (Leading(op.operands[0]),)
    if op.name == "vector.constant_mask":
        return (Leading(int(next(iter(ir.DenseI64ArrayAttr(op.attributes["mask_dim_sizes"]))))),)
    if op.name == "vector.broadcast" and not shape_of(op.operands[0].type):
        return (AllIf(op.operands[0], True),)
    if op.name == "arith.andi":
        both = [_kept_by_mask(operand) for operand in op.operands]
        return None if None in both else tuple(part for kept in both for part in kept or ())
    if op.name == "arith.constant":
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
    if op.name == "ub.poison":
        return True
    if op.name in ("vector.broadcast", "vector.splat"):
        return is_zero(op.operands[0])
    return op.name == "arith.constant" and _is_zero_attribute(op.attributes["value"])


def _is_zero_attribute(given: Any) -> bool:
    try:
        elements = ir.DenseElementsAttr(given)
        return elements.is_splat and _is_zero_attribute(elements.get_splat_value())
    except ValueError:
        pass
    try:
        number = float(ir.FloatAttr(given).value)
        return number == 0 and copysign(1, number) > 0
    except ValueError:
        pass
    try:
        return int(ir.IntegerAttr(given).value) == 0
    except ValueError:
        return False


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
    last = ir.AffineExpr.get_dim(moved.n_dims - 1, transfer.context)
    return list(moved.results) == [last]


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
