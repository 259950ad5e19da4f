"""amdgpu.dpp and rocdl.readlane: values of other lanes of a wave.

    quad_perm([1, 0, 3, 2])      lane 4 q + i reads lane 4 q + perm[i]
    row_mirror                   lane i of a row of 16 reads lane 15 - i
    row_bcast_15, row_bcast_31   the row, the two rows, after lane 15 or 31 read that lane

A lane whose source is outside of its row keeps `old`, or gets 0 with `bound_ctrl`; rows and banks (4
lanes of a row) that the masks leave out keep `old`. Shifts of the whole wave are refused.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray
ROW, BANK, QUAD, HALF = 16, 4, 4, 8
# A lane that an op leaves alone, and one whose source is outside of its row.
KEEP, NONE = -2, -1
_KINDS = (
    "quad_perm row_shl row_shr row_ror row_mirror row_half_mirror row_bcast_15 row_bcast_31".split()
)


def _source(kind: str, numbers: tuple[int, ...], lane: Array) -> Array:
    """The lane that each lane of a wave reads, NONE or KEEP."""
    place = lane % ROW
    row = lane - place
    if kind == "quad_perm":
        return lane - lane % QUAD + np.array(numbers)[lane % QUAD]
    if kind == "row_mirror":
        return row + ROW - 1 - place
    if kind == "row_half_mirror":
        return lane - lane % HALF + HALF - 1 - lane % HALF
    if kind == "row_bcast_15":
        return np.where(row > 0, row - 1, KEEP)
    if kind == "row_bcast_31":
        return np.where(lane >= 32, 31, KEEP)
    if kind == "row_ror":
        return row + (place - numbers[0]) % ROW
    moved = place + (numbers[0] if kind == "row_shl" else -numbers[0])
    return np.where((moved >= 0) & (moved < ROW), row + moved, NONE)


@semantics("amdgpu.dpp")
def dpp(site: Site) -> Execute:
    """One permutation within the wave."""
    kind = site.text("kind").split()[-1].strip("<>")
    if kind not in _KINDS:
        raise site.unsupported(f"kind {kind}")
    numbers = site.integers("permArgument") if kind == "quad_perm" else ()
    if kind in ("row_shl", "row_shr", "row_ror"):
        numbers = (site.integer("permArgument") or 0,)
    rows, banks = site.integer("row_mask", 15) or 0, site.integer("bank_mask", 15) or 0
    zero = "true" in site.text("bound_ctrl", "false")

    def execute(unit: Unit, old: Array, value: Array) -> Array:
        warp = unit.launch.options.warp
        lane = unit.threads % warp
        read = _source(kind, numbers, lane)
        number = np.arange(unit.width) - lane + np.clip(read, 0, warp - 1)
        inside = (read >= 0) & (number < unit.width)
        number = np.where(inside, number, 0)
        there = inside & unit.active()[number]
        enabled = ((rows >> lane // ROW) & 1) & ((banks >> lane % ROW // BANK) & 1)
        kept, given = lanes_of(old, unit.width), lanes_of(value, unit.width)[number]
        shaped = (-1, *(1,) * (value.ndim - 1))
        missing = np.zeros_like(kept) if zero else kept
        moved = np.where(there.reshape(shaped), given, missing)
        taking = (enabled == 1) & (read != KEEP)
        return np.where(taking.reshape(shaped), moved, kept)

    return execute


@semantics("rocdl.readlane")
def read_lane(site: Site) -> Execute:
    """The value of one lane of the wave, the same for all of them."""

    def execute(unit: Unit, value: Array, lane: Array) -> Array:
        warp = unit.launch.options.warp
        place = np.arange(unit.width)
        number = place - place % warp + lanes_of(lane, unit.width) % warp
        return lanes_of(value, unit.width)[np.minimum(number, unit.width - 1)]

    return execute
