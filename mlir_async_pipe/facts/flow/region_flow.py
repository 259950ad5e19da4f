"""The edges between an op with regions and its regions, as the row of the op says.

    counted loop   before -> 0               0 -> 0, after       (tested before each iteration)
    while          before -> 0               0 -> 1, after       1 -> 0
    branch         before -> each region     each -> after
    once           before -> 0               0 -> after

A *place* is the number of a region, or `OUT`: before the op as a source, after it as a target.
What leaves a source is taken by the results of the op, or by arguments (`taking`) of a region's
first block.
Of other threads' regions, and of ops without a row, there are no edges.

`origins` are what a value may come from: the values that control flow forwards.

    %r = scf.for … iter_args(%a = %t) { … yield %u }      %r and %a: %t or %u
    %r = scf.while (%a = %t) { … condition(%p) %v } do { ^(%b) … yield %u }
                                                          %a: %t or %u,  %b and %r: %v
    cf.br ^bb(%t) … cf.br ^bb(%u)                         the argument of ^bb: %t or %u
    %r = arith.select %c, %t, %u                          %r: %t or %u

Which of them it is, the conditions decide; what makes a new value is where the walk ends.

`Varying` tells in which loops of a function a value changes from iteration to iteration.

    ^loop(%k: i64, %slot: i64):     %k, %slot vary in the loop
      %row = llvm.urem %lane, %c16  does not, wherever it stands: all that it is made of stands still
      %at = llvm.add %row, %k       varies

Loops are the natural loops of the blocks of one region. What is not pure varies in all loops
around it. A value is looked at when it is asked for, with all that it is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Block,
    Operation,
    Value,
    defining_op,
    made_in,
    parent,
    result_number,
    terminator,
)
from mlir_async_pipe.facts.flow.algorithms import computed, natural_loops, post_order, reached
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CAST_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    REGION_ROWS,
    SELECT_OPS,
    RegionRow,
    regions_of,
)

OUT = -1

_LOOPS: dict[str, dict[int, tuple[int, ...]]] = {
    "for": {0: (OUT, 0), OUT: (OUT, 0)},
    "while": {0: (OUT, 1), 1: (0,), OUT: (0,)},
}


def sources(row: RegionRow, place: int, regions: int) -> Sequence[int]:
    """The places from which control comes to one, of an op with so many regions to run."""
    loop = _LOOPS.get(row.flow)
    if loop is not None:
        return loop[place]
    if row.flow not in ("branch", "once"):
        return ()
    return range(regions) if place == OUT else (OUT,)


def targets(row: RegionRow, place: int, regions: int) -> list[int]:
    """The places to which control goes on from one; after the op comes last."""
    return [to for to in (*range(regions), OUT) if place in sources(row, to, regions)]


def starts(op: Operation, row: RegionRow) -> list[Value]:
    """The values that go in with control from before the op."""
    operands = op.operands
    return [operands[number] for number in row.entry(op)]


def first_taken(op: Operation, row: RegionRow, block: Block) -> int:
    """How many arguments of the first block of a region come before those that take values."""
    counted = row.flow in ("for", "parallel")
    return len(block.arguments) - len(row.entry(op)) if counted else 0


def taking(op: Operation, row: RegionRow, block: Block) -> Sequence[Value]:
    """The arguments of the first block of a region that control brings something for."""
    return list(block.arguments)[first_taken(op, row, block) :]


def leaves(end: Operation) -> bool:
    """Whether control leaves the region of a block by its last op."""
    name = end.name
    return name in EXIT_OPS or (name not in DEAD_ENDS and not len(end.successors))


def successors(block: Block) -> list[Block]:
    return list(terminator(block).successors)


def runs_again(op: Operation) -> bool:
    """Whether control may come back to an op within its function."""
    return repeated_in(op) is not None


def repeated_in(op: Operation) -> Operation | None:
    """The outermost op around `op`, within its function, in which control may come back to it: one that may run its
    regions more than once, or has branches back between its blocks."""
    found = None
    while (above := parent(op)) is not None and op.name not in FUNCTION_OPS:
        row = REGION_ROWS.get(above.name)
        once = row is not None and row.flow in ("branch", "once", "isolated")
        if not once or op.block in reached(successors(op.block), successors):
            found = above
        op = above
    return found


def forwarded(end: Operation) -> list[Value]:
    """The operands that a terminator forwards to what follows its region."""
    first = EXIT_OPS.get(end.name)
    return [] if first is None else list(end.operands)[first:]


Forwarded = tuple[Value, Operation]
"""A value, and the op that hands it on: a terminator, a loop (at its start), a select, a cast."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What a value may equal. `complete`: it equals one of them."""

    entries: tuple[Forwarded, ...] = ()
    complete: bool = False

    @property
    def values(self) -> list[Value]:
        return [value for value, _ in self.entries]


