"""Ops that touch no memory, and whether the threads of a block agree on what they make.

arith.addi             pure: the same in all threads if its operands are
gpu.subgroup_size      pure: the same in all threads
gpu.shuffle            pure: another one in each thread, whatever it is given
cf.assert              harmless: touches no memory that a copy could, but makes no value

Names that end in "." stand for all ops that begin with them. An op that is neither here nor in a
row is opaque; those of the GPU dialects that are so on purpose stand in `opaque_ops`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from mlir_async_pipe.vocabulary.memory_names import ALLOCATION_OPS, VIEW_OPS

# Registers of threads, blocks and the clock; `launch_ids` knows what most of them hold.
REGISTERS = ("nvvm.read.ptx.sreg.", "rocdl.workitem.", "rocdl.workgroup.")


def _named(dialect: str, names: str) -> frozenset[str]:
    return frozenset(f"{dialect}.{name}" for name in names.split())


# Dialects without memory, the exceptions listed below, and families of ops.
_PURE_FAMILIES = (
    *("arith.", "math.", "index.", "complex.", "ub.", "affine.", "vector."),
    "nvvm.convert.",
    *("rocdl.cvt.", "rocdl.dot4.", "rocdl.fdot2."),
    *("rocdl.cluster.id.", "rocdl.cluster.workgroup.id."),
    *REGISTERS,
)
_NOT_PURE = _named(
    "affine", "for if parallel load store vector_load vector_store dma_start dma_wait prefetch"
) | _named(
    "vector",
    "load store transfer_read transfer_write maskedload maskedstore gather scatter expandload "
    "compressstore mask print yield",
)
_PURE_LLVM = _named(
    "llvm",
    "add sub mul sdiv udiv srem urem and or xor shl lshr ashr icmp fcmp fadd fsub fmul fdiv frem "
    "fneg select trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast ptrtoint "
    "inttoptr addrspacecast getelementptr extractvalue insertvalue extractelement insertelement "
    "shufflevector mlir.constant mlir.undef mlir.poison mlir.zero mlir.addressof freeze",
)

Agreement = Literal["operands", "same", "differs"]
"""Threads make the same value: where their operands agree, always, or never."""

# One lane's value for its wave (readfirstlane, readlane); other waves have their own.
_AS_OPERANDS = (
    _named("builtin", "unrealized_conversion_cast")
    | _named("async_pipe", "yield")
    | _named("scf", "yield condition")
    | _named(
        "memref",
        "dim distinct_objects extract_aligned_pointer_as_index extract_strided_metadata global "
        "rank",
    )
    | _named(
        "gpu",
        "block_dim block_id cluster_block_id cluster_dim cluster_dim_blocks cluster_id grid_dim "
        "lane_id subgroup_id subgroup_mma_constant_matrix thread_id",
    )
    | _named("nvgpu", "extf rcp truncf warpgroup.mma.init.accumulator")
    | _named(
        "nvvm",
        "addf cos divf dot.accumulate.2way dot.accumulate.4way ex2 fma log2 mapa prmt "
        "rcp.approx.ftz.f rsqrt sin sqrt sqrt.approx subf",
    )
    | _named(
        "amdgpu",
        "dot ds_barrier_state_init_count ds_barrier_state_pending_count ds_barrier_state_phase "
        "ds_barrier_state_phase_parity ext_packed_fp8 make_dma_base make_dma_descriptor "
        "make_gather_dma_base make_gather_dma_descriptor packed_scaled_trunc "
        "packed_stoch_round_fp8 packed_trunc_2xfp8 scaled_ext_packed scaled_ext_packed_matrix",
    )
    | _named(
        "rocdl",
        "cos exp exp2 fdot2 fmed3 log make.buffer.rsrc rcp readfirstlane readlane rsq sdot2 sdot4 "
        "sdot8 sin sqrt sudot4 sudot8 tanh udot2 udot4 udot8",
    )
    # What IREE's dispatches ask of their launch, and what they promise about numbers.
    | _named(
        "hal",
        "interface.binding.subspan interface.constant.load interface.workgroup.count "
        "interface.workgroup.id interface.workgroup.size",
    )
    | _named("util", "assume.int")
)
_SAME = (
    _named("memref", "get_global")
    | _named("gpu", "num_subgroups subgroup_size dynamic_shared_memory")
    | _named("nvvm", "read.ptx.sreg.warpsize")
    | _named("rocdl", "wavefrontsize")
)
# What a lane receives depends on which lane it is, or on what other lanes hold.
_DIFFERS = (
    _named(
        "gpu",
        "global_id shuffle subgroup_reduce subgroup_broadcast rotate ballot subgroup_mma_compute "
        "subgroup_mma_elementwise subgroup_mma_extract_thread_local "
        "subgroup_mma_insert_thread_local",
    )
    | _named("nvgpu", "mma.sync mma.sp.sync")
    | _named(
        "nvvm",
        "elect.sync match.sync mma.block_scale mma.sp.block_scale mma.sp.sync mma.sync movmatrix "
        "redux.sync shfl.sync vote.sync wmma.mma",
    )
    | _named(
        "amdgpu",
        "dpp swizzle_bitmode permlane_swap permlane_var mfma wmma scaled_mfma scaled_wmma "
        "sparse_mfma sparse_wmma",
    )
    | _named("rocdl", "ballot ds_bpermute ds_swizzle mbcnt.hi mbcnt.lo update.dpp wave.id")
)
_DIFFERING_FAMILIES = (
    *("rocdl.mfma.", "rocdl.smfmac.", "rocdl.swmmac.", "rocdl.wmma.", "rocdl.permlane"),
    *REGISTERS,
)
_PURE_NAMES = _AS_OPERANDS | _SAME | _DIFFERS | _PURE_LLVM | VIEW_OPS.keys()

_HARMLESS = frozenset(
    "cf.assert gpu.launch gpu.launch_func gpu.module memref.assume_alignment llvm.intr.assume "
    "rocdl.s.waitcnt amdgpu.memory_counter_wait "
    "builtin.module func.func gpu.func llvm.func memref.global".split()
)
_HARMLESS_PREFIXES = (*REGISTERS, "nvgpu.mbarrier.")


def is_pure(op: Any) -> bool:
    """Whether the op itself (not its regions) is known to touch no memory."""
    return is_pure_name(op.name)


@cache
def is_pure_name(name: str) -> bool:
    """The same of all ops called `name`."""
    if name in _PURE_NAMES:
        return True
    return name not in _NOT_PURE and name.startswith((*_PURE_FAMILIES, *_DIFFERING_FAMILIES))


@cache
def agreement(name: str) -> Agreement:
    """How threads of a block agree on what a pure op called `name` makes, beside the ids that
    `launch_ids` knows."""
    if name in _SAME:
        return "same"
    return "differs" if name in _DIFFERS or name.startswith(_DIFFERING_FAMILIES) else "operands"


@cache
def is_harmless(name: str) -> bool:
    """Whether ops called `name`, which have no row, touch no memory that a copy could."""
    return name in _HARMLESS or name in ALLOCATION_OPS or name.startswith(_HARMLESS_PREFIXES)
