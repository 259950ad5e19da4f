"""Everything that is decided about a loop of tensor copies before the first edit.

V slots hold the tiles, and as many mbarriers their phases; the loop copies d tiles ahead, and the
products of p iterations stay in flight. How large V is, which memory and other loops on the same
mbarriers decide too, `share_rings` says. Nothing after that can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, NoReturn

from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    Value,
    captured,
    enclosing,
    parent,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import Roles, static_trip_count
from mlir_async_pipe.facts.loops.statements import (
    Body,
    barriers_of,
    needed_values,
    numbering,
    read_body,
)
from mlir_async_pipe.facts.loops.transactions import (
    Completion,
    Products,
    Transaction,
    handle_of,
    in_flight,
    only_computes,
    operand,
    products_of,
    transactions_of,
)
from mlir_async_pipe.facts.values.memory_roots import Space, root_of
from mlir_async_pipe.facts.values.uniformity import compared_thread, conjunction
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.barrier_pairs import check_uniform
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.cluster_plan import ClusterPlan, is_multicast, plan_cluster
from mlir_async_pipe.pipeliner.plan.cluster_plan import refuse as refuse_blocks
from mlir_async_pipe.pipeliner.plan.mbarrier_setup import (
    InputPhases,
    MbarrierSetup,
    mbarrier_setups,
    shared,
)
from mlir_async_pipe.pipeliner.plan.memory_limit import too_large, workgroup_bytes
from mlir_async_pipe.pipeliner.plan.ring_barriers import (
    barriers_to_drop,
    ends_after_barrier,
    ordered_outside,
)
from mlir_async_pipe.pipeliner.plan.ring_stages import Asked, RingStages, StageOrder
from mlir_async_pipe.pipeliner.plan.tensor_tiles import (
    check_independent,
    ring_buffers,
    users_of_memory,
)
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace
from mlir_async_pipe.session.diagnostics import PipelineError, refusing
from mlir_async_pipe.vocabulary import accesses, row_of, tensor_use
from mlir_async_pipe.vocabulary.launch_ids import LaunchId
from mlir_async_pipe.vocabulary.rows import WGMMA
from mlir_async_pipe.vocabulary.tensor_memory import ProductCells

# Threads.
WARP = 32


@dataclass(frozen=True)
class IssueSlice:
    """`ops` in textual order, and what those use that it is about (`used`); `advanced` are the numbers of the
    values that the loop carries and the slice uses. `leader`: the condition that holds in thread 0 only,
    where each predicate is that, or that and more."""

    ops: tuple[Operation, ...]
    used: tuple[Value, ...]
    advanced: tuple[int, ...]
    leader: Value | None


@dataclass(frozen=True)
class PingPong:
    """`shared` are the ops of the body of `around` that both groups run;
    `idle` the numbers of the values that `around` carries for the input's phases and copies alone;
    `tiles` is other memory of a tile, with a version for each group; `ids` are thread ids along x, and `of_ids`
    the ops before the roles part that compute with them."""

    around: Operation
    shared: frozenset[Operation]
    idle: tuple[int, ...]
    tiles: tuple[BufferPlan, ...]
    ids: tuple[Value, ...]
    of_ids: tuple[Operation, ...]


class ProductTurn(NamedTuple):
    """The first and the last op of a turn, in the body of a loop; `following`: what comes after it in a step whose
    order is not that of the text."""

    first: Operation
    last: Operation
    following: Operation | None = None


@dataclass(frozen=True)
class SumVersions:
    """Each of `versions` has `columns`, of which the ops `sized` take and give back so many."""

    versions: int
    columns: int
    sized: tuple[Operation, ...]


@dataclass(frozen=True)
class ProductRole:
    """What the warp runs in the loop; `branch` holds the products and
    their commit. `loads` are those of the sums, over after `last` (None: there are none)."""

    slice: IssueSlice
    branch: Operation
    completion: Completion
    loads: tuple[Operation, ...]
    last: Operation | None
    sums: SumVersions


class Arrival(NamedTuple):
    """Threads of a group arrive after `at`, and so many iterations later the warp of products waits for that before the branch
    `place`."""

    at: Operation
    place: Operation
    lag: int
    group: int


@dataclass(frozen=True)
class ThreadGroups:
    """Groups of as many threads as the input has, which share what those run: `owners` run ops that not all groups run;
    `ids` are thread ids along x, and `of_ids` the ops before the roles part that compute with them."""

    count: int
    owners: dict[Operation, frozenset[int]]
    ids: tuple[Value, ...]
    of_ids: tuple[Operation, ...]


class Issued(NamedTuple):
    """The products of a branch: the cells of each, and what says when they are over."""

    cells: tuple[ProductCells, ...]
    completion: Completion


@dataclass(frozen=True)
class PartedLoop:
    """Of a loop that the threads of the input run, too, what the warp runs: branches with the products that are `issued`.
    `barriers` are those of the loop, all replaced. `groups`: how the threads share their work, if they do."""

    slice: IssueSlice
    issued: dict[Operation, Issued]
    barriers: tuple[Operation, ...]
    groups: ThreadGroups | None = None


@dataclass(frozen=True)
class IssueOrder:
    """In which order the warp does that: in a `step` waits for tiles and branches with
    products, each with its stage; `completion`, the last commit of an iteration, gives the slot back. Beside the `arrivals` of threads
    it waits for the commits of `awaited`, before a branch, of so many iterations before. For commits that are `late` the
    threads wait an iteration later, before an op; for those `left_out` after the loop only, since later products tell them."""

    step: tuple[tuple[Operation, int], ...]
    completion: Completion
    arrivals: tuple[Arrival, ...]
    awaited: tuple[tuple[Completion, Operation, int], ...]
    late: tuple[tuple[Completion, Operation], ...]
    left_out: tuple[Completion, ...]

    @property
    def drained(self) -> tuple[Completion, ...]:
        """Commits of the last iteration for which threads wait after the loop."""
        return (*(each for each, _ in self.late), *self.left_out)


@dataclass(frozen=True)
class RoleRegisters:
    """Registers of a thread: of each at the start, of a producer's, of a consumer's."""

    entry: int
    producer: int
    consumer: int


@dataclass(frozen=True)
class RoleBlock:
    """`groups` of as many `threads` as the input has, and `copying` ones. `barriers` are those of
    the block that the threads of a group meet at, which become the one of number `barrier` + the
    group's; `sizes` are values that are the number of threads; `launches` start the kernel."""

    kernel: Operation
    threads: int
    groups: int
    copying: int
    registers: RoleRegisters | None
    barriers: tuple[Operation, ...]
    barrier: int
    sizes: tuple[tuple[Value, LaunchId], ...]
    launches: tuple[Operation, ...]

    @property
    def warps(self) -> int:
        """Those that give a slot back, by one arrival each."""
        return self.threads // WARP

    @property
    def order(self) -> int:
        """The number of the barrier at which the first of two groups waits for the second; the next one is the other's."""
        return self.barrier + self.groups

    @property
    def computing(self) -> int:
        """The threads of all groups: those that copy come after them."""
        return self.threads * self.groups

    @property
    def grown(self) -> int:
        return self.computing + self.copying


