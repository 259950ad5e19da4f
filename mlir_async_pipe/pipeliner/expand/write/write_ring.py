"""Writes a loop of tensor copies with its copies d tiles ahead, on V slots: the protocol of slots and
phases goes into the body, and the general writer makes a pipeline of that.

    for k { expect, copy, wait, use, barrier }
                  |
    for k {                               stage        copy tiles 0 … d-1, if there are so many
      wait for the phase of the slot        d          for k, slot, phase, slot of tile k + d {
      use the slot; leave p products        d            wait; use; leave p products
      barrier                               d     -->    barrier
      copy into the slot                    0            copy tile k + d, if there is one
    }                                                  }

There is no epilogue: the predicate of the copies ends them. They are issued by one thread, which
`elect.sync` picks in warp 0: of a thread id ptxas cannot know that it names one thread, and writes
a loop over lanes around each copy. The phase flips when the slot is 0 again, and both go on through
the loops around this one, since the mbarriers do.

Where others fill the slots, each warp arrives for a slot that it has read, instead of the barrier. Others
are blocks of a cluster, where warp 0 waits for all arrivals before it copies, or warps of their own:
then copies are a partition of their own, nothing runs ahead, and each role has a loop of one stage.

    arrive at empty[slot of k - p]                              d
    warp 0: wait for empty[slot]; copy into the slot            0

Commits of products get an mbarrier for each slot, too, and their waits are for tile t - p:

    commit %done[%c0]                      commit %done[slot]
    try_wait %done[%c0], %phase     -->    try_wait %done[slot of tile t - p], its phase
                                           …
                                           after the loop: try_wait for the last p tiles

Products of a later stage run beside those of the next iterations, in the order of `ring_stages`, and each part of the
pipeline leaves as many groups in flight as it has after those that a wait is for:

    for k, slot, phase {                                wait; scores; wait 0; softmax             of tile 0
      wait; scores; wait; softmax                       for … { wait; scores of k + 1; product of k
      product; wait                           -->         wait 1; softmax of k + 1; wait 0; copy }
    }                                                   product; wait 0                           of the last tile

t counts since the initialisation, so before the first p tiles the waits are for phase -1, which is over
from the start; in later executions of the loop they are for tiles that the one before has waited for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    after,
    again,
    before,
    clone,
    constant_value,
    create,
    defining_op,
    integer_attribute,
    is_function,
    is_used,
    operations,
    parent,
    set_integer,
    source_op,
    terminator,
    users,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, end_of, write_if, yield_values
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import Body, BodyTable, Statement
from mlir_async_pipe.facts.loops.transactions import (
    Completion,
    Transaction,
    mbarrier_pointer,
    only_computes,
    operand,
    operand_number,
    wait_attribute,
    write_mbarrier_fences,
    write_mbarrier_wait,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.facts.values.uniformity import compared_thread, conjunction
from mlir_async_pipe.pipeliner.expand.write.carried_ring import (
    RingPath,
    between,
    carry,
    drop_idle_values,
    keep_partition,
)
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer, show_slot
from mlir_async_pipe.pipeliner.expand.write.write_loop import write_loop
from mlir_async_pipe.pipeliner.plan.cluster_plan import ClusterPlan
from mlir_async_pipe.pipeliner.plan.make_plan import Plan, RingCounter
from mlir_async_pipe.pipeliner.plan.mbarrier_setup import MbarrierSetup
from mlir_async_pipe.pipeliner.plan.ring_plan import WARP, RingPlan
from mlir_async_pipe.pipeliner.plan.ring_stages import RingStages
from mlir_async_pipe.pipeliner.plan.sync_state import StepSync, Synchronisation
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace, Units
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.barriers import write_fence, write_warp_barrier
from mlir_async_pipe.vocabulary.launch_ids import CLUSTER_RANK, MAPA
from mlir_async_pipe.vocabulary.rows import WGMMA

# What stands for slot, phase and slot of tile t - p of an iteration in a loop that is lowered.
TILE = "async_pipe.tile"
# Of commits, and of waits for groups up to such a commit, in a loop that is lowered.
GROUP_NUMBER = "async_pipe.group_number"
# The partition of the statements that copy.
COPIES = 0


def write_ring(plans: tuple[RingPlan, ...], buffers: list[list[VersionedBuffer]]) -> None:
    """Write the planned loops on the same mbarriers, each with its buffers, which all warps run."""
    first, setups = plans[0], plans[0].setups
    loc, kernel = first.loop.location, first.kernel
    returns, blocks = None, Blocks(first.cluster, first.returning)
    blocks.meet_first(setups)
    if first.cluster is not None:
        empty = write_empty(setups[0], first.versions, blocks.arrivals)
        build = IntegerWriter(before([*first.outer, first.loop][0]), loc)
        arrives = first_lane(thread_along_x(kernel, build), build)
        blocks.read_rank(build)
        returns = SlotReturns(empty, blocks, arrives, first.meets_lanes)
    old = [setup.create for setup in setups]
    chains = [between(old[0], plan.loop) for plan in plans]
    full = {s.create.results[0]: write_mbarriers(s, first.versions) for s in setups}
    loops = [RingLoop(plan, own, full, returns) for plan, own in zip(plans, buffers, strict=True)]
    start = Ring.start(IntegerWriter(before([*chains[0], first.loop][0]), loc))
    carry(
        [RingPath((*c, one.loop), one.write) for c, one in zip(chains, loops, strict=True)], start
    )
    for create_op in old:
        create_op.erase()
    # What a loop forwards to the next one is idle when that one does without.
    for loop in reversed(loops):
        drop_idle_values(loop.loop)
    blocks.meet_last(terminator(kernel.regions[0].blocks[0]))


class RingLoop:
    """A loop of tensor copies, its buffers, and for each group of mbarriers of the input that with V for
    each of them. `returns`: how slots go back to others who fill them."""

    # What makes the slot, the phase and the slot of tile t - p in the loop.
    tile: Operation
    # What no part but the kernel has.
    turn: tuple[Operation, ...] = ()

    def __init__(
        self,
        plan: RingPlan,
        buffers: list[VersionedBuffer],
        full: dict[Value, Value],
        returns: SlotReturns | None = None,
    ) -> None:
        self.plan, self.ring = plan, Ring(plan.versions)
        self.buffers, self.full, self.returns = buffers, full, returns
        # The loop as it is now.
        self.loop = plan.loop

    def in_copy(self, tile: Operation) -> RingLoop:
        made, above = copy(self), parent(tile)
        assert above is not None
        made.tile, made.loop = tile, above
        return made

    @property
    def held(self) -> list[Value]:
        """What stands for slot, phase and slot of tile t - p of an iteration."""
        return list(self.tile.results)

    @property
    def block(self) -> Any:
        return self.loop.regions[0].blocks[0]

    def write(self, slot: Value, phase: Value) -> list[Value]:
        """Lower the loop of all warps, and expand it; returns slot and phase after it."""
        plan, initial = self.plan, list(self.loop.operands)[3:]
        # An i1 of the warp that copies; None where the predicates of the input stay.
        issues, leader = None, plan.issue.leader
        if leader is not None:
            thread = compared_thread(leader)
            assert thread is not None
            issues = IntegerWriter.before(self.loop).compare("ult", thread, WARP)
        # What the input carries for its copies, for those that run ahead.
        carried = [initial[number] for number in plan.issue.advanced]
        kinds = [value.type for value in [*self.loop.results, *carried]]
        self.loop = loop = again(self.loop, [*self.loop.operands, *carried], kinds)
        added = [self.block.add_argument(value.type, loop.location) for value in carried]
        self._begin()
        place = end = terminator(self.block)
        if plan.copies_first:
            order = operations(self.block)
            place = order[order.index(plan.transactions[0].wait) + 1]
        if self.returns is not None:
            self._give_back(before(end), plan.ahead)
        elif plan.dropped and not plan.after_barrier:
            _write_for_all(plan.dropped, before(place))
        elif not plan.after_barrier:
            write_fence({"workgroup"}, before(place), loop.location)
        following = self._copy_ahead(added, issues, place)
        for op in (*plan.dropped, *plan.issuing):
            op.erase()
        self._use_slot()
        again(end, [*end.operands, *following])
        drop_unused(loop)
        self._drain()
        return self.expand(slot, phase, plan.ahead, plan.stages)

    def lower_apart(self, empty: Value, first_empty: int) -> None:
        """Lower the loop whose copies are those of a partition of their own, each after its slot was given
        back. `first_empty`: which mbarrier of the group says when slot 0 is free, as of the input's one."""
        self._begin()
        slot, phase, _ = self.held
        write = IntegerWriter(after(operations(self.block)[0]), self.loop.location)
        number = self.ring.mbarrier(first_empty, slot, write)
        acquire = write_mbarrier_wait(write, empty, number, phase)
        # By one thread of this warp.
        elected = elect(write)
        self._name_copies({op: op for op in self.plan.issuing}, elected, {})
        if self.returns is not None:
            self._give_back(before(terminator(self.block)), 0)
        for op in self.plan.dropped:
            op.erase()
        self._use_slot()
        for op in (acquire, source_op(elected), *self.plan.issuing):
            set_integer(op, names.PARTITION, COPIES, 64)

    def write_uses(
        self, slot: Value, phase: Value, awaited: Sequence[Completion] | None = None
    ) -> list[Value]:
        """Expand the lowered loop of those that compute, and wait for `awaited` products, or all; returns slot and phase
        after it."""
        self._drain(awaited)
        # Of products that another warp issues the stages are its own.
        stages = None if self.plan.products.completions else self.plan.stages
        return self.expand(slot, phase, stages=stages)

    def _name_mbarrier(self, op: Operation, of: Transaction | Completion, slot: Value) -> None:
        """Let an op name the mbarrier of a slot, in the new group or by a pointer to it."""
        write = IntegerWriter.before(op)
        number = self.ring.mbarrier(of.number, slot, write)
        group, at = self.full[of.barriers], operand_number(op, "barrier")
        if operand(op, "index") is None:
            op.operands[at] = mbarrier_pointer(write, group, number, op.operands[at].type)
            return
        op.operands[at] = group
        op.operands[operand_number(op, "index")] = number

    def _begin(self) -> None:
        names.forget(self.loop)
        names.remove(self.loop, names.LOOP_NAMES)
        loc = self.loop.location
        i1, index = ir.IntegerType.get_signless(1, loc.context), ir.IndexType.get(loc.context)
        ip = ir.InsertionPoint.at_block_begin(self.block)
        self.tile = create(TILE, (), [index, i1, index], ip=ip, loc=loc)
        if (stages := self.plan.stages) is not None:
            last = {op: number for number, op in enumerate(stages.order)}
            for number, op in enumerate(stages.order):
                # A fence or a commit of a half.
                op = op if last[op] == number else clone(op, {}, before(op))
                set_integer(op, names.ORDER, number, 64)
                if number in stages.awaited or row_of(op).commits is not None:
                    set_integer(op, GROUP_NUMBER, stages.awaited.get(number, number), 64)

    # -- copies --------------------------------------------------------------------------------

    def _copy_ahead(
        self, state: list[Value], issues: Value | None, place: Operation
    ) -> list[Value]:
        """Copy a tile before `place`, in stage 0; returns what comes after `state`, what the loop carries
        for that."""
        slot, phase, _ = self.held
        issue, known = self.plan.issue, len(operations(self.block))
        write = IntegerWriter(before(place), self.loop.location)
        if self.returns is not None:
            assert issues is not None
            branch = write_if(issues, (), None, write.ip, write.location)
            inside = IntegerWriter(at_end_of(branch.regions[0]), write.location)
            # For the other parity than that of the tile, which passes at first.
            ends = inside.binary("arith.xori", phase, inside.constant(1, phase.type))
            write_mbarrier_wait(inside, self.returns.empty, slot, ends)
        elected = None
        if issues is not None:
            elected = write.binary("arith.andi", elect(write), issues)
        arguments = list(self.block.arguments)[1:]
        mapping = dict(zip([arguments[n] for n in issue.advanced], state, strict=True))
        clones = {op: clone(op, mapping, write.ip) for op in issue.ops}
        self._name_copies(clones, elected, mapping)
        show_slot(self.buffers, slot, list(clones.values()))
        order = operations(self.block)
        at = order.index(place)
        for op in order[at - (len(order) - known) : at]:
            set_integer(op, names.STAGE, 0, 64)
        yielded = terminator(self.block).operands
        return [mapping.get(yielded[n], yielded[n]) for n in issue.advanced]

    def _name_copies(
        self, made: dict[Operation, Operation], elected: Value | None, mapping: dict[Value, Value]
    ) -> None:
        """Let the ops that are `made` of the input's copies be for the slot, by one thread, `elected` instead
        of the one of the input. `mapping` says what the values of the input are there."""
        for op in made.values():
            names.remove(op, [name for name in names.OP_NAMES if name != names.INDEPENDENT])
        for transaction in self.plan.transactions:
            for op in (transaction.expect, *transaction.copies):
                given, predicate, copied = operand(op, "predicate"), elected, made[op]
                self._name_mbarrier(copied, transaction, self.held[0])
                if predicate is None:
                    continue
                assert given is not None
                write = IntegerWriter.before(copied)
                for part in conjunction(given):
                    if part != self.plan.issue.leader:
                        predicate = write.binary("arith.andi", predicate, mapping.get(part, part))
                copied.operands[operand_number(copied, "predicate")] = predicate

    # -- tiles and products --------------------------------------------------------------------

    def _use_slot(self) -> None:
        """Let all but what copies ahead be for the slot of the iteration."""
        slot, phase, earlier = self.held
        for transaction in self.plan.transactions:
            self._name_mbarrier(transaction.wait, transaction, slot)
            transaction.wait.operands[operand_number(transaction.wait, "phase")] = phase
        beside = {buffer.root.identity for buffer in self.plan.beside}
        tiles = [buffer for buffer in self.buffers if buffer.plan.root.identity not in beside]
        show_slot(tiles, slot, [op for op in operations(self.block) if not _is_ahead(op)])
        # Each wait leaves the groups of p iterations in flight; without any, the last leaves none.
        products = self.plan.products
        left = self.plan.in_flight * products.groups
        for op in products.waits if left else products.waits[-1:]:
            set_integer(op, wait_attribute(op) or "", left, 64)
        # Each commit arrives for its slot, and each wait is for tile t - p.
        for completion in products.completions:
            pointer = defining_op(completion.commit.operands[0])
            self._name_mbarrier(completion.commit, completion, slot)
            if pointer is not None:
                pointer.erase()
                completion.get.erase()
            back = earlier if self.plan.left_by(completion) else None
            self._wait_for(completion.wait, completion, slot, phase, back)

    def _give_back(self, ip: Any, ahead: int) -> None:
        """Arrive for tile t - p, in the last stage of those that are so many iterations after the copies."""
        assert self.returns is not None
        plan, exists = self.plan, None
        slot, _, earlier = self.held
        write = Integers(self.loop, 0, plan.trip_count, ip)
        if plan.in_flight:
            slot = earlier
            exists = write.has_come_for(self.block.arguments[0], plan.in_flight)
        known = {*operations(self.block)}
        self.returns.write(slot, exists, write)
        for op in (op for op in operations(self.block) if op not in known and plan.late):
            set_integer(op, names.STAGE, ahead + plan.late, 64)

    def _drain(self, awaited: Sequence[Completion] | None = None) -> None:
        """After the loop no product is in flight; slot and phase are those of the next tile there. Of products with commits
        `awaited` are waited for, or all.

        Slots of the last p tiles go back not as the loop carried them: what it forwards from where
        it does not run would stand in a block of its own, with the zeros of its accumulators, and
        ptxas would wait for each product (C7515)."""
        plan, loop, (slot, phase, _) = self.plan, self.loop, self.held
        if plan.products.completions:
            write = IntegerWriter(after(loop), loop.location)
            completions = plan.products.completions if awaited is None else awaited
            waits = [(n, each) for each in completions for n in range(plan.left_by(each))]
            for back, each in sorted(waits, key=lambda one: -one[0]):
                earlier = self.ring.before(slot, back + 1, write)
                parity = self.ring.earlier_phase(phase, slot, earlier, write)
                at = self.ring.mbarrier(each.number, earlier, write)
                write_mbarrier_wait(write, self.full[each.barriers], at, parity)
        elif plan.in_flight:
            made = create("nvvm.wgmma.wait.group.sync.aligned", ip=after(loop), loc=loop.location)
            set_integer(made, wait_attribute(made) or "", 0, 64)
            if self.returns is not None:
                integers = Integers(loop, 0, plan.trip_count, after(made))
                for number in range(plan.in_flight):
                    slot = self.ring.before(slot, 1, integers)
                    certain = (plan.trip_count or 0) > number
                    exists = None if certain else integers.has_iteration(number)
                    self.returns.write(slot, exists, integers)

    def _wait_for(
        self, wait: Operation, of: Completion, slot: Value, phase: Value, earlier: Value | None
    ) -> None:
        """Wait for the products of the tile in `slot`, or in `earlier`, fewer than V before."""
        if earlier is not None:
            write = IntegerWriter.before(wait)
            phase = self.ring.earlier_phase(phase, slot, earlier, write)
            slot = earlier
        self._name_mbarrier(wait, of, slot)
        wait.operands[operand_number(wait, "phase")] = phase

    # -- the pipeline --------------------------------------------------------------------------

    def expand(
        self, slot: Value, phase: Value, ahead: int = 0, stages: RingStages | None = None
    ) -> list[Value]:
        """Write the lowered loop, with its stage 0 so many iterations ahead, from the slot and the phase of
        its first tile; returns those after it."""
        plan, tile, (own, its_phase, earlier) = self.plan, self.tile, self.held
        tile.move_before(self.loop)
        late = 0 if stages is None else stages.last
        loop = drop_idle_values(self.loop)
        guard = self._guarded(loop, late, slot, phase)
        # Whoever takes them comes later.
        state = [own, its_phase] if guard is None else list(guard.results)[-2:]
        taken = create("async_pipe.taken", state, ip=after(guard or loop), loc=loop.location)
        block = loop.regions[0].blocks[0]
        *ops, end = operations(block)
        # Of products in flight no value may be read earlier than here: each op keeps its place.
        places = {op: SchedulePlace(0 if _is_ahead(op) else ahead, n) for n, op in enumerate(ops)}
        if stages is not None:
            places = _in_stages(BodyTable(block, ops, end), ahead, stages)
        statements = tuple(Statement(number, op) for number, op in enumerate(places))
        body = Body(loop, tuple(ops), statements, (), (), end, block)
        # Phases of products before the first tile are over from the start.
        back = max(1, plan.in_flight), bool(plan.products.completions)
        counter = RingCounter(plan.versions, own, its_phase, earlier, *back, (slot, phase))
        nothing, at_start = StepSync(), list(self.turn)
        if self.returns is not None and constant_value(slot) is not None:
            # The loop has the first tiles of all: their slots are free.
            waiting = [parent(user) for user in users(self.returns.empty)]
            at_start += [op for op in ops if _is_ahead(op) and op in waiting]
        lowered = Plan(
            loop,
            Units(body, places),
            plan.trip_count,
            epilogue="predicate",
            short_trip="predicate",
            synchronisation=Synchronisation(
                (nothing,) * (ahead + late), epilogue=(nothing,) * late
            ),
            counters=(counter,),
            kernel_only=tuple(at_start),
            peeled=late,
        )
        self.loop = write_loop(lowered, [])
        if stages is not None:
            _count_groups(self.loop)
        results = list(taken.operands)
        taken.erase()
        tile.erase()
        return results

    def _guarded(self, loop: Operation, late: int, slot: Value, phase: Value) -> Operation | None:
        """`scf.if trips >= late { loop }`, which gives slot and phase after it, too; None where that is known."""
        known = self.plan.trip_count
        if not late or (known is not None and known >= late):
            return None
        write = Integers(loop, late, known, before(loop))
        without = [*list(loop.operands)[3:], slot, phase]
        given = [*loop.results, *self.held[:2]]
        guard = write_if(write.has_iteration(late - 1), without, without, write.ip, loop.location)
        for old, new in zip(loop.results, guard.results, strict=False):
            old.replace_all_uses_with(new)
        loop.move_before(end_of(guard.regions[0]))
        yield_values(end_of(guard.regions[0]), given)
        return guard


