"""Registers of one wave of an AMD GPU, and what is in flight of its memory ops."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.amd_isa.alu import M32
from helpers.amd_isa.program import Program

# Where global memory begins.
GLOBAL_BASE = 1 << 20


class Hazard(Exception):
    """The code touches bytes that something in flight writes or reads, or uses a register too
    early, or leaves its memory."""


class Unsupported(Exception):
    """An instruction that this machine does not know."""


@dataclass
class Op:
    """Something in flight: what its completion does, and the registers that it gives."""

    counter: str
    finish: Any = None
    registers: tuple[int, ...] = ()


@dataclass
class Registers:
    """Scalar and vector registers, and ops in flight, oldest first.

    `busy` counts for each vector register the loads in flight that give it.
    """

    program: Program
    s: list[int] = field(default_factory=lambda: [0] * 128)
    scc: bool = False
    flight: list[Op] = field(default_factory=list)
    busy: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lanes = self.program.lanes
        self.v = np.zeros((512, self.lanes), np.uint32)
        self.special = {"vcc": 0, "exec": (1 << self.lanes) - 1, "m0": 0}

    def active(self) -> np.ndarray:
        mask = self.special["exec"]
        return np.array([(mask >> lane) & 1 for lane in range(self.lanes)], np.bool_)

    def scalar(self, name: str, bits: int = 32) -> int:
        """A scalar register or literal as an unsigned number."""
        if found := re.fullmatch(r"s(\d+)", name):
            return self.s[int(found[1])]
        if found := re.fullmatch(r"s\[(\d+):(\d+)\]", name):
            return sum(self.s[int(found[1]) + n] << (32 * n) for n in range(bits // 32))
        if name in ("vcc", "exec", "m0"):
            return self.special[name]
        if name in ("vcc_lo", "exec_lo", "vcc_hi", "exec_hi"):
            return (self.special[name[:-3]] >> (32 if name.endswith("hi") else 0)) & M32
        if name in ("null", "off"):
            return 0
        if name == "scc":
            return int(self.scc)
        if name.startswith("ttmp"):
            return 0
        if found := re.fullmatch(r"lit64\((.*)\)", name):
            name = found[1]
        try:
            return int(name, 0) & ((1 << bits) - 1)
        except ValueError:
            raise Unsupported(f"operand {name}") from None

    def set_scalar(self, name: str, value: int, bits: int = 32) -> None:
        if found := re.fullmatch(r"s\[?(\d+)(?::\d+)?\]?", name):
            for n in range(max(1, bits // 32)):
                self.s[int(found[1]) + n] = (value >> (32 * n)) & M32
        elif name in ("vcc", "exec", "m0"):
            self.special[name] = value & ((1 << max(bits, self.lanes)) - 1)
        elif name in ("vcc_lo", "exec_lo"):
            key = name[:-3]
            self.special[key] = (self.special[key] >> 32 << 32) | (value & M32)
        elif name != "null":
            raise Unsupported(f"operand {name}")

    def numbers(self, name: str) -> list[int]:
        """The vector registers that an operand names; those for sums of matrices are the ones from 256 on."""
        found = re.fullmatch(r"([va])(?:(\d+)|\[(\d+):(\d+)\])", name)
        if found is None:
            return []
        first, last = (int(found[2] or n) for n in found.groups()[2:])
        more = 256 if found[1] == "a" else 0
        return list(range(first + more, last + more + 1))

    def needs(self, register: int) -> None:
        """Raise Hazard where a load of a register is in flight."""
        if self.busy.get(register):
            raise Hazard(f"v{register} is used before its load is waited for")

    def source(self, name: str, bits: int = 32) -> Any:
        """An operand of a vector instruction: an array, or an int for a scalar."""
        registers = self.numbers(name)
        if not registers:
            return self.scalar(name, bits)
        for register in registers:
            self.needs(register)
        if bits == 32:
            return self.v[registers[0]]
        low, high = (self.v[r].astype(np.uint64) for r in registers[:2])
        return low | (high << np.uint64(32))

    def set_vector(self, name: str, values: np.ndarray, bits: int = 32) -> None:
        registers, chosen = self.numbers(name), self.active()
        for n, register in enumerate(registers[: bits // 32]):
            part = (values >> np.uint64(32 * n)) if bits == 64 else values
            self.v[register][chosen] = (part & M32).astype(np.uint32)[chosen]

    def spread(self, name: str) -> np.ndarray:
        """An operand of 32 bits as an array."""
        value = self.source(name)
        if isinstance(value, np.ndarray):
            return value
        return np.full(self.lanes, value, np.uint32)

    def chosen_by(self, mask: int) -> np.ndarray:
        """A mask of lanes as an array."""
        return np.array([(mask >> lane) & 1 for lane in range(self.lanes)], np.bool_)

    def issue(self, op: Op) -> None:
        for register in op.registers:
            self.busy[register] = self.busy.get(register, 0) + 1
        self.flight.append(op)

    def wait(self, counter: str, left: int) -> None:
        """Complete the oldest ops of a counter until at most `left` are in flight."""
        own = [op for op in self.flight if op.counter == counter]
        for op in own[: max(0, len(own) - left)]:
            if op.finish is not None:
                op.finish()
            for register in op.registers:
                self.busy[register] -= 1
            self.flight.remove(op)
