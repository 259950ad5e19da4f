"""Shares out to groups of threads what the threads of the input do in tensor memory between products.

    load S0; softmax; store P0; scale O0         group 0 ┐ tied by values and by cells, and to nothing
    load S1; softmax; store P1; scale O1   -->   group 1 ┘ of the other one
    barrier, wait for a phase                    all groups
    copies of Q, columns given back              one group

A group has 128 threads, whose numbers are those of the input modulo 128, so that its warps have the same lanes. What is in one
*part* stays in one group: ops of which one needs what the other gives, through arithmetic and what loops carry; loads and
stores that share columns; other accesses that may meet with no barrier in between, since a thread of the input ran them one
after the other. Easy to get wrong: a barrier after the loop is what orders copies of one group after products for which
another one has waited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise, product
from typing import NamedTuple, NoReturn

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    captured,
    defining_op,
    operations,
    walk,
)
from mlir_async_pipe.facts.loops.statements import needed_values
from mlir_async_pipe.facts.loops.transactions import only_computes
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import columns_after, may_alias, may_meet, root_of
from mlir_async_pipe.facts.values.uniformity import conditions
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, is_opaque, regions_of
from mlir_async_pipe.pipeliner.plan.ping_pong_plan import thread_values
from mlir_async_pipe.pipeliner.plan.ring_plan import Issued, RingPlan, ThreadGroups
from mlir_async_pipe.pipeliner.plan.role_block import WARPGROUP, refuse
from mlir_async_pipe.vocabulary import (
    accesses,
    flag_order,
    groups_of,
    is_barrier,
    row_of,
    shows_writes,
    tensor_use,
    use_of,
)
from mlir_async_pipe.vocabulary.control_flow import EXIT_OPS
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_ops import HINTS
from mlir_async_pipe.vocabulary.rows import UNORDERED
from mlir_async_pipe.vocabulary.tensor_memory import Cells, fence_side, moved_columns, waits_for


def share_out(
    plan: RingPlan,
    products: dict[Operation, Issued],
    moved: tuple[Operation, ...],
    size: Size | None,
) -> ThreadGroups:
    """The groups of a loop whose products stand in these branches. Raises PipelineError (roles-unsupported,
    roles-values, roles-block, memory-order)."""
    if size != (WARPGROUP, 1, 1):
        known = "unknown size" if size is None else " x ".join(map(str, size))
        why = f"a block of {known} does not have the {WARPGROUP} threads that a group would"
        refuse(why, plan.loop, plan.loop, code="roles-block")
    parts = _Parts(plan, products, moved, size)
    parts.tie()
    groups = parts.groups()
    if len(groups) < 2:
        at, why = parts.last or (plan.loop, "they do nothing that products wait for")
        what = "what its threads do in tensor memory is one part, which groups cannot share"
        advice = 'roles = "specialised" leaves it to the threads of the input'
        refuse(f"{what}: {why}", at, plan.loop, advice=advice)
    return ThreadGroups(len(groups), parts.owners(groups), *thread_values(moved, plan.loop))


NOTHING: frozenset[Operation] = frozenset()


class _State(NamedTuple):
    """Of paths up to an op: the work, and the waits for phases, since the last barrier, in this iteration of the loops around
    and in `earlier` ones. What a wait or fence of tensor memory would be for, by what it says: loads and stores since a wait
    for them, both since the last fence `before`, and waits for others since the last one `after`."""

    since: frozenset[Operation] = NOTHING
    earlier: frozenset[Operation] = NOTHING
    load: frozenset[Operation] = NOTHING
    store: frozenset[Operation] = NOTHING
    before: frozenset[Operation] = NOTHING
    after: frozenset[Operation] = NOTHING

    def joined(self, other: _State) -> _State:
        return _State(*(a | b for a, b in zip(self, other, strict=True)))


class _Parts:
    """The parts of what threads do. `work` are the ops that one group runs, in textual order; `covered`: what a wait or
    fence of tensor memory is for; `last` says at which op, and why, the last two parts of the loop became one."""

    def __init__(
        self,
        plan: RingPlan,
        products: dict[Operation, Issued],
        moved: tuple[Operation, ...],
        size: Size,
    ) -> None:
        self.plan, self.products, self.moved = plan, products, moved
        ops = [op for top in moved for op in walk(top)]
        self.place = {op: number for number, op in enumerate(ops)}
        self.written = [root_of(a.memory) for op in ops for a in accesses(op) if a.writes]
        self.of_copies = {op for t in plan.transactions for op in t.ops}
        self.work = {op: None for top in moved for op in self._work(top)}
        self.moving = {op: moved_cells(op) for op in self.work if _moves(op)}
        self.in_loop = [op for op in self.moving if plan.loop in ancestors(op)]
        self.awaited = {each.completion.wait for each in products.values()}
        arithmetic = Arithmetic(size)
        self.index = LoopIndex(plan.loop, arithmetic)
        self.regions: dict[Operation, list[CoveredRegion]] = defaultdict(list)
        for region in (each for each in regions_of(list(moved), arithmetic) if each.access):
            self.regions[region.op].append(region)
        self.above: dict[Operation, Operation] = {}
        self.covered: dict[Operation, frozenset[Operation]] = {}
        self.last: tuple[Operation, str] | None = None

    # -- what there is to do ---------------------------------------------------------------------

    def _work(self, op: Operation) -> Iterator[Operation]:
        """The ops that one group is to run. Refuses those of which we do not know whether one may."""
        if op in self.products or op in self.of_copies or self._by_all(op):
            return
        if len(op.regions):
            known = op.name == "scf.for" and op in (self.plan.loop, *self.plan.outer)
            if not known and (op.name not in ("scf.if", "scf.for") or len(op.results)):
                self._refuse(op, "we do not know which group runs what it holds")
            for block in (block for region in op.regions for block in region.blocks):
                for inner in operations(block):
                    yield from self._work(inner)
            return
        if flag_order(op) != UNORDERED and tensor_use(op) is None:
            self._refuse(op, "it orders memory for what its own group did alone", "memory-order")
        row = row_of(op)
        known = _moves(op) or tensor_use(op) == "dealloc" or use_of(op) in ("expect", "copy")
        plain = bool(accesses(op)) and row.queue is None and row.phase is None and not is_opaque(op)
        if not (known or plain):
            self._refuse(op, "we do not know whether one group may run it")
        yield op

    def _by_all(self, op: Operation) -> bool:
        """Whether each group may run an op: it computes, reads what nobody writes here, or orders."""
        if only_computes(op) or op.name in EXIT_OPS or op.name in HINTS or _orders(op):
            return True
        row, found = row_of(op), accesses(op)
        if (
            flag_order(op) != UNORDERED
            or not found
            or row.queue is not None
            or row.phase is not None
            or is_opaque(op)
        ):
            return False
        roots = [root_of(access.memory) for access in found]
        return not any(a.writes for a in found) and not may_meet(roots, self.written)

    def _refuse(self, op: Operation, why: str, code: str = "") -> NoReturn:
        what = f"'{op.name}' stands where groups would share the work, and {why}"
        refuse(what, op, self.plan.loop, code=code)

    # -- what belongs together -------------------------------------------------------------------

    def tie(self) -> None:
        """Unite what needs each other, shares columns, or may meet with no barrier in between."""
        ties = [
            tie for op in self.place if op in self.work or _orders(op) for tie in self._needed(op)
        ]
        # What else is shared ties parts that are whole.
        for op, maker in sorted(ties, key=lambda tie: not _moves(tie[1])):
            self._unite(op, maker, f"'{op.name}' needs what '{maker.name}' gives")
        for one, other in combinations(self.moving, 2):
            stores = "store" in (tensor_use(one), tensor_use(other))
            if stores and self.moving[one].meets(self.moving[other]) is not False:
                self._unite(other, one, f"'{other.name}' may touch the cells of '{one.name}'")
        # One thread announces and copies.
        for one, other in pairwise(op for op in self.work if use_of(op) in ("expect", "copy")):
            self._unite(other, one, "one group issues all copies")
        state = _State()
        for top in self.moved:
            state = self._follow(top, state)

    def _needed(self, op: Operation) -> list[tuple[Operation, Operation]]:
        """An op with each one that gives what it needs, and what says how often it runs."""
        if op in self.of_copies or not self.products.keys().isdisjoint(ancestors(op)):
            return []
        # Of the waits for products the ring writes the phases.
        used = [] if op in self.awaited else list(captured(op))
        loops = {self.plan.loop, *self.plan.outer}
        for above in ancestors(op):
            if above in self.place and above not in loops:
                used += conditions(above)
        makers = {defining_op(value) for value in needed_values(used, self.place)}
        found = self._in_order(makers & self.work.keys())
        if found and op not in self.work:
            why = f"it depends on what '{found[0].name}' gives one of them"
            self._refuse(op, why, "roles-values")
        return [(op, maker) for maker in found]

    def _follow(self, op: Operation, state: _State) -> _State:
        """The state after an op, and all that it holds."""
        loop, outer = self.plan.loop, self.plan.outer
        if op in self.products or op in self.of_copies:
            return state
        now = frozenset((op,))
        if is_barrier(op):
            # Those of the loop become arrivals, which no other group waits for.
            kept = loop not in ancestors(op)
            return _State(NOTHING, NOTHING, *state[2:5], state.after | now) if kept else state
        kind = waits_for(op) or fence_side(op)
        if kind is not None:
            self.covered[op] = self.covered.get(op, NOTHING) | getattr(state, kind)
            return state._replace(**{kind: NOTHING})
        # Twice, so that an iteration comes after another one.
        for number in range((op.name == "scf.for") + 1 if len(op.regions) else 0):
            if number and op in outer:
                state = state._replace(since=NOTHING, earlier=state.earlier | state.since)
            for block in (block for region in op.regions for block in region.blocks):
                inside_of = state
                for inner in operations(block):
                    inside_of = self._follow(inner, inside_of)
                state = state.joined(inside_of)
        if op in self.work:
            self._keep_order(op, state)
        if use_of(op) == "wait":
            return state._replace(since=state.since | now, after=state.after | now)
        if op in self.work:
            state = state._replace(since=state.since | now)
        if _moves(op):
            use = str(tensor_use(op))
            moved = {use: getattr(state, use) | now, "before": state.before | now}
            state = state._replace(**moved)
        return state

    def _keep_order(self, op: Operation, state: _State) -> None:
        """Unite an op with what it may meet since the last barrier."""
        own = self.regions[op]
        fills = use_of(op) in ("expect", "copy") or any(
            each.writes and (each.root is None or each.root.space != "global") for each in own
        )
        for earlier in self._in_order(state.since | state.earlier):
            why = f"no barrier stands between '{earlier.name}' and '{op.name}'"
            if use_of(earlier) == "wait":
                # Other groups may still wait there, or for the products that read this.
                for one in self.in_loop if fills else ():
                    self._unite(op, one, why)
                continue
            uses, again = {tensor_use(op), tensor_use(earlier)}, earlier in state.earlier
            ends = "dealloc" in uses and None not in uses
            pairs = product(self.regions[earlier], own)
            if ends or not all(self._never_meet(*pair, again=again) for pair in pairs):
                self._unite(op, earlier, why)

    def _never_meet(self, one: CoveredRegion, other: CoveredRegion, *, again: bool) -> bool:
        """Whether two threads never touch the same by these, in one iteration of the loops around or `again` in others."""
        if not (one.writes or other.writes):
            return True
        if again:
            return bool(one.root and other.root and not may_alias(one.root, other.root))
        return self.index.distances(one, other, same_thread=False) is None

    def _in_order(self, ops: Iterable[Operation | None]) -> list[Operation]:
        return sorted((op for op in ops if op is not None), key=self.place.__getitem__)

    def _part(self, op: Operation) -> Operation:
        while op in self.above:
            op = self.above[op]
        return op

    def _unite(self, op: Operation, other: Operation, why: str) -> None:
        one, first = self._part(op), self._part(other)
        if one == first:
            return
        of_loop = {self._part(each) for each in self.in_loop}
        if one in of_loop and first in of_loop:
            self.last = op, why
        self.above[one] = first

    # -- groups ----------------------------------------------------------------------------------

    def groups(self) -> list[list[Operation]]:
        """The parts that work in the loop on cells of its products, in textual order. The first group has all else."""
        parts: dict[Operation, list[Operation]] = defaultdict(list)
        for op in self.work:
            parts[self._part(op)].append(op)
        shared = {op for op in self.in_loop if any(self._meets(op, b) for b in self.products)}
        return [part for part in parts.values() if not shared.isdisjoint(part)]

    def owners(self, groups: list[list[Operation]]) -> dict[Operation, frozenset[int]]:
        """Who runs what not all groups run: the work of one, waits for products whose cells it touches, and waits and fences
        for what it does."""
        number = {op: n for n, part in enumerate(groups) for op in part}
        found = {op: frozenset((number.get(op, 0),)) for op in self.work}
        for branch, (_, completion) in self.products.items():
            touching = [op for op in self.moving if self._meets(op, branch)]
            ends = self.place[branch], self.place[completion.wait]
            for op in touching:
                if ends[0] < self.place[op] < ends[1]:
                    why = "it comes before the wait for products that share its cells"
                    self._refuse(op, why)
            if touching:
                found[completion.wait] = frozenset(number.get(op, 0) for op in touching)
        everybody = frozenset(range(len(groups)))
        for op, ops in self.covered.items():
            found[op] = NOTHING.union(*(found.get(each, everybody) for each in ops))
        return found

    def _meets(self, op: Operation, branch: Operation) -> bool:
        """Whether a load or store may touch cells that a product of the branch uses, too."""
        stores = tensor_use(op) == "store"
        used = [one.sums for one in self.products[branch].cells]
        used += [one.left for one in self.products[branch].cells if stores and one.left is not None]
        return any(self.moving[op].meets(each) is not False for each in used)


def _moves(op: Operation) -> bool:
    return tensor_use(op) in ("load", "store")


def _orders(op: Operation) -> bool:
    """Whether an op lets its threads wait, or orders what they did."""
    waits = is_barrier(op) or use_of(op) == "wait" or shows_writes(op)
    return waits or tensor_use(op) in ("wait", "fence")


def moved_cells(op: Operation) -> Cells:
    """Those that a load or store may touch."""
    (base, first), (columns, _) = columns_after(op.operands[0]), moved_columns(op)
    known = base is not None and not groups_of(op)["offset"]
    return Cells(base, first, first + columns) if known else Cells()