def _write_for_all(barriers: tuple[Operation, ...], ip: Any) -> None:
    """One barrier that orders what these do."""
    fenced = [spaces(op) for op in barriers if (spaces := row_of(op).barrier) is not None]
    together = frozenset[str]().union(*fenced)
    if together in fenced:
        clone(barriers[fenced.index(together)], {}, ip)
    else:
        write_fence(together, ip, barriers[-1].location)


def _is_ahead(op: Operation) -> bool:
    """Whether an op of the body has to do with the tile that is copied."""
    return names.stage_of(op) == 0


def _in_stages(table: BodyTable, ahead: int, stages: RingStages) -> dict[Operation, SchedulePlace]:
    """Where a step runs the ops of a lowered loop. What was written beside those of the input stays before the next
    one of them; what only computes comes before its first user."""
    planned: dict[int, int] = {}
    beside: dict[int, list[int]] = {}
    since: list[int] = []
    for number, op in enumerate(table.ops[:-1]):
        order = names.order_of(op)
        if order is not None:
            planned[order], beside[number], since = number, since, []
        elif not only_computes(op) or names.stage_of(op) is not None:
            since.append(number)
    in_order, of_input = dict[int, None](), set(planned.values())

    def place(number: int) -> None:
        def open_makers(op: int) -> list[int]:
            return [n for n in table.makers(op) if n not in in_order and n not in of_input]

        in_order.update(dict.fromkeys(sorted(reached([number], open_makers))))

    for order in sorted(planned):
        for number in (*beside[planned[order]], planned[order]):
            place(number)
    for number in since:
        place(number)
    stage: dict[int, int] = {}
    for number in reversed(in_order):
        op = table.ops[number]
        order, own = names.order_of(op), names.stage_of(op)
        if order is not None:
            stage[number] = ahead + stages.stages[order]
        elif own is not None or not only_computes(op):
            stage[number] = ahead if own is None else own
        else:
            stage[number] = min(stage[n] for n in table.following(number) if n in stage)
    return {table.ops[n]: SchedulePlace(stage[n], place) for place, n in enumerate(in_order)}


