"""What a producer runs instead of the loops around loops of tensor copies, and these themselves.

    scf.for %tile = … iter_args(%sum, %row) {        scf.for %tile = … iter_args(%row, slot, phase) {
      %m = arith.muli %tile, %c128                     %m = arith.muli %tile, %c128
      scf.for %k = … { copy [%m, %k]; use }    -->     scf.for %k = … { copy [%m, %k] }
      store                                            %next = arith.addi %row, %m
      %next = arith.addi %row, %m                      scf.yield %next, …
      scf.yield %all, %next                          }
    }

Integer arithmetic is computed again, and what the loops carry for it carried again; what is made
before the roles part both have. What a loop hands on to a later one is carried again if its copies use it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    captured,
    defining_op,
    is_block_argument,
    result_number,
    terminator,
)
from mlir_async_pipe.pipeliner.plan.issue_slice import IssueSlice
from mlir_async_pipe.pipeliner.plan.role_refusal import refuse
from mlir_async_pipe.vocabulary import VIEW_OPS, is_pure


class Nested(NamedTuple):
    """A loop, the ops around it from the mbarriers on, and what a producer runs of an iteration."""

    loop: Operation
    outer: tuple[Operation, ...]
    issue: IssueSlice


@dataclass(frozen=True)
class Nest:
    """`ops` are computed again, in the blocks of the ops around; `advanced` has for each loop
    of these the numbers of the values that it carries again."""

    ops: frozenset[Operation]
    advanced: dict[Operation, tuple[int, ...]]


def producer_nest(nested: list[Nested], moved: tuple[Operation, ...]) -> Nest:
    """The nest of loops; raises PipelineError (roles-values)."""
    search = _Search(
        {loop: issue for loop, _, issue in nested},
        {op for each in nested for op in each.outer},
        moved,
    )
    for loop, outer, issue in nested:
        search.loop = loop
        search.need([v for op in issue.ops for v in captured(op) if not _is_of(v, loop)])
        operands = list(loop.operands)
        search.need([*operands[:3], *(operands[3 + number] for number in issue.advanced)])
        for op in outer:
            search.need(list(op.operands)[: 3 if op.name == "scf.for" else 1])
        search.run()
    advanced = {op: tuple(sorted(numbers)) for op, numbers in search.advanced.items()}
    return Nest(frozenset(search.ops), advanced)


@dataclass
class _Search:
    issues: dict[Operation, IssueSlice]
    outer: set[Operation]
    moved: tuple[Operation, ...]
    loop: Operation | None = None
    ops: set[Operation] = field(default_factory=set)
    advanced: dict[Operation, set[int]] = field(default_factory=dict)
    waiting: list[Value] = field(default_factory=list)

    def need(self, values: list[Value]) -> None:
        self.waiting += values

    def run(self) -> None:
        while self.waiting:
            value = self.waiting.pop()
            if is_block_argument(value):
                argument = ir.BlockArgument(value)
                above = argument.owner.owner
                if above in self.outer and argument.arg_number > 0:
                    self._carry(above, argument.arg_number - 1)
                continue
            op = defining_op(value)
            assert op is not None
            if op in self.ops or not any(top in self.moved for top in (op, *ancestors(op))):
                continue
            if op in self.outer and op.name == "scf.for":
                self._carry(op, result_number(value))
            elif op in self.issues and result_number(value) in self.issues[op].advanced:
                continue
            elif (is_pure(op) or op.name in VIEW_OPS) and not len(op.regions):
                self.ops.add(op)
                self.need(captured(op))
            else:
                self._refuse(op)

    def _carry(self, loop: Operation, number: int) -> None:
        carried = self.advanced.setdefault(loop, set())
        if number in carried:
            return
        carried.add(number)
        end = terminator(loop.regions[0].blocks[0])
        self.need([loop.operands[3 + number], end.operands[number]])

    def _refuse(self, op: Operation) -> None:
        assert self.loop is not None
        refuse(
            f"they would need what '{op.name}' gives the others",
            op,
            self.loop,
            code="roles-values",
            advice="compute what decides what is copied from arguments, ids of blocks and counters of "
            "loops, or load it before the mbarriers are initialised",
        )


def _is_of(value: Value, loop: Operation) -> bool:
    """Whether a value is made in a loop."""
    if is_block_argument(value):
        owner = ir.BlockArgument(value).owner.owner
        return loop in (owner, *ancestors(owner))
    op = defining_op(value)
    assert op is not None
    return loop in ancestors(op)