@dataclass(frozen=True)
class RolePlan:
    """What is decided about the roles of a block: `loops` are all loops of the kernel whose copies warps of their own
    issue, `moved` the ops of the function's block that the threads of the input run alone, both in textual order;
    `block` says what becomes of the block. `ping_pong`: two groups take the tiles of the loop around alternately;
    `products`: what a warp of its own runs that issues products of tensor memory; `order`: when, where threads run the
    loop, too; `turn`: where two warpgroups issue their products in turn.
    """

    loops: tuple[Operation, ...]
    block: RoleBlock
    moved: tuple[Operation, ...]
    ping_pong: PingPong | None = None
    products: ProductRole | PartedLoop | None = None
    order: IssueOrder | None = None
    turn: ProductTurn | None = None

    @property
    def completion(self) -> Completion | None:
        """The commit that gives the slot of an iteration back, if one does."""
        if self.order is not None:
            return self.order.completion
        return self.products.completion if isinstance(self.products, ProductRole) else None


@dataclass(frozen=True)
class RingPlan:
    """The ring of one loop: `versions` V, `ahead` d, `in_flight` p; `stages`: where the products of an iteration
    are not of one stage.

    `copies_first`: they are issued before the products of an iteration, after a barrier of their
    own unless `after_barrier`: one of the input ends what the iteration before did with its tiles.
    `dropped` are barriers of the input that only kept its single slot, `ordered` the memory for which one may be needed
    outside of the loop; `outer` are the ops between the mbarriers and the loop, outermost first, through which slot and
    phase are carried. `roles`: how the block is parted where warps of their own copy (`part_kernels`).
    """

    loop: Operation
    body: Body
    transactions: tuple[Transaction, ...]
    setups: tuple[MbarrierSetup, ...]
    outer: tuple[Operation, ...]
    issue: IssueSlice
    buffers: tuple[BufferPlan, ...]
    products: Products
    versions: int
    ahead: int
    in_flight: int
    copies_first: bool
    after_barrier: bool
    dropped: tuple[Operation, ...]
    ordered: frozenset[Space]
    trip_count: int | None
    # Waits of which nobody knows whether they asked for the right phases.
    undecided: tuple[Operation, ...]
    # The tiles that were to be copied ahead, where memory has no room for as many.
    asked_ahead: int
    # Which roles are asked for, and, where blocks copy for each other, which for which.
    asked: Roles
    cluster: ClusterPlan | None
    # Lanes read tiles one by one, so that a warp meets before one of them gives a slot back for all.
    meets_lanes: bool
    roles: RolePlan | None = None
    # The warps of each block that give slots back, where blocks copy for each other and no warps of their own do.
    returning: int = 0
    stages: RingStages | None = None

    @property
    def kernel(self) -> Operation:
        """What holds the block in which the mbarriers are made."""
        kernel = parent(self.setups[0].create)
        assert kernel is not None
        return kernel

    @property
    def issuing(self) -> list[Operation]:
        """What announces and copies a tile."""
        return [op for t in self.transactions for op in (t.expect, *t.copies)]

    @property
    def beside(self) -> tuple[BufferPlan, ...]:
        """Memory that gets versions, too, but is no tile of the ring."""
        ping_pong = self.roles.ping_pong if self.roles is not None else None
        return ping_pong.tiles if ping_pong is not None else ()

    @property
    def memory(self) -> tuple[BufferPlan, ...]:
        return (*self.buffers, *self.beside)

    @property
    def late(self) -> int:
        """The iterations after which the last stage reads a tile."""
        return 0 if self.stages is None else self.stages.last

    def left_by(self, completion: Completion) -> int:
        """The tiles whose products may be in flight after an iteration's wait for a commit."""
        order = self.roles.order if self.roles is not None else None
        return self.in_flight + (order is not None and completion in order.drained)

    @property
    def held(self) -> int:
        """The tiles that are still read when that of an iteration is waited for."""
        return self.in_flight + self.late

    @property
    def still_read(self) -> int:
        """The tiles of this loop that may still be read at the last barrier before other copies,
        beyond which V slots hold those that are copied ahead."""
        return self.held + self.copies_first


