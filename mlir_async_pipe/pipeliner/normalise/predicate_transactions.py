"""Takes the issue of tensor copies out of the branch that one thread takes.

    scf.if %leader {                        expect_tx %full[%c0], %bytes, predicate = %leader
      expect_tx %full[%c0], %bytes    -->   load %map[%k], %full[%c0] to %tile, predicate = %leader
      load %map[%k], %full[%c0] to %tile
    }

An op that already has a predicate gets both.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    again,
    attributes_of,
    before,
    create,
    operations,
    terminator,
)
from mlir_async_pipe.facts.loops.annotations import counted_loops
from mlir_async_pipe.facts.loops.transactions import operand, operand_number
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import is_pure, use_of
from mlir_async_pipe.vocabulary.mbarrier_ops import TENSOR_LOADS

_SIZES = "operandSegmentSizes"


def predicate_transactions(loop: Operation) -> None:
    """Dissolve each branch of the loop's body that only issues transactions."""
    for op in operations(loop.regions[0].blocks[0]):
        if op.name == "scf.if" and _only_issues(op):
            _dissolve(op)


def _only_issues(branch: Operation) -> bool:
    """Whether a branch announces and copies, with pure ops, and has nothing else on either side."""
    if len(branch.results) or len(list(branch.regions[1].blocks)):
        return False
    *ops, _ = operations(branch.regions[0].blocks[0])
    issuing = [op for op in ops if use_of(op) == "expect" or op.name in TENSOR_LOADS]
    return bool(issuing) and all(
        op in issuing or use_of(op) == "handle" or (is_pure(op) and not len(op.regions))
        for op in ops
    )


def _dissolve(branch: Operation) -> None:
    condition = branch.operands[0]
    end = terminator(branch.regions[0].blocks[0])
    for op in operations(branch.regions[0].blocks[0]):
        if op == end:
            continue
        op.move_before(branch)
        if use_of(op) not in (None, "handle"):
            _add_predicate(op, condition)
    branch.erase()


def _add_predicate(op: Operation, condition: Value) -> None:
    given = operand(op, "predicate")
    if given is not None:
        both = create(
            "arith.andi", [condition, given], [given.type], ip=before(op), loc=op.location
        )
        op.operands[operand_number(op, "predicate")] = both.results[0]
        return
    attributes = attributes_of(op)
    if _SIZES in attributes:
        # The predicate is the last group.
        sizes = [*list(ir.DenseI32ArrayAttr(attributes[_SIZES]))[:-1], 1]
        attributes[_SIZES] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    again(op, [*op.operands, condition], attributes=attributes)


@register(
    "async-pipe-normalise-predicates",
    "give tensor copies the condition of their branch as predicate",
)
def run(module: Any, options: NoOptions, session: Session) -> None:
    for loop in counted_loops(module):
        predicate_transactions(loop)
