"""A path goes on after a fault that was told already, as if what is missing there stood there.

    read in flight        the phase of the copy is over      the next fault does not follow from this one
    missing fence         the write is fenced; of registers, all that their threads touched is
    deadlock              the phase has all its arrivals     no run of the kernel comes here

A fault ends its path, so one that comes after it is not met. The kernel is followed again with the
first ones forgiven. What `stops` a kernel for good leaves no execution after it: what comes then is
not certain.

Roles: a conflict that was told, and those that may follow from it, are no fault; a wait that was
told for its parity waits for the next phase; who may come a phase too early knows that it is over.
"""

from __future__ import annotations

from typing import Literal

from mlir_async_pipe.checker.phase_faults import (
    CONFLICTS,
    Ends,
    Forgiven,
    FoundFault,
    PhaseFault,
)
from mlir_async_pipe.checker.phases import arrivals
from mlir_async_pipe.checker.phases.arrivals import Key, Mbarrier
from mlir_async_pipe.checker.phases.async_memory import AsyncMemory
from mlir_async_pipe.checker.phases.generic_effects import Effect
from mlir_async_pipe.checker.phases.path_state import Spot
from mlir_async_pipe.checker.phases.registers_in_flight import EVERYBODY, Plan, Registers
from mlir_async_pipe.checker.phases.role_memory import RoleMemory
from mlir_async_pipe.checker.phases.touches import Issued

# What would not be if the block met right before.
MISSING_BARRIERS = ("phase-overtaken", "missing-barrier", "not-visible")
# Faults that are mended in one run of an op.
MOST_MENDED = 8

Next = Literal["again", "skip"]
"""Do the op, on what was mended, or leave it out."""


def mend(memory: AsyncMemory, fault: PhaseFault, mask: int) -> Next | None:
    """Make the memory what it would be without a fault of threads; None if nothing helps."""
    found = fault.found
    before = memory.key()
    if found.code == "initialised-again":
        return "skip"
    if found.code in ("wrong-parity", "phase-not-flipped", "deadlock", "too-many-arrivals"):
        return _pass(memory, fault.at, found, mask) if fault.at else None
    elif found.code == "wrong-bytes" and fault.at:
        _announce(memory.barriers, fault.at, fault.surplus)
    elif found.code in MISSING_BARRIERS:
        memory.meet()
    else:
        _mend_block(memory, found)
    return "again" if memory.key() != before else None


def _announce(barriers: dict[Key, Mbarrier], key: Key, surplus: int) -> None:
    """The bytes that come are those that were announced."""
    *others, last = barriers[key].phases
    last = last._replace(expected=(last.expected or 0) - surplus)
    barriers[key] = barriers[key]._replace(phases=(*others, last))


def _mend_block(memory: AsyncMemory, found: FoundFault) -> None:
    op = found.earlier
    for name in ("landed", "fetched", "stored"):
        setattr(memory, name, frozenset(t for t in getattr(memory, name) if t.op != op))
    fenced = found.code == "missing-fence"
    memory.written = frozenset(
        one._replace(fenced=True) if one.touch.op == op else one
        for one in memory.written
        if fenced or one.touch.op != op
    )
    memory.reads = frozenset(one for one in memory.reads if one[0].op != op)
    memory.queues = {who: _without(queue, op) for who, queue in memory.queues.items()}
    for key, barrier in memory.barriers.items():
        memory.barriers[key] = _mended(barrier, found, memory.everybody)


def _without(queue: Issued, op: int) -> Issued:
    groups = tuple(tuple(t for t in group if t.op != op) for group in queue.groups)
    return Issued(tuple(t for t in queue.open if t.op != op), groups)


def _mended(barrier: Mbarrier, found: FoundFault, everybody: int) -> Mbarrier:
    first = barrier.phases[0] if barrier.phases else arrivals.RunningPhase()
    match found.code:
        case "missing-fence" if barrier.init == found.earlier:
            return barrier._replace(fenced=True, shown=True)
        case "init-not-visible" if barrier.init == found.earlier:
            return barrier._replace(visible=True)
        case "read-in-flight" | "overwrite-in-flight" | "unwaited-copy":
            late = any(copy.op == found.earlier for copy in first.copies)
            if late and first.arrived >= barrier.needs:
                return _over(barrier, found.later, everybody)
    return barrier


def _over(barrier: Mbarrier, op: int, mask: int) -> Mbarrier:
    """The mbarrier after a wait for its running phase."""
    return barrier._replace(
        parity=1 - barrier.parity,
        phases=barrier.phases[1:],
        waited=(op, mask),
        last=None,
        some=None,
    )


def _pass(memory: AsyncMemory, key: Key, found: FoundFault, mask: int) -> Next | None:
    """A wait that should have been for the running phase, which has all that it needs or, if nobody
    brings it, hangs. An arrival too many is none."""
    if found.code != "too-many-arrivals":
        barrier = memory.barriers[key]
        complete = bool(barrier.phases) and barrier.phases[0].arrived >= barrier.needs
        if not complete and found.code != "deadlock":
            return None
        memory.barriers[key] = _over(barrier, found.later, mask)
    return "skip"


