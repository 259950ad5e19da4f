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

from dataclasses import dataclass

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    captured,
    defining_op,
    is_block_argument,
)
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.loops.transactions import Transaction, handle_of, operand
from mlir_async_pipe.facts.values.uniformity import compared_thread, conjunction
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.memory_names import VIEW_OPS


@dataclass(frozen=True)
class IssueSlice:
    """`ops` in textual order; `advanced` are the numbers of the values that the loop carries and
    the slice uses. `leader`: the condition that holds in thread 0 only, where each predicate is
    that, or that and more."""

    ops: tuple[Operation, ...]
    advanced: tuple[int, ...]
    leader: Value | None


def issue_slice(
    body: Body, transactions: tuple[Transaction, ...], around: Surroundings
) -> IssueSlice:
    """The slice of a loop; raises PipelineError (copy-operands)."""
    issuing = [op for t in transactions for op in (t.expect, *t.copies)]
    needed, advanced = set(issuing), set[int]()
    # Which mbarrier it is that a pointer leads to is written anew for each slot.
    waiting = [
        value
        for op in issuing
        for value in captured(op)
        if handle_of(op) is None or value != operand(op, "barrier")
    ]
    yielded = list(body.terminator.operands)
    while waiting:
        value = waiting.pop()
        if is_block_argument(value):
            argument = ir.BlockArgument(value)
            if argument.owner == body.block and argument.arg_number > 0:
                number = argument.arg_number - 1
                if number not in advanced:
                    advanced.add(number)
                    waiting.append(yielded[number])
            continue
        op = defining_op(value)
        assert op is not None
        if op in needed or body.loop not in ancestors(op):
            continue
        if not (is_pure(op) or op.name in VIEW_OPS) or len(op.regions):
            raise PipelineError(
                f"cannot pipeline: the copies of later iterations would need what '{op.name}' "
                "gives in them",
                code="copy-operands",
                at=op,
                notes=tuple(
                    ("a copy that is to be issued ahead", t.copies[0]) for t in transactions
                ),
                advice="let bounds, arguments and integer arithmetic alone decide what is copied",
            )
        needed.add(op)
        waiting += captured(op)
    return IssueSlice(
        tuple(op for op in body.ops if op in needed),
        tuple(sorted(advanced)),
        _leader(issuing, around.launch_size(body.loop)),
    )


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
