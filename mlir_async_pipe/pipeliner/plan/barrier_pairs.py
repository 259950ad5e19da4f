"""Which pairs of accesses need a thread barrier between them, and which barriers stay as they are.

The input's barriers say what its author orders between threads. A pair (x, w) needs one in
the result if both touch shared memory, may touch the same element from different threads,
and the input has a barrier between them at that iteration distance. A conflict without a
barrier in the input is the input's own affair. So does a pair of any access and an op that orders
memory for other threads: what all threads stored is over before thread 0 releases a flag. A buffer of
which each thread touches elements of its own has no such pair, whatever barriers the input has.

    memref.store %v, %tile[%tid]
    memref.load %tile[127 - %tid]          no barrier in between: remark `input-race`

The pipeline keeps every barrier of the input, and invents none: what the input leaves to
chance inside one iteration stays as it is. Only what is proven is reported: a known block size,
subscripts that can be enumerated, accesses that always happen.

A barrier between accesses that cannot be analysed is kept instead of derived again:

    func.call @produce()             statement 0
    gpu.barrier                      kept, before statement 1 and in its stage
    func.call @consume()             statement 1

What such calls touch is not known, so neither is what the barrier between them is for: it
keeps its op, and stays between the same instances of them. A schedule that runs it at another
time than the two sides is refused (`opaque-barrier`).

A pipeline with barriers is refused where not all threads of the block run the loop.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.facts.flow.region_flow import runs_again
from mlir_async_pipe.facts.loops.statements import Body, barriers_of
from mlir_async_pipe.facts.values.memory_roots import OWN, Space, threads_may_meet
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.pipeliner.dependence.distance import (
    EVERY,
    Distances,
    LoopIndex,
    belongs_to_single_threads,
    meeting_threads,
)
from mlir_async_pipe.pipeliner.dependence.memory_dependences import (
    Analysis,
    are_ordered,
    first_distance,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, by_root
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.units import Unit, Units
from mlir_async_pipe.pipeliner.plan.version_rules import BufferUse, reuses
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.rows import UNORDERED


@dataclass(frozen=True)
class BarrierPair:
    """`first` of step t - lag must be seen by all threads before `second` of step t runs.

    If `first` is async, its completion counts, not its issue.
    """

    first: Unit
    second: Unit
    lag: int
    spaces: frozenset[Space]


@dataclass(frozen=True)
class Boundary:
    """The memory spaces that one barrier before the prologue and one after the epilogue have to
    fence, for accesses outside the loop; none: no barrier."""

    before: frozenset[Space] = frozenset()
    after: frozenset[Space] = frozenset()


def barrier_pairs(
    analysis: Analysis, units: Units, buffers: tuple[BufferPlan, ...], noalias_arguments: bool
) -> tuple[tuple[BarrierPair, ...], Boundary]:
    """The pairs inside the loop, and what is to be ordered with accesses outside of it."""
    textual = {op: number for number, op in enumerate(units.body.ops)}
    barriers = [textual[op] for op in barriers_of(units.body)]
    if not barriers:
        return (), Boundary()
    visible = [r for r in analysis.regions if r.root is None or r.root.spaces != OWN]
    shared = _without_owned(visible, analysis)
    versions = {b.root.identity: b.versions for b in buffers}
    ordering = {r.position for r in shared if r.order != UNORDERED}
    pairs: dict[BarrierPair, None] = {}
    for a, b in product(shared, shared):
        ordered = bool({a.position, b.position} & ordering) and are_ordered(a, b)
        touch = (a.writes or b.writes) and not (a.is_fence or b.is_fence)
        touch = touch and (a.root is None or b.root is None or threads_may_meet(a.root, b.root))
        distances: list[int] = []
        if ordered:
            distances = _following(EVERY, first_distance(a, b))
        elif touch:
            distances = _conflicts(a, b, units, analysis, versions)
        for distance in distances:
            if _separated(textual[a.top], textual[b.top], distance, barriers):
                pair = _pair(a, b, distance, units)
                if pair is not None:
                    pairs[pair] = None
    for source, target, distance, *_ in analysis.awaited:
        # By threads that may be others.
        if _separated(textual[source.top], textual[target.top], distance, barriers):
            pair = _pair(source, target, distance, units)
            if pair is not None:
                pairs[pair] = None
    boundary = _boundary(units, visible, textual, barriers, analysis.around, noalias_arguments)
    return tuple(pairs), boundary


def threads_share_tiles(analysis: Analysis) -> bool:
    """Whether different threads may touch one element of workgroup memory, or of memory that is
    not known: else no barrier of the input is needed for that."""
    shared = _without_owned(analysis.regions, analysis)
    return any(r.opaque or (r.root and r.root.space == "workgroup") for r in shared)


def _without_owned(regions: list[CoveredRegion], analysis: Analysis) -> list[CoveredRegion]:
    """Those regions of which different threads may touch one element."""
    block, private = analysis.index.arithmetic.block_size, analysis.privatisation.private
    if block is None or any(region.opaque for region in regions):
        return regions
    owned = {
        key
        for key, found in by_root(regions).items()
        if key in private and belongs_to_single_threads(found, analysis.index.induction, block)
    }
    return [r for r in regions if r.root is None or r.root.identity not in owned]


def _conflicts(
    a: CoveredRegion, b: CoveredRegion, units: Units, analysis: Analysis, versions: dict[Any, int]
) -> list[int]:
    """Iteration distances at which `b` may meet what `a` touched, from different threads."""
    distances = analysis.index.distances(a, b, same_thread=False)
    if distances is None:
        return []
    first = first_distance(a, b)
    if a.root is None or a.root.identity not in analysis.privatisation.private:
        return _following(distances, first)
    # Inside one version only the same iteration meets; then the next ones that have the slot.
    same = [0] if first == 0 and distances.smallest(0) == 0 else []
    x, w = (
        BufferUse(unit.stage, unit.position, writes=True)
        for unit in (units.unit_of(a.top), units.unit_of(b.top))
    )
    return [*same, *filter(None, reuses(x, w, versions[a.root.identity]))]


def _following(distances: Distances, first: int) -> list[int]:
    """The first distances from `first` on. Three in a row are enough: from two iterations on, a body
    with a barrier has one between."""
    found: list[int] = []
    following = distances.smallest(first)
    while following is not None and len(found) < 3:
        found.append(following)
        following = distances.smallest(following + 1)
    return found


def _separated(first: int, second: int, distance: int, barriers: list[int]) -> bool:
    """Whether the input has a barrier between place `first` and, `distance` iterations on,
    place `second`; below 0 the input runs `second` first. One that a statement holds may stand
    on either side of its accesses."""
    if distance < 0:
        return _separated(second, first, -distance, barriers)
    if distance == 0:
        return any(first <= place <= second for place in barriers)
    if distance == 1:
        return any(place >= first or place <= second for place in barriers)
    return True


def _pair(a: CoveredRegion, b: CoveredRegion, distance: int, units: Units) -> BarrierPair | None:
    first, second = units.unit_of(a.top), units.unit_of(b.top)
    lag = second.stage + distance - first.stage
    if lag < 0 or (first == second and distance == 0):
        return None
    spaces: set[Space] = {"global", "workgroup"}
    if a.root and b.root:
        spaces = {a.root.space, b.root.space}
    return BarrierPair(first, second, lag, frozenset(spaces))


def _boundary(
    units: Units,
    shared: list[CoveredRegion],
    textual: dict[Operation, int],
    barriers: list[int],
    around: Surroundings,
    noalias_arguments: bool,
) -> Boundary:
    """The accesses outside the loop that a barrier of the body ordered against its own, and against each other."""
    loop = units.body.loop
    before = set[Space]()
    after = around.conflicts_across(loop, noalias_arguments=noalias_arguments)
    fences = [(op, row_of(op).barrier) for op in barriers_of(units.body)]
    after &= set().union(*(spaces(op) for op, spaces in fences if spaces is not None))
    repeated = runs_again(loop)
    ordered_before, ordered_after = around.orders_outside(loop)
    for region in shared:
        place = textual[region.top]
        leading, trailing = min(barriers) <= place, place <= max(barriers)
        own: set[Space] = {"global", "workgroup"} if region.root is None else {region.root.space}
        everything = region.order.orders
        if region.root is None and not everything:
            continue
        earlier, later = around.conflicts_outside(
            loop,
            None if everything else region.root,
            writes=everything or region.writes,
            noalias_arguments=noalias_arguments,
        )
        if leading and (earlier or ordered_before):
            before |= earlier | own
        if trailing and (later or ordered_after):
            after |= later | own
        if repeated and (region.writes or region.order.orders) and (leading or trailing):
            after |= own
    return Boundary(frozenset(before - {"private"}), frozenset(after - {"private"}))


def remark_input_races(
    body: Body, regions: list[CoveredRegion], index: LoopIndex, diagnostics: Diagnostics
) -> None:
    """One remark (input-race) for each statement that meets an earlier one of its barrier
    interval in another thread."""
    block = index.arithmetic.block_size
    if block is None or block == (1, 1, 1):
        return
    for interval in _intervals(body, regions):
        for number, later in enumerate(interval):
            for earlier in interval[:number]:
                met = None
                if _may_race(earlier, later, index):
                    met = meeting_threads(earlier, later, index.induction, block)
                if met is None:
                    continue
                first, second = met
                did, does = ("writes" if each.writes else "reads" for each in (earlier, later))
                diagnostics.remark(
                    f"thread {second} {does} what thread {first} {did} in the same iteration, and the "
                    "input has no barrier between them; the pipeline has none either",
                    code="input-race",
                    at=later.op,
                    notes=((f"thread {first} {did} it here", earlier.op),),
                )
                break


def _intervals(body: Body, regions: list[CoveredRegion]) -> list[list[CoveredRegion]]:
    """The accesses of one iteration, cut at its barriers and at statements that hold one."""
    interval_of, number = {}, 0
    for op in body.ops:
        holds = any(row_of(inner).barrier is not None for inner in walk(op))
        number += holds
        interval_of[op] = number
        number += holds
    intervals: dict[int, list[CoveredRegion]] = defaultdict(list)
    for region in regions:
        intervals[interval_of[region.top]].append(region)
    return list(intervals.values())


def _may_race(earlier: CoveredRegion, later: CoveredRegion, index: LoopIndex) -> bool:
    if earlier.top == later.top or not (earlier.writes or later.writes):
        return False
    if earlier.root is None or later.root is None or not threads_may_meet(earlier.root, later.root):
        return False
    if all(r.access is not None and r.access.kind == "atomic" for r in (earlier, later)):
        return False
    distances = index.distances(earlier, later, same_thread=False)
    return distances is not None and distances.smallest(0) == 0


@dataclass(frozen=True)
class KeptBarrier:
    """A barrier of the input and the unit before which it stands; `spaces` it fences."""

    op: Operation
    unit: Unit
    spaces: frozenset[str]


def kept_barriers(units: Units, regions: list[CoveredRegion]) -> tuple[KeptBarrier, ...]:
    """The barriers between accesses that cannot be analysed, in textual order.

    Raises PipelineError (opaque-barrier).
    """
    opaque = [region.top for region in regions if region.opaque]
    if len(set(opaque)) < 2:
        return ()
    textual = {op: number for number, op in enumerate(units.body.ops)}
    kept = []
    for op in units.body.synchronisation:
        row = row_of(op)
        if row.barrier is None:
            continue
        earlier = [top for top in opaque if textual[top] < textual[op]]
        after = [top for top in opaque if textual[top] > textual[op]]
        if earlier and after:
            following = next(s.op for s in units.body.statements if textual[s.op] > textual[op])
            barrier = KeptBarrier(op, units.unit_of(following), row.barrier(op))
            _check_sides(barrier, earlier, after, units)
            kept.append(barrier)
    return tuple(kept)


def _check_sides(
    barrier: KeptBarrier, earlier: list[Operation], after: list[Operation], units: Units
) -> None:
    """T(a, k) < T(barrier, k) < T(a, k + 1) for a before it, and
    T(barrier, k) <= T(b, k) < T(barrier, k + 1) for b after."""

    def time(unit: Unit, iteration: int = 0) -> tuple[int, int]:
        return unit.stage + iteration, unit.position

    own = barrier.unit
    for top in (*earlier, *after):
        unit, side = units.unit_of(top), "before" if top in earlier else "after"
        if side == "before" and time(unit) < time(own) < time(unit, 1):
            continue
        if side == "after" and time(own) <= time(unit) < time(own, 1):
            continue
        raise PipelineError(
            f"cannot pipeline: '{barrier.op.name}' stands between accesses that cannot be analysed, "
            f"and the schedule moves '{top.name}', which is {side} it, away from it",
            code="opaque-barrier",
            at=barrier.op,
            notes=(
                (f"nothing is known of the memory that this '{top.name}' touches", top),
                ("the barrier runs before this statement and in its stage", own.ops[0]),
                (
                    "give both sides of the barrier, and what stands between them, one stage",
                    barrier.op,
                ),
            ),
        )


def check_uniform(loop: Operation) -> None:
    """Raise PipelineError (divergent-barrier) if thread ids decide whether, or how often, the
    loop runs. Arguments and loaded values do not: the barrier of the input says that its author
    knows them to be the same for all."""
    above = Uniformity().control_by_thread_id(loop)
    if above is None:
        return
    raise PipelineError(
        "cannot pipeline: the pipeline needs barriers, but "
        + ("the number of iterations" if above == loop else f"this '{above.name}'")
        + " depends on the thread",
        code="divergent-barrier",
        at=above,
        notes=() if above == loop else (("the loop", loop),),
    )
