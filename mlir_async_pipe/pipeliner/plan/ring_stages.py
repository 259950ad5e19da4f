"""In which order a step of a loop of tensor copies runs what it does with the tiles, where products are in two
stages or more.

    wait; scores; wait; softmax; O += P V; wait          the text, one iteration

    wait; scores of i + 1; half of O += P V of i         products first, in the order that is asked for
    wait that leaves 1; largest scores of i + 1   -->    a wait where nothing is left but what needs it
    the other half; weights of i + 1                     products that are left before special functions
    wait that leaves 0; O scaled for i + 1

Stages are those of products. A wait goes with the groups for which it is the first, and leaves those that
were committed after the last of them: how many is counted in each part of the pipeline (`write_ring`). What computes
goes with what it needs, in the earliest stage; addresses go with their products. No product is in flight from step to
step, and a step gives a tile back that the last stage has read.

The last group of products runs beside what is computed after the first wait, and is issued in two halves where several
special functions need the same there, the second after that: so tensor cores get something new to do twice in a step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mlir_async_pipe.bindings.raw_ops import Operation, integer_attribute
from mlir_async_pipe.facts.costs.cost_model import is_special
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.loops.transactions import Transaction, only_computes, wait_attribute
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace
from mlir_async_pipe.session.diagnostics import Refusal
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.rows import WGMMA

Asked = Mapping[Operation, SchedulePlace]
"""Stages and orders of the statements that multiply, the first stage is 0."""

_refuse = Refusal(
    "cannot pipeline: of a loop of tensor copies with products in several stages",
    code="transaction-stages",
    advice="leave products in one stage, as 'async_pipe.num_stages' does",
)


@dataclass(frozen=True)
class RingStages:
    """`order` are the ops of an iteration that are no copies, as a step runs them, `stages` theirs; fence and commit of a group
    in halves stand in it twice. `awaited`: the place in `order` of the commit that is the last before a wait's own groups
    are over, by the place of the wait."""

    order: tuple[Operation, ...]
    stages: tuple[int, ...]
    awaited: Mapping[int, int]

    @property
    def last(self) -> int:
        return max(self.stages)


@dataclass
class ProductGroup:
    """What a commit completes, with the fences before: numbers of ops."""

    ops: list[int] = field(default_factory=list)
    place: SchedulePlace = field(default=SchedulePlace(0, 0))

    @property
    def commit(self) -> int:
        return self.ops[-1]


def product_groups(body: Body) -> list[ProductGroup]:
    """The groups of products of an iteration, in the order of the text.

    Raises PipelineError (transaction-stages)."""
    found: list[ProductGroup] = []
    open_ = ProductGroup()
    for number, op in enumerate(body.ops):
        row = row_of(op)
        if row.queue != WGMMA or row.wait is not None:
            continue
        if row.commits == "self":
            _refuse(f"'{op.name}' waits for what it issues", op, body.loop)
        open_.ops.append(number)
        if row.commits is not None:
            # That of another group may come later in a step.
            if not row_of(body.ops[open_.ops[0]]).fences_sums:
                _refuse("a group of products has no fence of its own", op, body.loop)
            found.append(open_)
            open_ = ProductGroup()
    if open_.ops:
        op = body.ops[open_.ops[0]]
        _refuse(f"no commit of the iteration follows '{op.name}'", op, body.loop)
    return found


class StageOrder:
    """Finds the order of a step. Ops by their numbers in the body's table, which `stage` has of all that is no copy.

    Raises PipelineError (transaction-stages, dependence-violated)."""

    def __init__(
        self,
        body: Body,
        transactions: tuple[Transaction, ...],
        dropped: tuple[Operation, ...],
        asked: Asked,
    ) -> None:
        self.body, self.table = body, body.table
        self.groups = product_groups(body)
        for group in self.groups:
            places = [asked[op] for op in map(body.ops.__getitem__, group.ops) if op in asked]
            group.place = min(places, key=lambda place: place.order)
            if len({place.stage for place in places}) > 1:
                _refuse("a group of products has several stages", body.ops[group.commit], body.loop)
        self.in_queue_order = sorted(self.groups, key=lambda group: group.place.order)
        self.group_of = {n: group for group in self.groups for n in group.ops}
        self.stage = {n: group.place.stage for n, group in self.group_of.items()}
        issued = {op for t in transactions for op in (t.expect, *t.copies)} | {*dropped}
        self.left_out = {self.table.number[op] for op in issued}
        self.phases = [self.table.number[t.wait] for t in transactions]
        # The groups for which a wait is the first.
        self.own: dict[int, list[ProductGroup]] = {}

    def run(self) -> RingStages:
        self._find_waits()
        self._check_ops()
        self._choose_stages()
        order = self._in_order(self._before())
        place = {number: n for n, number in enumerate(order)}
        commits = [place[group.commit] for group in self.in_queue_order]
        if commits != sorted(commits):
            at = next(n for n, later in enumerate(commits) if later > min(commits[n:]))
            why = "these need what others give that are to come later in their step"
            op = self.body.ops[self.in_queue_order[at].commit]
            _refuse(why, op, self.body.loop, code="dependence-violated")
        awaited = {
            place[wait]: max(place[group.commit] for group in own) for wait, own in self.own.items()
        }
        ops = tuple(self.body.ops[n] for n in order)
        return RingStages(ops, tuple(self.stage[n] for n in order), awaited)

    # -- stages --------------------------------------------------------------------------------

    def _find_waits(self) -> None:
        """Raises PipelineError (transaction-stages) where one leaves a group to the next iteration."""
        body = self.body
        waits = [n for n, op in enumerate(body.ops) if wait_attribute(op) is not None]
        open_: list[ProductGroup] = []
        for number in sorted((*waits, *(group.commit for group in self.groups))):
            if number in self.group_of:
                open_.append(self.group_of[number])
                continue
            op = body.ops[number]
            left = integer_attribute(op, wait_attribute(op) or "") or 0
            # The last one leaves none, whatever it said.
            over = len(open_) if number == waits[-1] else max(0, len(open_) - left)
            own, open_ = open_[:over], open_[over:]
            if len({group.place.stage for group in own}) != 1:
                _refuse("a wait is not for groups of products of one stage", op, body.loop)
            self.own[number], self.stage[number] = own, own[0].place.stage
        if open_:
            _refuse(
                "no wait of the iteration follows a commit", body.ops[open_[0].commit], body.loop
            )

    def _check_ops(self) -> None:
        for number, op in enumerate(self.body.ops):
            known = number in self.left_out or number in self.stage or number in self.phases
            reads = not len(op.regions) and {access.writes for access in accesses(op)} == {False}
            if not (known or reads or only_computes(op)):
                why = f"'{op.name}' stands beside products in several stages"
                _refuse(why, op, self.body.loop)

    def _choose_stages(self) -> None:
        """Of phases, of what computes, and of loads; what nobody needs has none."""
        table, stage, end = self.table, self.stage, len(self.body.ops)
        ops = enumerate(self.body.ops)
        impure = [n for n, op in ops if n not in self.left_out and not only_computes(op)]
        addresses: set[int] = set()
        for number in sorted(reached((*impure, end), table.makers)):
            if number in stage or number in self.phases or number == end:
                continue
            stage[number] = max((stage[n] for n in table.makers(number)), default=0)
            if only_computes(self.body.ops[number]) and table.follows_induction(number, addresses):
                addresses.add(number)
        for number in sorted(addresses, reverse=True):
            users = [n for n in table.following(number) if n in stage or n == end]
            stage[number] = min(stage.get(n, 0) for n in users)
        for phase in self.phases:
            later = [stage[n] for n in impure if n > phase and n in stage]
            stage[phase] = min(later, default=0)

    # -- order ---------------------------------------------------------------------------------

    def _before(self) -> dict[int, set[int]]:
        """What comes before each op in its step. Raises PipelineError (dependence-violated)."""
        table, stage, ops = self.table, self.stage, self.body.ops
        before: dict[int, set[int]] = defaultdict(set)
        wait_for = {group.commit: wait for wait, own in self.own.items() for group in own}
        for number in stage:
            for maker, distance in table.sources[number]:
                lag = distance + stage[number] - stage[maker]
                if lag < 0:
                    op = ops[number]
                    why = f"'{op.name}' would run before '{ops[maker].name}', whose value it uses"
                    _refuse(why, op, self.body.loop, code="dependence-violated")
                if lag == 0:
                    before[number].add(maker)
                if lag == 0 and maker in self.group_of:
                    wait = wait_for[self.group_of[maker].commit]
                    # Sums go from product to product while these are in flight.
                    if distance or wait < number:
                        before[number].add(wait)
            if not only_computes(ops[number]):
                of_step = (n for n in self.phases if stage[n] == stage[number])
                before[number].update(phase for phase in of_step if phase < number)
        for wait, own in self.own.items():
            before[wait].update(n for group in own for n in group.ops)
        return before

    def _in_order(self, before: dict[int, set[int]]) -> list[int]:
        """Groups of products as soon as they may be, then each wait, after all that does not need it."""
        order: dict[int, None] = {}
        found: dict[int, list[int]] = defaultdict(list)
        for number, earlier in before.items():
            for n in earlier:
                found[n].append(number)

        after = found.__getitem__

        def place(number: int) -> None:
            pending, active = [number], set[int]()
            while pending:
                current = pending[-1]
                missing = sorted(n for n in before[current] if n not in order)
                if current in order or not missing:
                    order[pending.pop()] = None
                    continue
                if not active.isdisjoint(missing) or current in missing:
                    why = f"what '{self.body.ops[current].name}' needs comes after it in its step"
                    _refuse(why, self.body.ops[current], self.body.loop, code="dependence-violated")
                active.add(current)
                pending += reversed(missing)

        def place_all(chosen: Iterable[int]) -> None:
            for number in chosen:
                place(number)

        needed_by = Counter[int]()
        for number in self.stage:
            if is_special(self.body.ops[number]):
                needed_by.update(reached([number], before.__getitem__))
        # What several special functions need: what one alone needs is computed beside the others.
        needed_by_several = {n for n, count in needed_by.items() if count > 1}
        queue = [group.commit for group in self.in_queue_order]
        last = {n: max(queue.index(group.commit) for group in own) for n, own in self.own.items()}
        waits = sorted(self.own, key=last.__getitem__)
        halves = self._halves(waits, needed_by_several, after)
        later: list[int] = []
        for group in self.in_queue_order:
            # The fence stands before the first product, after all that these need from elsewhere.
            needed, needing = reached(group.ops, before.__getitem__), reached(group.ops, after)
            inside = needed & needing
            if group is self.in_queue_order[-1] and halves:
                later = sorted(n for n in inside if n > halves[0])
            place_all(sorted(needed - inside))
            place_all(sorted(inside.difference(later)))
        for wait in waits:
            waiting = reached((n for n in self.own if n not in order), after) | {*later}
            ready = [n for n in sorted(self.stage) if n not in waiting]
            if later and wait is not waits[0]:
                place_all(n for n in ready if n in needed_by_several)
                place_all(later)
                later = []
            place_all(ready)
            place(wait)
        place_all(sorted(self.stage))
        in_order = list(order)
        if halves:
            group = self.in_queue_order[-1]
            in_order.insert(in_order.index(halves[0]) + 1, group.commit)
            in_order.insert(in_order.index(halves[1]), group.ops[0])
        return in_order

    def _halves(
        self, waits: list[int], early: set[int], after: Callable[[int], list[int]]
    ) -> tuple[int, int] | None:
        """The products of the last group between which it is cut, None where nothing is gained by that: if the first wait is
        for it, or several special functions need nothing that comes after it."""
        group = self.in_queue_order[-1]
        products = [n for n in group.ops[:-1] if not row_of(self.body.ops[n]).fences_sums]
        of_first: set[int] = reached(waits[:1], after)
        of_others: set[int] = reached(waits[1:], after)
        between = of_first - of_others - {*waits}
        if group in self.own[waits[0]] or len(products) < 2 or not between & early:
            return None
        middle = len(products) // 2
        return products[middle - 1], products[middle]
