"""The synchronous rows of the GPU dialects: matrix loads and stores, buffers, hints.

An op of a whole wave that moves one tile names it in every lane. Its reads count in each of them;
its writes are those of lane 0, since the lanes share them out and none overwrites another's. Where the
sums of a warpgroup go the dialect's lowering says (NVGPUToNVVM): by the thread id x in the block, so that
each warpgroup has 64 rows after those of the one before.

Rows without accesses touch no memory, yet have a place in the program: a hint for the scheduler
that stands between two loads means something there only.
"""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.vocabulary import extents
from mlir_async_pipe.vocabulary.memory_ops import never
from mlir_async_pipe.vocabulary.memory_order import relaxed
from mlir_async_pipe.vocabulary.rows import AccessRule, Row, Share


def matrix_lanes(op: Any) -> int | None:
    """ldmatrix reads at the addresses of lanes below 8 * numTiles (PTX ISA, ldmatrix)."""
    tiles = integer_attribute(op, "numTiles" if op.name == "nvgpu.ldmatrix" else "num")
    return None if tiles is None else 8 * tiles


def stored_matrix_lanes(op: Any) -> int:
    """stmatrix writes at the addresses of 8 lanes for each of its registers."""
    return 8 * (len(op.operands) - 1)


def first_lane(op: Any) -> int:
    """One access for the whole wave."""
    return 1


_SUMS = re.compile(r"!nvgpu\.warpgroup\.accumulator<fragmented = vector<(\d+)x(\d+)xf32>>")
# No block has as many threads.
_ANY_THREAD = 1 << 16


