"""Makes and initialises V mbarriers where a loop of tensor copies had one.

%full = nvgpu.mbarrier.create                     … num_barriers = V
nvgpu.mbarrier.init %full[%c0], %c1      -->      nvgpu.mbarrier.init %full[0 … V-1], %c1
gpu.barrier                                       nvvm.fence.mbarrier.init, nvvm.fence.proxy
                                                  gpu.barrier
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    attribute,
    before,
    clone,
    constant_value,
    create,
)
from mlir_async_pipe.facts.loops.transactions import (
    Completion,
    Transaction,
    mbarrier_pointer,
    operand,
    operand_number,
)
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.plan.mbarrier_setup import MbarrierSetup
from mlir_async_pipe.vocabulary.barriers import write_fence

# How long a try_wait sleeps at most before it looks again, in ticks.
TICKS = 10_000_000

# Writes how many arrivals make a phase.
Arrivals = Callable[[IntegerWriter], Value]


def write_mbarriers(setup: MbarrierSetup, versions: int) -> Value:
    """The new group; mbarrier n of the old one is mbarriers n V … n V + V - 1 of it."""
    made = create(
        setup.create.name,
        (),
        [_group_of(setup.create.results[0].type, setup.count * versions)],
        ip=before(setup.create),
        loc=setup.create.location,
    )
    group = made.results[0]
    # Each thread fences what it initialised before it meets the others.
    if setup.meeting is None:
        write_fence({"workgroup"}, after(setup.last_init), setup.create.location)
    for init in setup.inits:
        _initialise(init, group, versions)
        if init == setup.inits[-1] and not setup.fenced:
            _write_fences(before(init), init.location)
        init.erase()
    return group


def write_empty(setup: MbarrierSetup, versions: int, arrivals: Arrivals) -> Value:
    """A group whose mbarrier n is over when slot n was given back, by so many arrivals."""
    first = setup.inits[0]
    kind = _group_of(setup.create.results[0].type, versions)
    made = create(setup.create.name, (), [kind], ip=before(setup.create), loc=setup.create.location)
    write = IntegerWriter(before(first), first.location)
    count = arrivals(write)
    for slot in range(versions):
        which = write.constant(slot)
        copy = clone(first, {}, before(first))
        copy.operands[operand_number(copy, "barrier")] = made.results[0]
        copy.operands[operand_number(copy, "arrivals")] = count
        copy.operands[operand_number(copy, "index")] = which
    return made.results[0]


def write_wait(write: IntegerWriter, group: Value, number: Value, parity: Value) -> Operation:
    """Wait until the phase of a parity is over."""
    wait = [group, parity, write.constant(TICKS), number]
    return create("nvgpu.mbarrier.try_wait.parity", wait, ip=write.ip, loc=write.location)


def name_mbarrier(
    op: Operation,
    phase: Transaction | Completion,
    groups: dict[Value, Value],
    slot: Value,
    ring: Ring,
) -> None:
    """Let an op name the mbarrier of a slot, in the new group or by a pointer to it."""
    write = IntegerWriter(before(op), op.location)
    number = ring.mbarrier(phase.number, slot, write)
    group, at = groups[phase.barriers], operand_number(op, "barrier")
    if operand(op, "index") is None:
        op.operands[at] = mbarrier_pointer(write, group, number, op.operands[at].type)
        return
    op.operands[at] = group
    op.operands[operand_number(op, "index")] = number


def _group_of(kind: Any, count: int) -> Any:
    text = str(kind)
    number = f"num_barriers = {count}"
    changed, found = re.subn(r"num_barriers = \d+", number, text)
    return ir.Type.parse(changed if found else f"{text[:-1]}, {number}>", kind.context)


def _initialise(init: Operation, group: Value, versions: int) -> None:
    index = operand(init, "index")
    assert index is not None
    number = constant_value(index) or 0
    write = IntegerWriter(before(init), init.location)
    for slot in range(versions):
        which = write.constant(number * versions + slot)
        copy = clone(init, {}, before(init))
        copy.operands[operand_number(copy, "barrier")] = group
        copy.operands[operand_number(copy, "index")] = which


def _write_fences(ip: Any, loc: Any) -> None:
    context = loc.context
    create("nvvm.fence.mbarrier.init", ip=ip, loc=loc)
    kinds = {
        "kind": attribute("#nvvm.proxy_kind<async.shared>", context),
        "space": attribute("#nvvm.shared_space<cta>", context),
    }
    create("nvvm.fence.proxy", (), (), kinds, ip=ip, loc=loc)
