"""Writes a loop of tensor copies with its copies d tiles ahead, on V slots.

    for k { expect, copy, wait, use, barrier }        copy tiles 0 … d-1, if there are so many
                                               -->    for k, slot, phase {
                                                        wait for the phase of the slot
                                                        use the slot; leave p products in flight
                                                        barrier
                                                        copy tile k + d, if there is one
                                                      }

There is no epilogue: the condition of the copies ends them. They are issued by one thread, which
`elect.sync` picks in warp 0: of a thread id ptxas cannot know that it names one thread, and writes
a loop over lanes around each copy. The phase flips when the slot is 0 again, and both go on through
the loops around this one, since the mbarriers do.

Commits of products get an mbarrier for each slot, too, and their waits are for tile t - p:

    commit %done[%c0]                      commit %done[slot]
    try_wait %done[%c0], %phase     -->    try_wait %done[slot of tile t - p], its phase
                                           …
                                           after the loop: try_wait for the last p tiles

t counts since the initialisation, so before the first p tiles the waits are for phase -1, which is over
from the start; in later executions of the loop they are for tiles that the one before has waited for.
With V = d + p tile t - p is in the slot that the copies of iteration t fill, with V = d + p + 1 in the
next one, and with more slots, which another loop of the ring needs, it is p before that of tile t.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    again,
    before,
    clone,
    constant_value,
    create,
    defining_op,
    is_used,
    operations,
    set_integer,
    terminator,
    users,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.transactions import (
    Completion,
    Transaction,
    handle_of,
    operand,
    operand_number,
    wait_attribute,
)
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.facts.values.uniformity import compared_thread, conjunction
from mlir_async_pipe.pipeliner.expand.write.carried_ring import Way, between, carry
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.ring_mbarriers import name_mbarrier, write_mbarriers
from mlir_async_pipe.pipeliner.expand.write.ring_slots import show_slot
from mlir_async_pipe.pipeliner.expand.write.role_threads import elect
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.vocabulary.barriers import write_fence

# Threads of a warp: the first one issues.
WARP = 32


def write_ring(
    plans: tuple[RingPlan, ...],
    buffers: list[list[VersionedBuffer]],
    make: Callable[..., RingWriter] | None = None,
) -> None:
    """Write the planned loops on the same mbarriers, each with its buffers, by the writer
    that `make` gives, or a `RingWriter`."""
    first, setups = plans[0], plans[0].setups
    old = [setup.create for setup in setups]
    chains = [between(old[0], plan.loop) for plan in plans]
    groups = {s.create.results[0]: write_mbarriers(s, first.versions) for s in setups}
    writers = [(make or RingWriter)(*each, groups) for each in zip(plans, buffers, strict=True)]
    ip = before([*chains[0], first.loop][0])
    write = Integers(first.loop, first.ahead, 0, first.trip_count, ip)
    ways = [Way((*c, w.kernel), w.write) for c, w in zip(chains, writers, strict=True)]
    carry(ways, Ring.start(write))
    for create_op in old:
        create_op.erase()
    # What a loop hands on to the next one is idle when that one does without.
    for writer in reversed(writers):
        drop_idle_values(writer.kernel)


class RingWriter:
    """Writes the parts of one loop, in the order of its methods."""

    def __init__(
        self, plan: RingPlan, buffers: list[VersionedBuffer], groups: dict[Value, Value]
    ) -> None:
        self.plan = plan
        self.ring = Ring(plan.versions)
        self.buffers = buffers
        # The loop as it is now: its body moves from the input's to the kernel.
        self.kernel = plan.loop
        self.context = plan.loop.context
        self.groups = groups
        # What the values around the loop are where tiles are issued, as far as they differ.
        self.outside: dict[Value, Value] = {}
        # Elected once for the prologue, and in each iteration again: ptxas sees there only that
        # one thread goes on.
        self.elected: Value | None = None

    def write(self, slot: Value, phase: Value) -> list[Value]:
        """Prologue and kernel; returns slot and phase after them."""
        plan, loop = self.plan, self.kernel
        self.integers = Integers(loop, plan.ahead, 0, plan.trip_count, before(loop))
        initial = list(loop.operands)[3:]
        advanced = [initial[number] for number in plan.issue.advanced]
        ahead = slot
        for t in range(plan.ahead):
            exists = self._has_iteration(t)
            self._wait_for_slot(slot, phase, ahead, t, exists)
            advanced = self._issue(self.integers.first_plus(t), advanced, ahead, exists)
            ahead = self.ring.next(ahead, self.integers)
        carried = [slot, phase, ahead, *advanced]
        kinds = [value.type for value in [*loop.results, *carried]]
        self.kernel = again(loop, [*loop.operands, *carried], kinds)
        self._kernel(len(carried))
        names.forget(self.kernel)
        names.remove(self.kernel, names.LOOP_NAMES)
        slot, phase = list(self.kernel.results)[-len(carried) :][:2]
        if plan.products.completions:
            drain_commits(plan, self.kernel, self.groups, slot, phase)
        elif plan.in_flight:
            self._drain(slot)
        return [slot, phase]

    def _drain(self, slot: Value) -> None:
        """After the loop, whose next tile goes to `slot`, no product is in flight."""
        self._wait_for_products()

    def _wait_for_products(self) -> Operation:
        name = "nvvm.wgmma.wait.group.sync.aligned"
        made = create(name, ip=after(self.kernel), loc=self.kernel.location)
        set_integer(made, wait_attribute(made) or "", 0, 64)
        return made

    def _has_iteration(self, t: int) -> Value | None:
        """An i1, or None where the loop surely has so many."""
        integers = self.integers
        if (self.plan.trip_count or 0) > t:
            return None
        any_at_all = integers.before_end(integers.lower)
        if t == 0:
            return any_at_all
        goes_on = integers.goes_on_for(integers.lower, t)
        return integers.binary("arith.andi", any_at_all, goes_on)

    def _kernel(self, carried: int) -> None:
        block = _block(self.kernel)
        kinds = [value.type for value in list(self.kernel.operands)[-carried:]]
        slot, phase, ahead, *advanced = [
            block.add_argument(kind, self.kernel.location) for kind in kinds
        ]
        plan, integers = self.plan, self.integers
        end = terminator(block)
        place = self._place_of_copies(end)
        integers.enter(before(place))
        self.elected = None
        variable = block.arguments[0]
        exists = self._free_slot(variable, slot, phase, ahead, place)
        later = integers.plus_steps(variable, plan.ahead)
        advanced = self._issue(later, advanced, ahead, exists)
        self._wait_for_tiles(slot, phase)
        self._drop_input()
        show_slot(self.buffers, slot, operations(block))
        self._leave_products()
        write_commits(plan, integers, self.groups, slot, phase, ahead)
        integers.enter(before(end))
        following = self.ring.advance(slot, phase, integers)
        next_ahead = self.ring.at(plan.ahead + 1, {0: slot, plan.ahead: ahead}, integers)
        yielded = [*following, next_ahead, *advanced]
        again(end, [*end.operands, *yielded])

    def _place_of_copies(self, end: Operation) -> Operation:
        """The op before which the barrier and the copies stand."""
        if not self.plan.copies_first:
            return end
        first = self.plan.transactions[0].wait
        order = operations(first.block)
        return order[order.index(first) + 1]

    def _free_slot(
        self, variable: Value, slot: Value, phase: Value, ahead: Value, place: Operation
    ) -> Value:
        """Before the copies of tile t + d: nobody reads its slot any more. Returns whether there is
        such a tile, as an i1."""
        if not self.plan.after_barrier:
            self._write_barrier(before(place))
        return self.integers.goes_on_for(variable, self.plan.ahead)

    def _wait_for_slot(
        self, slot: Value, phase: Value, ahead: Value, tiles: int, exists: Value | None
    ) -> None:
        """Before the copies of a tile of the prologue: barriers have freed its slot."""

    def _write_barrier(self, ip: Any) -> None:
        dropped = self.plan.dropped
        if dropped:
            clone(dropped[-1], {}, ip)
        else:
            write_fence({"workgroup"}, ip, self.kernel.location)

    # -- one tile ------------------------------------------------------------------------------

    def _issue(
        self, variable: Value, advanced: list[Value], slot: Value, exists: Value | None
    ) -> list[Value]:
        """Copy the tile of an iteration into a slot, if it exists; returns what the iteration
        after it has of the values that the loop carries."""
        issue, block, ip = self.plan.issue, _block(self.kernel), self.integers.ip
        arguments = list(block.arguments)
        mapping: dict[Value, Value] = {**self.outside, arguments[0]: variable}
        for number, value in zip(issue.advanced, advanced, strict=True):
            mapping[arguments[number + 1]] = value
        by_thread = self._in_one_thread(exists)
        copies = [(op, clone(op, mapping, ip)) for op in issue.ops]
        for _, copy in copies:
            names.remove(copy, [name for name in names.OP_NAMES if name != names.INDEPENDENT])
        of_original = dict(copies)
        for transaction in self.plan.transactions:
            for op in (transaction.expect, *transaction.copies):
                copy = of_original[op]
                self._name_mbarrier(copy, transaction, slot)
                predicate = self._predicate(op, mapping, by_thread, exists, before(copy))
                copy.operands[operand_number(copy, "predicate")] = predicate
        show_slot(self.buffers, slot, [copy for _, copy in copies])
        yielded = list(terminator(block).operands)
        return [mapping.get(yielded[number], yielded[number]) for number in issue.advanced]

    def _in_one_thread(self, exists: Value | None) -> Value | None:
        """An i1 that holds in one thread of warp 0 where the tile exists; None where the
        predicates of the input stay."""
        leader = self.plan.issue.leader
        if leader is None:
            return None
        integers = self.integers
        if self.elected is None:
            one = elect(integers.ip, integers.location)
            thread = compared_thread(leader)
            assert thread is not None
            first = integers.compare("ult", thread, WARP)
            self.elected = integers.binary("arith.andi", one, first)
        if exists is None:
            return self.elected
        return integers.binary("arith.andi", exists, self.elected)

    def _predicate(
        self,
        op: Operation,
        mapping: dict[Value, Value],
        elected: Value | None,
        exists: Value | None,
        ip: Any,
    ) -> Value:
        """The condition of one op: the input's, in the elected thread instead of thread 0."""
        given = operand(op, "predicate")
        assert given is not None
        parts = conjunction(given)
        if elected is not None:
            parts = [part for part in parts if part != self.plan.issue.leader]
        start = elected if elected is not None else exists
        result = start
        for part in parts:
            value = mapping.get(part, part)
            if result is None:
                result = value
            else:
                made = create("arith.andi", [result, value], [value.type], ip=ip, loc=op.location)
                result = made.results[0]
        assert result is not None
        return result

    def _name_mbarrier(self, op: Operation, transaction: Transaction, slot: Value) -> None:
        name_mbarrier(op, transaction, self.groups, slot, self.ring)

    # -- the body of the kernel ----------------------------------------------------------------

    def _drop_input(self) -> None:
        """Erase the input's copies, what only they needed, and the barriers that are replaced."""
        for op in self.plan.dropped:
            op.erase()
        issuing = {op for t in self.plan.transactions for op in (t.expect, *t.copies)}
        handles = [handle for op in issuing if (handle := handle_of(op)) is not None]
        for op in reversed(self.plan.issue.ops):
            if op in issuing or not any(map(is_used, op.results)):
                op.erase()
        for handle in dict.fromkeys(handles):
            for pointer in users(handle.results[0]):
                pointer.erase()
            handle.erase()

    def _wait_for_tiles(self, slot: Value, phase: Value) -> None:
        for transaction in self.plan.transactions:
            wait = transaction.wait
            self._name_mbarrier(wait, transaction, slot)
            wait.operands[operand_number(wait, "phase")] = phase

    def _leave_products(self) -> None:
        """Each wait leaves the groups of p iterations in flight; without any, the last leaves
        none."""
        products = self.plan.products
        left = self.plan.in_flight * products.groups
        for op in products.waits if left else products.waits[-1:]:
            set_integer(op, wait_attribute(op) or "", left, 64)


