"""Reads a loop as numbers, of which a modulo scheduling problem is made.

Nodes are statements; the load and the store of one asynchronous copy are one node, and so are
the parts of an inner loop that is pipelined itself. Pure ops cost with the statement that they
would go with in textual order. Edges are the dependences that `legality` checks: through values,
also over iterations, and through memory; what is privatised has none between iterations.

What the units of a loop cost under a cost model: cycles of the thread, cycles of queues.

Trip counts of inner loops multiply what is inside; a loop whose count is not known counts once, and of a branch the
dearer side counts. Cycles that stand on an op come before the model's (`machine.costs`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    captured,
    defining_op,
    operations,
    users,
    walk,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import (
    CostModel,
    bytes_of_access,
    given_cycles,
    kind_of_op,
    own_cycles,
)
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import Body, barriers_of, copies_of, is_synchronisation
from mlir_async_pipe.pipeliner.dependence.memory_dependences import Analysis
from mlir_async_pipe.pipeliner.dependence.regions import by_root
from mlir_async_pipe.pipeliner.plan.barrier_pairs import threads_share_tiles
from mlir_async_pipe.pipeliner.plan.choose_versions import meeting_pairs, slot_bytes
from mlir_async_pipe.pipeliner.plan.sync_state import groups_of_input
from mlir_async_pipe.pipeliner.plan.units import (
    SchedulePlace,
    Unit,
    Units,
    is_async,
    joined_by_values,
    physical_copy,
)
from mlir_async_pipe.pipeliner.schedule.modulo.solve import LiveRange
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS, SCOPE


@dataclass(frozen=True)
class ScheduledNode:
    """What is scheduled as one piece: a statement, or the statements of one asynchronous copy. `held` are the
    cycles for which it holds the thread, with the pure ops that go with it; `occupancy` those for which it holds
    `queue`, and `latency` those from then until it has arrived (both 0 if it is synchronous, and `queue` is "").
    `group` is its commit group in the input, -1 if it is in none."""

    statements: tuple[int, ...]
    held: float
    queue: str = ""
    occupancy: float = 0
    latency: float = 0
    group: int = -1

    @property
    def asynchronous(self) -> bool:
        """Whether it completes later than it is issued."""
        return self.queue != ""

    @property
    def delay(self) -> float:
        """Cycles from its begin until what depends on it may begin."""
        return self.occupancy + self.latency if self.asynchronous else self.held


@dataclass(frozen=True)
class DependenceEdge:
    """`target` of iteration k + distance depends on `source` of iteration k."""

    source: int
    target: int
    distance: int


@dataclass(frozen=True)
class LoopNumbers:
    """What a scheduler needs to know of a loop.

    `buffers` are those that may get versions, with the pairs of nodes of which one uses an element that the other writes.
    `barrier` are the cycles of a thread barrier if every iteration has one, else 0;
    `has_barriers` whether the input orders threads at all. `wait_modes` says whether waits may
    stand at the top of a step (True) or before their consumers (False). `largest_stages`
    bounds the number of stages.
    """

    nodes: tuple[ScheduledNode, ...]
    edges: tuple[DependenceEdge, ...]
    buffers: tuple[LiveRange, ...]
    barrier: float
    has_barriers: bool
    wait_modes: tuple[bool, ...]
    largest_stages: int


@dataclass(frozen=True)
class CopyCost:
    """One copy: its queue, the cycles there, from then to its arrival, and for which its issue holds the thread."""

    queue: str
    occupancy: float
    latency: float
    held: float


class UnitCosts:
    """Costs of ops and units of one loop; every op is read once."""

    def __init__(self, model: CostModel, target: Target | None) -> None:
        self._model = model
        self._target = target
        # Cycles for which a synchronous top-level op holds the thread.
        self.held_by = cache(partial(_cycles_held, model=model))
        self.copies_of = cache(self._copies_of)

    def queue(self, name: str) -> str:
        """The name of the FIFO of a group: the chip's where a target is given."""
        physical = None if self._target is None else self._target.chip.copy_queue
        return name if physical is None else physical.name

    def held(self, unit: Unit) -> float:
        """Cycles for which a unit holds the thread, issuing copies not included."""
        return 0 if unit.asynchronous else sum(self.held_by(op) for op in unit.ops)

    def copies(self, unit: Unit) -> tuple[CopyCost, ...]:
        """The copies that a unit issues, () if it is synchronous."""
        return self.copies_of(unit.ops, f"queue {unit.stage}") if unit.asynchronous else ()

    def _copies_of(self, ops: tuple[Operation, ...], queue: str) -> tuple[CopyCost, ...]:
        """The copies of an asynchronous statement, or of several that become one scope on the abstract queue `queue`."""
        inside = [each for op in ops if physical_copy(op) is not None for each in walk(op)]
        issued = [op for op in inside if not len(op.regions) and row_of(op).asynchronous(op)]
        if issued:
            return tuple(self._cost(_queue_of(op), (op,), own_cycles(op), op.name) for op in issued)
        known = [cycles for op in ops if (cycles := given_cycles(op)) is not None]
        return (self._cost(queue, ops, sum(known) if known else None, SCOPE),)

    def _cost(
        self, queue: str, ops: Iterable[Operation], cycles: int | None, issued_by: str
    ) -> CopyCost:
        name = self.queue(queue)
        written = (a for op in ops for each in walk(op) for a in accesses(each) if a.writes)
        return CopyCost(
            name,
            self._model.occupancy(name, sum(map(bytes_of_access, written))),
            self._model.arrival(name, cycles),
            self._model.ops.get(issued_by, 0),
        )


