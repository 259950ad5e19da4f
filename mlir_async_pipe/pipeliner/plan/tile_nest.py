"""Loops of tiles whose next tile's copies could start while this one still computes.

    scf.for %tile = … {          the outer loop
      pure ops                   front
      scf.for %k = … { … }       the inner loop, scheduled
      store acc                  behind
    }

`write.write_tiles` makes one loop of both.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    is_block_argument,
    operations,
    source_op,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import is_statement, is_synchronisation
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
    nest = Nest(
        outer,
        inner,
        tuple(body[:place]),
        tuple(body[place + 1 :]),
        static_trip_count(outer),
        static_trip_count(inner),
    )
    return _obstacle(nest) or nest


def _obstacle(nest: Nest) -> str:
    """Why the tiles of a nest cannot overlap, "" if they can."""
    if nest.steps == 0 or (nest.tiles is not None and nest.tiles < 2):
        return "there are no two tiles with iterations"
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
    if any(_is_inside(value, nest.outer) for value in bounds):
        return "the bounds of the inner loop differ between tiles"
    if first in initial or any(_is_inside(v, nest.outer) and v not in carried for v in initial):
        return "the inner loop begins with a value that each tile computes"
    return ""


def _is_inside(value: Value, loop: Operation) -> bool:
    op = source_op(value)
    return (op == loop and is_block_argument(value)) or loop in list(ancestors(op))