def _count_groups(kernel: Operation) -> None:
    """Let each wait of prologue, kernel and epilogue leave the groups that were committed in its step after the last
    one that it is for."""
    for block in (kernel.block, kernel.regions[0].blocks[0]):
        committed: list[int] = []
        for op in operations(block):
            number = integer_attribute(op, GROUP_NUMBER)
            if number is None:
                continue
            name = wait_attribute(op)
            if name is None:
                committed.append(number)
            else:
                left = committed[::-1].index(number)
                set_integer(op, name, min(left, WGMMA.largest_count or 0), 64)
            names.remove(op, (GROUP_NUMBER,))


def write_partition(
    region: Any,
    moved: tuple[Operation, ...],
    partition: int,
    loops: Sequence[tuple[RingLoop, tuple[int, ...]]],
    write: Callable[..., list[Value]],
    state: list[Value],
) -> None:
    """Write at the end of a region what the warps of a partition run of `moved`: its statements, and what these need.
    `loops` are the lowered ones in textual order, each with its values of the state, by their numbers; from
    these `write` writes its copy, and returns those after it."""
    mapping: dict[Value, Value] = {}
    block = region.blocks[0]
    keep_partition([clone(op, mapping, at_end_of(region)) for op in moved], partition)
    tiles = [op for top in operations(block) for op in walk(top) if op.name == TILE]
    paths = []
    for tile, (loop, values) in zip(tiles, loops, strict=True):
        copied = loop.in_copy(tile)
        chain = (*between(terminator(block), copied.loop), copied.loop)
        paths.append(RingPath(chain, partial(write, copied), values))
    carry(paths, state)


