"""Executes AMD's assembly for every lane of a block, with copies that land as late as waits allow.

    global_load_lds_dword v[0:1], off        in flight; its bytes of LDS are not to be touched
    s_waitcnt vmcnt(1)                       all but the youngest vector-memory op have completed
    ds_read_b32 v2, v6                       a hazard if a copy into these bytes is in flight

Vector-memory ops complete in order (vmcnt counts loads, stores and copies on gfx9; on gfx1250
copies have asynccnt, those of tiles tensorcnt). A read of LDS is in flight until lgkmcnt or dscnt says otherwise: a copy
issued over its bytes before that is a hazard too. Waves run one after the other from barrier to
barrier, in either order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from helpers.amd_isa.alu import M32
from helpers.amd_isa.arithmetic import scalar_step, vector_step
from helpers.amd_isa.matrix import matrix_step
from helpers.amd_isa.memory import (
    buffer_step,
    global_step,
    lds_step,
    scalar_load,
    scratch_step,
    tensor_step,
)
from helpers.amd_isa.program import Instruction, Program
from helpers.amd_isa.registers import GLOBAL_BASE, Hazard, Registers, Unsupported

STEP_LIMIT = 200_000


@dataclass
class Block:
    """What the waves of a block share; `pending` and `reading` count ops in flight by byte."""

    memory: np.ndarray
    lds: np.ndarray
    late: bool

    def __post_init__(self) -> None:
        self.pending = np.zeros(len(self.lds), np.int32)
        self.reading = np.zeros(len(self.lds), np.int32)
        self.copies = 0
        self.loosened = 0

    def at(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Places in `memory` of `size` bytes from each address on."""
        places = (addresses.astype(np.int64) - GLOBAL_BASE)[:, None] + np.arange(size)
        if len(places) and (places.min() < 0 or places.max() >= len(self.memory)):
            raise Hazard("global memory out of bounds")
        return places

    def inside(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Places in `lds` of `size` bytes from each address on."""
        places = addresses.astype(np.int64)[:, None] + np.arange(size)
        if len(places) and (places.min() < 0 or places.max() >= len(self.lds)):
            raise Hazard("LDS out of bounds")
        return places


class Wave(Registers):
    """One wave of a block: its registers and where it is."""

    def __init__(self, program: Program, block: Block) -> None:
        super().__init__(program)
        self.block = block
        self.position = 0
        size = program.directives.get("private_segment_fixed_size", 0)
        self.scratch = np.full((self.lanes, size), 0xA5, np.uint8)
        self.split_counters = not program.chip.startswith("gfx9")

    def _note(self, i: Instruction, counter: str, left: int) -> None:
        """Whether a weakened wait leaves a copy in flight that the package wants completed.

        vmcnt counts stores too, and where paths meet the back end counts those of the path with the
        fewest: with 16 copies allowed and 3 stores on every path, vmcnt(16) where 19 would do.
        """
        if i.allowed is None or counter not in ("vm", "async", "tensor"):
            return
        own = [op for op in self.flight if op.counter == counter]
        if own and len(own) == left and own[0].finish is not None:
            self.block.loosened += sum(op.finish is not None for op in own) > i.allowed

    def run(self) -> Iterator[str]:
        """Run to the end; gives "barrier" at each barrier."""
        steps = 0
        while True:
            steps += 1
            if steps > STEP_LIMIT:
                raise Hazard("does not end")
            instruction = self.program.instructions[self.position]
            self.position += 1
            if instruction.name == "s_endpgm":
                return
            if instruction.name in ("s_barrier", "s_barrier_wait"):
                yield "barrier"
                continue
            try:
                if instruction.dual:
                    self._both(instruction, self.program.instructions[self.position])
                    self.position += 1
                    continue
                self.step(instruction)
            except Hazard as hazard:
                raise Hazard(f"line {instruction.line}: {hazard}") from None

    def _both(self, first: Instruction, second: Instruction) -> None:
        """Two vector instructions that are issued together: both read before either writes."""
        written = self.numbers(first.operands[0])
        before = self.v[written].copy()
        self.step(first)
        after = self.v[written].copy()
        self.v[written] = before
        self.step(second)
        self.v[written] = after

    def step(self, i: Instruction) -> None:
        name = i.name
        if name.startswith(_NOTHING):
            return
        if name == "s_waitcnt":
            names = {"vmcnt": "vm", "lgkmcnt": "lgkm", "vscnt": "store"}
            for counter, left in re.findall(r"(\w+)\((\d+)\)", i.operands[0]):
                self.wait(names[counter], int(left))
                self._note(i, names[counter], int(left))
        elif name.startswith("s_wait_"):
            counters = {"loadcnt": "vm", "dscnt": "lgkm", "kmcnt": "km", "asynccnt": "async"}
            counters |= {"storecnt": "store", "xcnt": "none", "tensorcnt": "tensor"}
            number, parts = int(i.operands[0], 0), name[7:].split("_")
            # Two counters in one instruction: dscnt in the low byte, the other in the next.
            left = [number] if len(parts) == 1 else [number >> 8, number & 0xFF]
            for part, most in zip(parts, left, strict=True):
                self.wait(counters[part], most)
                self._note(i, counters[part], most)
        elif name.startswith("tensor_"):
            tensor_step(self, i)
        elif name.startswith("buffer_"):
            buffer_step(self, i)
        elif name.startswith("scratch_"):
            scratch_step(self, i)
        elif name.startswith(("v_mfma", "v_wmma")):
            matrix_step(self, i)
        elif name.startswith("s_load_"):
            scalar_load(self, i)
        elif name.startswith("ds_"):
            lds_step(self, i)
        elif name.startswith("global_"):
            global_step(self, i)
        elif name.startswith("s_"):
            scalar_step(self, i)
        elif name.startswith("v_"):
            vector_step(self, i)
        else:
            raise Unsupported(name)


_NOTHING = tuple(
    "s_nop s_clause s_delay_alu s_setreg s_setprio s_sleep v_nop global_prefetch s_barrier_signal "
    "s_set_inst_prefetch s_code_end s_sendmsg s_prefetch".split()
)


@dataclass(frozen=True)
class Outcome:
    """What a block left in global memory, and how many copies it issued."""

    memory: np.ndarray
    copies: int
    loosened: int


def run_block(
    program: Program,
    memory: np.ndarray,
    arguments: int,
    size: tuple[int, int],
    *,
    late: bool,
    backward: bool,
) -> Outcome:
    """Run one block of `size` threads in x and y, whole waves.

    `arguments` is the address of the kernel's arguments. Raises Hazard and Unsupported.
    """
    reserved = program.directives.get("group_segment_fixed_size", 0)
    block = Block(memory.copy(), np.full(reserved, 0xA5, np.uint8), late)
    waves = []
    first, total = program.user_registers
    for number in range(size[0] * size[1] // program.lanes):
        wave = Wave(program, block)
        wave.s[first], wave.s[first + 1] = arguments & M32, arguments >> 32
        wave.s[total] = 0
        threads = np.arange(program.lanes) + number * program.lanes
        # x in the low ten bits of v0, y in the next ten.
        wave.v[0] = threads % size[0] | (threads // size[0] << 10)
        waves.append(wave.run())
    if backward:
        waves.reverse()
    while waves:
        met = [next(wave, "end") for wave in waves]
        if len(set(met)) != 1:
            raise Hazard("some waves end while others wait at a barrier")
        if met[0] == "end":
            break
    if block.pending.any():
        # Copies that nobody waits for may land after the block's memory is another's.
        raise Hazard("a copy is in flight at the end")
    return Outcome(block.memory, block.copies, block.loosened)
