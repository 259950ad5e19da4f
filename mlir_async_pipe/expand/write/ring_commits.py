"""Gives the commits of products in a ring an mbarrier for each slot, and their waits p tiles back.

commit %done[%c0]                      commit %done[slot]
try_wait %done[%c0], %phase     -->    try_wait %done[slot of tile t - p], its phase
                                       …
                                       after the loop: try_wait for the last p tiles

t counts since the initialisation, so before the first p tiles the waits are for phase -1, which is over
from the start; in later executions of the loop they are for tiles that the one before has waited for.
With V = d + p tile t - p is in the slot that the copies of iteration t fill, with V = d + p + 1 in the
next one, and with more slots, which another loop of the ring needs, it is p before that of tile t. Its phase
is that of tile t, or the one before if its slot is a higher one.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    before,
    clone,
    constant_value,
    defining_op,
)
from mlir_async_pipe.expand.write.integers import Integers
from mlir_async_pipe.expand.write.ring_mbarriers import name_mbarrier
from mlir_async_pipe.loops.tensor_commits import Completion
from mlir_async_pipe.loops.transactions import operand_number
from mlir_async_pipe.plan.ring_plan import RingPlan
from mlir_async_pipe.values.integer_writer import IntegerWriter
from mlir_async_pipe.values.ring import Ring


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
