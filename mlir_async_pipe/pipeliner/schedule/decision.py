"""What a schedule decided for one loop, and its op form.

array on the loop  -->  stage, order and async on each statement
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    set_integer,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import Body


@dataclass(frozen=True)
class Slot:
    """Where one statement runs: its stage (iterations of delay), its place in the kernel,
    and whether it completes later than it is issued."""

    stage: int
    order: int
    asynchronous: bool


@dataclass(frozen=True)
class Decision:
    """The schedule of one loop: a slot for each statement. `else_registers`: in how many stages its
    loads may go through registers, if its buffers cannot have the versions that copies need."""

    body: Body
    slots: tuple[Slot, ...]
    wait_at: Literal["consumer", "iteration"]
    else_registers: int | None = None

    @property
    def last_stage(self) -> int:
        return max((slot.stage for slot in self.slots), default=0)


def write(decision: Decision) -> None:
    """Put a decision on the ops and take the arrays off the loop."""
    loop = decision.body.loop
    names.remove(
        loop,
        [
            name
            for name in (
                names.STAGE,
                names.ORDER,
                names.ASYNC_STAGES,
                names.NUM_STAGES,
                names.STAGE_THROUGH,
                # Where the copies are issued, loads into registers are.
                *(() if decision.else_registers else (names.ISSUE,)),
                names.FRAGMENTS,
                names.ELSE_REGISTERS,
            )
            if name in loop.attributes
        ],
    )
    if decision.else_registers:
        set_integer(loop, names.ELSE_REGISTERS, decision.else_registers, 64)
    loop.attributes[names.WAIT_AT] = ir.StringAttr.get(decision.wait_at, loop.context)
    _write_parts(decision)
    for statement, slot in zip(decision.body.statements, decision.slots, strict=True):
        if statement.part:
            continue
        set_integer(statement.op, names.STAGE, slot.stage, 64)
        set_integer(statement.op, names.ORDER, slot.order, 64)
        if slot.asynchronous:
            statement.op.attributes[names.ASYNC] = ir.UnitAttr.get(loop.context)


def _write_parts(decision: Decision) -> None:
    """Stage and order of the three parts of each inner loop that is pipelined itself."""
    found: dict[Operation, list[Slot]] = {}
    for statement, slot in zip(decision.body.statements, decision.slots, strict=True):
        if statement.part:
            found.setdefault(statement.op, []).append(slot)
    for inner, slots in found.items():
        for name, values in (
            (names.PART_STAGES, [slot.stage for slot in slots]),
            (names.PART_ORDERS, [slot.order for slot in slots]),
        ):
            inner.attributes[name] = ir.DenseI64ArrayAttr.get(values, inner.context)
