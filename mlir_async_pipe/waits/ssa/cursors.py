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

A view of the slot that a cursor names belongs to whoever took the slot until it is committed or
released; a use after that, in the block of the view, is refused (slot-closed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    ancestor_in_block,
    ancestors,
    erase,
    operations,
    parent,
    type_text,
    users,
    walk,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Row, accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import CARRYING_OPS
from mlir_async_pipe.waits.ssa.carry import Carrier, Skeleton, Variables, can_carry

# On an allocation of one index or i1: it holds the number of a slot, or a phase.
CURSOR = "async_pipe.cursor"


@passes.register("async-pipe-cursors", "carry the numbers of a pipeline's slots as values")
def run(module: Any, options: passes.NoOptions, session: Session) -> None:
    """Promote every cursor below `module` that can be; the others get a remark."""
    cells = [op for op in walk(module) if CURSOR in op.attributes]
    _refuse_late_uses(cells)
    for cell in cells:
        if not _can_be_carried(cell):
            said = "the number of a slot stays in memory: it is used in a region that can be handed nothing more"
            session.diagnostics.remark(said, code="cursor-in-memory", at=cell)
    # By blocks, which stay where loops are made anew, and by what they hold.
    alike: dict[tuple[Block, str], list[Operation]] = {}
    for cell in filter(_can_be_carried, cells):
        alike.setdefault((cell.block, str(cell.results[0].type)), []).append(cell)
    for (block, _), held in alike.items():
        _promote(block.owner.operation, held)


def _refuse_late_uses(cells: list[Operation]) -> None:
    """Raises UsageError (slot-closed) for a slot that is used after it was given away."""
    numbers = [n for cell in cells for load in users(cell.results[0]) for n in load.results]
    used = (op for number in numbers for op in users(number) if len(op.results) == 1)
    views = [op for op in used if type_text(op.results[0].type).startswith("memref<")]
    for block in dict.fromkeys(view.block for view in views):
        place = {op: number for number, op in enumerate(operations(block))}
        for view in views:
            end = _given_away(view, list(place)) if view.block == block else None
            if end is None:
                continue
            for user in users(view.results[0]):
                here = ancestor_in_block(user, block) or end
                if place[here] > place[end]:
                    why = "a slot is used after it was given away, when it may hold another tile"
                    notes = (("the slot was taken here", view), ("and given away here", end))
                    advice = "end its 'with' later"
                    raise UsageError(why, code="slot-closed", at=user, notes=notes, advice=advice)


# Who takes a slot, and who gives it away: a producer acquires and commits it, a consumer waits and releases it.
_PROTOCOLS: tuple[tuple[Callable[[Row], bool], Callable[[Row], bool]], ...] = (
    (lambda row: row.slots > 0, lambda row: row.commits == "group"),
    (lambda row: row.wait is not None and row.wait.form == "next", lambda row: row.slots < 0),
)


def _given_away(view: Operation, ops: list[Operation]) -> Operation | None:
    """What commits or releases the slot of a view; None if nothing in its block does."""
    at = ops.index(view)
    held = ((op, *both) for op in reversed(ops[:at]) for both in _PROTOCOLS if both[0](row_of(op)))
    taken, takes, gives = next(held, (None, *_PROTOCOLS[0]))
    if taken is None:
        return None
    slots = 1
    for op in ops[at:]:
        if "queue" in op.attributes and op.attributes["queue"] == taken.attributes["queue"]:
            slots += int(takes(row_of(op))) - int(gives(row_of(op)))
        if not slots:
            return op
    return None


def _can_be_carried(cell: Operation) -> bool:
    """Whether all that is done with a cell is to load and to store it, where more can be carried."""
    root = parent(cell)
    if root is None or not can_carry(root):
        return False
    outside = {root, *ancestors(root)}
    for op in users(cell.results[0]):
        inside = [around for around in ancestors(op) if around not in outside]
        if [access.memory for access in accesses(op)] != [cell.results[0]]:
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
    return next((memory.index(operand) for operand in op.operands if operand in memory), None)


def _stores(op: Operation) -> bool:
    return len(op.results) == 0


class _Cursors(Carrier):
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