def roles_of(plan: RingPlan) -> RolePlan:
    assert plan.roles is not None
    return plan.roles


class RingPlaces(NamedTuple):
    """How far copies are ahead, whether they come first, and stages and orders of what multiplies."""

    ahead: int
    copies_first: bool
    products: Asked


def plan_ring(
    loop: Operation,
    noalias_arguments: bool,
    around: Surroundings,
    roles: Roles,
    beside: tuple[Operation, ...],
    places: RingPlaces | None = None,
) -> RingPlan:
    """Decide everything but roles, and how many slots there are, which `share_rings` does; `beside` are
    the other loops of tensor copies, `places` what the stages and orders of a schedule that is tried would say.
    Raises PipelineError, or InputError (products-in-use)."""
    annotations = names.read_loop(loop)
    body = read_body(loop)
    transactions = transactions_of(loop)
    ahead, copies_first, asked_places = places or _places(body, transactions)
    products = products_of(loop)
    left = in_flight(products, annotations.in_flight, loop)
    asked = annotations.roles if roles == "auto" else roles
    apart = asked in names.APART
    phases: list[Transaction | Completion] = [*transactions, *products.completions]
    setups, outer = mbarrier_setups(loop, phases, beside)
    sharing = tuple(dict.fromkeys(other for setup in setups for other in setup.sharing))
    undecided = InputPhases(loop, outer, sharing).undecided(phases)
    issue = issue_slice(body, transactions, around)
    cluster = None
    multicast = next((c for t in transactions for c in t.copies if is_multicast(c)), None)
    if multicast is not None:
        cluster, setups = plan_cluster(body, transactions, setups, issue.leader)
    meetings = cluster.dropped if cluster is not None else ()
    by_others = "warps of their own" if apart else "blocks of a cluster" if cluster else ""
    ready = tuple(setup.meeting or setup.last_init for setup in setups)
    check_independent(loop, outer, ready, transactions, noalias_arguments, meetings, by_others)
    buffers = ring_buffers(body, transactions, sharing)
    check_uniform(loop)
    ordered = ordered_outside(
        body, buffers, meetings, around, noalias_arguments, beside, keeps_barrier=not by_others
    )
    if ordered and not barriers_of(body):
        why = "this meeting, which the pipeline does without, may order what stands before the loop and after it"
        refuse_blocks(why, meetings[0], loop, advice="write 'gpu.barrier' after the loop")
    dropped = barriers_to_drop(body, buffers, copies_first or bool(by_others), meetings, ordered)
    others = (op for op in walk(loop) if row_of(op).queue != WGMMA)
    read = (a.memory for op in others for a in accesses(op) if not a.writes)
    lanes_read = any(root_of(memory).space != "global" for memory in read)
    plan = RingPlan(
        loop,
        body,
        transactions,
        setups,
        outer,
        issue,
        buffers,
        products,
        1,
        ahead,
        left,
        copies_first,
        # Products that complete on mbarriers are waited for where the ring says so.
        copies_first
        and not (left or products.completions)
        and ends_after_barrier(body, buffers, dropped),
        dropped,
        ordered,
        static_trip_count(loop),
        undecided,
        ahead,
        asked,
        cluster,
        not products.groups or lanes_read,
    )
    return with_stages(plan, asked_places)


