"""What `copy_tile` is asked for, looked at before anything is written.

copy_tile(%view : memref<64x32xf32>, slot : memref<64x32xf16>)      tile-mismatch, at the user's line
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, create
from mlir_async_pipe.builder.caller import misuse
from mlir_async_pipe.builder.participants import writer
from mlir_async_pipe.builder.slot_memory import Slot
from mlir_async_pipe.builder.windows import window
from mlir_async_pipe.facts.values.alignment import element_bytes
from mlir_async_pipe.facts.values.memory_roots import root_of


@dataclass(frozen=True)
class Tile:
    """A tile of `shape`, from `source` to `slot`; `mask` has an entry a dimension, `bytes` are
    those of an element, `align` the user's word on the rows of the source."""

    source: Value
    slot: Value
    shape: tuple[int, ...]
    element: Any
    bytes: int
    mask: tuple[Value | None, ...]
    align: int | None

    @property
    def zero(self) -> str:
        """A zero of the element type, as text."""
        return "0" if str(self.element).startswith(("i", "si", "ui")) else "0.0"


def check_tile(source: Value, slot: Value, mask: Any, align: int | None) -> Tile:
    """The tile to copy; raises UsageError where source, slot and mask do not fit each other."""
    if isinstance(slot, Slot):
        check_open(slot)
    kinds = [_memref(source, "source"), _memref(slot, "slot")]
    if kinds[0].element_type != kinds[1].element_type:
        raise _mismatch(f"elements of {kinds[0].element_type} into {kinds[1].element_type}")
    shapes = [list(kind.shape) for kind in kinds]
    dynamic = ir.ShapedType.get_dynamic_size()
    if dynamic in shapes[1] or not shapes[1]:
        raise _mismatch(f"into a slot of type {kinds[1]}, whose shape is not static")
    masked = _mask(mask, len(shapes[1]))
    fits = len(shapes[0]) == len(shapes[1]) and all(
        size == wanted or (size == dynamic and kept is not None)
        for size, wanted, kept in zip(shapes[0], shapes[1], masked, strict=True)
    )
    if not fits:
        raise _mismatch(
            f"a tile of {_sizes(shapes[0], dynamic)} into a slot of {_sizes(shapes[1], dynamic)}",
            "a dimension of dynamic size needs an entry in mask=",
        )
    for memory, wanted in ((source, "global"), (slot, "workgroup")):
        space = root_of(memory).space
        if space != wanted:
            raise _mismatch(f"{space} memory where {wanted} memory is expected")
    size = element_bytes(slot)
    if size == 0:
        raise _mismatch(f"elements of {kinds[1].element_type}, whose size in memory is not known")
    if align is not None and (align < 1 or align & (align - 1)):
        raise misuse(f"align={align}, expected a power of two", code="bad-argument")
    return Tile(source, slot, tuple(shapes[1]), kinds[1].element_type, size, masked, align)


def tile_at(source: Value, slot: Value, at: Sequence[Any], mask: Any) -> tuple[Value, Any]:
    """The tile of the array `source` that begins at `at`, and how much of it there is."""
    kinds = [_memref(source, "source"), _memref(slot, "slot")]
    rank, tile_rank = (len(list(kind.shape)) for kind in kinds)
    if len(at) != rank or rank < tile_rank:
        raise _mismatch(
            f"from {len(at)} subscripts of an array of {rank} dimensions into a slot of {tile_rank}"
        )
    if mask == "edges":
        build = writer()
        mask = []
        for axis in range(rank - tile_rank, rank):
            operands = [source, build.constant(axis)]
            made = create("memref.dim", operands, [build.index], ip=build.ip, loc=build.location)
            begin = build.constant(at[axis]) if isinstance(at[axis], int) else at[axis]
            mask.append(build.subtract(made.results[0], begin))
    return window(source, at, list(kinds[1].shape)), mask


def is_tensor_map(source: Value) -> bool:
    """Whether a value describes a tensor for copies by tensor maps."""
    return str(source.type).startswith("!nvgpu.tensormap.descriptor")


def check_open(slot: Slot) -> None:
    """Raises UsageError (slot-closed) for a slot whose `with` has ended."""
    if slot.closed:
        raise misuse(
            "a slot is used after its 'with' has ended, when it may hold another tile",
            code="slot-closed",
            notes=(("the slot was taken here", slot.place),),
        )


def _memref(value: Any, name: str) -> Any:
    try:
        return ir.MemRefType(value.type)
    except (AttributeError, ValueError, TypeError):
        kind = getattr(value, "type", type(value).__name__)
        raise _mismatch(f"the {name} is no memref but {kind}") from None


def _mask(mask: Sequence[Value | int | None] | None, rank: int) -> tuple[Value | None, ...]:
    if mask is None:
        return (None,) * rank
    entries: list[Any] = list(mask) if isinstance(mask, list | tuple) else [mask]
    if len(entries) != rank:
        raise misuse(
            f"a mask of {len(entries)} entries for a tile of {rank} dimensions", code="tile-mask"
        )
    build = writer()
    made: list[Value | None] = []
    for entry in entries:
        value = build.constant(entry) if isinstance(entry, int) else entry
        if value is not None and str(getattr(value, "type", "")) != "index":
            raise misuse(
                f"a mask of {getattr(value, 'type', value)}, expected for each dimension how many "
                "elements are there: an index value, a number or None",
                code="tile-mask",
            )
        made.append(value)
    return tuple(made)


def _mismatch(what: str, advice: str | None = None) -> Any:
    return misuse(f"cannot copy {what}", code="tile-mismatch", advice=advice)


def _sizes(shape: list[int], dynamic: int) -> str:
    return "x".join("?" if size == dynamic else str(size) for size in shape)
