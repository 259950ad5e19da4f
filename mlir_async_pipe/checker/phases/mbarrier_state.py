"""mbarriers: each phase is over as soon as it can be, and whoever relies on that must know so from what it
has waited for.

    producer: expect, copy      phase 0 of full is over; the mbarrier has gathered the producer's clock
    consumer: wait parity 0     it knows phase 0 of full, and what the producer knew
    consumer: arrive on empty   may this be the arrival of another phase? not if it knows all before

One order of the threads is followed. It is the only one, up to what nobody can distinguish, if

* an arrival, or a copy, knows that the phase before its own is over (else it may count there),
* a wait for phase k knows that phase k - 1 is not the running one (else it passes before),
* some arrival of phase k + 1 knows that the wait for phase k has passed (else it never passes).

Then every wait passes for the same phase, and whether all go on or hang, in every order. A named
barrier is an mbarrier whose waits are arrivals. Where all threads take one path *together*, none is left to end a phase
that all of them wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, Literal, NamedTuple, TypeVar

from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.byte_places import ByteRange, is_map
from mlir_async_pipe.checker.phases.warp_clocks import ClockPair, Event, Known, WarpClocks
from mlir_async_pipe.vocabulary.rows import CP_ASYNC

# What a role may do to others that has come a phase too far.
_AFTER_A_PHASE_TOO_MUCH = (
    "too-many-arrivals",
    "missing-barrier",
    "source-overwritten",
    "read-in-flight",
    "overwrite-in-flight",
    "phase-overtaken",
)


# Notes of faults where threads know of each other by what they wait for, and where all go together.
_TOO_EARLY = (
    "it may come while the phase that this ends still runs: nothing that it waits for says that all others "
    "have arrived there",
    "the phase has all its arrivals since this one, and nobody has waited for its end",
)
_OVERTAKEN = (
    "no arrival of this phase comes after that wait: who is still there then waits for the phase after the next one",
    "a thread that is still here then waits for the phase after the next one: a barrier of the block is "
    "missing between",
)

_UNFENCED = "a fence for the async proxy is missing after this, in the thread that initialises, before the threads meet"
_AT_ONCE = (
    "it may come two phases before this one ends, and passes at once then: it must have waited for the phase "
    "between, or for somebody who has"
)

Key = tuple[int, int]


class CopyInFlight(NamedTuple):
    """A copy in flight: where it writes, its bytes, the op that issued it, and what it reads of global
    memory that something writes: its source, its tensor map. Of cp.async the threads `by` which, and the phases of
    other mbarriers (their columns) that do not end before it is over either."""

    region: ByteRange
    size: int | None
    op: int
    sources: tuple[ByteRange, ...] = ()
    by: int = 0
    also: tuple[tuple[int, int], ...] = ()


class RunningPhase(NamedTuple):
    """A phase that is not over: arrivals, announced bytes (None: not known), copies, the last op that arrived."""

    arrived: int = 0
    expected: int | None = 0
    copies: tuple[CopyInFlight, ...] = ()
    op: int = -1

    @property
    def copied(self) -> int | None:
        """The bytes of its copies."""
        sizes = [copy.size for copy in self.copies]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def lacks_bytes(self) -> int:
        """Bytes that are announced and do not come; below 0 those that come and are not announced."""
        copied = self.copied
        if self.expected is None or copied is None:
            raise NotFollowedError("unknown-bytes")
        return self.expected - copied

    def with_arrivals(
        self, needs: int, init: int, op: int, mask: int, arrivals: int, size: int | None
    ) -> RunningPhase:
        """The phase after each thread of a mask arrived, at an mbarrier that the op `init` initialised to `needs`."""
        if self.arrived >= needs:
            raise PhaseFault("too-many-arrivals", op, self.op, _TOO_EARLY[True])
        total = mask.bit_count() * arrivals
        if total > needs - self.arrived:
            who = f"{mask.bit_count()} threads arrive" if not single(mask) else "it arrives again"
            before = f", {self.arrived} came before" if self.arrived else ""
            note = f"{who} here{before}; the mbarrier is initialised to {needs} a phase"
            raise PhaseFault("too-many-arrivals", op, init, note)
        added = None if size is None else size * mask.bit_count()
        expected = None if self.expected is None or added is None else self.expected + added
        total += self.arrived
        return self._replace(arrived=total, expected=expected, op=op)


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
    `later`: bytes or products were to come as well, the first by the op `copy`."""

    arrivals: Event
    by: int
    later: bool
    op: int
    copy: int


