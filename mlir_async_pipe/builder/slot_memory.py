"""The memory of a pipeline: as many slots as it is deep, and which of them comes next.

    pipe.buffer((64, 32), "f16")      %ring = memref.alloc() : memref<3x64x32xf16, workgroup>
    the slot that comes next          %s = memref.load %cursor[]
                                      %slot = memref.subview %ring[%s, 0, 0] [1, 64, 32]
                                      memref.store (%s + 1 mod 3), %cursor[]

A cursor is a number in memory, so that produce and consume may stand in any control flow;
`async-pipe-cursors` makes values of it that loops carry. A loop of `Pipeline.loop` needs one slot:
the expander gives it versions.

    window(%A : memref<?x512xf32>, [%i, 0], (128,))
      -->  memref.subview %A[%i, 0] [1, 128] [1, 1] : … to memref<128xf32, strided<[1], offset: ?>>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, OpWriter, Value, source_op
from mlir_async_pipe.builder.caller import entry, here, in_context, misuse, writer
from mlir_async_pipe.facts.loops.annotations import PRIVATE
from mlir_async_pipe.facts.values.alignment import static_strides
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary.memory_layout import element_bytes
from mlir_async_pipe.waits.ssa.cursors import CURSOR

SPACE = "#gpu.address_space<workgroup>"
# What copies of 16 bytes need.
ALIGNMENT = 16
ROLES = ("produce", "consume")


@dataclass(frozen=True)
class SlotBuffer:
    """What one slot of a ring holds: a tile of `shape`, of elements called `element`."""

    shape: tuple[int, ...]
    element: str

    def type(self, outer: tuple[int, ...] = ()) -> str:
        """The type of memory that has these tiles along the outer dimensions."""
        sizes = "x".join(map(str, (*outer, *self.shape)))
        return f"memref<{sizes}x{self.element}, {SPACE}>"

    @property
    def bytes(self) -> int:
        return prod(self.shape) * element_bytes(ir.Type.parse(self.type()))


class Slot(ir.Value):
    """A memref: the tile of one buffer in the slot that a `with` holds."""

    def __init__(self, value: Value, pipe: Any, place: Place) -> None:
        super().__init__(value)
        self.pipe = pipe
        self.place = place
        self.closed = False
        # A tile was copied into all of it.
        self.filled = False
        self.uses_inside = 0

    def close(self) -> None:
        self.closed = True
        self.uses_inside = len(list(self.uses))


def buffer_of(shape: tuple[int, ...] | int, dtype: Any) -> SlotBuffer:
    """Raises UsageError (bad-argument) for sizes below 1 and for what is no element type."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or any(not isinstance(size, int) or size < 1 for size in sizes):
        raise misuse(f"a buffer of shape {shape}, expected sizes of 1 or more", code="bad-argument")
    made = SlotBuffer(sizes, str(dtype))
    in_context()
    try:
        ir.Type.parse(made.type())
    except Exception as error:
        why = f"a buffer of {dtype}, expected an element type such as 'f16'"
        raise misuse(why, code="bad-argument") from error
    return made


class SlotMemory:
    """The memory of all buffers of a pipeline in one kernel."""

    def __init__(
        self,
        buffers: list[SlotBuffer],
        op: Operation,
        slots: int,
        group: tuple[Value, int] | None = None,
        alignment: int = ALIGNMENT,
    ) -> None:
        """`slots`: how many there are (1 for a loop, whose buffers get versions); `group`: which
        of how many warps or threads runs, where each has tiles of its own."""
        self.slots = slots
        self._group = group
        self._buffers = buffers
        self._entry = entry(op)
        outer = (*((slots,) if slots > 1 else ()), *((group[1],) if group else ()))
        self._memory = [self._allocate(buffer.type(outer), alignment) for buffer in buffers]
        counted = ROLES if slots > 1 and buffers else ()
        self._cursors = {role: self.cell("index") for role in counted}

    def views(self, role: str) -> list[Value]:
        """The tiles in the slot that comes next to `role`, and on to the one after it."""
        return self.tiles(self.advance(role)[0] if role in self._cursors else None)

    def tiles(self, slot: Value | None) -> list[Value]:
        """The tiles in a slot; None where there is one only."""
        offsets = [*([] if slot is None else [slot]), *([self._group[0]] if self._group else [])]
        return [
            window(memory, [*offsets, *[0] * len(buffer.shape)], buffer.shape)
            if offsets
            else memory
            for memory, buffer in zip(self._memory, self._buffers, strict=True)
        ]

    def overwritten(self) -> None:
        """Every iteration of a loop fills its slots whole before it reads them."""
        for memory in self._memory:
            source_op(memory).attributes[PRIVATE] = ir.UnitAttr.get()

    def advance(self, role: str, phase: Value | None = None) -> tuple[Value, Value | None]:
        """The slot that comes next to `role`, and its phase where that is in a cell, too; both cells go
        on to the tile after it."""
        cell, write = self._cursors[role], writer()
        slot = write.make("memref.load", [cell], write.index)
        if phase is None:
            write.op("memref.store", [Ring(self.slots).next(slot, write), cell])
            return slot, None
        parity = write.make("memref.load", [phase], ir.IntegerType.get_signless(1))
        following = Ring(self.slots).advance(slot, parity, write)
        for value, place in zip(following, (cell, phase), strict=True):
            write.op("memref.store", [value, place])
        return slot, parity

    def cell(self, element: str, start: int = 0) -> Value:
        """Memory for one number, which begins with `start` and becomes a value."""
        attributes = {
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
            CURSOR: ir.UnitAttr.get(),
        }
        cell = self._at_entry("memref.alloca", f"memref<{element}>", attributes)
        write = IntegerWriter(self._entry, here())
        write.op("memref.store", [write.constant(start, ir.Type.parse(element)), cell])
        return cell

    def _allocate(self, kind: str, alignment: int) -> Value:
        i64 = ir.IntegerType.get_signless(64)
        attributes = {
            "alignment": ir.IntegerAttr.get(i64, alignment),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
        }
        return self._at_entry("memref.alloc", kind, attributes)

    def _at_entry(self, name: str, kind: str, attributes: dict[str, Any]) -> Value:
        return OpWriter(self._entry, here()).make(name, (), ir.Type.parse(kind), attributes)


def window(memory: Value, offsets: Sequence[Value | int], shape: Sequence[int]) -> Value:
    """The elements of `shape` from `offsets` on, along the last dimensions; one along the others."""
    write = writer()
    places = list(offsets)
    if all(isinstance(place, int) for place in places):
        # One that is no constant of the op makes the offset in the type a question mark.
        places[0] = write.constant(int(str(places[0])))
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    dynamic = [place for place in places if not isinstance(place, int)]
    static = [place if isinstance(place, int) else marker for place in places]
    outer = len(places) - len(shape)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(static),
        "static_sizes": ir.DenseI64ArrayAttr.get([*[1] * outer, *shape]),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(places)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(dynamic), 0, 0]),
    }
    whole, sizes = ir.MemRefType(memory.type), "x".join(map(str, shape))
    strides = static_strides(memory)[outer:]
    steps = ", ".join("?" if stride is None else str(stride) for stride in strides)
    space = f", {whole.memory_space}" if whole.memory_space is not None else ""
    kind = f"memref<{sizes}x{whole.element_type}, strided<[{steps}], offset: ?>{space}>"
    return write.make("memref.subview", [memory, *dynamic], ir.Type.parse(kind), attributes)
