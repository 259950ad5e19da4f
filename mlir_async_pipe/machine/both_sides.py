"""A branch on data: both sides run, and what they give is a select of the two.

    if x < y { b[1] = x }      -->   b[1] = (x if x < y else b[1])

Lanes whose conditions are the same term run together, the others one after the other. A side begins with the memory that
the other one began with. This holds for sides that compute, load and store, and nothing else (`DecodedRegion.is_alone`).
What the race detector then knows is what either side did: it finds all races, and maybe some of sides that are never run both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import DecodedRegion
from mlir_async_pipe.machine.detector import Detector
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import merge
from mlir_async_pipe.machine.term_table import PLACES, SELECT, TermTable, needs_numbers
from mlir_async_pipe.machine.terms import Terms, is_array, is_symbolic
from mlir_async_pipe.machine.warp_order import LockStep

Array = np.ndarray


def both_sides(
    unit: Unit, condition: Any, then: DecodedRegion, otherwise: DecodedRegion | None
) -> list[Any]:
    """What the sides of a branch give, where the condition is data. Raises MachineError (data-dependent) where they do more than to
    compute, load and store, or where another unit may run in between."""
    launch = unit.launch
    sides = [side for side in (then, otherwise) if side is not None]
    if (
        not all(side.is_alone for side in sides)
        or launch.memory.long_arrays is not None
        or launch.options.completion not in ("eager", "late")
        or type(launch.detector) is not Detector
        or not isinstance(launch.scheduler, LockStep)
    ):
        raise needs_numbers("a branch")
    table = condition.table
    table.has_branches = True
    active = unit.active()
    conditions = np.broadcast_to(condition.terms().inner, (unit.width,))
    joined: list[Any] | None = None
    # In the order of their first lanes, as in the other program.
    for term in dict.fromkeys(conditions[active].tolist()):
        lanes = active & (conditions == term)
        mask = None if lanes.all() else lanes
        one = Terms(table, np.array([term]), np.bool_).settled()
        if is_symbolic(one):
            given = _selected(unit, one, mask, then, otherwise)
        else:
            side = then if one[0] else otherwise
            given = [] if side is None else unit.under(mask, side)
        if joined is not None:
            given = [merge(lanes, new, old) for new, old in zip(given, joined, strict=True)]
        joined = given
    return joined or []


def _selected(
    unit: Unit, condition: Terms, mask: Any, then: DecodedRegion, otherwise: DecodedRegion | None
) -> list[Any]:
    """Run both sides under lanes that have one condition."""
    cells = unit.launch.memory.data.inner
    before = cells.copy()
    yes = unit.under(mask, then)
    after_then = cells.copy()
    cells[...] = before
    no = [] if otherwise is None else unit.under(mask, otherwise)
    cells[...] = _selected_cells(condition.table, int(condition.inner[0]), after_then, cells)
    if not all(map(is_array, yes)):
        raise needs_numbers("a view, or a token,")
    return [
        np.where(condition.reshape((1,) * one.ndim), one, other)
        for one, other in zip(yes, no, strict=True)
    ]


def _selected_cells(table: TermTable, condition: int, yes: Array, no: Array) -> Array:
    """Memory after a branch: where the sides differ, elements of the size that the one that is a term has."""
    made = no.copy()
    places = np.flatnonzero(yes != no)
    held = np.where(yes[places] >= 0, yes[places], no[places])
    codes = np.where(held >= 0, table.code[np.maximum(held, 0) >> PLACES], -1)
    for code in np.unique(codes):
        chosen = codes == code
        dtype = np.dtype(np.uint8) if code < 0 else table.operators[code].dtype
        byte = held[chosen] & ((1 << PLACES) - 1) if code >= 0 else 0
        starts = np.unique(places[chosen] - byte)
        where = starts[:, None] + np.arange(dtype.itemsize)
        one, other = (table.join(side[where], dtype) for side in (yes, no))
        ids = table.make(SELECT, dtype, np.full_like(one, condition), one, other)
        made[where] = table.cells_of(np.where(one == other, one, ids), dtype.itemsize)
    return made
