"""A loop as a table, in which two loops of equal structure look alike.

    scf.for %i = %c0 to %n step %c1 {          values: %c0 0, %n 1, %c1 2, %i 3, %A 4, %a 5
      %a = memref.load %A[%i]           -->    rows:   ("arith.constant", …), …, ("scf.for", …, (0, 1, 2)),
    }                                                  ("memref.load", …, (4, 3))

Values are numbered as they come up. What a loop uses from outside is described by the op that makes
it and what that uses in turn; what no op without regions makes stands for itself. So do the block
around the loop, and with it all that holds of the function: loops of one block only can be equal.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.memo import remembered
from mlir_async_pipe.bindings.raw_ops import Operation, Value, defining_op, walk
from mlir_async_pipe.bindings.type_classes import type_text
from mlir_async_pipe.session.light_dataclass import dataclass
from mlir_async_pipe.values.memory_roots import root_of


@dataclass(frozen=True)
class LoopTable:
    """`key` is equal for loops of equal structure; `ops`, `values` and `blocks` are those of this
    one, of which equal loops have as many, in the same order. The ops are the loop's, the values
    also those that they are made of."""

    key: Hashable
    ops: list[Operation]
    values: list[Value]
    blocks: list[Any]


def read_table(loop: Operation) -> LoopTable | None:
    """The table of a loop; None if control in it goes by branches."""
    return _Reader().read(loop)


class _Reader:
    """Numbers the values of one loop."""

    def __init__(self) -> None:
        self.rows: list[Hashable] = []
        self.values: list[Value] = []
        self.numbers: dict[Value, int] = {}

    def read(self, loop: Operation) -> LoopTable | None:
        ops = list(walk(loop))
        blocks = []
        for op in ops:
            operands = tuple(map(self._number, op.operands))
            inside = []
            for region in op.regions:
                held = list(region.blocks)
                if len(held) > 1:
                    return None
                for block in held:
                    blocks.append(block)
                    inside.append((len(block.operations), self._add(block.arguments)))
            self.rows.append((op.name, _attributes(op), operands, tuple(inside)))
            self.rows.append(self._add(op.results))
        return LoopTable((loop.block, tuple(self.rows)), ops, self.values, blocks)

    def _add(self, values: Any) -> tuple[Any, ...]:
        """Number values that come up; returns their types."""
        kinds = []
        for value in values:
            self.numbers[value] = len(self.values)
            self.values.append(value)
            kinds.append(value.type)
        return tuple(kinds)

    def _number(self, value: Value) -> int:
        """The number of a value; one from outside is described, after those that it is made of."""
        known = self.numbers.get(value)
        if known is not None:
            return known
        pending = [value]
        while pending:
            current = pending[-1]
            alone, op = _described(current)
            missing = []
            if op is not None:
                missing = [v for v in op.operands if v not in self.numbers]
            pending += missing
            if not missing:
                pending.pop()
                if current not in self.numbers:
                    self._describe(current, alone, op)
        return self.numbers[value]

    def _describe(self, value: Value, alone: Hashable, op: Operation | None) -> None:
        if op is None:
            self.rows.append(alone)
            self.numbers[value] = len(self.values)
            self.values.append(value)
            return
        operands = tuple(self.numbers[operand] for operand in op.operands)
        self.rows.append((op.name, _attributes(op), operands, op.block))
        self.rows.append(self._add(op.results))


@remembered
def _described(value: Value) -> tuple[Hashable, Operation | None]:
    """The row of a value from outside, which many loops use, or the op that makes it of others."""
    op, kind = defining_op(value), value.type
    if op is None and _is_plain_attribution(value):
        return ("attribution", kind), None
    if op is None or len(op.regions) or op.block is None:
        return ("itself", value, kind), None
    if len(op.operands) or len(op.results) > 1:
        return None, op
    return (op.name, _attributes(op), op.block, kind), None


def _attributes(op: Operation) -> tuple[tuple[str, Any], ...]:
    attributes = op.attributes
    if not len(attributes):
        return ()
    # Some stacks hand out names here.
    return tuple(
        [
            (entry, attributes[entry]) if isinstance(entry, str) else (entry.name, entry.attr)
            for entry in attributes
        ]
    )


def _is_plain_attribution(value: Value) -> bool:
    """Whether a value is a buffer of the function's signature, of which its type says all."""
    if not type_text(value.type).startswith("memref<") or root_of(value).kind != "attribution":
        return False
    function = ir.BlockArgument(value).owner.owner.operation
    return not any(name.endswith("attrib_attrs") for name in function.attributes)
