"""The ways between an op with regions and its regions, as the row of the op says.

    counted loop   before -> 0               0 -> 0, after       (tested before each iteration)
    while          before -> 0               0 -> 1, after       1 -> 0
    branch         before -> each region     each -> after
    once           before -> 0               0 -> after

A *place* is the number of a region, or `OUT`: before the op as a source, after it as a target.
What leaves a source is taken by the results of the op, or by arguments (`taking`) of a region's
first block.
Of other threads' regions, and of ops without a row, there are no ways.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir_async_pipe.bindings.raw_ops import Block, Operation, Value, terminator
from mlir_async_pipe.vocabulary.control_flow import DEAD_ENDS, EXIT_OPS, RegionRow

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
    """The blocks that may run after a block of their region."""
    return list(terminator(block).successors)


def handed_on(end: Operation) -> list[Value]:
    """The operands that a terminator hands on to what follows its region."""
    first = EXIT_OPS.get(end.name)
    return [] if first is None else list(end.operands)[first:]
