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
from typing import Any

import numpy as np

from mlir_async_pipe.machine.memory import Memory
from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place

# Shadow memory: what the race detector remembers of each granule.
#
# A granule is the smallest element of the program in bytes (2 for f16), so that the shadow of
# a 128 x 32 f16 tile has 4096 entries, not 8192.

Array = np.ndarray

NOBODY = -1
# Accesses of lanes that have met since are their warp's: MET + its first thread.
MET = 1 << 30
SHADOW_FIELDS: tuple[tuple[str, Any, Any], ...] = (
    ("write_epoch", np.int32, 0),
    ("write_thread", np.int32, NOBODY),
    ("write_site", np.int32, NOBODY),
    ("read_epoch", np.int32, 0),
    ("reader", np.int32, NOBODY),
    ("reader_site", np.int32, NOBODY),
    ("second_reader", np.int32, NOBODY),
    ("second_site", np.int32, NOBODY),
    ("pending_writes", np.int16, 0),
    ("pending_reads", np.int16, 0),
    ("other_block_writer", np.int32, NOBODY),
    ("other_block_reader", np.int32, NOBODY),
)


class Shadow:
    """One array for each fact, with an entry for each granule of memory.

    The last writer and up to two readers of the current barrier interval (*epoch*), how many
    async ops in flight will write and read the granule, and who used it in earlier blocks.
    """

    fields = SHADOW_FIELDS
    write_epoch: Array
    write_thread: Array
    write_site: Array
    read_epoch: Array
    reader: Array
    reader_site: Array
    second_reader: Array
    second_site: Array
    pending_writes: Array
    pending_reads: Array
    other_block_writer: Array
    other_block_reader: Array

    def __init__(self, memory: Memory, granule: int) -> None:
        self.memory = memory
        self.granule = granule
        # The current barrier interval of each memory space; 0 is before the launch.
        self.epochs = np.ones(3, np.int32)
        self._capacity = 0

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
        extra = needed - self._capacity
        for name, dtype, empty in self.fields:
            fresh = np.full(extra, empty, dtype)
            old = getattr(self, name, None)
            setattr(self, name, fresh if old is None else np.concatenate([old, fresh]))
        self._capacity = needed

    def now(self, where: Array) -> Array:
        """The barrier interval of each granule's memory space."""
        return self.epochs[self.memory.space[where * self.granule]]

    def bytes_of(self, where: Array) -> Array:
        """The byte addresses of granules."""
        if self.granule == 1:
            return where
        return where[..., None] * self.granule + np.arange(self.granule)


