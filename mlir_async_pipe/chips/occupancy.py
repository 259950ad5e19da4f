"""How many blocks of a kernel a multiprocessor holds at once.

    sm_80, 128 threads, 200 registers, 48 KiB    -->  2 blocks: 65536 / (4 warps * 32 * 200) = 2
    sm_86, 128 threads, 200 registers, 48 KiB    -->  2 blocks by registers and by memory

Sources: CUDA C++ Programming Guide, "Compute Capabilities" (1 KiB of shared memory kept by the
system for each block) and the occupancy calculator's units (registers are given to a warp in
256s, shared memory in 128 bytes); AMD: LLVM AMDGPUUsage (registers in 8s). What a chip holds at most
stands in chips/table.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.vocabulary.memory_layout import rounded

BlockLimit = Literal["workgroup memory", "registers", "threads", "blocks"]
# Schedulers of an NVIDIA multiprocessor, SIMDs of an AMD compute unit: each has its own registers.
_QUARTERS = 4


@dataclass(frozen=True)
class _Multiprocessor:
    """`threads` and `blocks` that may be resident, registers of 32 bits (times lanes), bytes of
    workgroup memory, of which `kept` go to the system with each block, and the units in which
    registers are given to a wave, and bytes to a block."""

    threads: int
    blocks: int
    registers: int
    memory: int
    kept: int
    register_unit: int
    memory_unit: int


def resident_blocks(
    chip: Chip, threads: int, registers: int | None, workgroup_bytes: int
) -> int | None:
    """Blocks of `threads` threads with `registers` registers a thread and `workgroup_bytes` of
    workgroup memory that one multiprocessor (or compute unit) holds.

    None where the chip's limits are not known here, or `registers` is None; 0 if one block does
    not fit."""
    if not chip.resident_threads or registers is None:
        return None
    return min(block_limits(chip, threads, registers, workgroup_bytes).values())


def block_limits(
    chip: Chip, threads: int, registers: int, workgroup_bytes: int
) -> dict[BlockLimit, int]:
    """The blocks that each limit of a chip allows, of those whose limits are known (`resident_threads`).

    A quarter of a multiprocessor gives registers to whole warps: 168 a thread are 3 warps a quarter, 12 in all,
    though 65536 / (32 * 168) is 12.2; with 200 these are 8, not 10."""
    unit = _multiprocessor(chip)
    waves = -(-threads // chip.lanes)
    of_wave = rounded(registers * chip.lanes, unit.register_unit)
    of_block = rounded(workgroup_bytes + unit.kept, unit.memory_unit)
    held = _QUARTERS * (unit.registers // _QUARTERS // of_wave) if of_wave else unit.blocks * waves
    return {
        "workgroup memory": unit.memory // of_block if of_block else unit.blocks,
        "registers": held // waves,
        "threads": unit.threads // (waves * chip.lanes),
        "blocks": unit.blocks,
    }


def _multiprocessor(chip: Chip) -> _Multiprocessor:
    threads, blocks = chip.resident_threads, chip.resident_blocks
    if chip.lowering == "nvvm":
        kept = 1024
        return _Multiprocessor(
            threads, blocks, chip.block_registers, chip.workgroup_bytes + kept, kept, 256, 128
        )
    return _Multiprocessor(
        threads, blocks, chip.block_registers, chip.workgroup_bytes, 0, 8 * chip.lanes, 512
    )
