"""The statements of a loop body and their numbering.

A statement is a top-level op of the body that touches memory, has regions, or carries
`async_pipe.stage`. Group creation, waits and barriers are never statements: they are
dropped and derived again, and so are what announces and awaits the phases of tensor copies. A
barrier that gives a value, which it reduces over the block, is a statement for the value's sake.
Everything else is pure and follows its users.

    load, addf, store, barrier, load, store          has the statements 0, 1, 2, 3
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, operations, walk
from mlir_async_pipe.facts.loops.annotations import STAGE, is_pipelined_inside
from mlir_async_pipe.facts.loops.body_table import BodyTable
from mlir_async_pipe.facts.loops.transactions import has_transactions, is_phase_op
from mlir_async_pipe.vocabulary import is_barrier, is_pure, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS


@dataclass(frozen=True)
class Statement:
    """One statement: its number (the index into `stage` and `order` arrays) and its op.

    `part` names which part of an inner loop that is pipelined itself the statement is; its
    prologue, kernel and epilogue are one statement each.
    """

    number: int
    op: Operation
    part: str = ""


@dataclass(frozen=True)
class Body:
    """A loop body, sorted into what each top-level op is.

    `position` gives the textual place of every top-level op; `statements` are in textual
    order; `pure` touches no memory; `synchronisation` is what gets derived again.
    """

    loop: Operation
    ops: tuple[Operation, ...]
    statements: tuple[Statement, ...]
    pure: tuple[Operation, ...]
    synchronisation: tuple[Operation, ...]
    terminator: Operation
    block: Any

    @cached_property
    def table(self) -> BodyTable:
        """Its ops and values as numbers."""
        return BodyTable(self.block, self.ops, self.terminator)


PARTS = ("prologue", "kernel", "epilogue")


def read_body(loop: Operation, also: Collection[Operation] = ()) -> Body:
    """Sort the ops of a loop body; `also` are pure ops that count as statements."""
    block = loop.regions[0].blocks[0]
    *ops, terminator = operations(block)
    statements: list[Statement] = []
    pure: list[Operation] = []
    synchronisation: list[Operation] = []
    transactional = has_transactions(loop)
    for op in ops:
        if is_derived_again(op) or (transactional and is_phase_op(op)):
            synchronisation.append(op)
        elif op in also or is_statement(op):
            for part in PARTS if op.name == "scf.for" and is_pipelined_inside(op) else ("",):
                statements.append(Statement(len(statements), op, part))
        else:
            pure.append(op)
    return Body(
        loop, tuple(ops), tuple(statements), tuple(pure), tuple(synchronisation), terminator, block
    )


def is_synchronisation(op: Operation) -> bool:
    """Group creation, waits and barriers."""
    row = row_of(op)
    if row is None:
        return False
    return row.commits == "group" or row.wait is not None or row.barrier is not None


def is_derived_again(op: Operation) -> bool:
    """Synchronisation that is dropped; a barrier that gives a value stays."""
    return is_synchronisation(op) and not (len(op.results) and is_barrier(op))


def synchronisation_in(op: Operation) -> Operation | None:
    """The first group, wait or barrier in the regions of an op."""
    if len(op.regions) == 0:
        return None
    return next((inner for inner in walk(op) if inner != op and is_synchronisation(inner)), None)


def barriers_of(body: Body) -> list[Operation]:
    """The barriers of a body, and its statements that are one, or hold one which runs in every
    thread that runs the statement."""
    holders = [s.op for s in body.statements if _surely_meets(s.op)]
    return [*filter(is_barrier, body.synchronisation), *holders]


def _surely_meets(op: Operation) -> bool:
    """Whether the blocks that run first, of ops in which one surely runs, hold a barrier."""
    row = REGION_ROWS.get(op.name)
    if row is None or row.flow not in ("once", "while"):
        return is_barrier(op)
    return any(map(_surely_meets, operations(op.regions[0].blocks[0])))


def is_statement(op: Operation) -> bool:
    """Whether a top-level op that is no synchronisation is a statement."""
    row = row_of(op)
    if row is not None and (row.accesses or row.queue is not None):
        return True
    return not is_pure(op) or len(op.regions) > 0 or STAGE in op.attributes


def numbering(body: Body) -> tuple[tuple[str, Any], ...]:
    """The statements with their numbers, as notes for errors about lengths."""
    return tuple(
        (f"statement {s.number} is {f'the {s.part} of ' if s.part else ''}'{s.op.name}'", s.op)
        for s in body.statements
    )
