"""Walks a path backwards over the iterations of loops.

wait %x  <-  "next iteration"  <-  "first iteration"  <-  %a before the loop
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_async_pipe.flow.conditions import Assumption
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.waits.algebra import carried, loop_passages
from mlir_async_pipe.waits.algebra.count_rows import FOREVER, FRESH, Row
from mlir_async_pipe.waits.algebra.passages import BlockPassage, Loop

if TYPE_CHECKING:
    from mlir_async_pipe.waits.witnesses.way_back import WayBack


def over_turns(
    way: WayBack, item: Item, assumption: Assumption, loop: Loop, slots: list[int], cost: int
) -> int | None:
    """Back through the iterations between the slots; the value before the loop.

    `cost` is that of the first slot, as the path brings it into the loop.
    """
    for source, target in zip(slots[-2::-1], slots[:0:-1], strict=True):
        way.trail.say(f"next iteration of '{item.op.name}'", item.op)
        _turn(way, item, assumption, loop, source, target)
        if source == FRESH:
            return None
    if len(slots) == 1:
        later = loop.steady().get(slots[0], 0)
        reason = "first-iterations" if later > cost else None
        way.trail.say(f"first iteration of '{item.op.name}'", item.op, reason)
    return loop.start.get(slots[0], slots[0])


def _turn(
    way: WayBack, item: Item, assumption: Assumption, loop: Loop, source: int, target: int
) -> None:
    """Back from a slot at the end of an iteration to a slot at its start."""
    if target in loop.kept:
        groups = loop.columns[target][target]
        way.trail.say(f"one iteration of '{item.op.name}' passes", item.op, groups=groups)
        return
    number = loop.number_of(target)
    if item.row.flow == "for":
        way.frame(item.frames[0], assumption, number, source)
        return
    second = item.frames[1]
    before = loop_passages.before_condition(way.summaries, item, assumption, True)
    after = way.summaries.passage(second, assumption).results[number]
    cost = loop.columns[target][source]
    places = {value: place for place, value in second.entry.arguments.items()}
    for middle, second_cost in after.items():
        if middle == FRESH:
            row: Row = {FRESH: 0}
        elif middle in places:
            row = before.results.get(places[middle], {})
        else:
            row = {middle: before.cost}
        if row.get(source, FOREVER) + second_cost == cost:
            way.frame(second, assumption, number, middle)
            if middle in places:
                way.before(item, assumption, True, places[middle], source)
            elif middle != FRESH:
                way.trail.say("the condition holds", item.op, groups=before.cost)
            return


def through_loop(
    way: WayBack,
    item: Item,
    result: int,
    block: BlockPassage,
    source: int,
    assumption: Assumption,
) -> int | None:
    """Back from a result of a loop to a value before it, None if the group is found."""
    loop = loop_passages.loop_of(way.summaries, item, assumption)
    trips = item.trips
    if item.row.flow == "for" and trips is not None:
        return _through_static(way, item, loop, block, source, trips, result, assumption)
    if item.row.flow == "while":
        row = loop_passages.before_condition(way.summaries, item, assumption, False).results[result]
        turns = loop_passages.while_turns(way.summaries, item, assumption)
        limit = None if turns is None else 0
        ways = _ways_through(way, item, loop, block, source, limit)
        slot = min(
            (slot for slot in row if slot in ways.state),
            key=lambda slot: ways.state[slot] + row[slot],
        )
        way.before(item, assumption, False, result, slot)
        if slot == FRESH:
            return None
        slots = ways.path(slot)
    else:
        ways = _ways_through(way, item, loop, block, source, None)
        slots = ways.path(loop.arguments[result])
    if len(slots) == 1:
        reason = "zero-trip-loop" if way.events.commits_in(item) else None
        way.trail.say(f"'{item.op.name}' does not run at all", item.op, reason)
        return loop.start.get(slots[0], slots[0])
    return over_turns(way, item, assumption, loop, slots, ways.start[slots[0]])


def _ways_through(
    way: WayBack, item: Item, loop: Loop, block: BlockPassage, source: int, limit: int | None
) -> carried.TurnsUpTo:
    """How a source of the block passes a loop; kept for the other results of the loop."""
    found = way.solution.ways_through.get((block, item, source))
    if found is None:
        state = loop.state_from(source, block.reads[item])
        found = carried.TurnsUpTo(loop.columns, state, limit)
        way.solution.ways_through[block, item, source] = found
    return found


def _through_static(
    way: WayBack,
    item: Item,
    loop: Loop,
    block: BlockPassage,
    source: int,
    trips: int,
    result: int,
    assumption: Assumption,
) -> int | None:
    target = loop.arguments[result]
    if trips == 0:
        way.trail.say(f"'{item.op.name}' has no iteration", item.op)
        return loop.start[target]
    ways = way.solution.static_ways.get((block, item, source))
    if ways is None:
        state = loop.state_from(source, block.reads[item])
        ways = carried.ExactTurns(loop.columns, state, trips)
        way.solution.static_ways[block, item, source] = ways
    slots, before = ways.path(target)
    for slot, target in zip(slots[-2::-1], slots[:0:-1], strict=True):
        _turn(way, item, assumption, loop, slot, target)
        if slot == FRESH:
            return None
        way.trail.say(f"next iteration of '{item.op.name}'", item.op)
    if not before:
        return loop.start.get(slots[0], slots[0])
    first, groups = ways.before(slots[0])
    way.trail.say(f"{before} more iterations of '{item.op.name}'", item.op, groups=groups)
    if first == FRESH:
        way.trail.origin("the awaited group is committed in one of them", item.op)
        return None
    return loop.start.get(first, first)
