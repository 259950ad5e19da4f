"""Which pairs of accesses need a thread barrier between them.

The input's barriers say what its author orders between threads. A pair (x, w) needs one in
the result if both touch shared memory, may touch the same element from different threads,
and the input has a barrier between them at that iteration distance. A conflict without a
barrier in the input is the input's own affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.dependence.distance import LoopIndex
from mlir_async_pipe.dependence.regions import Region
from mlir_async_pipe.expand.buffers import BufferPlan
from mlir_async_pipe.expand.surroundings import Surroundings
from mlir_async_pipe.expand.units import Unit, Units
from mlir_async_pipe.ir_helpers import Operation, ancestors
from mlir_async_pipe.vocabulary import row_of

LOOPS = ("scf.for", "scf.while", "scf.parallel", "scf.forall", "affine.for")


@dataclass(frozen=True)
class BarrierPair:
    """`first` of step t - lag must be seen by all threads before `second` of step t runs.

    If `first` is async, its completion counts, not its issue.
    """

    first: Unit
    second: Unit
    lag: int
    spaces: frozenset[str]


def barrier_pairs(
    units: Units,
    regions: list[Region],
    buffers: tuple[BufferPlan, ...],
    index: LoopIndex,
    private: frozenset[Any],
    around: Surroundings,
) -> tuple[tuple[BarrierPair, ...], bool, bool]:
    """The pairs inside the loop, and whether one barrier is needed before the prologue and
    behind the epilogue for accesses outside the loop."""
    textual = {op: number for number, op in enumerate(units.body.ops)}
    barriers = [
        textual[op]
        for op in units.body.synchronisation
        if (row := row_of(op)) is not None and row.barrier is not None
    ]
    if not barriers:
        return (), False, False
    shared = [r for r in regions if r.root is None or r.root.space != "private"]
    versions = {b.root.identity: b.versions for b in buffers}
    pairs: dict[BarrierPair, None] = {}
    for a in shared:
        for b in shared:
            if not (a.writes or b.writes):
                continue
            for distance in _conflicts(a, b, index, private, versions):
                if _separated(textual[a.top], textual[b.top], distance, barriers):
                    pair = _pair(a, b, distance, units)
                    if pair is not None:
                        pairs[pair] = None
    before, behind = _boundary(units, shared, textual, barriers, around)
    return tuple(pairs), before, behind


def _conflicts(
    a: Region, b: Region, index: LoopIndex, private: frozenset[Any], versions: dict[Any, int]
) -> list[int]:
    """Iteration distances at which `b` may meet what `a` touched, from different threads."""
    distances = index.distances(a, b, same_thread=False)
    if distances is None:
        return []
    first = 0 if a.position < b.position and a.top != b.top else 1
    if a.root is not None and a.root.identity in private:
        # Inside one version only the same iteration meets; V iterations later the slot does.
        same = [0] if first == 0 and distances.smallest(0) == 0 else []
        return [*same, versions[a.root.identity]]
    found: list[int] = []
    following = distances.smallest(first)
    # Three in a row are enough: from two iterations on, a body with a barrier has one between.
    while following is not None and len(found) < 3:
        found.append(following)
        following = distances.smallest(following + 1)
    return found


def _separated(first: int, second: int, distance: int, barriers: list[int]) -> bool:
    """Whether the input has a barrier between place `first` and, `distance` iterations on,
    place `second`."""
    if distance == 0:
        return any(first < place < second for place in barriers)
    if distance == 1:
        return any(place > first or place < second for place in barriers)
    return True


def _pair(a: Region, b: Region, distance: int, units: Units) -> BarrierPair | None:
    first, second = units.unit_of(a.top), units.unit_of(b.top)
    lag = second.stage + distance - first.stage
    if lag < 0 or (first == second and distance == 0):
        return None
    spaces = frozenset(
        {a.root.space, b.root.space} if a.root and b.root else {"global", "workgroup"}
    )
    return BarrierPair(first, second, lag, spaces)


def _boundary(
    units: Units,
    shared: list[Region],
    textual: dict[Operation, int],
    barriers: list[int],
    around: Surroundings,
) -> tuple[bool, bool]:
    """Accesses outside the loop that a barrier of the body ordered against it."""
    loop = units.body.loop
    keys = {r.root.identity for r in shared if r.root is not None}
    places = [textual[r.top] for r in shared]
    leading = any(min(barriers) < place for place in places)
    trailing = any(max(barriers) > place for place in places)
    repeated = any(above.name in LOOPS for above in ancestors(loop))
    before = after = False
    for identity in keys:
        in_front, behind_it = around.touches_outside(loop, identity)
        before = before or bool(in_front)
        after = after or bool(behind_it)
    behind = (trailing and after) or (repeated and (leading or trailing))
    return leading and before, behind