# Stands for a parity where bytes of the running phase were announced, which has to come after that as it has
# after waits.
ANNOUNCED = -1


class PassedWait(NamedTuple):
    """A wait of a class that passed for the phase before the running one, and when; or where bytes were `ANNOUNCED`."""

    number: int
    at: tuple[int, int]
    op: int
    parity: int
    again: bool = False


class Mbarrier(NamedTuple):
    """One mbarrier: initialised to `needs` arrivals by the op `init` in the threads `by` (the event
    `born`), fenced for the async proxy (the event `fence`); the mbarrier `column` of the clocks.

    `over` phases are over, the last two as in `ends`, newest first; their arrivals `released` these clocks. Of
    the `running` one `arrivals` came and have `gathered`. `waits` passed for the last one. Whoever
    knows that a phase of another mbarrier is over sees it, if it was `shown` there (column, phase). The parity of
    its phase 0 is `first`. `last`: the last wait that passed where all go together, and its parity.
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
    gathered: ClockPair = ClockPair()
    released: ClockPair = ClockPair()
    commits: bool = False
    ends: tuple[End, ...] = ()
    waits: tuple[PassedWait, ...] = ()
    shown: tuple[int, int] | None = None
    first: int = 0
    last: tuple[int, int] | None = None

    def parity(self, phase: int) -> int:
        return (phase + self.first) % 2

    def is_seen(self, clocks: WarpClocks, mask: int, event: Event) -> bool:
        """Whether threads see what those did that initialised it."""
        shown = self.shown
        known = shown is not None and clocks.passed(mask, shown[0]) > shown[1]
        return known or self.by == mask or clocks.sees(mask, event)

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


def single(mask: int) -> bool:
    return mask.bit_count() == 1


def check_usable(barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int) -> None:
    """Threads use an mbarrier, which they must see."""
    if not barrier.is_seen(clocks, mask, barrier.born):
        note = "another thread initialises it: a barrier of the block is missing between"
        raise PhaseFault("init-not-visible", op, barrier.init, note)


def check_fenced(barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int) -> None:
    """The async proxy uses an mbarrier for threads, which must come after the fence."""
    if not (barrier.fenced and barrier.is_seen(clocks, mask, barrier.fence)):
        raise PhaseFault("missing-fence", op, barrier.init, _UNFENCED)


def arrive(
    barrier: Mbarrier,
    clocks: WarpClocks,
    op: int,
    mask: int,
    arrivals: int,
    size: int | None,
    *,
    releases: bool = True,
    commit: Known | None = None,
) -> Mbarrier:
    """Each thread of a mask arrives `arrivals` times, and announces bytes; or what it issued does when that is over, such
    as a `commit` of its products, which shows these: it comes after what the thread did, and shows nothing else of it."""
    check_usable(barrier, clocks, op, mask)
    together = clocks.classes.together
    running = barrier.running.with_arrivals(barrier.needs, barrier.init, op, mask, arrivals, size)
    if not barrier.knows_end(clocks, mask, barrier.over - 1):
        raise PhaseFault(
            "too-many-arrivals",
            op,
            barrier.ends[0].op,
            _TOO_EARLY[together],
            column=None if together else barrier.column,
            may_pass=not together,
        )
    event = clocks.event(mask)
    released = clocks.release(mask)
    if not releases:
        released = ClockPair()
    if commit is not None:
        released = ClockPair(released.before, ()).joined(ClockPair(commit, commit))
    after = barrier._replace(
        running=running,
        arrivals=(*barrier.arrivals, *(one for one in event if one not in barrier.arrivals)),
        arrived_by=barrier.arrived_by | mask,
        gathered=barrier.gathered.joined(released),
        commits=barrier.commits or bool(commit),
    )
    if together and running.arrived == barrier.needs:
        _check_passed(after, _OVERTAKEN[True])
    return after


def _check_passed(barrier: Mbarrier, note: str) -> None:
    """All who waited for the phase before the running one, which is to end, have passed."""
    gathered = barrier.gathered.before
    for wait in barrier.waits:
        # Some arrival of the running phase comes after the wait, or knows of it.
        column, tick = wait.at
        known = column < len(gathered) and gathered[column] > tick
        if not (known or any(of == column and at >= tick for of, at in barrier.arrivals)):
            if wait.parity == ANNOUNCED:
                early = "no arrival of this phase comes after that: it may end before these bytes are announced"
                raise PhaseFault(
                    "wrong-bytes", wait.op, barrier.running.op, early, column=barrier.column
                )
            raise PhaseFault(
                "phase-overtaken", barrier.running.op, wait.op, note, column=barrier.column
            )


def announce(barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int, size: int) -> Mbarrier:
    """Threads announce bytes, and do not arrive: unless an arrival comes after that, the phase may end without these."""
    check_usable(barrier, clocks, op, mask)
    if not barrier.knows_end(clocks, mask, barrier.over - 1):
        note = "these bytes may be announced in the phase that this ends, to which their copies do not belong"
        raise PhaseFault("wrong-bytes", op, barrier.ends[0].op, note)
    running = barrier.running
    expected = None if running.expected is None else running.expected + size * mask.bit_count()
    # Who comes after the last time that a class did so comes after those before.
    mine = [PassedWait(at[0], at, op, ANNOUNCED) for at in clocks.event(mask)]
    again = {(one.number, op, ANNOUNCED) for one in mine}
    others = (w for w in barrier.waits if (w.number, w.op, w.parity) not in again)
    return barrier._replace(
        running=running._replace(expected=expected, op=op), waits=(*others, *mine)
    )


def copy(
    barrier: Mbarrier,
    clocks: WarpClocks,
    op: int,
    mask: int,
    issued: CopyInFlight,
    *,
    each: bool = False,
) -> Mbarrier:
    """A thread issues a copy that completes on the mbarrier, or `each` of several a part of it."""
    check_usable(barrier, clocks, op, mask)
    check_fenced(barrier, clocks, op, mask)
    if not (each or single(mask)):
        note = f"{mask.bit_count()} threads issue it, and each copy takes off its bytes here"
        raise PhaseFault("several-issuers", op, barrier.init, note)
    # Where all go together nobody waits between an arrival and its copy.
    late = clocks.classes.together and clocks.passed(mask, barrier.column) < barrier.over
    by_itself = late and barrier.ends[:1] and barrier.ends[0].by == mask
    if by_itself or not barrier.knows_end(clocks, mask, barrier.over - 1):
        note = "this copy may count in the phase that is announced here, which its bytes are not of"
        raise PhaseFault("wrong-bytes", barrier.ends[0].op, op, note)
    running = barrier.running
    return barrier._replace(
        running=running._replace(copies=(*running.copies, issued)),
        gathered=barrier.gathered.joined(clocks.phases_known(mask)),
    )


def ended(barrier: Mbarrier) -> Mbarrier | None:
    """The mbarrier after the end of its running phase, None if that is not over."""
    running = barrier.running
    if running.arrived < barrier.needs:
        return None
    lacking = running.lacks_bytes()
    if lacking < 0:
        note = f"{lacks(barrier)}: the wait may pass before they have landed"
        last = running.copies[-1].op
        fault = PhaseFault("wrong-bytes", running.op, last, note, column=barrier.column)
        fault.surplus = lacking
        raise fault
    if lacking:
        return None
    _check_passed(barrier, _OVERTAKEN[False])
    return over(barrier)


def over(barrier: Mbarrier) -> Mbarrier:
    """The mbarrier after the end of its running phase."""
    running = barrier.running
    later = barrier.commits or bool(running.copies)
    first = next((copy.op for copy in running.copies), running.op)
    end = End(barrier.arrivals, barrier.arrived_by, later, running.op, first)
    return barrier._replace(
        over=barrier.over + 1,
        running=RunningPhase(),
        arrivals=(),
        arrived_by=0,
        gathered=ClockPair(),
        released=barrier.released.joined(barrier.gathered),
        commits=False,
        ends=(end, *barrier.ends[:1]),
        waits=(),
    )


def wait(barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int, parity: int) -> Mbarrier:
    """Threads wait for a parity. Raises BlockedError."""
    check_usable(barrier, clocks, op, mask)
    together = clocks.classes.together
    if together:
        _check_together(barrier, clocks, op, mask, parity)
    if barrier.parity(barrier.over - 1) != parity:
        raise BlockedError(Blocked(op, mask, barrier.column))
    running = barrier.running
    if running.arrived >= barrier.needs:
        other = running.copies[0].op if running.copies else running.op
        again = any((one.op, one.parity) == (op, parity) for one in barrier.waits)
        note = (
            "it passes for the phase before, while the one of this runs, which has all its arrivals"
        )
        raise PhaseFault("phase-not-flipped" if again else "wrong-parity", op, other, note)
    if not barrier.knows_end(clocks, mask, barrier.over - 2):
        end = barrier.ends[0].op
        raise PhaseFault("phase-overtaken", op, end, _AT_ONCE, column=barrier.column)
    return passed(barrier, clocks, op, mask, parity)


def _check_together(barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int, parity: int) -> None:
    """Where all go together a wait is for a phase that is over, and that not all of its threads know of."""
    running, last = barrier.running, barrier.over - 1
    late = clocks.passed(mask, barrier.column) <= last
    passes = barrier.parity(last) == parity
    if not passes if late else passes and (running.arrived or running.copies):
        other = next((copy.op for copy in running.copies), running.op)
        if late:
            other = barrier.ends[0].copy
        if barrier.last == (op, parity):
            note = "this belongs to the next phase, which has the other parity"
            raise PhaseFault("phase-not-flipped", op, other, note)
        note = f"this belongs to the phase of parity {1 - parity}, which runs"
        raise PhaseFault("wrong-parity", op, other, note)
    if passes:
        return
    if running.arrived >= barrier.needs:
        note = f"{lacks(barrier)}: the wait never passes"
        fault = PhaseFault("wrong-bytes", running.op, op, note, column=barrier.column)
        fault.surplus = running.lacks_bytes()
        raise fault
    if mask != clocks.classes.everybody:
        raise NotFollowedError("specialised")
    note = f"{lacks(barrier)} on this path, and all threads wait"
    other = running.op if running.arrived else barrier.init
    raise PhaseFault("deadlock", op, other, note)


def asked(barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int, parity: int) -> int | None:
    """The phase for which threads ask by its parity; None where they may be told of the one two before that."""
    check_usable(barrier, clocks, op, mask)
    last = barrier.over - 1
    phase = last if barrier.parity(last) == parity else barrier.over
    return phase if barrier.knows_end(clocks, mask, phase - 1) else None


def wait_for_next(
    barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int, parity: int
) -> Mbarrier:
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


def passed(barrier: Mbarrier, clocks: WarpClocks, op: int, mask: int, parity: int) -> Mbarrier:
    """Threads know that the phase before the running one is over."""
    before = {one.number for one in barrier.waits if one.op == op}
    mine = [PassedWait(at[0], at, op, parity, at[0] in before) for at in clocks.event(mask)]
    numbers = {one.number for one in mine}
    others = (one for one in barrier.waits if one.number not in numbers)
    clocks.acquire(mask, barrier.released, barrier.column, barrier.over)
    last = (op, parity) if clocks.classes.together else None
    return barrier._replace(waits=(*others, *mine), last=last)


def lacks(barrier: Mbarrier) -> str:
    """What the running phase waits for."""
    running = barrier.running
    if running.arrived >= barrier.needs:
        return f"{running.expected} bytes are announced, {running.copied} are copied"
    return f"{running.arrived} of its {barrier.needs} arrivals came"


def explained(fault: PhaseFault, barriers: Iterable[Mbarrier]) -> PhaseFault:
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


class RoleStep(NamedTuple):
    """What threads do with the mbarriers of a root (`NAMED`: with barriers that have a number, `MEETING`: with
    that of the cluster), which the op `init` initialises to `needs` arrivals a phase."""

    does: Does
    op: int
    mask: int
    root: int
    init: int
    needs: int


# With which of these mbarriers, and in phases of which parity; of what "touches" memory that roles alternate on, the op and
# threads of each access that it has no order with, and of what "overlaps" with accesses of the same threads these.
RoleLog = dict[RoleStep, set[tuple[int, int]]]


T = TypeVar("T")


@dataclass(frozen=True)
class ByThreads(Generic[T]):
    """Accesses by the threads' own proxy, the `ops`, that are followed as those of other proxies are: cp.async where some
    are `on_mbarriers`, and others that only phases order. `met`: pairs of ops, one of them of these, of which two threads
    may touch one byte, or certainly do; None: any may. That the paths of single threads show, without the order that
    phases give."""

    ops: frozenset[T]
    met: Mapping[frozenset[T], bool] | None
    on_mbarriers: bool

    def doubt(self, one: T, other: T) -> str | None:
        """Why it is not certain that two ops meet; None if they do not."""
        if one not in self.ops and other not in self.ops:
            return ""
        if self.met is None:
            return "undecided-path"
        sure = self.met.get(frozenset({one, other}))
        return None if sure is None else "" if sure else "undecided-path"


# Touches -----------------------------------------------------------------------------------------
#
# What threads touch, and whether two touches are one too many.
#
# bytes 0 to 127 of %tile, by thread 0, in op 7
# the same in global memory that tensor maps describe    root below 0, see `find_global_memory`


# More groups than any wait of products leaves in flight; older ones are one.
REMEMBERED_GROUPS = 16


class Touch(NamedTuple):
    """Bytes, touched by threads `by` (None: some of them) in the op `op`."""

    region: ByteRange
    op: int
    by: int | None


class Issued(NamedTuple):
    """What threads issued to a queue: in no group yet, and in groups, youngest first."""

    open: tuple[Touch, ...] = ()
    groups: tuple[tuple[Touch, ...], ...] = ()

    def with_open(self, touch: Touch) -> Issued:
        """Once is enough: without a commit or a wait a loop comes to the same state again."""
        return self if touch in self.open else Issued((*self.open, touch), self.groups)

    def committed(self) -> Issued:
        """What is in no group yet is the youngest one."""
        groups = (self.open, *self.groups)
        old = each_once(touch for group in groups[REMEMBERED_GROUPS:] for touch in group)
        groups = groups[:REMEMBERED_GROUPS] + ((old,) if old else ())
        while groups and not groups[-1]:
            groups = groups[:-1]
        return Issued((), groups)

    def of(self, threads: int) -> Issued:
        """The same, issued by these threads alone."""
        groups = tuple(_by(group, threads) for group in self.groups)
        return Issued(_by(self.open, threads), groups)

    def with_others(self, other: Issued) -> Issued:
        """What the same threads issued besides, group by group."""
        groups = zip_longest(self.groups, other.groups, fillvalue=())
        merged = tuple(each_once((*ours, *theirs)) for ours, theirs in groups)
        return Issued(each_once((*self.open, *other.open)), merged)


def _by(touches: tuple[Touch, ...], threads: int) -> tuple[Touch, ...]:
    return tuple(touch._replace(by=threads) for touch in touches)


def each_once(touches: Iterable[Touch]) -> tuple[Touch, ...]:
    """Touches without those that were there before."""
    return tuple(dict.fromkeys(touches))


def unwaited(copy: CopyInFlight) -> PhaseFault:
    """A copy may land when its block has ended."""
    note = "no thread waits for the phase of this copy"
    return PhaseFault("unwaited-copy", copy.op, copy.op, note)


# Copies that read or write global memory:
#
#     tma.async.load                 reads the tensor until a wait for its phase has passed
#     tma.async.store, committed     writes it until a wait for its group without `read`

# The queue of what bulk stores write; in `queues.BULK_STORE` is what they read.
GLOBAL_STORES = "bulk-store, written"

InFlight = Literal["reads", "stores", "copies"]
"""What ops of a queue do until their group is waited for: read workgroup memory, write global memory, or
write workgroup memory through the generic proxy, as `cp.async` does."""

_OTHERS: dict[str, InFlight] = {GLOBAL_STORES: "stores", CP_ASYNC.name: "copies"}
_UNTIL: dict[InFlight, str] = {
    "reads": "it reads until a wait with count {count} or less on queue {queue}",
    "stores": "it writes until a wait with count {count} or less, without `read`",
    "copies": "it writes until a wait with count {count} or less on queue {queue}",
}


def in_flight(
    queues: Mapping[tuple[str, int], Issued], what: InFlight
) -> Iterator[tuple[Touch, str]]:
    """What ops of some queues still do, and until when."""
    for (queue, _), issued in queues.items():
        if _OTHERS.get(queue, "reads") != what:
            continue
        for age, group in enumerate((issued.open, *issued.groups)):
            until = _UNTIL[what].format(queue=queue, count=age - 1)
            for touch in group:
                yield touch, until if age else "it is in no committed group there"


def is_global(region: ByteRange) -> bool:
    """Whether bytes are of global memory that a tensor copy may touch."""
    return region.root < 0


def space_of(region: ByteRange) -> str:
    """The memory space of bytes, "maps" for tensor maps."""
    return "maps" if is_map(region) else "global" if is_global(region) else "workgroup"
