"""The expander takes every legal schedule and refuses every illegal one.

Chains, joins and forks of 2 to 4 statements and programs with carried dependences, with every
stage up to 2, every order and every async subset: 53196 schedules, 4662 of them legal (180988
and 14954 with every stage up to 3), of which a sample is run.
Legal ones run on the async machine for 0 to 6 iterations under late, random and eager
completion, and must equal the sequential result without a race.

    ASYNC_PIPE_SAMPLES=all      every schedule (13 minutes on one core)
    ASYNC_PIPE_LAST_STAGE=3     stages up to 3 (3.4 times as many)
    ASYNC_PIPE_SEED=7           another sample

Covers: pipeliner/plan/make_plan.py, pipeliner/plan/legality.py, pipeliner/plan/sync_state.py, pipeliner/plan/barrier_pairs.py, pipeliner/plan/units.py, pipeliner/expand/write/write_loop.py, pipeliner/expand/write/kernel_units.py
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from helpers.pipeline_programs import (
    PROGRAMS,
    Program,
    Schedule,
    inputs,
    privatisable,
    schedules,
    sequential,
    text,
    text_with_caller,
    violated,
)
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.pipeliner.plan import make_plan as plan_module
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

ir = bindings.ir
SEED = int(os.environ.get("ASYNC_PIPE_SEED", "20260807"))
SAMPLES = os.environ.get("ASYNC_PIPE_SAMPLES", "5")
TRIPS = range(7)
LAST_STAGE = int(os.environ.get("ASYNC_PIPE_LAST_STAGE", "2"))
PASSES = (
    "async-pipe-normalise",
    "async-pipe-schedule",
    "async-pipe-expand",
    "async-pipe-count-waits",
)
tally: Counter[str] = Counter()
pool: dict[tuple[str, bool], int] = {}


@pytest.fixture(scope="module", autouse=True)
def _print_tally(request):
    yield
    for legal in (True, False):
        count = sum(count for (_, is_legal), count in pool.items() if is_legal == legal)
        tally["legal" if legal else "illegal"] = count
    counted = ", ".join(f"{count} {what}" for what, count in sorted(tally.items()))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\nschedules (seed {SEED}): {counted}")


@pytest.fixture(scope="module")
def context():
    return bindings.new_context()


def sample(program: Program, *, legal: bool, factor: int = 1) -> list[Schedule]:
    """Schedules of a program, all of them or a few times SAMPLES."""
    every = list(schedules(len(program.statements), LAST_STAGE))
    found = [s for s in every if (not violated(program, s)) == legal]
    pool[program.name, legal] = len(found)
    if SAMPLES == "all":
        return found
    size = min(len(found), int(SAMPLES) * factor)
    return random.Random(f"{SEED} {program.name} {legal}").sample(found, size)


def expanded(context, source: str):
    """The module after schedule, expand and count-waits, and the session."""
    module = ir.Module.parse(source, context)
    session = Session()
    for name in PASSES:
        found = passes.find(name)
        found.run(module.operation, found.options(), session)
    assert module.operation.verify()
    return module, session


def wrong_runs(module, program: Program, completions: tuple[str, ...]) -> list[str]:
    """What goes wrong on the machine for 0 to 6 iterations; [] if nothing does."""
    arguments = [array for _ in TRIPS for array in inputs(program)]
    expected = [array for trips in TRIPS for array in sequential(program, trips)]
    wrong = []
    for completion in completions:
        run = machine.run(module, "main", arguments, completion=completion, seed=SEED)
        wrong += [f"{completion}: {code}" for code in run.race_codes]
        for number, (array, values) in enumerate(zip(run.arrays, expected, strict=True)):
            if tuple(map(int, array)) != values:
                name = program.arrays[number % len(program.arrays)]
                wrong.append(f"{completion}: {name} after {number // len(program.arrays)} trips")
    return wrong


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_legal_schedules_equal_the_sequential_result(program, context):
    """Pipelined = sequential, for each trip count and completion, and no race."""
    for schedule in sample(program, legal=True):
        module, _ = expanded(context, text_with_caller(program, schedule, TRIPS))
        assert wrong_runs(module, program, ("late", "random", "eager")) == [], schedule
        tally["legal and run"] += 1


@pytest.mark.parametrize(
    "options",
    [
        'async_pipe.wait_at = "iteration"',
        'async_pipe.epilogue = "predicate"',
        'async_pipe.short_trip = "predicate"',
    ],
)
def test_other_forms_of_the_pipeline_equal_the_sequential_result(options, context):
    choice = random.Random(f"{SEED} {options}")
    for program in choice.sample(sorted(PROGRAMS.values(), key=lambda p: p.name), 8):
        schedule = choice.choice(sample(program, legal=True))
        source = text_with_caller(program, schedule, TRIPS, options=options)
        module, _ = expanded(context, source)
        assert wrong_runs(module, program, ("late",)) == [], (program.name, schedule)
        tally["legal and run in another form"] += 1


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_illegal_schedules_are_refused_with_the_right_code(program, context):
    """A schedule is refused iff T(j, k) is not before T(j', k + d) for some conflict, with the
    code of such a conflict, and the module stays as it was."""
    for schedule in sample(program, legal=False, factor=4):
        codes = {
            "not-privatisable"
            if conflict.buffer in program.local and conflict.buffer not in privatisable(program)
            else "dependence-violated"
            for conflict in violated(program, schedule)
        }
        module = ir.Module.parse(text(program, schedule), context)
        run_schedule = passes.find("async-pipe-schedule")
        run_schedule.run(module.operation, run_schedule.options(), Session())
        before = str(module)
        expand = passes.find("async-pipe-expand")
        with pytest.raises(AsyncPipeError) as refusal:
            expand.run(module.operation, expand.options(), Session())
        assert refusal.value.code in codes, schedule
        assert str(module) == before
        tally[f"refused as {refusal.value.code}"] += 1


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_no_buffer_has_a_version_too_many(program, context, monkeypatch):
    """With fewer versions and the same waits some run races or goes wrong; with V and without
    an extra wait none does."""
    original = plan_module.plan_buffers
    original_needs = plan_module.reuse_needs

    def plan_with(root: str, versions: int, extra_wait: bool) -> None:
        def plan_buffers(*arguments):
            return tuple(
                replace(b, versions=versions) if str(b.root) == root else b
                for b in original(*arguments)
            )

        def reuse_needs(buffers, *rest):
            return original_needs(
                tuple(b for b in buffers if extra_wait or str(b.root) != root), *rest
            )

        monkeypatch.setattr(plan_module, "plan_buffers", plan_buffers)
        monkeypatch.setattr(plan_module, "reuse_needs", reuse_needs)

    for schedule in sample(program, legal=True)[: None if SAMPLES == "all" else 3]:
        source = text_with_caller(program, schedule, TRIPS)
        monkeypatch.setattr(plan_module, "plan_buffers", original)
        monkeypatch.setattr(plan_module, "reuse_needs", original_needs)
        _, session = expanded(context, source)
        (record,) = session.records["loops"]
        for buffer in record.buffers:
            if buffer.versions == 1:
                continue
            plan_with(buffer.buffer, buffer.versions, buffer.extra_wait)
            module, _ = expanded(context, source)
            assert wrong_runs(module, program, ("late",)) == [], (schedule, buffer)
            for fewer in range(1, buffer.versions):
                plan_with(buffer.buffer, fewer, False)
                module, _ = expanded(context, source)
                assert wrong_runs(module, program, ("late",)), (schedule, buffer, fewer)
            tally["buffers that fail with fewer versions"] += 1


# -- the quality of the result ----------------------------------------------------------------

SYNCHRONISATION = {
    "async_pipe.scope",
    "async_pipe.yield",
    "async_pipe.commit_queue",
    "async_pipe.wait_queue",
}


def kernel_of(module):
    """The first scf.for of @f: the kernel (the copy for short trips stands after it)."""
    return next(op for op in walk(module.operation) if op.name == "scf.for")


def dead_arguments(loop) -> list[int]:
    """The iter_args that reach neither an op of the body nor a used result."""
    block = loop.regions[0].blocks[0]
    *_, end = [op.operation for op in block.operations]
    arguments = list(block.arguments)[1:]
    live = {
        n
        for n, (argument, result) in enumerate(zip(arguments, loop.results, strict=True))
        if list(result.uses) or any(use.owner.operation != end for use in argument.uses)
    }
    while True:
        # An argument that is yielded into a live one is live.
        more = {n for n, a in enumerate(arguments) for m in live if end.operands[m] == a} - live
        if not more:
            return sorted(set(range(len(arguments))) - live)
        live |= more


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_kernel_has_the_ops_of_the_input_and_slot_arithmetic(program, context):
    for schedule in sample(program, legal=True):
        source = ir.Module.parse(text(program, schedule), context)
        wanted = Counter(op.name for op in walk(kernel_of(source))) - Counter(
            {"scf.execute_region": 9, "scf.yield": 9, "scf.for": 1}
        )
        module, session = expanded(context, text(program, schedule))
        kernel = kernel_of(module)
        found = Counter(op.name for op in walk(kernel)) - Counter({"scf.yield": 1, "scf.for": 1})
        (record,) = session.records["loops"]
        versions = {b.versions for b in record.buffers if b.versions > 1}
        # A counter for each number of versions, an induction variable for each other stage.
        extra = found - wanted
        stages = len(set(schedule.stage))
        assert extra["arith.addi"] <= len(versions) + stages - 1, schedule
        assert extra["arith.andi"] + extra["arith.select"] <= len(versions), schedule
        assert extra["arith.cmpi"] == extra["arith.select"], schedule
        others = (
            set(extra)
            - SYNCHRONISATION
            - {"arith.addi", "arith.andi", "arith.select", "arith.cmpi", "arith.constant"}
        )
        assert not others, schedule
        assert not wanted - found, schedule
        assert dead_arguments(kernel) == [], schedule


@pytest.mark.parametrize(
    "options",
    [
        "",
        'async_pipe.wait_at = "iteration"',
        'async_pipe.epilogue = "predicate"',
        'async_pipe.short_trip = "assume"',
        'async_pipe.short_trip = "predicate"',
    ],
)
def test_clean_ups_find_at_most_two_percent(options, context):
    """canonicalize and cse on cleaned-up input remove at most 2 % of the expanded ops of all
    schedules, and at most 2 % or four ops of any one."""
    manager = bindings.passmanager.PassManager.parse("builtin.module(canonicalize,cse)", context)
    total = removed = 0
    for program in PROGRAMS.values():
        for schedule in sample(program, legal=True):
            source = ir.Module.parse(text(program, schedule, options=options), context)
            manager.run(source.operation)
            module, _ = expanded(context, str(source))
            before = len(list(walk(module.operation)))
            manager.run(module.operation)
            fewer = max(0, before - len(list(walk(module.operation))))
            assert fewer <= max(4, 0.02 * before), (schedule, f"{fewer} of {before}")
            total += before
            removed += fewer
    assert removed <= 0.02 * total, f"{removed} of {total}"
