"""Counts of `async_pipe.consumer_wait`, and the depth that `producer_acquire` promises.

    count = producer head - consumer head, the minimum over all paths

Each consumer_wait takes the oldest group that none took before, so after the m-th one the
groups younger than number m may stay in flight: groups committed minus groups taken. In the
same way slots acquired minus slots released must never exceed the `depth` of an acquire.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.session.diagnostics import CountError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, row_of
from mlir_async_pipe.vocabulary.callees import callee_name
from mlir_async_pipe.waits.balance import UNBOUNDED, Balance, balance, is_reached
from mlir_async_pipe.waits.balance_path import Paths
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.records import WaitRecord, WitnessStep
from mlir_async_pipe.waits.witnesses.trail import Places


def consumer_records(analysis: Analysis) -> list[tuple[Item, WaitRecord]]:
    """The count of every consumer_wait of a module."""
    waits = [item for item in analysis.graph.waits if takes_next(item)]
    found: dict[Item, WaitRecord] = {}
    for queue in dict.fromkeys(item.queue for item in waits):
        mine = [item for item in waits if item.queue == queue]
        if queue is None:
            found.update((item, _record(item, None, "dynamic-queue")) for item in mine)
            continue
        places: Places = {}
        heads = _heads(analysis, queue, mine)
        paths = Paths(heads, places)
        for item in filter(partial(is_reached, heads), mine):
            least = heads.after(item)
            reason = "exact" if least >= 0 else "consumer-ahead"
            found[item] = _record(item, least, reason, paths.to(item))
    return [(item, found.get(item) or _record(item, None, "unreachable")) for item in waits]


def takes_next(item: Item) -> bool:
    """Whether a wait takes the oldest group that was not taken before."""
    return item.rule is not None and item.rule.form == "next"


def _heads(analysis: Analysis, queue: Queue, waits: list[Item]) -> Balance:
    """Producer head minus consumer head after each wait, the least over all paths."""
    commits = {item for item in analysis.graph.commits if item.queue == queue}
    takes = set(waits)
    graph = analysis.graph
    # An indirect call may be one of any function here; other modules know nothing of the queue.
    indirect = {call for call in graph.calls if callee_name(call.op) is None}
    taking = graph.with_callers(map(graph.root_of, [*waits, *indirect]))

    def weight(item: Item) -> int:
        if item.kind == "call":
            # A callee that takes groups may take any number of them.
            return UNBOUNDED if item in indirect or item.callee in taking else 0
        return (item in commits) - (item in takes)

    items: Iterable[Item] = [*commits, *waits, *graph.calls]
    return balance(analysis.conditions, items, weight)


def _record(
    item: Item, least: int | None, reason: str, witness: tuple[WitnessStep, ...] = ()
) -> WaitRecord:
    given = integer_attribute(item.op, "count")
    exact = None if least is None else max(-1, least)
    queue = "" if item.queue is None else item.queue.name
    return WaitRecord(Place.of(item.op), queue, max(0, exact or 0), exact, given, reason, witness)


def check_depths(analysis: Analysis, session: Session) -> None:
    """Keep an error for each acquire that may ask for more slots than its queue has."""
    for queue in dict.fromkeys(item.queue for item in analysis.graph.slots):
        mine = [item for item in analysis.graph.slots if item.queue == queue]

        # The largest sum is the least one of the opposite weights.
        slots = balance(analysis.conditions, mine, lambda item: -_slots(item))
        for item in mine:
            depth = integer_attribute(item.op, "depth")
            if _slots(item) > 0 and depth is not None and is_reached(slots, item):
                held = -slots.after(item)
                if held > depth:
                    session.diagnostics.error(_too_deep(item, held, depth))


def _slots(item: Item) -> int:
    """The slots that an op acquires, below 0: releases; 0 for ops around it."""
    row = row_of(item.op)
    return 0 if row is None else row.slots


def _too_deep(item: Item, held: int, depth: int) -> CountError:
    many = "an unknown number of" if held > -UNBOUNDED // 2 else str(held)
    return CountError(
        f"on some path {many} slots are held at once, but the queue has {depth}",
        code="depth-exceeded",
        at=item.op,
        advice="release a slot with async_pipe.consumer_release before acquiring the next, or "
        "raise the depth",
    )
