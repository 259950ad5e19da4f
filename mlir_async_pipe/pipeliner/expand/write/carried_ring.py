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
from typing import NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    again,
    ancestors,
    attributes_of,
    before,
    captured,
    create,
    integer_attribute,
    is_used,
    operations,
    parent,
    terminator,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import end_with_yield
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import needed_values
from mlir_async_pipe.facts.values.uniformity import conditions
from mlir_async_pipe.vocabulary import is_pure


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
        top, *below = together[0].ops
        numbers = tuple(dict.fromkeys(n for path in together for n in path.values))
        if below:
            inner = [path._replace(ops=path.ops[1:]) for path in together]
            after = _through(top, inner, {number: held[number] for number in numbers})
        else:
            after = together[0].write(*(held[number] for number in numbers))
        held.update(zip(numbers, after, strict=True))


def _through(op: Operation, paths: list[RingPath], held: dict[int, Value]) -> list[Value]:
    """The op, written again with the values that loops in it take part in; returns those after it."""
    state = list(held.values())
    loops = op.name != "scf.if"
    kinds = [result.type for result in (*op.results, *state)]
    made = again(op, [*op.operands, *(state if loops else ())], kinds)
    for value in state if loops else ():
        made.regions[0].blocks[0].add_argument(value.type, made.location)
    # Asked before anything is written: a loop that is written is another op.
    by_region = [
        [path for path in paths if path.ops[0].block in region.blocks] for region in made.regions
    ]
    for region, own in zip(made.regions, by_region, strict=True):
        if not len(list(region.blocks)):
            ip = ir.InsertionPoint(region.blocks.append())
            create("scf.yield", state, ip=ip, loc=made.location)
            continue
        block = region.blocks[0]
        begin = list(block.arguments)[-len(state) :] if loops else state
        inside = dict(zip(held, begin, strict=True))
        _carry(own, inside)
        end = terminator(block)
        again(end, [*end.operands, *inside.values()])
    return list(made.results)[-len(state) :]


# Values that nobody needs ------------------------------------------------------------------------
#
# Takes out of loops what nobody needs: values that a loop carries for nobody, and in a copy of a nest
# the statements of other partitions with all that only they need.
#
# %r:2 = scf.for … iter_args(%sum = %zero, %phase = %false) {     %r = scf.for … iter_args(%sum …) {
#   %flip = arith.xori %phase, %true                        -->
#   scf.yield %next, %flip                                          scf.yield %next
# }                            %r#1 is not used                   }


def drop_idle_values(loop: Operation) -> Operation:
    """The loop without idle values; itself if it carries none. Its handle is dead otherwise."""
    block = loop.regions[0].blocks[0]
    arguments = list(block.arguments)[1:]
    ops = operations(block)[:-1]
    kept = {op for op in ops if not is_pure(op) or len(op.regions)}
    used = [value for op in kept for value in captured(op)]
    used += [a for a, r in zip(arguments, loop.results, strict=True) if is_used(r)]
    needed = needed_values(used, {loop, *ops})
    if needed.issuperset(arguments):
        return loop
    return _keep_in_loop(loop, kept, set(), needed)


def keep_partition(ops: list[Operation], partition: int) -> None:
    """Of ops that stand together, keep the statements of a partition, the loops and branches around them,
    and what all these need."""
    for op in (op for top in ops for op in walk(top) if op.name == "scf.for"):
        names.remove(op, names.KNOWN_NAMES)
    inside = {op for top in ops for op in walk(top)}
    kept = {op for op in inside if integer_attribute(op, names.PARTITION) == partition}
    around = {above for op in kept for above in ancestors(op) if above in inside}
    used = [value for op in kept for value in captured(op)]
    for op in around:
        used += conditions(op)
    _keep(ops, kept, around, needed_values(used, inside))
    for op in kept:
        names.remove(op, (names.PARTITION,))


def _keep(
    ops: list[Operation], kept: set[Operation], around: set[Operation], needed: set[Value]
) -> None:
    """Erase all ops but those that are kept, or stand `around` these, or make what is needed."""
    for op in reversed(ops):
        if op in around and op.name == "scf.for":
            _keep_in_loop(op, kept, around, needed)
        elif op in around:
            # A branch gives nothing that is needed.
            for block in (block for region in op.regions for block in region.blocks):
                end_with_yield(block, ())
                _keep(operations(block)[:-1], kept, around, needed)
            again(op, list(op.operands), [])
        elif op not in kept and not needed.intersection(op.results):
            op.erase()


def _keep_in_loop(
    loop: Operation, kept: set[Operation], around: set[Operation], needed: set[Value]
) -> Operation:
    """The loop written again with what is needed of its body, and of its values."""
    block, initial, results = loop.regions[0].blocks[0], list(loop.operands), list(loop.results)
    arguments = list(block.arguments)[1:]
    numbers = [number for number, argument in enumerate(arguments) if argument in needed]
    end_with_yield(block, [terminator(block).operands[number] for number in numbers])
    _keep(operations(block)[:-1], kept, around, needed)
    made = create(
        loop.name,
        initial[:3] + [initial[3 + number] for number in numbers],
        [results[number].type for number in numbers],
        attributes_of(loop),
        regions=1,
        ip=before(loop),
        loc=loop.location,
    )
    block.append_to(made.regions[0])
    block = made.regions[0].blocks[0]
    for number in reversed(range(len(arguments))):
        if number not in numbers:
            block.erase_argument(number + 1)
    for number, new in zip(numbers, made.results, strict=True):
        results[number].replace_all_uses_with(new)
    loop.erase()
    return made
