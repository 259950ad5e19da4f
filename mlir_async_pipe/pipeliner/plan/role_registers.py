"""How many registers a producer keeps and a consumer gets.

    128 threads compute, 128 copy     decrease 40, increase 232: 34816 of 64 K registers
    and two such blocks at once       decrease 40, increase 216: 32768 for each

Registers are moved by warpgroups: a block begins with as many for each thread, and whoever wants
more waits until others gave some away. E threads with r registers that take i, and P that keep d,
need E i + P d <= (E + P) r, all multiples of 8, and (E + P) r <= 64 K (PTX ISA, setmaxnreg).
"""

from __future__ import annotations

from dataclasses import dataclass

WARPGROUP, REGISTERS, UNIT = 128, 1 << 16, 8
# What a producer keeps, and what a thread may have at most, of 255 that instructions can name.
PRODUCER_REGISTERS, MOST_REGISTERS = 40, 232
# Of large blocks little is left for each thread.
FEW_REGISTERS = 32


@dataclass(frozen=True)
class Registers:
    """Registers of a thread: of each at the start, of a producer's, of a consumer's."""

    entry: int
    producer: int
    consumer: int


def registers_of_roles(threads: int, added: int, blocks: int = 1) -> Registers:
    """As many for each consumer as there are where so many blocks share them, or as its instructions can
    name."""
    producer = PRODUCER_REGISTERS if threads <= 2 * WARPGROUP else FEW_REGISTERS
    most = _multiple(REGISTERS // blocks // (threads + added))
    consumer = min(
        _multiple((most * (threads + added) - producer * added) // threads), MOST_REGISTERS
    )
    needed = consumer * threads + producer * added
    entry = -(-needed // ((threads + added) * UNIT)) * UNIT
    return Registers(entry, producer, consumer)


def _multiple(registers: int) -> int:
    return registers // UNIT * UNIT
