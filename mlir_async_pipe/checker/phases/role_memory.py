"""The memory of a block whose warps go ways of their own: what is over is over for those who know it.

    copy on full[2]            over for who has waited for its phase, or for somebody who has
    product, waited for        its reads are over for who has waited for an arrival after that wait
    barrier of some threads    an mbarrier: arrival and wait in one op

As in `async_memory`, with clocks of warps in the place of barriers of the block.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mlir_async_pipe.checker.phase_faults import (
    FaultCode,
    Forgiven,
    NotFollowedError,
    PhaseFault,
)
from mlir_async_pipe.checker.phases import role_phases
from mlir_async_pipe.checker.phases.arrivals import (
    CopyInFlight,
    Key,
    check_fenced,
    check_init,
    single,
)
from mlir_async_pipe.checker.phases.async_memory import AsyncMemory
from mlir_async_pipe.checker.phases.byte_places import ByteRange, meet
from mlir_async_pipe.checker.phases.ring_moves import RingMoves
from mlir_async_pipe.checker.phases.role_phases import (
    NAMED,
    Blocked,
    BlockedError,
    Does,
    RoleLog,
    RoleStep,
    Shared,
)
from mlir_async_pipe.checker.phases.tensor_state import Cells, Product, TensorRoles
from mlir_async_pipe.checker.phases.touches import Touch, is_fenced, refuse, unwaited
from mlir_async_pipe.checker.phases.warp_clocks import Event, Told, WarpClasses, WarpClocks
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES

# The number of an event, when which warps did it, and a bit for its number.
Noted = tuple[int, int, int, int]

# All memory of which only the order of accesses is asked: no region of others is of its root.
IN_TURN = ByteRange(-3)


@dataclass
class RoleMemory(AsyncMemory):
    """The memory on one path of all roles. `over` are reads that are over, those of some threads
    that one event ended together, and whether they were a proxy's; `brought` are copies that are, `put` stores to global memory that are;
    `progress` grows with whatever somebody may wait for. `cores` are the tensor cores. `log` is of all
    paths together, and so are the numbers of events (`names`) and what was noted of mbarriers."""

    clocks: WarpClocks = field(default_factory=lambda: WarpClocks.started(WarpClasses(())))
    shared: dict[Key, Shared] = field(default_factory=dict)
    over: dict[tuple[tuple[Touch, ...], bool], Event] = field(default_factory=dict)
    brought: dict[tuple[ByteRange, int, ByteRange | None], Landed] = field(default_factory=dict)
    put: dict[Touch, Event] = field(default_factory=dict)
    generic: dict[Touch, Fenced] = field(default_factory=dict)
    progress: int = 0
    cores: TensorRoles = field(default_factory=TensorRoles)
    log: RoleLog = field(default_factory=dict)
    forgiven: Forgiven = field(default_factory=Forgiven)
    moves: RingMoves | None = None
    names: dict[Hashable, int] = field(default_factory=dict)
    noted: dict[Hashable, tuple[Shared, list[Noted]]] = field(default_factory=dict)
    bits: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)

    def copy(self) -> RoleMemory:
        """The same, to be changed on its own."""
        return replace(
            self,
            queues=dict(self.queues),
            clocks=self.clocks.copy(),
            shared=dict(self.shared),
            over=dict(self.over),
            brought=dict(self.brought),
            put=dict(self.put),
            generic=dict(self.generic),
            cores=self.cores.copy(),
        )

    def dones(self) -> Iterator[dict[Any, Event]]:
        """What was done, by what it is."""
        yield self.over
        yield self.put

    def key_of_blocks(self) -> Hashable:
        """What is asked of blocks of a cluster beside that."""

    # mbarriers ----------------------------------------------------------------------------

    def init(self, key: Key, op: int, mask: int, count: int) -> None:
        known = self.shared.get(key)
        check_init(op, mask, None if known is None else known.init)
        self._new(key, op, mask, count)

    def _new(self, key: Key, op: int, mask: int, count: int) -> None:
        column = self.clocks.new_column()
        self.shared[key] = Shared(count, op, mask, self.clocks.event(mask), column)
        if self.moves is not None:
            self._as_begun(key)

    def begin_rings(self, moves: RingMoves) -> None:
        """Rings may have begun earlier: as if two phases of each mbarrier were over, and all knew that."""
        if self.moves is None:
            self.moves = moves
            for key in self.shared:
                self._as_begun(key)

    def _as_begun(self, key: Key) -> None:
        one = self.shared[key]
        if not one.over and not one.running.arrived:
            self.shared[key] = one._replace(over=2)
            over = self.clocks.know_all(one.column, 2)
            for there, other in self.shared.items():
                self.shared[there] = other._replace(told=other.told.joined(over))

    def _at(self, key: Key, op: int) -> Shared:
        if key not in self.shared:
            raise PhaseFault(
                "barrier-not-initialised", op, op, "no thread has initialised it before this"
            )
        return self.shared[key]

    def arrive(
        self, key: Key, op: int, mask: int, count: int, size: int | None, tells: bool = True
    ) -> None:
        before = self._at(key, op)
        self._note("announces" if size else "arrives", op, mask, key)
        self.shared[key] = role_phases.arrive(
            before, self.clocks, op, mask, count, size, tells=tells
        )
        self._advance(key)

    def wait(self, key: Key, op: int, mask: int, parity: int) -> None:
        """Threads wait: the copies of the phase are over for them. Raises BlockedError."""
        barrier = self._at(key, op)
        wait = role_phases.wait_for_next if op in self.forgiven.parities else role_phases.wait
        self.shared[key] = wait(barrier, self.clocks, op, mask, parity)
        self._note("waits", op, mask, key, parity)

    def issue_copy(self, key: Key, mask: int, copy: CopyInFlight) -> None:
        """A thread issues a copy into workgroup memory."""
        self._check_issue(copy, mask)
        before = self._at(key, copy.op)
        self._note("copies", copy.op, mask, key)
        self.shared[key] = role_phases.copy(before, self.clocks, mask, copy)
        self._advance(key)

    def allocate(self, touch: Touch) -> None:
        """Columns are taken, perhaps some that were given back."""
        super().allocate(touch)
        self.cores.given = frozenset()

    def issue_product(self, product: Product) -> None:
        """A thread issues a product of tensor memory."""
        for touch in product.reads:
            self.check_read(touch, proxy=True)
        self.cores.issue(product, self.clocks)

    def commit_products(self, key: Key, op: int, mask: int) -> None:
        """An arrival to come when all that the thread has issued is over."""
        before = self._at(key, op)
        check_fenced(before.is_fenced_for(self.clocks, mask), before.init, op)
        self._note("arrives", op, mask, key)
        shows = self.cores.commit(mask, self.clocks)
        self.shared[key] = role_phases.arrive(before, self.clocks, op, mask, 1, 0, commit=shows)
        self._advance(key)

    def use_tensor(self, use: str, cells: Cells, op: int, mask: int) -> None:
        """Threads load from tensor memory, or give columns back."""
        getattr(self.cores, use)(cells, op, mask, self.clocks)

    def tensor_step(self, step: str, mask: int) -> None:
        """Threads wait for their loads, or make a fence of tensor memory."""
        getattr(self.cores, step)(mask, self.clocks)

    def _note(self, does: Does, op: int, mask: int, key: Key, parity: int | None = None) -> None:
        barrier = self.shared[key]
        phase = barrier.parity(barrier.over) if parity is None else parity
        beginnings = [(key, 0)]
        if self.moves is not None:
            beginnings = [self.moves.key(key, by) for by in range(self.moves.period)]
            # In which phase of a barrier of threads a state is, is not told apart.
            beginnings += [(key, 1)] if key[0] == NAMED else []
        for there, flips in beginnings:
            if there not in self.shared:
                raise NotFollowedError("rings")
            barrier = self.shared[there]
            use = RoleStep(does, op, mask, there[0], barrier.init, barrier.needs)
            number = there[1] if there[0] == NAMED else there[1] // MBARRIER_BYTES
            self.log.setdefault(use, set()).add((number, phase ^ flips))

    def running_parity(self, key: Key) -> int | None:
        """Not followed: an arrival may have ended its phase."""
        return None

    def copies(self) -> Iterator[CopyInFlight]:
        for barrier in self.shared.values():
            yield from barrier.running.copies

    def _advance(self, key: Key) -> None:
        """End the running phase if that may be."""
        before = self.shared[key]
        after = role_phases.ended(before)
        if after is None:
            return
        self.shared[key] = after
        self.progress += 1
        for copy in before.running.copies:
            self.brought[copy.region, copy.op, copy.source] = Landed(
                copy, before.column, before.over
            )

    # Barriers of threads --------------------------------------------------------------------

    def join_barrier(self, number: int, op: int, mask: int, count: int) -> int:
        """Threads arrive at a barrier that has a number, of `count` threads; gives the phase."""
        key = NAMED, number
        if key not in self.shared:
            self._new(key, op, mask, count)
            self.shared[key] = self.shared[key]._replace(born=())
        barrier = self.shared[key]
        if barrier.needs != count:
            raise NotFollowedError("unknown-mbarrier")
        if barrier.arrived_by & mask:
            note = "these threads have arrived there before, and that phase is not over"
            raise PhaseFault("too-many-arrivals", op, barrier.running.op, note)
        # Some of these threads may make a phase of their own.
        if mask.bit_count() > count - barrier.running.arrived:
            raise NotFollowedError("unknown-mbarrier")
        self.arrive(key, op, mask, 1, 0)
        return barrier.over

    def meet_at(self, number: int, phase: int, op: int, mask: int) -> None:
        """They wait for all the others of that phase. Raises BlockedError."""
        barrier = self.shared[NAMED, number]
        if barrier.over <= phase:
            raise BlockedError(Blocked(op, mask, barrier.column))
        self.clocks.acquire(mask, barrier.told, barrier.column, phase + 1)

    def phases_ago(self, number: int, phase: int) -> int:
        """How many phases of a numbered barrier are over since one."""
        return self.shared[NAMED, number].over - phase

    def meet(self) -> None:
        self.clocks.meet(self.everybody)
        self.over.clear()
        self.put.clear()
        self.generic = {touch: one for touch, one in self.generic.items() if not one.fenced}
        self.shared = {key: one._replace(born=(), fence=()) for key, one in self.shared.items()}

    # Threads ------------------------------------------------------------------------------

    def _reads_over(self, over: list[Touch]) -> None:
        if over:
            self._note_reads(
                tuple(dict.fromkeys(over)), True, self.clocks.event(threads_of(over[0]))
            )

    def _note_reads(self, reads: tuple[Touch, ...], proxy: bool, event: Event) -> None:
        """Reads are over; of each the last one counts."""
        if (reads, proxy) not in self.over:
            again = set(reads)
            for one in [
                one for one in self.over if one[1] == proxy and not again.isdisjoint(one[0])
            ]:
                before = self.over.pop(one)
                if rest := tuple(read for read in one[0] if read not in again):
                    self.over[rest, proxy] = before
        self.over[reads, proxy] = event

    def _stores_over(self, over: list[Touch]) -> None:
        self.put.update((store, self.clocks.event(threads_of(store))) for store in over)

    def read(self, touch: Touch) -> None:
        self.check_read(touch, proxy=False)
        self._note_reads((touch,), False, self.clocks.event(threads_of(touch)))

    def touch_in_turn(self, op: int, mask: int) -> None:
        """Threads access memory, after what they and others did to it or not."""
        touch, event = Touch(IN_TURN, op, mask), self.clocks.event(mask)
        step = RoleStep("touches", op, mask, IN_TURN.root, op, 0)
        unordered = self.log.setdefault(step, set())
        beside = self.log.setdefault(step._replace(does="overlaps"), set())
        for other, done in self.put.items():
            by = threads_of(other)
            if other.region == IN_TURN and not self.clocks.sees(mask, done):
                (beside if by == mask else unordered).add((other.op, by))
        self.put[touch] = event

    def has_turns(self) -> bool:
        """Whether it is asked in which order threads come to what was done."""
        return any(touch.region == IN_TURN for touch in self.put)

    def write(self, touch: Touch) -> None:
        self.check_write(touch, proxy=False)
        self.generic[touch] = Fenced(touch, False, self.clocks.event(threads_of(touch)))
        self.tensor = self.tensor.lost(touch.region.root)

    def fence(self, mask: int, shown: frozenset[str]) -> None:
        """What threads wrote of what is `shown` goes to the async proxy."""
        for key, barrier in self.shared.items():
            if "mbarriers" in shown and not (barrier.fenced or barrier.by & ~mask):
                fence = self.clocks.event(barrier.by)
                self.shared[key] = barrier._replace(fenced=True, fence=fence)
        for touch, write in tuple(self.generic.items()):
            if is_fenced(touch, mask, shown) and not write.fenced:
                self.generic[touch] = Fenced(touch, True, self.clocks.event(threads_of(touch)))

    def check_end(self) -> None:
        super().check_end()
        landed = self.brought.values()
        told = {
            (one.column, one.phase)
            for one in landed
            if ("conflict", one.copy.op) in self.forgiven.causes
        }
        rest = (one for one in landed if (one.column, one.phase) not in told)
        check_waited(rest, self.clocks.known)
        self.cores.check_end(self.clocks)

    def explained(self, fault: PhaseFault) -> PhaseFault:
        """What is wrong, where this only follows from it."""
        return role_phases.explained(fault, self.shared.values())

    # Conflicts ----------------------------------------------------------------------------

    def _refuse(
        self, code: FaultCode, touch: Touch, earlier: Touch | CopyInFlight, why: str
    ) -> None:
        try:
            refuse(code, touch, earlier, why)
        except PhaseFault as fault:
            if not self.forgiven.follows(fault.found):
                raise

    def catch_up(self, mask: int) -> None:
        """Threads know all that happened."""
        told = self.clocks.release((1 << self.everybody.bit_length()) - 1)
        for one in self.shared.values():
            self.clocks.acquire(mask, told.joined(one.told), one.column, one.over)

    def _check_copies(self, touch: Touch, code: FaultCode) -> None:
        super()._check_copies(touch, code)
        why = "nothing that its threads wait for says that the phase of this copy is over"
        # Who overwrites need not have seen what was there.
        over = self.clocks.saw if code == "read-in-flight" else self.clocks.passed
        for one in self.brought.values():
            if meet(one.copy.region, touch.region) and (
                over(threads_of(touch), one.column) <= one.phase
            ):
                self._refuse(code, touch, one.copy, why)

    def _check_far(self, touch: Touch, *, writes: bool, proxy: bool) -> None:
        super()._check_far(touch, writes=writes, proxy=proxy)
        threads = threads_of(touch)
        for one in self.brought.values() if writes else ():
            source = one.copy.source
            if source is not None and self.clocks.passed(threads, one.column) <= one.phase:
                why = "nothing that its threads wait for says that the phase of this copy is over"
                self._refuse("source-overwritten", touch, Touch(source, one.copy.op, None), why)
        why = "other threads do not know that this is over: they must wait for an arrival after it"
        for store, event in self.put.items():
            if not self._knows(touch, store, event):
                self._refuse("not-visible", touch, store, why)

    def _check_landed(self, touch: Touch) -> None:
        """Who has waited is a matter of clocks."""

    def _check_reads(self, touch: Touch, proxy: bool) -> None:
        super()._check_reads(touch, proxy)
        for product in self.cores.running(threads_of(touch), self.clocks):
            for read in product.reads:
                wait = "it reads until a wait for the mbarrier of its commit, or for who has waited"
                self._refuse("source-overwritten", touch, read, wait)
        why = "other threads may still be reading here: they must arrive, after that, where this waits"
        for (reads, was_proxy), event in self.over.items():
            if (proxy or was_proxy) and not self._knows(touch, reads[0], event):
                for read in reads:
                    self._refuse("missing-barrier", touch, read, why)

    def _check_written(self, touch: Touch) -> None:
        fence = "a fence for the async proxy is missing after this, before the threads arrive"
        barrier = "other threads may not have written yet: they must arrive where this waits"
        near = (one for one in self.generic.values() if meet(one.touch.region, touch.region))
        for write, fenced, done in near:
            if not fenced:
                self._refuse("missing-fence", touch, write, fence)
            elif not self._knows(touch, write, done):
                self._refuse("missing-barrier", touch, write, barrier)

    def _knows(self, touch: Touch, other: Touch, event: Event) -> bool:
        same = touch.by == other.by and single(threads_of(touch))
        return same or self.clocks.sees(threads_of(touch), event)


# What roles did to memory, as it is known to those who have waited for it.
#
# a copy that has landed     over for who knows that its phase is
# a generic write            over for the async proxy after a fence, for who has waited since


class Landed(NamedTuple):
    """A copy that is over for who knows that this phase of the mbarrier `column` is."""

    copy: CopyInFlight
    column: int
    phase: int


class Fenced(NamedTuple):
    """A generic write, `done` at last by a fence for the async proxy, if it is `fenced`."""

    touch: Touch
    fenced: bool
    done: Event


def check_waited(landed: Iterable[Landed], there: Sequence[Told]) -> None:
    """Somebody of those who are there knows that copies are over."""
    for one in landed:
        if all(known.before[one.column] <= one.phase for known in there):
            raise unwaited(one.copy)


def threads_of(touch: Touch) -> int:
    """The threads that touch it. Raises NotFollowedError where they are not known."""
    if touch.by is None:
        raise NotFollowedError("unknown-threads")
    return touch.by
