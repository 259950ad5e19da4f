"""scf: loops and branches, each lane under its own bounds and conditions."""

from __future__ import annotations

from functools import partial, reduce
from operator import itemgetter
from typing import Any

import numpy as np

from mlir_async_pipe.bindings.raw_ops import terminator
from mlir_async_pipe.machine.access import AffineMap, fill, integer_set
from mlir_async_pipe.machine.decode import DecodedRegion, Execute, Polling, Site, Unit, semantics
from mlir_async_pipe.machine.detector import Detector
from mlir_async_pipe.machine.kinds import unsigned
from mlir_async_pipe.machine.lane_values import NONE, Array, merge, split, split_cases
from mlir_async_pipe.machine.term_table import PLACES, SELECT, TermTable, needs_numbers
from mlir_async_pipe.machine.terms import Terms, is_array, is_symbolic
from mlir_async_pipe.machine.warp_order import LockStep

# Iterations that say how many terms the others make.
_SAMPLED = 32


def packer(site: Site) -> Any:
    """A function that packs result values the way the engine expects them."""
    single = len(site.op.results) == 1
    return (lambda values: values[0]) if single else tuple


@semantics("scf.for")
def for_loop(site: Site) -> Execute:
    """iv = lb, lb + step, … while iv < ub, where sums do not wrap; lanes that are done wait for
    the others."""
    body = site.region()
    pack = packer(site)
    read = unsigned if site.has("unsignedCmp") else _as_is

    return lambda unit, *operands: run_loop(unit, site, body, pack, read, operands)


