"""What is certainly beyond its piece of memory: an mbarrier beyond its group, bytes beyond their buffer.

    nvgpu.mbarrier.arrive %full[%slot]             2 mbarriers, %slot = 2     out-of-bounds
    nvgpu.tma.async.load … to %ring[%slot, 0]      2 slots, %slot = 2         out-of-bounds

Of memory whose size the launch decides nothing is said, nor of bytes that an access may or may not touch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import constant_value, defining_op
from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.byte_places import BytePlace, ByteRange, OfRanks, among
from mlir_async_pipe.checker.phases.cluster_blocks import named_root
from mlir_async_pipe.checker.phases.path_state import Spot
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.facts.values.memory_roots import Root, bytes_of_global, is_pointer
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES, number_of_mbarriers
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, span_bytes


class MemoryPiece(NamedTuple):
    """A buffer or a group of mbarriers: its bytes, and the op that makes it (None: not known; an argument)."""

    size: int | None
    made: int | None


@dataclass
class Bounds:
    """The pieces of memory of a kernel by the numbers of their roots; `number` is that of a step."""

    sites: Sites
    number: Callable[[Run], int]
    _pieces: dict[int, MemoryPiece] = field(default_factory=dict)
    _columns: dict[int, int] = field(default_factory=dict)

    def add_group(self, group: int, create: Run) -> None:
        size = MBARRIER_BYTES * number_of_mbarriers(create.op.results[0].type)
        self._pieces[group] = MemoryPiece(size, self.number(create))

    def add_columns(self, allocation: Run) -> None:
        count = constant_value(allocation.op.operands[1])
        if count is not None:
            self._columns[self.number(allocation)] = count

    def check_columns(self, taken: int, first: int, size: int, op: int) -> None:
        """`size` columns that the op touches, of those that the op `taken` has taken."""
        count = self._columns.get(taken, first + size)
        if first + size > count:
            detail = f"it touches columns {first} to {first + size - 1} of {count}, counted from 0"
            raise PhaseFault("out-of-bounds", op, taken, detail)

    def check_given_back(self, taken: int, first: int, size: int, op: int) -> None:
        """`size` columns from `first` on that the op gives back: all that the op `taken` has taken."""
        count = self._columns.get(taken, size)
        if first or size != count:
            detail = f"it gives back {size} columns from column {first} on, and all {count} belong together"
            raise PhaseFault("out-of-bounds", op, taken, detail)

    def mbarrier(self, spot: Spot, at: dict[str, int], op: int) -> tuple[int, int]:
        """The root and byte of the mbarrier that the op names."""
        place = spot.get(at["barrier"])
        if isinstance(place, BytePlace | OfRanks) and spot.mask is not None:
            place = among(place, spot.mask)
        index = spot.exact(at["index"]) if "index" in at else 0
        if isinstance(place, BytePlace) and place.each is not None:
            # Threads that do the same to different mbarriers are roles of their own.
            raise OpenError(place.each)
        if not isinstance(place, BytePlace) or place.low is None or place.low != place.high:
            raise NotFollowedError("unknown-mbarrier")
        first = place.low + MBARRIER_BYTES * index
        piece = self._piece(place.root)
        if piece.size is not None and not 0 <= first <= piece.size - MBARRIER_BYTES:
            number, count = first // MBARRIER_BYTES, piece.size // MBARRIER_BYTES
            raise _beyond(op, piece, f"it names mbarrier {number} of {count}, counted from 0")
        return place.root, first

    def check(self, region: ByteRange, op: int) -> ByteRange:
        """Some bytes that the op touches, which are not certainly beyond their buffer."""
        root, low, high, exact, _ = region
        size = None if low is None else self._piece(root).size
        if size is None or low is None or high is None or low >= high:
            return region
        if low >= size or high <= 0 or (exact and (low < 0 or high > size)):
            detail = f"it touches bytes {low} to {high - 1} of {size}, counted from 0"
            raise _beyond(op, self._piece(root), detail)
        return region

    def _piece(self, root: int) -> MemoryPiece:
        at = named_root(root)
        if at not in self._pieces:
            known = 0 <= at < len(self.sites.roots.roots)
            self._pieces[at] = (
                self._found(self.sites.roots.roots[at]) if known else MemoryPiece(None, None)
            )
        return self._pieces[at]

    def _found(self, root: Root) -> MemoryPiece:
        if not root.owned or root.kind == "dynamic":
            return MemoryPiece(None, None)
        made = defining_op(root.value)
        if made is None:
            return MemoryPiece(_bytes_of(root.value), None)
        step = Run(made, made.name, row_of(made), 0, (), (), makes_values=True)
        return MemoryPiece(_bytes_of(root.value), self.number(step))


def _bytes_of(memory: Any) -> int | None:
    """The bytes of a buffer, None where its type does not say them."""
    if is_pointer(memory):
        return bytes_of_global(memory)
    try:
        return span_bytes(memory.type)
    except (UnknownLayoutError, ValueError):
        return None


def _beyond(op: int, piece: MemoryPiece, detail: str) -> PhaseFault:
    return PhaseFault("out-of-bounds", op, op if piece.made is None else piece.made, detail)
