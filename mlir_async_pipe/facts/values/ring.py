"""The circular buffer of a pipeline: slots, phases and their arithmetic.

    tile   0 1 2 3 4 5 6 7 …        V = 3 slots
    slot   0 1 2 0 1 2 0 1          tile mod V
    phase  0 0 0 1 1 1 0 0          tile div V mod 2

Tiles are counted since the mbarriers were initialised, through all executions of all loops on the
ring, so slot and phase are values that loops carry and not functions of an iteration. The phase
flips where the slots begin anew; of two tiles less than V apart the phases differ if the later one
has the lower slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter


@dataclass(frozen=True)
class Ring:
    """`slots`: V. All methods but `start` write at the place of `write`."""

    slots: int

    @staticmethod
    def start(write: IntegerWriter, phase: int = 0) -> list[Value]:
        """Slot and phase of the first tile. Who waits for a slot to be free begins with phase 1: an
        mbarrier in its first phase lets that pass."""
        i1 = ir.IntegerType.get_signless(1, write.context)
        return [write.constant(0), write.constant(phase, i1)]

    @property
    def _masks(self) -> bool:
        """Whether a slot is the low bits of the number of its tile."""
        return self.slots & (self.slots - 1) == 0

    def next(self, slot: Value, write: IntegerWriter) -> Value:
        if self.slots == 1:
            return slot
        following = write.add(slot, 1)
        if self._masks:
            return write.binary("arith.andi", following, self.slots - 1)
        wraps = write.compare("eq", following, self.slots)
        return write.select(wraps, write.constant(0), following)

    def advance(self, slot: Value, phase: Value, write: IntegerWriter) -> list[Value]:
        """Slot and phase of the next tile."""
        following = self.next(slot, write)
        return [following, self.next_phase(phase, following, write)]

    def next_phase(self, phase: Value, following: Value, write: IntegerWriter) -> Value:
        """The phase of the next tile, which is in the slot `following`."""
        i1 = phase.type
        wraps = write.compare("eq", following, 0) if self.slots > 1 else write.constant(1, i1)
        return write.binary("arith.xori", phase, wraps)

    def before(self, slot: Value, tiles: int, write: IntegerWriter) -> Value:
        """The slot of the tile so many before that in `slot`, at most V."""
        if self._masks:
            back = write.add(slot, self.slots - tiles)
            return write.binary("arith.andi", back, self.slots - 1)
        if tiles == 1:
            back = write.subtract(slot, 1)
            return write.select(write.compare("eq", slot, 0), write.constant(self.slots - 1), back)
        few = write.compare("ult", slot, tiles)
        wrapped = write.add(slot, self.slots - tiles)
        return write.select(few, wrapped, write.add(slot, -tiles))

    def at(self, distance: int, known: Mapping[int, Value], write: IntegerWriter) -> Value:
        """The slot of tile t + `distance`; `known` has those of some tiles t + n; t is one of them."""
        by_remainder = {n % self.slots: slot for n, slot in known.items()}
        if distance % self.slots in by_remainder:
            return by_remainder[distance % self.slots]
        if (distance - 1) % self.slots in by_remainder:
            return self.next(by_remainder[(distance - 1) % self.slots], write)
        return self.before(known[0], -distance % self.slots, write)

    def earlier_phase(
        self, phase: Value, slot: Value, earlier: Value, write: IntegerWriter
    ) -> Value:
        """The phase of the tile in `earlier`, fewer than V before that of `phase` in `slot`."""
        return write.binary("arith.xori", phase, write.compare("ugt", earlier, slot))

    def later_phase(self, phase: Value, slot: Value, later: Value, write: IntegerWriter) -> Value:
        """The phase of the tile in `later`, 1 to V after that of `phase` in `slot`."""
        return write.binary("arith.xori", phase, write.compare("ule", later, slot))

    def after(self, slot: Value, phase: Value, tiles: Value, write: IntegerWriter) -> list[Value]:
        """Slot and phase of the tile that many on, of which nobody knows the number before."""
        left = write.remainder(tiles, 2 * self.slots)
        odd = write.compare("uge", left, self.slots)
        further = write.add(slot, write.remainder(left, self.slots))
        wraps = write.compare("uge", further, self.slots)
        following = write.select(wraps, write.subtract(further, self.slots), further)
        flips = write.binary("arith.xori", odd, wraps)
        return [following, write.binary("arith.xori", phase, flips)]

    def before_last(self, tile: int, tiles: Value, write: IntegerWriter) -> Value:
        """The slot of a tile below V, counted so that the last of all `tiles` is in slot 0: (tile + 1 - tiles) mod V."""
        if self._masks:
            distance = write.subtract(write.constant(tile + 1), tiles)
            return write.binary("arith.andi", distance, self.slots - 1)
        rest = write.binary("arith.remui", tiles, self.slots)
        # The number is in (0, 2 V): tile + 1 <= V, and rest < V.
        start = write.subtract(write.constant(tile + 1 + self.slots), rest)
        return write.binary("arith.remui", start, self.slots)

    def mbarrier(self, number: int, slot: Value, write: IntegerWriter) -> Value:
        """Which of a group that has V mbarriers for each one of the input is that of a slot."""
        return write.add(slot, number * self.slots)
