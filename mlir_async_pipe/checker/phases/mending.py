"""A path goes on after a fault that was told already, as if what is missing there stood there.

    read in flight        the phase of the copy is over      the next fault does not follow from this one
    missing fence         the write is fenced
    deadlock              the phase has all its arrivals     no run of the kernel comes here

A fault ends its path, so one that comes after it is not met. The kernel is followed again with the
first ones forgiven. What `STOPS` a kernel for good leaves no execution behind it: what comes after
that is not certain.
"""

from __future__ import annotations

from typing import Literal

from mlir_async_pipe.checker.phase_faults import Ends, FoundFault, PhaseFault
from mlir_async_pipe.checker.phases import arrivals
from mlir_async_pipe.checker.phases.arrivals import Key, Mbarrier
from mlir_async_pipe.checker.phases.async_memory import AsyncMemory
from mlir_async_pipe.checker.phases.generic_effects import Effect
from mlir_async_pipe.checker.phases.role_memory import RoleMemory
from mlir_async_pipe.checker.phases.spot import Spot
from mlir_async_pipe.checker.phases.touches import Issued

STOPS = frozenset({"deadlock", "wrong-bytes", "too-many-arrivals"})

# What would not be if the block met right before.
MISSING_BARRIERS = ("phase-overtaken", "missing-barrier", "not-visible", "init-not-visible")

# Two accesses of memory with nothing between that orders them.
_CONFLICTS = frozenset(
    "read-in-flight overwrite-in-flight source-overwritten missing-barrier not-visible "
    "unwaited-copy".split()
)

Next = Literal["again", "skip"]
"""Do the op, on what was mended, or leave it out."""


def causes(fault: FoundFault) -> tuple[object, ...]:
    """What may be behind a fault: of two that have one of these in common one may follow from the
    other. It is the op that comes too early, or what all that conflicts with one op lacks."""
    kind = "conflict" if fault.code in _CONFLICTS else fault.code
    return fault.later, (kind, fault.earlier)


def mend(memory: AsyncMemory, fault: PhaseFault, mask: int) -> Next | None:
    """Make the memory what it would be without a fault of threads; None if nothing helps."""
    found = fault.found
    before = _content(memory)
    if isinstance(memory, RoleMemory):
        _mend_roles(memory, found)
    elif found.code in ("wrong-parity", "phase-not-flipped", "deadlock", "too-many-arrivals"):
        return _pass(memory, fault.at, found, mask) if fault.at else None
    elif found.code == "wrong-bytes" and fault.at:
        _announce(memory.barriers, fault.at, fault.surplus)
    elif found.code in MISSING_BARRIERS:
        memory.meet()
    else:
        _mend_block(memory, found)
    return "again" if _content(memory) != before else None


def _content(memory: AsyncMemory) -> tuple[object, ...]:
    """All that may be mended."""
    if not isinstance(memory, RoleMemory):
        return (memory.key(),)
    return dict(memory.shared), dict(memory.generic)


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
    first = barrier.phases[0] if barrier.phases else arrivals.Phase()
    match found.code:
        case "missing-fence" if barrier.init == found.earlier:
            return barrier._replace(fenced=True)
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


def _mend_roles(memory: RoleMemory, found: FoundFault) -> None:
    """What else is wrong between roles shows in what they do afterwards, so it ends their path."""
    op, code = found.earlier, found.code
    for write, one in memory.generic.items():
        if write.op == op and code == "missing-fence":
            memory.generic[write] = one._replace(fenced=True)
    for key, barrier in memory.shared.items():
        if barrier.init == op and code == "missing-fence":
            memory.shared[key] = barrier._replace(fenced=True)
        elif barrier.init == op and code == "init-not-visible":
            memory.shared[key] = barrier._replace(born=())


def forgiving(effect: Effect, op: int, forgiven: frozenset[Ends]) -> Effect:
    """The effect of an op, with faults that are `forgiven` mended."""
    lacks_barrier = any(later == op and code in MISSING_BARRIERS for code, later, _ in forgiven)

    def execute(spot: Spot) -> None:
        memory, mask = spot.memory, spot.mask or 0
        if lacks_barrier and not isinstance(memory, RoleMemory):
            memory.meet()
        while True:
            try:
                return effect(spot)
            except PhaseFault as fault:
                # What was done for some blocks of a cluster would be done again.
                known = fault.found.ends in forgiven and not memory.blocks.threads
                way = mend(memory, fault, mask) if known else None
                if way is None:
                    raise
                if way == "skip":
                    return None

    return execute
