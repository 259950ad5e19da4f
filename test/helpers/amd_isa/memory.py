"""Memory instructions of AMD's assembly: scalar loads, LDS, global memory, and the copies between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from helpers.amd_isa.alu import M32
from helpers.amd_isa.program import Instruction
from helpers.amd_isa.registers import GLOBAL_BASE, Hazard, Op, Unsupported

if TYPE_CHECKING:
    from helpers.amd_isa.machine import Wave


def scalar_load(wave: Wave, i: Instruction) -> None:
    words = words_of(i.name)
    start = wave.scalar(i.operands[1], 64) + wave.scalar(i.operands[2]) + i.offset()
    places = wave.block.at(np.array([start]), 4 * words)
    values = wave.block.memory[places].reshape(-1).view(np.uint32)
    first = int(re.findall(r"\d+", i.operands[0])[0])
    for n in range(words):
        wave.s[first + n] = int(values[n])


def _addresses(wave: Wave, i: Instruction, address: str, base: str, size: int) -> np.ndarray:
    if base == "off":
        return wave.source(address, 64).astype(np.int64) + i.offset()
    scale = size if "scale_offset" in i.modifiers else 1
    own = wave.source(address)
    own = own if isinstance(own, np.ndarray) else np.full(wave.lanes, own, np.uint32)
    return own.astype(np.int64) * scale + wave.scalar(base, 64) + i.offset()


def global_step(wave: Wave, i: Instruction) -> None:
    if i.name.startswith(("global_load_lds", "global_load_async_to_lds")):
        _copy(wave, i)
    elif i.name.startswith("global_load"):
        size, chosen = bytes_of(i.name), wave.active()
        where = wave.block.at(_addresses(wave, i, i.operands[1], i.operands[2], size)[chosen], size)
        registers = wave.numbers(i.operands[0])
        _put(wave, registers, wave.block.memory[where], size, chosen)
        wave.issue(Op("vm", None, tuple(registers)))
    elif i.name.startswith("global_store"):
        size, chosen = bytes_of(i.name), wave.active()
        where = wave.block.at(_addresses(wave, i, i.operands[0], i.operands[2], size)[chosen], size)
        wave.block.memory[where] = held_bytes(wave, i.operands[1], size)[chosen]
        wave.issue(Op("store" if wave.split_counters else "vm"))
    else:
        raise Unsupported(i.name)


def _put(wave: Wave, registers: list[int], data: np.ndarray, size: int, chosen: np.ndarray) -> None:
    padded = np.zeros((len(data), 4 * len(registers)), np.uint8)
    padded[:, :size] = data
    words = padded.view(np.uint32)
    for n, register in enumerate(registers):
        wave.v[register][chosen] = words[:, n]


def held_bytes(wave: Wave, operand: str, size: int) -> np.ndarray:
    """The first `size` bytes of the vector registers that an operand names, for each lane."""
    registers = wave.numbers(operand)
    for register in registers:
        wave.needs(register)
    words = np.stack([wave.v[r] for r in registers], axis=1)
    return np.ascontiguousarray(words).view(np.uint8)[:, :size]


def buffer_step(wave: Wave, i: Instruction) -> None:
    """A buffer to LDS or registers, or back: the descriptor's words are a base of 48 bits, a stride, the bytes, and
    flags; what lies outside of these bytes is zero, or not written (CDNA 3 ISA, section 9.1)."""
    found = re.fullmatch(r"buffer_(load|store)_(\w+)", i.name)
    copies = "lds" in i.modifiers
    if found is None or "idxen" in i.modifiers or wave.split_counters or "d16" in i.name:
        raise Unsupported(i.name)
    if copies and not i.name.startswith("buffer_load_dword"):
        raise Unsupported(i.name)
    block, chosen, size = wave.block, wave.active(), bytes_of(i.name)
    address, resource, scalar = i.operands[-3:]
    base, high, length, _ = _scalars(wave, resource)
    if high >> 16:
        raise Unsupported("a buffer with a stride")
    # The scalar offset counts for the address, and not for the range.
    own = np.zeros(wave.lanes, np.int64) + i.offset()
    if "offen" in i.modifiers:
        own += wave.source(address).astype(np.int64)
    held = (own >= 0) & (own + size <= length)
    if (chosen & ~held & (own < length)).any() and size > 4:
        raise Unsupported("vectors that are partly inside of their buffer")
    start = base + (high << 32) + wave.scalar(scalar)
    if found[1] == "store":
        data, chosen = held_bytes(wave, i.operands[0], size), chosen & held
        block.memory[block.at((start + own)[chosen], size)] = data[chosen]
        wave.issue(Op("vm"))
        return
    source = block.at(np.where(held, start + own, GLOBAL_BASE)[chosen], size)
    if copies:
        target = wave.special["m0"] + i.offset() + np.arange(wave.lanes) * size
        _issue(wave, block.inside(target[chosen], size), source, held[chosen, None], "vm")
        return
    registers = wave.numbers(i.operands[0])
    _put(wave, registers, np.where(held[chosen, None], block.memory[source], 0), size, chosen)
    wave.issue(Op("vm", None, tuple(registers)))


def scratch_step(wave: Wave, i: Instruction) -> None:
    """A lane's own memory, as spills use it; counted as global memory is."""
    found = re.fullmatch(r"scratch_(load|store)_(\w+)", i.name)
    if found is None or "d16" in i.name:
        raise Unsupported(i.name)
    stores, size = found[1] == "store", bytes_of(i.name)
    address, scalar = i.operands[0 if stores else 1], i.operands[2]
    own = np.zeros(wave.lanes, np.int64) + wave.scalar(scalar) + i.offset()
    if wave.numbers(address):
        own += wave.source(address).astype(np.int64)
    chosen, places = wave.active(), own[:, None] + np.arange(size)
    if len(places[chosen]) and (places.min() < 0 or places.max() >= wave.scratch.shape[1]):
        raise Hazard("scratch out of bounds")
    lanes = np.flatnonzero(chosen)[:, None]
    if stores:
        wave.scratch[lanes, places[chosen]] = held_bytes(wave, i.operands[1], size)[chosen]
        wave.issue(Op("store" if wave.split_counters else "vm"))
        return
    registers = wave.numbers(i.operands[0])
    _put(wave, registers, wave.scratch[lanes, places[chosen]], size, chosen)
    wave.issue(Op("vm", None, tuple(registers)))


