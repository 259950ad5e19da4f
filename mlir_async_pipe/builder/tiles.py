"""Copies a tile from global memory into a slot, by all threads that share the slot.

    copy_tile(%view, slot)        64 x 32 of f16 by 128 threads, rows at multiples of 16 bytes:

    %row = %thread / 4            4 copies of 16 bytes make a row, 128 threads 32 rows,
    %column = %thread mod 4 * 8   so each thread copies 2 of them
    %v = vector.load %view[%row, %column]          vector.store %v, %slot[%row, %column]
    %w = vector.load %view[%row + 32, %column]     …

They are plain loads and stores: what can be asynchronous becomes so when the pipeline is expanded or
lowered, in the chip's own copies, and the rest goes through registers. With a mask the loads are
masked, and the rest of the tile is filled with zeros. What is asked for is looked at before anything
is written:

    copy_tile(%view : memref<64x32xf32>, slot : memref<64x32xf16>)      tile-mismatch, at the user's line
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import OpWriter, Value, attribute, plain_values, terminator
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_for, write_if
from mlir_async_pipe.builder.caller import Participants, Threads, kernel, misuse, threads_of, writer
from mlir_async_pipe.builder.slot_memory import Slot, window
from mlir_async_pipe.facts.values.alignment import (
    access_alignment,
    divisor,
    element_bytes,
    static_strides,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.session.called_from import called_by_users

# What chips copy asynchronously; AMD's make copies of 4 of what they do not have.
COPY_BYTES = (16, 8, 4)
# Copies of a thread that are written one after the other; more become a loop.
MOST_UNROLLED = 16
TENSOR_MAP = "!nvgpu.tensormap.descriptor"

Mask = Sequence[Any]
"""For each dimension an index value, a number, or None for all."""


@called_by_users
@plain_values()
def copy_tile(
    source: Value,
    slot: Value,
    *,
    at: Sequence[Any] | None = None,
    threads: Threads | None = None,
    mask: Mask | Literal["edges"] | None = None,
    align: int | None = None,
) -> None:
    """Copy the tile `source`, a view of global memory, into `slot`.

    `slot`: what `Pipeline.produce` gives, or any workgroup memory of the same shape.
    `at`: `source` is a whole array, and the tile begins at these subscripts of it (an array of
    more dimensions than the slot gives one element along the first of them). With a
    `RolePipeline` the source is a tensor map, whose box is the tile.
    `threads`: how many copy it together, in x, y and z; those of the pipeline, else of the kernel.
    `mask`: for each dimension how many of its elements are there, None for all; the others are
    not read, and become zeros. "edges": as many as the array has from `at` on.
    `align`: bytes of which the source's rows begin at multiples, where that is not proven:
    copies are 16, 8 or 4 bytes wide, and of elements one by one where not even 4 are sure.

    Raises UsageError (slot-closed, tile-mismatch, tile-mask, threads-unknown, bad-argument)."""
    if at is not None and isinstance(slot, Slot) and str(source.type).startswith(TENSOR_MAP):
        check_open(slot)
        slot.pipe.copy_box(source, slot, at)
        return
    if at is not None:
        source, mask = tile_at(source, slot, at, mask)
    copy = check_tile(source, slot, mask, align)
    if isinstance(slot, Slot) and threads is None:
        who = slot.pipe.participants()
    else:
        sizes = threads_of(kernel(), threads)
        who = Participants(prod(sizes), writer().thread_number(sizes))
    copy.write(who)
    if isinstance(slot, Slot):
        slot.filled = True


@dataclass
class TileCopy:
    """The copy of a tile of `shape`, from `source` to `slot`, in pieces of `width` elements of a row by those `who`
    share the slot; `mask` has an entry a dimension, `bytes` are those of an element, `align` the user's word on the
    rows of the source."""

    source: Value
    slot: Value
    shape: tuple[int, ...]
    element: Any
    bytes: int
    mask: tuple[Value | None, ...]
    align: int | None

    def write(self, who: Participants) -> None:
        """The copies of the thread that runs: every `who.threads`-th of all."""
        self.who, self.width = who, self._width(who.threads)
        self.build = build = writer()
        rounds, some = divmod(prod(self.shape) // self.width, who.threads)
        if rounds > MOST_UNROLLED:
            self._in_loop(rounds)
        else:
            for number in range(rounds):
                self._copy(number * who.threads)
        if some:
            # The last threads have nothing left to copy.
            assert not isinstance(who.number, int)
            inside, outside = build.compare("ult", who.number, some), build.ip
            branch = write_if(inside, (), None, outside, build.location)
            build.enter(at_end_of(branch.regions[0]))
            self._copy(rounds * who.threads)
            build.leave(outside)

    def _width(self, count: int) -> int:
        """Elements of one copy: the most of 16, 8 and 4 bytes of which all rows are multiples, in
        memory and in length; 1 where there are none."""
        strides = static_strides(self.source)
        if strides[-1] != 1:
            return 1
        rows = [self.bytes if stride is None else stride * self.bytes for stride in strides[:-1]]
        begin = [writer().constant(0)] * len(self.shape)
        proven = gcd(access_alignment(self.source, begin, Arithmetic()), *rows)
        known = proven if self.align is None else max(self.align, proven)
        found = [
            size // self.bytes
            for size in COPY_BYTES
            if known % size == 0
            and size % self.bytes == 0
            # All that is copied lies in one row.
            and self.shape[-1] % (size // self.bytes) == 0
        ]
        # Better narrow copies by all threads than wide ones by some, which need a condition.
        even = [size for size in found if prod(self.shape) // size % count == 0]
        return [*even, *found, 1][0]

    def _in_loop(self, rounds: int) -> None:
        build = self.build
        bounds = [build.constant(number) for number in (0, rounds, 1)]
        outside = build.ip
        body = write_for(bounds, (), outside, build.location).regions[0].blocks[0]
        build.enter(ir.InsertionPoint(body))
        self._copy(build.multiply(body.arguments[0], self.who.threads))
        build.op("scf.yield")
        build.leave(outside)

    def _copy(self, before: Value | int) -> None:
        """Copy number `before` + the thread's own."""
        at = self._place(before)
        kept = self._kept(at)
        if static_strides(self.source)[-1] != 1:
            self._element(at, kept)
            return
        kind = ir.VectorType.get([self.width], self.element, loc=self.build.location)
        self.build.op("vector.store", [self._load(at, kind, kept), self.slot, *at])

    def _place(self, before: Value | int) -> list[Value]:
        """The subscripts of the first element."""
        build, shape = self.build, self.shape
        in_row, count = shape[-1] // self.width, self.who.threads
        number = self.who.number
        own = build.constant(number) if isinstance(number, int) else number
        if isinstance(before, int) and in_row % count == 0:
            # All threads in one row.
            row, place = build.constant(before // in_row), build.add(own, before % in_row)
        elif isinstance(before, int) and before % in_row == 0:
            # The same place in another row: only the row's number is new.
            row = build.add(build.divide(own, in_row), before // in_row)
            place = build.remainder(own, in_row)
        else:
            own = build.add(own, before)
            row, place = build.divide(own, in_row), build.remainder(own, in_row)
        column = build.multiply(place, self.width)
        if len(shape) == 1:
            return [column]
        outer = []
        for size in reversed(shape[1:-1]):
            outer.append(build.remainder(row, size))
            row = build.divide(row, size)
        return [row, *reversed(outer), column]

    def _kept(self, at: list[Value]) -> Value | None:
        """How many elements of the copy are there, None for all: those of the row, if all other
        subscripts are there."""
        build, mask = self.build, self.mask
        if all(entry is None for entry in mask):
            return None
        kept = build.constant(self.width)
        if mask[-1] is not None:
            kept = self._kept_of_row(at[-1], mask[-1])
        for index, size in zip(at[:-1], mask[:-1], strict=True):
            if size is not None:
                kept = build.select(build.compare("slt", index, size), kept, build.constant(0))
        return kept

    def _kept_of_row(self, column: Value, size: Value) -> Value:
        build = self.build
        if divisor(size, Arithmetic()) % self.width == 0:
            # All or none, which every chip's copies can do.
            inside = build.compare("slt", column, size)
            return build.select(inside, build.constant(self.width), build.constant(0))
        # Fewer than none is none, more than all is all (vector.create_mask).
        return build.subtract(size, column)

    def _load(self, at: list[Value], kind: Any, kept: Value | None) -> Value:
        build = self.build
        i64 = ir.IntegerType.get_signless(64)
        aligned = {"alignment": ir.IntegerAttr.get(i64, self.width * self.bytes)}
        if kept is None:
            return build.make("vector.load", [self.source, *at], kind, aligned)
        zeros = build.zero(kind, attribute(f"dense<{self._zero}> : {kind}", build.context))
        i1 = ir.IntegerType.get_signless(1)
        masked = ir.VectorType.get([self.width], i1, loc=build.location)
        mask = build.make("vector.create_mask", [kept], masked)
        return build.make("vector.maskedload", [self.source, *at, mask, zeros], kind, aligned)

    def _element(self, at: list[Value], kept: Value | None) -> None:
        """One element of a row whose elements are not next to each other."""
        build, kind = self.build, self.element
        if kept is None:
            loaded = build.make("memref.load", [self.source, *at], kind)
        else:
            zero = build.zero(kind, attribute(f"{self._zero} : {kind}", build.context))
            inside = build.compare("ne", kept, 0)
            branch = write_if(inside, [zero], [zero], build.ip, build.location)
            end = terminator(branch.regions[0].blocks[0])
            inner = OpWriter(ir.InsertionPoint(end), build.location)
            end.operands[0] = inner.make("memref.load", [self.source, *at], kind)
            loaded = branch.results[0]
        build.op("memref.store", [loaded, self.slot, *at])

    @property
    def _zero(self) -> str:
        """A zero of the element type, as text."""
        return "0" if str(self.element).startswith(("i", "si", "ui")) else "0.0"


def check_tile(source: Value, slot: Value, mask: Any, align: int | None) -> TileCopy:
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
        why = f"a tile of {_sizes(shapes[0], dynamic)} into a slot of {_sizes(shapes[1], dynamic)}"
        raise _mismatch(why, "a dimension of dynamic size needs an entry in mask=")
    for memory, wanted in ((source, "global"), (slot, "workgroup")):
        space = root_of(memory).space
        if space != wanted:
            raise _mismatch(f"{space} memory where {wanted} memory is expected")
    size = element_bytes(slot)
    if size == 0:
        raise _mismatch(f"elements of {kinds[1].element_type}, whose size in memory is not known")
    if align is not None and (align < 1 or align & (align - 1)):
        raise misuse(f"align={align}, expected a power of two", code="bad-argument")
    return TileCopy(source, slot, tuple(shapes[1]), kinds[1].element_type, size, masked, align)


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
            made = build.make("memref.dim", [source, build.constant(axis)], build.index)
            begin = build.constant(at[axis]) if isinstance(at[axis], int) else at[axis]
            mask.append(build.subtract(made, begin))
    return window(source, at, list(kinds[1].shape)), mask


def check_open(slot: Slot) -> None:
    """Raises UsageError (slot-closed) for a slot whose `with` has ended."""
    if slot.closed:
        why = "a slot is used after its 'with' has ended, when it may hold another tile"
        raise misuse(why, code="slot-closed", notes=(("the slot was taken here", slot.place),))


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
        why = f"a mask of {len(entries)} entries for a tile of {rank} dimensions"
        raise misuse(why, code="tile-mask")
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
