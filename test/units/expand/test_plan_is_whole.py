"""The plan says every wait and every group that the expander writes, and planning edits nothing.

Covers: pipeliner/plan/make_plan.py, pipeliner/plan/sync_state.py, pipeliner/expand/write/write_loop.py
"""

from __future__ import annotations

from collections import Counter

import pytest

from helpers.random_pipelines import FEATURES
from helpers.random_pipelines import program as random_program
from helpers.shared_queue import program as shared_queue_program
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.loops.annotations import DRAIN, scheduled_loops
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, Plan, make_plan
from mlir_async_pipe.pipeliner.plan.sync_state import ActiveStages
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostics
from mlir_async_pipe.session.report import Session

SEEDS = range(4)
WAITS = ("nvgpu.device_async_wait", "async_pipe.wait_queue")
COMMITS = ("nvgpu.device_async_create_group", "async_pipe.commit_queue")


def run(name: str, module: ir.Module, target: str | None) -> None:
    found = passes.find(name)
    session = Session(target=None if target is None else Target.parse(target))
    found.run(module.operation, found.options(), session)


def written(module: ir.Module) -> Counter[str]:
    """Waits, drains and groups, in the whole module."""
    found: Counter[str] = Counter()
    for op in walk(module.operation):
        if op.name in WAITS:
            found["drains" if DRAIN in op.attributes else "waits"] += 1
        found["groups"] += op.name in COMMITS
    return +found


def planned(plan: Plan) -> Counter[str]:
    """The same, as the plan has them."""
    found, groups = plan.synchronisation, plan.groups
    steps_run = [ActiveStages(0, t) for t in range(plan.last_stage)]
    steps_run += [ActiveStages(e) for e in range(plan.peeled_epilogue + 1)]
    steps = [*found.prologue, found.kernel, *found.epilogue]
    full = sum(stages.active(group.stage) for stages in steps_run for group in groups)
    empty = sum(len(step.empty) for step in found.prologue)
    empty += len({group.queue for group in found.over})
    waits = sum(len(step.waits) for step in steps)
    return +Counter(waits=waits, drains=len(found.drains), groups=full + empty)


def plans_of(text: str, target: str | None = None) -> list[Plan] | None:
    """The plans of a module, which the printed result then holds; None where not all of its loops
    become pipelines and nothing else."""
    with new_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        try:
            run("async-pipe-normalise", module, target)
            run("async-pipe-schedule", module, target)
            before, around = str(module), Surroundings()
            loops = scheduled_loops(module.operation)
            plans = [make_plan(loop, Limits(), Diagnostics(), around) for loop in loops]
        except AsyncPipeError:
            return None
        assert str(module) == before
        kept = [plan for plan in plans if plan is not None and not plan.may_be_short]
        if len(kept) < len(loops):
            return None
        expected = sum(map(planned, kept), Counter())
        run("async-pipe-expand", module, None)
        assert written(module) == expected
        return kept


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_waits_and_groups_are_those_of_the_plan(feature):
    for seed in SEEDS:
        one = random_program(seed, feature)
        plans_of(one.text, one.target)


ASSUME = ', async_pipe.short_trip = "assume"'


@pytest.mark.parametrize(
    "stage,order", (([0, 1, 1, 1, 1], [0, 1, 3, 2, 4]), ([2, 0, 2, 2, 2], [0, 1, 2, 3, 4]))
)
def test_wait_for_what_never_was_takes_the_empty_group_of_its_step(stage, order):
    (plan,) = plans_of(shared_queue_program(2, stage, order, ASSUME)) or ()
    found = plan.synchronisation
    # The epilogue looks back at the kernel's last step, which a loop of few iterations has not.
    (wait,) = (wait for step in found.epilogue for wait in step.waits if wait.lag)
    assert wait.group.stage == plan.last_stage
    assert wait.group in found.prologue[-wait.lag].empty
    assert found.over == ()


def test_wait_for_what_never_was_gets_a_group_where_no_step_has_one():
    """Three iterations back, where the prologue has two steps."""
    one = random_program(9, "swapped")
    (plan,) = plans_of(one.text, one.target) or ()
    (group,) = plan.synchronisation.over
    assert any(
        wait.group == group and group.stage + wait.lag > plan.last_stage
        for wait in plan.synchronisation.kernel.waits
    )


def test_stages_that_share_a_queue_get_empty_groups():
    text = shared_queue_program(2, [0, 2, 4, 4, 4], [0, 1, 2, 3, 4], ASSUME)
    (plan,) = plans_of(text) or ()
    assert [len(step.empty) for step in plan.synchronisation.prologue] == [1, 1, 0, 0]


def test_predicated_kernel_is_drained_of_its_last_group():
    given = f'{ASSUME}, async_pipe.epilogue = "predicate"'
    (plan,) = plans_of(shared_queue_program(1, [0, 2, 2], [0, 1, 2], given)) or ()
    (drain,) = plan.synchronisation.drains
    # One step after the last one, in which the kernel commits still.
    assert (drain.group, drain.lag) == (plan.groups[-1], 1)