def _mend_roles(memory: RoleMemory, fault: PhaseFault, mask: int) -> Next | None:
    """Make the memory of roles what it would be without a fault; conflicts and wrong parities are none
    to it (`Forgiven`). What nobody goes on after ends the path."""
    found = fault.found
    op, code = found.earlier, found.code
    at = [(key, one) for key, one in memory.shared.items() if one.column == fault.column]
    if code == "missing-fence":
        for write, one in memory.generic.items():
            if write.op == op:
                memory.generic[write] = one._replace(fenced=True)
    elif code == "missing-tensor-fence":
        for load, read in memory.cores.loads.items():
            if load.op == op and read.told is None:
                memory.cores.loads[load] = read._replace(told=read.landed)
        memory.cores.fence_after(mask, memory.clocks)
    elif code == "initialised-again" or (code == "too-many-arrivals" and not at):
        return "skip"
    elif code == "barrier-not-initialised" or (code == "wrong-bytes" and not at):
        return None
    elif code == "unwaited-copy":
        _forget(memory, op)
    elif code in CONFLICTS:
        memory.cores.loads = {k: v for k, v in memory.cores.loads.items() if k.op != op}
        memory.cores.products = {k: v for k, v in memory.cores.products.items() if k.op != op}
    for key, barrier in memory.shared.items():
        if barrier.init == op and code == "missing-fence":
            memory.shared[key] = barrier._replace(fenced=True, fence=())
        elif barrier.init == op and code == "init-not-visible":
            # The barrier that is missing would come after the fence, too.
            memory.shared[key] = barrier._replace(born=(), fence=())
    for key, barrier in at:
        waits = tuple(one for one in barrier.waits if one.op != op)
        if found.may_pass:
            memory.catch_up(mask)
        elif code == "wrong-bytes":
            expected = (barrier.running.expected or 0) - fault.surplus
            running = barrier.running._replace(expected=expected)
            memory.shared[key] = barrier._replace(running=running)
        elif waits != barrier.waits:
            memory.shared[key] = barrier._replace(waits=waits)
        else:
            memory.catch_up(mask)
    return "again"


def _forget(memory: RoleMemory, op: int) -> None:
    """What an op has issued is over."""
    for key, barrier in memory.shared.items():
        copies = tuple(copy for copy in barrier.running.copies if copy.op != op)
        running = barrier.running._replace(copies=copies)
        memory.shared[key] = barrier._replace(running=running)
    memory.brought = {k: one for k, one in memory.brought.items() if one.copy.op != op}
    memory.queues = {who: _without(queue, op) for who, queue in memory.queues.items()}
    memory.cores.products = {k: v for k, v in memory.cores.products.items() if k.op != op}


def forgiving(effect: Effect, op: int, forgiven: Forgiven) -> Effect:
    """The effect of an op (below 0: the end of the block), with faults that are `forgiven` mended."""
    told = forgiven.ends
    lacks_barrier = any(later == op and code in MISSING_BARRIERS for code, later, _ in told)

    def execute(spot: Spot) -> None:
        memory, mask = spot.memory, spot.mask or 0
        if isinstance(memory, RoleMemory):
            return _forgiving_roles(effect, spot, memory)
        if lacks_barrier:
            memory.meet()
        while True:
            try:
                return effect(spot)
            except PhaseFault as fault:
                way = mend(memory, fault, mask) if fault.found.ends in told else None
                if way is None:
                    raise
                if way == "skip":
                    return None

    return execute


def forgiving_registers(plan: Plan, forgiven: Forgiven) -> Plan:
    """What an op does to registers, with faults that are `forgiven` mended."""

    def execute(registers: Registers, mask: int | None) -> None:
        told: set[Ends] = set()
        while True:
            try:
                return plan(registers, mask)
            except PhaseFault as fault:
                ends = fault.found.ends
                if ends not in forgiven.ends or ends in told:
                    raise
                told.add(ends)
                if fault.found.code == "missing-register-fence":
                    registers.fence(EVERYBODY if mask is None else mask)
                else:
                    registers.complete(fault.found.earlier)

    return execute


def _forgiving_roles(effect: Effect, spot: Spot, memory: RoleMemory) -> None:
    """The effect of an op that roles run: of one with a fault nothing is done, before it is mended."""
    forgiven, mask = memory.forgiven, spot.mask or 0
    mended = MOST_MENDED
    if mask & forgiven.late:
        memory.catch_up(mask)
    before = memory.copy()
    while True:
        try:
            return effect(spot)
        except PhaseFault as fault:
            if fault.found.ends not in forgiven.ends or not mended:
                raise
            vars(memory).update(vars(before.copy()))
            way = _mend_roles(memory, fault, mask)
            if way is None:
                raise
            if way == "skip":
                return None
            before, mended = memory.copy(), mended - 1
