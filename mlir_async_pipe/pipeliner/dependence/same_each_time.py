"""Whether values are the same in each iteration of a loop.

scf.for %i {
  %t = gpu.thread_id x                        the same
  scf.for %j = %c0 to %n step %c8 {           %j takes the same values each time
    %k = arith.addi %t, %j                    so does %k
    %r = arith.remui %i, %c2                  changes
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    defining_op,
    is_block_argument,
)
from mlir_async_pipe.facts.loops.transactions import only_computes
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, names_memory


class SameEachTime:
    """Asked of a loop; each value is looked at once, whoever uses it."""

    def __init__(self, loop: Operation) -> None:
        self._loop = loop
        self._seen: set[Value] = set()

    def what_changes(self, values: Iterable[Value]) -> Operation | None:
        """The op, or the holder of a block argument, by which one of `values` may differ from one
        iteration of the loop to the next, or take other values in inner loops; None if none does.
        Not asked again once something changes."""
        loop, pending = self._loop, list(values)
        while pending:
            value = pending.pop()
            if value in self._seen:
                continue
            self._seen.add(value)
            if is_block_argument(value):
                argument = ir.BlockArgument(value)
                holder = argument.owner.owner.operation
                if loop not in (holder, *ancestors(holder)):
                    continue
                if holder == loop or holder.name != "scf.for" or argument.arg_number:
                    return holder
                pending += list(holder.operands)[:3]
                continue
            op = defining_op(value)
            assert op is not None
            if loop not in ancestors(op) or names_memory(op):
                continue
            if not only_computes(op) and op.name not in ADDRESS_OPS:
                return op
            pending += list(op.operands)
        return None