def with_stages(plan: RingPlan, asked: Asked) -> RingPlan:
    """The plan, with its products in these stages. Raises PipelineError (transaction-stages, dependence-violated)."""
    if not any(place.stage for place in asked.values()):
        return plan
    completions = len(plan.products.completions) > 0
    apart = plan.asked in names.APART and bool(plan.products.hindered)
    obstacles = {
        "blocks of a cluster copy for each other": plan.cluster is not None,
        "two groups take the tiles of the loop around in turn": plan.asked == "ping-pong",
        "those of several iterations stay in flight": plan.in_flight > 0,
        "commits complete them, and no warp of its own issues them beside work in tensor memory": completions
        and not apart,
        "commits complete them, but for a second one": completions
        and max(place.stage for place in asked.values()) > 1,
    }
    for why in (why for why, holds in obstacles.items() if holds):
        raise bad_stages(f"products need one stage where {why}", plan.body)
    if completions:
        branches = sorted(asked, key=lambda op: asked[op].order)
        stages = tuple(asked[op].stage for op in branches)
        return replace(plan, stages=RingStages(tuple(branches), stages, {}))
    order = StageOrder(plan.body, plan.transactions, plan.dropped, asked)
    return replace(plan, stages=order.run())


def multiplies(op: Operation) -> bool:
    """Whether a statement issues products, or commits or waits for some."""
    return row_of(op).queue == WGMMA or any(tensor_use(each) == "product" for each in walk(op))


def _places(body: Body, transactions: tuple[Transaction, ...]) -> RingPlaces:
    """All copies in one stage, all else in one later stage, but for products, which may have later ones.

    Raises PipelineError (transaction-stages)."""
    copies = {copy for transaction in transactions for copy in transaction.copies}
    issued = [s.op for s in body.statements if s.op in copies]
    others = [s.op for s in body.statements if s.op not in copies]
    stages = {s.op: names.stage_of(s.op) or 0 for s in body.statements}
    early, late = ({stages[op] for op in ops} for ops in (issued, others))
    first_late = {stages[op] for op in others if not multiplies(op)} | {min(late, default=0)}
    if not late or len(early) > 1 or len(first_late) > 1 or min(late) <= min(early):
        why = "the copies need one stage, and all else one later stage, but for products"
        raise bad_stages(why, body)
    numbers = {s.op: s.number for s in body.statements}
    own = names.order_of
    places = {op: numbers[op] if own(op) is None else own(op) for op in issued + others}
    first, last = ([places[op] or 0 for op in ops] for ops in (issued, others))
    products = {
        op: SchedulePlace(stages[op] - min(late), order)
        for op, order in zip(others, last, strict=True)
        if multiplies(op)
    }
    if max(first) < min(last) or min(first) > max(last):
        return RingPlaces(min(late) - min(early), max(first) < min(last), products)
    raise bad_stages("the copies need orders before all else, or after it", body)