def _queue_of(copy: Operation) -> str:
    queue = row_of(copy).queue
    assert queue is not None
    return queue if isinstance(queue, str) else queue.name


def _cycles_held(op: Operation, model: CostModel) -> float:
    def of_thread(op: Operation) -> dict[str, float]:
        if is_synchronisation(op):
            return {"": model.barrier if row_of(op).barrier is not None else 0}
        return {"": model.held(op.name, kind_of_op(op), own_cycles(op))}

    return _with_regions(op, of_thread)[""]


def uses_of(op: Operation, model: CostModel) -> dict[str, float]:
    """The cycles for which an op, with what is in its regions, holds each unit."""
    return _with_regions(op, model.uses)


def _with_regions(
    op: Operation, own: Callable[[Operation], Mapping[str, float]]
) -> dict[str, float]:
    """What an op takes of each unit, with its regions: as often as a loop runs, and the dearest side of a branch."""
    found = defaultdict[str, float](float, own(op))
    inside = [defaultdict[str, float](float) for _ in op.regions]
    for region, used in zip(op.regions, inside, strict=True):
        for inner in (inner for block in region.blocks for inner in operations(block)):
            for unit, cycles in _with_regions(inner, own).items():
                used[unit] += cycles
    trips = static_trip_count(op) if op.name == "scf.for" else None
    row = REGION_ROWS.get(op.name)
    dearest = max if row is not None and row.flow == "branch" else sum
    for unit in sorted({unit for used in inside for unit in used}):
        found[unit] += (1 if trips is None else trips) * dearest(used[unit] for used in inside)
    return found


@dataclass(frozen=True)
class Reading:
    """The numbers of a loop, and what its nodes are. `asynchronous` are the ops of the statements that complete
    later; `node_of` gives the node of each statement's op."""

    loop: LoopNumbers
    body: Body
    analysis: Analysis
    asynchronous: frozenset[Operation]
    node_of: dict[Operation, int]

    def op_of(self, node: int) -> Operation:
        """The last op of a node: that of its statement, or the store of a copy."""
        return self.body.statements[self.loop.nodes[node].statements[-1]].op


def read(
    analysis: Analysis,
    costs: UnitCosts,
    barrier_cycles: float,
    largest_stages: int,
    wait_at: Literal["consumer", "iteration"] | None,
) -> Reading:
    """The numbers of a loop; `wait_at` is where its author wants the waits, if he says so."""
    body = analysis.body
    # Copies from global to workgroup memory, and what the input marks as asynchronous.
    marked = (s.op for s in body.statements if is_async(s.op))
    asynchronous = frozenset([*(s.op for s in copies_of(body).statements), *marked])
    members = _members(body, asynchronous)
    node_of = {body.statements[n].op: node for node, own in enumerate(members) for n in own}
    places = {s.op: SchedulePlace(0, s.number, s.op in asynchronous) for s in body.statements}
    units = Units(body, places)
    held = _held(units, asynchronous, costs, node_of)
    given = groups_of_input(units)
    group_of = {
        node: given[unit.position]
        for op, node in node_of.items()
        if (unit := units.unit_of(op)).position in given
    }
    nodes = tuple(
        _node(body, statements, held[node], group_of.get(node, -1), asynchronous, costs)
        for node, statements in enumerate(members)
    )
    has_barriers = bool(barriers_of(body))
    # Without barriers a wait before its consumer is never worse.
    modes = (True, False) if has_barriers else (False,)
    numbers = LoopNumbers(
        nodes,
        _edges(body, analysis, node_of),
        _buffers(analysis, node_of),
        barrier_cycles if has_barriers and threads_share_tiles(analysis) else 0,
        has_barriers,
        modes if wait_at is None else (wait_at == "iteration",),
        largest_stages,
    )
    return Reading(numbers, body, analysis, asynchronous, node_of)