UNKNOWN = Origins()


def origins(value: Value) -> Origins:
    """What `value` may come from in one step; `UNKNOWN` where it is made, or by an op without a row."""
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
    before = sources(row, place, len(regions))
    ends = [_start(op, row, number) if n == OUT else _leaving(regions[n], number) for n in before]
    return _all(*ends) if ends else UNKNOWN


def _all(*found: Iterator[Forwarded | None]) -> Origins:
    """All of them together; None stands for one that is not known."""
    entries = [entry for some in found for entry in some]
    known = tuple(entry for entry in entries if entry is not None)
    return Origins(known, len(known) == len(entries))


def _start(op: Operation, row: RegionRow, number: int) -> Iterator[Forwarded | None]:
    given = starts(op, row)
    yield (given[number], op) if number < len(given) else None


def _leaving(region: Any, number: int) -> Iterator[Forwarded | None]:
    """What the ends of a region forward as number `number`; None runs no region."""
    for block in () if region is None else region.blocks:
        end = terminator(block)
        if leaves(end):
            entries = forwarded(end)
            yield (entries[number], end) if number < len(entries) else None
    if region is None:
        yield None


def _along_edges(region: Any, target: Block, number: int) -> Iterator[Forwarded | None]:
    """What the branches of a region forward to argument `number` of a block."""
    for block in region.blocks:
        end = terminator(block)
        for place, successor in enumerate(end.successors):
            if successor == target:
                row = BRANCH_ROWS.get(end.name)
                passed = () if row is None else row.operands(end)[place]
                yield (end.operands[passed[number]], end) if number < len(passed) else None


Nest = tuple[Block, ...]
"""The headers of loops, outermost first."""


class Varying:
    """Answers for the values of one region, as long as its ops stay."""

    def __init__(self, region: Any) -> None:
        self._nests = _nests(region.blocks[0])
        self._varies: dict[Value, Nest] = {}

    def blocks(self) -> list[Block]:
        """The blocks that stand in loops, each after those that dominate it."""
        return [block for block, nest in self._nests.items() if nest]

    def nest(self, block: Block) -> Nest:
        return self._nests.get(block, ())

    def depth(self, value: Value, block: Block) -> int:
        """In how many of the loops around `block`, outermost first, a value varies."""
        return len(_common(self._nest_of(value), self.nest(block)))

    def _nest_of(self, value: Value) -> Nest:
        """The loops that a value varies in."""

        def operands(current: Value) -> Iterable[Value]:
            op, block = made_in(current)
            return op.operands if self.nest(block) and op is not None and is_pure(op) else ()

        def find(current: Value) -> Nest:
            op, block = made_in(current)
            nest = self.nest(block)
            if not nest or op is None or not is_pure(op):
                return nest
            depths = (len(_common(self._varies[operand], nest)) for operand in op.operands)
            return nest[: max(depths, default=0)]

        return computed(value, self._varies, operands, find)


def _nests(entry: Block) -> dict[Block, Nest]:
    """The loops around each block that can be reached, a block after those that dominate it."""

    def after(block: Block) -> list[Block]:
        return list(terminator(block).successors)

    loops = natural_loops(entry, after)
    # A loop around another one has all its blocks, and its own header besides.
    outermost_first = sorted(loops, key=lambda header: -len(loops[header]))
    order = list(reversed(post_order([entry], after)))
    return {b: tuple(h for h in outermost_first if b in loops[h]) for b in order}


def _common(first: Nest, second: Nest) -> Nest:
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return first[:length]
