"""Makes the form with a token of a commit.

%p = copy …                          %p = copy …
nvvm.cp.async.commit.group     -->   %g = nvgpu.device_async_create_group %p
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    create,
    operations,
)
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.async_ops import NO_COPIES, UNNAMED_COPIES
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS


def group_with_token(op: Operation, name: str, kind: Any) -> Value:
    """Put the op `name` in the place of the commit `op`; its token."""
    copies: list[Value] = []
    if name == "async_pipe.commit_queue":
        i64 = ir.IntegerType.get_signless(64, op.context)
        attributes = {"queue": ir.IntegerAttr.get(i64, 0)}
    else:
        copies, empty = _copies_since_last_commit(op)
        attributes = {}
        if not copies:
            attributes[NO_COPIES if empty else UNNAMED_COPIES] = ir.UnitAttr.get(op.context)
    made = create(name, copies, [kind], attributes, ip=before(op), loc=op.location)
    op.erase()
    return made.results[0]


def _copies_since_last_commit(commit: Operation) -> tuple[list[Value], bool]:
    """The tokens of the copies in the block that the group takes in, and whether there surely
    are no others."""
    copies: list[Value] = []
    others = False
    siblings = operations(commit.block)
    for op in reversed(siblings[: siblings.index(commit)]):
        row = row_of(op)
        if row is not None and row.commits == "group":
            return copies[::-1], not others
        if len(op.regions) or op.name in CALL_OPS:
            others = True
        elif row is not None and row.asynchronous(op):
            if row.token and not list(op.results[0].uses):
                copies.append(op.results[0])
            else:
                others = True
    return copies[::-1], False
