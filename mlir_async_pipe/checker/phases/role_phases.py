"""mbarriers between roles: each phase is over as soon as it can be, and whoever relies on that must
know so from what it has waited for.

    producer: expect, copy      phase 0 of full is over; the mbarrier has gathered the producer's clock
    consumer: wait parity 0     it knows phase 0 of full, and what the producer knew
    consumer: arrive on empty   may this be the arrival of another phase? not if it knows all before

One order of the roles is followed. It is the only one, up to what nobody can tell apart, if

* an arrival, or a copy, knows that the phase before its own is over (else it may count there),
* a wait for phase k knows that phase k - 1 is not the running one (else it passes before),
* some arrival of phase k + 1 knows that the wait for phase k has passed (else it never passes).

Then every wait passes for the same phase, and whether all go on or hang, in every order. A named
barrier is an mbarrier whose waits are arrivals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from mlir_async_pipe.checker.phase_faults import PhaseFault
from mlir_async_pipe.checker.phases.arrivals import (
    CopyInFlight,
    RunningPhase,
    check_issuer,
    check_visible,
    single,
)
from mlir_async_pipe.checker.phases.warp_clocks import Event, Known, Told, WarpClocks

# What a role may do to others that has come a phase too far.
_AFTER_A_PHASE_TOO_MUCH = (
    "too-many-arrivals",
    "missing-barrier",
    "source-overwritten",
    "read-in-flight",
    "overwrite-in-flight",
    "phase-overtaken",
)


class Blocked(NamedTuple):
    """Threads stop at a wait: the op, and the mbarrier's column."""

    op: int
    mask: int
    column: int


class BlockedError(Exception):
    """Threads wait, and others go on."""

    def __init__(self, blocked: Blocked) -> None:
        super().__init__(blocked.op)
        self.blocked = blocked


class End(NamedTuple):
    """How a phase came to its end: by the arrivals of threads `by`, the last of them by the op `op`;
    `later`: bytes or products were to come as well."""

    arrivals: Event
    by: int
    later: bool
    op: int


class Passed(NamedTuple):
    """A wait of a class that passed for the phase before the running one, perhaps `again`; when that was."""

    number: int
    at: tuple[int, int]
    op: int
    parity: int
    again: bool = False


class Shared(NamedTuple):
    """One mbarrier: initialised to `needs` arrivals by the op `init` in the threads `by` (the event
    `born`), fenced for the async proxy (the event `fence`); the mbarrier `column` of the clocks.

    `over` phases are over, the last two as in `ends`, newest first; their arrivals told `told`. Of
    the `running` one `arrivals` came and have `gathered`. `waits` passed for the last one. Whoever
    knows that a phase of another mbarrier is over sees it, if it was `shown` there (column, phase). The parity of
    its phase 0 is `first`.
    """

    needs: int
    init: int
    by: int
    born: Event
    column: int
    fenced: bool = False
    fence: Event = ()
    over: int = 0
    running: RunningPhase = RunningPhase()
    arrivals: Event = ()
    arrived_by: int = 0
    gathered: Told = Told()
    told: Told = Told()
    commits: bool = False
    ends: tuple[End, ...] = ()
    waits: tuple[Passed, ...] = ()
    shown: tuple[int, int] | None = None
    first: int = 0

    def parity(self, phase: int) -> int:
        """That of a phase."""
        return (phase + self.first) % 2

    def is_seen(self, clocks: WarpClocks, mask: int, event: Event) -> bool:
        """Whether threads see what those did that initialised it."""
        shown = self.shown
        told = shown is not None and clocks.passed(mask, shown[0]) > shown[1]
        return told or self.by == mask or clocks.sees(mask, event)

    def is_fenced_for(self, clocks: WarpClocks, mask: int) -> bool:
        """Whether threads come after the fence."""
        return self.fenced and self.is_seen(clocks, mask, self.fence)

    def knows_end(self, clocks: WarpClocks, mask: int, phase: int) -> bool:
        """Whether threads know that a phase is over."""
        if phase < 0 or clocks.passed(mask, self.column) > phase:
            return True
        age = self.over - 1 - phase
        if age >= len(self.ends) or self.ends[age].later:
            return False
        end = self.ends[age]
        same_thread = single(mask) and end.by == mask
        return same_thread or clocks.knows(mask, end.arrivals)


