"""The race detector: shadow state for each granule of memory, checked at every access.

Happens-before comes from program order within a thread, from barriers between threads of a
block, and for async ops only from the wait that covers them. So each granule remembers

- the last writer and up to two readers of the current *barrier interval* (two, because then
  for any thread there is one that is another thread, and for any warp one of another warp, if there is one);
- how many async ops in flight are going to write it, and to read it.

An async op counts as an access of its thread twice: at its issue it is checked against what
other threads did in this interval, and at the wait that covers it, it is recorded as done by
its thread in that interval. In between, any access by anyone conflicts with it.

A granule is the smallest element of the program in bytes (2 for f16), so that the shadow of
a 128 x 32 f16 tile has 4096 entries, not 8192.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np

from mlir_async_pipe.machine.memory import NOWHERE, Memory
from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place

Array = np.ndarray

NOBODY = -1
# Accesses of lanes that have met since are their warp's: MET + its first thread.
MET = 1 << 30
# What a shadow holds of each granule: the type, and what is there at first.
Epoch = Annotated[Array, np.int32, 0]
Number = Annotated[Array, np.int32, NOBODY]
Count = Annotated[Array, np.int16, 0]

# Of the type of what it is added to: `np.add.at` is a hundred times as fast.
ONE = np.int16(1)


class Use(NamedTuple):
    """Some threads touch granules of memory, a row for each, by an op; `now` is the barrier interval of each granule."""

    site: int
    threads: Array
    where: Array
    now: Array

    @property
    def me(self) -> Array:
        return self.threads[:, None]


class Detector:
    """Checks every access of one run. Its shadow has one array for each fact, with an entry for each granule of memory.

    `sites` are the decoded ops by number; `granule` is in bytes, a warp has `lanes`. Threads are linear ids in
    the grid. Addresses come as arrays of granule numbers of shape (threads, granules).
    """

    write_epoch: Epoch
    write_thread: Number
    write_site: Number
    read_epoch: Epoch
    reader: Number
    reader_site: Number
    second_reader: Number
    second_site: Number
    pending_writes: Count
    pending_reads: Count
    plain_writer: Number
    other_block_writer: Number
    other_block_reader: Number

    def __init__(self, memory: Memory, sites: list[Any], granule: int, lanes: int = 32) -> None:
        self.memory, self.sites, self.granule = memory, sites, granule
        # The current barrier interval (*epoch*) of each memory space; 0 is before the launch.
        self.epochs = np.ones(3, np.int32)
        self._capacity = 0
        hints = get_type_hints(type(self), include_extras=True)
        self._fields = {name: hint.__metadata__ for name, hint in hints.items()}
        # Ops that a wave does for all of its lanes, by site.
        self._by_wave = np.array([site.row.by_wave for site in sites])
        self._strong = np.array([site.is_strong for site in sites])
        self._adds = np.array([site.row.adds for site in sites])
        self._have_met = bool(self._by_wave.any())
        # Findings by (code, op, other op), in the order in which they were first seen.
        self.races: dict[tuple[str, Place, str, Place, str], Race] = {}
        self.in_flight: list[Any] = []
        self.first_thread, self.lanes = 0, lanes
        self._shared_grid = False

    def granules(self, addresses: Array, item_bytes: int) -> Array:
        """Granule numbers of elements, shape (threads, granules), from byte addresses."""
        first = addresses.reshape(len(addresses), -1) // self.granule
        each = max(1, item_bytes // self.granule)
        if each == 1:
            return first
        return (first[..., None] + np.arange(each)).reshape(len(first), -1)

    def cover_memory(self) -> None:
        needed = len(self.memory.data) // self.granule
        if needed == self._capacity:
            return
        for name, (dtype, empty) in self._fields.items():
            fresh = np.full(needed - self._capacity, empty, dtype)
            setattr(self, name, np.append(getattr(self, name, fresh[:0]), fresh))
        self._capacity = needed

    def now(self, where: Array) -> Array:
        return self.epochs[self.memory.space[where * self.granule]]

    def bytes_of(self, where: Array) -> Array:
        if self.granule == 1:
            return where
        return where[..., None] * self.granule + np.arange(self.granule)

    def use(self, site: int, threads: Array, where: Array) -> Use:
        """The op at a site touches granules now."""
        self.cover_memory()
        return Use(site, threads, where, self.now(where))

    def read(self, site: int, threads: Array, where: Array) -> None:
        """A synchronous read by `threads` of the granules `where` (a row for each thread)."""
        use = self.use(site, threads, where)
        self._check_read(use)
        self._record_read(use)

    def write(
        self, site: int, threads: Array, where: Array, *, atomic: bool = False, once: Any = None
    ) -> None:
        """A synchronous write, or an atomic update, by `threads`; those with one number of `once` are one."""
        use = self.use(site, threads, where)
        self._check_write(use, atomic=atomic)
        self._record_write(use)
        if not self.sites[site].is_strong:
            self._check_same_op(use, once)

    def issue(self, operation: Any) -> None:
        """An async op starts: check it against this interval, then mark its footprint."""
        for _, threads, where in operation.reads:
            self._check_read(self.use(operation.site, threads, where))
        for _, threads, where in operation.writes:
            self._check_write(self.use(operation.site, threads, where))
            self.memory.initialised[self.bytes_of(where)] = True
            np.add.at(self.pending_writes, where, ONE)
        if not self._adds[operation.site]:
            self._check_same_copy(operation)
        for *_, where in operation.reads:
            np.add.at(self.pending_reads, where, ONE)
        self.in_flight.append(operation)

    def complete(self, operation: Any, done: Array) -> None:
        """A wait covers the op for the lanes `done`: it becomes an access of this interval."""
        self.complete_reads(operation, done)
        self._complete_writes(operation, done)

    def complete_reads(self, operation: Any, done: Array) -> None:
        """A wait covers what the op reads, for the lanes `done`."""
        for threads, where in operation.rows("reads", done):
            np.subtract.at(self.pending_reads, where, ONE)
            self._record_read(self.use(operation.site, threads, where))

    def _complete_writes(self, operation: Any, done: Array) -> None:
        for threads, where in operation.rows("writes", done):
            np.subtract.at(self.pending_writes, where, ONE)
            self._record_write(self.use(operation.site, threads, where))

    def retire(self, operation: Any) -> None:
        """All lanes of an async op are covered; it is in flight no more."""
        self.in_flight.remove(operation)

    def barrier(self, spaces: tuple[int, ...]) -> None:
        """All threads met: a new interval begins for the memory spaces that it orders."""
        self.epochs[list(spaces)] += 1

    def meet_warp(self, threads: Array) -> None:
        """All lanes of a warp met: what they did happened before what any of them does now."""
        self.cover_memory()
        self._have_met = True
        agent = MET + int(threads.min())
        for now, agents in (
            (self.write_epoch, self.write_thread),
            (self.read_epoch, self.reader),
            (self.read_epoch, self.second_reader),
        ):
            where = np.flatnonzero(np.isin(agents, threads))
            agents[where[now[where] == self.now(where)]] = agent

    def _are_others(self, use: Use, sites: Array, agents: Array) -> Array:
        """Whether what `agents` did at `sites` is of other threads than these: of other warps, where a
        warp has met since, or did either as one."""
        if not self._have_met:
            return agents != use.me
        as_one = (agents >= MET) | self._by_wave[use.site] | self._by_wave[sites]
        return (agents != use.me) & ~(as_one & (self._warps_of(agents) == self._warps_of(use.me)))

    def _warps_of(self, agents: Array) -> Array:
        return (agents % MET - self.first_thread) // self.lanes

    def next_block(self) -> None:
        """A block of the grid has ended; nothing orders it against the next."""
        self.cover_memory()
        self._shared_grid = True
        current = np.flatnonzero(self.write_epoch > 0)
        sites, plain = self.write_site[current], self.plain_writer[current]
        for earlier in (plain, self.other_block_writer[current]):
            # A strong write races with fewer: it does not take the place of a plain one.
            sites = np.where((earlier != NOBODY) & self._strong[sites], earlier, sites)
        self.other_block_writer[current] = sites
        self.plain_writer[current] = NOBODY
        self.write_epoch[current] = 0
        read = self.read_epoch > 0
        self.other_block_reader[read] = self.reader_site[read]
        self.read_epoch[read] = 0
        self.epochs += 1

    def report(self, code: str, site: int, other: int | None = None, **details: Any) -> None:
        """Log a finding; `other` is the site at its other end."""
        at = self.sites[site]
        if other is not None:
            details |= {"other_op": self.sites[other].name, "other_place": self.sites[other].place}
        race = Race(code, at.name, at.place, **details)
        key = (race.code, race.place, race.op, race.other_place, race.other_op)
        known = self.races.get(key)
        self.races[key] = race if known is None else replace(known, count=known.count + 1)

    # Checks ---------------------------------------------------------------------------

    def _check_read(self, use: Use) -> None:
        self._check_live(use)
        first = use.where * self.granule
        known = self.memory.initialised[first] | ~self.memory.live[first]
        if not known.all():
            self._report("uninitialised-read", use, ~known)
        self._check_pending(use, "writes", "read-in-flight")
        self._check_writer(use, "not-visible")

    def _check_write(self, use: Use, *, atomic: bool = False) -> None:
        self._check_live(use)
        self._check_pending(use, "writes", "atomic-in-flight" if atomic else "overwrite-in-flight")
        self._check_pending(use, "reads", "atomic-in-flight" if atomic else "source-overwritten")
        self._check_writer(use)
        self._check_readers(use)
        if self._shared_grid:
            self._check_other_block(use, self.other_block_reader)

    def _check_live(self, use: Use) -> None:
        live = self.memory.live[use.where * self.granule]
        if not live.all():
            self._report("out-of-bounds", use, ~live)

    def _check_pending(self, use: Use, rules: str, code: str) -> None:
        if not self.in_flight:
            return
        bad = (self.pending_writes if rules == "writes" else self.pending_reads)[use.where] > 0
        for culprit in self.in_flight if bad.any() else ():
            if rules == "writes" and self._adds[culprit.site] and self._adds[use.site]:
                continue
            touched = bad & culprit.covers(rules, use.where)
            if touched.any():
                who = np.full(use.where.shape, -1)
                row, column = np.argwhere(touched)[0]
                who[row, column] = culprit.thread_at(rules, int(use.where[row, column]))
                self._report(code, use, touched, np.full(use.where.shape, culprit.site), who)

    def _check_writer(self, use: Use, code: str = "missing-barrier") -> None:
        """`code` is what to say where the writer is a copy that was waited for."""
        writer, sites = self.write_thread[use.where], self.write_site[use.where]
        bad = (self.write_epoch[use.where] == use.now) & self._are_others(use, sites, writer)
        if bad.any():
            bad = self._unseen(bad, use, writer, writes=code == "missing-barrier")
        if bad.any():
            self._report_each(code, use, bad, sites, writer)
        if self._shared_grid:
            self._check_other_block(use, self.other_block_writer)

    def _unseen(self, bad: Array, use: Use, writer: Array, *, writes: bool) -> Array:
        """Of the granules that somebody else wrote in this interval, those that are unordered."""
        return bad

    def _check_readers(self, use: Use, code: str = "missing-barrier") -> None:
        left = self.read_epoch[use.where] == use.now
        for readers, of in (
            (self.reader, self.reader_site),
            (self.second_reader, self.second_site),
        ):
            known, sites = readers[use.where], of[use.where]
            bad = left & (known != NOBODY) & self._are_others(use, sites, known)
            if bad.any():
                self._report_each(code, use, bad, sites, known)
            left &= ~bad

    def _check_other_block(self, use: Use, field: Array) -> None:
        others = field[use.where]
        bad = others != NOBODY
        if bad.any():
            self._report_each("cross-block", use, bad, others, np.full(use.where.shape, -1))

    def _check_same_op(self, use: Use, once: Array | None) -> None:
        winner, threads = self.write_thread[use.where], use.threads
        bad = winner != use.me
        if once is not None and bad.any():
            order = np.argsort(threads)
            bad &= once[order][np.searchsorted(threads[order], winner)] != once[:, None]
        if bad.any():
            self._report("missing-barrier", use, bad, np.full(use.where.shape, use.site), winner)

    def _check_same_copy(self, operation: Any) -> None:
        """Two lanes whose copies go to one place; harmless where both come from one place, or write zeros alone."""
        for number, (lanes, threads, where) in enumerate(operation.writes):
            order = np.argsort(where, axis=None, kind="stable")
            flat = where.reshape(-1)[order]
            row = np.repeat(np.arange(len(threads)), where.shape[1])[order]
            again = np.flatnonzero((flat[1:] == flat[:-1]) & (row[1:] != row[:-1]))
            if not len(again):
                continue
            # What comes from elsewhere is no other lane's; zeros alone are all lanes'.
            unknown = -2 - np.arange(len(lanes))
            if operation.filled is not None:
                unknown[operation.filled[lanes]] = NOBODY
            sources = np.broadcast_to(unknown[:, None], where.shape).copy()
            for reading, _, granules in operation.reads[number : number + 1]:
                if granules.shape[1] == where.shape[1]:
                    here = np.isin(reading, lanes)
                    sources[np.searchsorted(lanes, reading[here])] = granules[here]
            came = sources.reshape(-1)[order]
            again = again[came[again + 1] != came[again]]
            if not len(again):
                continue
            bad = np.zeros(where.size, np.bool_)
            bad[order[again + 1]] = True
            who = np.full(where.size, -1)
            who[order[again + 1]] = threads[row[again]]
            use = self.use(operation.site, threads, where)
            sites, shape = np.full(where.shape, operation.site), where.shape
            self._report("overwrite-in-flight", use, bad.reshape(shape), sites, who.reshape(shape))

    # Recording ------------------------------------------------------------------------

    def _record_read(self, use: Use) -> None:
        site, threads, where, now = use
        me = np.broadcast_to(threads[:, None], where.shape)
        stale = self.read_epoch[where] != now
        if stale.any():
            fresh = where[stale]
            self.reader[fresh] = me[stale]
            self.reader_site[fresh] = site
            self.second_reader[fresh] = NOBODY
            self.read_epoch[fresh] = now[stale]
        # A lane that reads stands for its warp, if that has met; the second reader is of another warp, if there is one.
        pairs = ((self.reader, self.reader_site), (self.second_reader, self.second_site))
        for readers, sites in pairs if self._have_met else ():
            known = readers[where]
            same = (known >= MET) & (self._warps_of(known) == self._warps_of(me))
            readers[where[same]], sites[where[same]] = me[same], site
        first, second = self.reader[where], self.second_reader[where]
        another = first != me
        if another.any():
            warp = self._warps_of(first)
            near = another & ((second == NOBODY) | (self._warps_of(second) == warp))
            for those in (near, another & (self._warps_of(me) != warp)):
                self.second_reader[where[those]] = me[those]
                self.second_site[where[those]] = site

    def _record_write(self, use: Use) -> None:
        if self._strong[use.site]:
            before = self.write_site[use.where]
            plain = (self.write_epoch[use.where] > 0) & ~self._strong[before]
            self.plain_writer[use.where[plain]] = before[plain]
        self.write_thread[use.where] = use.me
        self.write_site[use.where] = use.site
        self.write_epoch[use.where] = use.now
        self.memory.initialised[self.bytes_of(use.where)] = True

    # Reports --------------------------------------------------------------------------

    def _report_each(self, code: str, use: Use, bad: Array, others: Array, who: Array) -> None:
        """One report for each op at the other end; two strong accesses do not race."""
        for other in np.unique(others[bad]):
            at = self.sites[other]
            if at.is_strong and self.sites[use.site].is_strong:
                continue
            reported = "missing-barrier" if code == "not-visible" and not at.is_async else code
            self._report(reported, use, bad & (others == other), others, who)

    def _report(
        self, code: str, use: Use, bad: Array, others: Array | None = None, who: Array | None = None
    ) -> None:
        row, column = np.argwhere(bad)[0]
        address = int(use.where[row, column]) * self.granule
        buffer = self.memory.buffer_at(address)
        other, details = None, {"thread": int(use.threads[row])}
        if others is not None and who is not None:
            other, thread = int(others[row, column]), int(who[row, column])
            details["other_thread"] = thread % MET if thread >= 0 else -1
        if buffer is None:
            self.report(code, use.site, other, **details)
        else:
            byte = address - buffer.base
            self.report(code, use.site, other, buffer=buffer.name, byte=byte, **details)


# What is reported, by code; docs/machine.md says when.
_SENTENCES = {
    "read-in-flight": "'{op}' reads data that '{other}' is still writing",
    "overwrite-in-flight": "'{op}' writes where '{other}' is still writing",
    "source-overwritten": "'{op}' writes what '{other}' may still read",
    "atomic-in-flight": "'{op}' is atomic on a range where '{other}' is in flight",
    "not-visible": "'{op}' uses what '{other}' of another thread wrote, without a barrier after its wait",
    "missing-barrier": "'{op}' and '{other}' of another thread touch the same memory without a barrier between",
    "cross-block": "'{op}' and '{other}' of another block touch the same memory, and nothing orders them",
    "divergent-barrier": "'{op}' is not reached by all threads of the block",
    "divergent-warp-op": "'{op}' needs its whole warp, but some lanes do not reach it",
    "uninitialised-read": "'{op}' reads memory that nothing has written",
    "out-of-bounds": "'{op}' accesses memory outside its buffer",
    "misaligned-access": "'{op}' accesses memory at an address that is no multiple of what it needs",
    "uncommitted-copy": "'{op}' is in no group when the kernel ends",
    "unwaited-copy": "'{op}' is still in flight when the kernel ends: no wait covers it",
    "queue-overflow": "'{op}' acquires more slots than the queue has",
    "wait-before-commit": "'{op}' waits for a group that is not committed yet",
    "missing-fence": "'{op}' touches what '{other}' wrote, without a fence for the async proxy between",
    "barrier-not-initialised": "'{op}' uses an mbarrier that nothing has initialised",
    "initialised-again": "'{op}' initialises an mbarrier that '{other}' has initialised before",
    "too-many-arrivals": "'{op}' arrives where no arrival is pending",
    "phase-overtaken": "'{op}' passes for another phase than it may mean: two are over that it knows nothing of",
    "missing-tensor-fence": "'{op}' touches tensor memory after '{other}', without a fence of tensor memory between",
    "missing-register-fence": "'{op}' may add to what its registers held before: a fence of products is missing",
    "wrong-lanes": "'{op}' touches lanes of tensor memory that its warp may not",
    "no-columns": "'{op}' asks for more columns of tensor memory than are free",
    "columns-kept": "'{op}' takes columns of tensor memory that nobody gives back",
    "block-ended": "a block of '{op}' ends while '{other}' of another may still reach its memory",
    "deadlock": "'{op}' waits for ever",
}

CODES = tuple(_SENTENCES)


@dataclass(frozen=True)
class Race:
    """One finding, the first of `count` equal ones.

    `op` at `place` is the access that completed the race, `other_op` at `other_place` the
    earlier end ("" where a race has one end only). `thread` and `other_thread` are linear
    ids in the grid, -1 if unknown. `buffer` and `byte` (offset in it) say where in memory, and
    `detail` what an mbarrier lacks.
    """

    code: str
    op: str
    place: Place
    other_op: str = ""
    other_place: Place = NOWHERE
    thread: int = -1
    other_thread: int = -1
    buffer: str = ""
    byte: int = -1
    count: int = 1
    detail: str = ""

    def diagnostic(self) -> Diagnostic:
        message = _SENTENCES[self.code].format(op=self.op, other=self.other_op)
        if self.buffer:
            message += f" (byte {self.byte} of {self.buffer}"
            message += f", thread {self.thread})" if self.thread >= 0 else ")"
        if self.detail:
            message += f" ({self.detail})"
        if self.count > 1:
            message += f", {self.count} times"
        notes = []
        if self.other_op:
            who = f" by thread {self.other_thread}" if self.other_thread >= 0 else ""
            notes.append(Note(f"the other access, '{self.other_op}'{who}", self.other_place))
        return Diagnostic("error", message, self.code, self.place, tuple(notes))

    def __str__(self) -> str:
        return str(self.diagnostic())