def bad_stages(why: str, body: Body) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: of a loop of tensor copies {why}",
        code="transaction-stages",
        at=body.loop,
        notes=numbering(body),
        advice=f"'{names.NUM_STAGES}' makes such stages and orders",
    )


# What issuing a tile takes -----------------------------------------------------------------------
#
# The copies, what announces them, and all that their operands need. It is written again for each tile, d
# iterations ahead of what uses it, so it may hold nothing but pure ops besides the copies.
#
#     %k2 = arith.muli %k, %two           the slice: %k2, expect_tx, the load, and %next, since
#     expect_tx …                         what the loop carries must be known d iterations ahead
#     load %map[%k2, %at] …
#     %next = arith.addi %at, %step       advanced: %at
#     scf.yield %next


def issue_slice(
    body: Body, transactions: tuple[Transaction, ...], around: Surroundings
) -> IssueSlice:
    """The slice of a loop; raises PipelineError (copy-operands)."""
    issuing = [op for t in transactions for op in (t.expect, *t.copies)]
    # Which mbarrier it is that a pointer leads to is written anew for each slot.
    used = [
        value
        for op in issuing
        for value in captured(op)
        if handle_of(op) is None or value != operand(op, "barrier")
    ]

    def refuse(op: Operation) -> NoReturn:
        raise PipelineError(
            f"cannot pipeline: the copies of later iterations would need what '{op.name}' gives in them",
            code="copy-operands",
            at=op,
            notes=tuple(("a copy that is to be issued ahead", t.copies[0]) for t in transactions),
            advice="let bounds, arguments and integer arithmetic alone decide what is copied",
        )

    leader = _leader(issuing, around.launch_size(body.loop))
    return slice_of(body, issuing, used, leader, refuse)


def slice_of(
    body: Body,
    roots: Sequence[Operation],
    used: Sequence[Value],
    leader: Value | None,
    refuse: Callable[[Operation], NoReturn],
) -> IssueSlice:
    """The ops `roots`, and what makes the values that they use; `refuse` raises for one that does more than that."""
    kept, needed = set(roots), needed_values(used, {body.loop, *body.ops})
    ops = tuple(op for op in body.ops if op in kept or not needed.isdisjoint(op.results))
    for op in ops:
        if op not in kept and not only_computes(op):
            refuse(op)
    arguments = list(body.block.arguments)[1:]
    advanced = tuple(n for n, argument in enumerate(arguments) if argument in needed)
    return IssueSlice(ops, tuple(used), advanced, leader)


def _leader(issuing: list[Operation], size: tuple[int, int, int] | None) -> Value | None:
    """The one condition of thread 0 that all predicates hold; of a block along x."""
    if size is None or size[1:] != (1, 1):
        return None
    found = set()
    for op in issuing:
        predicate = operand(op, "predicate")
        assert predicate is not None
        of_thread_0 = [
            value for value in conjunction(predicate) if compared_thread(value) is not None
        ]
        found.add(of_thread_0[0] if of_thread_0 else None)
    return found.pop() if len(found) == 1 else None


# Slots -------------------------------------------------------------------------------------------
#
# How many slots the loops of tensor copies have: those on the same mbarriers are one ring.
#
#     for %i { copy, wait, use }     d = 2, p = 0         V = 3 slots of all tiles; slot and phase
#     for %j { copy, wait, use }     d = 1, p = 1   -->   go on from the first loop to the second
#
# With the copies last in an iteration, after the wait that leaves p products and a barrier, V = d + p;
# with the copies first V = d + p + 1. p counts the iterations, too, whose products in a later stage are yet to come. What
# a loop copies before its first iteration overwrites what the one before it left to be read, so V >= d + p for d of the
# one and p of the other, too, but not for products that commits complete, for which all wait after the loop. Where warps of their own copy, V > p does, and
# V > d holds as many tiles as were asked for (docs/phases.md).


SharedRing = tuple[RingPlan, ...]
"""The loops on the same mbarriers, in the order in which they stand."""


