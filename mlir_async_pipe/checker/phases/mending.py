"""A path goes on after a fault that was reported already, as if what is missing there stood there.

    read in flight        the phase of the copy is over      the next fault does not follow from this one
    missing fence         the write is fenced; of registers, all that their threads touched is
    deadlock              the phase has all its arrivals     no run of the kernel comes here

A fault ends its path, so one that comes after it is not met. The kernel is followed again with the
first ones forgiven. What `stops` a kernel for good leaves no execution after it: what comes then is
not certain.

Roles: a conflict that was reported, and those that may follow from it, are no fault; a wait that was
reported for its parity waits for the next phase; who may come a phase too early knows that it is over.
"""

from __future__ import annotations

from typing import Literal

from mlir_async_pipe.checker.phase_faults import CONFLICTS, Ends, Forgiven, FoundFault, PhaseFault
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.mbarrier_state import Issued, Mbarrier, over, passed
from mlir_async_pipe.checker.phases.path_state import Effect, Spot
from mlir_async_pipe.checker.phases.registers_in_flight import EVERYBODY, Plan, Registers

# What would not be if the block met right before.
MISSING_BARRIERS = ("phase-overtaken", "missing-barrier", "not-visible")
# Waits that should have been for another phase.
_OF_WAITS = ("deadlock", "wrong-parity", "phase-not-flipped")
# Faults that are mended in one run of an op.
MOST_MENDED = 8

Next = Literal["again", "skip"]
"""Do the op, on what was mended, or leave it out."""


def _without(queue: Issued, op: int) -> Issued:
    groups = tuple(tuple(t for t in group if t.op != op) for group in queue.groups)
    return Issued(tuple(t for t in queue.open if t.op != op), groups)


def _mend(memory: BlockMemory, fault: PhaseFault, mask: int) -> Next | None:
    """Make the memory what it would be without a fault. Between roles conflicts and wrong parities are none
    to it (`Forgiven`), and what nobody goes on after ends the path."""
    found = fault.found
    op, code = found.earlier, found.code
    at = [(key, one) for key, one in memory.mbarriers.items() if one.column == fault.column]
    if memory.together and code in _OF_WAITS:
        return _pass(memory, fault, mask)
    if memory.together and code in MISSING_BARRIERS:
        memory.meet()
        return "again"
    if code == "missing-fence":
        for write, one in memory.generic.items():
            if write.op == op:
                memory.generic[write] = one._replace(fenced=True, after=one.after | mask)
    elif code == "missing-tensor-fence":
        for load, read in memory.tensor.loads.items():
            if load.op == op and read.fenced is None:
                memory.tensor.loads[load] = read._replace(fenced=read.landed)
        memory.tensor.fence_after(mask, memory.clocks)
    elif code == "initialised-again" or (code == "too-many-arrivals" and not at):
        return "skip"
    elif code == "barrier-not-initialised" or (code == "wrong-bytes" and not at):
        return None
    elif code == "unwaited-copy":
        _forget(memory, op)
    elif code in CONFLICTS and memory.together:
        _end(memory, found)
    elif code in CONFLICTS:
        memory.tensor.loads = {k: v for k, v in memory.tensor.loads.items() if k.op != op}
        memory.tensor.products = {k: v for k, v in memory.tensor.products.items() if k.op != op}
    for key, barrier in memory.mbarriers.items():
        if barrier.init == op and code == "missing-fence":
            memory.mbarriers[key] = barrier._replace(fenced=True, fence=())
        elif barrier.init == op and code == "init-not-visible":
            # The barrier that is missing would come after the fence, too.
            memory.mbarriers[key] = barrier._replace(born=(), fence=())
    for key, barrier in at:
        waits = tuple(one for one in barrier.waits if one.op != op)
        if found.may_pass:
            memory.catch_up(mask)
        elif code == "wrong-bytes":
            expected = (barrier.running.expected or 0) - fault.surplus
            running = barrier.running._replace(expected=expected)
            memory.mbarriers[key] = barrier._replace(running=running)
            memory.advance(key)
        elif waits != barrier.waits:
            memory.mbarriers[key] = barrier._replace(waits=waits)
        else:
            memory.catch_up(mask)
    return "again"


