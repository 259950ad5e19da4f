"""Who may touch which bytes of memory: copies, products and stores in flight, and what threads did
since the block met. Of global memory the places that tensor copies read or write are looked at
where something else may touch them (`far_memory`).

    copy on full[2]        writes bytes 32768 to 49151 until a wait for its phase has passed
    product, committed     reads its tiles until a wait for its group; other threads know of that
                           after the next barrier of the block
    store of a thread      seen by copies and products after a fence and a barrier

Two generic accesses are not compared here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mlir_async_pipe.checker.phase_faults import FaultCode, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases import arrivals
from mlir_async_pipe.checker.phases.arrivals import CopyInFlight, Key, Mbarrier
from mlir_async_pipe.checker.phases.cluster_blocks import Blocks
from mlir_async_pipe.checker.phases.tensor_state import Cells, Product, TensorState, without
from mlir_async_pipe.checker.phases.touches import (
    FAR_STORES,
    Issued,
    Touch,
    Written,
    check_in_flight,
    check_over,
    is_far,
    is_fenced,
    refuse,
    same_thread,
    unwaited,
)
from mlir_async_pipe.vocabulary.rows import BULK_STORE


@dataclass
class AsyncMemory:
    """The memory of a block on one path. `everybody` are its threads.

    `queues` hold async reads by queue and issuing threads; `reads` are those that are over, and
    generic ones, since the block met; `landed` are copies that only some threads waited for, `fetched`
    those that read global memory likewise, and `stored` stores to it that are over for their thread.
    `some_met`: some threads met at a barrier of their own, which orders more than is told here.
    `blocks`: those of a cluster, if it is the memory of all of them.
    """

    everybody: int
    barriers: dict[Key, Mbarrier] = field(default_factory=dict)
    queues: dict[tuple[str, int], Issued] = field(default_factory=dict)
    reads: frozenset[tuple[Touch, bool]] = frozenset()
    landed: frozenset[Touch] = frozenset()
    fetched: frozenset[Touch] = frozenset()
    stored: frozenset[Touch] = frozenset()
    written: frozenset[Written] = frozenset()
    some_met: bool = False
    blocks: Blocks = field(default_factory=Blocks)
    tensor: TensorState = field(default_factory=lambda: TensorState(0))

    def __post_init__(self) -> None:
        if not self.tensor.everybody:
            self.tensor = TensorState(self.everybody)

    def copy(self) -> AsyncMemory:
        """The same, to be changed on its own."""
        return replace(self, barriers=dict(self.barriers), queues=dict(self.queues))

    def key(self) -> object:
        """What is equal for the same memory."""
        return (
            frozenset(self.barriers.items()),
            frozenset(self.queues.items()),
            self.reads,
            self.landed,
            self.fetched,
            self.stored,
            self.written,
            self.some_met,
            self.tensor,
        )

    # mbarriers ----------------------------------------------------------------------------

    def init(self, key: Key, op: int, mask: int, count: int) -> None:
        known = self.barriers.get(key)
        arrivals.check_init(op, mask, None if known is None else known.init)
        self.barriers[key] = Mbarrier(count, op, mask)

    def barrier(self, key: Key, op: int) -> Mbarrier:
        if key not in self.barriers:
            raise PhaseFault(
                "barrier-not-initialised", op, op, "no thread has initialised it before this"
            )
        return self.barriers[key]

    def arrive(
        self, key: Key, op: int, mask: int, count: int, size: int | None, tells: bool = True
    ) -> None:
        """Threads arrive; who `tells` nothing is followed with roles alone."""
        if not tells:
            raise NotFollowedError("specialised")
        self.barriers[key] = arrivals.arrive(self.barrier(key, op), op, mask, count, size)

    def wait(self, key: Key, op: int, mask: int, parity: int) -> None:
        """Threads wait: the copies of the phase are over."""
        before = self.barrier(key, op)
        done, copies = arrivals.wait(before, op, mask, parity, self.everybody)
        self.barriers[key] = done
        if done.parity != before.parity and before.phases and before.phases[0].products:
            self._products_over(before.phases[0].products, mask)
        if mask != self.everybody:
            self.landed |= {Touch(copy.region, copy.op, mask) for copy in copies}
            self.fetched |= {Touch(c.source, c.op, mask) for c in copies if c.source is not None}

    def issue_copy(self, key: Key, mask: int, copy: CopyInFlight) -> None:
        """A thread issues a copy into workgroup memory."""
        self._check_issue(copy, mask)
        self.barriers[key] = arrivals.copy(self.barrier(key, copy.op), mask, copy)

    def _check_issue(self, copy: CopyInFlight, mask: int) -> None:
        self.check_write(Touch(copy.region, copy.op, mask), proxy=True)
        if copy.source is not None:
            self.check_read(Touch(copy.source, copy.op, mask), proxy=True)

    def forget(self, roots: frozenset[int]) -> None:
        """Nothing names these mbarriers any more: what is in flight on them is kept."""
        for key, barrier in tuple(self.barriers.items()):
            idle = not any(phase.copies or phase.products for phase in barrier.phases)
            if key[0] in roots and idle:
                del self.barriers[key]

    def running_parity(self, key: Key) -> int | None:
        """The parity of the phase that an arrival of all threads came in."""
        barrier = self.barriers.get(key)
        if barrier is None or not barrier.phases:
            return None
        return (barrier.parity + len(barrier.phases) - 1) % 2

    # Tensor memory --------------------------------------------------------------------------

    def allocate(self, touch: Touch) -> None:
        """Columns are taken; where they begin is written."""
        self.write(touch)
        self.tensor = self.tensor.taken(touch.region.root, touch.op)

    def issue_product(self, product: Product) -> None:
        """A thread issues a product of tensor memory."""
        for touch in product.reads:
            self.check_read(touch, proxy=True)
        self.tensor = self.tensor.issue(product)

    def commit_products(self, key: Key, op: int, mask: int) -> None:
        """An arrival to come when all that the thread has issued is over."""
        before = self.barrier(key, op)
        arrivals.check_fenced(before.is_fenced_for(mask), before.init, op)
        covered = self.tensor.in_flight(self.barriers)
        barrier = arrivals.arrive(before, op, mask, 1, 0)
        last = barrier.phases[-1]._replace(products=covered)
        self.barriers[key] = barrier._replace(phases=(*barrier.phases[:-1], last))
        self.tensor = replace(self.tensor, open=())

    def use_tensor(self, use: str, cells: Cells, op: int, mask: int) -> None:
        """Threads load from tensor memory, or give columns back."""
        self.tensor = getattr(self.tensor, use)(cells, op, mask, self.barriers)

    def tensor_step(self, step: str, mask: int) -> None:
        """Threads wait for loads, or make a fence of tensor memory."""
        self.tensor = getattr(self.tensor, step)(mask)

    def _products_over(self, over: tuple[Product, ...], mask: int) -> None:
        self.tensor = self.tensor.over(over, mask)
        for key, barrier in self.barriers.items():
            phases = tuple(
                phase._replace(products=without(phase.products, over)) for phase in barrier.phases
            )
            self.barriers[key] = barrier._replace(phases=phases)

    def copies(self) -> Iterator[CopyInFlight]:
        for barrier in self.barriers.values():
            for phase in barrier.phases:
                yield from phase.copies

    # Queues -------------------------------------------------------------------------------

    def issue_read(self, queue: str, touch: Touch) -> None:
        """Threads issue an op that reads until its group is waited for."""
        self.check_read(touch, proxy=True)
        self._issue(queue, touch)

    def issue_store(self, touch: Touch) -> None:
        """Threads issue a copy that writes global memory until its group is waited for."""
        self.check_write(touch, proxy=True)
        self._issue(FAR_STORES, touch)

    def _issue(self, queue: str, touch: Touch) -> None:
        assert touch.by is not None
        self.queues[queue, touch.by] = self.queues.get((queue, touch.by), Issued()).with_open(touch)

    def commit(self, queue: str, mask: int) -> None:
        """What threads issued becomes their youngest group."""
        if (queue, mask) not in self.queues:
            self.queues[queue, mask] = Issued()
        for (name, by), issued in self.queues.items():
            if name != queue or not by & mask:
                continue
            if by & ~mask:
                raise NotFollowedError("divergent-group")
            self.queues[queue, by] = issued.committed()

    def wait_group(self, queue: str, mask: int, left: int) -> None:
        """Threads wait until their `left` youngest groups are in flight at most."""
        for (name, by), issued in self.queues.items():
            if name != queue or not by & mask:
                continue
            if by & ~mask:
                raise NotFollowedError("divergent-group")
            over = [touch for group in issued.groups[left:] for touch in group]
            if queue == FAR_STORES:
                self._stores_over(over)
            else:
                self._reads_over(over)
            self.queues[name, by] = issued._replace(groups=issued.groups[:left])

    def _reads_over(self, over: list[Touch]) -> None:
        self.reads |= {(touch, True) for touch in over}

    def _stores_over(self, over: list[Touch]) -> None:
        self.stored |= set(over)

    # Threads ------------------------------------------------------------------------------

    def read(self, touch: Touch) -> None:
        self.check_read(touch, proxy=False)
        self.reads |= {(touch, False)}

    def write(self, touch: Touch) -> None:
        self.check_write(touch, proxy=False)
        self.written |= {Written(touch)}
        self.tensor = self.tensor.lost(touch.region.root)

    def fence(self, mask: int, shown: frozenset[str]) -> None:
        """What threads wrote of what is `shown` goes to the async proxy."""
        for key, barrier in self.barriers.items():
            if "mbarriers" in shown and not barrier.by & ~mask:
                self.barriers[key] = barrier._replace(fenced=True)
        # Others come after a fence by a barrier after it, not by one before.
        self.written = frozenset(
            Written(entry.touch, fenced=True) if is_fenced(entry.touch, mask, shown) else entry
            for entry in self.written
        )

    def meet(self) -> None:
        self.reads, self.landed = frozenset(), frozenset()
        self.fetched, self.stored = frozenset(), frozenset()
        self.tensor = self.tensor.meet()
        self.barriers = {key: barrier.met() for key, barrier in self.barriers.items()}
        self.written = frozenset(
            entry._replace(met=True) for entry in self.written if not entry.fenced
        )

    def check_end(self) -> None:
        for copy in self.copies():
            raise unwaited(copy)
        for product in self.tensor.in_flight(self.barriers):
            raise PhaseFault(
                "unwaited-copy", product.op, product.op, "no thread waits for a commit after it"
            )
        self.tensor.check_kept()
        for (queue, _), issued in self.queues.items():
            for store in (*issued.open, *(touch for group in issued.groups for touch in group)):
                if queue == BULK_STORE.name:
                    note = "no wait for its bulk group, with `.read` or without, has passed there"
                    raise PhaseFault("unwaited-copy", store.op, store.op, note)

    def leave(self, mask: int) -> None:
        """Threads end."""

    # Conflicts ----------------------------------------------------------------------------

    def check_read(self, touch: Touch, *, proxy: bool) -> None:
        """Threads, or what they issue (`proxy`), read bytes."""
        self._check_copies(touch, "read-in-flight")
        self._check_landed(touch)
        if is_far(touch.region):
            self._check_far(touch, writes=False, proxy=proxy)
        if proxy:
            self._check_written(touch)

    def check_write(self, touch: Touch, *, proxy: bool) -> None:
        """Threads, or a copy that one of them issues (`proxy`), write bytes."""
        self._check_copies(touch, "overwrite-in-flight")
        self._check_landed(touch)
        self._check_reads(touch, proxy)
        if is_far(touch.region):
            self._check_far(touch, writes=True, proxy=proxy)
        if proxy:
            self._check_written(touch)

    def _refuse(
        self, code: FaultCode, touch: Touch, earlier: Touch | CopyInFlight, why: str
    ) -> None:
        """Raises PhaseFault if the bytes of two accesses may be the same."""
        refuse(code, touch, earlier, why)

    def _check_far(self, touch: Touch, *, writes: bool, proxy: bool) -> None:
        """Against copies that read or write global memory."""
        check_in_flight(touch, self.copies(), self.queues, writes=writes, proxy=proxy)
        check_over(touch, self.fetched if writes else (), self.stored)

    def _check_copies(self, touch: Touch, code: FaultCode) -> None:
        for copy in self.copies():
            self._refuse(code, touch, copy, "no wait for the phase of this copy has passed there")

    def _check_landed(self, touch: Touch) -> None:
        why = "only some threads waited for it: a barrier of the block is missing"
        for copy in self.landed:
            if touch.by is None or copy.by is None or touch.by & ~copy.by:
                self._refuse("not-visible", touch, copy, why)

    def _check_reads(self, touch: Touch, proxy: bool) -> None:
        for (queue, _), issued in self.queues.items():
            if queue == FAR_STORES:
                continue
            for age, group in enumerate((issued.open, *issued.groups)):
                wait = "it is in no committed group there"
                if age:
                    wait = f"it reads until a wait with count {age - 1} or less on queue {queue}"
                for read in group:
                    self._refuse("source-overwritten", touch, read, wait)
        for product in self.tensor.in_flight(self.barriers):
            for read in product.reads:
                wait = "it reads until a wait for the mbarrier of its commit"
                self._refuse("source-overwritten", touch, read, wait)
        why = "other threads may still be reading here: the block must meet in between"
        for read, was_proxy in self.reads:
            if (proxy or was_proxy) and not same_thread(read, touch):
                self._refuse("missing-barrier", touch, read, why)

    def _check_written(self, touch: Touch) -> None:
        fence = "a fence for the async proxy is missing after this, before the threads meet"
        barrier = "other threads may not have written, or made their fence: the block must meet in between"
        for write, fenced, met in self.written:
            if not fenced:
                self._refuse("missing-fence", touch, write, fence)
            elif not met and not same_thread(write, touch):
                self._refuse("missing-barrier", touch, write, barrier)
