"""What issuing a tile takes: the copies, what announces them, and all that their operands need.

    %k2 = arith.muli %k, %two           the slice: %k2, expect_tx, the load, and %next, since
    expect_tx …                         what the loop carries must be known d iterations ahead
    load %map[%k2, %at] …
    %next = arith.addi %at, %step       advanced: %at
    scf.yield %next

The slice is written again for each tile, d iterations ahead of what uses it, so it may hold
nothing but pure ops besides the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mlir_async_pipe.bindings.raw_ops import Operation, Value, captured
from mlir_async_pipe.facts.loops.statements import Body, needed_values
from mlir_async_pipe.facts.loops.transactions import Transaction, handle_of, only_computes, operand
from mlir_async_pipe.facts.values.uniformity import compared_thread, conjunction
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.session.diagnostics import PipelineError


@dataclass(frozen=True)
class IssueSlice:
    """`ops` in textual order, and what those use that it is about (`used`); `advanced` are the numbers of the
    values that the loop carries and the slice uses. `leader`: the condition that holds in thread 0 only,
    where each predicate is that, or that and more."""

    ops: tuple[Operation, ...]
    used: tuple[Value, ...]
    advanced: tuple[int, ...]
    leader: Value | None


def issue_slice(
    body: Body, transactions: tuple[Transaction, ...], around: Surroundings
) -> IssueSlice:
    """The slice of a loop; raises PipelineError (copy-operands)."""
    issuing = [op for t in transactions for op in (t.expect, *t.copies)]
    # Which mbarrier it is that a pointer leads to is written anew for each slot.
    used = [
        value
        for op in issuing
        for value in captured(op)
        if handle_of(op) is None or value != operand(op, "barrier")
    ]

    def refuse(op: Operation) -> NoReturn:
        raise PipelineError(
            f"cannot pipeline: the copies of later iterations would need what '{op.name}' gives in them",
            code="copy-operands",
            at=op,
            notes=tuple(("a copy that is to be issued ahead", t.copies[0]) for t in transactions),
            advice="let bounds, arguments and integer arithmetic alone decide what is copied",
        )

    leader = _leader(issuing, around.launch_size(body.loop))
    return slice_of(body, issuing, used, leader, refuse)


def slice_of(
    body: Body,
    roots: Sequence[Operation],
    used: Sequence[Value],
    leader: Value | None,
    refuse: Callable[[Operation], NoReturn],
) -> IssueSlice:
    """The ops `roots`, and what makes the values that they use; `refuse` raises for one that does more than
    that."""
    kept, needed = set(roots), needed_values(used, {body.loop, *body.ops})
    ops = tuple(op for op in body.ops if op in kept or not needed.isdisjoint(op.results))
    for op in ops:
        if op not in kept and not only_computes(op):
            refuse(op)
    arguments = list(body.block.arguments)[1:]
    advanced = tuple(n for n, argument in enumerate(arguments) if argument in needed)
    return IssueSlice(ops, tuple(used), advanced, leader)


def _leader(issuing: list[Operation], size: tuple[int, int, int] | None) -> Value | None:
    """The one condition of thread 0 that all predicates hold; of a block along x."""
    if size is None or size[1:] != (1, 1):
        return None
    found = set()
    for op in issuing:
        predicate = operand(op, "predicate")
        assert predicate is not None
        of_thread_0 = [
            value for value in conjunction(predicate) if compared_thread(value) is not None
        ]
        found.add(of_thread_0[0] if of_thread_0 else None)
    return found.pop() if len(found) == 1 else None
