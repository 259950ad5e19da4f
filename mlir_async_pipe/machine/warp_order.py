"""In which order the threads of a block run between two barriers.

lockstep   all threads together, op by op; with mbarriers, those of a warp, or warpgroup
forward    one warp after the other, each up to the next barrier, or a wait that does not pass
backward   the last warp first
random     any order, a new one in each barrier interval, from a seed

The race detector judges happens-before and so does not depend on the order; another order
shows what a race does to the values. A warp runs in an OS thread of its own, of which one
runs at a time; the hand-over at barriers keeps the run deterministic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.machine.barrier_phases import Mbarrier, StuckError
from mlir_async_pipe.machine.decode import Site, Unit
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.vocabulary.rows import WGMMA

Passes = Callable[[], bool]
SCHEDULES = ("lockstep", "forward", "backward", "random")


class LockStep:
    """One unit holds all threads of the block."""

    def run(self, launch: Any, body: Callable[[Unit], Any]) -> list[Any]:
        launch.scheduler = self
        unit = launch.unit(np.arange(launch.block_size))
        launch.traced = unit
        return [body(unit)]

    def barrier(self, unit: Unit, site: Site, spaces: tuple[int, ...]) -> None:
        """Everybody is here already."""
        unit.launch.meet(unit.rank, spaces)

    def next_iteration(self, unit: Unit, site: Site, is_idle: bool) -> None:
        """A loop that polls begins its next iteration; if the last one changed nothing, only a copy
        that lands can end it. Raises StuckError."""
        if is_idle and not unit.launch.mbarriers.force([]):
            _refuse_parts(site, unit)
            _report_stuck(unit.launch, [(site, [], unit)])

    def block(self, unit: Unit, site: Site, wanted: list[Mbarrier], passes: Passes) -> None:
        """Let copies land until the wait passes. Raises StuckError."""
        while not passes():
            if not unit.launch.mbarriers.force(wanted):
                if unit.mask is not None and not unit.mask.all():
                    raise site.unsupported(
                        "some threads wait for others of their unit: run it with the schedule "
                        "'forward'"
                    )
                _report_stuck(unit.launch, [(site, wanted, unit)])


class UnitByUnit:
    """Each warp, or each warpgroup (`width` threads), is a unit and runs alone until its next
    barrier, or a wait that does not pass."""

    def __init__(self, order: str, seed: int, width: int) -> None:
        self.order, self.width = order, width
        self.random = np.random.default_rng(seed)

    def run(self, launch: Any, body: Callable[[Unit], Any]) -> list[Any]:
        """Run `body` for every unit of the block; raises what the first of them raises, and
        StuckError."""
        launch.scheduler = self
        self._launch = launch
        units = [
            launch.unit(np.arange(start, min(start + self.width, launch.block_size)), rank)
            for rank in range(launch.together)
            for start in range(0, launch.block_size, self.width)
        ]
        launch.traced = units[0]
        self._workers = {id(unit): _Worker(unit, body) for unit in units}
        workers = list(self._workers.values())
        try:
            while any(not worker.done for worker in workers):
                self._interval([worker for worker in workers if not worker.done])
        finally:
            for worker in workers:
                worker.abandon()
        return [worker.result for worker in workers]

    def barrier(self, unit: Unit, site: Site, spaces: tuple[int, ...]) -> None:
        """Stop here until all units have come to a barrier."""
        self._workers[id(unit)].pause(site, spaces)

    def block(self, unit: Unit, site: Site, wanted: list[Mbarrier], passes: Passes) -> None:
        """Stop here until the wait passes."""
        worker = self._workers[id(unit)]
        while not passes():
            worker.wanted, worker.passes = wanted, passes
            worker.pause(site, ())
            worker.wanted, worker.passes = [], None

    def next_iteration(self, unit: Unit, site: Site, is_idle: bool) -> None:
        """A loop that polls lets the others run; if its last iteration changed nothing, until
        memory has changed."""
        worker, memory = self._workers[id(unit)], unit.launch.memory
        before = memory.changes
        worker.passes = lambda: not is_idle or memory.changes != before
        worker.pause(site, ())
        worker.passes = None

    def _interval(self, running: list[_Worker]) -> None:
        """Let each unit run to its next barrier, its end or a wait that does not pass; when none
        can, let them meet, or a copy land."""
        order = list(range(len(running)))
        if self.order == "backward":
            order.reverse()
        elif self.order == "random":
            order = [int(i) for i in self.random.permutation(len(running))]
        ran = False
        for number in order:
            if running[number].can_run():
                self._launch.enter(running[number].unit.rank)
                running[number].resume()
                if running[number].done:
                    self._launch.leave(running[number].unit)
                ran = True
        left = [worker for worker in running if not worker.done]
        blocks = [
            [worker for worker in left if worker.unit.rank == rank]
            for rank in range(self._launch.together)
        ]
        together = [block for block in blocks if block and all(worker.met for worker in block)]
        for block in together:
            self._meet(block)
        if left and not together and not ran and not any(worker.can_run() for worker in left):
            wanted = [barrier for worker in left for barrier in worker.wanted]
            if not self._launch.mbarriers.force(wanted):
                for worker in left:
                    if worker.passes is not None and not worker.wanted:
                        _refuse_parts(worker.site, worker.unit)
                _report_stuck(self._launch, [(w.site, w.wanted, w.unit) for w in left])

    def _meet(self, met: list[_Worker]) -> None:
        """All units of a block that are not done have come to a barrier."""
        for worker in met:
            worker.met = False
        units = len(self._workers) // self._launch.together
        alike = len({w.site.number for w in met}) == 1 or all(w.site.row.counts_waves for w in met)
        if not (len(met) == units and alike):
            for worker in met:
                self._launch.detector.report("divergent-barrier", worker.site.number)
            return
        spaces = set.intersection(*(set(worker.spaces) for worker in met))
        self._launch.meet(met[0].unit.rank, tuple(sorted(spaces)))


def _refuse_parts(site: Site, unit: Unit) -> None:
    """Lanes of a unit that do not poll might let the others go on, if they ran apart, and so might
    blocks of other clusters."""
    if unit.launch.together < np.prod(unit.launch.options.grid):
        raise site.unsupported("some clusters wait for others, which run after them")
    if unit.mask is not None and not unit.mask.all():
        raise site.unsupported(
            "some threads wait for others that may be of their warp: run it with warp=1"
        )


def _report_stuck(launch: Any, waiting: list[tuple[Site, list[Mbarrier], Unit]]) -> None:
    """Report who waits for what, each with another that waits, else with the init of its barrier.
    Raises StuckError."""
    for number, (site, wanted, unit) in enumerate(waiting):
        other = waiting[number - 1][0].number
        if len(waiting) == 1 and wanted:
            other = wanted[0].site
        launch.enter(unit.rank)
        lane = int(np.flatnonzero(unit.active())[0])
        lacks = "; ".join(barrier.lacks() for barrier in wanted)
        lacks = lacks or ("" if site.row.described else "nobody writes what it reads")
        unit.report("deadlock", site, lane, other, detail=lacks)
    raise StuckError


class _Abandoned(BaseException):
    """Unwinds a worker whose run has failed elsewhere."""


class _Worker:
    """One unit in an OS thread that runs only between `resume` and `pause`."""

    def __init__(self, unit: Unit, body: Callable[[Unit], Any]) -> None:
        self.unit = unit
        self.done = False
        # Stopped at a barrier of the block; or at a wait for these mbarriers, until it passes.
        self.met = False
        self.wanted: list[Mbarrier] = []
        self.passes: Passes | None = None
        self.result: Any = None
        self.site: Any = None
        self.spaces: tuple[int, ...] = ()
        self._error: BaseException | None = None
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._abandoned = False
        self._thread = threading.Thread(target=self._main, args=(unit, body), daemon=True)
        self._thread.start()

    def can_run(self) -> bool:
        """Whether it is neither at a barrier nor at a wait that does not pass."""
        return not self.done and not self.met and (self.passes is None or self.passes())

    def resume(self) -> None:
        """Run until the next barrier or the end; raises what the unit raises."""
        self._go.release()
        self._stopped.acquire()
        if self._error is not None:
            raise self._error

    def pause(self, site: Any, spaces: tuple[int, ...]) -> None:
        """Called by the unit at a barrier, or at a wait."""
        self.site, self.spaces, self.met = site, spaces, self.passes is None
        self._stopped.release()
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned

    def abandon(self) -> None:
        """Unwind a unit that is not done."""
        if not self.done:
            self._abandoned = True
            self._go.release()
        self._thread.join()

    def _main(self, unit: Unit, body: Callable[[Unit], Any]) -> None:
        self._go.acquire()
        try:
            if not self._abandoned:
                with np.errstate(all="ignore"):
                    self.result = body(unit)
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error
        self.done = True
        self._stopped.release()


def scheduler_of(name: str, seed: int, launch: Any) -> LockStep | UnitByUnit:
    """The scheduler of that name; raises UsageError (bad-schedule).

    Products of warpgroups need whole ones as units. Where warps wait for each other on mbarriers, or at
    different barriers, or blocks of a cluster do, one unit for all would wait for itself.
    """
    if name not in SCHEDULES:
        raise UsageError(
            f"unknown thread schedule '{name}'", code="bad-schedule", advice=", ".join(SCHEDULES)
        )
    warp = launch.options.warp
    products = any(site.row.queue == WGMMA for site in launch.decoder.sites)
    width = 4 * warp if products else warp
    if launch.memory.induction is not None and launch.together == 1:
        # All threads come to the loop at once; where they wait for each other for ever, it is not followed.
        return LockStep()
    if name != "lockstep":
        return UnitByUnit(name, seed, width)
    waits = launch.follows_flags or any(
        site.row.phase or site.meets == "block" or site.row.counts_waves
        for site in launch.decoder.sites
    )
    if (waits and launch.block_size > width) or launch.together > 1:
        return UnitByUnit("forward", seed, width)
    return LockStep()