def drop_unused(loop: Operation) -> None:
    """Of a lowered loop, erase the statements that are of a partition, and what only these needed."""
    for op in reversed(operations(loop.regions[0].blocks[0])[:-1]):
        unused = only_computes(op) and not any(map(is_used, op.results))
        if unused or names.PARTITION in op.attributes:
            op.erase()


def elect(write: OpWriter) -> Value:
    """An i1 that holds in one thread of a warp, which ptxas knows to be one."""
    i1 = ir.IntegerType.get_signless(1, write.location.context)
    return write.make("nvvm.elect.sync", (), i1)


def thread_along_x(kernel: Operation, build: IntegerWriter) -> Value:
    if not is_function(kernel):
        # Blocks, then threads, each along x, y, z.
        return kernel.regions[0].blocks[0].arguments[3]
    return build.thread_id("x")


# Mbarriers of slots ------------------------------------------------------------------------------
#
# Makes and initialises V mbarriers where a loop of tensor copies had one.
#
# %full = nvgpu.mbarrier.create                     … num_barriers = V
# nvgpu.mbarrier.init %full[%c0], %c1      -->      nvgpu.mbarrier.init %full[0 … V-1], %c1
# gpu.barrier                                       nvvm.fence.mbarrier.init, nvvm.fence.proxy
#                                                   gpu.barrier


