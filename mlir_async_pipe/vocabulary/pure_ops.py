"""Ops that touch no memory, and whether the threads of a block agree on what they make.

arith.addi             pure: the same in all threads if its operands are
gpu.subgroup_size      pure: the same in all threads
gpu.shuffle            pure: another one in each thread, whatever it is given
gpu.printf             harmless: touches no memory that a copy could, but makes no value
"""

from __future__ import annotations

from typing import Any, Literal

from mlir_async_pipe.vocabulary.memory_names import ALLOCATION_OPS, VIEW_OPS

# Registers of threads, blocks and the clock; `launch_ids` knows what most of them hold.
REGISTERS = ("nvvm.read.ptx.sreg.", "rocdl.workitem.", "rocdl.workgroup.")

# By dialect; the exceptions are listed below.
_PURE_PREFIXES = ("arith.", "math.", "index.", "complex.", "ub.", "affine.", "vector.", *REGISTERS)
_NOT_PURE = frozenset(
    [
        f"affine.{name}"
        for name in "for if parallel load store vector_load vector_store dma_start dma_wait "
        "prefetch".split()
    ]
    + [
        f"vector.{name}"
        for name in "load store transfer_read transfer_write maskedload maskedstore gather "
        "scatter expandload compressstore mask print".split()
    ]
)
_PURE_LLVM = frozenset(
    "llvm." + name
    for name in (
        "add sub mul sdiv udiv srem urem and or xor shl lshr ashr icmp fcmp fadd fsub fmul fdiv "
        "frem fneg select trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast "
        "ptrtoint inttoptr addrspacecast getelementptr extractvalue insertvalue extractelement "
        "insertelement shufflevector mlir.constant mlir.undef mlir.poison mlir.zero "
        "mlir.addressof freeze"
    ).split()
)

Agreement = Literal["operands", "same", "differs"]
"""Threads make the same value: where their operands agree, always, or never."""

_NAMED: dict[Agreement, str] = {
    # One lane's value for its wave (readfirstlane, readlane); other waves have their own.
    "operands": "memref.dim memref.extract_strided_metadata "
    "memref.extract_aligned_pointer_as_index builtin.unrealized_conversion_cast gpu.thread_id "
    "gpu.block_id gpu.block_dim gpu.grid_dim gpu.lane_id gpu.subgroup_id amdgpu.sched_barrier "
    "rocdl.readfirstlane rocdl.readlane async_pipe.yield scf.yield scf.condition",
    "same": "memref.get_global gpu.num_subgroups gpu.subgroup_size gpu.dynamic_shared_memory "
    "nvvm.read.ptx.sreg.warpsize",
    "differs": "gpu.global_id gpu.shuffle gpu.subgroup_reduce gpu.subgroup_broadcast gpu.rotate "
    "amdgpu.dpp amdgpu.swizzle_bitmode amdgpu.permlane_swap amdgpu.mfma amdgpu.scaled_mfma "
    "amdgpu.wmma nvgpu.mma.sync nvgpu.mma.sp.sync nvvm.mma.sync",
}
_AGREEMENT: dict[str, Agreement] = {
    name: agreement for agreement, names in _NAMED.items() for name in names.split()
}

_HARMLESS = frozenset(
    "cf.assert gpu.printf gpu.launch gpu.launch_func gpu.module memref.prefetch "
    "memref.assume_alignment llvm.intr.assume llvm.fence rocdl.s.waitcnt rocdl.s.setprio "
    "rocdl.sched.barrier rocdl.sched.group.barrier vector.print amdgpu.sched_barrier "
    "nvvm.fence.mbarrier.init amdgpu.memory_counter_wait builtin.module func.func gpu.func "
    "llvm.func memref.global".split()
)
_HARMLESS_PREFIXES = (*REGISTERS, "nvvm.read.ptx.", "nvgpu.mbarrier.")


def is_pure(op: Any) -> bool:
    """Whether the op itself (not its regions) is known to touch no memory."""
    name = op.name
    if name in _AGREEMENT or name in VIEW_OPS or name in _PURE_LLVM:
        return True
    return name not in _NOT_PURE and name.startswith(_PURE_PREFIXES)


def agreement(name: str) -> Agreement:
    """How threads of a block agree on what a pure op called `name` makes, beside the ids that
    `launch_ids` knows."""
    return _AGREEMENT.get(name) or ("differs" if name.startswith(REGISTERS) else "operands")


def is_harmless(name: str) -> bool:
    """Whether ops called `name`, which have no row, touch no memory that a copy could."""
    return name in _HARMLESS or name in ALLOCATION_OPS or name.startswith(_HARMLESS_PREFIXES)
