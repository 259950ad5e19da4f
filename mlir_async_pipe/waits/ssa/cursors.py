"""Numbers of slots that a pipeline keeps in memory become values that loops carry.

    %c = memref.alloca() {async_pipe.cursor} : memref<index>     scf.for … iter_args(%s = %c0) {
    memref.store %c0, %c[]                                         … %ring[%s, …] …
    scf.for … {                                             -->    %next = …
      %s = memref.load %c[]                                        scf.yield %next
      … %ring[%s, …] …                                           }
      memref.store %next, %c[]
    }

The phase that goes with a number, a `memref<i1>`, likewise. A cursor that is used in a region which can
be handed nothing more stays in memory, with a remark.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    ancestors,
    erase,
    parent,
    users,
    walk,
)
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.values.integer_writer import IntegerWriter
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.control_flow import CARRYING_OPS
from mlir_async_pipe.waits.ssa.carry import Carrier, Variables, can_carry
from mlir_async_pipe.waits.ssa.skeleton import Skeleton

# On an allocation of one index or i1: it holds the number of a slot, or a phase.
CURSOR = "async_pipe.cursor"


@passes.register("async-pipe-cursors", "carry the numbers of a pipeline's slots as values")
def run(module: Any, options: passes.NoOptions, session: Session) -> None:
    """Promote every cursor below `module` that can be; the others get a remark."""
    cells = [op for op in walk(module) if CURSOR in op.attributes]
    for cell in cells:
        if not _can_be_carried(cell):
            session.diagnostics.remark(
                "the number of a slot stays in memory: it is used in a region that can be handed "
                "nothing more",
                code="cursor-in-memory",
                at=cell,
            )
    # By blocks, which stay where loops are made anew, and by what they hold.
    alike: dict[tuple[Block, str], list[Operation]] = {}
    for cell in filter(_can_be_carried, cells):
        alike.setdefault((cell.block, str(cell.results[0].type)), []).append(cell)
    for (block, _), held in alike.items():
        _promote(block.owner.operation, held)


def _can_be_carried(cell: Operation) -> bool:
    """Whether all that is done with a cell is to load and to store it, where more can be carried."""
    root = parent(cell)
    if root is None or not can_carry(root):
        return False
    for op in users(cell.results[0]):
        inside = [around for around in ancestors(op) if around not in (root, *ancestors(root))]
        found = accesses(op)
        if len(found) != 1 or found[0].memory != cell.results[0]:
            return False
        if any(around.name not in CARRYING_OPS for around in inside):
            return False
    return True


def _promote(root: Operation, cells: list[Operation]) -> None:
    memory = [cell.results[0] for cell in cells]
    skeleton = Skeleton(root, lambda op: _cell_of(op, memory) is not None, _stores)
    entry = IntegerWriter(
        ir.InsertionPoint.at_block_begin(root.regions[0].blocks[0]), root.location
    )
    # What a cell holds before its first store is nobody's to read.
    kind = ir.MemRefType(memory[0].type).element_type
    _Cursors(skeleton, memory, kind).run([entry.constant(0, kind)] * len(cells))
    erase(cells)


def _cell_of(op: Operation, memory: list[Value]) -> int | None:
    """The number of the cell that an op loads or stores."""
    found = [memory.index(operand) for operand in op.operands if operand in memory]
    return found[0] if found else None


def _stores(op: Operation) -> bool:
    return len(op.results) == 0


class _Cursors(Carrier):
    """Carries what all cells hold."""

    def __init__(self, skeleton: Skeleton, memory: list[Value], kind: Any) -> None:
        super().__init__(skeleton, kind)
        self._memory = memory

    def over(self, op: Operation, variables: Variables) -> Variables:
        """A load gives what the cell holds, a store changes it; both go."""
        number = _cell_of(op, self._memory)
        assert number is not None
        held = list(variables)
        if _stores(op):
            held[number] = op.operands[0]
        else:
            op.results[0].replace_all_uses_with(held[number])
        op.erase()
        return held

    def width_at(self, block: Block) -> int:
        """All of them."""
        return len(self._memory)

    def width_behind(self, op: Operation) -> int:
        """All of them."""
        return len(self._memory)

    def apart(self, op: Operation, block: Block) -> Variables:
        """Cells are used in no such region."""
        raise AssertionError(op.name)

    def behind_apart(self, op: Operation, variables: Variables) -> Variables:
        """Nor changed there."""
        return variables
