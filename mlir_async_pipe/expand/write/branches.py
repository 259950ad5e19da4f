"""Joins neighbouring branches of one condition, as the statements of a predicated step leave them.

scf.if %exists { statement 0 }               scf.if %exists {
scf.if %exists { statement 1 }      -->        statement 0
                                               statement 1
                                             }
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    is_used,
    operations,
    users,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if


def join_branches(blocks: list[ir.Block], conditions: set[Value]) -> None:
    """Join the scf.if of `blocks` that stand side by side and have the same one of `conditions`.

    Both regions of these have one block, the second none where there are no results.
    """
    blocks_of_users = [user.block for condition in conditions for user in users(condition)]
    for block in blocks:
        # Looking through a block of n loops once a loop would make n loops cost n squared.
        if sum(other == block for other in blocks_of_users) < 2:
            continue
        members: list[Operation] = []
        for op in operations(block):
            if op.name != "scf.if" or op.operands[0] not in conditions:
                _join(members)
                members = []
            elif members and members[0].operands[0] != op.operands[0]:
                _join(members)
                members = [op]
            else:
                members.append(op)


def _join(members: list[Operation]) -> None:
    if len(members) < 2:
        return
    yielded = []
    for member in members:
        *_, end = operations(member.regions[0].blocks[0])
        yielded += list(end.operands)
    results = [result for member in members for result in member.results]
    for result, value in zip(results, yielded, strict=True):
        _use_inside(members, result, value)
    kept = [n for n, result in enumerate(results) if is_used(result)]
    zeros = [
        value
        for member in members
        if len(member.results)
        for value in end_of(member.regions[1]).operands
    ]
    joined = write_if(
        members[0].operands[0],
        [yielded[n] for n in kept],
        [zeros[n] for n in kept] or None,
        before(members[0]),
        members[0].location,
    )
    for n, result in zip(kept, joined.results, strict=True):
        results[n].replace_all_uses_with(result)
    for member in members:
        *inner, _ = operations(member.regions[0].blocks[0])
        for op in inner:
            op.move_before(end_of(joined.regions[0]))
    for member in members:
        member.erase()


def _use_inside(members: list[Operation], result: Value, value: Value) -> None:
    """Let the other members use `value`, which a branch of its own condition sees directly."""
    for use in list(result.uses):
        user = use.owner.operation
        holder = user
        while holder.block != members[0].block:
            holder = holder.parent.operation
        if holder in members:
            user.operands[use.operand_number] = value