def shares_of_sums(op: Any) -> tuple[Share, Share] | None:
    """The rows and columns of a thread's sums (PTX ISA, wgmma.mma_async: register fragments of D): row
    16 warp + lane / 4, the one 8 below, and the same 64 below; columns 2 (lane mod 4) and the next one, every
    8 columns. None for sums of other types."""
    found = _SUMS.match(str(op.operands[0].type))
    if found is None:
        return None
    rows, columns = map(int, found.groups())
    return (
        Share(((16, 32, _ANY_THREAD), (1, 4, 8)), ((8, 2), (64, rows // 64)), 1),
        Share(((2, 1, 4),), ((8, columns // 8),), 2),
    )


def has_known_shares(op: Any) -> bool:
    """Whether it is known which sums each thread has."""
    return shares_of_sums(op) is not None


def _pointer_rule(kind: str, extent: extents.Callable[[Any], Any], **more: Any) -> AccessRule:
    return AccessRule(kind, "memory", "", extent, takes_slot_index=False, **more)  # type: ignore[arg-type]


def _reads(op: str, *operands: str) -> Row:
    """Loads as many bytes as its result has, from its first operand on, or (with more operands:
    offsets, strides) from somewhere in that memory."""
    rule = _somewhere("read") if operands else _pointer_rule("read", extents.result_bytes)
    return Row(op, ("memory", *operands), (rule,))


def _somewhere(kind: str) -> AccessRule:
    """Touches a part of the memory, and it is not followed which."""
    return _pointer_rule(kind, extents.whole, certain=never)


_WAVE_TILES = (
    Row(
        "gpu.subgroup_mma_load_matrix",
        ("memory", "indices*"),
        (AccessRule("read", "memory", "indices", extents.matrix_tile),),
    ),
    Row(
        "gpu.subgroup_mma_store_matrix",
        ("value", "memory", "indices*"),
        (AccessRule("write", "memory", "indices", extents.matrix_tile, active_lanes=first_lane),),
    ),
    _reads("nvvm.wmma.load", "stride"),
    Row(
        "nvvm.wmma.store",
        ("memory", "values*", "stride"),
        (_pointer_rule("write", extents.whole, active_lanes=first_lane),),
    ),
    Row(
        "nvgpu.ldmatrix",
        ("memory", "indices*"),
        (AccessRule("read", "memory", "indices", extents.matrix_row, active_lanes=matrix_lanes),),
    ),
    Row(
        "nvvm.ldmatrix",
        ("memory",),
        (_pointer_rule("read", extents.bytes_of(16), active_lanes=matrix_lanes),),
    ),
    Row(
        "nvvm.stmatrix",
        ("memory", "values*"),
        (_pointer_rule("write", extents.bytes_of(16), active_lanes=stored_matrix_lanes),),
    ),
    Row(
        "nvgpu.warpgroup.mma.store",
        ("value", "memory"),
        (
            AccessRule(
                "write",
                "memory",
                "",
                extents.whole,
                has_known_shares,
                shares=shares_of_sums,
                takes_slot_index=False,
            ),
        ),
    ),
    # Each lane reads at the address it names; what it read goes to other lanes.
    *(
        Row(
            op,
            ("memory", "indices*"),
            (AccessRule("read", "memory", "indices", extents.vector_result),),
        )
        for op in ("amdgpu.transpose_load", "amdgpu.global_transpose_load")
    ),
    *(
        _reads(f"rocdl.{name}")
        for name in (
            "ds.load.tr16.b128",
            "ds.load.tr4.b64",
            "ds.load.tr6.b96",
            "ds.load.tr8.b64",
            "ds.read.tr16.b64",
            "ds.read.tr4.b64",
            "ds.read.tr6.b96",
            "ds.read.tr8.b64",
            "global.load.tr.b128",
            "global.load.tr.b64",
            "global.load.tr4.b64",
            "global.load.tr6.b96",
        )
    ),
)

# A buffer's range decides what is read and written: 0, and nothing, outside of it. Offsets in
# bytes or 32-bit subscripts are not followed.
_BUFFERS = (
    _reads("amdgpu.raw_buffer_load", "indices*", "sgpr_offset?"),
    Row(
        "amdgpu.raw_buffer_store",
        ("value", "memory", "indices*", "sgpr_offset?"),
        (_somewhere("write"),),
    ),
    *(
        Row(
            f"amdgpu.raw_buffer_atomic_{name}",
            (*values, "memory", "indices*", "sgpr_offset?"),
            (_somewhere("atomic"),),
            order=relaxed,
        )
        for name, values in (
            ("cmpswap", ("value", "expected")),
            *((name, ("value",)) for name in ("fadd", "fmax", "smax", "umin")),
        )
    ),
    _reads("rocdl.raw.ptr.buffer.load", "offset", "scalar_offset", "flags"),
    _reads("rocdl.ptr.s.buffer.load", "offset", "flags"),
    Row(
        "rocdl.raw.ptr.buffer.store",
        ("value", "memory", "offset", "scalar_offset", "flags"),
        (_somewhere("write"),),
    ),
    *(
        Row(
            f"rocdl.raw.ptr.buffer.atomic.{name}",
            (*values, "memory", "offset", "scalar_offset", "flags"),
            (_somewhere("atomic"),),
            order=relaxed,
        )
        for name, values in (
            ("cmpswap", ("value", "expected")),
            *((name, ("value",)) for name in ("fadd", "fmax", "smax", "umin")),
        )
    ),
)


def _copies_to_lds(op: str, *more: str) -> Row:
    """Global memory to the wave's stretch of LDS; the compiler waits for it where it must."""
    return Row(
        op,
        ("source", "destination", *more),
        (
            AccessRule("read", "source", "", extents.whole, takes_slot_index=False),
            AccessRule("write", "destination", "", extents.whole, never, takes_slot_index=False),
        ),
    )


_LDS_COPIES = (
    _copies_to_lds("rocdl.load.to.lds"),
    _copies_to_lds("rocdl.global.load.lds"),
    _copies_to_lds("rocdl.raw.ptr.buffer.load.lds", "size", "voffset", "soffset", "offset", "aux"),
)

HINTS = (
    "amdgpu.global_prefetch",
    "amdgpu.sched_barrier",
    "gpu.printf",
    "memref.prefetch",
    "nvgpu.tma.prefetch.descriptor",
    "nvvm.breakpoint",
    "nvvm.cp.async.bulk.prefetch",
    "nvvm.cp.async.bulk.tensor.prefetch",
    "nvvm.nanosleep",
    "nvvm.pmevent",
    "nvvm.prefetch",
    "nvvm.setmaxregister",
    "rocdl.flat.prefetch",
    "rocdl.global.prefetch",
    "rocdl.iglp.opt",
    "rocdl.s.nop",
    "rocdl.s.setprio",
    "rocdl.s.sleep",
    "rocdl.sched.agpr",
    "rocdl.sched.bank",
    "rocdl.sched.barrier",
    "rocdl.sched.group.barrier",
    "rocdl.sched.sgpr",
    "rocdl.sched.vgpr",
    "vector.print",
)

VENDOR_ROWS = {row.op: row for row in (*_WAVE_TILES, *_BUFFERS, *_LDS_COPIES, *map(Row, HINTS))}
