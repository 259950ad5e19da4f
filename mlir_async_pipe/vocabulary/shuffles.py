"""How ops hand numbers from lane to lane of a warp.

nvvm.shfl.sync bfly %mask, %x, 16       lanes that differ by 16 swap
rocdl.update.dpp %x, %x with 78, …      lanes that differ by 2 swap
rocdl.readlane %x, 63                   one lane's number for all of a wave
"""

from __future__ import annotations

from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    defining_op,
    integer_attribute,
)
from mlir_async_pipe.vocabulary.launch_ids import ALL_LANES, is_block_number, launch_id

LAST_LANE = 31
"""Of a warp of NVIDIA's, and of the shortest waves of AMD's."""

# Ops on matrices that the lanes of a warp have together.
OF_WARPS = "gpu.subgroup_mma_"


class Shuffle(NamedTuple):
    """How an op hands a number from lane to lane: the operand that it is, and between how many lanes at most.
    AMD's waves have 64, or 32 that agree where 64 do."""

    operand: int
    lanes: int


# Hand the value of one lane to all of a wave: the first that is active, and one by its number.
FIRST_LANE, NAMED_LANE = "rocdl.readfirstlane", "rocdl.readlane"
SHUFFLES = {
    "gpu.shuffle": Shuffle(0, 64),
    "nvvm.shfl.sync": Shuffle(1, 32),
    FIRST_LANE: Shuffle(0, 64),
    NAMED_LANE: Shuffle(0, 64),
}


def handed(op: Operation) -> Value | None:
    """The value that an op hands from lane to lane, None of one that does not, or not as this follows it."""
    if op.name in SHUFFLES:
        return op.operands[SHUFFLES[op.name].operand]
    if op.name == "rocdl.update.dpp" and _swapped_by_dpp(op):
        return op.operands[1]
    if op.name == "rocdl.ds_bpermute" and _swapped_by_index(op):
        return op.operands[1]
    return op.operands[0] if op.name == "rocdl.ds_swizzle" and _swapped_by_swizzle(op) else None


def swapped_by(op: Operation) -> int:
    """By which power of two the lanes differ that hand their numbers to each other; 0 of other shuffles."""
    if op.name == "rocdl.update.dpp":
        return _swapped_by_dpp(op)
    if op.name == "rocdl.ds_bpermute":
        return _swapped_by_index(op)
    if op.name == "rocdl.ds_swizzle":
        return _swapped_by_swizzle(op)
    step = _shuffled_by(op, ("xor", "bfly"))
    return step if step in (1, 2, 4, 8, 16) else 0


# What `dpp_ctrl` swaps lanes by: the four of a quad in the order 1, 0, 3, 2 or 2, 3, 0, 1, two bits each; those of a
# row by a mask (AMD, RDNA3 ISA, 7.7.1 "DPP16": quad_perm 0x00 to 0xff, row_xmask 0x160 to 0x16f).
_DPP_SWAPS = {0b10_11_00_01: 1, 0b01_00_11_10: 2} | {0x160 | step: step for step in (1, 2, 4, 8)}


def _swapped_by_dpp(op: Operation) -> int:
    """The power of two by which the lanes differ that a data-parallel primitive swaps, of all rows and banks."""
    control, rows, banks = (
        integer_attribute(op, name) for name in ("dppCtrl", "rowMask", "bankMask")
    )
    return _DPP_SWAPS.get(control or 0, 0) if rows == banks == 15 else 0


def _swapped_by_index(op: Operation) -> int:
    """The same of ds_bpermute, whose index is four times the lane that a lane takes its number from (AMD, MI300 ISA,
    "DS_BPERMUTE_B32"): four times (lane xor step)."""
    index = defining_op(op.operands[0])
    other = (
        defining_op(index.operands[0]) if index is not None and index.name == "llvm.shl" else None
    )
    if (
        index is None
        or other is None
        or other.name != "llvm.xor"
        or constant_value(index.operands[1]) != 2
    ):
        return 0
    for lane, by in (other.operands, reversed(list(other.operands))):
        step = constant_value(by)
        if step in (1, 2, 4, 8, 16, 32) and _is_lane(lane):
            return step
    return 0


def _is_lane(value: Value) -> bool:
    """Whether the lower six bits of a value are those of the thread's number in its block."""
    op = defining_op(value)
    while op is not None and launch_id(value) is None and op.name in ("llvm.urem", "llvm.and"):
        by = constant_value(op.operands[1])
        kept = by if op.name == "llvm.and" or by is None else by - 1
        if (
            kept is None
            or kept & 63 != 63
            or (op.name == "llvm.urem" and by is not None and by & kept)
        ):
            return False
        value = op.operands[0]
        op = defining_op(value)
    return is_block_number(value)


def _swapped_by_swizzle(op: Operation) -> int:
    """The same of ds_swizzle, whose offset has 15 bits: lane & bits 4..0 | bits 9..5 ^ bits 14..10 (AMD, MI300 ISA,
    "DS_SWIZZLE_B32", bitmask mode, where bit 15 is 0)."""
    offset = constant_value(op.operands[1])
    step = (offset or 0) >> 10
    return step if offset is not None and offset & 1023 == 31 and step in (1, 2, 4, 8, 16) else 0


def is_of_one_lane(op: Operation) -> bool:
    """Whether a shuffle gives all lanes of a warp the value of one, by its number."""
    return _shuffled_by(op, ("idx",)) is not None


def _shuffled_by(op: Operation, kinds: tuple[str, ...]) -> int | None:
    """The number by which all 32 lanes of a warp shuffle in one of these ways; None if it is no constant, or otherwise."""
    if op.name == "gpu.shuffle":
        step, lanes = (constant_value(op.operands[n]) for n in (1, 2))
        kind, known = str(op.attributes["mode"]), lanes == LAST_LANE + 1
    elif op.name == "nvvm.shfl.sync":
        mask, step, last = (constant_value(op.operands[n]) for n in (0, 2, 3))
        everybody = mask is not None and mask & ALL_LANES == ALL_LANES
        kind, known = str(op.attributes["kind"]), everybody and last == LAST_LANE
    else:
        return None
    return step if known and any(one in kind for one in kinds) else None
