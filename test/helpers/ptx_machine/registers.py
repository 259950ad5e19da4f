"""Registers: an unsigned array with an element a thread each, read as the type that an op names.

The operands of an instruction become functions `machine -> array` once, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.ptx_machine.faults import PtxFault, unknown
from helpers.ptx_machine.syntax import BITS, Imm, Instruction, Reg, Symbol

UNSIGNED = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}

Get = Callable[[Any], Any]
Put = Callable[[Any, Any, Any], None]


def type_of(parts: tuple[str, ...]) -> str:
    """The last type of an opcode."""
    for part in reversed(parts):
        if part in BITS:
            return part
    raise unknown(".".join(parts))


def types_of(parts: tuple[str, ...]) -> list[str]:
    return [part for part in parts if part in BITS]


class Operands:
    """Reads and writes the operands of a function's instructions."""

    def __init__(self, function_name: str, registers: dict[str, int], slots: dict):
        self.function, self.registers, self.slots = function_name, registers, slots

    def slot(self, reg: Reg) -> int:
        if reg.name not in self.registers:
            raise unknown(f"register {reg.name}")
        return self.slots.setdefault((self.function, reg.name), len(self.slots))

    def get(self, operand: Any, bits: int) -> Get:
        """The operand as unsigned integers of `bits` bits; a wider register is cut."""
        kind = UNSIGNED[bits]
        if isinstance(operand, Imm):
            if bits == 1:
                constant = np.bool_(operand.value)
            else:
                constant = kind(operand.value & ((1 << bits) - 1))
            return lambda machine: constant
        if isinstance(operand, Symbol):
            name, owner = operand.name, self.function
            return lambda machine: kind(machine.address_of(name, owner))
        if not isinstance(operand, Reg):
            raise unknown(f"operand {operand}")
        if operand.name not in self.registers:
            return self._special(operand.name, kind)
        slot = self.slot(operand)
        if self.registers[operand.name] == bits:
            return lambda machine: machine.registers[slot]
        return lambda machine: machine.registers[slot].astype(kind)

    def signed(self, operand: Any, bits: int) -> Get:
        """The operand as signed integers."""
        inner, kind = self.get(operand, bits), SIGNED[bits]
        return lambda machine: inner(machine).view(kind)

    def integers(self, operand: Any, kind: str) -> Get:
        """The operand as `kind` says: signed or unsigned."""
        return (self.signed if kind[0] == "s" else self.get)(operand, BITS[kind])

    def put(self, operand: Any) -> Put:
        """Write unsigned or signed integers to a register, in the lanes of a mask."""
        if isinstance(operand, Reg) and operand.name == "_":
            return lambda machine, value, mask: None
        if not isinstance(operand, Reg):
            raise unknown(f"destination {operand}")
        slot, bits = self.slot(operand), self.registers[operand.name]
        kind = UNSIGNED[bits]

        def put(machine: Any, value: Any, mask: Any) -> None:
            value = _widened(value, kind)
            if mask is None:
                if value.ndim == 0:
                    value = np.full(machine.threads, value)
                machine.registers[slot] = value
            else:
                machine.registers[slot] = np.where(mask, value, machine.registers[slot])

        return put

    def put_lanes(self, operand: Any) -> Put:
        """Write a value for each of some lanes, given by their numbers."""
        if isinstance(operand, Reg) and operand.name == "_":
            return lambda machine, value, lanes: None
        slot, kind = self.slot(operand), UNSIGNED[self.registers[operand.name]]

        def put(machine: Any, value: Any, lanes: Any) -> None:
            value = _widened(value, kind)
            if len(lanes) == machine.threads:
                machine.registers[slot] = np.ascontiguousarray(value)
                return
            renewed = machine.registers[slot].copy()
            renewed[lanes] = value
            machine.registers[slot] = renewed

        return put

    def _special(self, name: str, kind: Any) -> Get:
        if name not in SPECIAL:
            raise unknown(f"register {name}")
        return lambda machine: machine.special[name].astype(kind)


def _widened(value: Any, kind: Any) -> Any:
    """Into a register's type: signed values spread their sign, unsigned ones zeros."""
    if value.dtype == kind:
        return value
    if value.dtype.kind == "i":
        if value.dtype.itemsize < np.dtype(kind).itemsize:
            value = value.astype(SIGNED[np.dtype(kind).itemsize * 8])
        return value.view(UNSIGNED[value.dtype.itemsize * 8]).astype(kind)
    if value.dtype.kind not in "ub":
        raise PtxFault("bad-program", f"a register gets {value.dtype}")
    return value.astype(kind)


def special_registers(block: tuple, grid: tuple, ids: tuple) -> dict[str, np.ndarray]:
    """%tid.x and so on of one block of threads, as 32-bit numbers."""
    threads = block[0] * block[1] * block[2]
    number = np.arange(threads, dtype=np.uint32)
    at = (number % block[0], number // block[0] % block[1], number // (block[0] * block[1]))
    found: dict[str, Any] = {"%laneid": number % 32, "%warpid": number // 32}
    found["%nwarpid"] = np.uint32(-(-threads // 32))
    for axis, name in enumerate("xyz"):
        found[f"%tid.{name}"] = at[axis]
        found[f"%ntid.{name}"] = np.uint32(block[axis])
        found[f"%ctaid.{name}"] = np.uint32(ids[axis])
        found[f"%nctaid.{name}"] = np.uint32(grid[axis])
    return {name: np.asarray(value, np.uint32) for name, value in found.items()}


SPECIAL = frozenset(special_registers((1, 1, 1), (1, 1, 1), (0, 0, 0)))

Step = Callable[[Any, Any], None]
Maker = Callable[[Operands, Instruction], Step]
