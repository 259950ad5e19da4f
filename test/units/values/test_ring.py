"""Slots and phases of a ring, computed and compared with their definition.

Covers: facts/values/ring.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import create, terminator, walk
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring

SIZES = [1, 2, 3, 4]
HOLE = """func.func @f(%slot: index, %phase: i1, %tiles: index, %out: memref<2xindex>) {
  return
}"""


def computed(build: Callable[..., list[ir.Value]], tile: int, slots: int, tiles: int) -> list[int]:
    """What ops give that are built from slot and phase of a tile, and from a number of tiles."""
    with new_context():
        module = ir.Module.parse(HOLE)
        (function,) = [op for op in walk(module.operation) if op.name == "func.func"]
        slot, phase, count, out = function.regions[0].blocks[0].arguments
        end = terminator(function.regions[0].blocks[0])
        with ir.Location.unknown():
            write = IntegerWriter(ir.InsertionPoint(end), end.location)
            for place, value in enumerate(build(Ring(slots), slot, phase, count, write)):
                if value.type != write.index:
                    value = write.cast("arith.index_castui", value, write.index)
                where = write.constant(place)
                create("memref.store", [value, out, where], ip=write.ip, loc=write.location)
        given = [tile % slots, tile // slots % 2, tiles, np.zeros(2, np.int64)]
        return machine.run(module, "f", given).arrays[3].tolist()


def expected(tile: int, slots: int) -> list[int]:
    return [tile % slots, tile // slots % 2]


@pytest.mark.parametrize("slots", SIZES)
def test_the_next_tile(slots):
    def build(ring, slot, phase, count, write):
        return ring.advance(slot, phase, write)

    for tile in range(2 * slots + 1):
        assert computed(build, tile, slots, 0) == expected(tile + 1, slots)


@pytest.mark.parametrize("slots", SIZES)
def test_a_tile_fewer_than_all_slots_before(slots):
    for back in range(1, slots):

        def build(ring, slot, phase, count, write, back=back):
            earlier = ring.before(slot, back, write)
            return [earlier, ring.earlier_phase(phase, slot, earlier, write)]

        for tile in range(back, back + 2 * slots):
            assert computed(build, tile, slots, 0) == expected(tile - back, slots)


@pytest.mark.parametrize("slots", SIZES)
def test_a_tile_whose_distance_is_known_when_it_runs(slots):
    def build(ring, slot, phase, count, write):
        return ring.after(slot, phase, count, write)

    for tile in (0, 1, slots - 1, 2 * slots - 1):
        for more in range(2 * slots + 2):
            assert computed(build, tile, slots, more) == expected(tile + more, slots)


@pytest.mark.parametrize("slots", SIZES)
def test_a_slot_from_those_of_other_tiles(slots):
    ahead = max(slots - 1, 1)
    for distance in range(-slots + 1, slots + 1):

        def build(ring, slot, phase, count, write, distance=distance):
            known = (
                {0: slot, ahead: ring.before(slot, slots - ahead, write)}
                if slots > 1
                else {0: slot}
            )
            return [ring.at(distance, known, write)]

        for tile in range(slots, 2 * slots):
            assert computed(build, tile, slots, 0)[0] == (tile + distance) % slots


@pytest.mark.parametrize("slots", SIZES)
def test_counted_so_that_the_last_tile_is_in_slot_0(slots):
    for tile in range(slots):

        def build(ring, slot, phase, count, write, tile=tile):
            return [ring.before_last(tile, count, write)]

        for tiles in range(tile + 1, tile + 2 * slots):
            assert computed(build, 0, slots, tiles)[0] == (tile + 1 - tiles) % slots


def test_the_ops_of_a_power_of_two_mask():
    def build(ring, slot, phase, count, write):
        made = ring.next(slot, write)
        assert [op.name for op in write.made] == [
            "arith.constant",
            "arith.addi",
            "arith.constant",
            "arith.andi",
        ]
        return [made]

    computed(build, 1, 4, 0)
