"""mbarriers on a path of all threads: arrivals, bytes, phases, and who may be how far.

    init 1               phase 0 runs
    expect_tx 64, copy   phase 0 has its arrival and all its bytes: it may end any time
    wait parity 0        phase 0 is over, for the threads that waited

All threads come along the path; one that waits for phase k may only meet the mbarrier in phase k
or k + 1. What ends is what the path has brought it, so a wait must find its phase complete there
(else all hang), and an arrival must find the phase before over, and nobody left at a wait for
it: since the last barrier of the block no other thread may still be at one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.byte_places import Region

Key = tuple[int, int]


class Copy(NamedTuple):
    """A copy in flight: where it writes, its bytes, the op that issued it."""

    region: Region
    size: int | None
    op: int


class Phase(NamedTuple):
    """A phase that nobody knows to be over: arrivals so far, the bytes that they announced (None:
    not known), the copies on it, the last op that arrived, and the products of tensor memory that a
    commit among its arrivals covers."""

    arrived: int = 0
    expected: int | None = 0
    copies: tuple[Copy, ...] = ()
    op: int = -1
    products: tuple[Any, ...] = ()

    @property
    def copied(self) -> int | None:
        """The bytes of its copies."""
        sizes = [copy.size for copy in self.copies]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


class Mbarrier(NamedTuple):
    """One mbarrier: initialised to `needs` arrivals a phase by the op `init` in the threads `by`, fenced
    for the async proxy, seen by all threads (`visible`).

    `parity` is that of the number of phases that are over; `phases` are those after them. `waited`:
    the last wait since the block met, and its threads; `last`: the last wait that passed, and its
    parity; `some`: only these threads know how many phases are over.
    """

    needs: int
    init: int
    by: int
    fenced: bool = False
    visible: bool = False
    parity: int = 0
    phases: tuple[Phase, ...] = ()
    waited: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    some: int | None = None

    def met(self) -> Mbarrier:
        """After a barrier of the block."""
        return self._replace(visible=True, waited=None, some=None)


def single(mask: int) -> bool:
    """Whether a mask holds one thread."""
    return mask.bit_count() == 1


def check_usable(barrier: Mbarrier, op: int, mask: int) -> None:
    """Threads use an mbarrier, which they must see."""
    if not barrier.visible and barrier.by != mask:
        raise PhaseFault(
            "init-not-visible",
            op,
            barrier.init,
            "another thread initialises it: a barrier of the block is missing between",
        )


def arrive(barrier: Mbarrier, op: int, mask: int, arrivals: int, size: int | None) -> Mbarrier:
    """Each thread of a mask arrives `arrivals` times, and announces bytes."""
    check_usable(barrier, op, mask)
    phases = list(barrier.phases)
    running = phases[-1] if phases else Phase()
    if running.arrived >= barrier.needs:
        raise PhaseFault(
            "too-many-arrivals",
            op,
            running.op,
            "the phase has all its arrivals since this one, and nobody has waited for its end",
        )
    total = mask.bit_count() * arrivals
    if total > barrier.needs - running.arrived:
        who = f"{mask.bit_count()} threads arrive" if not single(mask) else "it arrives again"
        raise PhaseFault(
            "too-many-arrivals",
            op,
            barrier.init,
            f"{who} here; the mbarrier is initialised to {barrier.needs} a phase",
        )
    ends = running.arrived + total == barrier.needs
    # Where every thread of the wait has to arrive, the phase cannot end before they all passed.
    if ends and barrier.waited is not None and barrier.waited[1] & ~mask:
        raise PhaseFault(
            "phase-overtaken",
            op,
            barrier.waited[0],
            "a thread that is still here then waits for the phase after the next one: "
            "a barrier of the block is missing between",
        )
    added = None if size is None else size * mask.bit_count()
    expected = None if running.expected is None or added is None else running.expected + added
    running = running._replace(arrived=running.arrived + total, expected=expected, op=op)
    return barrier._replace(phases=(*phases[:-1], running) if phases else (running,))


def check_fenced(barrier: Mbarrier, op: int) -> None:
    """The async proxy uses an mbarrier."""
    if not barrier.fenced:
        raise PhaseFault(
            "missing-fence",
            op,
            barrier.init,
            "a fence for the async proxy is missing after this, in the thread that initialises",
        )


def copy(barrier: Mbarrier, op: int, mask: int, region: Region, size: int | None) -> Mbarrier:
    """A thread issues a copy that completes on the mbarrier."""
    check_usable(barrier, op, mask)
    check_fenced(barrier, op)
    if not single(mask):
        raise PhaseFault(
            "several-issuers",
            op,
            barrier.init,
            f"{mask.bit_count()} threads issue it, and each copy takes off its bytes here",
        )
    running = barrier.phases[-1] if barrier.phases else Phase()
    running = running._replace(copies=(*running.copies, Copy(region, size, op)))
    if running.arrived >= barrier.needs and _lacks(running) < 0:
        raise PhaseFault(
            "wrong-bytes",
            running.op,
            op,
            f"{running.expected} bytes are announced, and with this copy {running.copied} come",
        )
    return barrier._replace(phases=(*barrier.phases[:-1], running))


def _lacks(phase: Phase) -> int:
    """Bytes that are announced and do not come; below 0 those that come and are not announced."""
    if phase.expected is None or phase.copied is None:
        raise NotFollowedError("unknown-bytes")
    return phase.expected - phase.copied


def wait(
    barrier: Mbarrier, op: int, mask: int, parity: int, everybody: int
) -> tuple[Mbarrier, tuple[Copy, ...]]:
    """Threads wait for a parity; gives the copies that are over then."""
    check_usable(barrier, op, mask)
    if barrier.some is not None and mask & ~barrier.some:
        raise NotFollowedError("specialised")
    running = barrier.phases[0] if barrier.phases else Phase()
    if parity != barrier.parity:
        _check_idle(barrier, running, op, parity)
        return barrier._replace(waited=(op, mask)), ()
    if running.arrived < barrier.needs:
        if mask != everybody:
            raise NotFollowedError("specialised")
        came = f"{running.arrived} of its {barrier.needs} arrivals came"
        note = f"{came} on this path, and all threads wait"
        raise PhaseFault("deadlock", op, running.op if running.arrived else barrier.init, note)
    lacking = _lacks(running)
    if lacking:
        rest = "never passes" if lacking > 0 else "may pass before they have landed"
        raise PhaseFault(
            "wrong-bytes",
            running.op,
            op,
            f"{running.expected} bytes are announced, {running.copied} are copied: the wait {rest}",
        )
    some = mask if mask != everybody else None
    done = barrier._replace(
        parity=1 - barrier.parity,
        phases=barrier.phases[1:],
        waited=(op, mask),
        last=(op, parity),
        some=some,
    )
    return done, running.copies


def _check_idle(barrier: Mbarrier, running: Phase, op: int, parity: int) -> None:
    """A wait for the phase before the running one passes at once, as long as that does not end."""
    if not running.arrived and not running.copies:
        return
    other = running.copies[0].op if running.copies else running.op
    if barrier.last is not None and barrier.last == (op, parity):
        raise PhaseFault(
            "phase-not-flipped",
            op,
            other,
            "this belongs to the next phase, which has the other parity",
        )
    raise PhaseFault(
        "wrong-parity", op, other, f"this belongs to the phase of parity {1 - parity}, which runs"
    )