class Detector(Shadow):
    """Checks every access of one run.

    `sites` are the decoded ops by number; `granule` is in bytes, a warp has `lanes`. Threads are linear ids in
    the grid. Addresses come as arrays of granule numbers of shape (threads, granules).
    """

    def __init__(self, memory: Memory, sites: list[Any], granule: int, lanes: int = 32) -> None:
        super().__init__(memory, granule)
        self.sites = sites
        # Ops that a wave does for all of its lanes, by site.
        self._by_wave = np.array([site.row is not None and site.row.by_wave for site in sites])
        self._have_met = bool(self._by_wave.any())
        self.log = RaceLog()
        self.in_flight: list[Any] = []
        self.first_thread, self.lanes = 0, lanes
        self._shared_grid = False

    def read(self, site: int, threads: Array, where: Array) -> None:
        """A synchronous read by `threads` of the granules `where` (a row for each thread)."""
        self.cover_memory()
        self._check_live(site, threads, where)
        self._check_initialised(site, threads, where)
        if self.in_flight:
            self._check_pending(site, threads, where, "pending_writes", "read-in-flight")
        now = self.now(where)
        self._check_writer(site, threads, where, now, "not-visible")
        self._record_read(site, threads, where, now)

    def write(
        self,
        site: int,
        threads: Array,
        where: Array,
        *,
        atomic: bool = False,
        once: Array | None = None,
    ) -> None:
        """A synchronous write, or an atomic update, by `threads`; those with one number of `once` are one."""
        self.cover_memory()
        self._check_live(site, threads, where)
        if self.in_flight:
            code = "atomic-in-flight" if atomic else "overwrite-in-flight"
            self._check_pending(site, threads, where, "pending_writes", code)
            code = "atomic-in-flight" if atomic else "source-overwritten"
            self._check_pending(site, threads, where, "pending_reads", code)
        now = self.now(where)
        self._check_writer(site, threads, where, now)
        self._check_readers(site, threads, where, now)
        self._record_write(site, threads, where, now)
        if not self.sites[site].is_strong:
            self._check_same_op(site, threads, where, once)

    def issue(self, operation: Any) -> None:
        """An async op starts: check it against this interval, then mark its footprint."""
        self.cover_memory()
        site = operation.site
        for threads, where in operation.reads:
            self._check_live(site, threads, where)
            self._check_initialised(site, threads, where)
            self._check_pending(site, threads, where, "pending_writes", "read-in-flight")
            self._check_writer(site, threads, where, self.now(where), "not-visible")
        for threads, where in operation.writes:
            self._check_live(site, threads, where)
            self._check_pending(site, threads, where, "pending_writes", "overwrite-in-flight")
            self._check_pending(site, threads, where, "pending_reads", "source-overwritten")
            now = self.now(where)
            self._check_writer(site, threads, where, now)
            self._check_readers(site, threads, where, now)
            self.memory.initialised[self.bytes_of(where)] = True
            np.add.at(self.pending_writes, where, 1)
        self._check_same_copy(operation)
        for _, where in operation.reads:
            np.add.at(self.pending_reads, where, 1)
        self.in_flight.append(operation)

    def complete(self, operation: Any, done: Array) -> None:
        """A wait covers the op for the lanes `done`: it becomes an access of this interval."""
        self.complete_reads(operation, done)
        self._complete_writes(operation, done)

    def complete_reads(self, operation: Any, done: Array) -> None:
        """A wait covers what the op reads, for the lanes `done`."""
        for threads, where in operation.rows("reads", done):
            np.subtract.at(self.pending_reads, where, 1)
            self._record_read(operation.site, threads, where, self.now(where))

    def _complete_writes(self, operation: Any, done: Array) -> None:
        for threads, where in operation.rows("writes", done):
            np.subtract.at(self.pending_writes, where, 1)
            self._record_write(operation.site, threads, where, self.now(where))

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

    def _are_others(self, site: int, threads: Array, sites: Array, agents: Array) -> Array:
        """Whether what `agents` did at `sites` is of other threads than these at their `site`: of other warps, where a
        warp has met since, or did either as one."""
        me = threads[:, None]
        if not self._have_met:
            return agents != me
        as_one = (agents >= MET) | self._by_wave[site] | self._by_wave[sites]
        return (agents != me) & ~(as_one & (self._warps_of(agents) == self._warps_of(me)))

    def _warps_of(self, agents: Array) -> Array:
        return (agents % MET - self.first_thread) // self.lanes

    def next_block(self) -> None:
        """A block of the grid has ended; nothing orders it against the next."""
        self.cover_memory()
        self._shared_grid = True
        current = self.write_epoch > 0
        self.other_block_writer[current] = self.write_site[current]
        self.write_epoch[current] = 0
        current = self.read_epoch > 0
        self.other_block_reader[current] = self.reader_site[current]
        self.read_epoch[current] = 0
        self.epochs += 1

    def report(self, code: str, site: int, **details: Any) -> None:
        """Log a finding that has one end."""
        at = self.sites[site]
        self.log.add(Race(code, at.name, at.place, **details))

    # Checks ---------------------------------------------------------------------------

    def _check_live(self, site: int, threads: Array, where: Array) -> None:
        live = self.memory.live[where * self.granule]
        if not live.all():
            self._report("out-of-bounds", site, threads, where, ~live, None, None)

    def _check_initialised(self, site: int, threads: Array, where: Array) -> None:
        first = where * self.granule
        known = self.memory.initialised[first] | ~self.memory.live[first]
        if not known.all():
            self._report("uninitialised-read", site, threads, where, ~known, None, None)

    def _check_pending(
        self, site: int, threads: Array, where: Array, field: str, code: str
    ) -> None:
        bad = getattr(self, field)[where] > 0
        if not bad.any():
            return
        rules = "writes" if field == "pending_writes" else "reads"
        for culprit in self.in_flight:
            touched = bad & culprit.covers(rules, where)
            if touched.any():
                self._report_pair(code, site, threads, where, touched, culprit, rules)

    def _check_writer(
        self, site: int, threads: Array, where: Array, now: Array, code: str = "missing-barrier"
    ) -> None:
        """`code` is what to say where the writer is a copy that was waited for."""
        writer = self.write_thread[where]
        bad = (self.write_epoch[where] == now) & self._are_others(
            site, threads, self.write_site[where], writer
        )
        if bad.any():
            bad = self._unseen(bad, threads, where, writer, writes=code == "missing-barrier")
        if bad.any():
            self._report_each(code, site, threads, where, bad, self.write_site[where], writer)
        if self._shared_grid:
            self._check_other_block(site, threads, where, self.other_block_writer)

    def _unseen(
        self, bad: Array, threads: Array, where: Array, writer: Array, *, writes: bool
    ) -> Array:
        """Of the granules that somebody else wrote in this interval, those that are unordered."""
        return bad

    def _check_readers(self, site: int, threads: Array, where: Array, now: Array) -> None:
        self._check_readers_here(site, threads, where, now)
        if self._shared_grid:
            self._check_other_block(site, threads, where, self.other_block_reader)

    def _check_readers_here(
        self, site: int, threads: Array, where: Array, now: Array, code: str = "missing-barrier"
    ) -> None:
        current = self.read_epoch[where] == now
        first = self.reader[where]
        other = self._are_others(site, threads, self.reader_site[where], first)
        bad = current & other
        if bad.any():
            self._report_each(code, site, threads, where, bad, self.reader_site[where], first)
        second = self.second_reader[where]
        bad = current & ~other & (second != NOBODY)
        bad &= self._are_others(site, threads, self.second_site[where], second)
        if bad.any():
            self._report_each(code, site, threads, where, bad, self.second_site[where], second)

    def _check_other_block(self, site: int, threads: Array, where: Array, field: Array) -> None:
        others = field[where]
        bad = others != NOBODY
        if bad.any():
            unknown = np.full(where.shape, -1)
            self._report_each("cross-block", site, threads, where, bad, others, unknown)

    def _check_same_op(self, site: int, threads: Array, where: Array, once: Array | None) -> None:
        winner = self.write_thread[where]
        bad = winner != threads[:, None]
        if once is not None and bad.any():
            order = np.argsort(threads)
            bad &= once[order][np.searchsorted(threads[order], winner)] != once[:, None]
        if bad.any():
            sites = np.full(where.shape, site)
            self._report("missing-barrier", site, threads, where, bad, sites, winner)

    def _check_same_copy(self, operation: Any) -> None:
        """Two lanes whose copies go to one place; harmless where both come from one place."""
        for number, (threads, where) in enumerate(operation.writes):
            order = np.argsort(where, axis=None, kind="stable")
            flat = where.reshape(-1)[order]
            row = np.repeat(np.arange(len(threads)), where.shape[1])[order]
            again = np.flatnonzero((flat[1:] == flat[:-1]) & (row[1:] != row[:-1]))
            if not len(again):
                continue
            sources = operation.reads[number][1] if number < len(operation.reads) else None
            if sources is not None and sources.shape == where.shape:
                came = sources.reshape(-1)[order]
                again = again[came[again + 1] != came[again]]
            if not len(again):
                continue
            bad = np.zeros(where.size, np.bool_)
            bad[order[again + 1]] = True
            who = np.full(where.size, -1)
            who[order[again + 1]] = threads[row[again]]
            sites = np.full(where.shape, operation.site)
            self._report(
                "overwrite-in-flight",
                operation.site,
                threads,
                where,
                bad.reshape(where.shape),
                sites,
                who.reshape(where.shape),
            )

    # Recording ------------------------------------------------------------------------

    def _record_read(self, site: int, threads: Array, where: Array, now: Array) -> None:
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

    def _record_write(self, site: int, threads: Array, where: Array, now: Array) -> None:
        self.write_thread[where] = threads[:, None]
        self.write_site[where] = site
        self.write_epoch[where] = now
        self.memory.initialised[self.bytes_of(where)] = True

    # Reports --------------------------------------------------------------------------

    def _report_each(
        self,
        code: str,
        site: int,
        threads: Array,
        where: Array,
        bad: Array,
        others: Array,
        who: Array,
    ) -> None:
        """One report for each op at the other end; two strong accesses do not race."""
        for other in np.unique(others[bad]):
            at = self.sites[other]
            if at.is_strong and self.sites[site].is_strong:
                continue
            reported = "missing-barrier" if code == "not-visible" and not at.is_async else code
            self._report(reported, site, threads, where, bad & (others == other), others, who)

    def _report_pair(
        self,
        code: str,
        site: int,
        threads: Array,
        where: Array,
        bad: Array,
        culprit: Any,
        rules: str,
    ) -> None:
        others = np.full(where.shape, culprit.site)
        who = np.full(where.shape, -1)
        row, column = np.argwhere(bad)[0]
        who[row, column] = culprit.thread_at(rules, int(where[row, column]))
        self._report(code, site, threads, where, bad, others, who)

    def _report(
        self,
        code: str,
        site: int,
        threads: Array,
        where: Array,
        bad: Array,
        others: Array | None,
        who: Array | None,
    ) -> None:
        row, column = np.argwhere(bad)[0]
        address = int(where[row, column]) * self.granule
        buffer = self.memory.buffer_at(address)
        at = self.sites[site]
        race = Race(
            code,
            at.name,
            at.place,
            thread=int(threads[row]),
            buffer="" if buffer is None else buffer.name,
            byte=-1 if buffer is None else address - buffer.base,
        )
        if others is not None and who is not None:
            other = self.sites[int(others[row, column])]
            race = Race(
                **{
                    **race.__dict__,
                    "other_op": other.name,
                    "other_place": other.place,
                    "other_thread": int(who[row, column]) % MET if who[row, column] >= 0 else -1,
                }
            )
        self.log.add(race)


