"""How ops hand numbers from lane to lane of a warp.

nvvm.shfl.sync bfly %mask, %x, 16       lanes that differ by 16 swap
rocdl.update.dpp %x, %x with 78, …      lanes that differ by 2 swap
rocdl.readlane %x, 63                   one lane's number for all of a wave
nvvm.redux.sync add %x, %all            what all lanes of a warp make together
rocdl.permlane32.swap %x, %x            both halves of a wave have the lower one's, and the upper one's
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

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
    AMD's waves have 64, or 32 that agree where 64 do. `of`: all lanes get the number of the first one that is
    active, or of the one that operand `lane` names, the same in all of them; else its form says who gets whose."""

    operand: int
    lanes: int
    of: Literal["any", "first", "named"] = "any"
    lane: int = -1


SHUFFLES = {
    "gpu.shuffle": Shuffle(0, 64),
    "nvvm.shfl.sync": Shuffle(1, 32),
    "rocdl.readfirstlane": Shuffle(0, 64, "first"),
    "rocdl.readlane": Shuffle(0, 64, "named", lane=1),
}


def handed(op: Operation) -> Value | None:
    """The value that an op hands from lane to lane, None of one that does not, or not as this follows it."""
    if op.name in SHUFFLES:
        return op.operands[SHUFFLES[op.name].operand]
    swap = _SWAPS.get(op.name)
    return op.operands[swap.operand] if swap is not None and swap.by(op) else None


def swapped_by(op: Operation) -> int:
    """By which bits the numbers of the lanes differ that hand their values to each other; 0 of other shuffles."""
    if op.name in _SWAPS:
        return _SWAPS[op.name].by(op)
    by, lanes = _step_of(op, ("xor", "bfly"))
    step = None if by is None else constant_value(by)
    return step if step is not None and 0 < step < lanes else 0


def lane_named(op: Operation) -> Value | None:
    """The number of the lane whose value all lanes of a warp are handed, if it is the same in all of them; None of
    another shuffle."""
    if op.name in SHUFFLES and SHUFFLES[op.name].of == "named":
        return op.operands[SHUFFLES[op.name].lane]
    lane, lanes = _step_of(op, ("idx",))
    return lane if lanes == LAST_LANE + 1 else None


def halves_of(op: Operation) -> int:
    """By which bit the numbers of two lanes differ that both get the values of both, in one order; 0 of other ops.

    rocdl.permlane32.swap %x, %x     lanes l and l + 32 have x(l), and x(l + 32)
    """
    step = _HALVES.get(op.name, 0)
    return step if step and op.operands[0] == op.operands[1] else 0


# Rows of 16 lanes, and halves of 32: the odd ones of the first operand and the even ones of the second change places
# (AMD, CDNA4 ISA, "V_PERMLANE32_SWAP_B32").
_HALVES = {"rocdl.permlane16.swap": 16, "rocdl.permlane32.swap": 32}


# What `dpp_ctrl` swaps lanes by: the four of a quad in an order, two bits each; those of a row by a mask, or from its
# ends on (AMD, RDNA3 ISA, 7.7.1 "DPP16": quad_perm 0x00 to 0xff, row_mirror 0x140, row_half_mirror 0x141, row_xmask
# 0x160 to 0x16f).
_DPP_SWAPS = (
    {sum((lane ^ by) << 2 * lane for lane in range(4)): by for by in (1, 2, 3)}
    | {0x140: 15, 0x141: 7}
    | {0x160 | by: by for by in range(1, 16)}
)


def _swapped_by_dpp(op: Operation) -> int:
    """The bits in which the lanes differ that a data-parallel primitive swaps, of all rows and banks."""
    control, rows, banks = (
        integer_attribute(op, name) for name in ("dppCtrl", "rowMask", "bankMask")
    )
    return _DPP_SWAPS.get(control or 0, 0) if rows == banks == 15 else 0


def _swapped_by_index(op: Operation) -> int:
    """The same of ds_bpermute, whose index is four times the lane that a lane takes its number from (AMD, MI300 ISA,
    "DS_BPERMUTE_B32"): four times (lane xor step)."""
    index = defining_op(op.operands[0])
    if index is None or index.name != "llvm.shl" or constant_value(index.operands[1]) != 2:
        return 0
    other = defining_op(index.operands[0])
    if other is None or other.name != "llvm.xor":
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
        kept = constant_value(op.operands[1])
        if kept is not None and op.name == "llvm.urem":
            # Of a power of two.
            kept = None if kept & (kept - 1) else kept - 1
        if kept is None or kept & 63 != 63:
            return False
        value = op.operands[0]
        op = defining_op(value)
    return is_block_number(value)