def _copy(wave: Wave, i: Instruction) -> None:
    """Global memory to LDS. The offset counts on both sides."""
    block, chosen, size = wave.block, wave.active(), bytes_of(i.name)
    if wave.split_counters:
        # An address of 32 bits: a negative one plus the offset wraps around.
        target = (wave.source(i.operands[0]).astype(np.int64) + i.offset()) & M32
        address, base = i.operands[1], i.operands[2]
    else:
        target = wave.special["m0"] + i.offset() + np.arange(wave.lanes) * size
        address, base = i.operands[0], i.operands[1]
    source = block.at(_addresses(wave, i, address, base, size)[chosen], size)
    places = block.inside(target[chosen], size)
    _issue(wave, places, source, np.True_, "async" if wave.split_counters else "vm")


def _issue(
    wave: Wave, places: np.ndarray, source: np.ndarray, held: np.ndarray, counter: str
) -> None:
    """Let a copy be in flight; what is not `held` of it becomes zeros."""
    block = wave.block
    if block.pending[places].any():
        raise Hazard("a copy writes LDS that another copy in flight writes")
    if block.reading[places].any():
        raise Hazard("a copy writes LDS that a read in flight reads")
    block.copies += 1
    if not block.late:
        block.lds[places] = np.where(held, block.memory[source], 0)
    block.pending[places] += 1

    def finish() -> None:
        block.lds[places] = np.where(held, block.memory[source], 0)
        block.pending[places] -= 1

    wave.issue(Op(counter, finish))


def tensor_step(wave: Wave, i: Instruction) -> None:
    """A tile by a descriptor of the tensor data mover, whatever lanes are on (CDNA5 ISA, tensor DMA).

    Words 0 to 3: count, LDS address, global address. Words 4 to 11, by bit: size of an element 16, sizes of the
    tensor 48 and 80, of the tile 112 and 128, the stride of a row 160.
    """
    block = wave.block
    first = _scalars(wave, i.operands[0])
    bits = sum(word << (32 * n) for n, word in enumerate(_scalars(wave, i.operands[1])))

    def field(start: int, length: int) -> int:
        return (bits >> start) & ((1 << length) - 1)

    if first[0] & 3 != 1 or first[0] >> 31 or field(0, 16) or field(18, 3):
        raise Unsupported("a descriptor that copies more, or less, than a tile")
    size = 1 << field(16, 2)
    columns, rows = field(112, 16), max(field(128, 16), 1)
    inside = np.zeros((rows, columns), np.bool_)
    inside[: field(80, 32) if field(128, 16) else 1, : field(48, 32)] = True
    start = first[2] | (first[3] & 0x1FFFFFF) << 32
    at = np.arange(rows)[:, None] * field(160, 48) + np.arange(columns)
    # What is outside may be anywhere.
    source = block.at((start + size * np.where(inside, at, 0)).reshape(-1), size)
    target = first[1] + size * np.arange(rows * columns)
    places, held = block.inside(target, size), inside.reshape(-1, 1)
    if i.name == "tensor_store_from_lds":
        raise Unsupported(i.name)
    _issue(wave, places, source, held, "tensor")