def run_loop(
    unit: Unit, site: Site, body: DecodedRegion, pack: Any, read: Any, operands: tuple[Any, ...]
) -> Any:
    """Run a counted loop from (lower, upper, step, carried…)."""
    lower, upper, step, *carried = operands
    outer = unit.mask
    variable, values = lower, tuple(carried)
    unit.note("loop", site)

    def iterate(variable: Any, values: tuple[Any, ...], upper: Any) -> Any:
        """Run one iteration; the next variable and values, None where no lane has an iteration."""
        go, _ = split(unit.mask, read(variable) < read(upper))
        if go is NONE:
            return None
        unit.mask = go
        unit.note("iteration", site)
        given = unit.run_region(body, (variable, *values))
        # Lanes that have left keep what they left with.
        keep = go if go is not outer else None
        values = merge(keep, tuple(given), values)
        following = variable + step
        # The last step may pass the largest number of 64 bits: no iteration is after it.
        following = np.where(read(following) < read(variable), upper, following)
        return merge(keep, following, variable), values

    try:
        if is_symbolic(upper) and (induction := unit.launch.memory.induction) is not None:
            variable, values = induction.follow(
                unit,
                (variable, values),
                lambda state: iterate(state[0], state[1], upper),
                lambda state: upper - state[0],
            )
            upper = induction.ended(upper)
        data = unit.launch.memory.data
        table = data.table if is_symbolic(data) and not is_symbolic(upper) else None
        iterations, made = 0, 0
        while (following := iterate(variable, values, upper)) is not None:
            variable, values = following
            iterations += 1
            if table is not None and iterations == _SAMPLED:
                made = table.count
            if table is not None and iterations == 2 * _SAMPLED:
                left = int(np.max((upper - variable) // step))
                table.check_room((table.count - made) * left // _SAMPLED)
    finally:
        unit.mask = outer
    unit.note("end", site)
    return pack(values)


@semantics("affine.for")
def affine_loop(site: Site) -> Execute:
    """Bounds are maps: the largest lower and the smallest upper result hold."""
    body = site.region()
    pack = packer(site)
    lower, upper = (AffineMap(site.op.attributes[f"{end}BoundMap"]) for end in ("lower", "upper"))
    step = np.array([site.integer("step", 1)])
    low_count, high_count, _ = site.segments()

    def execute(unit: Unit, *operands: Any) -> Any:
        low = lower(operands[:low_count])
        high = upper(operands[low_count : low_count + high_count])
        start, end = reduce(np.maximum, low), reduce(np.minimum, high)
        carried = operands[low_count + high_count :]
        return run_loop(unit, site, body, pack, _as_is, (start, end, step, *carried))

    return execute


def _as_is(values: Array) -> Array:
    return values


@semantics("scf.while")
def while_loop(site: Site) -> Execute:
    """before(args) -> condition, values; after(values) -> args."""
    before, after = site.region(0), site.region(1)
    pack = packer(site)
    compared = site.decoder.compared([terminator(site.op.regions[0].blocks[0])])

    def iterate(unit: Unit, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        condition, *passed = unit.run_region(before, arguments)
        go, _ = split(unit.mask, condition)
        return tuple(unit.run_region(after, tuple(passed))) if go is unit.mask else None

    def execute(unit: Unit, *carried: Any) -> Any:
        outer = unit.mask
        arguments = carried
        left: Any = None
        polling = Polling(unit, site) if before.polls or after.polls else None
        try:
            while True:
                condition, *passed = unit.run_region(before, arguments)
                go, stop = split(unit.mask, condition)
                if stop is not NONE:
                    left = merge(stop, passed, left)
                if go is NONE:
                    break
                unit.mask = go
                given = unit.run_region(after, tuple(passed))
                arguments = merge(go if go is not outer else None, tuple(given), arguments)
                if polling is not None:
                    polling.next_iteration(arguments)
                elif unit.mask is outer:
                    arguments = unit.followed(compared, arguments, partial(iterate, unit))
        finally:
            unit.mask = outer
        return pack(left)

    return execute


def choose(unit: Unit, cases: list[tuple[Any, DecodedRegion | None]]) -> list[Any]:
    """Run each region under its lanes and join what they give."""
    joined: list[Any] | None = None
    for mask, region in cases:
        if mask is not NONE and region is not None:
            joined = merge(mask, unit.under(mask, region), joined)
    return joined or []


@semantics("scf.if", "affine.if")
def if_else(site: Site) -> Execute:
    """Both sides run, one after the other, where lanes disagree."""
    then = site.region(0)
    otherwise = site.region(1) if len(list(site.op.regions[1].blocks)) else None
    pack = packer(site)
    holds = (
        integer_set(site.op.attributes["condition"]) if site.name == "affine.if" else itemgetter(0)
    )

    def execute(unit: Unit, *operands: Any) -> Any:
        condition = holds(operands)
        if is_symbolic(condition) and is_symbolic(condition.terms().settled()):
            return pack(_both_sides(unit, condition, then, otherwise))
        yes, no = split(unit.mask, condition)
        return pack(choose(unit, [(yes, then), (no, otherwise)]))

    return execute


# A branch on data: both sides run, and what they give is a select of the two.
#
#     if x < y { b[1] = x }      -->   b[1] = (x if x < y else b[1])
#
# Lanes whose conditions are the same term run together, the others one after the other. A side begins with the memory that
# the other one began with. This holds for sides that compute, load and store, and nothing else (`DecodedRegion.is_alone`).
# What the race detector then knows is what either side did: it finds all races, and maybe some of sides that are never run both.


def _both_sides(
    unit: Unit, condition: Any, then: DecodedRegion, otherwise: DecodedRegion | None
) -> list[Any]:
    """What the sides of a branch give, where the condition is data. Raises MachineError (data-dependent) where they do more than to
    compute, load and store, or where another unit may run in between."""
    launch = unit.launch
    sides = [side for side in (then, otherwise) if side is not None]
    if (
        not all(side.is_alone for side in sides)
        or launch.memory.induction is not None
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
        joined = merge(lanes, given, joined)
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


@semantics("scf.index_switch")
def index_switch(site: Site) -> Execute:
    """The region of the case that matches, else the default, which is region 0."""
    default, *regions = [site.region(number) for number in range(len(site.op.regions))]
    cases = site.integers("cases")
    pack = packer(site)

    def execute(unit: Unit, value: Array) -> Any:
        masks = split_cases(unit.mask, value, cases)
        return pack(choose(unit, list(zip(masks, (*regions, default), strict=True))))

    return execute


@semantics("scf.execute_region", "memref.alloca_scope", "affine.scope")
def execute_region(site: Site) -> Execute:
    region = site.region()
    pack = packer(site)
    return lambda unit: pack(unit.run_region(region))


@semantics("scf.parallel", "scf.forall")
def parallel(site: Site) -> Execute:
    """One iteration after the other, the last dimension fastest, as the lowering to scf.for
    does. Refused where a mapping gives the iterations to threads, and where there are results."""
    if site.has("mapping"):
        raise site.unsupported("map parallel loops to threads first")
    if len(site.op.results):
        raise site.unsupported("lower parallel loops with results to scf.for first")
    body, count = site.region(), site.segments()[0]
    # Of forall, attributes with the constant bounds; each that is not constant is an operand.
    bounds = [site.integers(f"static{name}") for name in ("LowerBound", "UpperBound", "Step")]
    if site.name == "scf.forall":
        count = len(bounds[0])

    def execute(unit: Unit, *operands: Any) -> Any:
        given = operands if site.name == "scf.parallel" else fill(sum(bounds, ()), operands)
        lower, upper, step = (given[count * kind : count * (kind + 1)] for kind in range(3))
        _run_dimensions(unit, body, list(zip(lower, upper, step, strict=True)), ())
        return ()

    return execute


def _run_dimensions(
    unit: Unit, body: DecodedRegion, ranges: list[tuple[Any, Any, Any]], outer: tuple[Any, ...]
) -> None:
    """Run the loop nest; `outer` are the induction variables of the dimensions around."""
    (lower, upper, step), *inner = ranges
    around = unit.mask
    variable = lower
    try:
        while True:
            go, _ = split(unit.mask, variable < upper)
            if go is NONE:
                return
            unit.mask = go
            if inner:
                _run_dimensions(unit, body, inner, (*outer, variable))
            else:
                unit.run_region(body, (*outer, variable))
            variable = merge(go if go is not around else None, variable + step, variable)
    finally:
        unit.mask = around