def write_mbarriers(setup: MbarrierSetup, versions: int) -> Value:
    """The new group; mbarrier n of the old one is mbarriers n V … n V + V - 1 of it."""
    kind = _group_of(setup.create.results[0].type, setup.count * versions)
    group = OpWriter.before(setup.create).make(setup.create.name, (), kind)
    # Each thread fences what it initialised before it meets the others.
    if setup.meeting is None:
        write_fence({"workgroup"}, after(setup.last_init), setup.create.location)
    for init in setup.inits:
        index = operand(init, "index")
        assert index is not None
        start = (constant_value(index) or 0) * versions
        write = IntegerWriter.before(init)
        _initialised(init, group, range(start, start + versions), write)
        if init == setup.inits[-1] and not setup.fenced:
            write_mbarrier_fences(write)
        init.erase()
    return group


def write_empty(
    setup: MbarrierSetup, versions: int, arrivals: int | Callable[[IntegerWriter], Value]
) -> Value:
    """A group whose mbarrier n is over when slot n was given back, by so many arrivals, or as many as is written."""
    first = setup.inits[0]
    kind = _group_of(setup.create.results[0].type, versions)
    group = OpWriter.before(setup.create).make(setup.create.name, (), kind)
    write = IntegerWriter.before(first)
    count = write.constant(arrivals) if isinstance(arrivals, int) else arrivals(write)
    for made in _initialised(first, group, range(versions), write):
        made.operands[operand_number(made, "arrivals")] = count
    return group


