"""The synchronous rows of the vocabulary: what plain memory ops read and write.

Ops in neither this table nor `async_ops` are pure if `is_pure` says so, else *opaque*: they
may touch any memory. Never guess: an op that is not listed is opaque.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.vocabulary import extents
from mlir_async_pipe.vocabulary.rows import AccessRule, Row


def unmasked(op: Any) -> bool:
    """Vector transfers: no mask operand (operandSegmentSizes ends in 0)."""
    return not str(op.attributes["operandSegmentSizes"]).rstrip("> ").endswith("1")


# Ops that take the address of a global, and the attribute that names it.
GLOBAL_ADDRESS_OPS = {"memref.get_global": "name", "llvm.mlir.addressof": "global_name"}


def global_name(op: Any) -> str | None:
    """The name of the global whose address an op takes, None for all other ops."""
    attribute = GLOBAL_ADDRESS_OPS.get(op.name)
    return None if attribute is None else str(ir.FlatSymbolRefAttr(op.attributes[attribute]).value)


def matrix_lanes(op: Any) -> int | None:
    """ldmatrix reads at the addresses of lanes below 8 * numTiles (PTX ISA, ldmatrix)."""
    tiles = integer_attribute(op, "numTiles" if op.name == "nvgpu.ldmatrix" else "num")
    return None if tiles is None else 8 * tiles


def _load(op: str, extent: extents.Callable[[Any], tuple[int, ...] | None]) -> Row:
    return Row(op, ("memory", "indices*"), (AccessRule("read", "memory", "indices", extent),))


def _store(op: str, extent: extents.Callable[[Any], tuple[int, ...] | None]) -> Row:
    return Row(
        op, ("value", "memory", "indices*"), (AccessRule("write", "memory", "indices", extent),)
    )


MEMORY_ROWS = {
    row.op: row
    for row in (
        _load("memref.load", extents.element),
        _store("memref.store", extents.element),
        _load("affine.load", extents.whole),
        _store("affine.store", extents.whole),
        _load("vector.load", extents.vector_result),
        _store("vector.store", extents.vector_operand(0)),
        Row(
            "vector.transfer_read",
            ("memory", "indices*", "padding", "mask?"),
            (
                AccessRule(
                    "read", "memory", "indices", extents.vector_result, takes_slot_index=False
                ),
            ),
        ),
        Row(
            "vector.maskedload",
            ("memory", "indices*", "mask", "padding"),
            (AccessRule("read", "memory", "indices", extents.vector_result),),
        ),
        Row(
            "vector.transfer_write",
            ("value", "memory", "indices*", "mask?"),
            (
                AccessRule(
                    "write",
                    "memory",
                    "indices",
                    extents.vector_operand(0),
                    certain=unmasked,
                    takes_slot_index=False,
                ),
            ),
        ),
        Row(
            "nvgpu.ldmatrix",
            ("memory", "indices*"),
            (
                AccessRule(
                    "read", "memory", "indices", extents.matrix_row, active_lanes=matrix_lanes
                ),
            ),
        ),
        # Each lane reads at the address it names; what it read goes to other lanes.
        _load("amdgpu.transpose_load", extents.vector_result),
        Row(
            "nvvm.ldmatrix",
            ("memory",),
            (
                AccessRule(
                    "read",
                    "memory",
                    "",
                    extents.bytes_of(16),
                    active_lanes=matrix_lanes,
                    takes_slot_index=False,
                ),
            ),
        ),
        Row(
            "memref.atomic_rmw",
            ("value", "memory", "indices*"),
            (AccessRule("atomic", "memory", "indices", extents.element),),
        ),
        Row(
            "memref.copy",
            ("source", "destination"),
            (
                AccessRule("read", "source", "", extents.whole, takes_slot_index=False),
                AccessRule("write", "destination", "", extents.whole, takes_slot_index=False),
            ),
        ),
        Row(
            "llvm.load",
            ("memory",),
            (AccessRule("read", "memory", "", extents.result_bytes, takes_slot_index=False),),
        ),
        Row(
            "llvm.store",
            ("value", "memory"),
            (AccessRule("write", "memory", "", extents.stored_bytes, takes_slot_index=False),),
        ),
    )
}

# Ops that touch no memory, by dialect prefix; the exceptions are listed below.
_PURE_PREFIXES = (
    "arith.",
    "math.",
    "index.",
    "complex.",
    "ub.",
    "affine.",
    "vector.",
    "llvm.",
    "nvvm.read.ptx.sreg.",
    "rocdl.workitem.",
    "rocdl.workgroup.",
)
_NOT_PURE = frozenset(
    {
        "affine.for",
        "affine.if",
        "affine.parallel",
        "affine.load",
        "affine.store",
        "affine.vector_load",
        "affine.vector_store",
        "affine.dma_start",
        "affine.dma_wait",
        "affine.prefetch",
        "vector.load",
        "vector.store",
        "vector.transfer_read",
        "vector.transfer_write",
        "vector.maskedload",
        "vector.maskedstore",
        "vector.gather",
        "vector.scatter",
        "vector.expandload",
        "vector.compressstore",
        "vector.mask",
        "vector.print",
    }
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
# Views make another name for memory and touch none.
VIEW_OPS = {
    "memref.subview": "source",
    "memref.cast": "source",
    "memref.reinterpret_cast": "source",
    "memref.view": "source",
    "memref.collapse_shape": "source",
    "memref.expand_shape": "source",
    "memref.memory_space_cast": "source",
    "memref.assume_alignment": "source",
    "memref.transpose": "source",
    "amdgpu.fat_raw_buffer_cast": "source",
}
_PURE_NAMES = (
    frozenset(VIEW_OPS)
    | _PURE_LLVM
    | frozenset(
        {
            "memref.dim",
            "memref.get_global",
            "memref.extract_strided_metadata",
            "memref.extract_aligned_pointer_as_index",
            "builtin.unrealized_conversion_cast",
            "gpu.thread_id",
            "gpu.block_id",
            "gpu.block_dim",
            "gpu.grid_dim",
            "gpu.lane_id",
            "gpu.subgroup_id",
            "gpu.num_subgroups",
            "gpu.subgroup_size",
            "gpu.global_id",
            "gpu.dynamic_shared_memory",
            "gpu.shuffle",
            "gpu.subgroup_reduce",
            "gpu.subgroup_broadcast",
            "gpu.rotate",
            "amdgpu.dpp",
            "amdgpu.swizzle_bitmode",
            "amdgpu.permlane_swap",
            "amdgpu.sched_barrier",
            "amdgpu.scaled_mfma",
            # One lane's value for its wave; other waves have their own.
            "rocdl.readfirstlane",
            "rocdl.readlane",
            "nvgpu.mma.sync",
            "nvvm.mma.sync",
            "nvgpu.mma.sp.sync",
            "amdgpu.mfma",
            "amdgpu.wmma",
            "async_pipe.yield",
            "scf.yield",
            "scf.condition",
        }
    )
)


def is_pure(op: Any) -> bool:
    """Whether the op itself (not its regions) is known to touch no memory."""
    name = op.name
    if name in _PURE_NAMES:
        return True
    if name in _NOT_PURE or name.startswith("llvm."):
        return False
    return name.startswith(_PURE_PREFIXES)


ALLOCATION_OPS = ("memref.alloc", "memref.alloca")
