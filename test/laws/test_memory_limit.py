"""Under a limit of workgroup memory the largest counts that fit are kept.

Chains, joins and forks of up to 4 statements in up to 4 stages. For every limit between the
fewest and the loosest versions, every other choice of versions that fits is written too: if its
kernel's waits leave more groups in flight than the chosen one's, it goes wrong on the machine.

    ASYNC_PIPE_SAMPLES=all      every schedule with an async stage
    ASYNC_PIPE_SEED=7           another sample

Covers: pipeliner/plan/memory_limit.py, pipeliner/plan/choose_versions.py, pipeliner/plan/make_plan.py
"""

from __future__ import annotations

import itertools
import os
import random
from collections import defaultdict
from dataclasses import replace

import pytest

from helpers.pipeline_programs import (
    CHAINS_JOINS_FORKS,
    Program,
    Schedule,
    inputs,
    schedules,
    sequential,
    text_with_caller,
    violated,
)
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.pipeliner.plan import make_plan as plan_module
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session

ir = bindings.ir
SEED = int(os.environ.get("ASYNC_PIPE_SEED", "20260807"))
SAMPLES = os.environ.get("ASYNC_PIPE_SAMPLES", "2")
LAST_STAGE = 3
SLOT = 8
"""Bytes of each local buffer."""
TRIPS = range(7)

Versions = tuple[int, ...]


@pytest.fixture(scope="module")
def context():
    return bindings.new_context()


def sample(program: Program) -> list[Schedule]:
    every = schedules(len(program.statements), LAST_STAGE)
    legal = [s for s in every if s.async_stages and not violated(program, s)]
    if SAMPLES == "all":
        return legal
    return random.Random(f"{SEED} {program.name}").sample(legal, int(SAMPLES))


def in_workgroup_memory(program: Program, schedule: Schedule) -> str:
    """The program with its local buffers in workgroup memory, where they count."""
    source = text_with_caller(program, schedule, TRIPS)
    return source.replace("memref<1xi64>", "memref<1xi64, #gpu.address_space<workgroup>>")


def expanded(context, source: str, limit: int):
    """The module, and the versions of its buffers."""
    module = ir.Module.parse(source, context)
    session = Session()
    for name, options in (
        ("async-pipe-normalise", {}),
        ("async-pipe-schedule", {}),
        ("async-pipe-expand", {"smem_limit": limit}),
        ("async-pipe-count-waits", {}),
    ):
        found = passes.find(name)
        found.run(module.operation, found.options(**options), session)
    (record,) = session.records["loops"]
    return module, tuple(buffer.versions for buffer in record.buffers)


def in_flight(module) -> tuple[int, int]:
    """What the kernel's waits leave in flight: the strictest of each queue, and all of them."""
    kernel = next(op for op in walk(module.operation) if op.name == "scf.for")
    counts = defaultdict(list)
    for op in walk(kernel):
        if op.name == "async_pipe.wait_queue":
            count = ir.IntegerAttr(op.attributes["count"]).value
            counts[str(op.attributes["queue"])].append(count)
    return sum(map(min, counts.values())), sum(map(sum, counts.values()))


def goes_wrong(module, program: Program) -> bool:
    """Whether copies that finish as late as the waits allow race or change the result."""
    arguments = [array for _ in TRIPS for array in inputs(program)]
    expected = [values for trips in TRIPS for values in sequential(program, trips)]
    run = machine.run(module, "main", arguments, completion="late", seed=SEED)
    return bool(run.race_codes) or any(
        tuple(map(int, array)) != values for array, values in zip(run.arrays, expected, strict=True)
    )


def test_every_choice_that_fits_and_waits_less_goes_wrong(context, monkeypatch):
    """Law: of all versions that fit, none that is right leaves more groups in flight."""
    original = plan_module.plan_buffers
    chosen_by_limit = tried = 0
    for program in CHAINS_JOINS_FORKS:
        for schedule in sample(program):
            source = in_workgroup_memory(program, schedule)
            monkeypatch.setattr(plan_module, "plan_buffers", original)
            _, loosest = expanded(context, source, 0)
            chosen: dict[int, tuple[int, int]] = {}
            for limit in range(SLOT * len(loosest), SLOT * sum(loosest), SLOT):
                try:
                    module, versions = expanded(context, source, limit)
                except PipelineError as refusal:
                    assert refusal.code == "smem-limit"
                    continue
                assert SLOT * sum(versions) <= limit
                assert not goes_wrong(module, program), (schedule, limit)
                chosen[limit] = in_flight(module)
                chosen_by_limit += 1
            for versions in itertools.product(*(range(1, most + 1) for most in loosest)):
                limits = [n for n in chosen if n >= SLOT * sum(versions)]
                if not limits:
                    continue

                def forced(*arguments, versions: Versions = versions):
                    plans = zip(original(*arguments), versions, strict=True)
                    return tuple(replace(p, versions=v, extra_wait=True) for p, v in plans)

                monkeypatch.setattr(plan_module, "plan_buffers", forced)
                module, _ = expanded(context, source, 0)
                tried += 1
                if in_flight(module) > min(chosen[limit] for limit in limits):
                    assert goes_wrong(module, program), (schedule, versions, chosen)
    assert chosen_by_limit > 5
    assert tried > chosen_by_limit


def test_a_smaller_limit_never_leaves_more_in_flight(context):
    program = next(p for p in CHAINS_JOINS_FORKS if p.name == "chain_4")
    schedule = Schedule((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2))
    source = in_workgroup_memory(program, schedule)
    found = [in_flight(expanded(context, source, limit)[0]) for limit in (48, 56, 64)]
    assert found == sorted(found)
    assert found[0] < found[-1]