def _group_of(kind: Any, count: int) -> Any:
    text = str(kind)
    number = f"num_barriers = {count}"
    changed, found = re.subn(r"num_barriers = \d+", number, text)
    return ir.Type.parse(changed if found else f"{text[:-1]}, {number}>", kind.context)


def _initialised(
    init: Operation, group: Value, numbers: range, write: IntegerWriter
) -> list[Operation]:
    made = []
    for number in numbers:
        which = write.constant(number)
        made.append(clone(init, {}, before(init)))
        made[-1].operands[operand_number(init, "barrier")] = group
        made[-1].operands[operand_number(init, "index")] = which
    return made


# Gives slots back to those who fill them: to one's own block, or to all blocks of the cluster that copy
# into it. One lane of each warp arrives, after the wait that covers the products of the tile (docs/phases.md).
#
# nvgpu.mbarrier.arrive %empty[slot]     -->     %at = nvgpu.mbarrier.get %empty[slot]
#                                                %there = nvvm.mapa %at, 0; nvvm.mbarrier.arrive %there
#                                                %there = nvvm.mapa %at, 1; nvvm.mbarrier.arrive %there
#
# All blocks meet when the mbarriers are initialised, and at the end: a block must not end while others
# arrive at its mbarriers. Where blocks do not all copy into each other, bit q of a constant for block r says
# whether the readers of block q arrive there.


