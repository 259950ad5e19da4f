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
    ancestors,
    captured,
    defining_op,
    enclosing,
    is_block_argument,
    operations,
    plain_values,
    result_number,
    terminator,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops.annotations import (
    STAGE,
    is_inside_pipeline,
    is_pipelined_inside,
    is_requested,
    reads_global_memory,
    requested_loops,
)
from mlir_async_pipe.facts.loops.transactions import ANNOUNCED, has_transactions
from mlir_async_pipe.facts.values.memory_roots import may_meet, roots_in, touched
from mlir_async_pipe.session.arguments import operation_of
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.vocabulary import Row, accesses, is_barrier, row_of
from mlir_async_pipe.vocabulary.control_flow import LOOP_OPS, REGION_ROWS, in_scope
from mlir_async_pipe.vocabulary.operator_table import is_operator

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
        """Whether an op uses nothing of the body but the induction variable and what ops of `closed` make."""
        return all(value == 0 or self.maker[value] in closed for value in self.used[op])

    @cached_property
    def sources(self) -> list[list[tuple[int, int]]]:
        """By op those that make the values which it uses, and how many iterations earlier, through what the loop carries."""
        return [[made for made in map(self.chain, used) if made is not None] for used in self.used]

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
    """The barriers of a body, and its statements that hold one which all threads that run them meet."""
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
    """The statements (`by_op`) whose values an op uses, through pure ops; values in `seen` were followed before."""
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
    return may_meet(roots_in([producer], writes=True), roots_in([consumer], writes=False))


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


def made_from(values: Iterable[Value], ops: Iterable[Operation]) -> list[Operation]:
    """Those of some ops, in their order, that use `values`, or what such ops give."""
    known, found = set(values), []
    for op in ops:
        if not known.isdisjoint(captured(op)):
            known.update(op.results)
            found.append(op)
    return found


def _carried(value: Value) -> tuple[Operation | None, int]:
    """The loop that carries a value, and its number there."""
    if is_block_argument(value):
        argument = ir.BlockArgument(value)
        loop, number = argument.owner.owner, argument.arg_number - 1
    else:
        loop, number = defining_op(value), result_number(value)
    carries = loop is not None and loop.name == "scf.for" and number >= 0
    return (loop if carries else None), number


# Statements that copy ----------------------------------------------------------------------------
#
# Which statements of a loop copy from global to workgroup memory, and which only load.
#
#     nvgpu.device_async_copy %A[…], %a[…]          one statement
#     %v = vector.load %A[…]; vector.store %v, %a[…]  two: they become one async copy later
#     %v = arith.select %inside, %loaded, %zeros    the load may be masked like that on its way
#     scf.if %inside { load; store }                one: a guarded copy
#     %v = load; scf.if %inside { store %v, … }     two
#
# A copy may stand in regions (grouped, under a guard, in a loop over rows); a statement that does
# anything else to memory is none.


@dataclass(frozen=True)
class Copies:
    """The statements that copy, and the pairs of a load and a store that are to become one copy."""

    statements: list[Statement]
    pairs: tuple[tuple[Operation, Operation], ...]


def copies_of(body: Body) -> Copies:
    """The statements that do nothing but copy from global to workgroup memory, by ops that are
    asynchronous or can be made so, or are half of such a copy. What waits for its own copies is
    done when it ends, so it is none."""
    touching = {
        s.number: [inner for inner in walk(s.op) if accesses(inner)] for s in body.statements
    }
    holder = {op: number for number, ops in touching.items() for op in ops}
    pairs = [
        (load, store)
        for ops in touching.values()
        for store in ops
        if (load := copied_load(store)) is not None and load in holder
    ]
    halves = {op for pair in pairs for op in pair}
    copying = {
        s.number
        for s in body.statements
        if touching[s.number]
        and synchronisation_in(s.op) is None
        and all(op in halves or _can_be_async_copy(op) for op in touching[s.number])
        # All regions of a half are such as a scope may have.
        and (
            halves.isdisjoint(touching[s.number])
            or all(in_scope(op) for op in walk(s.op) if len(op.regions))
        )
    }
    both_halves = [{holder[op] for op in pair} for pair in pairs]
    # The other half stands in a statement that does something else too.
    while torn := [h & copying for h in both_halves if h & copying and not h <= copying]:
        copying.difference_update(*torn)
    return Copies(
        [s for s in body.statements if s.number in copying],
        tuple(pair for pair in pairs if holder[pair[0]] in copying),
    )


def only_reads(statement: Statement, space: str) -> bool:
    """Whether all that a statement does to memory is to load from one space, outside of loops."""
    inner = list(walk(statement.op))
    in_loop = any(op.name in LOOP_OPS for op in inner)
    return not in_loop and {each for op in inner for each in touched(op)} == {("read", space)}


def _can_be_async_copy(op: Operation) -> bool:
    row = row_of(op)
    copies = {*touched(op)} == {("read", "global"), ("write", "workgroup")}
    return copies and bool(row.asynchronous(op) or row.async_attribute)


def fills_workgroup(op: Operation) -> bool:
    """Whether an op does nothing to memory but to write workgroup memory, at once."""
    return touched(op) == [("write", "workgroup")] and not accesses(op)[0].asynchronous


def reads_global(op: Operation) -> bool:
    """Whether an op does nothing to memory but to read global memory."""
    return {*touched(op)} == {("read", "global")}


def copied_load(store: Operation) -> Operation | None:
    """The load from global memory whose value alone a store writes to workgroup memory; None if it does not."""
    if not fills_workgroup(store) or not store.operands:
        return None
    source = _stored_load(store)
    if source is None or len(source.results) != 1 or len(users(source.results[0])) != 1:
        return None
    loads = [inner for inner in walk(source) if accesses(inner)]
    copies = len(loads) == 1 and len(accesses(loads[0])) == 1 and reads_global(loads[0])
    return loads[0] if copies else None


def _stored_load(store: Operation) -> Operation | None:
    """The op that loads what is stored, also where a condition selects it or else zeros."""
    op = defining_op(store.operands[0])
    if op is not None and is_operator(op.name, "select") and len(users(op.results[0])) == 1:
        sources = [defining_op(value) for value in list(op.operands)[1:]]
        loads = [source for source in sources if source is not None and accesses(source)]
        return loads[0] if len(loads) == 1 else None
    return op


def computes(loop: Operation) -> bool:
    """Whether a loop does more than to copy, so that its copies have something to run beside."""
    body = read_body(loop)
    copies = {s.number for s in copies_of(body).statements}
    return len(with_producers(body, copies)) < len(body.statements) or bool(
        body.terminator.operands
    )


@called_by_users
@plain_values()
def find_loops(module: Any, *, annotated: bool = True) -> list[Operation]:
    """All scf.for that are to be pipelined, outer before inner, in textual order.

    With `annotated` False the innermost ones that read global memory and that nobody annotated:
    those that `num_stages` may help. A loop inside that reads none belongs to the computation, and
    one that does nothing but copy is a copy of the loop around it.
    """
    if annotated:
        return requested_loops(module)
    reading = [
        loop
        for loop in walk_named(operation_of(module), "scf.for".__eq__)
        if reads_global_memory(loop)
    ]
    tried = [loop for loop in reading if computes(loop) or enclosing(loop, ["scf.for"]) is None]
    around = {op for loop in tried for op in ancestors(loop)}
    return [
        loop
        for loop in tried
        if loop not in around and not is_requested(loop) and not is_inside_pipeline(loop)
    ]
