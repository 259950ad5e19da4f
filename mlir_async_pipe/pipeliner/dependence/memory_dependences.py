"""The dependences of a loop through memory, with their smallest iteration distance.

A dependence a -> b at distance d says: b in iteration k + d touches what a touched in
iteration k, one of them writes, and b comes later in the original execution. Only the
smallest d matters for legality: T(a, k) < T(b, k + d) holds for all larger ones with it.

Other threads see more than one element at a time: what an op orders for them (`order_of`) keeps its
place among accesses of other memory, too.

    spin until load acquire %flag      order, 0: the copy of its iteration comes after it
    copy %A[%i]                        order, 1: the spin of the next iteration is not crossed
    store %x; store release %flag      order, 0

`analyse` gathers what is true of a loop whatever its schedule: its accesses, which buffers may have versions,
and these dependences.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.facts.flow.algorithms import joined
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import may_alias
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.privatise import Privatisation, private_buffers
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.vocabulary import queue_of, row_of
from mlir_async_pipe.vocabulary.rows import UNORDERED, keeps_order

Kind = Literal["flow", "anti", "output", "order"]


class Dependence(NamedTuple):
    """`target` in iteration k + distance depends on `source` in iteration k.

    `proven` is False where independence could not be shown and the smallest distance was assumed.
    """

    source: CoveredRegion
    target: CoveredRegion
    distance: int
    kind: Kind
    proven: bool


@dataclass(frozen=True)
class Assertions:
    """What the user vouches for."""

    independent: bool = False
    noalias_arguments: bool = False


def memory_dependences(
    regions: list[CoveredRegion], private: frozenset[Any], index: LoopIndex, assertions: Assertions
) -> list[Dependence]:
    """All dependences between accesses of the body.

    `private` holds the keys of roots that get a version an iteration: through them nothing
    flows from one iteration to another, so only distance 0 counts there.
    """
    found: list[Dependence] = []
    for group in _aliasing_groups(regions, assertions):
        for a in group:
            for b in group:
                if a.writes or b.writes:
                    dependence = _between(a, b, private, index, assertions)
                    if dependence is not None:
                        found.append(dependence)
    return found + _order_dependences(regions)


def _order_dependences(regions: list[CoveredRegion]) -> list[Dependence]:
    """Nothing moves above an acquire or below a release, and strong accesses stay in order."""
    ordering = [r for r in regions if r.order != UNORDERED]
    pairs = [(a, b) for a in ordering for b in regions]
    pairs += [(a, b) for b in ordering for a in regions if a.order == UNORDERED]
    return [
        Dependence(a, b, first_distance(a, b), "order", True)
        for a, b in pairs
        if a.op != b.op and are_ordered(a, b)
    ]


def are_ordered(a: CoveredRegion, b: CoveredRegion) -> bool:
    """Whether `b`, which comes after `a`, must do so for other threads whatever memory both touch."""
    return not (_is_own(a) or _is_own(b)) and keeps_order(a.order, b.order)


def _is_own(region: CoveredRegion) -> bool:
    """Whether no other thread writes that memory while the kernel runs, or the author says so."""
    root = region.root
    own = root is not None and (root.space == "private" or root.unordered)
    return own and region.order == UNORDERED


def first_distance(a: CoveredRegion, b: CoveredRegion) -> int:
    """The iterations between an access and the next one that comes later."""
    return 0 if a.position < b.position and a.top != b.top else 1


def _aliasing_groups(
    regions: list[CoveredRegion], assertions: Assertions
) -> list[list[CoveredRegion]]:
    """Accesses sorted into groups that may touch common memory; most loops have one a root."""
    by_root: dict[Any, list[CoveredRegion]] = defaultdict(list)
    for region in (r for r in regions if not r.is_fence):
        by_root[None if region.root is None else region.root.identity].append(region)
    first = {key: group[0].root for key, group in by_root.items()}
    together = joined(
        by_root,
        (
            (key, other)
            for (key, a), (other, b) in combinations(first.items(), 2)
            if a is None
            or b is None
            or may_alias(a, b, assume_noalias_arguments=assertions.noalias_arguments)
        ),
    )
    groups = ([region for key in keys for region in by_root[key]] for keys in together)
    return [
        sorted(group, key=lambda region: region.position)
        for group in groups
        if any(region.writes for region in group)
    ]


def _between(
    a: CoveredRegion,
    b: CoveredRegion,
    private: frozenset[Any],
    index: LoopIndex,
    assertions: Assertions,
) -> Dependence | None:
    least = first_distance(a, b)
    is_private = a.root is not None and a.root.identity in private
    if is_private and least > 0:
        return None
    own = all(r.root is not None and r.root.space == "private" for r in (a, b))
    distances = index.distances(
        a, b, same_thread=own, assume_noalias_arguments=assertions.noalias_arguments
    )
    smallest = None if distances is None else distances.smallest(least)
    if distances is None or smallest is None:
        return None
    if smallest > 0 and (is_private or (assertions.independent and not distances.proven)):
        return None
    kind: Kind = "anti" if not a.writes else "output" if b.writes else "flow"
    return Dependence(a, b, smallest, kind, distances.proven)


@dataclass(frozen=True)
class Analysis:
    """The facts about a loop body.

    `privatisation` says whose iterations may have versions, and what stands against it for the
    others. `around` is what stands around the loop, `awaited` are of the dependences those on copies that are in flight when
    it begins.
    """

    body: Body
    regions: list[CoveredRegion]
    index: LoopIndex
    privatisation: Privatisation
    dependences: list[Dependence]
    around: Surroundings
    awaited: list[Dependence]


def analyse(
    body: Body, independent: bool, noalias_arguments: bool, around: Surroundings
) -> Analysis:
    """Gather the facts; `independent` and `noalias_arguments` are what the user vouches for."""
    loop = body.loop
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    tops = list(dict.fromkeys(statement.op for statement in body.statements))
    regions = regions_of(tops, arithmetic, around.lanes(loop))
    privatisation = private_buffers(loop, regions, around, arithmetic)
    dependences = memory_dependences(
        regions, privatisation.private, index, Assertions(independent, noalias_arguments)
    )
    awaited = _awaited_dependences(body, regions, around, noalias_arguments)
    dependences += awaited
    return Analysis(body, regions, index, privatisation, dependences, around, awaited)


def _awaited_dependences(
    body: Body, regions: list[CoveredRegion], around: Surroundings, noalias_arguments: bool
) -> list[Dependence]:
    """A wait for a copy of the loop is one for all that was copied before it, too: what meets that comes after this wait.

    copy %A -> %Q; commit                      in flight when the loop begins
    scf.for … {
      copy %B -> %tile; commit; wait; barrier
      load %Q; load %tile                      flow, 0: the load of %Q depends on the copy to %tile"""
    copies = [r for r in regions if r.access is not None and r.access.asynchronous]
    waits = [op for op in body.synchronisation if row_of(op).wait is not None]
    queue = queue_of(copies[0].op) if copies else None
    queued = around.queued_before(body.loop, queue) if waits and queue is not None else []
    if not queued:
        return []
    textual = {op: number for number, op in enumerate(body.ops)}
    first, wait = textual[copies[0].top], min(textual[op] for op in waits)

    def meets(region: CoveredRegion) -> bool:
        root = region.root
        return root is not None and any(
            (region.writes or each.writes)
            and may_alias(root, each.root, assume_noalias_arguments=noalias_arguments)
            for each in queued
        )

    # Unless it is a wait for what an iteration before copied.
    distances = {r.top: int(not first < wait < textual[r.top]) for r in regions}
    computing = (r for r in regions if r.access is None or not r.access.asynchronous)
    return [
        Dependence(copies[0], region, distances[region.top], "flow", True)
        for region in computing
        if meets(region)
    ]
