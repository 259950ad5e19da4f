"""Two groups of waves in turn: the late one passes one barrier more, and is from there on an interval behind.

    if %late { barrier }               the late waves meet the others' next barrier
    loop { I; barrier; J; barrier }    the late ones are in I while the others are in J
    if not %late { barrier }           the others meet the last barrier of the late ones

A barrier of AMD counts waves, whichever of the block's barriers they are at. A path follows the program, whose
intervals, from one common barrier to the next, are numbered. Interval i of the late group runs beside interval i + 1 of
the others, so of two accesses in different groups

    late in i, early in i + 1      are in no order: what the late ones did is remembered for one more interval
    early in i, late in i          are in order, by the barrier that ends i for the early ones
    a copy and anything in i       may be: it goes on after the interval, or began before. Nothing is claimed

and within a group all is as in a block. So what a thread waits for is known to all after two barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mlir_async_pipe.checker.state import Event, State, WaveGroups, of_group
from mlir_async_pipe.checker.thread_grid import (
    ThreadRange,
    Threads,
    are_whole_warps,
    threads_within,
)

Orders = Callable[[Event], bool]
"""Whether a barrier orders an access: its memory is of the address spaces that the fences around name."""


class LoneBarrier(NamedTuple):
    """A barrier that `waves` alone pass, which orders some address spaces; `others` pass by."""

    waves: ThreadRange
    others: ThreadRange
    spaces: frozenset[str]
    site: int


def pass_alone(state: State, barrier: LoneBarrier, threads: Threads, orders: Orders) -> bool:
    """The barrier begins turns, or ends them; False if it does neither."""
    groups = (barrier.waves, barrier.others)
    masks = [threads_within(group, threads) for group in groups]
    if None in masks or not all(are_whole_warps(group, threads) for group in groups):
        return False
    turns = state.turns
    if state.sides or state.uneven or state.unordered:
        return False
    if turns is None:
        state.behind = _done_by(state, barrier.waves, orders)
        _keep(state, barrier.others, orders)
        state.turns = WaveGroups(barrier.others, barrier.waves, barrier.spaces, barrier.site)
        return True
    if masks[0] != threads_within(turns.early, threads) or barrier.spaces != turns.spaces:
        return False
    # The early ones have met the last barrier of the late ones, whose last interval is not over.
    state.behind = frozenset()
    _keep(state, turns.late, orders)
    state.turns = None
    return True


def pass_together(state: State, orders: Orders) -> None:
    """A barrier that both groups pass: the early ones one of their own before the late ones."""
    assert state.turns is not None
    kept = frozenset(entry for entry in state.behind if not orders(entry[0]))
    state.behind = kept | _done_by(state, state.turns.late, orders)


def _done_by(
    state: State, group: ThreadRange, orders: Orders
) -> frozenset[tuple[Event, int | None]]:
    """What threads of a group did and waited for since the last barrier, of what barriers order."""
    found = {(of_group(event, group), wait) for event, wait in state.done if orders(event)}
    return frozenset(found) | {(of_group(e, group), None) for e in state.log if orders(e)}


def _keep(state: State, group: ThreadRange, orders: Orders) -> None:
    """Of what barriers order, what threads of a group did is in no order with what comes."""
    state.done = frozenset((of_group(e, group) if orders(e) else e, wait) for e, wait in state.done)
    state.log = frozenset(of_group(e, group) if orders(e) else e for e in state.log)
