"""Who may touch which bytes of memory of a block: copies, products and stores in flight, and what threads did.
What is over is over for those who know it. Of global memory the places that tensor copies read or write are
looked at where something else may touch them (`find_global_memory`).

    copy on full[2]            over for who has waited for its phase, or for somebody who has
    product, waited for        its reads are over for who has waited for an arrival after that wait
    barrier of the block       all know all
    barrier of some threads    an mbarrier: arrival and wait in one op

Two generic accesses are compared here only where phases alone may order them (`ByThreads`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mlir_async_pipe.checker.phase_faults import FaultCode, Forgiven, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases import mbarrier_state
from mlir_async_pipe.checker.phases.byte_places import ByteRange, is_map, meet, must_meet
from mlir_async_pipe.checker.phases.cluster_blocks import ClusterBlocks, block_of
from mlir_async_pipe.checker.phases.mbarrier_state import (
    NAMED,
    CopyInFlight,
    Does,
    Issued,
    Key,
    Mbarrier,
    Touch,
)
from mlir_async_pipe.checker.phases.ring_moves import RingMoves
from mlir_async_pipe.checker.phases.tensor_state import Cells, Product, TensorMemory
from mlir_async_pipe.checker.phases.warp_clocks import ClockPair, Event, WarpClasses, WarpClocks
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES
from mlir_async_pipe.vocabulary.rows import BULK_STORE, CP_ASYNC, WGMMA

# When a class did something, and a bit for that.
Noted = tuple[int, int, int]

# All memory of which only the order of accesses is asked: no region of others is of its root.
ALTERNATING = ByteRange(-3)
_MEETING: Key = (mbarrier_state.MEETING, 0)

# Notes of faults where threads know of each other by what they wait for, and where all go together.
_SOME_WAITED = "only some threads waited for it: a barrier of the block is missing"
_COPIED = (
    "nothing that its threads wait for says that the phase of this copy is over",
    "no wait for the phase of this copy has passed there",
)
_FETCHED = _COPIED[0], "it reads global memory until a wait for the phase of this copy has passed"
_STORED = "other threads do not know that this is over: they must wait for an arrival after it"
_READ = (
    "other threads may still be reading here: they must arrive, after that, where this waits",
    "other threads may still be reading here: the block must meet in between",
)
# A warp has waited for its warpgroup's products, and said so for others of that: it is not certain that theirs run.
OF_A_WARP = "products-of-others"
_MULTIPLIED = (
    "it reads until a wait for the mbarrier of its commit, or for who has waited",
    "it reads until a wait for the mbarrier of its commit",
)
_FENCE = (
    "a fence for the async proxy is missing after this, before the threads arrive",
    "a fence for the async proxy is missing after this, before the threads meet",
)
_WRITTEN = (
    "other threads may not have written yet: they must arrive where this waits",
    "other threads may not have written, or made their fence: the block must meet in between",
)

_RELEASE = "'nvvm.fence.proxy.release' is missing after this"
_RELEASED = (
    "its release may come later: its threads must arrive, after that, where this waits",
    "its release may come later: the block must meet in between",
)
_ACQUIRE = "'nvvm.fence.proxy.acquire' of the map is missing before this, after the release"


@dataclass
class BlockMemory:
    """The memory of a block on one path of all its threads, which are `everybody`.

    `queues` hold async ops by queue and issuing threads; `over` are reads that are over, those of some threads
    that one event ended together, and the queue of those of a proxy ("": of threads); `brought` are copies that are, `put` stores
    to global memory that are; `generic` what threads wrote. `progress` grows with whatever somebody may wait for.
    `log` is of all paths together, and so are the numbers of events (`names`) and
    what was noted of mbarriers. `some_met`: some threads met at a barrier of their own where all go together,
    which orders more than is recorded here. `asks`: there was a test. `exact`: all that ends each cp.async on
    mbarriers is noted. `blocks`: those of a cluster, if it is the memory of all of them. Then `reached` is what threads did
    last, by an op, to the memory of a block of others; `met` are threads that have arrived where all meet, and not
    waited since, `ended` those that have ended.
    """

    everybody: int
    clocks: WarpClocks = field(default_factory=lambda: WarpClocks.started(WarpClasses(())))
    mbarriers: dict[Key, Mbarrier] = field(default_factory=dict)
    queues: dict[tuple[str, int], Issued] = field(default_factory=dict)
    over: dict[tuple[tuple[Touch, ...], str], Event] = field(default_factory=dict)
    brought: dict[tuple[ByteRange, int, tuple[ByteRange, ...]], Landed] = field(
        default_factory=dict
    )
    put: dict[Touch, Event] = field(default_factory=dict)
    generic: dict[Touch, Fenced] = field(default_factory=dict)
    progress: int = 0
    some_met: bool = False
    asks: bool = False
    by_threads: mbarrier_state.ByThreads[int] | None = None
    exact: bool = False
    blocks: ClusterBlocks = field(default_factory=ClusterBlocks)
    reached: dict[tuple[int, int, int], Event] = field(default_factory=dict)
    met: int = 0
    ended: int = 0
    tensor: TensorMemory = field(default_factory=TensorMemory)
    log: mbarrier_state.RoleLog = field(default_factory=dict)
    forgiven: Forgiven = field(default_factory=Forgiven)
    moves: RingMoves | None = None
    names: dict[Hashable, int] = field(default_factory=dict)
    adding: set[int] = field(default_factory=set)
    noted: dict[Hashable, tuple[Mbarrier, list[Noted], Hashable]] = field(default_factory=dict)
    bits: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)

    def copy(self) -> BlockMemory:
        return replace(
            self,
            queues=dict(self.queues),
            clocks=self.clocks.copy(),
            mbarriers=dict(self.mbarriers),
            over=dict(self.over),
            brought=dict(self.brought),
            put=dict(self.put),
            generic=dict(self.generic),
            tensor=self.tensor.copy(),
            reached=dict(self.reached),
        )

    @property
    def together(self) -> bool:
        """Whether all threads take one path."""
        return self.clocks.classes.together

    @property
    def _has_copies_on_mbarriers(self) -> bool:
        return self.by_threads is not None and self.by_threads.on_mbarriers

    def dones(self) -> Iterator[dict[Any, Event]]:
        """What was done, by what it is."""
        yield from (self.over, self.put, self.reached)

    # mbarriers ----------------------------------------------------------------------------

    def init(self, key: Key, op: int, mask: int, count: int) -> None:
        self.check_own(key[0], mask)
        if not mbarrier_state.single(mask):
            note = "one thread initialises an mbarrier, the others wait"
            raise PhaseFault("several-issuers", op, op, note)
        if key in self.mbarriers:
            note = "what becomes of an mbarrier that is initialised again is not defined"
            raise PhaseFault("initialised-again", op, self.mbarriers[key].init, note)
        self._new(key, op, mask, count)

    def _new(self, key: Key, op: int, mask: int, count: int) -> None:
        # Its phases below 0 count as over, and all know that: two are as many as anybody asks for.
        column = self.clocks.new_column()
        over = self.clocks.know_all(column, 2)
        for there, other in self.mbarriers.items():
            self.mbarriers[there] = other._replace(released=other.released.joined(over))
        born, released = self.clocks.event(mask), self.clocks.common()
        self.mbarriers[key] = Mbarrier(count, op, mask, born, column, over=2, released=released)

    def _at(self, key: Key, op: int) -> Mbarrier:
        if key not in self.mbarriers:
            raise PhaseFault(
                "barrier-not-initialised", op, op, "no thread has initialised it before this"
            )
        return self.mbarriers[key]

    def _use(
        self,
        does: Does,
        key: Key,
        op: int,
        mask: int,
        change: Callable[..., Mbarrier],
        *given: Any,
        **named: Any,
    ) -> None:
        """Threads change an mbarrier; its running phase ends if that may be."""
        before = self._at(key, op)
        self._note(does, op, mask, key)
        self.mbarriers[key] = change(before, self.clocks, op, mask, *given, **named)
        self.advance(key)

    def arrive(
        self, key: Key, op: int, mask: int, count: int, size: int | None, releases: bool = True
    ) -> None:
        rank = block_of(key[0])
        if key[0] >= 0 and self.blocks.threads and rank != self.blocks.rank_of(mask):
            self._check_alive(rank, op)
            self.reached[rank, op, mask] = self.clocks.event(mask)
        does: Does = "announces" if size else "arrives"
        self._use(does, key, op, mask, mbarrier_state.arrive, count, size, releases=releases)

    def announce(self, key: Key, op: int, mask: int, size: int) -> None:
        """Threads announce bytes, and do not arrive."""
        self.check_own(key[0], mask)
        self._use("announces", key, op, mask, mbarrier_state.announce, size)

    def wait(self, key: Key, op: int, mask: int, parity: int) -> None:
        """Threads wait: the copies of the phase are over for them. Raises BlockedError."""
        self.check_own(key[0], mask)
        barrier = self._at(key, op)
        wait = mbarrier_state.wait_for_next if op in self.forgiven.parities else mbarrier_state.wait
        self.mbarriers[key] = wait(barrier, self.clocks, op, mask, parity)
        self._note("waits", op, mask, key, parity)
        if mask == self.everybody:
            of = barrier.column
            self.brought = {what: one for what, one in self.brought.items() if one.column != of}

    def asked(self, key: Key, op: int, mask: int, parity: int) -> int | None:
        """For which phase threads ask; None where they may be told of the one two phases before."""
        self.asks = True
        return mbarrier_state.asked(self._at(key, op), self.clocks, op, mask, parity)

    def knows_end(self, key: Key, mask: int, phase: int) -> bool:
        return self.clocks.passed(mask, self.mbarriers[key].column) > phase

    def issue_copy(self, key: Key, mask: int, copy: CopyInFlight, each: bool = False) -> None:
        """A thread issues a copy into workgroup memory, or `each` of several a part of it: of its block or another one,
        whose mbarrier says when."""
        self._check_alive(block_of(key[0]), copy.op)
        self.check_write(Touch(copy.region, copy.op, mask), proxy=True)
        for source in copy.sources:
            self.check_read(Touch(source, copy.op, mask), proxy=True)
        self._use("copies", key, copy.op, mask, mbarrier_state.copy, copy, each=each)

    def arrive_after_copies(self, key: Key, op: int, mask: int, counts: bool) -> None:
        """Arrivals to come when all cp.async that the threads have issued are over: those that the phase `counts`,
        or one more each (PTX ISA, cp.async.mbarrier.arrive: .noinc). Of what else the threads did they tell nothing."""
        self.check_own(key[0], mask)
        before = self._at(key, op)
        self._note("arrives" if counts else "announces", op, mask, key)
        moved: dict[CopyInFlight, None] = {}
        for name in self._issued_by(CP_ASYNC.name, mask):
            issued = self.queues.pop(name)
            for touch in (*issued.open, *(one for group in issued.groups for one in group)):
                moved[CopyInFlight(touch.region, 0, touch.op, by=name[1])] = None
        if self.exact:
            self._ends_also(before, mask)
            before = self.mbarriers[key]
        if counts:
            after = mbarrier_state.arrive(before, self.clocks, op, mask, 1, 0, commit=())
        else:
            after = mbarrier_state.announce(before, self.clocks, op, mask, 0)
        running = after.running._replace(copies=(*after.running.copies, *moved))
        self.mbarriers[key] = after._replace(running=running)
        self.advance(key)

    def _ends_also(self, barrier: Mbarrier, mask: int) -> None:
        """Copies that threads issued before, on other mbarriers, are over when the running phase is, too."""
        end = barrier.column, barrier.over

        def now(copy: CopyInFlight) -> CopyInFlight:
            mine = copy.by and not copy.by & ~mask
            return copy._replace(also=(*copy.also, end)) if mine else copy

        for key, one in self.mbarriers.items():
            running = one.running._replace(copies=tuple(map(now, one.running.copies)))
            self.mbarriers[key] = one._replace(running=running)
        landed = [one._replace(copy=now(one.copy)) for one in self.brought.values()]
        self.brought = dict(zip(self.brought, landed, strict=True))

    def forget(self, roots: frozenset[int]) -> None:
        """Nothing names these mbarriers any more: what is in flight on them is kept."""
        busy = {one.column for one in self.brought.values()}
        for key, one in tuple(self.mbarriers.items()):
            idle = not one.running.copies and not one.commits and one.column not in busy
            if key[0] in roots and idle:
                del self.mbarriers[key]

    def running_parity(self, key: Key) -> int | None:
        """The parity of the phase in which all threads arrived; None where another role may have ended it since."""
        one = self.mbarriers.get(key)
        if one is None or not self.together:
            return None
        return one.parity(one.over - (not one.running.arrived))

    def _note(self, does: Does, op: int, mask: int, key: Key, parity: int | None = None) -> None:
        if self.together:
            return
        barrier = self.mbarriers[key]
        phase = barrier.parity(barrier.over) if parity is None else parity
        beginnings = [(key, 0)]
        if self.moves is not None:
            beginnings = [self.moves.key(key, by) for by in range(self.moves.period)]
            # In which phase of a barrier of threads a state is, is not distinguished.
            beginnings += [(key, 1)] if key[0] == NAMED else []
        for there, flips in beginnings:
            if there not in self.mbarriers:
                raise NotFollowedError("rings")
            barrier = self.mbarriers[there]
            use = mbarrier_state.RoleStep(does, op, mask, there[0], barrier.init, barrier.needs)
            number = there[1] if there[0] == NAMED else there[1] // MBARRIER_BYTES
            self.log.setdefault(use, set()).add((number, phase ^ flips))

    def running_copies(self) -> Iterator[CopyInFlight]:
        for barrier in self.mbarriers.values():
            yield from barrier.running.copies

    def advance(self, key: Key) -> None:
        """End the running phase if that may be."""
        before = self.mbarriers[key]
        after = mbarrier_state.ended(before)
        if after is None:
            return
        if key == _MEETING:
            after = after._replace(needs=(self.everybody & ~self.ended).bit_count())
        self.mbarriers[key] = after
        self.progress += 1
        for copy in before.running.copies:
            self.brought[copy.region, copy.op, copy.sources] = Landed(
                copy, before.column, before.over
            )

    # Tensor memory --------------------------------------------------------------------------

    def allocate(self, touch: Touch) -> None:
        """Columns are taken, perhaps some that were given back; where they begin is written."""
        self.write(touch)
        self.tensor.taken(touch.region.root, touch.op)

    def issue_product(self, product: Product) -> None:
        self._refuse_cluster()
        for touch in product.reads:
            self.check_read(touch, proxy=True)
        self.tensor.issue(product, self.clocks)

    def commit_products(self, key: Key, op: int, mask: int) -> None:
        """An arrival to come when all that the thread has issued is over."""
        mbarrier_state.check_fenced(self._at(key, op), self.clocks, op, mask)
        shows = self.tensor.commit(mask, self.clocks)
        self._use("arrives", key, op, mask, mbarrier_state.arrive, 1, 0, commit=shows)

    def use_tensor(self, use: str, cells: Cells, op: int, mask: int) -> None:
        """Threads load from tensor memory, or give columns back."""
        self._refuse_cluster()
        getattr(self.tensor, use)(cells, op, mask, self.clocks)

    def tensor_step(self, step: str, mask: int) -> None:
        """Threads wait for their loads, or make a fence of tensor memory."""
        getattr(self.tensor, step)(mask, self.clocks)

    # Barriers of threads --------------------------------------------------------------------

    def join_barrier(self, number: int, op: int, mask: int, count: int) -> int:
        """Threads arrive at a barrier that has a number, of `count` threads; gives the phase."""
        key = NAMED, number
        if key not in self.mbarriers:
            self._new(key, op, mask, count)
            self.mbarriers[key] = self.mbarriers[key]._replace(born=())
        barrier = self.mbarriers[key]
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
        self._wait_for(self.mbarriers[NAMED, number], phase, op, mask)

    def _wait_for(self, barrier: Mbarrier, phase: int, op: int, mask: int) -> None:
        if barrier.over <= phase:
            raise mbarrier_state.BlockedError(mbarrier_state.Blocked(op, mask, barrier.column))
        self.clocks.acquire(mask, barrier.released, barrier.column, phase + 1)

    def phases_ago(self, number: int, phase: int) -> int:
        """How many phases of a numbered barrier are over since one."""
        return self.mbarriers[NAMED, number].over - phase

    def meet(self) -> None:
        """What everybody knows is over for all: nobody is asked for it any more."""
        known = self.clocks.meet(self.everybody)
        self.over.clear()
        self.put.clear()
        self.generic = {
            touch: one
            for touch, one in self.generic.items()
            if not one.fenced or (is_map(touch.region) and self.everybody & ~one.after)
        }
        self.brought = {
            what: one for what, one in self.brought.items() if known.seen[one.column] <= one.phase
        }
        for key, one in self.mbarriers.items():
            if not (one.born or one.fence or one.ends or one.waits or one.released.before):
                continue
            ends = one.ends if known.before[one.column] < one.over else ()
            released, waits = one.released, one.waits
            if self.together:
                # Whoever arrives from now on knows what was released, and that all waits have passed.
                released = ClockPair() if known.holds(released) else released
                waits = waits if one.running.arrived else ()
            self.mbarriers[key] = one._replace(
                born=(), fence=(), ends=ends, released=released, waits=waits
            )

    # Queues -------------------------------------------------------------------------------

    def issue_read(self, queue: str, touch: Touch) -> None:
        """Threads issue an op that reads until its group is waited for."""
        self.check_own(touch.region.root, touch.by)
        self.check_read(touch, proxy=True)
        self._issue(queue, touch)

    def issue_write(self, queue: str, touch: Touch) -> None:
        """Threads issue a copy that writes until its group is waited for, as they themselves write."""
        self.check_own(touch.region.root, touch.by)
        self._check(touch, "overwrite-in-flight", proxy=self._has_copies_on_mbarriers, fences=False)
        self._issue(queue, touch)

    def issue_store(self, touch: Touch, *, adds: bool) -> None:
        """Threads issue a copy that writes global memory until its group is waited for, or `adds` there."""
        if is_map(touch.region):
            raise NotFollowedError("async-proxy")
        if adds:
            self.adding.add(touch.op)
        self.check_write(touch, proxy=True)
        self._issue(mbarrier_state.GLOBAL_STORES, touch)

    def _issue(self, queue: str, touch: Touch) -> None:
        assert touch.by is not None
        self.queues[queue, touch.by] = self.queues.get((queue, touch.by), Issued()).with_open(touch)

    def commit(self, queue: str, mask: int) -> None:
        """What threads issued becomes their youngest group."""
        self.queues.setdefault((queue, mask), Issued())
        for name, by in self._issued_by(queue, mask):
            self.queues[name, by] = self.queues[name, by].committed()

    def wait_group(self, queue: str, mask: int, left: int) -> None:
        for name, by in self._issued_by(queue, mask):
            issued = self.queues[name, by]
            done = [touch for group in issued.groups[left:] for touch in group]
            if queue == mbarrier_state.GLOBAL_STORES:
                self.put.update((store, self.clocks.event(by)) for store in done)
            elif queue == CP_ASYNC.name:
                if self._has_copies_on_mbarriers:
                    raise NotFollowedError("async-proxy")
                for copy in done:
                    self._written(copy)
            elif done:
                self._note_reads(tuple(dict.fromkeys(done)), queue, self.clocks.event(by))
            self.queues[name, by] = issued._replace(groups=issued.groups[:left])

    def _issued_by(self, queue: str, mask: int) -> list[tuple[str, int]]:
        """The entries of what threads issued. What others of them issued in the same op stays in an entry of its own:
        from now on they may be in another place."""
        found = [one for one in self.queues if one[0] == queue and one[1] & mask]
        for name, by in found:
            if by & ~mask:
                issued = self.queues.pop((name, by))
                for part in (by & mask, by & ~mask):
                    own = self.queues.get((name, part), Issued())
                    self.queues[name, part] = own.with_others(issued.of(part))
        return list(dict.fromkeys((name, by & mask) for name, by in found))

    def _note_reads(self, reads: tuple[Touch, ...], queue: str, event: Event) -> None:
        """Reads are over; of each the last one counts."""
        if (reads, queue) not in self.over:
            again = set(reads)
            for one in [
                one for one in self.over if one[1] == queue and not again.isdisjoint(one[0])
            ]:
                before = self.over.pop(one)
                if rest := tuple(read for read in one[0] if read not in again):
                    self.over[rest, queue] = before
        self.over[reads, queue] = event

    # Threads ------------------------------------------------------------------------------

    def read(self, touch: Touch) -> None:
        self.check_own(touch.region.root, touch.by)
        self.check_read(touch, proxy=False)
        self._note_reads((touch,), "", self.clocks.event(self._threads(touch)))

    def touch_alternating(self, op: int, mask: int) -> None:
        """Threads access memory, after what they and others did to it or not."""
        touch, event = Touch(ALTERNATING, op, mask), self.clocks.event(mask)
        step = mbarrier_state.RoleStep("touches", op, mask, ALTERNATING.root, op, 0)
        unordered = self.log.setdefault(step, set())
        beside = self.log.setdefault(step._replace(does="overlaps"), set())
        for other, done in self.put.items():
            by = self._threads(other)
            if other.region == ALTERNATING and not self.clocks.sees(mask, done):
                (beside if by == mask else unordered).add((other.op, by))
        self.put[touch] = event

    def has_alternating(self) -> bool:
        """Whether it is asked in which order threads come to what was done."""
        return any(touch.region == ALTERNATING for touch in self.put)

    def write(self, touch: Touch) -> None:
        self.check_own(touch.region.root, touch.by)
        self.check_write(touch, proxy=False)
        self._written(touch)

    def _written(self, touch: Touch) -> None:
        self.generic[touch] = Fenced(False, self.clocks.event(self._threads(touch)))
        self.tensor.lost(touch.region.root)

    def fence(self, mask: int, shown: frozenset[str]) -> None:
        """What threads wrote of what is `shown` goes to the async proxy."""
        for key, barrier in self.mbarriers.items():
            if "mbarriers" in shown and not (barrier.fenced or barrier.by & ~mask):
                fence = self.clocks.event(barrier.by)
                self.mbarriers[key] = barrier._replace(fenced=True, fence=fence)
        for touch, write in tuple(self.generic.items()):
            if mbarrier_state.space_of(touch.region) not in shown or touch.by is None:
                continue
            # Of a fence of the writers others know by a barrier after it. A fence of who has seen the
            # write is as good: it stands on the path from the write to what comes after the fence.
            sees = self.clocks.sees(mask, write.done)
            if not write.fenced and (sees or not touch.by & ~mask):
                by = mask if sees else touch.by
                write = Fenced(True, self.clocks.event(by))
            after = write.after | mask if sees and not is_map(touch.region) else write.after
            self.generic[touch] = write._replace(after=after)

    def acquire_map(self, touch: Touch) -> None:
        """Threads see in a tensor map what they know to be released."""
        for write, one in tuple(self.generic.items()):
            covered = must_meet(touch.region, write.region) and meet(touch.region, write.region)
            if covered and one.fenced and self._knows(touch, write, one.done):
                self.generic[write] = one._replace(after=one.after | self._threads(touch))

    def check_end(self) -> None:
        for copy in self.running_copies():
            raise mbarrier_state.unwaited(copy)
        landed = self.brought.values()
        forgiven = {
            (one.column, one.phase)
            for one in landed
            if ("conflict", one.copy.op) in self.forgiven.causes
        }
        rest = (one for one in landed if (one.column, one.phase) not in forgiven)
        check_waited(rest, self.clocks.known)
        self.tensor.check_end(self.clocks)
        for (queue, _), issued in self.queues.items():
            for store in (*issued.open, *(touch for group in issued.groups for touch in group)):
                if queue == CP_ASYNC.name and self._has_copies_on_mbarriers:
                    raise mbarrier_state.unwaited(CopyInFlight(store.region, 0, store.op))
                if queue == BULK_STORE.name:
                    note = "no wait for its bulk group, with `.read` or without, has passed there"
                    raise PhaseFault("unwaited-copy", store.op, store.op, note)

    def explained(self, fault: PhaseFault) -> PhaseFault:
        """What is wrong, where this only follows from it."""
        return fault if self.together else mbarrier_state.explained(fault, self.mbarriers.values())

    def catch_up(self, mask: int) -> None:
        """Threads know all that happened."""
        released = self.clocks.release((1 << self.everybody.bit_length()) - 1)
        for one in self.mbarriers.values():
            self.clocks.acquire(mask, released.joined(one.released), one.column, one.over)

    # The blocks of a cluster ------------------------------------------------------------------
    #
    # nvvm.cluster.arrive, .wait          an mbarrier without memory, of all threads
    # arrive in block 1, from block 0     over for block 1 if one of its threads has waited for that
    # block 1 ends                        what others did there is over for one of its threads
    #
    # Each block begins as a role of its own, with its threads; threads do not leave their block.

    def _refuse_cluster(self) -> None:
        """Tensor memory is not followed there: each block has its own."""
        if self.blocks.threads:
            raise NotFollowedError("async-proxy")

    def check_own(self, root: int, mask: int | None) -> None:
        """Threads use memory that must be of their own block; what is global is everybody's."""
        if root < 0 or not self.blocks.threads:
            return
        if block_of(root) < 0:
            raise NotFollowedError("unknown-place")
        if block_of(root) != self.blocks.rank_of(mask):
            raise NotFollowedError("other-block")

    def _check_alive(self, rank: int, op: int) -> None:
        if self.blocks.threads and not self.blocks.members(rank) & ~self.ended:
            raise _ended(op, rank, "")

    def arrive_all(self, op: int, mask: int, *, releases: bool) -> None:
        """Threads arrive where all of the cluster meet; without a release that shows only mbarriers that they fenced."""
        if _MEETING not in self.mbarriers:
            self._new(_MEETING, op, mask, (self.everybody & ~self.ended).bit_count())
            self.mbarriers[_MEETING] = self.mbarriers[_MEETING]._replace(born=())
        barrier = self.mbarriers[_MEETING]
        if self.met & mask:
            note = "these threads have arrived here before, and not waited since"
            raise PhaseFault("too-many-arrivals", op, op, note)
        self.met |= mask
        for key, one in self.mbarriers.items():
            if one.fenced and one.shown is None and not one.by & ~mask:
                self.mbarriers[key] = one._replace(shown=(barrier.column, barrier.over))
        self._use("arrives", _MEETING, op, mask, mbarrier_state.arrive, 1, 0, releases=releases)

    def wait_all(self, op: int, mask: int) -> None:
        """They wait for all others. Raises BlockedError."""
        if mask & ~self.met:
            note = (
                "these threads wait for all to arrive, and have not done so since they waited last"
            )
            raise PhaseFault("deadlock", op, op, note)
        barrier = self.mbarriers[_MEETING]
        self._wait_for(barrier, barrier.over - (not barrier.arrived_by & mask), op, mask)
        self.met &= ~mask

    def leave(self, mask: int) -> None:
        """Threads end: in a cluster nobody waits for them where all meet. The last ones end their block."""
        if not self.blocks.threads:
            return
        self.ended |= mask
        barrier = self.mbarriers.get(_MEETING)
        if barrier is not None:
            missing = (mask & ~barrier.arrived_by).bit_count()
            self.mbarriers[_MEETING] = barrier._replace(needs=barrier.needs - missing)
            if barrier.running.arrived:
                self.advance(_MEETING)
        rank = self.blocks.rank_of(mask)
        if not self.blocks.members(rank) & ~self.ended:
            self._check_block_end(rank)

    def _check_block_end(self, rank: int) -> None:
        there = [self.clocks.known[n] for n in self.clocks.classes.of(self.blocks.members(rank))]
        for copy in self.running_copies():
            if block_of(copy.region.root) == rank:
                raise mbarrier_state.unwaited(copy)
        landed = (one for one in self.brought.values() if block_of(one.copy.region.root) == rank)
        check_waited(landed, there)
        for (block, op, _), event in self.reached.items():
            if block != rank:
                continue
            if not all(any(known.before[other] > tick for known in there) for other, tick in event):
                why = ": nothing that its threads wait for says that this is over"
                raise _ended(op, rank, why)

    # Conflicts ----------------------------------------------------------------------------

    def check_read(self, touch: Touch, *, proxy: bool) -> None:
        """Threads, or what they issue (`proxy`), read bytes."""
        if is_map(touch.region) and proxy:
            self._check_map(touch)
        else:
            self._check(touch, "read-in-flight", proxy)

    def check_write(self, touch: Touch, *, proxy: bool) -> None:
        """Threads, or a copy that one of them issues (`proxy`), write bytes."""
        self._check(touch, "overwrite-in-flight", proxy)

    def _check(self, touch: Touch, code: FaultCode, proxy: bool, *, fences: bool = True) -> None:
        writes = code == "overwrite-in-flight"
        if self.by_threads is not None and not proxy and touch.op in self.by_threads.ops:
            proxy, fences = True, False
        self._check_copies(touch, code)
        if writes:
            self._check_reads(touch, proxy)
        if mbarrier_state.is_global(touch.region):
            self._check_global(touch, writes=writes, proxy=proxy)
        if proxy:
            self._check_written(touch, fences)
        if proxy or self._has_copies_on_mbarriers:
            for copy, until in mbarrier_state.in_flight(self.queues, "copies"):
                self._refuse(code, touch, copy, until)

    def _refuse(
        self,
        code: FaultCode,
        touch: Touch,
        earlier: Touch | CopyInFlight,
        why: str,
        doubt: str = "",
    ) -> None:
        """Raises PhaseFault if the bytes of two accesses may be the same; not certain if there is `doubt`."""
        unsure = "" if self.by_threads is None else self.by_threads.doubt(touch.op, earlier.op)
        if unsure is None or not meet(earlier.region, touch.region):
            return
        doubt = doubt or unsure
        certain = not doubt and must_meet(earlier.region, touch.region)
        fault = PhaseFault(code, touch.op, earlier.op, why, certain, doubt=doubt)
        if not self.forgiven.follows(fault.found):
            raise fault

    def _check_copies(self, touch: Touch, code: FaultCode) -> None:
        for barrier in self.mbarriers.values():
            for copy in barrier.running.copies:
                if not self._is_over(copy, touch):
                    self._refuse(code, touch, copy, _COPIED[True])
        # Who overwrites need not have seen what was there.
        seen = code == "read-in-flight"
        for one in self.brought.values():
            if meet(one.copy.region, touch.region) and self._lacks(touch, one, seen=seen):
                if self._some_waited(one):
                    self._refuse("not-visible", touch, one.copy, _SOME_WAITED)
                else:
                    self._refuse(code, touch, one.copy, _COPIED[self.together])

    def _lacks(self, touch: Touch, landed: Landed, *, seen: bool = False) -> bool:
        """Whether threads do not know that a copy is over, or have not `seen` what it brought."""
        known, end = self.clocks.sees if seen else self.clocks.knows, (landed.column, landed.phase)
        return not (known(self._threads(touch), (end,)) or self._is_over(landed.copy, touch))

    def _is_over(self, copy: CopyInFlight, touch: Touch) -> bool:
        """Whether threads know the end of a phase of another mbarrier that does not end before a copy."""
        return any(self.clocks.sees(self._threads(touch), (end,)) for end in copy.also)

    def _some_waited(self, landed: Landed) -> bool:
        """Whether a copy is over for some, where all go together."""
        known = (one.before[landed.column] for one in self.clocks.known)
        return self.together and max(known) > landed.phase

    def _check_global(self, touch: Touch, *, writes: bool, proxy: bool) -> None:
        """Against copies that read or write global memory."""
        for copy in self.running_copies() if writes else ():
            for source in copy.sources:
                read = Touch(source, copy.op, None)
                self._refuse("source-overwritten", touch, read, _FETCHED[True])
        code: FaultCode = "overwrite-in-flight" if writes else "read-in-flight"
        # Sums are in any order the same.
        alike = self.adding if touch.op in self.adding else frozenset[int]()
        for store, wait in mbarrier_state.in_flight(self.queues, "stores"):
            if store.op in alike:
                continue
            # Two tensor stores count only where they must meet: most kernels have several in flight.
            if not (writes and proxy) or must_meet(store.region, touch.region):
                self._refuse(code, touch, store, wait)
        for one in self.brought.values() if writes else ():
            for source in one.copy.sources if self._lacks(touch, one) else ():
                read = Touch(source, one.copy.op, None)
                if self._some_waited(one):
                    self._refuse("missing-barrier", touch, read, _SOME_WAITED)
                else:
                    self._refuse("source-overwritten", touch, read, _FETCHED[self.together])
        for store, event in self.put.items():
            if store.op not in alike and not self._knows(touch, store, event):
                why = _SOME_WAITED if self.together else _STORED
                self._refuse("not-visible", touch, store, why)

    def _check_reads(self, touch: Touch, proxy: bool) -> None:
        for read, wait in mbarrier_state.in_flight(self.queues, "reads"):
            self._refuse("source-overwritten", touch, read, wait)
        for product in self.tensor.running(self._threads(touch), self.clocks):
            for read in product.reads:
                self._refuse("source-overwritten", touch, read, _MULTIPLIED[self.together])
        root = touch.region.root
        for (reads, queue), event in self.over.items():
            if not (proxy or queue):
                continue
            # Most reads are of other memory: this is asked for each store of an epilogue.
            near = [read for read in reads if root < 0 or read.region.root == root]
            # Products of a warpgroup read for all lanes of a warp, so one that knows of it knows that of all.
            of_warps = queue and self.clocks.classes.aligned
            threads = self._threads(touch)
            if not near or (of_warps and self.clocks.knows(threads, event)):
                continue
            if not self._knows(touch, reads[0], event):
                told = queue == WGMMA.name and self.clocks.knows_of_groups(threads, event)
                for read in near:
                    why = _READ[self.together]
                    self._refuse("missing-barrier", touch, read, why, OF_A_WARP if told else "")

    def _check_written(self, touch: Touch, fences: bool) -> None:
        root = touch.region.root
        for write, (fenced, done, after) in self.generic.items():
            # Most writes are elsewhere: this is asked for each product and each store of an epilogue.
            if root >= 0 and write.region.root != root:
                continue
            if not meet(write.region, touch.region) or not self._threads(touch) & ~after:
                continue
            if fences and not fenced:
                self._refuse("missing-fence", touch, write, _FENCE[self.together])
            elif not self._knows(touch, write, done):
                self._refuse("missing-barrier", touch, write, _WRITTEN[self.together])

    def _check_map(self, touch: Touch) -> None:
        """A tensor copy reads its map: through a proxy of its own, after a release and an acquire."""
        for write, (released, done, after) in self.generic.items():
            if not meet(write.region, touch.region):
                continue
            if not released:
                self._refuse("missing-fence", touch, write, _RELEASE)
            elif not self._knows(touch, write, done):
                self._refuse("missing-barrier", touch, write, _RELEASED[self.together])
            elif self._threads(touch) & ~after:
                self._refuse("missing-fence", touch, write, _ACQUIRE)

    def _knows(self, touch: Touch, other: Touch, event: Event) -> bool:
        threads = self._threads(touch)
        same = touch.by == other.by and mbarrier_state.single(threads)
        return same or self.clocks.sees(threads, event)

    def _threads(self, touch: Touch) -> int:
        """The threads that touch it, all where they go together. Raises NotFollowedError where they are not known."""
        if touch.by is not None:
            return touch.by
        if not self.together:
            raise NotFollowedError("unknown-threads")
        return self.everybody


# What threads did to memory, as it is known to those who have waited for it.
#
# a copy that has landed     over for who knows that its phase is
# a generic write            over for the async proxy after a fence, for who has waited since


class Landed(NamedTuple):
    """A copy that is over for who knows that this phase of the mbarrier `column` is."""

    copy: CopyInFlight
    column: int
    phase: int


class Fenced(NamedTuple):
    """When generic writes were `done`, at last by a fence if they are `fenced`; threads `after` made one since they saw them."""

    fenced: bool
    done: Event
    after: int = 0


def check_waited(landed: Iterable[Landed], there: Sequence[ClockPair]) -> None:
    """Somebody of those who are there knows that copies are over."""
    for one in landed:
        if all(known.before[one.column] <= one.phase for known in there):
            raise mbarrier_state.unwaited(one.copy)


def _ended(op: int, rank: int, why: str) -> PhaseFault:
    return PhaseFault("block-ended", op, op, f"block {rank} may have ended before{why}")