def _block(op: Operation) -> Any:
    return op.regions[0].blocks[0]


def write_commits(
    plan: RingPlan,
    integers: Integers,
    groups: dict[Value, Value],
    slot: Value,
    phase: Value,
    ahead: Value,
) -> None:
    """Let each commit of the kernel arrive for its slot, and each wait be for tile t - p."""
    ring = Ring(plan.versions)
    for completion in plan.products.completions:
        _move_commit(completion, groups, slot, ring)
        integers.enter(before(completion.wait))
        its_slot, its_phase = slot, phase
        if plan.in_flight:
            its_slot = ring.at(-plan.in_flight, {0: slot, plan.ahead: ahead}, integers)
            its_phase = ring.earlier_phase(phase, slot, its_slot, integers)
        _wait_for(completion.wait, completion, groups, its_slot, its_phase, ring)


def drain_commits(
    plan: RingPlan, kernel: Operation, groups: dict[Value, Value], slot: Value, phase: Value
) -> None:
    """After the kernel wait for the last p tiles; `slot` and `phase` are those of the next one."""
    ring = Ring(plan.versions)
    integers = IntegerWriter(after(kernel), kernel.location)
    for back in range(plan.in_flight, 0, -1):
        its_slot = ring.before(slot, back, integers)
        its_phase = ring.earlier_phase(phase, slot, its_slot, integers)
        for completion in plan.products.completions:
            wait = clone(completion.wait, {}, integers.ip)
            ticks = operand_number(wait, "ticks")
            given = wait.operands[ticks]
            write = IntegerWriter(before(wait), wait.location)
            wait.operands[ticks] = write.constant(constant_value(given) or 0, given.type)
            _wait_for(wait, completion, groups, its_slot, its_phase, ring)


def _move_commit(
    completion: Completion, groups: dict[Value, Value], slot: Value, ring: Ring
) -> None:
    pointer = defining_op(completion.commit.operands[0])
    name_mbarrier(completion.commit, completion, groups, slot, ring)
    if pointer is not None:
        pointer.erase()
        completion.get.erase()


def _wait_for(
    wait: Operation,
    completion: Completion,
    groups: dict[Value, Value],
    slot: Value,
    phase: Value,
    ring: Ring,
) -> None:
    name_mbarrier(wait, completion, groups, slot, ring)
    wait.operands[operand_number(wait, "phase")] = phase
