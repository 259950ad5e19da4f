"""Random loops of tensor copies give NumPy's result when pipelined, in every completion.

ASYNC_PIPE_NIGHTLY=1 takes 400 loops; test/reports/tensor_loops_report.py any number.

Covers: pipeliner/schedule/modulo/rings.py, pipeliner/expand/write/write_ring.py, pipeliner/plan/ring_plan.py, pipeliner/normalise/raise_mbarriers.py,
test/helpers/tensor_loops.py,
test/helpers/descriptor_loops.py, test/helpers/tensor_memory_loops.py, test/helpers/tensor_memory_mutants.py
"""

from __future__ import annotations

import os
import random

import pytest

from helpers.machine_programs import parse
from helpers.nvvm_tensor_loops import judge_random
from helpers.tensor_loops import judge, random_loop
from helpers.tensor_memory_loops import judge_tensor_memory
from helpers.tensor_memory_mutants import pipelined, random_gemm, versions
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.session.diagnostics import PipelineError

NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"
FIRST = int(os.environ.get("ASYNC_PIPE_SEED", "0")) % 10**6 * 1000
SEEDS = range(FIRST, FIRST + (400 if NIGHTLY else 40))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_loop_is_right_when_it_is_pipelined(seed: int) -> None:
    assert judge(random_loop(seed)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[::4])
def test_a_random_loop_in_the_nvvm_dialect_is_right_when_it_is_pipelined(seed: int) -> None:
    assert judge_random(seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[::10])
def test_a_random_loop_of_products_in_tensor_memory_is_right_by_roles(seed: int) -> None:
    _, wrong = judge_tensor_memory(seed)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[::2])
def test_a_random_loop_is_right_with_the_roles_and_slots_that_are_best(seed: int) -> None:
    """What waits for tensor stores has no cost, and is refused."""
    loop = random_loop(seed)
    count = f"async_pipe.num_stages = {loop.stages} : i64"
    module = parse(loop.text().replace(count, 'async_pipe.schedule = "optimal"'))
    if loop.stored == "each":
        with pytest.raises(PipelineError) as refusal:
            pipeline(module, target="nvvm:sm_90a")
        assert refusal.value.code == "transaction-stages"
        return
    report = pipeline(module, target="nvvm:sm_90a", check="warn")
    assert not any(check.unsafe for check in report.of("checks"))
    assert [loop.right(module, each) for each in machine.COMPLETIONS] == [""] * len(
        machine.COMPLETIONS
    )


def test_loops_with_one_version_of_their_sums_and_with_two_are_drawn() -> None:
    gemms = [random_gemm(random.Random(seed)) for seed in range(9)]
    assert {versions(pipelined(gemm), gemm) for gemm in gemms} == {1, 2}
    assert {gemm.types for gemm in gemms} >= {"f16", "bf16"}
