"""Barriers of threads: all of the block, those of one role, or some that name a barrier.

gpu.barrier                                       all threads; barrier 0, where roles come one by one
nvvm.barrier id = 1 number_of_threads = 128       as many arrivals, and each waits for all of them
nvvm.barrier.arrive id = 1 number_of_threads = …  an arrival that does not wait
nvvm.cluster.arrive, .wait                        all threads of the cluster, in two steps
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.cluster_memory import ClusterMemory
from mlir_async_pipe.checker.phases.role_log import NUMBERS
from mlir_async_pipe.checker.phases.role_memory import RoleMemory
from mlir_async_pipe.checker.phases.spot import Spot
from mlir_async_pipe.checker.phases.warp_clocks import LANES, WARP
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.vocabulary import groups_of, named_row


def may_wait(run: Run) -> bool:
    """Whether threads may stop at an op until others come."""
    row = named_row(run.op.name)
    return row is not None and (row.barrier is not None or row.phase in ("wait", "test"))


def meeting(run: Run, number: int) -> Callable[[Spot], None]:
    """What a barrier does, which faults call by its `number`."""
    row = run.row
    assert row is not None
    if row.meeting is not None and row.meeting.of == "cluster":
        waits, tells = bool(row.meeting.spaces(run.op)), row.order(run.op).release
        return partial(_meet_in_cluster, run, number, waits=waits, tells=tells)
    whole = row.barrier is not None
    at = operands_of(run) if row.operands else {}
    waits = row.meeting is None or bool(row.meeting.spaces(run.op))
    is_named = whole or "threads" in row.operands or "threads?" in row.operands

    def execute(spot: Spot) -> None:
        memory = spot.memory
        if whole and spot.threads() == memory.everybody and not memory.blocks.threads:
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
    name += NUMBERS * memory.blocks.rank_of(spot.mask)
    everybody = memory.everybody.bit_count() // memory.blocks.count
    count = spot.exact(at["threads"]) if "threads" in at else everybody
    if spot.meeting is None:
        phase = memory.join_barrier(name, number, spot.threads(), count)
        spot.meeting = (name, phase) if waits else None
    if spot.meeting is not None:
        memory.meet_at(*spot.meeting, number, spot.threads())
        spot.meeting = None


def _meet_in_cluster(run: Run, number: int, spot: Spot, *, waits: bool, tells: bool) -> None:
    """All threads of a cluster meet: they arrive, and wait later."""
    memory, mask = spot.memory, spot.threads()
    assert isinstance(memory, ClusterMemory)
    if run.maybe or not _are_whole_warps(mask):
        raise NotFollowedError("cluster-barrier")
    if waits:
        memory.wait_all(number, mask)
    else:
        memory.arrive_all(number, mask, tells=tells)


def _are_whole_warps(mask: int) -> bool:
    return all(mask >> first & LANES in (0, LANES) for first in range(0, mask.bit_length(), WARP))


def operands_of(run: Run) -> dict[str, int]:
    """The operands of an op by name, those that it has."""
    groups = groups_of(run.op)
    return {name: run.operands[found[0]] for name, found in groups.items() if len(found)}
