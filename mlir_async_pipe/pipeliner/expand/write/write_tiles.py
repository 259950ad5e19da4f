"""Lets the next tile's copies start while this tile still computes: one loop for two.

    scf.for %tile = … {                     scf.for %n = 0 to tiles * steps
      scf.for %k = … iter_args(acc) {           iter_args(tile, k, acc) {
        copy; compute               -->       copy; compute
      }                                       %last = k == the last one of a tile
      store acc                               acc' = scf.if %last { store acc; zero } else { acc }
    }                                         tile', k' = the next pair
                                            }

Planned as any loop is, its copies run S - 1 steps ahead, over the end of a tile too: no tile
but the first waits for its first copies, the counts are those of the kernel everywhere, and
no buffer needs another version. What stands before the inner loop is pure and computed
again in every step; what stands after it is one statement, the last of the last stage.

It is written as two loops again (`LoopWriter._kernel_of`), the last S steps of a tile by themselves: which step is a
tile's last is known in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    clone,
    create,
    is_made_in,
    operations,
    set_integer,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import (
    at_end_of,
    end_of,
    take_results,
    write_for,
    write_if,
    write_versions,
    yield_values,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import is_statement, is_synchronisation, read_body
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.plan.make_plan import Tiles
from mlir_async_pipe.pipeliner.plan.units import statement_place
from mlir_async_pipe.vocabulary import flag_order, row_of
from mlir_async_pipe.vocabulary.memory_names import is_set
from mlir_async_pipe.vocabulary.rows import UNORDERED


@dataclass(frozen=True)
class Nest:
    """A scheduled loop in a loop that runs it for one tile after the other.

    `head` are the ops before the inner loop, `tail` those after it. `tiles` and `steps`
    are the trip counts, None if not constant.
    """

    outer: Operation
    inner: Operation
    head: tuple[Operation, ...]
    tail: tuple[Operation, ...]
    tiles: int | None
    steps: int | None


def find_nest(inner: Operation) -> Nest | str | None:
    """The nest of a scheduled loop; a sentence that says why its tiles cannot overlap; None
    where it stands in no loop of tiles."""
    outer = inner.parent.operation
    if outer.name != "scf.for" or names.is_requested(outer):
        return None
    body = operations(outer.regions[0].blocks[0])[:-1]
    place = body.index(inner)
    head, tail = tuple(body[:place]), tuple(body[place + 1 :])
    trips = static_trip_count(outer), static_trip_count(inner)
    nest = Nest(outer, inner, head, tail, *trips)
    return _obstacle(nest) or nest


def _obstacle(nest: Nest) -> str:
    """Why the tiles of a nest cannot overlap, "" if they can."""
    if nest.steps == 0 or (nest.tiles is not None and nest.tiles < 2):
        return "there are no two tiles with iterations"
    if nest.steps is not None and nest.steps < _stages(nest):
        return f"a tile has {nest.steps} iterations, and the pipeline {_stages(nest)} stages"
    if any("unsignedCmp" in loop.attributes for loop in (nest.outer, nest.inner)):
        return "a loop counts unsigned"
    if is_set(nest.inner.attributes, names.INDEPENDENT):
        return "the inner loop is declared independent, which says nothing of the outer one"
    for op in nest.head:
        if is_statement(op) or is_synchronisation(op):
            return f"'{op.name}' before the inner loop is not pure"
    for op in (part for top in nest.tail for part in walk(top)):
        if flag_order(op) != UNORDERED:
            return f"'{op.name}' after the inner loop orders memory for other threads"
        row = row_of(op)
        if row.commits or row.wait or row.asynchronous(op):
            return f"'{op.name}' stands after the inner loop"
    first, *carried = nest.outer.regions[0].blocks[0].arguments
    bounds, initial = list(nest.inner.operands)[:3], list(nest.inner.operands)[3:]
    if any(is_made_in(value, nest.outer) for value in bounds):
        return "the bounds of the inner loop differ between tiles"
    if first in initial or any(is_made_in(v, nest.outer) and v not in carried for v in initial):
        return "the inner loop begins with a value that each tile computes"
    return ""


def overlap(nest: Nest) -> tuple[Operation, Tiles]:
    """Write the loop over all steps of all tiles in the place of the nest; returns it, and what it will be written as.

    Where a tile may have fewer steps than the pipeline stages, the nest stays as another version."""
    outer = nest.outer
    integers = Integers(outer, 0, nest.tiles, before(outer))
    inner_integers = Integers(nest.inner, 0, nest.steps, before(outer))
    tiles, steps = integers.trips_as_index(), inner_integers.trips_as_index()
    guards = []
    if nest.steps is None:
        least = integers.constant(_stages(nest), integers.index)
        enough = integers.compare("uge", steps, least)
        guard, original = write_versions(enough, outer, before(outer))
        guards.append(guard)
        for op in walk(original):
            if op.name == "scf.for" and names.in_op_form(op):
                names.forget(op)
        for numbers in (integers, inner_integers):
            numbers.enter(at_end_of(guard.regions[0]))
    if nest.tiles is None:
        # Other blocks may have a tile where this one has none: so this is no choice between versions.
        some, initial = integers.begins, list(outer.operands)[3:]
        guards.append(write_if(some, initial, initial or None, integers.ip, outer.location))
        for numbers in (integers, inner_integers):
            numbers.enter(at_end_of(guards[-1].regions[0]))
    total = integers.multiply(tiles, steps)
    loop, found = _write_loop(nest, integers, inner_integers, total, steps)
    results = list(loop.results)[2 : 2 + len(outer.results)]
    for guard in reversed(guards):
        results = take_results(guard, results)
    for old, new in zip(outer.results, results, strict=True):
        old.replace_all_uses_with(new)
    outer.erase()
    for name, value in ((names.EPILOGUE, "predicate"), (names.SHORT_TRIP, "assume")):
        loop.attributes[name] = ir.StringAttr.get(value, loop.context)
    return loop, found


def _stages(nest: Nest) -> int:
    return 1 + max(statement_place(s.op, s.number).stage for s in read_body(nest.inner).statements)


def _write_loop(
    nest: Nest, integers: Integers, inner_integers: Integers, total: Value, steps: Value
) -> tuple[Operation, Tiles]:
    """The loop, and what it says of tiles."""
    outer, inner, loc = nest.outer, nest.inner, nest.inner.location
    outer_block, inner_block = (loop.regions[0].blocks[0] for loop in (outer, inner))
    outer_arguments, inner_arguments = list(outer_block.arguments), list(inner_block.arguments)
    start = dict(zip(outer_arguments[1:], list(outer.operands)[3:], strict=True))
    initial = [start.get(value, value) for value in list(inner.operands)[3:]]
    zero, one = (integers.constant(number, integers.index) for number in (0, 1))
    last_step = inner_integers.last(steps)
    entries = [outer.operands[0], inner.operands[0], *list(outer.operands)[3:], *initial]
    attributes = {
        name: inner.attributes[name] for name in names.LOOP_NAMES if name in inner.attributes
    }
    loop = write_for([zero, total, one], entries, integers.ip, loc, attributes)
    block = loop.regions[0].blocks[0]
    tile, step, *carried = list(block.arguments)[1:]
    ip = ir.InsertionPoint(block)
    for numbers in (integers, inner_integers):
        numbers.enter(ip)
    mapping: dict[Value, Value] = dict(
        zip([*outer_arguments, *inner_arguments[1:]], [tile, *carried], strict=True)
    )
    mapping[inner_arguments[0]] = step
    *body, inner_end = operations(inner_block)
    for op in (*nest.head, *body):
        clone(op, mapping, ip)
    yielded = [mapping.get(value, value) for value in inner_end.operands]
    last = inner_integers.compare("eq", step, last_step)
    own = dict(zip(outer_arguments, [tile, *carried], strict=False))
    tail, following = _write_tail(nest, last, own, yielded, ip)
    next_tile = integers.select(last, integers.add(tile, outer.operands[2]), tile)
    next_step = inner_integers.select(
        last, inner.operands[0], inner_integers.add(step, inner.operands[2])
    )
    create("scf.yield", [next_tile, next_step, *following], ip=ip, loc=loc)
    lower, upper, step_of_tiles = list(outer.operands)[:3]
    return loop, Tiles((lower, upper, step_of_tiles), steps, tile, last, tail)


def _write_tail(
    nest: Nest, last: Value, own: dict[Value, Value], yielded: list[Value], ip: Any
) -> tuple[Operation | None, list[Value]]:
    """What stands after the inner loop, in the last step of a tile, with what it needs of what stands before it:
    of the step nothing but the tile, the values that the outer loop carries, `own`, and the sums is used there.

    Returns the branch, and what the next step begins with: values carried by the outer loop, then those of the inner one."""
    outer, inner, loc = nest.outer, nest.inner, nest.outer.location
    _, *arguments = outer.regions[0].blocks[0].arguments
    kept = [*(own[argument] for argument in arguments), *yielded]
    if not kept and not nest.tail:
        return None, []
    branch = write_if(last, kept, kept or None, ip, loc)
    then = at_end_of(branch.regions[0])
    inside = own | dict(zip(inner.results, yielded, strict=True))
    for op in (*nest.head, *nest.tail):
        clone(op, inside, then)
    outer_end = operations(outer.regions[0].blocks[0])[-1]
    carried_on = [inside.get(value, value) for value in outer_end.operands]
    next_tile = dict(zip(arguments, carried_on, strict=True))
    initial = [next_tile.get(value, value) for value in list(inner.operands)[3:]]
    yield_values(end_of(branch.regions[0]), [*carried_on, *initial])
    places = [statement_place(s.op, s.number) for s in read_body(inner).statements]
    stage = max(place.stage for place in places)
    set_integer(branch, names.STAGE, stage, 64)
    # Equal orders keep their textual place, so this one follows the last of its stage.
    order = max(place.order for place in places if place.stage == stage)
    set_integer(branch, names.ORDER, order, 64)
    return branch, list(branch.results)
