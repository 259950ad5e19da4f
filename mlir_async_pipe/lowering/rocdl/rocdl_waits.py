"""Groups and waits of async copies become marks and mark waits, or counter waits.

    %g = nvgpu.device_async_create_group %t          -->  rocdl.asyncmark
    nvgpu.device_async_wait %g {numGroups = 2}       -->  rocdl.wait.asyncmark 2      (marks)
                                                     -->  rocdl.s.wait.asynccnt 8     (counter)

A mark is a group, so counts stay. The counter of gfx1250 counts copies: with at least c copies
in every group of the function, N groups are at least N * c copies, and the wait leaves that
many in flight.
Tokens have no counterpart; values of their type become i32 zeros that nothing reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    before,
    constant,
    create,
    is_function,
    is_used,
    operations,
    walk,
)
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.session.diagnostics import CountError, Diagnostics, LoweringError
from mlir_async_pipe.vocabulary import given_count, row_of
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, ASYNCCNT, CP_ASYNC

TOKEN = "!nvgpu.device.async.token"

Form = Literal["marks", "counter"]


@dataclass(frozen=True)
class Wait:
    """One wait and the number it gets: groups (marks) or copies (counter) left in flight."""

    op: Operation
    count: int


def is_group(op: Operation) -> bool:
    """Whether an op commits a group of per-thread copies."""
    row = row_of(op)
    return row is not None and row.queue == CP_ASYNC and row.commits == "group"


def is_wait(op: Operation) -> bool:
    """Whether an op waits for groups of per-thread copies."""
    row = row_of(op)
    return row is not None and row.queue == CP_ASYNC and row.wait is not None


def check_control(ops: list[Operation], uniformity: Uniformity) -> None:
    """Raise LoweringError (divergent-mark) at a group or wait that some threads may not reach.

    A wave walks both sides of such a branch, or skips one, whichever its other lanes need:
    its marks are then not those of any one thread.
    """
    for op in ops:
        branch = uniformity.divergent_control(op)
        if branch is not None:
            kind = "group" if is_group(op) else "wait"
            raise LoweringError(
                f"a {kind} of async copies stands where only some threads of a wave may come",
                code="divergent-mark",
                at=op,
                notes=(("threads part here", branch),),
                advice=f"put the condition around the copies only, and the {kind} outside",
            )


def plan_waits(
    waits: list[Operation],
    groups: list[Operation],
    pieces: Mapping[Operation, int],
    form: Form,
    diagnostics: Diagnostics,
) -> list[Wait]:
    """The number of every wait; `pieces` says how many copies a copy op becomes.

    Raises CountError (negative-count).
    """
    queue = ASYNC_LDS if form == "marks" else ASYNCCNT
    fewest: dict[Operation, int] = {}
    for group in groups:
        function, number = enclosing_function(group), _copies(group, pieces)
        fewest[function] = min(number, fewest.get(function, number))
    planned = []
    for op in waits:
        row = row_of(op)
        assert row is not None and row.wait is not None
        count = given_count(op) or 0
        if count < 0:
            raise CountError(
                f"a wait cannot leave {count} groups in flight", code="negative-count", at=op
            )
        smallest = fewest.get(enclosing_function(op), 0)
        wanted = count if form == "marks" else count * smallest
        largest = queue.largest_count
        assert largest is not None
        if wanted > largest:
            diagnostics.remark(
                f"the wait leaves {wanted} {'groups' if form == 'marks' else 'copies'} in flight, "
                f"and {queue.name} can tell {largest} apart: it waits until {largest} are",
                code="counter-limit",
                at=op,
            )
        told_apart = ASYNC_LDS.copies_in_flight
        assert told_apart is not None
        if form == "marks" and min(count, largest) * smallest > told_apart:
            diagnostics.remark(
                f"{count} groups of {smallest} copies may stay in flight, and the chip can tell "
                f"{told_apart} copies apart: it waits until {told_apart} are",
                code="counter-limit",
                at=op,
            )
        planned.append(Wait(op, min(wanted, largest)))
    return planned


def _copies(group: Operation, pieces: Mapping[Operation, int]) -> int:
    """Copies that are in the group on every path: those since the group before, in its block."""
    total = 0
    siblings = operations(group.block)
    for op in reversed(siblings[: siblings.index(group)]):
        if is_group(op):
            break
        total += pieces.get(op, 0)
    return total


def rewrite(waits: list[Wait], groups: list[Operation], form: Form) -> None:
    """Put marks and waits in place of groups and waits; tokens become zeros."""
    for wait in waits:
        name = "rocdl.wait.asyncmark" if form == "marks" else "rocdl.s.wait.asynccnt"
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(16, wait.op.context), wait.count)
        create(name, (), (), {"count": number}, ip=before(wait.op), loc=wait.op.location)
        wait.op.erase()
    if form == "marks":
        for group in groups:
            create("rocdl.asyncmark", ip=before(group), loc=group.location)


def enclosing_function(op: Operation) -> Operation:
    return next(above for above in ancestors(op) if is_function(above))


def replace_tokens(module: Any, makers: list[Operation]) -> None:
    """Turn all token values into i32 and erase their `makers` (in textual order), leaving zeros
    where loops and branches carry them on."""
    i32 = ir.IntegerType.get_signless(32, module.context)
    for op in walk(module):
        values = [*op.results]
        for region in op.regions:
            for block in region.blocks:
                values += block.arguments
        for value in values:
            if str(value.type) == TOKEN:
                value.set_type(i32)
        if is_function(op):
            _retype_function(op, i32)
    # Last first: a copy's token has no users once its group is gone.
    for op in reversed(makers):
        if any(map(is_used, op.results)):
            op.results[0].replace_all_uses_with(constant(0, i32, before(op), op.location))
        op.erase()


def _retype_function(function: Operation, i32: Any) -> None:
    """Tokens in a signature become i32; a gpu.func or func.func holds it as an attribute."""
    if function.name == "llvm.func":
        return
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if not any(str(part) == TOKEN for part in (*kind.inputs, *kind.results)):
        return

    def kept(parts: Any) -> list[Any]:
        return [i32 if str(part) == TOKEN else part for part in parts]

    made = ir.FunctionType.get(kept(kind.inputs), kept(kind.results), function.context)
    function.attributes["function_type"] = ir.TypeAttr.get(made, function.context)
