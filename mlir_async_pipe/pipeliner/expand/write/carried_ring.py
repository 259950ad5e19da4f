"""Takes slot and phase through the ops around the loops of a ring, from one loop to the next; and what
several rings carry through the ops around all of them at once.

scf.for %tile = … {                         %slot, %phase = scf.for %tile = … iter_args(%s = 0, %p = 0) {
  scf.for %k = … { a loop of the ring }       %s1, %p1 = scf.for %k = … iter_args(%s, %p) { … }
  scf.if %more {                       -->    %s2, %p2 = scf.if %more {
    scf.for %j = … { another one }              %s3, %p3 = scf.for %j = … iter_args(%s1, %p1) { … }
  }                                             scf.yield %s3, %p3
}                                             } else { scf.yield %s1, %p1 }
                                              scf.yield %s2, %p2
                                            }
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    again,
    ancestors,
    create,
    parent,
    terminator,
)


class RingPath(NamedTuple):
    """The ops down to a loop of a ring, outermost first, that loop last, or an op in the block that uses a
    slot; `write` writes it from the values of the state that are the ring's, by their numbers, and returns
    those after it."""

    ops: tuple[Operation, ...]
    write: Callable[..., list[Value]]
    values: tuple[int, ...] = (0, 1)


def between(outer: Operation, loop: Operation) -> list[Operation]:
    """The ops between the block of `outer` and the loop, outermost first."""
    chain = []
    for above in ancestors(loop):
        if above == parent(outer):
            break
        chain.append(above)
    return list(reversed(chain))


def carry(paths: list[RingPath], state: list[Value]) -> list[Value]:
    """Write the loops, which stand in this order below one block; returns `state` after them."""
    held = dict(enumerate(state))
    _carry(paths, held)
    return list(held.values())


def _carry(paths: list[RingPath], held: dict[int, Value]) -> None:
    """Write the loops; `held` has each value of the state by its number, before and then after."""
    # Grouped before anything is written: what is written again cannot be asked any more.
    for together in [list(group) for _, group in groupby(paths, lambda path: path.ops[0])]:
        if len(together[0].ops) == 1:
            ((_, write, numbers),) = together
            after = write(*(held[number] for number in numbers))
        else:
            inner = [path._replace(ops=path.ops[1:]) for path in together]
            numbers = tuple(dict.fromkeys(n for path in inner for n in path.values))
            after = _through(
                together[0].ops[0], inner, {number: held[number] for number in numbers}
            )
        held.update(zip(numbers, after, strict=True))


def _through(op: Operation, paths: list[RingPath], held: dict[int, Value]) -> list[Value]:
    """The op, through which the values go that loops in it take part in; returns those after it."""
    state = list(held.values())
    made = _with_values(op, state)
    # Asked before anything is written: a loop that is written is another op.
    by_region = [
        [path for path in paths if path.ops[0].block in region.blocks] for region in made.regions
    ]
    for region, own in zip(made.regions, by_region, strict=True):
        if not len(list(region.blocks)):
            ip = ir.InsertionPoint(region.blocks.append())
            create("scf.yield", state, ip=ip, loc=op.location)
            continue
        block = region.blocks[0]
        begin = state if made.name == "scf.if" else list(block.arguments)[-len(state) :]
        inside = dict(zip(held, begin, strict=True))
        _carry(own, inside)
        end = terminator(block)
        again(end, [*end.operands, *inside.values()])
    return list(made.results)[-len(state) :]


def _with_values(op: Operation, values: list[Value]) -> Operation:
    """The op written again so that it hands `values` in and gives as many more results."""
    kinds: list[Any] = [value.type for value in values]
    results = [*(result.type for result in op.results), *kinds]
    if op.name == "scf.if":
        return again(op, list(op.operands), results)
    made = again(op, [*op.operands, *values], results)
    for kind in kinds:
        made.regions[0].blocks[0].add_argument(kind, made.location)
    return made
