"""In which order the threads of a block run between two barriers.

lockstep   all threads together, op by op
forward    one warp after the other, each up to the next barrier
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

from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.session.diagnostics import UsageError

SCHEDULES = ("lockstep", "forward", "backward", "random")


class LockStep:
    """One unit holds all threads of the block."""

    def run(self, launch: Any, body: Callable[[Unit], Any]) -> list[Any]:
        """Run `body` for the block."""
        launch.scheduler = self
        unit = launch.unit(np.arange(launch.block_size))
        launch.trace_unit(unit)
        return [body(unit)]

    def barrier(self, unit: Unit, site: Site, spaces: tuple[int, ...]) -> None:
        """Everybody is here already."""
        unit.launch.detector.barrier(spaces)


class WarpByWarp:
    """Each warp is a unit and runs alone until its next barrier."""

    def __init__(self, order: str, seed: int) -> None:
        self.order = order
        self.random = np.random.default_rng(seed)

    def run(self, launch: Any, body: Callable[[Unit], Any]) -> list[Any]:
        """Run `body` for every warp of the block; raises what the first of them raises."""
        launch.scheduler = self
        self._launch = launch
        starts = range(0, launch.block_size, launch.options.warp)
        units = [
            launch.unit(np.arange(start, min(start + launch.options.warp, launch.block_size)))
            for start in starts
        ]
        launch.trace_unit(units[0])
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
        """Stop here until all warps have come to a barrier."""
        self._workers[id(unit)].pause(site, spaces)

    def _interval(self, running: list[_Worker]) -> None:
        """Let each warp run to its next barrier or its end, then let them meet."""
        order = list(range(len(running)))
        if self.order == "backward":
            order.reverse()
        elif self.order == "random":
            order = [int(i) for i in self.random.permutation(len(running))]
        for number in order:
            running[number].resume()
        met = [worker for worker in running if not worker.done]
        if not met:
            return
        together = len(met) == len(self._workers) and len({w.site.number for w in met}) == 1
        if not together:
            for worker in met:
                self._launch.detector.report("divergent-barrier", worker.site.number)
            return
        self._launch.detector.barrier(met[0].spaces)


class _Abandoned(BaseException):
    """Unwinds a worker whose run has failed elsewhere."""


class _Worker:
    """One unit in an OS thread that runs only between `resume` and `pause`."""

    def __init__(self, unit: Unit, body: Callable[[Unit], Any]) -> None:
        self.done = False
        self.result: Any = None
        self.site: Any = None
        self.spaces: tuple[int, ...] = ()
        self._error: BaseException | None = None
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._abandoned = False
        self._thread = threading.Thread(target=self._main, args=(unit, body), daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Run until the next barrier or the end; raises what the unit raises."""
        self._go.release()
        self._stopped.acquire()
        if self._error is not None:
            raise self._error

    def pause(self, site: Any, spaces: tuple[int, ...]) -> None:
        """Called by the unit at a barrier."""
        self.site, self.spaces = site, spaces
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


def scheduler_of(name: str, seed: int) -> LockStep | WarpByWarp:
    """The scheduler of that name; raises UsageError (bad-schedule)."""
    if name == "lockstep":
        return LockStep()
    if name in SCHEDULES:
        return WarpByWarp(name, seed)
    raise UsageError(
        f"unknown thread schedule '{name}'", code="bad-schedule", advice=", ".join(SCHEDULES)
    )