def check_usable(barrier: Shared, clocks: WarpClocks, op: int, mask: int) -> None:
    """Threads use an mbarrier, which they must see."""
    check_visible(barrier.is_seen(clocks, mask, barrier.born), barrier.init, op)


def arrive(
    barrier: Shared,
    clocks: WarpClocks,
    op: int,
    mask: int,
    arrivals: int,
    size: int | None,
    *,
    tells: bool = True,
    commit: Known = (),
) -> Shared:
    """Each thread of a mask arrives `arrivals` times, and announces bytes; or a `commit` of its products
    does, which shows that."""
    check_usable(barrier, clocks, op, mask)
    running = barrier.running.with_arrivals(barrier.needs, barrier.init, op, mask, arrivals, size)
    if not barrier.knows_end(clocks, mask, barrier.over - 1):
        raise PhaseFault(
            "too-many-arrivals",
            op,
            barrier.ends[0].op,
            "it may come while the phase that this ends still runs: nothing that it waits for "
            "says that all others have arrived there",
            column=barrier.column,
            may_pass=True,
        )
    event = clocks.event(mask)
    told = clocks.release(mask)
    if not tells:
        told = Told()
    if commit:
        told = Told(told.before, ()).joined(Told(commit, commit))
    return barrier._replace(
        running=running,
        arrivals=(*barrier.arrivals, *(one for one in event if one not in barrier.arrivals)),
        arrived_by=barrier.arrived_by | mask,
        gathered=barrier.gathered.joined(told),
        commits=barrier.commits or bool(commit),
    )


def copy(barrier: Shared, clocks: WarpClocks, mask: int, issued: CopyInFlight) -> Shared:
    """A thread issues a copy that completes on the mbarrier."""
    op = issued.op
    check_usable(barrier, clocks, op, mask)
    check_issuer(barrier.is_fenced_for(clocks, mask), barrier.init, op, mask)
    if not barrier.knows_end(clocks, mask, barrier.over - 1):
        raise PhaseFault(
            "wrong-bytes",
            barrier.ends[0].op,
            op,
            "this copy may count in the phase that is announced here, which its bytes are not of",
        )
    running = barrier.running
    return barrier._replace(
        running=running._replace(copies=(*running.copies, issued)),
        gathered=barrier.gathered.joined(clocks.phases_known(mask)),
    )


def _is_after(barrier: Shared, wait: Passed) -> bool:
    """Whether some arrival of the running phase comes after a wait, or knows of it."""
    column, tick = wait.at
    gathered = barrier.gathered.before
    told = column < len(gathered) and gathered[column] > tick
    return told or any(number == column and at >= tick for number, at in barrier.arrivals)


def ended(barrier: Shared) -> Shared | None:
    """The mbarrier after the end of its running phase, None if that is not over."""
    running = barrier.running
    if running.arrived < barrier.needs:
        return None
    lacking = running.lacks_bytes()
    if lacking < 0:
        fault = PhaseFault(
            "wrong-bytes",
            running.op,
            running.copies[-1].op,
            f"{running.expected} bytes are announced, {running.copied} are copied: the wait may "
            "pass before they have landed",
            column=barrier.column,
        )
        fault.surplus = lacking
        raise fault
    if lacking:
        return None
    for wait in barrier.waits:
        if not _is_after(barrier, wait):
            raise PhaseFault(
                "phase-overtaken",
                running.op,
                wait.op,
                "no arrival of this phase comes after that wait: who is still there then waits "
                "for the phase after the next one",
                column=barrier.column,
            )
    later = barrier.commits or bool(running.copies)
    end = End(barrier.arrivals, barrier.arrived_by, later, running.op)
    return barrier._replace(
        over=barrier.over + 1,
        running=RunningPhase(),
        arrivals=(),
        arrived_by=0,
        gathered=Told(),
        told=barrier.told.joined(barrier.gathered),
        commits=False,
        ends=(end, *barrier.ends[:1]),
        waits=(),
    )


