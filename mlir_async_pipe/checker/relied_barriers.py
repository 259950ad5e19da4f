"""Which barriers of a kernel order two accesses that would race without them.

    store %t[%tid]
    barrier          relied on: the load of another thread would meet the store
    load %t[%other]
    barrier          not relied on, if nobody stores to %t after it

A path remembers what its last barrier emptied out of `done` and `log`, until the next barrier; an
access that would race with any of it relies on that barrier. What is asked is whether this barrier
*alone* can go. States are the same whatever they remember of this, so of two paths that meet one is
followed: a barrier that nobody was seen to rely on may be needed nevertheless. It can go only if
the kernel is proven without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mlir_async_pipe.checker.conflicts import Judge
from mlir_async_pipe.checker.state import Event, Passed, State


@dataclass
class ReliedBarriers:
    """Collects the numbers of the barriers that accesses rely on. `judge` has a comparer and a
    budget of its own, so that what is asked here changes nothing of what is found."""

    judge: Judge
    numbers: set[int] = field(default_factory=set)

    def passing(
        self, number: int, spaces: frozenset[str], barrier: Callable[[State], None]
    ) -> Callable[[State], None]:
        """The effect of a barrier, with what it orders remembered."""

        def run(state: State) -> None:
            done, log = state.done, state.log
            barrier(state)
            passed = [p for p in state.passed if not self._is_in(p.event, spaces)]
            if number not in self.numbers:
                passed += [Passed(event, number, True) for event, _ in done - state.done]
                passed += [Passed(event, number, False) for event in log - state.log]
            state.passed = tuple(sorted(passed, key=lambda p: p.event.site))

        return run

    def _is_in(self, event: Event, spaces: frozenset[str]) -> bool:
        return self.judge.roots.spaces(event.region.root) <= spaces

    def access(self, later: Event, state: State) -> None:
        """Remember the barriers that keep this access from what is before them; without points
        left, all of them."""
        budget = self.judge.comparer.budget
        for p in state.passed:
            if p.barrier not in self.numbers and (
                budget.left <= 0
                or self.judge.needs_a_barrier(later, p.event, state, waited=p.waited)
            ):
                self.numbers.add(p.barrier)