def share_rings(plans: list[RingPlan], limit: int | None, around: Surroundings) -> list[SharedRing]:
    """The plans by ring, with the slots of each; fewer where `limit` bytes of workgroup memory have
    no room for all of a kernel.

    Raises PipelineError (mbarrier-shared, not-privatisable, smem-limit)."""
    rings: list[SharedRing] = []
    for plan in plans:
        loops = {other for setup in plan.setups for other in setup.sharing}
        ring = tuple(other for other in plans if other is plan or other.loop in loops)
        if ring[0] is not plan:
            continue
        with refusing(plan.loop):
            _check_phases(ring)
            _check_tiles(ring)
        rings.append(ring)
    kernels: dict[Operation, list[SharedRing]] = {}
    for ring in rings:
        loop = ring[0].loop
        kernels.setdefault(enclosing(loop, KERNEL_OPS) or loop, []).append(ring)
    fitted = (ring for own in kernels.values() for ring in _fitted(own, limit, around))
    by_loop = {ring[0].loop: ring for ring in fitted}
    return [by_loop[ring[0].loop] for ring in rings]


def _check_phases(ring: SharedRing) -> None:
    """All loops use all mbarriers of the ring: tile t of either is phase t div V of each, of those of its
    products, too."""
    first, *others = ring
    create = first.setups[0].create
    for other in others:
        if _named(other.transactions) != _named(first.transactions):
            raise shared(create, other.loop, "another loop does not use the same ones")
        if _named(other.products.completions) != _named(first.products.completions):
            why = "the products of another loop do not complete on the same ones"
            raise shared(create, other.loop, why)


def _named(phases: tuple[Transaction, ...] | tuple[Completion, ...]) -> set[tuple[Value, int]]:
    return {(each.barriers, each.number) for each in phases}


def _check_tiles(ring: SharedRing) -> None:
    """A loop that uses a tile of another one fills it, too."""
    for one, other in product(ring, ring):
        own = {buffer.root.identity for buffer in other.buffers}
        for buffer in one.buffers:
            if buffer.root.identity in own:
                continue
            for op in users_of_memory(other.loop).get(buffer.root.identity, ()):
                raise PipelineError(
                    f"cannot pipeline: {buffer.root} gets a tile an iteration, and "
                    f"'{op.name}' of another loop uses it, too",
                    code="not-privatisable",
                    at=op,
                    notes=(("the loop", one.loop),),
                    advice="give the loop a buffer of its own",
                )


def _fitted(rings: list[SharedRing], limit: int | None, around: Surroundings) -> list[SharedRing]:
    """The rings of a kernel, with as many slots as they need; while they do not fit, the loop that copies
    furthest ahead, the last of several rings, copies one tile less."""
    made = [_with_slots(ring) for ring in rings]
    if limit is None:
        return made
    first = rings[0][0].loop
    planned = {b.root.identity for ring in rings for plan in ring for b in plan.memory}
    beside = around.workgroup_bytes_beside(first, planned)
    while True:
        tiles = {b.root.identity: b for ring in made for plan in ring for b in plan.memory}
        if workgroup_bytes(list(tiles.values())) <= limit - beside:
            return made
        most, last = max((max(p.ahead for p in ring), number) for number, ring in enumerate(made))
        if most == 1:
            with refusing(first):
                raise too_large(limit, beside, first, tuple(tiles.values()))
        made[last] = _with_slots(
            tuple(replace(p, ahead=p.ahead - 1) if p.ahead == most else p for p in made[last])
        )


def _with_slots(ring: SharedRing) -> SharedRing:
    versions = max(_slots(a, b) for a, b in product(ring, ring) if _may_follow(ring, a, b))
    made = []
    for plan in ring:
        buffers = tuple(replace(buffer, versions=versions) for buffer in plan.buffers)
        made.append(replace(plan, versions=versions, buffers=buffers))
    return tuple(made)


def _slots(before: RingPlan, after: RingPlan) -> int:
    """V for what `after` copies over the tiles of `before`."""
    if after.roles is not None:
        return max(after.ahead, after.held) + 1
    if before is not after and before.products.completions:
        # After its loop all have waited for its last p tiles.
        return after.ahead + before.copies_first
    return after.ahead + before.still_read


def _may_follow(ring: SharedRing, before: RingPlan, after: RingPlan) -> bool:
    """Whether one loop, or its next execution, runs after the other one with nothing in between."""
    return ring.index(before) <= ring.index(after) or any(
        op in after.outer for op in before.outer if op.name == "scf.for"
    )
