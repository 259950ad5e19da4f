"""Barriers of threads: all of the block, those of one role, or some that name a barrier.

gpu.barrier                                       all threads; barrier 0, where roles come one by one
nvvm.barrier id = 1 number_of_threads = 128       as many arrivals, and each waits for all of them
nvvm.barrier.arrive id = 1 number_of_threads = …  an arrival that does not wait
"""

from __future__ import annotations

from collections.abc import Callable

from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.role_memory import RoleMemory
from mlir_async_pipe.checker.phases.spot import Spot
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.vocabulary import ROWS, Row, operand_groups, row_of
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_OPS, MbarrierRule


def may_wait(run: Run) -> bool:
    """Whether threads may stop at an op until others come."""
    rule, row = MBARRIER_OPS.get(run.op.name), ROWS.get(run.op.name)
    meets = row is not None and row.barrier is not None
    return meets or (rule is not None and rule.use in ("wait", "test"))


def meeting(run: Run, number: int) -> Callable[[Spot], None]:
    """What a barrier does, which faults call by its `number`."""
    row, whole = ROWS[run.op.name], row_of(run.op) is not None
    assert row.barrier is not None
    at = operands_of(run, row) if row.operands else {}
    waits = whole or bool(row.barrier(run.op))
    is_named = whole or "threads" in row.operands or "threads?" in row.operands

    def execute(spot: Spot) -> None:
        memory = spot.memory
        if whole and spot.threads() == memory.everybody:
            memory.meet()
        elif not isinstance(memory, RoleMemory):
            if whole:
                raise NotFollowedError("specialised")
            memory.some_met = True
        elif "predicate" in at or run.maybe:
            raise NotFollowedError("unknown-mbarrier")
        elif is_named:
            _join(spot, memory, at, number, waits=waits)

    return execute


def _join(spot: Spot, memory: RoleMemory, at: dict[str, int], number: int, *, waits: bool) -> None:
    name = spot.exact(at["number"]) if "number" in at else 0
    everybody = memory.everybody.bit_count()
    count = spot.exact(at["threads"]) if "threads" in at else everybody
    if spot.meeting is None:
        phase = memory.join_barrier(name, number, spot.threads(), count)
        spot.meeting = (name, phase) if waits else None
    if spot.meeting is not None:
        memory.meet_at(*spot.meeting, number, spot.threads())
        spot.meeting = None


def operands_of(run: Run, rule: MbarrierRule | Row) -> dict[str, int]:
    """The operands of an op by name, those that it has."""
    groups = operand_groups(run.op, rule)
    return {name: run.operands[found[0]] for name, found in groups.items() if len(found)}
