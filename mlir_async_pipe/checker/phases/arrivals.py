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
from mlir_async_pipe.checker.phases.byte_places import ByteRange

Key = tuple[int, int]


class CopyInFlight(NamedTuple):
    """A copy in flight: where it writes, its bytes, the op that issued it, and what it reads of global
    memory that something writes."""

    region: ByteRange
    size: int | None
    op: int
    source: ByteRange | None = None


class RunningPhase(NamedTuple):
    """A phase that nobody knows to be over: arrivals so far, the bytes that they announced (None:
    not known), the copies on it, the last op that arrived, the products of tensor memory that a
    commit among its arrivals covers, and the threads `by` which arrived since they waited last."""

    arrived: int = 0
    expected: int | None = 0
    copies: tuple[CopyInFlight, ...] = ()
    op: int = -1
    products: tuple[Any, ...] = ()
    by: int = 0

    @property
    def copied(self) -> int | None:
        """The bytes of its copies."""
        sizes = [copy.size for copy in self.copies]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def lacks_bytes(self) -> int:
        """Bytes that are announced and do not come; below 0 those that come and are not announced."""
        if self.expected is None or self.copied is None:
            raise NotFollowedError("unknown-bytes")
        return self.expected - self.copied

    def with_arrivals(
        self, needs: int, init: int, op: int, mask: int, arrivals: int, size: int | None
    ) -> RunningPhase:
        """The phase of an mbarrier initialised to `needs` by the op `init`, after each thread of a mask
        arrived `arrivals` times and announced bytes."""
        if self.arrived >= needs:
            raise PhaseFault(
                "too-many-arrivals",
                op,
                self.op,
                "the phase has all its arrivals since this one, and nobody has waited for its end",
            )
        total = mask.bit_count() * arrivals
        if total > needs - self.arrived:
            who = f"{mask.bit_count()} threads arrive" if not single(mask) else "it arrives again"
            before = f", {self.arrived} came before" if self.arrived else ""
            raise PhaseFault(
                "too-many-arrivals",
                op,
                init,
                f"{who} here{before}; the mbarrier is initialised to {needs} a phase",
            )
        added = None if size is None else size * mask.bit_count()
        expected = None if self.expected is None or added is None else self.expected + added
        total += self.arrived
        return self._replace(arrived=total, expected=expected, op=op, by=self.by | mask)


class Mbarrier(NamedTuple):
    """One mbarrier: initialised to `needs` arrivals a phase by the op `init` in the threads `by`, fenced
    for the async proxy, seen by all threads (`visible`), which have met since that fence, too (`shown`).

    `parity` is that of the number of phases that are over; `phases` are those after them. `waited`:
    the last wait since the block met, and its threads; `last`: the last wait that passed, and its
    parity; `some`: only these threads know how many phases are over.
    """

    needs: int
    init: int
    by: int
    fenced: bool = False
    visible: bool = False
    shown: bool = False
    parity: int = 0
    phases: tuple[RunningPhase, ...] = ()
    waited: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    some: int | None = None

    def met(self) -> Mbarrier:
        """After a barrier of the block."""
        return self._replace(visible=True, shown=self.fenced, waited=None, some=None)

    def is_fenced_for(self, mask: int) -> bool:
        """Whether threads come after the fence."""
        return self.shown or (self.fenced and self.by == mask)


def single(mask: int) -> bool:
    return mask.bit_count() == 1


def check_init(op: int, mask: int, before: int | None) -> None:
    """A thread initialises an mbarrier, which the op `before` has done already (None: none has)."""
    if not single(mask):
        raise PhaseFault(
            "several-issuers", op, op, "one thread initialises an mbarrier, the others wait"
        )
    if before is not None:
        note = "what becomes of an mbarrier that is initialised again is not defined"
        raise PhaseFault("initialised-again", op, before, note)


def check_visible(visible: bool, init: int, op: int) -> None:
    """Threads use an mbarrier, of which they must see that the op `init` was there."""
    if not visible:
        raise PhaseFault(
            "init-not-visible",
            op,
            init,
            "another thread initialises it: a barrier of the block is missing between",
        )


