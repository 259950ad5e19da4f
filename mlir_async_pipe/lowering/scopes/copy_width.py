"""How many bytes one asynchronous copy of a chip moves, where a load and a store become copies.

    vector.load %A[%i] : vector<8xf16>       aligned to 16 and 16: one copy of 16 bytes
    vector.store %tile[%j]                   aligned to  8 and 16: two copies of 8 (the load)

Both addresses must be known to be aligned to the copy's size (PTX ISA, cp.async), from what
`alignment` proves and from the `alignment` that the load or store itself states. By pointers of LLVM
that is what they state, else what LLVM takes for granted, the alignment of their type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.values.alignment import access_alignment, element_bytes, static_strides
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.pointers import is_pointer
from mlir_async_pipe.vocabulary import Access, AccessKind
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, is_packed, layout_of
from mlir_async_pipe.vocabulary.memory_ops import shape_of


@dataclass(frozen=True)
class CopyWidth:
    """A row of `elements` of `element_bytes`, in copies of `piece_bytes`. `narrowed_by` is the access whose
    alignment is not known well enough for a wider copy that the chip has."""

    elements: int
    element_bytes: int
    piece_bytes: int
    narrowed_by: Access | None


@dataclass(frozen=True)
class _Row:
    """What a copy moves, and the known alignment of both addresses, by the kind of access."""

    elements: int
    element_bytes: int
    known: dict[AccessKind, int]


def copy_width(
    source: Access, target: Access, chip: Chip, arithmetic: Arithmetic
) -> CopyWidth | str:
    """The widest copies that the chip has and that both addresses are aligned for; else why not."""
    by_pointer = [access.op for access in (source, target) if is_pointer(access.memory)]
    if by_pointer and (len(by_pointer) == 1 or chip.lowering != "nvvm"):
        return f"'{by_pointer[0].name}' goes by a pointer, and copies are made between memrefs"
    row = (
        _between_pointers(source.op, target.op)
        if by_pointer
        else _between_memrefs(source, target, arithmetic)
    )
    if isinstance(row, str):
        return row
    elements, element, known = row.elements, row.element_bytes, row.known
    total = elements * element
    sizes = [size for size in chip.copy_bytes if _divides(size, total, element, chip)]
    fitting = [
        size
        for size in sizes
        if known[target.kind] >= size and known[source.kind] >= _source_alignment(size, chip)
    ]
    if not fitting:
        listed = ", ".join(map(str, chip.copy_bytes))
        return (
            f"{chip.name} copies {listed} bytes, and this copy has {total} bytes at addresses "
            f"that are known to be aligned to {min(known.values())}"
        )
    piece, widest = max(fitting), max(sizes)
    if piece < widest:
        narrow = target if known[target.kind] < widest else source
        return CopyWidth(elements, element, piece, narrow)
    # Where lanes write side by side, a copy for one thread stays whole: cut into pieces of the
    # chip's size its lanes would no longer be neighbours.
    return CopyWidth(elements, element, total if _shares_address(chip) else piece, None)


def _between_memrefs(source: Access, target: Access, arithmetic: Arithmetic) -> _Row | str:
    extent = target.extent
    if not is_packed(target.memory) or extent is None or len(extent) > 1:
        return "its elements do not lie in one row of whole bytes without padding"
    for access in (source, target):
        strides = static_strides(access.memory)
        if not strides or strides[-1] != 1:
            return f"the elements of '{access.op.name}' are not next to each other in memory"
    if str(ir.MemRefType(target.memory.type).element_type) == "index":
        # The verifiers of the copy ops ask for the element's width, which ends the process.
        return "no chip's copy has elements of type index"
    known = {access.kind: _known_alignment(access, arithmetic) for access in (source, target)}
    return _Row(extent[0] if extent else 1, element_bytes(target.memory), known)


def _between_pointers(load: Any, store: Any) -> _Row | str:
    """The same of llvm.load and llvm.store."""
    kind = store.operands[0].type
    try:
        row = layout_of(kind)
        element = layout_of(ir.VectorType(kind).element_type) if shape_of(kind) else row
    except UnknownLayoutError as unknown:
        return str(unknown)
    if (
        element.bits != 8 * element.stride_bytes
        or row.bits % element.bits
        or len(shape_of(kind)) > 1
    ):
        return "its elements do not lie in one row of whole bytes without padding"
    known: dict[AccessKind, int] = {}
    ends: tuple[tuple[Any, AccessKind], ...] = ((load, "read"), (store, "write"))
    for op, access in ends:
        if "volatile_" in op.attributes or integer_attribute(op, "ordering"):
            return f"'{op.name}' is volatile or atomic"
        known[access] = integer_attribute(op, "alignment") or row.alignment
    return _Row(row.bits // element.bits, element.stride_bytes, known)


def _known_alignment(access: Access, arithmetic: Arithmetic) -> int:
    stated = integer_attribute(access.op, "alignment") or 1
    return max(stated, access_alignment(access.memory, access.indices, arithmetic))


def _source_alignment(size: int, chip: Chip) -> int:
    """Bytes that a copy of `size` bytes needs its source to be aligned to."""
    form = chip.copy_form
    return min(size, form.source_alignment) if form is not None else size


def _divides(size: int, total: int, element: int, chip: Chip) -> bool:
    if total % size or size % element:
        return False
    # Lanes share the places of a wave evenly only if a copy is cut in a power of two.
    return not _shares_address(chip) or chip.lanes % (total // size) == 0


def _shares_address(chip: Chip) -> bool:
    return chip.copy_form is not None and chip.copy_form.wave_base
