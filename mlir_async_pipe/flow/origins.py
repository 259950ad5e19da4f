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
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CAST_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    REGION_ROWS,
    SELECT_OPS,
    RegionRow,
    branch_regions,
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
        """The values alone."""
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
    if row is None or row.masked or row.flow not in ("for", "while", "branch", "once"):
        return UNKNOWN
    number = result_number(value)
    if row.flow == "for":
        return _of_loop(op, row, number)
    if row.flow == "while":
        return _all(_leaving(op.regions[0], number))
    regions = branch_regions(op) if row.flow == "branch" else op.regions
    return _all(*(_leaving(region, number) for region in regions))


def _of_argument(value: Value) -> Origins:
    argument = ir.BlockArgument(value)
    block, number = argument.owner, argument.arg_number
    op = block.owner.operation
    region = next(r for r in op.regions if any(block == other for other in r.blocks))
    if block != region.blocks[0]:
        return _all(_along_edges(region, block, number))
    row = REGION_ROWS.get(op.name)
    if row is None or row.flow not in ("for", "while"):
        return UNKNOWN
    if row.flow == "for":
        carried = number - first_carried(op, row)
        return UNKNOWN if carried < 0 else _of_loop(op, row, carried)
    before, after = op.regions
    if block == after.blocks[0]:
        return _all(_leaving(before, number))
    return _all(_start(op, row, number), _leaving(after, number))


def first_carried(loop: Operation, row: RegionRow) -> int:
    """How many arguments of a counted loop's body come before those that it carries."""
    return len(loop.regions[0].blocks[0].arguments) - len(row.entry(loop))


def _of_loop(op: Operation, row: RegionRow, number: int) -> Origins:
    return _all(_start(op, row, number), _leaving(op.regions[0], number))


def _all(*found: Iterator[Handed | None]) -> Origins:
    """All of them together; None stands for one that is not known."""
    handed = [entry for some in found for entry in some]
    known = tuple(entry for entry in handed if entry is not None)
    return Origins(known, len(known) == len(handed))


def _start(op: Operation, row: RegionRow, number: int) -> Iterator[Handed]:
    yield op.operands[row.entry(op)[number]], op


def _leaving(region: Any, number: int) -> Iterator[Handed | None]:
    """What the ends of a region hand on as number `number`; None runs no region."""
    for block in () if region is None else region.blocks:
        end = terminator(block)
        if end.name in DEAD_ENDS or len(end.successors):
            continue
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


def handed_on(end: Operation) -> list[Value]:
    """The operands that a terminator hands on to what follows its region."""
    first = EXIT_OPS.get(end.name)
    return [] if first is None else list(end.operands)[first:]
