"""From one thread to another one: what is known of the first does not hold for the second.

    if %p { wait }            %p differs between threads: true here, false in a thread whose copy
    barrier                   is still in flight
    if %p { load … }          the load of a thread with %p true meets that copy

A path follows one thread, which knows its own conditions. Where threads meet again (where sides
join, after a barrier, after a loop that they leave apart) the path goes on a second time as
another thread: with what the first one did, and with nothing that is the first one's own. That
path ends at the next barrier, up to which the first thread's own path tells what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir_async_pipe.checker.forms import Atom, Known
from mlir_async_pipe.checker.state import State
from mlir_async_pipe.checker.thread_divergence import Divergence
from mlir_async_pipe.checker.thread_grid import is_about_threads


def another_thread(
    state: State, divergence: Divergence, base: Mapping[Atom, Known]
) -> State | None:
    """The state as another thread goes on from it; None if that is the same, or if nothing is
    remembered that it could meet."""
    side = state.sides[-1] if state.sides else None
    shared = {**base, **(side.parting.threads[side.number] if side is not None else {})}
    own_facts = {
        atom
        for atom, known in state.facts.items()
        if is_about_threads(atom) and shared.get(atom) != known
    }
    own_values = divergence.chosen.intersection(state.env)
    if not (own_facts or own_values) or next(iter(state.events()), None) is None:
        return None
    found = state.copy()
    found.other = True
    found.facts = {a: known for a, known in state.facts.items() if a not in own_facts}
    found.facts.update((a, shared[a]) for a in own_facts if a in shared)
    found.env = {number: v for number, v in state.env.items() if number not in own_values}
    return found


def own(effect: Callable[[State], None]) -> Callable[[State], None]:
    """What an op does to the queues, for the thread whose queues a state has."""

    def run(state: State) -> None:
        if not state.other:
            effect(state)

    return run
