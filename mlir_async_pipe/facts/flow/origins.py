"""What a value may come from: the values that control flow hands on, as the table says.

    %r = scf.for … iter_args(%a = %t) { … yield %u }      %r and %a: %t or %u
    %r = scf.while (%a = %t) { … condition(%p) %v } do { ^(%b) … yield %u }
                                                          %a: %t or %u,  %b and %r: %v
    cf.br ^bb(%t) … cf.br ^bb(%u)                         the argument of ^bb: %t or %u
    %r = arith.select %c, %t, %u                          %r: %t or %u

Which of them it is, the conditions decide; what makes a new value is where the walk ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    defining_op,
    result_number,
    terminator,
)
from mlir_async_pipe.facts.flow.ways import OUT, first_taken, handed_on, leaves, sources, starts
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CAST_OPS,
    REGION_ROWS,
    SELECT_OPS,
    RegionRow,
    regions_of,
)

Handed = tuple[Value, Operation]
"""A value, and the op that hands it on: a terminator, a loop (at its start), a select, a cast."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What a value may equal. `complete`: it equals one of them."""

    handed: tuple[Handed, ...] = ()
    complete: bool = False

    @property
    def values(self) -> list[Value]:
        return [value for value, _ in self.handed]


UNKNOWN = Origins()


def origins(value: Value) -> Origins:
    """What `value` may come from in one step; `UNKNOWN` where it is made, or by what is known of
    no row."""
    op = defining_op(value)
    if op is None:
        return _of_argument(value)
    if op.name in SELECT_OPS:
        return Origins(((op.operands[1], op), (op.operands[2], op)), True)
    if op.name in CAST_OPS and len(op.operands) == 1:
        return Origins(((op.operands[0], op),), True)
    row = REGION_ROWS.get(op.name)
    # Lanes that are masked out come from elsewhere.
    if row is None or row.masked:
        return UNKNOWN
    return _into(op, row, OUT, result_number(value))


def _of_argument(value: Value) -> Origins:
    argument = ir.BlockArgument(value)
    block, number = argument.owner, argument.arg_number
    op = block.owner.operation
    regions = enumerate(op.regions)
    place, region = next(found for found in regions if any(block == b for b in found[1].blocks))
    if block != region.blocks[0]:
        return _all(_along_edges(region, block, number))
    row = REGION_ROWS.get(op.name)
    number -= 0 if row is None else first_taken(op, row, block)
    return UNKNOWN if row is None or number < 0 else _into(op, row, place, number)


def _into(op: Operation, row: RegionRow, place: int, number: int) -> Origins:
    """What a place of an op with regions takes as number `number`."""
    regions = regions_of(op, row)
    ways = sources(row, place, len(regions))
    ends = [_start(op, row, number) if n == OUT else _leaving(regions[n], number) for n in ways]
    return _all(*ends) if ends else UNKNOWN


def _all(*found: Iterator[Handed | None]) -> Origins:
    """All of them together; None stands for one that is not known."""
    handed = [entry for some in found for entry in some]
    known = tuple(entry for entry in handed if entry is not None)
    return Origins(known, len(known) == len(handed))


def _start(op: Operation, row: RegionRow, number: int) -> Iterator[Handed | None]:
    given = starts(op, row)
    yield (given[number], op) if number < len(given) else None


def _leaving(region: Any, number: int) -> Iterator[Handed | None]:
    """What the ends of a region hand on as number `number`; None runs no region."""
    for block in () if region is None else region.blocks:
        end = terminator(block)
        if leaves(end):
            handed = handed_on(end)
            yield (handed[number], end) if number < len(handed) else None
    if region is None:
        yield None


def _along_edges(region: Any, target: Block, number: int) -> Iterator[Handed | None]:
    """What the branches of a region hand on to argument `number` of a block."""
    for block in region.blocks:
        end = terminator(block)
        for place, successor in enumerate(end.successors):
            if successor == target:
                row = BRANCH_ROWS.get(end.name)
                passed = () if row is None else row.operands(end)[place]
                yield (end.operands[passed[number]], end) if number < len(passed) else None
