"""The one walk over a module, which keeps the ops that matter to commit groups.

The walk meets every op of a module, so it asks each for its name and nothing else
(docs/speed.md); the table says what becomes of an op of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import FUNCTION_OPS
from mlir_async_pipe.facts.flow.items import ItemKind
from mlir_async_pipe.vocabulary import ROWS, Queue, WaitRule
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    CAST_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    REGION_ROWS,
    SELECT_OPS,
)
from mlir_async_pipe.vocabulary.op_table import CALL, row_name


@dataclass(frozen=True, eq=False, slots=True)
class OpKind:
    """What becomes of an op of one name.

    `item`: such an item. Else it is one with regions or a token value, which becomes an item
    or is followed if something asks for it. `own_queue`: its attributes name the queue.
    """

    item: ItemKind | None = None
    own_queue: bool = False
    is_function: bool = False
    is_branch: bool = False
    is_dead_end: bool = False
    rule: WaitRule | None = None


Kept = tuple[int, Any, OpKind]
"""(position, op, kind)"""


def _op_kinds() -> dict[str, OpKind]:
    """What the walk keeps, by op name; every other op is passed over."""
    kinds: dict[str, OpKind] = {}
    for name, row in ROWS.items():
        own_queue = not isinstance(row.queue, Queue)
        if row.slots:
            kinds[name] = OpKind("slot", own_queue)
        elif row.wait is not None:
            kinds[name] = OpKind("wait", own_queue, rule=row.wait)
        elif row.commits is not None:
            kinds[name] = OpKind("commit", own_queue)
        elif row.token:
            kinds[name] = OpKind()
    # Which intrinsic it calls says what becomes of it.
    kinds[CALL] = OpKind()
    kinds |= {name: OpKind("call") for name in CALL_OPS}
    kinds |= {name: OpKind() for name in (*SELECT_OPS, *CAST_OPS)}
    kinds |= {name: OpKind(is_function=name in FUNCTION_OPS) for name in REGION_ROWS}
    kinds |= {name: OpKind(is_branch=True) for name in (*BRANCH_ROWS, *EXIT_OPS)}
    kinds |= {name: OpKind(is_branch=True, is_dead_end=True) for name in DEAD_ENDS}
    return kinds


_OP_KINDS = _op_kinds()
_CALL = _OP_KINDS[CALL]


def walk_kept(root: Any) -> list[Kept]:
    """The ops below `root` that matter, in pre-order."""
    found: list[Kept] = []
    keep, kind_of, advance = found.append, _OP_KINDS.get, ir.WalkResult.ADVANCE
    position = 0

    def visit(op: Any) -> Any:
        nonlocal position
        position += 1
        kind = kind_of(op.name)
        if kind is _CALL:
            kind = kind_of(row_name(op)) if row_name(op) != CALL else None
        if kind is not None:
            keep((position, op, kind))
        return advance

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found
