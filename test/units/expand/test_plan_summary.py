"""What is told of a plan names the right ops, of a loop that has the plan of another one too; what of
such a plan is made late is what the loop's own plan has.

Covers: expand/plan/plan_summary.py, expand/equal/moved_plan.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.memo import unchanged
from mlir_async_pipe.dependence.surroundings import Surroundings
from mlir_async_pipe.expand.equal.moved_plan import MovedPlan
from mlir_async_pipe.expand.equal.shared_plans import SharedPlans
from mlir_async_pipe.expand.plan.make_plan import Limits, make_plan
from mlir_async_pipe.expand.plan.pipeline_plan import Plan
from mlir_async_pipe.expand.plan.scheduled_loops import scheduled_loops
from mlir_async_pipe.expand.plan.sync_state import Step
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import Diagnostics
from mlir_async_pipe.session.report import Session

WORKGROUP = "memref<64xf32, #gpu.address_space<workgroup>>"


def kernel(loops: int) -> str:
    """Loops with a buffer each, which all threads read and write."""
    buffers = "\n".join(f"  %S{n} = memref.alloc() : {WORKGROUP}" for n in range(loops))
    body = "".join(
        f"""
  scf.for %i = %c0 to %c1024 step %c64 {{
    %at = arith.addi %i, %x : index
    %v = memref.load %A[%at] : memref<4096xf32>
    memref.store %v, %S{n}[%x] : {WORKGROUP}
    gpu.barrier
    %w = memref.load %S{n}[%y] : {WORKGROUP}
    memref.store %w, %C[%at] : memref<4096xf32>
    gpu.barrier
  }} {{async_pipe.num_stages = 3 : i64}}"""
        for n in range(loops)
    )
    return f"""
func.func @f(%A: memref<4096xf32> {{llvm.noalias}}, %C: memref<4096xf32> {{llvm.noalias}})
    attributes {{gpu.kernel, known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c1024 = arith.constant 1024 : index
  %x = gpu.thread_id x
  %last = arith.constant 63 : index
  %y = arith.subi %last, %x : index
{buffers}
{body}
  return
}}"""


@pytest.fixture
def third() -> Iterator[tuple[Plan, Plan]]:
    """Of a loop between others the plan that it shares, and its own."""
    with new_context():
        module = ir.Module.parse(kernel(6))
        schedule = passes.find("async-pipe-schedule")
        schedule.run(module.operation, schedule.options(), Session())
        loops = scheduled_loops(module)
        around, diagnostics = Surroundings(), Diagnostics()

        def own(loop: Any, around: Surroundings) -> Plan | None:
            return make_plan(loop, Limits(), diagnostics, around)

        with unchanged():
            shared = SharedPlans(loops, own, around, diagnostics)
            moved = [shared.plan_of(loop) for loop in loops][2]
            plan = own(loops[2], around)
            assert isinstance(moved, MovedPlan) and plan is not None
            yield moved, plan


def test_a_summary_names_who_touches_a_buffer_and_what_barriers_part(
    third: tuple[Plan, Plan],
) -> None:
    for plan in third:
        (touches,) = plan.summary.touches
        assert (touches.write.name, touches.last.name) == ("memref.store", "memref.load")
        assert touches.write_stage < touches.last_stage
        assert all(op.parent == plan.loop for op in (touches.write, touches.last))
        assert plan.summary.separated
        for parted in plan.summary.separated:
            assert all(op.parent == plan.loop for op in (parted.first, parted.second))
        assert sum(parted.pairs for parted in plan.summary.separated) == len(plan.barriers)


def steps(plan: Plan) -> list[Step]:
    found = plan.synchronisation
    return [*found.prologue, found.kernel, *found.epilogue]


def waits(step: Step) -> list[tuple[int, int, int]]:
    return [(wait.group.number, wait.distance, wait.stage) for wait in step.waits]


def test_a_moved_plan_is_the_own_one(third: tuple[Plan, Plan]) -> None:
    moved, own = third
    assert "units" not in vars(moved)
    assert [unit.ops for unit in moved.units.units] == [unit.ops for unit in own.units.units]
    assert [waits(step) for step in steps(moved)] == [waits(step) for step in steps(own)]
    assert moved.summary == own.summary
    with pytest.raises(AttributeError):
        _ = moved.nothing  # type: ignore[attr-defined]


def test_another_boundary_leaves_the_rest(third: tuple[Plan, Plan]) -> None:
    moved, own = third
    other = moved.with_boundary(type(moved.boundary)())
    assert other.boundary == type(moved.boundary)() != own.boundary
    assert [unit.ops for unit in other.units.units] == [unit.ops for unit in own.units.units]
    assert other.boundary == type(moved.boundary)()
