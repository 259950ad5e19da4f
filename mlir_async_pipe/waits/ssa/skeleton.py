"""The ops of one function that matter to an analysis, block by block, with the ops around them.

Blocks hash by identity also where their op is made anew, so what is known about a block stays
known over rewriting; the handles of ops are kept in lists only.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir_async_pipe.bindings.raw_ops import Block, Operation, walk


class Skeleton:
    """`events` are the ops that matter, and the ops with regions around them, of each block.

    An op that `changes` something makes every region around it one that does.
    """

    def __init__(
        self,
        root: Operation,
        matters: Callable[[Operation], bool],
        changes: Callable[[Operation], bool],
    ) -> None:
        self.root = root
        self.events: dict[Block, list[Operation]] = {}
        self._changing: set[Block] = set()
        for op in walk(root):
            if op != root and matters(op):
                self._place(op, changes(op))

    def _place(self, op: Operation, changing: bool) -> None:
        # In pre-order an op that holds events is met before whatever stands after it.
        while op != self.root:
            block = op.block
            here = self.events.setdefault(block, [])
            if not here or here[-1] != op:
                here.append(op)
            if changing:
                self._changing.add(block)
            op = op.parent.operation

    def of(self, block: Block) -> list[Operation]:
        """The events of a block, in order."""
        return self.events.get(block, [])

    def changes(self, region: object) -> bool:
        """Whether some op in a region changes something."""
        return any(block in self._changing for block in region.blocks)  # type: ignore[attr-defined]