def _forget(memory: BlockMemory, op: int) -> None:
    """What an op has issued is over."""
    for key, barrier in memory.mbarriers.items():
        copies = tuple(copy for copy in barrier.running.copies if copy.op != op)
        running = barrier.running._replace(copies=copies)
        memory.mbarriers[key] = barrier._replace(running=running)
    memory.brought = {k: one for k, one in memory.brought.items() if one.copy.op != op}
    memory.queues = {who: _without(queue, op) for who, queue in memory.queues.items()}
    memory.tensor.products = {k: v for k, v in memory.tensor.products.items() if k.op != op}


def _pass(memory: BlockMemory, fault: PhaseFault, mask: int) -> Next | None:
    """A wait that should have been for the running phase, which has all that it needs or, if not, hangs."""
    key = fault.at
    if key is None:
        return None
    before = memory.mbarriers[key]
    if fault.found.code == "deadlock" or before.running.arrived >= before.needs:
        memory.mbarriers[key] = before = over(before)
    elif memory.clocks.passed(mask, before.column) >= before.over:
        return None
    memory.mbarriers[key] = _waited(memory, before, fault.found.later, mask)
    return "skip"


def _waited(memory: BlockMemory, barrier: Mbarrier, op: int, mask: int) -> Mbarrier:
    """The mbarrier after a wait for the phase before the running one."""
    parity = barrier.parity(barrier.over - 1)
    return passed(barrier, memory.clocks, op, mask, parity)._replace(last=None)


def _end(memory: BlockMemory, found: FoundFault) -> None:
    """What an op copies, stores or reads is over for all, as if they waited for it before the later one."""
    op = found.earlier
    late = {one.column for one in memory.brought.values() if one.copy.op == op}
    if found.code in ("read-in-flight", "overwrite-in-flight"):
        for key, barrier in memory.mbarriers.items():
            if barrier.column in late:
                everybody = memory.everybody
                memory.mbarriers[key] = _waited(memory, barrier, found.later, everybody)
    memory.put = {touch: event for touch, event in memory.put.items() if touch.op != op}
    memory.over = {
        (reads, queue): event
        for (reads, queue), event in memory.over.items()
        if all(read.op != op for read in reads)
    }
    memory.queues = {who: _without(queue, op) for who, queue in memory.queues.items()}


def forgiving(effect: Effect, op: int, forgiven: Forgiven) -> Effect:
    """The effect of an op (below 0: the block's end), done again on what is mended after a fault that is forgiven."""
    lacks_barrier = any(
        later == op and code in MISSING_BARRIERS for code, later, _ in forgiven.ends
    )

    def execute(spot: Spot) -> None:
        memory, mask = spot.memory, spot.mask or 0
        if memory.together and lacks_barrier:
            memory.meet()
        elif mask & memory.forgiven.late:
            memory.catch_up(mask)
        before, mended = memory.copy(), MOST_MENDED
        while True:
            try:
                return effect(spot)
            except PhaseFault as fault:
                if fault.found.ends not in forgiven.ends or not mended:
                    raise
                vars(memory).update(vars(before.copy()))
                answer = _mend(memory, fault, mask)
                if answer is None:
                    raise
                if answer == "skip":
                    return None
                before, mended = memory.copy(), mended - 1

    return execute


def forgiving_registers(plan: Plan, forgiven: Forgiven) -> Plan:
    """What an op does to registers, with faults that are `forgiven` mended."""

    def execute(registers: Registers, mask: int | None) -> None:
        reported: set[Ends] = set()
        while True:
            try:
                return plan(registers, mask)
            except PhaseFault as fault:
                ends = fault.found.ends
                if ends not in forgiven.ends or ends in reported:
                    raise
                reported.add(ends)
                if fault.found.code == "missing-register-fence":
                    registers.fence(EVERYBODY if mask is None else mask)
                else:
                    registers.complete(fault.found.earlier)

    return execute