def check_issuer(fenced: bool, init: int, op: int, mask: int) -> None:
    """Threads issue a copy that completes on an mbarrier."""
    check_fenced(fenced, init, op)
    if not single(mask):
        raise PhaseFault(
            "several-issuers",
            op,
            init,
            f"{mask.bit_count()} threads issue it, and each copy takes off its bytes here",
        )


def check_fenced(fenced: bool, init: int, op: int) -> None:
    """The async proxy uses an mbarrier."""
    if not fenced:
        raise PhaseFault(
            "missing-fence",
            op,
            init,
            "a fence for the async proxy is missing after this, in the thread that initialises, before the "
            "threads meet",
        )


def check_usable(barrier: Mbarrier, op: int, mask: int) -> None:
    check_visible(barrier.visible or barrier.by == mask, barrier.init, op)


def arrive(barrier: Mbarrier, op: int, mask: int, arrivals: int, size: int | None) -> Mbarrier:
    """Each thread of a mask arrives `arrivals` times, and announces bytes."""
    check_usable(barrier, op, mask)
    phases = list(barrier.phases)
    running = phases[-1] if phases else RunningPhase()
    running = running.with_arrivals(barrier.needs, barrier.init, op, mask, arrivals, size)
    ends = running.arrived == barrier.needs
    # Where every thread of the wait has to arrive, the phase cannot end before they all passed.
    if ends and barrier.waited is not None and barrier.waited[1] & ~running.by:
        raise PhaseFault(
            "phase-overtaken",
            op,
            barrier.waited[0],
            "a thread that is still here then waits for the phase after the next one: "
            "a barrier of the block is missing between",
        )
    return barrier._replace(phases=(*phases[:-1], running) if phases else (running,))


def copy(barrier: Mbarrier, mask: int, issued: CopyInFlight) -> Mbarrier:
    """A thread issues a copy that completes on the mbarrier."""
    op = issued.op
    check_usable(barrier, op, mask)
    check_issuer(barrier.is_fenced_for(mask), barrier.init, op, mask)
    running = barrier.phases[-1] if barrier.phases else RunningPhase()
    running = running._replace(copies=(*running.copies, issued))
    if running.arrived >= barrier.needs and running.lacks_bytes() < 0:
        note = f"{running.expected} bytes are announced, and with this copy {running.copied} come"
        fault = PhaseFault("wrong-bytes", running.op, op, note)
        fault.surplus = running.lacks_bytes()
        raise fault
    return barrier._replace(phases=(*barrier.phases[:-1], running))


def wait(
    barrier: Mbarrier, op: int, mask: int, parity: int, everybody: int
) -> tuple[Mbarrier, tuple[CopyInFlight, ...]]:
    """Threads wait for a parity; gives the copies that are over then."""
    check_usable(barrier, op, mask)
    if barrier.some is not None and mask & ~barrier.some:
        raise NotFollowedError("specialised")
    running = barrier.phases[0] if barrier.phases else RunningPhase()
    if parity != barrier.parity:
        _check_idle(barrier, running, op, parity)
        phases = tuple(phase._replace(by=phase.by & ~mask) for phase in barrier.phases)
        return barrier._replace(waited=(op, mask), phases=phases), ()
    if running.arrived < barrier.needs:
        if mask != everybody:
            raise NotFollowedError("specialised")
        came = f"{running.arrived} of its {barrier.needs} arrivals came"
        note = f"{came} on this path, and all threads wait"
        raise PhaseFault("deadlock", op, running.op if running.arrived else barrier.init, note)
    lacking = running.lacks_bytes()
    if lacking:
        rest = "never passes" if lacking > 0 else "may pass before they have landed"
        note = (
            f"{running.expected} bytes are announced, {running.copied} are copied: the wait {rest}"
        )
        fault = PhaseFault("wrong-bytes", running.op, op, note)
        fault.surplus = lacking
        raise fault
    some = mask if mask != everybody else None
    done = barrier._replace(
        parity=1 - barrier.parity,
        phases=barrier.phases[1:],
        waited=(op, mask),
        last=(op, parity),
        some=some,
    )
    return done, running.copies


def _check_idle(barrier: Mbarrier, running: RunningPhase, op: int, parity: int) -> None:
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