def _members(body: Body, asynchronous: frozenset[Operation]) -> list[tuple[int, ...]]:
    """The statements of each node, in textual order of their first ones."""
    by_op: dict[Operation, list[int]] = defaultdict(list)
    for statement in body.statements:
        by_op[statement.op].append(statement.number)
    scopes = joined_by_values(body, [op for op in by_op if op in asynchronous])
    joined = {op: number for number, ops in enumerate(scopes) for op in ops}
    groups: dict[Any, list[int]] = defaultdict(list)
    for op, numbers in by_op.items():
        groups[joined.get(op, op)] += numbers
    return sorted(tuple(sorted(numbers)) for numbers in groups.values())


def _held(
    units: Units,
    asynchronous: frozenset[Operation],
    costs: UnitCosts,
    node_of: dict[Operation, int],
) -> dict[int, float]:
    """Cycles of the thread by node, with the pure ops that go with it in textual order."""
    numbers = {place.order: node_of[op] for op, place in units.statement_places.items()}
    held: dict[int, float] = defaultdict(float)
    for op, node in node_of.items():
        held[node] += 0 if op in asynchronous else costs.held_by(op)
    for number, pure_places in units.pure_places.items():
        for place in pure_places:
            held[numbers.get(place.order, 0)] += costs.held_by(units.body.table.ops[number])
    return held


def _node(
    body: Body,
    statements: tuple[int, ...],
    held: float,
    group: int,
    asynchronous: frozenset[Operation],
    costs: UnitCosts,
) -> ScheduledNode:
    ops = tuple(dict.fromkeys(body.statements[number].op for number in statements))
    if ops[0] not in asynchronous:
        return ScheduledNode(statements, held)
    # A scope goes to the queue of its stage, which is not known yet: here it has its own.
    copies = costs.copies_of(ops, f"queue {statements[0]}")
    return ScheduledNode(
        statements,
        held + sum(copy.held for copy in copies),
        copies[0].queue,
        sum(copy.occupancy for copy in copies),
        max(copy.latency for copy in copies),
        group,
    )


def _edges(
    body: Body, analysis: Analysis, node_of: dict[Operation, int]
) -> tuple[DependenceEdge, ...]:
    nearest: dict[tuple[int, int], int] = {}

    def add(source: int, target: int, distance: int) -> None:
        known = nearest.get((source, target))
        if (source != target or distance > 0) and (known is None or distance < known):
            nearest[(source, target)] = distance

    for op, node in node_of.items():
        for producer, distance in producers_of(op, body, node_of):
            add(producer, node, distance)
    for source, target, distance in _carried(body, node_of):
        add(source, target, distance)
    for dependence in analysis.dependences:
        add(node_of[dependence.source.top], node_of[dependence.target.top], dependence.distance)
    return tuple(DependenceEdge(i, j, distance) for (i, j), distance in sorted(nearest.items()))


def producers_of(op: Operation, body: Body, node_of: dict[Operation, int]) -> list[tuple[int, int]]:
    """The nodes whose values reach `op`, also through pure ops and iter_args, and how many iterations later."""
    table = body.table
    most = len(table.yielded)

    def makers(use: tuple[int, int]) -> list[tuple[int, int]]:
        number, distance = use
        made = ((maker, distance + more) for maker, more in table.sources[number])
        return [(maker, distance) for maker, distance in made if distance <= most]

    def before(use: tuple[int, int]) -> list[tuple[int, int]]:
        return [] if table.ops[use[0]] in node_of else makers(use)

    found = ((table.ops[n], d) for n, d in walked(makers((table.number[op], 0)), before))
    return [(node_of[producer], distance) for producer, distance in found if producer in node_of]


def _carried(body: Body, node_of: dict[Operation, int]) -> list[tuple[int, int, int]]:
    """A pure value that only the yield uses goes with the one statement that uses its iter_arg:
    then that statement needs what the value is made of, in the same iteration."""
    found = []
    carried = list(body.block.arguments)[1:]
    for value, argument in zip(body.terminator.operands, carried, strict=True):
        op = defining_op(value)
        if op is None or op in node_of or op.block != body.block:
            continue
        if any(user != body.terminator for user in users(value)):
            continue
        takers = {node_of[user] for user in users(argument) if user in node_of}
        if len(takers) == 1:
            (taker,) = takers
            made_of = filter(None, map(defining_op, captured(op)))
            found += [(node_of[made], taker, 0) for made in made_of if made in node_of]
    return found


def _buffers(analysis: Analysis, node_of: dict[Operation, int]) -> tuple[LiveRange, ...]:
    found = []
    for key, own in by_root(analysis.regions).items():
        regions, root = tuple(own), own[0].root
        if key not in analysis.privatisation.private or root is None:
            continue
        node = [node_of[r.top] for r in regions]
        meeting = ((x, w) for x, w in meeting_pairs(regions, analysis.index) if regions[w].writes)
        uses = {(node[w], node[x], 0) for x, w in meeting if node[x] != node[w]}
        memory = "workgroup" if root.space == "workgroup" else "private"
        found.append(LiveRange(slot_bytes(regions), tuple(sorted(uses)), memory))
    return tuple(found)
