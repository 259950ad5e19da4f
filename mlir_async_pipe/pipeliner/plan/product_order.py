"""In which order a warp issues the products of tensor memory of a loop that threads run, too, and who waits for whom.

    S = Q K^T; commit; wait                 products:  wait until S was loaded; S = Q K^T of i + 1; commit
    load S; softmax; store P        -->                wait until P is stored; O += P V of i; commit
    barrier                                 threads:   wait for S of i + 1; load S, arrive; softmax
    O += P V; commit; wait                             wait for O += P V of i; store P, arrive

A product waits for the last op of the threads that comes before it in the text and shares cells with it: at that they
arrive. It waits for products before it that share cells, if they are in no order with it, and the threads have not waited for
them before such an arrival. Products of the second stage run an iteration later, after products that the text has after
them; so threads wait for them where they first touch their cells again. A commit completes all products that its thread issued
before: where threads have waited for later ones by then, as for the next scores, they have no wait for them, if the warp has
one. Without any, the next commit might arrive in the same phase.

Moments are (iteration, place): twice the number of an op in the text, 1 more after it; iterations are counted from that of the
first stage in a step. Each mbarrier has a phase an iteration and two slots or more, so of a phase both sides have to know
before the next but one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.loops.transactions import Completion
from mlir_async_pipe.facts.values.memory_roots import columns_after
from mlir_async_pipe.pipeliner.plan.ring_plan import Arrival, Issued, ThreadGroups
from mlir_async_pipe.pipeliner.plan.role_block import refuse
from mlir_async_pipe.pipeliner.plan.thread_groups import moved_cells
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace
from mlir_async_pipe.vocabulary import is_barrier, tensor_use
from mlir_async_pipe.vocabulary.tensor_memory import (
    Cells,
    ProductCells,
    fence_side,
    tensor_product,
    waits_for,
)

Moment = tuple[int, int]
_NEVER: Moment = (-99, 0)
# Slots at least.
_SLOTS = 2


class _Access(NamedTuple):
    """A load or store of the threads of a group, over at the op `done`; numbers of ops."""

    number: int
    done: int | None
    stores: bool
    cells: Cells
    group: int


class Branch(NamedTuple):
    """Products with one commit, and where a step has them; the numbers of the branch and of its wait in the text, and who waits."""

    op: Operation
    completion: Completion
    place: SchedulePlace
    number: int
    wait: int
    products: tuple[ProductCells, ...]
    waiting: frozenset[int]

    def shares_cells(self, access: _Access) -> bool:
        """Whether the access and products cannot be in any order."""
        left = (p.left for p in self.products if p.left is not None and access.stores)
        return any(
            access.cells.meets(cells) is not False
            for cells in (*(p.sums for p in self.products), *left)
        )

    def conflicts(self, other: Branch) -> bool:
        """Whether products of the other branch may not begin while those of this one are in flight: they share cells, but for
        those into the same sums, which are in order anyway."""
        return any(
            list(later.conflicts(earlier, alike=False))
            for earlier in self.products
            for later in other.products
        )


class ProductOrder:
    """`branches` in the order of a step; raises PipelineError (roles-unsupported, dependence-violated). What threads know
    is by their group, 0 if they have none."""

    def __init__(
        self,
        body: Body,
        issued: dict[Operation, Issued],
        places: list[SchedulePlace],
        groups: ThreadGroups | None,
    ) -> None:
        self.body, self.number = body, body.table.number
        self.owners = {} if groups is None else groups.owners
        found = []
        for (op, (cells, done)), place in zip(issued.items(), places, strict=True):
            ends = self.number[op], self.number[done.wait]
            found.append(Branch(op, done, place, *ends, cells, self._owners(done.wait)))
        self.branches = sorted(found, key=lambda one: one.place.order)
        self.accesses = [*self._accesses()][::-1]
        self.barriers = [number for number, op in enumerate(body.ops) if is_barrier(op)]
        # By branch and group: the lag in iterations of what it has to wait for, and the moment of that.
        self.needed: dict[tuple[Operation, int], tuple[int, Moment]] = {}
        self.arrivals: list[Arrival] = []
        self.awaited: list[tuple[Completion, Operation, int]] = []
        self.late: list[tuple[Completion, Operation]] = []
        self.left_out: list[Completion] = []
        # By branch: when threads first know that it is over, and when they have to; in iterations after its own.
        self.waits: dict[Operation, Moment] = {}
        self.touched: dict[Operation, Moment] = {}

    def run(self) -> None:
        for one in reversed(self.branches):
            for group in sorted({access.group for access in self.accesses}):
                self._find_need(one, group)
            self._place_wait(one)
        for one in self.branches:
            for group in sorted({access.group for access in self.accesses}):
                self._wait_for_threads(one, group)
        for one in self.branches:
            self._wait_for_products(one)
        self._leave_out_waits()
        for one in self.branches:
            for group in sorted(one.waiting):
                self._check_progress(one, group)

    def _owners(self, op: Operation) -> frozenset[int]:
        return self.owners.get(op, frozenset((0,)))

    def _accesses(self) -> Iterator[_Access]:
        """From the last one in the text to the first."""
        over: dict[str, int] = {}
        for number, op in reversed([*enumerate(self.body.ops)]):
            kind, of_wait = tensor_use(op), waits_for(op)
            if of_wait is not None:
                over[of_wait] = number
            if kind in ("load", "store"):
                for group in self._owners(op):
                    yield _Access(number, over.get(kind), kind == "store", moved_cells(op), group)

    # -- threads and products ------------------------------------------------------------------

    def _find_need(self, one: Branch, group: int) -> None:
        """The last op of the group before it that shares cells, in its iteration, or in the one before."""
        shared = [a for a in self.accesses if a.group == group and one.shares_cells(a)]
        before = [access for access in shared if access.number < one.number]
        if not shared:
            return
        last, lag = (before or shared)[-1], int(not before)
        loop, op = self.body.loop, self.body.ops[last.number]
        if last.done is None:
            refuse(f"no wait of the iteration follows '{op.name}'", op, loop)
        if not any((n > last.done) + (n < one.number) > (not lag) for n in self.barriers):
            refuse(f"no barrier follows '{op.name}', before other products", op, loop)
        self.needed[one.op, group] = lag, (-one.place.stage - lag, 2 * last.done + 1)

    def _place_wait(self, one: Branch) -> None:
        """Of the second stage threads wait before the first op that shares cells, perhaps in the next iteration."""
        self.waits[one.op] = 0, 2 * one.wait
        shared = [access.number for access in self.accesses if one.shares_cells(access)]
        if not shared:
            return
        following = [number for number in shared if number > one.wait]
        self.touched[one.op] = int(not following), 2 * (following or shared)[0]
        if one.place.stage:
            self.waits[one.op] = self.touched[one.op]

    def _leave_out_waits(self) -> None:
        """Threads do not wait for products in the loop for which the warp waits itself before it issues them again, where they
        have waited for later ones before they touch their cells."""
        of_warp = {one.op for one in self.branches if self._awaits(one)}
        for one in self.branches:
            passed = (self._passed(each, one) for each in self.branches if each.op not in of_warp)
            moment = next(filter(None, passed), None) if one.op in of_warp else None
            if moment is not None:
                self.waits[one.op] = moment
                self.left_out.append(one.completion)
            elif self.waits[one.op][0]:
                self.late.append((one.completion, self.body.ops[self.waits[one.op][1] // 2]))

    def _awaits(self, one: Branch) -> bool:
        """Whether the warp waits for products before those of the next iteration."""
        place, following = {each.op: each.place for each in self.branches}, one.place.stage + 1
        return any(
            completion == one.completion
            and (place[op].stage + back, place[op].order) <= (following, one.place.order)
            for completion, op, back in self.awaited
        )

    def _passed(self, later: Branch, one: Branch) -> Moment | None:
        """The last wait for `later` before the groups touch cells of `one`, if that says that both are over."""
        if one.op not in self.touched or not one.waiting <= later.waiting:
            return None
        (iteration, touched), (late, place) = self.touched[one.op], self.waits[later.op]
        # The products waited for are of so many iterations after those of `one`: none come before the first iteration.
        after = iteration - late - (place > touched)
        is_later = (after + later.place.stage, later.place.order) > one.place[:2]
        return (after + late, place) if after >= 0 and is_later else None

    def _known(self, one: Branch, group: int, *, before: bool = False) -> Moment:
        """Up to when the warp knows what a group did, when it issues products, or when it comes to their own wait. In the
        last step there are those of the second stage alone."""
        found = _NEVER
        for other in self.branches:
            if (other.op, group) not in self.needed:
                continue
            iteration, place = self.needed[other.op, group][1]
            if other.place.order > one.place.order or (other is one and before):
                found = max(found, (iteration - 1, place))
            elif other.place.stage >= one.place.stage:
                found = max(found, (iteration, place))
        return found

    def _wait_for_threads(self, one: Branch, group: int) -> None:
        if (one.op, group) not in self.needed:
            return
        lag, moment = self.needed[one.op, group]
        if self._known(one, group, before=True) < moment:
            at = self.body.ops[(moment[1] - 1) // 2]
            following = self.body.ops[self.number[at] + 1 : self.number[at] + 2]
            # The input may have the fence of this arrival.
            if following and fence_side(following[0]) == "before":
                at = following[0]
            self.arrivals.append(Arrival(at, one.op, lag, group))

    # -- products and products -----------------------------------------------------------------

    def _wait_for_products(self, one: Branch) -> None:
        for other in self.branches:
            if not other.conflicts(one):
                continue
            back = int(other.number >= one.number)
            # The step of what comes before it in the text, and the threads' wait for that.
            step = other.place.stage - back - one.place.stage
            if (step, other.place.order) > (0, one.place.order):
                why = "products would be issued before others whose cells they share, and that come first in the text"
                refuse(why, one.op, self.body.loop, code="dependence-violated", advice=_ADVICE)
            late, place = self.waits[other.op]
            over = (late - back - one.place.stage, place)
            if all(self._known(one, group) < over for group in other.waiting):
                self.awaited.append((other.completion, one.op, back))

    # -- progress ------------------------------------------------------------------------------

    def _check_progress(self, one: Branch, group: int) -> None:
        """Threads do not wait for products that wait for what these threads do later; and nobody is two phases ahead."""
        late, place = self.waits[one.op]
        stage, order = one.place.stage, one.place.order
        for other in (each for each in self.branches if (each.op, group) in self.needed):
            iteration, moment = self.needed[other.op, group][1]
            if (iteration - (other.place.order > order), moment) >= (late - stage, place):
                why = "threads would wait for products that come after others, which wait for what these threads do later"
                refuse(why, one.op, self.body.loop, code="dependence-violated", advice=_ADVICE)
        ahead = self._known(one, group) < (late - stage - _SLOTS, place)
        for arrival in self.arrivals:
            if arrival.place == one.op and arrival.group == group:
                ahead |= not any(self._shows(other, arrival, one.place) for other in self.branches)
        if ahead:
            why = "products and threads might be two iterations apart"
            refuse(why, one.op, self.body.loop, advice=_ADVICE)

    def _shows(self, other: Branch, arrival: Arrival, place: SchedulePlace) -> bool:
        """Whether threads that arrive again wait before for products that come after the warp's wait for the arrival."""
        late, wait = self.waits[other.op]
        steps = _SLOTS - late - (wait > 2 * self.number[arrival.at]) + other.place.stage
        after = (steps, other.place.order) >= (arrival.lag + place.stage, place.order)
        return after and arrival.group in other.waiting


_ADVICE = (
    "leave products in one stage and in the order of the text, as 'async_pipe.num_stages' does"
)


def products_in(branch: Operation) -> tuple[ProductCells, ...]:
    products = (op for op in walk(branch) if tensor_use(op) == "product")
    return tuple(tensor_product(op).cells(partial(_cells, op)) for op in products)


def _cells(product: Operation, operand: int, count: int | None) -> Cells:
    base, first = columns_after(product.operands[operand])
    return Cells() if base is None or count is None else Cells(base, first, first + count)