# What the race detector reports: findings with both ends, distinguished by a stable code.
#
# | code                | what happened                                                           |
# |---------------------|-------------------------------------------------------------------------|
# | read-in-flight      | data was read while the copy that writes it was still in flight          |
# | overwrite-in-flight | the destination of an async op in flight was written                     |
# | source-overwritten  | the source of an async op in flight was written                          |
# | atomic-in-flight    | an atomic touched a range in flight                                      |
# | not-visible         | waited for by one thread, used by another with no barrier between        |
# | missing-barrier     | two threads touched one location in one barrier interval, one of them writing |
# | cross-block         | two blocks of the grid touched one location, one of them writing         |
# | divergent-barrier   | a barrier that not all threads of the block reached                      |
# | divergent-warp-op   | an op of a whole warp that not all of its lanes reached                  |
# | uninitialised-read  | memory that nothing had written was read                                 |
# | out-of-bounds       | an access outside its buffer                                             |
# | uncommitted-copy    | an async op that belongs to no group when the kernel ends                |
# | unwaited-copy       | an async op that no wait covers when the kernel ends                     |
# | queue-overflow      | more slots of a queue acquired than its depth                            |
# | wait-before-commit  | a wait for a group that is not committed yet                             |
# | missing-fence       | the async proxy reads or writes what a generic write left unfenced       |
# | barrier-not-initialised | an mbarrier that nobody has initialised                              |
# | initialised-again   | an mbarrier that was initialised before                                  |
# | too-many-arrivals   | an arrival at an mbarrier whose phase lacks none                          |
# | phase-overtaken     | an mbarrier went on by two phases while a thread waited for the first     |
# | missing-tensor-fence | tensor memory that another thread or a commit made ready, without the fence |
# | missing-register-fence | a product adds to registers that threads touched, without a fence since |
# | wrong-lanes         | a warp touched lanes of tensor memory that are not its own               |
# | no-columns          | tensor memory has not so many columns left                               |
# | columns-kept        | columns of tensor memory that nobody gave back                           |
# | block-ended         | a block of a cluster ended before others were done with its memory       |
# | deadlock            | a wait that nobody can let pass                                          |

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

NOWHERE = Place()
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
        """The finding as an error with a note at the other end."""
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


class RaceLog:
    """Gathers findings, one entry for each (code, op, other op)."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Place, str, Place, str], Race] = {}

    def add(self, race: Race) -> None:
        """Keep a finding, or count it where an equal one is known."""
        key = (race.code, race.place, race.op, race.other_place, race.other_op)
        known = self._found.get(key)
        self._found[key] = race if known is None else replace(known, count=known.count + 1)

    def all(self) -> tuple[Race, ...]:
        """All findings in the order in which they were first seen."""
        return tuple(self._found.values())
