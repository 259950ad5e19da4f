"""The statements of a loop body and their numbering.

A statement is a top-level op of the body that touches memory, has regions, or carries
`async_pipe.stage`. Group creation, waits and barriers are never statements: they are
dropped and derived again, and so are what announces and awaits the phases of tensor copies. A
barrier that gives a value, which it reduces over the block, is a statement for the value's sake.
Everything else is pure and follows its users.

    load, addf, store, barrier, load, store          has the statements 0, 1, 2, 3

`BodyTable` is a loop body as numbers: which op makes which value, and which ops use it, read once.

    scf.for … iter_args(%acc = …) {           values: induction variable 0, %acc 1, %j 2, %v 3, %s 4
      0  %j = arith.addi %i, %c               used 0, results 2
      1  %v = memref.load %A[%j]              used 2, results 3
      2  %s = arith.addf %acc, %v             used 1 3, results 4
      3  scf.yield %s                         used 4

The number of an op is its place in the text, the terminator has the last one. What the regions of an
op capture is used by the op; what comes from outside of the body has no number.

`needed_statements` are what a set of statements depends on in one iteration, through values and memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    captured,
    defining_op,
    is_block_argument,
    operations,
    result_number,
    terminator,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops.annotations import STAGE, is_pipelined_inside
from mlir_async_pipe.facts.loops.transactions import ANNOUNCED, has_transactions
from mlir_async_pipe.facts.values.memory_roots import may_alias, root_of
from mlir_async_pipe.vocabulary import Row, accesses, is_barrier, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS

# The maker of what no op of the body makes: the induction variable, and what the loop carries.
ARGUMENT = -1


class BodyTable:
    """The table of one body, as long as nobody edits it.

    `number` is that of an op; `results` and `used` hold, by the number of an op, the values that it
    makes and those of the body that it uses, each once; `maker` the op of a value.
    """

    def __init__(self, block: Block, ops: Sequence[Operation], terminator: Operation) -> None:
        self.ops = (*ops, terminator)
        self.number = {op: place for place, op in enumerate(self.ops)}
        values: dict[Value, int] = {value: n for n, value in enumerate(block.arguments)}
        self.arguments = len(values)
        self.maker = [ARGUMENT] * self.arguments
        self.results: list[range] = []
        for place, op in enumerate(self.ops):
            first = len(values)
            for result in op.results:
                values[result] = len(values)
                self.maker.append(place)
            self.results.append(range(first, len(values)))
        self.used = [_known(captured(op), values) for op in ops]
        # By iter_arg the value of the next iteration, None for one from outside.
        self.yielded = [values.get(value) for value in terminator.operands]
        self.used.append(tuple(dict.fromkeys(v for v in self.yielded if v is not None)))

    @cached_property
    def users(self) -> list[list[int]]:
        """The ops that use a value, in the order of the text."""
        found: list[list[int]] = [[] for _ in self.maker]
        for place, values in enumerate(self.used):
            for value in values:
                found[value].append(place)
        return found

    def makers(self, op: int) -> list[int]:
        """The ops that make what an op uses."""
        return [self.maker[value] for value in self.used[op] if value >= self.arguments]

    def following(self, op: int) -> list[int]:
        """The ops that use what an op makes."""
        return [user for value in self.results[op] for user in self.users[value]]

    def follows_induction(self, op: int, closed: Collection[int]) -> bool:
        """Whether an op uses nothing of the body but the induction variable and what ops of `closed`
        make."""
        return all(value == 0 or self.maker[value] in closed for value in self.used[op])

    def chain(self, value: int) -> tuple[int, int] | None:
        """The op that makes a value, and how many iterations earlier, through what the loop carries;
        None if it is the induction variable, comes from outside, or nobody ever makes it."""
        passed: set[int] = set()
        current: int | None = value
        while current is not None and current < self.arguments:
            if current == 0 or current in passed:
                return None
            passed.add(current)
            current = self.yielded[current - 1]
        return None if current is None else (self.maker[current], len(passed))


def _known(values: Sequence[Value], numbers: dict[Value, int]) -> tuple[int, ...]:
    found = (numbers.get(value) for value in values)
    return tuple(dict.fromkeys(number for number in found if number is not None))


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
    for op in ops:
        row = row_of(op)
        if _is_dropped(op, row) or (row.phase in ANNOUNCED and has_transactions(loop)):
            synchronisation.append(op)
        elif op in also or _is_statement(op, row):
            for part in PARTS if op.name == "scf.for" and is_pipelined_inside(op) else ("",):
                statements.append(Statement(len(statements), op, part))
        else:
            pure.append(op)
    return Body(
        loop, tuple(ops), tuple(statements), tuple(pure), tuple(synchronisation), terminator, block
    )


def is_synchronisation(op: Operation) -> bool:
    """Group creation, waits and barriers."""
    return row_of(op).synchronises


def is_derived_again(op: Operation) -> bool:
    """Synchronisation that is dropped; a barrier that gives a value stays."""
    return _is_dropped(op, row_of(op))


def _is_dropped(op: Operation, row: Row) -> bool:
    return row.synchronises and not (row.barrier is not None and len(op.results))


def synchronisation_in(op: Operation) -> Operation | None:
    """The first group, wait or barrier in the regions of an op."""
    if len(op.regions) == 0:
        return None
    return next((inner for inner in walk(op) if inner != op and is_synchronisation(inner)), None)


def barriers_of(body: Body) -> list[Operation]:
    """The barriers of a body, and its statements that are one, or hold one which runs in every
    thread that runs the statement."""
    holders = [s.op for s in body.statements if _must_meet_barrier(s.op)]
    return [*filter(is_barrier, body.synchronisation), *holders]


def _must_meet_barrier(op: Operation) -> bool:
    """Whether the blocks that run first, of ops in which one certainly runs, hold a barrier."""
    row = REGION_ROWS.get(op.name)
    if row is None or row.flow not in ("once", "while"):
        return is_barrier(op)
    return any(map(_must_meet_barrier, operations(op.regions[0].blocks[0])))


def is_statement(op: Operation) -> bool:
    """Whether a top-level op that is no synchronisation is a statement."""
    return _is_statement(op, row_of(op))


def _is_statement(op: Operation, row: Row) -> bool:
    return not row.pure or STAGE in op.attributes or len(op.regions) > 0


def numbering(body: Body) -> tuple[tuple[str, Any], ...]:
    """The statements with their numbers, as notes for errors about lengths."""
    return tuple(
        (f"statement {s.number} is {f'the {s.part} of ' if s.part else ''}'{s.op.name}'", s.op)
        for s in body.statements
    )


def with_producers(body: Body, chosen: set[int]) -> set[int]:
    """`chosen` and every statement they depend on, through values and through memory."""
    by_op = {s.op: s.number for s in body.statements}
    seen: set[Value] = set()

    def producers(number: int) -> set[int]:
        op = body.statements[number].op
        through_memory = (s for s in body.statements[:number] if _feeds_through_memory(s.op, op))
        return value_producers(op, by_op, seen) | {s.number for s in through_memory}

    return reached(chosen, producers)


def value_producers(op: Operation, by_op: dict[Operation, int], seen: set[Value]) -> set[int]:
    """The statements (`by_op`: op to number) whose values an op uses, through pure ops; values in
    `seen` were followed before."""
    producers: set[int] = set()
    pending = list(captured(op))
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        producer = defining_op(value)
        if producer is None:
            continue
        if producer in by_op:
            producers.add(by_op[producer])
        elif producer.block == op.block:
            pending.extend(captured(producer))
    return producers


def _feeds_through_memory(producer: Operation, consumer: Operation) -> bool:
    written = [root_of(a.memory) for op in walk(producer) for a in accesses(op) if a.writes]
    read = [root_of(a.memory) for op in walk(consumer) for a in accesses(op) if not a.writes]
    return any(may_alias(w, r) for w in written for r in read)


def needed_values(used: Iterable[Value], inside: Collection[Operation]) -> set[Value]:
    """The values that are used, and all that are made `inside` or carried by loops for them."""

    def made_of(value: Value) -> Iterable[Value]:
        loop, number = _carried(value)
        op = defining_op(value) if loop is None else loop
        if op is None or op not in inside:
            return ()
        if loop is None:
            return captured(op)
        block = loop.regions[0].blocks[0]
        following = terminator(block).operands[number]
        return block.arguments[number + 1], loop.operands[3 + number], following

    return reached(used, made_of)


def _carried(value: Value) -> tuple[Operation | None, int]:
    """The loop that carries a value, and its number there."""
    if is_block_argument(value):
        argument = ir.BlockArgument(value)
        loop, number = argument.owner.owner, argument.arg_number - 1
    else:
        loop, number = defining_op(value), result_number(value)
    carries = loop is not None and loop.name == "scf.for" and number >= 0
    return (loop if carries else None), number