def _swapped_by_swizzle(op: Operation) -> int:
    """The same of ds_swizzle, whose offset has 15 bits: lane & bits 4..0 | bits 9..5 ^ bits 14..10 (AMD, MI300 ISA,
    "DS_SWIZZLE_B32", bitmask mode, where bit 15 is 0)."""
    offset = constant_value(op.operands[1])
    step = (offset or 0) >> 10
    return step if offset is not None and offset & 1023 == 31 and 0 < step <= LAST_LANE else 0


def _swapped_by_masks(op: Operation) -> int:
    """The same of the masks of a swizzle as AMDGPU has it."""
    kept, put, step = (integer_attribute(op, f"{name}_mask") for name in ("and", "or", "xor"))
    return (step or 0) if (kept, put) == (LAST_LANE, 0) else 0


class _Swap(NamedTuple):
    """The operand that lanes swap, and by which bits their numbers differ; 0 where lanes do something else."""

    operand: int
    by: Callable[[Operation], int]


_SWAPS = {
    "rocdl.update.dpp": _Swap(1, _swapped_by_dpp),
    "rocdl.ds_bpermute": _Swap(1, _swapped_by_index),
    "rocdl.ds_swizzle": _Swap(0, _swapped_by_swizzle),
    "amdgpu.swizzle_bitmode": _Swap(0, _swapped_by_masks),
    "amdgpu.permlane_swap": _Swap(0, lambda op: integer_attribute(op, "row_length") or 0),
}


def _step_of(op: Operation, kinds: tuple[str, ...]) -> tuple[Value | None, int]:
    """The number by which all lanes of a warp of 32, or of a wave of 64, shuffle in one of these ways, and how many
    lanes these are; None if they shuffle otherwise."""
    lanes = LAST_LANE + 1
    if op.name == "gpu.shuffle":
        kind, step = str(op.attributes["mode"]), op.operands[1]
        lanes = constant_value(op.operands[2]) or 0
        known = lanes in (LAST_LANE + 1, 2 * (LAST_LANE + 1))
    elif op.name == "nvvm.shfl.sync":
        kind, step = str(op.attributes["kind"]), op.operands[2]
        known = _is_everybody(op.operands[0]) and constant_value(op.operands[3]) == LAST_LANE
    else:
        return None, 0
    return (step, lanes) if known and any(one in kind for one in kinds) else (None, 0)


def _is_everybody(mask: Value) -> bool:
    lanes = constant_value(mask)
    return lanes is not None and lanes & ALL_LANES == ALL_LANES


# What lanes make together ---------------------------------------------------------------------

OF_WAVE, OF_BLOCK = -1, -2
"""All lanes of a wave, however many these are; all threads of a block."""


def _of_members(operand: int) -> Callable[[Operation], int]:
    """All 32 lanes of a warp, if the mask names them all: of two lanes with other masks each has what its own lanes make
    (PTX ISA, redux.sync)."""
    return lambda op: LAST_LANE if _is_everybody(op.operands[operand]) else 0


def _of_cluster(op: Operation) -> int:
    """clusters of 8 lanes that are 4 apart: the bits 4, 8 and 16 of a lane's number."""
    size, stride = (integer_attribute(op, f"cluster_{name}") for name in ("size", "stride"))
    return OF_WAVE if size is None else (size - 1) * (stride or 1)


def _if_all_match(op: Operation) -> int:
    """Those that match with a lane are others in each; whether all do is one answer."""
    return _of_members(0)(op) if "all" in str(op.attributes["kind"]) else 0


_TOGETHER: dict[str, Callable[[Operation], int]] = {
    "nvvm.redux.sync": _of_members(1),
    "nvvm.vote.sync": _of_members(0),
    "nvvm.match.sync": _if_all_match,
    "gpu.subgroup_reduce": _of_cluster,
    "gpu.all_reduce": lambda op: OF_BLOCK,
    "gpu.ballot": lambda op: OF_WAVE,
    "rocdl.ballot": lambda op: OF_WAVE,
}


def made_together_by(op: Operation) -> int:
    """The bits of the numbers of the lanes that make a value together and all get it, among those with the same other
    bits; `OF_WAVE` for all of a wave, `OF_BLOCK` for all threads, 0 of other ops, and where lanes may be members of other groups."""
    together = _TOGETHER.get(op.name)
    return 0 if together is None else together(op)
