"""Makes what a step runs conditional: its iteration may lie after the loop's end.

    copy A -> %b[%slot], 8            copy A -> %b[%slot], 8, select(%exists, 8, 0)
    tensor copy, predicate = %p       tensor copy, predicate = %exists and %p
    memref.store …             -->    scf.if %exists { memref.store … }
    %x = memref.load …                %x = scf.if %exists { load } else { 0 }

A copy keeps its place outside of any branch: with no source elements it fills a free slot
with zeros and reads nothing (PTX ISA, cp.async, src-size). Pure ops run anyway, unless they
are part of a statement: all of its ops stand in one branch.

Neighbouring branches of one condition, as the statements of a step leave them, are joined:

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
    attributes_of,
    before,
    create,
    integer_attribute,
    is_used,
    operations,
    users,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if
from mlir_async_pipe.facts.loops.statements import is_statement, is_synchronisation
from mlir_async_pipe.facts.loops.transactions import only_computes, operand_number
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.plan.legality import SOURCE_ELEMENTS, zero_of
from mlir_async_pipe.pipeliner.plan.statement_places import is_physical
from mlir_async_pipe.vocabulary import groups_of, use_of


def guarded(
    copies: list[Operation], wanted: list[bool], condition: Value, integers: Integers
) -> list[Value]:
    """Let the ops of a unit, just cloned to where `integers` writes, happen only if `condition`
    holds. Returns what stands for each of their results; `wanted` says which others use."""
    if len(copies) == 1 and use_of(copies[0]) in ("expect", "copy"):
        (op,), here = copies, integers.ip
        number, integers.ip = operand_number(op, "predicate"), before(op)
        op.operands[number] = integers.binary("arith.andi", condition, op.operands[number])
        integers.ip = here
        return _results(copies)
    if not any(is_physical(op) or is_synchronisation(op) for op in copies):
        guard = any(is_statement(op) and not only_computes(op) for op in copies)
        return _in_branch(copies, wanted, condition, integers) if guard else _results(copies)
    found: list[Value] = []
    for op in copies:
        used = wanted[len(found) : len(found) + len(op.results)]
        if is_synchronisation(op) or not (is_physical(op) or is_statement(op)):
            found += op.results
        elif is_physical(op):
            found += _without_source(op, condition, integers).results
        else:
            found += _in_branch([op], used, condition, integers)
    return found


def _results(ops: list[Operation]) -> list[Value]:
    return [result for op in ops for result in op.results]


def _without_source(op: Operation, condition: Value, integers: Integers) -> Operation:
    groups = groups_of(op)
    operands = list(op.operands)
    context = op.context
    given = groups[SOURCE_ELEMENTS]
    size = (
        operands.pop(given.start)
        if len(given)
        else integers.constant(integer_attribute(op, "dstElements") or 0, integers.index)
    )
    chosen = integers.select(condition, size, integers.constant(0, integers.index))
    operands.insert(given.start, chosen)
    attributes = attributes_of(op)
    sizes = [1 if name == SOURCE_ELEMENTS else len(group) for name, group in groups.items()]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, context)
    types = [result.type for result in op.results]
    made = create(op.name, operands, types, attributes, ip=integers.ip, loc=op.location)
    op.erase()
    return made


def _in_branch(
    ops: list[Operation], wanted: list[bool], condition: Value, integers: Integers
) -> list[Value]:
    """Move ops that stand together into an scf.if; results that others want are 0 otherwise."""
    loc = ops[0].location
    results = _results(ops)
    yielded = [result for result, used in zip(results, wanted, strict=True) if used]
    zeros = [integers.zero(value.type, zero_of(value.type)) for value in yielded]
    branch = write_if(condition, yielded, zeros or None, integers.ip, loc)
    for op in ops:
        op.move_before(end_of(branch.regions[0]))
    outside = iter(branch.results)
    return [next(outside) if used else old for old, used in zip(results, wanted, strict=True)]


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
