"""Chip data: what each chip can copy asynchronously, and how much memory it has.

Sources: CUDA C++ Programming Guide, "Compute Capabilities" (shared memory a block), PTX ISA
(cp.async sizes); LLVM AMDGPUUsage (wave size, LDS size) and the chips' ISA documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.vocabulary.queues import ASYNC_LDS, CP_ASYNC, Queue


@dataclass(frozen=True)
class Chip:
    """One chip.

    `copy_bytes` are the sizes in bytes that one lane can copy asynchronously from global to
    workgroup memory, () if the chip cannot. `copy_queue` is the FIFO those copies use.
    `workgroup_bytes` is the largest workgroup memory of a block in bytes, and
    `static_workgroup_bytes` how much of it a kernel may declare statically.
    """

    name: str
    lowering: Literal["nvvm", "rocdl"]
    lanes: int
    copy_bytes: tuple[int, ...]
    copy_queue: Queue | None
    workgroup_bytes: int
    static_workgroup_bytes: int
    features: str = ""


KIB = 1024


def _nvidia(name: str, workgroup_kib: int, features: str) -> Chip:
    return Chip(name, "nvvm", 32, (4, 8, 16), CP_ASYNC, workgroup_kib * KIB, 48 * KIB, features)


def _amd(name: str, lanes: int, copy_bytes: tuple[int, ...], workgroup_kib: int) -> Chip:
    queue = ASYNC_LDS if copy_bytes else None
    return Chip(name, "rocdl", lanes, copy_bytes, queue, workgroup_kib * KIB, workgroup_kib * KIB)


CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        _nvidia("sm_80", 163, "+ptx80"),
        _nvidia("sm_86", 99, "+ptx80"),
        _nvidia("sm_87", 163, "+ptx80"),
        _nvidia("sm_89", 99, "+ptx80"),
        _nvidia("sm_90", 227, "+ptx86"),
        _nvidia("sm_90a", 227, "+ptx86"),
        _nvidia("sm_100", 227, "+ptx86"),
        _nvidia("sm_100a", 227, "+ptx86"),
        _nvidia("sm_120", 99, "+ptx87"),
        _amd("gfx90a", 64, (4,), 64),
        _amd("gfx942", 64, (4,), 64),
        _amd("gfx950", 64, (4, 12, 16), 160),
        _amd("gfx1030", 32, (4,), 64),
        _amd("gfx1100", 32, (), 64),
        _amd("gfx1200", 32, (), 64),
        _amd("gfx1250", 32, (4, 8, 16), 320),
    )
}
