"""The tensor memory of a block: cells of 32 bits, who has columns, and who may touch which cells.

    thread 0: product, commit          the tensor core's clock of warp 0 tells the mbarrier "3"
    warp 1:   wait, fence after, load  warp 1 knows "3", and since the fence its loads do as well

Clocks are those of `warp_clock`. Each warp has two agents here: its tensor core (products, released by the
arrival of a commit) and itself (loads and stores, fenced before it releases anything).
What a warp knows counts for its own tensor ops from its next fence after on, so `fenced` is what it
knew then. Products of one thread into one accumulator of one shape are executed in order, as are copies
before products (PTX ISA, tcgen05: pipelined instructions); all else needs the arrival or the wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlir_async_pipe.machine.fifos import AsyncOp
from mlir_async_pipe.machine.warp_clock import WarpClock
from mlir_async_pipe.vocabulary.tensor_memory import COLUMNS, LANES, SMALLEST_ALLOCATION

Array = np.ndarray
NOBODY = -1


@dataclass(eq=False)
class TensorAccess:
    """One op that touches `lanes` x `columns`; `thread` of the grid and `warp` of the block issued it,
    as `agent` at `tick`. `accumulator` is what products in order share, None for copies and shifts;
    `by_core`: a product, copy or shift."""

    site: int
    thread: int
    warp: int
    agent: int
    tick: int
    lanes: Array
    columns: Array
    reads: bool
    writes: bool
    by_core: bool
    accumulator: Any = None

    @property
    def cells(self) -> tuple[Array, ...]:
        return np.ix_(self.lanes, self.columns)

    def meets(self, other: TensorAccess) -> bool:
        """Whether both touch some cell, and one of them writes."""
        if not (self.writes or other.writes):
            return False
        return bool(
            np.isin(self.lanes, other.lanes).any() and np.isin(self.columns, other.columns).any()
        )

    def is_after(self, other: TensorAccess) -> bool:
        """Whether the tensor core executes this one after the other in any case."""
        together = self.by_core and other.by_core and self.thread == other.thread
        return together and other.accumulator in (None, self.accumulator)


@dataclass(eq=False)
class Core:
    """The tensor core as one thread uses it: `operations` that no commit has said to be over, oldest
    first, and how many commits there were."""

    agent: int
    operations: list[AsyncOp] = field(default_factory=list)
    tick: int = 0


class TensorMemory:
    """All cells of the running block. `detector` judges, `clock` keeps what warps tell each other."""

    def __init__(self, detector: Any, clock: WarpClock) -> None:
        self.detector, self.clock = detector, clock
        self.data = detector.memory.zeros((LANES, COLUMNS), np.uint32)
        self.initialised = np.zeros((LANES, COLUMNS), np.bool_)
        # The site that allocated each column, and where its allocation begins.
        self.owner = np.full(COLUMNS, NOBODY, np.int32)
        self.begins = np.full(COLUMNS, NOBODY, np.int32)
        self.permit = True
        self.writer = np.full((LANES, COLUMNS), NOBODY, np.int32)
        self.writer_tick = np.zeros((LANES, COLUMNS), np.int32)
        self.writer_site = np.full((LANES, COLUMNS), NOBODY, np.int32)
        # The tick of the last read of each cell by each agent, and its site.
        self.readers: dict[int, tuple[Array, Array]] = {}
        self.in_flight: list[TensorAccess] = []
        self.own = [clock.new_agent() for _ in range(clock.warps)]
        self.own_ticks = [0] * clock.warps
        self.cores: dict[int, Core] = {}
        self._core_agents = [clock.new_agent() for _ in range(clock.warps)]
        self.fenced = np.zeros((clock.warps, 0), np.int32)

    # Columns --------------------------------------------------------------------------

    def place_for(self, count: int) -> int | None:
        """The first of `count` free columns, at a multiple of it; None if there are none."""
        for first in range(0, COLUMNS, max(count, SMALLEST_ALLOCATION)):
            if (self.owner[first : first + count] == NOBODY).all():
                return first
        return None

    def allocate(self, first: int, count: int, site: int) -> None:
        """Columns change hands; what is in them is nobody's."""
        self.owner[first : first + count] = site
        self.begins[first : first + count] = first
        self.initialised[:, first : first + count] = False

    def release(self, first: int, count: int) -> bool:
        """Columns go back; False if they are no allocation."""
        mine = self.begins == first
        if not mine.any() or int(mine.sum()) != count:
            return False
        self.owner[mine] = NOBODY
        self.begins[mine] = NOBODY
        return True

    # Who knows what -------------------------------------------------------------------

    def core_of(self, thread: int, warp: int) -> Core:
        """The tensor core as a thread of a warp uses it."""
        return self.cores.setdefault(thread, Core(self._core_agents[warp]))

    def release_flag(self, core: Core) -> Array:
        """A commit: what its arrival will tell, and a new tick."""
        released = np.zeros(self.clock.known.shape[1], np.int32)
        released[self.clock.column(np.array(core.agent))] = core.tick + 1
        core.tick += 1
        return released

    def fence_before(self, warps: Iterable[int]) -> None:
        """What the warps' loads and stores did is part of what they tell from now on."""
        for warp in warps:
            column = self.clock.column(np.array(self.own[warp]))
            self.clock.known[warp, column] = self.own_ticks[warp] + 1
            self.own_ticks[warp] += 1

    def fence_after(self, warps: Iterable[int]) -> None:
        """What the warps know counts for their tensor ops from now on."""
        known = self.clock.known
        grown = np.zeros(known.shape, np.int32)
        grown[:, : self.fenced.shape[1]] = self.fenced
        for warp in warps:
            grown[warp] = known[warp]
        self.fenced = grown

    # Accesses -------------------------------------------------------------------------

    def issue(
        self,
        site: int,
        thread: int,
        warp: int,
        cells: tuple[Array, Array],
        *,
        reads: bool,
        writes: bool,
        core: Core | None = None,
        accumulator: Any = None,
    ) -> TensorAccess:
        """An op starts, of a tensor core if there is one: check it against all that it is not ordered with."""
        agent = self.own[warp] if core is None else core.agent
        tick = self.own_ticks[warp] if core is None else core.tick
        access = TensorAccess(
            site, thread, warp, agent, tick, *cells, reads, writes, core is not None, accumulator
        )
        self._check_issued(access)
        self.in_flight.append(access)
        return access

    def _check_issued(self, access: TensorAccess) -> None:
        if (self.owner[access.columns] == NOBODY).any():
            self._report("out-of-bounds", access)
        cells = access.cells
        flying = [o for o in self.in_flight if access.meets(o) and not access.is_after(o)]
        for other in flying:
            code = "overwrite-in-flight" if other.writes else "source-overwritten"
            self._report(code if access.writes else "read-in-flight", access, other.site)
        if access.reads and not (flying or self._written(access)):
            self._report("uninitialised-read", access)
        self._check(access, self.writer[cells], self.writer_tick[cells], self.writer_site[cells])
        if access.writes:
            for agent, (ticks, sites) in self.readers.items():
                agents = np.where(ticks[cells] >= 0, agent, NOBODY)
                self._check(access, agents, ticks[cells], sites[cells])

    def complete(self, access: TensorAccess) -> None:
        """An arrival or a wait says that an op is over."""
        if access not in self.in_flight:
            return
        self.in_flight.remove(access)
        if not access.by_core:
            access.tick = self.own_ticks[access.warp]
        cells = access.cells
        if access.writes:
            self.writer[cells], self.writer_tick[cells] = access.agent, access.tick
            self.writer_site[cells] = access.site
            self.initialised[cells] = True
        if access.reads:
            none = np.full((LANES, COLUMNS), NOBODY, np.int32)
            ticks, sites = self.readers.setdefault(access.agent, (none, none.copy()))
            ticks[cells], sites[cells] = access.tick, access.site

    def check_idle(self, site: int, thread: int, columns: Array) -> None:
        """Nothing is in flight in columns that are given back."""
        for other in self.in_flight:
            if np.isin(columns, other.columns).any():
                code = "overwrite-in-flight" if other.writes else "source-overwritten"
                self.detector.report(code, site, other.site, thread=thread)

    def own_access(self, warp: int, writes: bool) -> list[TensorAccess]:
        """The loads, or the stores, of a warp that no wait has covered."""
        return [
            a for a in self.in_flight if a.warp == warp and not a.by_core and a.writes == writes
        ]

    def _written(self, access: TensorAccess) -> bool:
        """Whether all cells have been written, or are by products that come before."""
        written = self.initialised[access.cells].copy()
        for other in self.in_flight:
            if other.writes and access.is_after(other):
                both = np.isin(access.lanes, other.lanes), np.isin(access.columns, other.columns)
                written |= both[0][:, None] & both[1][None, :]
        return bool(written.all())

    def _check(self, access: TensorAccess, agents: Array, ticks: Array, sites: Array) -> None:
        """Ops that are over, by `agents` (NOBODY: none), must be known to be."""
        mine = {NOBODY, self.own[access.warp]}
        if access.by_core:
            mine.add(access.agent)
        for agent in np.unique(agents):
            if int(agent) in mine:
                continue
            column = int(self.clock.column(np.array(agent)))
            known = int(self.clock.known[access.warp, column])
            wide = column < self.fenced.shape[1]
            fenced = int(self.fenced[access.warp, column]) if wide else 0
            # Loads and stores of a warp that made no fence since then are released to nobody.
            released = self.own_ticks[self.own.index(agent)] if agent in self.own else known
            for limit, code in (
                (released, "missing-tensor-fence"),
                (known, "not-visible"),
                (fenced, "missing-tensor-fence"),
            ):
                bad = (agents == agent) & (ticks >= limit)
                if bad.any():
                    self._report(code, access, int(sites[bad][0]))
                    break

    def _report(self, code: str, access: TensorAccess, other: int | None = None) -> None:
        where = f"lane {int(access.lanes[0])}, column {int(access.columns[0])} of tensor memory"
        self.detector.report(code, access.site, other, thread=access.thread, detail=where)

    def finish(self) -> None:
        """The block has ended: columns that nobody gave back, and products that no commit has."""
        for site in np.unique(self.owner[self.owner != NOBODY]):
            self.detector.report("columns-kept", int(site))
