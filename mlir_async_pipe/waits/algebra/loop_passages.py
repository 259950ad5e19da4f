"""How groups and tokens pass through loops: scf.for, affine.for and scf.while.

T trips        A^T on the carried values
any number     A*, the star
scf.while      region 0, and while its condition holds region 1 and region 0 again
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlir_async_pipe.flow.conditions import Assumption
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.waits.algebra import carried, minplus
from mlir_async_pipe.waits.algebra.count_rows import (
    FOREVER,
    FRESH,
    FRESH_ROW,
    NO_ROW,
    Row,
    compose,
    resolved,
)
from mlir_async_pipe.waits.algebra.passages import BlockPassage, Loop, Passage

if TYPE_CHECKING:
    from mlir_async_pipe.waits.algebra.summaries import Summaries


def through_loop(
    summaries: Summaries, item: Item, block: BlockPassage, assumption: Assumption
) -> Passage:
    """How groups and tokens pass a loop, in the terms of the block around it."""
    if item.row.flow == "for":
        return _through_for(summaries, item, block, assumption)
    return _through_while(summaries, item, block, assumption)


def _through_for(
    summaries: Summaries, item: Item, block: BlockPassage, assumption: Assumption
) -> Passage:
    trips = item.trips
    loop = loop_of(summaries, item, assumption)
    states = loop.states(block.reads[item])
    if trips is None:
        states = block.turns[item] = loop.turned(states)
    else:
        states = {
            source: carried.turn(loop.columns, state, trips) for source, state in states.items()
        }
    results: dict[int, Row] = {}
    for number in item.results:
        argument = loop.arguments[number]
        results[number] = {
            source: state[argument] for source, state in states.items() if argument in state
        }
    body = summaries.passage(item.frames[0], assumption)
    return Passage(_times(trips or 0, body.cost), results)


def _through_while(
    summaries: Summaries, item: Item, block: BlockPassage, assumption: Assumption
) -> Passage:
    turns = while_turns(summaries, item, assumption)
    if turns is True:
        return Passage(FOREVER, {})
    before = before_condition(summaries, item, assumption, False)
    loop = loop_of(summaries, item, assumption)
    states = loop.states(block.reads[item])
    if turns is None:
        states = block.turns[item] = loop.turned(states)
    results: dict[int, Row] = {}
    for source, state in states.items():
        for number in item.results:
            cost = resolved(before.results.get(number, NO_ROW), state)
            if cost is not None:
                results.setdefault(number, {})[source] = cost
    return Passage(before.cost, results)


def while_turns(summaries: Summaries, item: Item, assumption: Assumption) -> bool | None:
    """What the condition of an scf.while is known to be: always, never, or open (None)."""
    literal = summaries.conditions.while_literal(item)
    return literal if isinstance(literal, bool) else literal.under(assumption)


def before_condition(
    summaries: Summaries, item: Item, assumption: Assumption, holds: bool
) -> Passage:
    """The passage through the first region of an scf.while whose condition then holds, or
    does not; a condition that the region itself computes decides in it as well."""
    choices = while_choices(summaries, item, assumption, holds)
    return summaries.through_block(item.frames[0], choices)


def while_choices(
    summaries: Summaries, item: Item, assumption: Assumption, holds: bool
) -> Sequence[Assumption]:
    """The choices in the first region of an scf.while that decide its condition so."""
    literal = summaries.conditions.while_literal(item)
    choices = summaries.scopes.choices(item.frames[0], assumption)
    if isinstance(literal, bool):
        return choices
    return [choice for choice in choices if literal.under(choice) in (None, holds)]


def loop_of(summaries: Summaries, item: Item, assumption: Assumption) -> Loop:
    """The carried values of a loop, and how they move in one iteration."""
    key = summaries.scopes.key
    truths = tuple([key(frame, assumption) for frame in item.frames])
    found = summaries.made_loops.get((item, truths))
    if found is None:
        found = summaries.made_loops[item, truths] = _make(summaries, item, assumption)
    return found


def _make(summaries: Summaries, item: Item, assumption: Assumption) -> Loop:
    first = item.frames[0]
    offset = first.first_carried
    arguments = {place - offset: value for place, value in first.nodes[0].arguments.items()}
    given = item.operands
    start = {value: given[n] for n, value in arguments.items() if n in given}
    kept = first.captured
    if item.row.flow == "for":
        body = summaries.passage(first, assumption)
        cost, moved = body.cost, body.results
    elif while_turns(summaries, item, assumption) is False:
        cost, moved = FOREVER, {}
    else:
        kept = kept | item.frames[1].captured
        cost, moved = _both_regions(summaries, item, assumption, kept)
    columns: carried.Columns = {}
    if cost < FOREVER:
        columns = {value: {value: cost} for value in kept}
        for number, value in arguments.items():
            columns[value] = moved.get(number, NO_ROW)
        columns[FRESH] = FRESH_ROW
    return Loop(columns, arguments, start, kept)


def _both_regions(
    summaries: Summaries, item: Item, assumption: Assumption, kept: set[int]
) -> tuple[int, dict[int, Row]]:
    """One iteration of an scf.while: its cost, and the rows of what its end hands on."""
    second = item.frames[1]
    body = before_condition(summaries, item, assumption, True)
    after = summaries.passage(second, assumption)
    inside = {value: {value: body.cost} for value in kept} | {
        value: body.results.get(place, NO_ROW) for place, value in second.entry.arguments.items()
    }
    moved = {number: compose(row, inside) for number, row in after.results.items()}
    return min(FOREVER, body.cost + after.cost), moved


def _times(trips: int, cost: int) -> int:
    """The cost of `trips` passes."""
    if trips == 0 or cost == 0:
        return 0
    return FOREVER if cost >= FOREVER else min(minplus.CEILING, trips * cost)