def _scalars(wave: Wave, operand: str) -> list[int]:
    low, high = map(int, re.findall(r"\d+", operand))
    return [wave.s[n] for n in range(low, high + 1)]


def lds_step(wave: Wave, i: Instruction) -> None:
    block, chosen = wave.block, wave.active()
    size, reads = bytes_of(i.name), "read" in i.name or "load" in i.name
    pairs = re.search(r"2(st64)?_b(32|64)", i.name) or re.search(
        r"(?:read|write|load|store)_2addr(_stride64)?_b(32|64)", i.name
    )
    operand = i.operands[1] if reads else i.operands[0]
    if "_tr" in i.name:
        _read_transposed(wave, i)
        return
    if i.name == "ds_bpermute_b32":
        _permuted(wave, i)
        return
    base = wave.source(operand).astype(np.int64)
    if pairs:
        unit = int(pairs[2]) // 8
        step = unit * (64 if pairs[1] else 1)
        starts = [int(i.modifiers.get(f"offset{n}", "0"), 0) * step for n in (0, 1)]
    else:
        unit, starts = size, [i.offset()]
    places = np.concatenate(
        [block.inside(((base + start) & M32)[chosen], unit) for start in starts], axis=1
    )
    if block.pending[places].any():
        raise Hazard(f"{i.name} touches LDS that a copy in flight writes")
    if reads:
        _read(wave, i, places, block.lds[places], chosen)
        return
    data = np.concatenate(
        [held_bytes(wave, o, unit) for o in i.operands[1:3]][: len(starts)], axis=1
    )
    block.lds[places] = data[chosen]
    wave.issue(Op("lgkm"))


def _read(
    wave: Wave, i: Instruction, places: np.ndarray, data: np.ndarray, chosen: np.ndarray
) -> None:
    """Let a read of LDS be in flight: its registers, and its bytes, are not to be touched."""
    block, registers = wave.block, wave.numbers(i.operands[0])
    _put(wave, registers, data, data.shape[1], chosen)
    np.add.at(block.reading, places, 1)

    def finish() -> None:
        np.add.at(block.reading, places, -1)

    wave.issue(Op("lgkm", finish, tuple(registers)))


def _read_transposed(wave: Wave, i: Instruction) -> None:
    """ds_read_b64_tr_b16, and of 8 bits: sixteen lanes read n rows of sixteen elements, n each, and lane l receives
    column l (CDNA 4 ISA). All lanes take part."""
    found = re.fullmatch(r"ds_read_b64_tr_b(8|16)", i.name)
    if found is None or not wave.active().all():
        raise Unsupported(i.name)
    each, block = int(found[1]) // 8, wave.block
    starts = (wave.source(i.operands[1]).astype(np.int64) + i.offset()) & M32
    places = block.inside(starts, 8)
    if block.pending[places].any():
        raise Hazard(f"{i.name} touches LDS that a copy in flight writes")
    count = 8 // each
    lane, row = np.arange(16)[:, None], np.arange(count)[None, :]
    held = block.lds[places].reshape(-1, 16, count, each)
    moved = held[:, 16 // count * row + lane // count, lane % count].reshape(wave.lanes, 8)
    _read(wave, i, places, moved, wave.active())


def _permuted(wave: Wave, i: Instruction) -> None:
    """ds_bpermute: a lane is given the number of the lane that a quarter of its address names. No memory is touched."""
    address, value = (wave.spread(operand) for operand in i.operands[1:])
    if not wave.active().all():
        raise Unsupported("lanes that are off in ds_bpermute")
    registers = wave.numbers(i.operands[0])
    wave.v[registers[0]] = value[(address.astype(np.int64) + i.offset()) // 4 % wave.lanes]
    wave.issue(Op("lgkm", None, tuple(registers)))


_WORDS = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}


def words_of(name: str) -> int:
    last = name.rsplit("_", 1)[-1]
    return _WORDS[last] if last in _WORDS else int(last[1:]) // 32


def bytes_of(name: str) -> int:
    """Bytes a lane that a memory instruction moves."""
    last = name.rsplit("_", 1)[-1]
    if last in _WORDS:
        return 4 * _WORDS[last]
    if last in ("ushort", "sshort", "short"):
        return 2
    if last in ("ubyte", "sbyte", "byte"):
        return 1
    if re.fullmatch(r"[biu]\d+", last):
        return int(last[1:]) // 8
    raise Unsupported(name)
