"""Chip data: what each chip can copy asynchronously, and how much memory it has.

Sources: CUDA C++ Programming Guide, "Compute Capabilities" (shared memory a block, registers a
thread and a block, resident threads and blocks), PTX ISA (cp.async sizes); LLVM AMDGPUUsage (wave size, LDS size) and its
subtarget tables (vector registers a lane and a SIMD, of which a block has four), MLIR's amdgpu
dialect (which copy op a chip has, its widths and address spaces) and the chips' ISA documents.
Banks: CUDA C++ Programming Guide, "Shared Memory" (32 banks of 4 bytes; sectors of 32 bytes: its Best
Practices Guide, "Coalesced Access to Global Memory"); AMD CDNA3 ISA, "LDS" (32 banks), triton-lang/triton,
pull request 11365 (64 of gfx950, and which lanes are served together), ROCm Compute Profiler's model of the
vector cache (requests of 64 bytes). Multiprocessors: NVIDIA's whitepapers and data sheets of the A100, the H100 SXM and
the B200; other products of one architecture have others. AMD's chips have a second-level cache for each of several dies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, CP_ASYNC, Queue


@dataclass(frozen=True)
class CopyForm:
    """How an AMD chip copies from global memory to LDS asynchronously.

    `op` is the amdgpu op. With `wave_base` its destination is one address for the whole wave
    and lane i writes at base + i * bytes (the base travels in the scalar register M0); else
    each lane names its own. `source_spaces` are the memref memory spaces that the op reads
    ("" is none), at addresses that are multiples of `source_alignment` bytes or of the copy's
    size, whichever is less (CDNA3 ISA, "Memory Alignment": two address bits are ignored from a
    dword on). `waits` are the forms in which its completion can be awaited: "marks"
    (rocdl.wait.asyncmark, in groups) or "counter" (rocdl.s.wait.asynccnt, in ops). Up to
    `largest_constant` bytes in the instruction are added to both addresses."""

    op: str
    wave_base: bool
    source_spaces: tuple[str, ...]
    waits: tuple[Literal["marks", "counter"], ...]
    source_alignment: int = 16
    largest_constant: int = 0


# A constant of gfx9 has 12 bits and a sign, one of gfx10 11; what a negative one does to an address
# in LDS the documents do not say.
GATHER = CopyForm(
    "amdgpu.gather_to_lds",
    True,
    ("", "global", "fat_raw_buffer"),
    ("marks",),
    source_alignment=4,
    largest_constant=4095,
)
GATHER_GFX10 = replace(GATHER, largest_constant=2047)
ASYNC_LOAD = CopyForm("amdgpu.global_load_async_to_lds", False, ("global",), ("marks", "counter"))


@dataclass(frozen=True)
class Chip:
    """One chip.

    `copy_bytes` are the sizes in bytes that one lane can copy asynchronously from global to
    workgroup memory, () if the chip cannot. `copy_queue` is the FIFO those copies use.
    `workgroup_bytes` is the largest workgroup memory of a block in bytes, and
    `static_workgroup_bytes` how much of it a kernel may declare statically. `copy_form` is
    how AMD chips copy, None on NVIDIA and where the chip cannot. `lanes` is the wave size that
    the back end uses by default, `threads` the largest block. `thread_registers` and
    `block_registers` are the vector registers of 32 bits that a thread and a block may have.
    `resident_threads` and `resident_blocks` are those that a multiprocessor (or compute unit) holds
    at once, 0 where that is not known here; `multiprocessors` are those that share the second-level cache, 0 where
    products differ or have several caches. `tensor_copies`: it copies by tensor maps;
    `warpgroup_products`, `tensor_memory`: it multiplies by wgmma, by tcgen05.
    `banks` of 4 bytes give workgroup memory at once, and global memory comes in sectors of `sector_bytes`; 0
    where that is not known here. Lanes are served in their order, as many as the banks have bytes for, but
    for reads of 16 bytes the runs of four lanes that begin at those of each item of `reads_of_16`, of 32
    lanes, where it is not empty."""

    name: str
    lowering: Literal["nvvm", "rocdl"]
    lanes: int
    copy_bytes: tuple[int, ...]
    copy_queue: Queue | None
    workgroup_bytes: int
    static_workgroup_bytes: int
    thread_registers: int
    block_registers: int
    features: str = ""
    copy_form: CopyForm | None = None
    threads: int = 1024
    resident_threads: int = 0
    resident_blocks: int = 0
    multiprocessors: int = 0
    tensor_copies: bool = False
    warpgroup_products: bool = False
    tensor_memory: bool = False
    banks: int = 0
    sector_bytes: int = 0
    reads_of_16: tuple[tuple[int, ...], ...] = ()

    def registers_of_thread(self, threads: int | None) -> int:
        """Registers of 32 bits that a thread may have in a block of that many threads (None: not known)."""
        if threads is None:
            return self.thread_registers
        # A block is given whole waves.
        whole = -(-threads // self.lanes) * self.lanes
        return min(self.thread_registers, self.block_registers // whole)


KIB = 1024
_MULTIPROCESSORS = {"sm_80": 108, "sm_90": 132, "sm_90a": 132, "sm_100": 148, "sm_100a": 148}


def _nvidia(name: str, workgroup_kib: int, features: str, resident: tuple[int, int]) -> Chip:
    return Chip(
        name,
        "nvvm",
        32,
        (4, 8, 16),
        CP_ASYNC,
        workgroup_kib * KIB,
        48 * KIB,
        thread_registers=255,
        block_registers=65536,
        features=features,
        resident_threads=resident[0],
        resident_blocks=resident[1],
        multiprocessors=_MULTIPROCESSORS.get(name, 0),
        # PTX ISA, cp.async.bulk.tensor: sm_90 or later; wgmma: sm_90a; tcgen05: sm_100a and its kin,
        # which sm_120 and sm_121 are not.
        tensor_copies=int("".join(filter(str.isdigit, name))) >= 90,
        warpgroup_products=name == "sm_90a",
        tensor_memory=name in ("sm_100a", "sm_103a", "sm_110a"),
        banks=32,
        sector_bytes=32,
    )


def _amd(
    name: str,
    lanes: int,
    workgroup_kib: int,
    copy_bytes: tuple[int, ...] = (),
    form: CopyForm | None = None,
    registers: tuple[int, int] = (256, 1024),
    resident: tuple[int, int] = (0, 0),
    banks: int = 0,
    reads_of_16: tuple[tuple[int, ...], ...] = (),
) -> Chip:
    """`resident` threads and blocks; `registers` for each lane: those of one wave, and of all waves of one of the four SIMDs."""
    size = workgroup_kib * KIB
    return Chip(
        name,
        "rocdl",
        lanes,
        copy_bytes,
        ASYNC_LDS if form else None,
        size,
        size,
        thread_registers=registers[0],
        block_registers=4 * registers[1] * lanes,
        copy_form=form,
        resident_threads=resident[0],
        resident_blocks=resident[1],
        banks=banks,
        sector_bytes=64 if banks else 0,
        reads_of_16=reads_of_16,
    )


# gfx90a and its followers have accumulation registers in the same file, gfx11 and gfx12 half as
# many again as gfx10.
_UNIFIED = (512, 512)
_HALF_MORE = (256, 1536)
# Eight waves of 64 on each of four SIMDs; a compute unit holds 32 blocks.
_WAVES = (2048, 32)
_READS_OF_GFX942 = ((0, 20), (4, 16), (8, 28), (12, 24))
_READS_OF_GFX950 = ((0, 12, 20, 24), (4, 8, 16, 28))


CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        _nvidia("sm_80", 163, "+ptx80", (2048, 32)),
        _nvidia("sm_86", 99, "+ptx80", (1536, 16)),
        _nvidia("sm_87", 163, "+ptx80", (1536, 16)),
        _nvidia("sm_89", 99, "+ptx80", (1536, 24)),
        _nvidia("sm_90", 227, "+ptx86", (2048, 32)),
        _nvidia("sm_90a", 227, "+ptx86", (2048, 32)),
        _nvidia("sm_100", 227, "+ptx86", (2048, 32)),
        _nvidia("sm_100a", 227, "+ptx86", (2048, 32)),
        _nvidia("sm_103a", 227, "+ptx88", (2048, 32)),
        _nvidia("sm_110a", 227, "+ptx90", (1536, 24)),
        _nvidia("sm_120", 99, "+ptx87", (1536, 24)),
        _nvidia("sm_120a", 99, "+ptx87", (1536, 24)),
        _nvidia("sm_121a", 99, "+ptx88", (1536, 24)),
        _amd("gfx90a", 64, 64, (4,), GATHER, _UNIFIED, _WAVES, banks=32),
        _amd("gfx942", 64, 64, (4,), GATHER, _UNIFIED, _WAVES, 32, _READS_OF_GFX942),
        _amd("gfx950", 64, 160, (4, 12, 16), GATHER, _UNIFIED, _WAVES, 64, _READS_OF_GFX950),
        _amd("gfx1030", 32, 64, (4,), GATHER_GFX10),
        # The LDS DMA of gfx9 and gfx10 is gone in gfx11 and came back, in another form, in
        # gfx1250.
        _amd("gfx1100", 32, 64, registers=_HALF_MORE),
        _amd("gfx1200", 32, 64, registers=_HALF_MORE),
        _amd("gfx1201", 32, 64, registers=_HALF_MORE),
        _amd("gfx1250", 32, 320, (4, 8, 16), ASYNC_LOAD, registers=(1024, 1024)),
    )
}