@dataclass(frozen=True)
class SlotReturns:
    """Arrivals at `empty` of each warp that has read a slot: of the lane for which `arrives` holds.
    `meets_lanes`: lanes read tiles one by one, so that a warp meets before one arrives for all."""

    empty: Value
    blocks: Blocks
    arrives: Value
    meets_lanes: bool

    def write(self, slot: Value, exists: Value | None, write: IntegerWriter) -> None:
        """One lane of each warp arrives for all, if there is such a tile."""
        ip, loc, arrives = write.ip, write.location, self.arrives
        if self.meets_lanes:
            write_warp_barrier(ip, loc)
        if exists is not None:
            arrives = write.binary("arith.andi", exists, arrives)
        branch = write_if(arrives, (), None, ip, loc)
        self.blocks.arrive(self.empty, slot, IntegerWriter(at_end_of(branch.regions[0]), loc))


class Blocks:
    """Writes arrivals of `warps` of each block; without a `cluster` for one block."""

    def __init__(self, cluster: ClusterPlan | None, warps: int) -> None:
        self.cluster = cluster
        self.warps = warps
        # Whether the readers of this block arrive in each block; None: all do.
        self.reach: list[Value | None] = []

    def arrivals(self, write: IntegerWriter) -> Value:
        if self.cluster is None:
            return write.constant(self.warps)
        counts = [self.warps * targets.bit_count() for targets in self.cluster.targets]
        made = write.constant(counts[0])
        if len(set(counts)) > 1:
            rank = _rank(write)
            for number, count in enumerate(counts[1:], 1):
                here = write.compare("eq", rank, number)
                made = write.select(here, write.constant(count), made)
        return made

    def meet_first(self, setups: tuple[MbarrierSetup, ...]) -> None:
        """All blocks see the mbarriers of all others; the input's other meetings go."""
        if self.cluster is None:
            return
        for op in self.cluster.dropped:
            op.erase()
        if self.cluster.met is None:
            order = operations(setups[0].create.block)
            last = max((setup.meeting or setup.last_init for setup in setups), key=order.index)
            _meet(after(last), last.location)

    def meet_last(self, end: Operation) -> None:
        """No block ends before all others are done with its mbarriers."""
        if self.cluster is not None:
            _meet(before(end), end.location)

    def read_rank(self, write: IntegerWriter) -> None:
        """Ask once which block this is."""
        if self.cluster is None:
            return
        count = len(self.cluster.targets)
        everybody, rank = (1 << count) - 1, None
        for targets in self.cluster.targets:
            if targets == everybody:
                self.reach.append(None)
                continue
            rank = rank or _rank(write)
            bit = write.binary("arith.shrui", write.constant(targets, rank.type), rank)
            i1 = ir.IntegerType.get_signless(1, write.context)
            self.reach.append(write.cast("arith.trunci", bit, i1))

    def arrive(self, empty: Value, slot: Value, write: IntegerWriter) -> None:
        """One arrival in each block that waits for it."""
        context, loc = write.context, write.location
        if self.cluster is None:
            token = ir.Type.parse("!nvgpu.mbarrier.token", context)
            write.make("nvgpu.mbarrier.arrive", [empty, slot], token)
            return
        i32 = ir.IntegerType.get_signless(32, context)
        here = mbarrier_pointer(write, empty, slot, ir.Type.parse("!llvm.ptr<3>", context))
        of_cluster = ir.Type.parse("!llvm.ptr<7>", context)
        for rank, reaches in enumerate(self.reach):
            number, ip = write.constant(rank, i32), write.ip
            if reaches is not None:
                ip = at_end_of(write_if(reaches, (), None, ip, loc).regions[0])
            inside = OpWriter(ip, loc)
            there = inside.make(MAPA, [here, number], of_cluster)
            inside.op("nvvm.mbarrier.arrive", [there])


def first_lane(thread: Value, write: IntegerWriter) -> Value:
    return write.compare("eq", write.remainder(thread, WARP), 0)


def _rank(write: IntegerWriter) -> Value:
    return write.make(CLUSTER_RANK, (), ir.IntegerType.get_signless(32, write.context))


def _meet(ip: Any, loc: Any) -> None:
    create("nvvm.cluster.arrive", ip=ip, loc=loc)
    create("nvvm.cluster.wait", ip=ip, loc=loc)
