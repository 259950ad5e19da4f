"""In which loops of a function a value changes from iteration to iteration.

    ^loop(%k: i64, %slot: i64):     %k, %slot vary in the loop
      %row = llvm.urem %lane, %c16  does not, wherever it stands: all that it is made of stands still
      %at = llvm.add %row, %k       varies

Loops are the natural loops of the blocks of one region. What is not pure varies in all loops
around it. A value is looked at when it is asked for, with all that it is made of.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import Block, Value, made_in, terminator
from mlir_async_pipe.facts.flow.algorithms import natural_loops, post_order
from mlir_async_pipe.vocabulary import is_pure

Nest = tuple[Block, ...]
"""The headers of loops, outermost first."""


class Varying:
    """Answers for the values of one region, as long as its ops stay."""

    def __init__(self, region: Any) -> None:
        self._nests = _nests(region.blocks[0])
        self._varies: dict[Value, Nest] = {}

    def blocks(self) -> list[Block]:
        """The blocks that stand in loops, each after those that dominate it."""
        return [block for block, nest in self._nests.items() if nest]

    def nest(self, block: Block) -> Nest:
        return self._nests.get(block, ())

    def depth(self, value: Value, block: Block) -> int:
        """In how many of the loops around `block`, outermost first, a value varies."""
        return len(_common(self._nest_of(value), self.nest(block)))

    def _nest_of(self, value: Value) -> Nest:
        """The loops that a value varies in; without recursion, since chains may be long."""
        varies, pending = self._varies, [value]
        while pending:
            current = pending[-1]
            if current in varies:
                pending.pop()
                continue
            op, block = made_in(current)
            nest = self.nest(block)
            if nest and op is not None and is_pure(op):
                operands = list(op.operands)
                missing = [operand for operand in operands if operand not in varies]
                if missing:
                    pending += missing
                    continue
                depths = (len(_common(varies[operand], nest)) for operand in operands)
                nest = nest[: max(depths, default=0)]
            varies[current] = nest
        return varies[value]


def _nests(entry: Block) -> dict[Block, Nest]:
    """The loops around each block that can be reached, in an order in which a block comes after
    those that dominate it."""

    def after(block: Block) -> list[Block]:
        return list(terminator(block).successors)

    loops = natural_loops(entry, after)
    # A loop around another one has all its blocks, and its own header besides.
    outermost_first = sorted(loops, key=lambda header: -len(loops[header]))
    order = list(reversed(post_order([entry], after)))
    return {b: tuple(h for h in outermost_first if b in loops[h]) for b in order}


def _common(first: Nest, second: Nest) -> Nest:
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return first[:length]
