"""Schedules a loop of tensor copies over groups of warps: `async_pipe.schedule = "optimal"` finds who copies, and
on how many slots.

    together      all warps: wait for a tile; products; wait for those of i - p; barrier; copies of i + d
    specialised   a producer: wait for a slot; copies          the others: wait for a tile; products; …; arrive
                  and in tensor memory a warp of products: wait for a tile; products; wait for the others; products
    grouped       the same, and groups of the others for what is independent there: each waits, computes and arrives by itself
    alternating   as specialised, and two groups of the others issue their products in turn

These are the partitions that the splitter writes, each in the order of the text, or with products of some groups an
iteration later, among the others' in each order that there is (`ring_stages`). So with partition, order and slots given a
group of warps is a unit whose tasks come in one order, over the iterations too, and a `ModuloProblem` says how the
groups share the other units. The smallest interval counts, then the fewest bytes of slots, then what is computed beside
a group's own products, which needs no other group's luck, then the shortest iteration, then the fewest groups.

Warps that nothing keeps apart run in phase: of two warps a quarter of a multiprocessor each unit is held twice as
long, and no interval may rely on their luck ("FlashAttention-3", Shah and others 2024, section 3.1, forces the turns
by barriers).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from math import ceil, prod
from typing import Literal, NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    ancestors,
    captured,
    enclosing,
    integer_attribute,
    operations,
    unchanged,
    walk,
)
from mlir_async_pipe.facts.costs.cost_model import (
    ARRIVAL,
    ISSUE,
    TENSOR,
    TENSOR_COPY,
    WAIT,
    CostModel,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import Roles, static_trip_count
from mlir_async_pipe.facts.loops.statements import Body, needed_values
from mlir_async_pipe.facts.loops.transactions import bytes_of, has_transactions, wait_attribute
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.memory_limit import workgroup_bytes
from mlir_async_pipe.pipeliner.plan.ring_plan import (
    PartedLoop,
    RingPlaces,
    RingPlan,
    bad_stages,
    multiplies,
    plan_ring,
    roles_of,
    share_rings,
    with_stages,
)
from mlir_async_pipe.pipeliner.plan.ring_stages import Asked, product_groups
from mlir_async_pipe.pipeliner.plan.role_plan import in_order, with_roles
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace
from mlir_async_pipe.pipeliner.schedule.by_count import Decision, decide_transactions
from mlir_async_pipe.pipeliner.schedule.modulo.problems import (
    check_regions,
    computing,
    counted_makers,
    gantt,
    is_open,
    uses_of_all,
    when_used,
)
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import ScheduleRecord, SearchOptions
from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    ModuloProblem,
    ModuloSchedule,
    Precedence,
    Task,
    solve,
)
from mlir_async_pipe.session.diagnostics import PipelineError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import is_barrier, row_of, tensor_use
from mlir_async_pipe.vocabulary.products import products_left
from mlir_async_pipe.vocabulary.rows import WGMMA

PARTITIONS: tuple[Roles, ...] = ("together", "specialised", "grouped", "alternating")
# From few groups of warps to many.
ROLES = names.CHOICES[names.ROLES]
# Threads of a block that have one warp on each quarter of a multiprocessor.
QUARTERS = 128
# Of more groups of products an iteration there are too many orders, and each keeps the text's.
LARGEST_GROUPS = 4


@dataclass(frozen=True)
class Candidate:
    """A partition on so many slots, its problem, and the best schedule of that."""

    roles: Roles
    plan: RingPlan
    problem: ModuloProblem
    labels: list[str]
    schedule: ModuloSchedule
    # Cycles of an iteration for which a group computes beside its own products.
    beside: float

    @property
    def bytes(self) -> int:
        return workgroup_bytes(list(self.plan.memory))

    @property
    def key(self) -> tuple[int, int, float, int, int]:
        found = self.schedule
        return found.interval, self.bytes, -self.beside, found.length, ROLES.index(self.roles)

    @property
    def is_of_a_unit(self) -> bool:
        """Whether a unit that all groups share is never idle, so that no partition has a smaller interval."""
        own = {ISSUE, "", "the producer", *groups_of(self.plan), *threads_of(self.plan)}
        return any(
            ceil(bound.cycles) == self.schedule.interval and bound.unit not in own
            for bound in self.schedule.bounds
        )

    def __str__(self) -> str:
        stages = f" and {self.plan.late + 1} stages of products" if self.plan.late else ""
        return f"{self.roles} {self.schedule.interval} on {self.plan.versions} slots{stages}"


@unchanged()
def schedule_ring(
    body: Body, options: SearchOptions, session: Session, around: Surroundings
) -> Decision:
    """The best partition and number of slots of a loop of tensor copies. Raises PipelineError (transaction-stages,
    regions-in-schedule, or what the planner refuses)."""
    loop = body.loop
    found = names.read_loop(loop)
    _check(body, options.model)
    first = decide_transactions(body, 2, found)
    copies_first = min(first.slots, key=lambda slot: slot.order).asynchronous
    asked = PARTITIONS if found.roles == "auto" else (found.roles,)
    counted = {s.op for s in body.statements} | set(computing(body, options.model))
    refused: dict[Roles, PipelineError] = {}
    candidates: list[Candidate] = []
    for roles in asked:
        try:
            candidates += _on_slots(loop, roles, copies_first, counted, options, around)
        except PipelineError as error:
            refused[roles] = error
    if not candidates:
        raise next(iter(refused.values()))
    best = min(candidates, key=lambda each: each.key)
    _tell(best, candidates, refused, session)
    decision = decide_transactions(body, best.plan.ahead + 1, found)
    return replace(_in_stages(decision, best.plan), roles=best.roles)


def _in_stages(decision: Decision, plan: RingPlan) -> Decision:
    """The decision with its products where the plan has them."""
    if plan.stages is None:
        return decision
    at: dict[Operation, tuple[int, int]] = {}
    for op, place in zip(plan.stages.order, enumerate(plan.stages.stages), strict=True):
        at.setdefault(op, place)
    places = [at.get(statement.op) for statement in decision.body.statements]
    orders = sorted(s.order for s, found in zip(decision.slots, places, strict=True) if found)
    order_of = dict(zip(sorted(filter(None, places)), orders, strict=True))
    slots = tuple(
        slot._replace(stage=slot.stage + found[1], order=order_of[found]) if found else slot
        for slot, found in zip(decision.slots, places, strict=True)
    )
    return replace(decision, slots=slots)


def _check(body: Body, model: CostModel) -> None:
    """Whether all that the loop does has a cost."""
    loop = body.loop
    kernel = enclosing(loop, KERNEL_OPS)
    for other in walk(kernel) if kernel is not None else ():
        asks = other != loop and other.name == "scf.for" and names.is_requested(other)
        if asks and has_transactions(other):
            raise bad_stages("no schedule is searched where the kernel has several", body)
    if not model.unit_of(TENSOR_COPY, TENSOR_COPY).cycles:
        raise bad_stages("no schedule is searched for a chip whose costs are not known", body)
    for op in walk(loop):
        # A wait for groups of anything but products, as of tensor stores.
        waits = row_of(op).wait is not None and row_of(op).queue != WGMMA
        if waits or (_multiplies(op) and not model.uses(op).get(TENSOR)):
            raise bad_stages(f"no schedule is searched where '{op.name}' has no cost", body)
        if row_of(op).phase == "copy" and bytes_of(op) is None:
            raise bad_stages("no schedule is searched where it is not known what one brings", body)


def _multiplies(op: Operation) -> bool:
    row = row_of(op)
    return tensor_use(op) == "product" or (row.queue == WGMMA and row.asynchronous(op))


def _on_slots(
    loop: Operation,
    roles: Roles,
    copies_first: bool,
    counted: set[Operation],
    options: SearchOptions,
    around: Surroundings,
) -> list[Candidate]:
    """A partition with products in each order, and 1, 2, … tiles copied ahead, until memory is full or a shared unit never idle."""
    limits = options.limits
    places = RingPlaces(1, copies_first, {})
    plain = plan_ring(loop, limits.noalias_arguments, around, roles, (), places)
    if plain.cluster is not None:
        why = "no schedule is searched where blocks of a cluster copy for each other"
        raise bad_stages(why, plain.body)
    size = around.launch_size(loop)
    if size is None:
        raise bad_stages("no schedule is searched for a block of unknown size", plain.body)
    largest = min(static_trip_count(loop) or options.largest_stages, options.largest_stages)
    found: list[Candidate] = []
    refused: list[PipelineError] = []
    (parted,) = with_roles([plain], around)
    width = ceil(prod(size) / (QUARTERS * len(groups_of(parted))))
    computing_of = Computing(counted, options.model, width, {})
    for asked in _orders(plain):
        try:
            plan = in_order(with_stages(parted, asked))
        except PipelineError as error:
            refused.append(error)
            continue
        text = Text(plan, computing_of)
        threads = steps_of_threads(plan, text)
        for ahead in range(1, max(2, largest)):
            of_ahead = replace(plan, ahead=ahead, asked_ahead=ahead)
            ((planned,),) = share_rings([of_ahead], limits.workgroup_bytes, around)
            if planned.ahead < ahead:
                break
            made = RingProblem(planned, text, threads)
            problem = made.problem()
            schedule = solve(problem)
            if schedule is None:
                continue
            found.append(Candidate(roles, planned, problem, made.labels, schedule, text.beside))
            if found[-1].is_of_a_unit:
                break
    if not found and refused:
        raise refused[0]
    return found


def _orders(plan: RingPlan) -> Iterator[Asked]:
    """The text's, and those in which some groups of products come an iteration later; else in the text's order."""
    yield {}
    try:
        groups = [[plan.body.ops[n] for n in each.ops] for each in product_groups(plan.body)]
    except PipelineError:
        return
    if plan.products.completions:
        groups = [[op] for op in plan.body.ops if len(op.regions) and multiplies(op)]
    if plan.in_flight or len(groups) > LARGEST_GROUPS:
        return
    numbers = range(len(groups))
    for late in (some for count in numbers[1:] for some in combinations(numbers, count)):
        for places in combinations(numbers, len(late)):
            later, others = iter(late), iter(n for n in numbers if n not in late)
            order = [next(later) if place in places else next(others) for place in numbers]
            yield {
                op: SchedulePlace(int(number in late), place)
                for place, number in enumerate(order)
                for op in groups[number]
            }


# The loop ----------------------------------------------------------------------------------------


Uses = Mapping[str, float]
Kind = Literal["phase", "products", "done", "compute", "barrier", "arrive", "ready", "over"]
# What a warp of products runs where the threads of the input run the loop, too.
OF_PRODUCTS: tuple[Kind, ...] = ("phase", "products", "ready", "over")


class Step(NamedTuple):
    """What the warps of a group do between two points at which they wait: the cycles for which it holds them, and
    units. `number`: of the phase that a "phase" waits for; of the group that "products" issue, which hold the units
    later, or of the last one that "done" waits for; of what threads "arrive" for, for which a warp of products waits until it is
    "ready"; of its own products that it waits for until they are "over". `stage`: so many iterations after the first; `lag`: it
    waits for what was so many iterations before."""

    kind: Kind
    number: int
    held: float
    uses: Uses
    stage: int = 0
    lag: int = 0


class Computing(NamedTuple):
    """What is computed, as `width` warps a quarter run it; `counted` ops hold units. Orders of products part it at few places, so
    what was `asked` for is known."""

    counted: set[Operation]
    model: CostModel
    width: int
    asked: dict[tuple[tuple[Operation, ...], ...], tuple[Uses, dict[Operation, float]]]

    def runs(
        self, before: tuple[Operation, ...], ops: tuple[Operation, ...]
    ) -> tuple[Uses, dict[Operation, float]]:
        """The cycles for which `ops` hold units, and when values may be used, of what is computed `before` them, too."""
        if (before, ops) in self.asked:
            return self.asked[before, ops]
        check_regions(op for op in ops if is_open(op))
        uses = {u: self.width * c for u, c in uses_of_all(ops, self.model).items()}
        free: dict[str, float] = defaultdict(float)
        ready: dict[Operation, float] = {}
        for op in (*before, *ops):
            needed = [ready[made] for made in counted_makers(op, self.counted) if made in ready]
            _, ready[op] = when_used(op, needed, free, self.model, self.width)
        return self.asked.setdefault((before, ops), (uses, ready))


class Text:
    """An iteration but for copies and their barriers; `run`: what one of several groups runs of it."""

    def __init__(
        self, plan: RingPlan, computing: Computing, run: Container[Operation] | None = None
    ) -> None:
        self.plan, self.computing = plan, computing
        self.counted, self.model, self.width, _ = computing
        model = self.model
        self.wait = model.unit_of(WAIT, WAIT)
        self.steps: list[Step] = []
        self.groups = 0
        # What is computed since the last step, of one stage; by stage, all since the last wait and the cycles of its steps.
        self.since: list[Operation] = []
        self.of_stage = 0
        self.computed: dict[int, tuple[tuple[Operation, ...], float]] = {}
        self.issued: list[Operation] = []
        self.stage = 0
        self.group_of: dict[Operation, int] = {}
        # The group that the commit of each wait completes.
        self.completed: dict[Operation, int] = {}
        without = {op for t in plan.transactions for op in (t.expect, *t.copies)} | {*plan.dropped}
        ops = operations(plan.loop.regions[0].blocks[0])
        self.of_phase = {ISSUE: self.width * self.wait.cycles}
        if (parted := parted_loop(plan)) is not None:
            self._read_parted(parted, [op for op in ops if op not in without], run)
            return
        order, stages = tuple(ops), (0,) * len(ops)
        if plan.stages is not None:
            order, stages = plan.stages.order, plan.stages.stages
        for op, stage in zip(order, stages, strict=True):
            self.stage = stage
            if op not in without:
                self._read(op)
        self._end_computing()

    def _read_parted(
        self, parted: PartedLoop, ops: list[Operation], run: Container[Operation] | None
    ) -> None:
        """A step of the warp of products, then one of the threads, or of those that run this."""
        order = roles_of(self.plan).order
        assert order is not None
        issued = [op for op, _ in order.step if len(op.regions)]
        group_of = {
            completion: issued.index(branch)
            for completion in self.plan.products.completions
            for branch in issued
            if branch in ancestors(completion.commit)
        }
        for op, self.stage in order.step:
            for number, arrival in enumerate(order.arrivals):
                if arrival.place == op:
                    self._add("ready", number, self.wait.latency, self.of_phase, arrival.lag)
            for completion, place, lag in order.awaited:
                if place == op:
                    group = group_of[completion]
                    self._add("over", group, self.wait.latency, self.of_phase, lag)
            self._read(op)
        known = {op for op, _ in order.step} | {*parted.barriers}
        known |= {completion.wait for completion in order.drained}
        held = self.model.unit_of(ARRIVAL, ARRIVAL).cycles
        self.stage = 0
        for op in ops:
            for completion, place in order.late:
                if place == op and (run is None or completion.wait in run):
                    self._end_computing()
                    self.stage = 1
                    self._read(completion.wait)
            self.stage = 0
            if op not in known and (run is None or op in run):
                self._read(op)
            for number, arrival in enumerate(order.arrivals):
                if arrival.at == op and (run is None or op in run):
                    self._add("arrive", number, held, {ISSUE: self.width * held})
        self._end_computing()

    def _read(self, op: Operation) -> None:
        plan, row, left = self.plan, row_of(op), wait_attribute(op)
        phases = [t.wait for t in plan.transactions]
        if op in phases:
            self._add("phase", phases.index(op), self.wait.latency, self.of_phase)
        elif op in self.completed:
            self._add("done", self.completed[op], self.wait.latency, self.of_phase)
        elif left is not None:
            own = products_left(op)
            if own is not None:
                # A product that commits and waits by itself.
                self.issued.append(op)
                self._end_products()
            # With products in flight each wait leaves all groups of p iterations.
            stay = 0 if plan.in_flight else own or integer_attribute(op, left) or 0
            last = self.groups - 1 - stay
            if plan.stages is not None:
                order = plan.stages.order
                last = self.group_of[order[plan.stages.awaited[order.index(op)]]]
            self._add("done", last, 1, {ISSUE: self.width})
        elif is_barrier(op):
            self._add("barrier", 0, self.model.barrier, {ISSUE: self.width})
        elif row.queue == WGMMA or any(tensor_use(inner) == "product" for inner in walk(op)):
            inside = list(walk(op))
            self.issued += inside
            for each in plan.products.completions:
                if each.commit in inside:
                    self.completed[each.wait] = self.groups
            if row.commits is not None or row.queue != WGMMA:
                self.group_of[op] = self.groups
                self._end_products()
        elif op in self.counted:
            if self.stage != self.of_stage:
                self._end_computing()
            self.of_stage = self.stage
            self.since.append(op)

    @property
    def beside(self) -> float:
        """The cycles of what is computed while groups of products that a later step waits for are in flight."""
        issued, over, cycles = -1, -1, 0.0
        for step in self.steps:
            issued = step.number if step.kind == "products" else issued
            over = max(over, step.number) if step.kind == "done" else over
            cycles += step.held * (step.kind == "compute" and issued > over)
        return cycles

    def _add(self, kind: Kind, number: int, held: float, uses: Uses, lag: int = 0) -> None:
        self._end_computing(self.issued if kind == "products" else None)
        if kind != "products":
            self.computed.clear()
        self.steps.append(Step(kind, number, max(1, held), uses, self.stage, lag))

    def _end_products(self) -> None:
        # One thread issues the products of tensor memory for all warps.
        times = 1 if self.plan.products.completions else self.width
        slots = self.width * sum(row_of(op).queue == WGMMA or _multiplies(op) for op in self.issued)
        cycles = times * sum(self.model.uses(op).get(TENSOR, 0) for op in self.issued)
        self._add("products", self.groups, slots, {TENSOR: cycles, ISSUE: slots})
        self.groups, self.issued = self.groups + 1, []

    def _end_computing(self, issued: list[Operation] | None = None) -> None:
        """Products that are `issued` next wait for what they need of the same iteration, all else for all that is computed."""
        ops, self.since = tuple(self.since), []
        if not ops:
            return
        before, held_before = self.computed.get(self.of_stage, ((), 0.0))
        uses, ready = self.computing.runs(before, ops)
        awaited = set(ready)
        if issued is not None:
            same = issued if self.stage == self.of_stage else []
            awaited &= {made for op in same for made in counted_makers(op, self.counted)}
        until = max((ready[op] for op in awaited), default=0.0)
        held = max([1, *uses.values(), until - held_before])
        self.computed[self.of_stage] = (*before, *ops), held_before + held
        self.steps.append(Step("compute", 0, held, uses, self.of_stage))


# The problem -------------------------------------------------------------------------------------


class RingProblem:
    """A partition on the slots of its plan, as a problem; `threads`: what groups of them run beside a warp of products."""

    def __init__(self, plan: RingPlan, text: Text, threads: Mapping[str, Sequence[Step]]) -> None:
        self.plan, self.text, self.model, self.threads = plan, text, text.model, threads
        self.apart, self.by_one = plan.roles is not None, bool(plan.products.completions)
        self.wait, self.arrival = text.wait, self.model.unit_of(ARRIVAL, ARRIVAL)
        self.tasks: list[Task] = []
        self.labels: list[str] = []
        self.precedences: list[Precedence] = []
        self.arrived: list[tuple[int, float]] = []
        self.turns: list[tuple[int, int]] = []
        self.given_back: list[tuple[int, float, int]] = []
        # The tasks of arrivals of threads for a warp of products, by number, and of its waits for that.
        self.arrivals: list[tuple[int, int]] = []
        self.ready: list[tuple[Step, int]] = []
        self._write()

    def problem(self) -> ModuloProblem:
        stages = self.plan.versions + self.plan.held + 4
        order = tuple(self.precedences)
        return ModuloProblem(tuple(self.tasks), order, (), stages, frozenset({ISSUE}))

    def _task(self, label: str, uses: Mapping[str, float]) -> int:
        self.tasks.append(Task(tuple((u, ceil(c)) for u, c in uses.items() if c)))
        self.labels.append(label)
        return len(self.tasks) - 1

    def _of_warps(self, label: str, who: str, cycles: float, slots: float = 1) -> int:
        """A task that holds the warps of a group for so many cycles, and issue slots of each."""
        return self._task(label, {who: max(1, cycles), ISSUE: self.text.width * slots})

    def _after(self, source: int, target: int, delay: float, distance: int = 0) -> None:
        self.precedences.append(Precedence(source, target, ceil(delay), distance))

    def _in_order(self, unit: str, order: Sequence[tuple[int, int]]) -> None:
        """A unit runs tasks one after the other, each of an iteration so many later, again and again."""
        again = [*order, *((task, shift + 1) for task, shift in order[:1])]
        for (one, shift), (other, later) in pairwise(again):
            if one != other:
                self._after(one, other, self.tasks[one].cycles(unit), later - shift)

    def _write(self) -> None:
        plan, groups = self.plan, groups_of(self.plan)
        who = "the producer" if self.apart else groups[0]
        slots = sum(1 + len(each.copies) for each in plan.transactions)
        self.copies = self._task("copies", {who: slots, ISSUE: slots})
        self._tiles()
        written = [self._group(who, OF_PRODUCTS if self.threads else None) for who in groups]
        others = tuple(step.kind for step in self.text.steps if step.kind not in OF_PRODUCTS)
        for name, steps in self.threads.items():
            self._group(name, others, written[0], steps)
        seen = self.arrival.cycles + self.arrival.latency
        for (step, task), (number, by) in product(self.ready, self.arrivals):
            if step.number == number:
                self._after(by, task, seen, step.lag)
        issued = [step.stage for step in self.text.steps if step.kind == "products"]
        orders = [
            [(task, -s) for (task, _), s in zip(group, issued, strict=True)] for group in written
        ]
        # Of groups in turn what is not of a turn comes beside the other one's.
        for order in orders:
            self._in_order(TENSOR, order)
        self._in_order(TENSOR, [each for order in orders for each in order[: self._in_turn()]])
        for number, (_, ends) in enumerate(self.turns):
            begins, _ = self.turns[1 - number]
            self._after(ends, begins, 1, number)
        if self.apart:
            empty = self._of_warps("a slot is free", who, self.wait.latency, self.wait.cycles)
            self._in_order(who, [(empty, 0), (self.copies, 0)])
            for task, cycles, distance in self.given_back:
                self._after(task, empty, cycles, distance)

    def _in_turn(self) -> int:
        """How many products of an iteration a group issues before it waits for some of them (`product_turn`)."""
        kinds = [step.kind for step in self.text.steps]
        first = kinds.index("products") if "products" in kinds else 0
        until = kinds.index("done", first) if "done" in kinds[first:] else len(kinds)
        return kinds[:until].count("products")

    def _tiles(self) -> None:
        """The tiles of each phase, on one queue, and when they have arrived."""
        unit = self.model.unit_of(TENSOR_COPY, TENSOR_COPY)
        for each in self.plan.transactions:
            cycles = unit.cycles * sum(bytes_of(op) or 0 for op in each.copies) / 16
            self.arrived.append((self._task("tiles", {unit.unit: cycles}), cycles + unit.latency))
            self._after(self.copies, self.arrived[-1][0], 0)
        self._in_order(unit.unit, [(task, 0) for task, _ in self.arrived])

    def _group(
        self,
        who: str,
        kinds: tuple[Kind, ...] | None = None,
        issued: Sequence[tuple[int, float]] = (),
        steps: Sequence[Step] = (),
    ) -> list[tuple[int, float]]:
        """Write the order of a group, of all `steps` or those of these `kinds`; its products, or those `issued`, and their
        cycles."""
        products = list(issued)
        order: list[tuple[int, int]] = []
        waits: list[tuple[int, int]] = []
        over: list[tuple[Step, int]] = []
        if kinds is None and self.apart and self.by_one:
            # Beside warps that issue products the others do nothing in the loop.
            kinds = ("phase", "products")
        for step in steps or self.text.steps:
            if kinds is not None and step.kind not in kinds:
                continue
            used = step.uses if step.kind == "compute" else {ISSUE: step.uses.get(ISSUE, 0)}
            task = self._task(LABELS[step.kind].format(who), {who: step.held, **used})
            order.append((task, -step.stage))
            match step.kind:
                case "phase":
                    arrived, cycles = self.arrived[step.number]
                    self._after(arrived, task, cycles)
                case "done":
                    waits.append((task, step.number))
                case "arrive":
                    self.arrivals.append((step.number, task))
                case "ready":
                    self.ready.append((step, task))
                case "over":
                    over.append((step, task))
                case "products":
                    cycles = step.uses[TENSOR]
                    made = self._task(f"products of {who}", {TENSOR: cycles})
                    self._after(task, made, 0)
                    products.append((made, cycles + self.by_one * self.arrival.latency))
        for task, number in waits if products else ():
            before, number = divmod(number, len(products))
            self._after(
                products[number][0], task, products[number][1], self.plan.in_flight - before
            )
        for step, task in over:
            self._after(products[step.number][0], task, products[step.number][1], step.lag)
        self._in_order(who, order if issued else self._with_slots(who, order, products))
        return products

    def _with_slots(
        self, who: str, order: list[tuple[int, int]], products: list[tuple[int, float]]
    ) -> list[tuple[int, int]]:
        """The order of a group with what hands out slots, and turns."""
        plan, delay = self.plan, self.arrival.cycles
        if plan.asked == "alternating":
            issues = [n for n, step in enumerate(self.text.steps) if step.kind == "products"]
            issues = issues[: self._in_turn()]
            begins = self._of_warps(f"the turn of {who}", who, self.model.barrier)
            ends = self._of_warps(f"{who} end their turn", who, 1)
            self.turns.append((begins, ends))
            first, last = issues[0], issues[-1] + 1
            order = [*order[:first], (begins, 0), *order[first:last], (ends, 0), *order[last:]]
        if self.apart and self.by_one:
            # The commit of an iteration gives its slot back.
            issued = [step.stage for step in self.text.steps if step.kind == "products"]
            last = max(range(len(products)), key=lambda n: (issued[n], n))
            self.given_back.append((*products[last], plan.versions))
            return order
        if self.apart:
            task = self._of_warps(f"{who} give a slot back", who, delay, delay)
            delay += self.arrival.latency
            self.given_back.append((task, delay, plan.versions - plan.in_flight))
            return [*order, (task, -plan.late)]
        after = [(self.copies, plan.ahead)]
        if not plan.after_barrier:
            after.insert(0, (self._of_warps(f"{who} meet", who, self.model.barrier), 0))
        # Copies that come first follow the first wait for a phase.
        at = len(order)
        if plan.copies_first:
            at = 1 + [step.kind for step in self.text.steps].index("phase")
        return [*order[:at], *after, *order[at:]]


LABELS = {
    "phase": "{} wait for tiles",
    "products": "{} issue products",
    "done": "{} wait for products",
    "compute": "{} compute",
    "barrier": "{} meet",
    "arrive": "{} arrive for the products",
    "ready": "{} waits for the threads",
    "over": "{} waits for its products",
}


def parted_loop(plan: RingPlan) -> PartedLoop | None:
    """What a warp of products runs, if the threads of the input run the loop, too."""
    role = plan.roles.products if plan.roles is not None else None
    return role if isinstance(role, PartedLoop) else None


def threads_of(plan: RingPlan) -> list[str]:
    """The groups of threads beside a warp that issues the products of their loop."""
    parted = parted_loop(plan)
    if parted is None:
        return []
    if parted.groups is None:
        return ["the threads"]
    return [f"group {number} of the threads" for number in range(parted.groups.count)]


def steps_of_threads(plan: RingPlan, text: Text) -> dict[str, list[Step]]:
    """What each of these groups runs, beside what the warp of products does, by its name."""
    parted, found = parted_loop(plan), dict.fromkeys(threads_of(plan), text.steps)
    if parted is not None and parted.groups is not None:
        for group, name in enumerate(found):
            run = run_by(plan, parted, group)
            found[name] = Text(plan, text.computing, run).steps
    return found


def run_by(plan: RingPlan, parted: PartedLoop, group: int) -> set[Operation]:
    """What a group of threads runs of the loop, with what it computes for that and for what comes after it."""
    assert parted.groups is not None
    own = {op for op, groups in parted.groups.owners.items() if group in groups}
    inside = {op for top in roles_of(plan).moved for op in walk(top)}
    needed = needed_values([value for op in own for value in captured(op)], inside)
    computed = {op for op in plan.body.ops if not needed.isdisjoint(op.results)}
    return own | computed


def groups_of(plan: RingPlan) -> list[str]:
    """The groups of warps that run what is no copy."""
    if plan.asked == "alternating":
        return ["the first group", "the second group"]
    if plan.roles is None:
        return ["the threads"]
    return ["the warp of products" if plan.products.completions else "the consumers"]


# The answer --------------------------------------------------------------------------------------


def _tell(
    best: Candidate,
    candidates: list[Candidate],
    refused: Mapping[Roles, PipelineError],
    session: Session,
) -> None:
    """What is reported: the interval, what proves it, and what every other partition gives."""
    schedule, plan = best.schedule, best.plan
    of_each = {
        roles: min((each for each in candidates if each.roles == roles), key=lambda each: each.key)
        for roles in dict.fromkeys(each.roles for each in candidates)
    }
    partitions = [str(each) for each in of_each.values()]
    partitions += [f"{roles} refused [{error.code}]" for roles, error in refused.items()]
    least = min(each.schedule.least for each in candidates)
    proven = best.is_of_a_unit or schedule.interval <= least
    place = Place.of(plan.loop)
    record = ScheduleRecord(
        place,
        schedule.interval,
        schedule.interval if best.is_of_a_unit else least,
        str(schedule.bound or "the orders of its units"),
        (f"{place}",),
        plan.ahead + plan.late + 1,
        sum(buffer.versions for buffer in plan.memory),
        best.bytes,
        int(plan.roles is None and not plan.after_barrier),
        proven,
        best.roles,
        tuple(partitions),
    )
    session.record("schedules", record)
    if session.explain:
        session.diagnostics.remark(
            f"{schedule.interval} cycles between iterations; "
            f"{schedule.certificate(f' of warps that are {best.roles}')}; copies run {plan.ahead} ahead, on "
            f"{plan.versions} slots, {best.bytes} bytes of workgroup memory; partitions: {', '.join(partitions)}",
            code="unit-schedule",
            at=plan.loop,
            notes=tuple((line, plan.loop) for line in gantt(best.problem, schedule, best.labels)),
        )
