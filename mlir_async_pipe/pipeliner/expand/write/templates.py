"""Ops that are written many times: read once, then cloned with other operands each time.

    "async_pipe.scope"() ({                       uses of %i (op 1, operand 1), %one (op 2, operand 1)
      %a = memref.load %A[%i]                     and %A, %b: for each clone only these are looked up
      %b1 = arith.addf %a, %one            -->    and set; what the region makes itself, clone has
      memref.store %b1, %b[%slot, %c0]            already put in place
    })

A kernel op is cloned once for each step of prologue, kernel and epilogue, and asking the bindings
for an operand costs as much as the clone itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, Value, walk


class TemplateUse(NamedTuple):
    """Operand `operand` of the op at `place` (pre-order, 0 is the op itself) is `value`, which
    is made outside of the op."""

    place: int
    operand: int
    value: Value


@dataclass(frozen=True)
class Template:
    """An op, what it uses from outside of itself, and its results. The op must not change."""

    op: Operation
    uses: tuple[TemplateUse, ...]
    results: tuple[Value, ...]

    @staticmethod
    def of(op: Operation) -> Template:
        if len(op.regions) == 0:
            uses = [TemplateUse(0, number, value) for number, value in enumerate(op.operands)]
            return Template(op, tuple(uses), tuple(op.results))
        inside: set[Value] = set()
        uses = []
        for place, inner in enumerate(walk(op)):
            uses += [
                TemplateUse(place, number, value) for number, value in enumerate(inner.operands)
            ]
            if place > 0:
                inside.update(inner.results)
            for region in inner.regions:
                for block in region.blocks:
                    inside.update(block.arguments)
        outer = tuple(use for use in uses if use.value not in inside)
        return Template(op, outer, tuple(op.results))

    def clone(self, mapping: dict[Value, Value], ip: Any) -> Operation:
        """A copy at `ip` that uses `mapping[value]` wherever the op uses an outer `value`."""
        copy = self.op.clone(ip=ip).operation
        ops = list(walk(copy)) if len(copy.regions) else (copy,)
        last, operands = 0, copy.operands
        for place, operand, old in self.uses:
            value = mapping[old]
            if value == old:
                continue
            if place != last:
                last, operands = place, ops[place].operands
            operands[operand] = value
        return copy