def wait(barrier: Shared, clocks: WarpClocks, op: int, mask: int, parity: int) -> Shared:
    """Threads wait for a parity. Raises BlockedError."""
    check_usable(barrier, clocks, op, mask)
    if barrier.parity(barrier.over - 1) != parity:
        raise BlockedError(Blocked(op, mask, barrier.column))
    running = barrier.running
    if running.arrived >= barrier.needs:
        other = running.copies[0].op if running.copies else running.op
        again = any((one.op, one.parity) == (op, parity) for one in barrier.waits)
        raise PhaseFault(
            "phase-not-flipped" if again else "wrong-parity",
            op,
            other,
            "it passes for the phase before, while the one of this runs, which has all its arrivals",
        )
    if not barrier.knows_end(clocks, mask, barrier.over - 2):
        raise PhaseFault(
            "phase-overtaken",
            op,
            barrier.ends[0].op,
            "it may come two phases before this one ends, and passes at once then: it must have "
            "waited for the phase between, or for somebody who has",
            column=barrier.column,
        )
    return passed(barrier, clocks, op, mask, parity)


def wait_for_next(barrier: Shared, clocks: WarpClocks, op: int, mask: int, parity: int) -> Shared:
    """Threads wait as one would whose parity flips with each phase: the first wait is that of its
    `parity`, the others are for the phase after the one that the threads know to be over. Raises
    BlockedError."""
    check_usable(barrier, clocks, op, mask)
    numbers = {number for number, _ in clocks.event(mask)}
    again = any(one.op == op and one.number in numbers for one in barrier.waits)
    first = not again and barrier.parity(barrier.over - 1) == parity
    if not first and barrier.over <= clocks.passed(mask, barrier.column):
        raise BlockedError(Blocked(op, mask, barrier.column))
    return passed(barrier, clocks, op, mask, parity)


def passed(barrier: Shared, clocks: WarpClocks, op: int, mask: int, parity: int) -> Shared:
    """Threads know that the phase before the running one is over."""
    before = {one.number for one in barrier.waits if one.op == op}
    mine = [Passed(at[0], at, op, parity, at[0] in before) for at in clocks.event(mask)]
    numbers = {one.number for one in mine}
    others = (one for one in barrier.waits if one.number not in numbers)
    clocks.acquire(mask, barrier.told, barrier.column, barrier.over)
    return barrier._replace(waits=(*others, *mine))


def lacks(barrier: Shared) -> str:
    """What the running phase waits for."""
    running = barrier.running
    if running.arrived >= barrier.needs:
        return f"{running.expected} bytes are announced, {running.copied} are copied"
    return f"{running.arrived} of its {barrier.needs} arrivals came"


def explained(fault: PhaseFault, barriers: Iterable[Shared]) -> PhaseFault:
    """A wait that passed twice for one phase before something went wrong is what is wrong."""
    found = fault.found
    for wait in (wait for barrier in barriers for wait in barrier.waits):
        if wait.again and found.code in _AFTER_A_PHASE_TOO_MUCH:
            note = "it passed here already for the same phase, and then came too early"
            return PhaseFault("phase-not-flipped", wait.op, found.later, note, found.certain)
    return fault


Does = Literal["waits", "arrives", "announces", "copies", "touches", "overlaps"]
# Stand for the root of barriers that have a number and no memory, and of that where the threads of a
# cluster meet.
NAMED, MEETING = -1, -2
# Numbers of barriers that have one, in each block.
NUMBERS = 16


class RoleStep(NamedTuple):
    """What threads do with the mbarriers of a root (`NAMED`: with barriers that have a number, `MEETING`: with that of the cluster), which
    the op `init` initialises to `needs` arrivals a phase."""

    does: Does
    op: int
    mask: int
    root: int
    init: int
    needs: int


# With which of these mbarriers, and in phases of which parity; of what "touches" memory in turns, the op and
# threads of each access that it has no order with, and of what "overlaps" with accesses of the same threads these.
RoleLog = dict[RoleStep, set[tuple[int, int]]]
