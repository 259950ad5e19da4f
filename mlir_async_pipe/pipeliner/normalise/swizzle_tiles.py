"""Gives tiles of workgroup memory a layout in which lanes meet in no bank: `async_pipe.swizzle = "auto"`.

    ldmatrix %tile[%row, %column]          rows of 64 bytes: every second one begins at bank 0, 16 wavefronts
      -->  %key = (%row / 2 mod 4) * 8
           ldmatrix %tile[%row, %column xor %key]                                              4 wavefronts
      or   %tile : memref<64x40xf16>       rows of 80 bytes                                    4 wavefronts

Each access of a tile computes its column as all others do, so each element has one place: a xor by the row
permutes the 16-byte chunks inside of aligned runs of them, and an access that crosses no chunk stays in one
piece. One that might, or might leave its row, forbids any layout. A longer row leaves all subscripts as they are, and takes memory in each slot. Which
layout it is the exact count of wavefronts decides (`facts/costs/warp_traffic.py`), over all accesses; of equal
ones a xor comes first, and the shortest pad. Only tiles that nobody else names are given another layout.

Where the lanes of a wave copy to neighbouring places (gfx9), ends of rows that nobody accesses stand between these: the
rows lose them, and a xor does what they were for.

    memref<64x68xf16>, columns 0 to 63 in use    -->    memref<64x64xf16>, %column xor %key
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    before,
    erase,
    integer_attribute,
    users,
    walk,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.chips.target import ChipOptions, with_target
from mlir_async_pipe.facts.costs.cost_model import bytes_of_access
from mlir_async_pipe.facts.costs.warp_traffic import Traffic, WarpTraffic
from mlir_async_pipe.facts.loops.annotations import SWIZZLE, read_loop, remove, requested_loops
from mlir_async_pipe.facts.loops.statements import Copies, copies_of, read_body
from mlir_async_pipe.facts.values.alignment import divisor
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.pipeliner.normalise.guarded_stores import not_issued
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import VIEW_OPS, Access, accesses, row_of
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, if_known, is_dense
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS

# What ldmatrix and the widest copies access, which a layout leaves in one piece.
CHUNK_BYTES = 16
# Every how many rows the key of a xor changes, and how many keys there are.
_KEYS = tuple((rows, keys) for keys in (2, 4, 8) for rows in (1, 2, 4))
_PAD_BYTES = (4, 8, 16, 32)


class _Refusal(Exception):
    """Why a tile keeps its layout, and the op because of which."""

    def __init__(self, why: str, at: Operation | None = None) -> None:
        super().__init__(why)
        self.at = at


@dataclass(frozen=True)
class _Tile:
    """Rows of `columns` elements of `bytes_each` that are accessed, and the ops that do. `ends`: views that are
    deallocated at most, and the deallocations."""

    memory: Value
    ops: tuple[Operation, ...]
    columns: int
    bytes_each: int
    ends: tuple[Operation, ...] = ()

    def accesses(self) -> Iterator[Access]:
        for op in self.ops:
            yield from (access for access in accesses(op) if access.memory == self.memory)


@dataclass(frozen=True)
class _Layout:
    """A way to lay a tile out; `apply` does it and gives what takes it back."""

    words: str
    apply: Callable[[_Tile], Callable[[], None]]


def swizzle(loop: Operation, chip: Chip, session: Session) -> None:
    """Give each tile that the loop fills the layout with the fewest wavefronts."""
    writes = (access for op in walk(loop) for access in accesses(op) if access.writes)
    roots = ((root_of(access.memory), access.op) for access in writes)
    filled = {root.value: op for root, op in roots if root.space == "workgroup"}
    for memory, filler in filled.items():
        try:
            words = _best(_tile(memory, filler, chip), loop, session)
        except _Refusal as why:
            session.diagnostics.remark(
                f"a tile keeps its layout: {why}", code="swizzle-refused", at=why.at or filler
            )
        else:
            session.diagnostics.remark(words, code="swizzled", at=loop)


def _tile(memory: Value, filler: Operation, chip: Chip) -> _Tile:
    """The tile at a root. Raises _Refusal where somebody else names it, or an access is not of one chunk."""
    kind = as_kind(ir.MemRefType, memory.type)
    if kind is None or root_of(memory).kind not in ("allocation", "attribution"):
        raise _Refusal("it is no allocation of the kernel, which others may name", filler)
    size = if_known(element_bytes, kind)
    # Rows lie one after the other, of elements that are a power of two of bytes.
    plain = size is not None and size & (size - 1) == 0 and size <= CHUNK_BYTES
    dense = kind.has_static_shape and kind.rank >= 2 and if_known(is_dense, kind)
    if size is None or not plain or not dense:
        raise _Refusal(f"'{kind}' is no array of rows of static sizes side by side", filler)
    numbers = Arithmetic(enclosing_launch_size(filler))
    ends = _ends(memory)
    others = (op for op in dict.fromkeys(users(memory)) if op not in ends)
    ops = [op for op in others if op.name not in DEALLOCATION_OPS]
    columns = _columns(memory, ops, numbers) if _writes_stretches(chip) else int(kind.shape[-1])
    for op in ops:
        found = [access for access in accesses(op) if access.memory == memory]
        named = sum(operand == memory for operand in op.operands)
        if not found or named != len(found) or row_of(op).by_proxy:
            raise _Refusal(f"'{op.name}' names it for others", op)
        for access in found:
            if access.extent is None or access.shares is not None or access.over_lanes:
                raise _Refusal(f"'{op.name}' lays down what it moves by itself", op)
            if prod(access.extent[:-1]) != 1:
                raise _Refusal(f"'{op.name}' accesses several rows at once", op)
            if not access.certain or not access.takes_slot_index:
                raise _Refusal(f"'{op.name}' may leave the row, or elements out", op)
            if not _in_one_chunk(access, columns * size, size, numbers):
                raise _Refusal(f"'{op.name}' may cross the ends of a row or of 16 bytes in it", op)
            split = bytes_of_access(access) not in chip.copy_bytes
            if access.asynchronous and split and _writes_stretches(chip):
                raise _Refusal(f"'{op.name}' is copies of whole waves, each to one stretch", op)
    return _Tile(memory, tuple(ops), columns, size, ends)


def _ends(memory: Value) -> tuple[Operation, ...]:
    """The views of a tile that are deallocated at most, with these deallocations."""
    views = [op for op in dict.fromkeys(users(memory)) if op.name in VIEW_OPS]
    used = ((view, users(view.results[0])) for view in views)
    return tuple(
        op
        for view, others in used
        if all(other.name in DEALLOCATION_OPS for other in others)
        for op in (view, *others)
    )


def _columns(memory: Value, ops: list[Operation], numbers: Arithmetic) -> int:
    """The elements of each row up to the last one that is accessed; all where that is not known."""
    whole = int(ir.MemRefType(memory.type).shape[-1])
    last = 0
    for access in (access for op in ops for access in accesses(op) if access.memory == memory):
        low, high = numbers.value_range(access.indices[-1]) if access.indices else (None, None)
        if low is None or high is None or low < 0 or access.extent is None:
            return whole
        last = max(last, high + (access.extent[-1] if access.extent else 1))
    return min(last, whole)


def _writes_stretches(chip: Chip) -> bool:
    """Whether the lanes of a wave copy to neighbouring places, so that only who copies what can be exchanged."""
    return chip.copy_form is not None and chip.copy_form.wave_base


# Layouts -----------------------------------------------------------------------------------


def _best(tile: _Tile, loop: Operation, session: Session) -> str:
    """Choose by count, and leave the tile so. Raises _Refusal where no layout has fewer wavefronts."""
    assert session.target is not None
    chip, kind = session.target.chip, tile.memory.type
    asked, ideal = _count(tile, loop, chip)
    shorter = int(ir.MemRefType(kind).shape[-1]) - tile.columns
    if asked == ideal and not shorter:
        raise _Refusal("its lanes meet in no bank", tile.ops[0])
    # Layouts of which no copies could be made, where these could be made before, are none.
    copied = shorter or (_writes_stretches(chip) and _is_copied(tile, loop, session))
    undo_ends = _of_rows(tile.columns).apply(tile) if shorter else None
    least = None if shorter else asked
    best: _Layout | None = None
    for layout in ((_AS_IT_IS,) if shorter else ()) + (*_xors(tile), *_pads(tile, chip)):
        undo = layout.apply(tile)
        try:
            found, ideal = _count(tile, loop, chip)
            if copied and not _is_copied(tile, loop, session):
                continue
        except _Refusal:
            continue
        finally:
            undo()
        if least is None or found < least:
            least, best = found, layout
        if found == ideal:
            break
    if best is None:
        if undo_ends is not None:
            undo_ends()
            raise _Refusal("a wave could not copy to it without the ends of its rows either")
        raise _Refusal(f"no layout takes less than its {asked} wavefronts", tile.ops[0])
    best.apply(tile)
    ends = f"rows {shorter * tile.bytes_each} bytes shorter" if shorter else ""
    erase(tile.ends)
    return (
        f"'{kind}' is laid out anew, {', '.join(filter(None, (ends, best.words)))}: its accesses take {least} "
        f"wavefronts, not {asked}; {ideal} are the least"
    )


def _is_copied(tile: _Tile, loop: Operation, session: Session) -> bool:
    """Whether the chip issues the loads and stores of the loop that fill the tile as copies."""
    copies = copies_of(read_body(loop))
    pairs = tuple(pair for pair in copies.pairs if pair[1] in tile.ops)
    return bool(pairs) and not_issued(Copies(copies.statements, pairs), session) is None


def _count(tile: _Tile, loop: Operation, chip: Chip) -> tuple[int, int]:
    """Wavefronts that a warp asks for in all accesses of a tile, and the fewest that would do."""
    traffic = WarpTraffic(enclosing_launch_size(loop), chip)
    asked = ideal = 0
    for access in tile.accesses():
        one = traffic.of(access)
        if not isinstance(one, Traffic):
            why = "" if one is None else f": {one.why}"
            raise _Refusal(f"which banks '{access.op.name}' asks for is not known{why}", access.op)
        asked, ideal = asked + one.asked, ideal + one.ideal
    return asked, ideal


def _in_one_chunk(access: Access, row_bytes: int, element: int, numbers: Arithmetic) -> bool:
    """Whether what a lane accesses lies in 16 bytes of one row, from a multiple of its size on."""
    size = bytes_of_access(access)
    if size > CHUNK_BYTES or size & (size - 1) or row_bytes % size:
        return False
    # Copies and ldmatrix are aligned to what they access, or wrong anyway.
    hardware = row_of(access.op).queue is not None or access.active_lanes is not None
    given = integer_attribute(access.op, "alignment") or 1
    return hardware or given >= size or divisor(access.indices[-1], numbers) * element % size == 0


def _xors(tile: _Tile) -> Iterator[_Layout]:
    chunk = CHUNK_BYTES // tile.bytes_each
    for rows, keys in _KEYS:
        if tile.columns % (keys * chunk) == 0:
            yield _xor(rows, keys, chunk)


def _xor(rows: int, keys: int, chunk: int) -> _Layout:
    def apply(tile: _Tile) -> Callable[[], None]:
        made: list[Operation] = []
        changed: list[tuple[Operation, int, Value]] = []
        for access in list(tile.accesses()):
            write = IntegerWriter(before(access.op), access.op.location)
            row, column = access.indices[-2:]
            key = write.multiply(write.remainder(write.divide(row, rows), keys), chunk)
            number = access.index_operands[-1]
            changed.append((access.op, number, column))
            access.op.operands[number] = write.binary("arith.xori", column, key)
            made += write.made

        def undo() -> None:
            for op, number, value in changed:
                op.operands[number] = value
            erase(made)

        return undo

    by = "the row" if rows == 1 else f"row / {rows}"
    return _Layout(f"the number of each 16-byte chunk xor ({by}) mod {keys}", apply)


def _pads(tile: _Tile, chip: Chip) -> Iterator[_Layout]:
    """Longer rows, which leave accesses as aligned as they were; none where a wave copies to one stretch."""
    if _writes_stretches(chip):
        return
    widest = max(map(bytes_of_access, tile.accesses()))
    for more in _PAD_BYTES:
        if more % widest == 0:
            yield _of_rows(tile.columns + more // tile.bytes_each, f"rows {more} bytes longer")


_AS_IT_IS = _Layout("", lambda tile: lambda: None)


def _of_rows(columns: int, words: str = "") -> _Layout:
    def apply(tile: _Tile) -> Callable[[], None]:
        old = ir.MemRefType(tile.memory.type)
        shape = [*old.shape[:-1], columns]
        new = ir.MemRefType.get(
            shape, old.element_type, memory_space=old.memory_space, loc=tile.ops[0].location
        )
        tile.memory.set_type(new)
        return lambda: tile.memory.set_type(old)

    return _Layout(words, apply)


@register(
    "async-pipe-normalise-swizzle",
    "lay tiles out so that lanes meet in no bank, where loops ask for it",
    ChipOptions,
)
def run(module: Any, options: ChipOptions, session: Session) -> None:
    session = with_target(options, session)
    for loop in requested_loops(module):
        if SWIZZLE not in loop.attributes:
            continue
        if read_loop(loop).swizzle == "auto":
            if session.target is None:
                said = "tiles keep their layout: without a target their banks are not known"
                session.diagnostics.remark(said, code="swizzle-refused", at=loop)
            else:
                swizzle(loop, session.target.chip, session)
        remove(loop, (SWIZZLE,))
