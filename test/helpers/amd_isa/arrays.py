"""Runs one block of a kernel that takes memrefs, and mutants of its waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers.amd_isa.judge import GUARD_BYTES, weakened
from helpers.amd_isa.machine import GLOBAL_BASE, Hazard, Outcome, run_block
from helpers.amd_isa.program import Program


def run_arrays(
    program: Program, arrays: list[np.ndarray], threads: int, *, late: bool, backward: bool = False
) -> tuple[list[np.ndarray], Outcome]:
    """The arrays after one block of a kernel that takes their descriptors (MLIR: pointers, offset, sizes, strides)."""
    starts, words, end = [], [], 0
    for array in arrays:
        starts.append(end)
        strides = (step // array.itemsize for step in array.strides)
        words += [GLOBAL_BASE + end, GLOBAL_BASE + end, 0, *array.shape, *strides]
        end += -(-array.nbytes // 256) * 256 + GUARD_BYTES
    memory = np.zeros(end + 8 * len(words) + 256, np.uint8)
    for start, array in zip(starts, arrays, strict=True):
        memory[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
    memory[end : end + 8 * len(words)] = np.array(words, np.uint64).view(np.uint8)
    found = run_block(
        program, memory, GLOBAL_BASE + end, (threads, 1), late=late, backward=backward
    )
    after = [
        found.memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        for start, array in zip(starts, arrays, strict=True)
    ]
    return after, found


def survivors(
    program: Program, allowed: list[int], arrays: list[np.ndarray], threads: int
) -> Iterator[tuple[str, int]]:
    """The weakened waits with which a kernel still ends without a hazard, and how often each left a copy in flight that
    `allowed`, the copies that each wait may leave, does not."""
    for place, mutant in weakened(program, allowed):
        try:
            _, found = run_arrays(mutant, arrays, threads, late=True)
        except Hazard:
            continue
        yield place, found.loosened
