"""The machine beside a second one that shares no module with the package: they agree.

Law: for every program, right or wrong, before and after pipelining, both find a race or both
find none, both find the same copies without waits and the same divergent barriers, and where
nothing is wrong all arrays are equal, byte by byte. ASYNC_PIPE_SAMPLES multiplies the programs.

Covers: machine/run_kernel.py, machine/detector.py, machine/decode.py, test/helpers/second_machine
"""

from __future__ import annotations

import ast
import os
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from helpers import executable_wait_programs, flag_kernels, pipeline_programs, ring_kernels
from helpers.check_mutants import mutants
from helpers.machine_loops import Loop, loops
from helpers.machine_programs import WORKGROUP
from helpers.mutation_kernels import pipelined
from helpers.paths import ROOT
from helpers.random_async_kernels import random_kernel
from helpers.random_pipelines import FEATURES, programs
from helpers.second_machine import judge
from helpers.two_judges import COMPLETIONS, Verdict, compare, generic, passed
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

SAMPLES = int(os.environ.get("ASYNC_PIPE_SAMPLES", "1"))
EXAMPLES = ROOT / "examples"
SECOND_MACHINE = ROOT / "test" / "helpers" / "second_machine"
# gemm and gemm_contract multiply matrices in registers, which the second machine does not.
JUDGED_EXAMPLES = ("add_one", "small_kernels")
# About 2 s each, most of it in the inner loops of 64 threads.
SLOW = ("gemm_carried_tokens.mlir", "gemm_prologue.mlir", "gemm_tile.mlir", "amd_wide_copies.mlir")
TARGETS = (None, "nvvm:sm_80", "rocdl:gfx950")


def agree(verdict: Verdict) -> Verdict:
    """Fail where the two machines differ."""
    assert verdict.disagreements == ()
    return verdict


def test_the_second_machine_imports_the_standard_library_only() -> None:
    found = set()
    for path in SECOND_MACHINE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module is not None
                own = node.module.startswith("helpers.second_machine")
                found.add("helpers.second_machine" if own else node.module.split(".")[0])
    standard = "__future__ ast collections dataclasses functools itertools math random re struct"
    assert found <= {*standard.split(), "typing", "helpers.second_machine"}


@pytest.mark.parametrize("seed", range(20 * SAMPLES))
def test_they_agree_on_random_kernels(seed: int) -> None:
    verdict = agree(compare(random_kernel(seed, threads=seed % 3 != 0), "nvvm:sm_80", seed=seed))
    assert verdict.runs and not verdict.not_judged


@pytest.mark.parametrize("ring", list(ring_kernels.family())[:: 1 if SAMPLES > 1 else 19], ids=str)
def test_they_agree_on_rings_and_their_mutants(ring: ring_kernels.Ring) -> None:
    text = ring_kernels.text(ring)
    verdict = agree(compare(text, ring.target, trips=(0, 3)))
    assert verdict.runs and not verdict.wrong
    for mutant in list(mutants(str(ring), text))[:: 1 if SAMPLES > 1 else 9]:
        agree(compare(mutant.text, ring.target, trips=(3,), completions=("late",)))


def examples() -> list[Path]:
    handwritten = sorted((EXAMPLES / "handwritten").glob("*.mlir"))
    if SAMPLES == 1:
        handwritten = [path for path in handwritten if path.name not in SLOW]
    return [*handwritten, *(EXAMPLES / f"{name}.mlir" for name in JUDGED_EXAMPLES)]


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.stem)
def test_they_agree_on_the_examples_before_and_after_pipelining(path: Path) -> None:
    target = "rocdl:gfx950" if path.name.startswith("amd") else "nvvm:sm_80"
    completions = COMPLETIONS if SAMPLES > 1 else ("late",)
    for text in (path.read_text(), pipelined(path.read_text(), target)):
        assert text is not None
        verdict = agree(compare(text, target, trips=(3,), completions=completions))
        assert verdict.runs and not verdict.wrong and not verdict.not_judged


def random_schedule(random: Random, statements: int) -> pipeline_programs.Schedule:
    stages = [random.choice((0, 1, 2)) for _ in range(statements)]
    stage = tuple(number - min(stages) for number in stages)
    order = list(range(statements))
    random.shuffle(order)
    chosen = [number for number in sorted(set(stage)) if random.random() < 0.6]
    return pipeline_programs.Schedule(stage, tuple(order), tuple(chosen))


@pytest.mark.parametrize("seed", range(8 * SAMPLES))
def test_they_agree_on_small_programs_with_scopes_and_their_mutants(seed: int) -> None:
    random = Random(seed)
    programs = list(pipeline_programs.PROGRAMS.values())
    target = random.choice(TARGETS)
    text = None
    while text is None:
        program = random.choice(programs)
        schedule = random_schedule(random, len(program.statements))
        given_text = pipeline_programs.text(program, schedule)
        text = pipelined(given_text, target)
    arrays = [[trips, *pipeline_programs.inputs(program)] for trips in (0, 1, 4)]
    options: dict[str, Any] = {"block": (1, 1, 1), "choices": arrays, "function": "f"}
    for right in (given_text, text):
        verdict = agree(compare(right, target, **options))
        assert verdict.runs and not verdict.wrong and not verdict.not_judged
    for mutant in islice(mutants(str(seed), text), 6):
        agree(compare(mutant.text, target, completions=("late",), **options))


@pytest.mark.parametrize("seed", range(12 * SAMPLES))
def test_they_agree_on_random_wait_programs(seed: int) -> None:
    made = executable_wait_programs.executable(seed)
    if made is None:
        return
    text, entry = made
    random = np.random.default_rng(seed)
    arguments = [
        *(int(random.integers(2)) for _ in entry.conditions),
        int(random.integers(4)),
        random.integers(2, size=executable_wait_programs.LENGTH).astype(np.bool_),
        np.zeros((), np.int64),
    ]
    for target in TARGETS:
        verdict = compare(
            text,
            target,
            block=(1, 1, 1),
            choices=[arguments],
            function=entry.name,
            completions=("late",),
            step_limit=1500,
        )
        agree(verdict)
        assert verdict.runs or "ran for more" in verdict.not_judged


@pytest.mark.parametrize("feature", FEATURES)
def test_they_agree_on_random_pipelines(feature: str) -> None:
    for program in programs(seed=3, feature=feature, count=SAMPLES):
        texts = [program.text]
        with new_context():
            module = ir.Module.parse(program.text)
            try:
                found = passes.find("async-pipe")
                session = Session(target=Target.parse(program.target) if program.target else None)
                found.run(module.operation, found.options(**program.options), session)
                texts.append(str(module))
            except AsyncPipeError:
                pass
        for text in texts:
            verdict = compare(
                text,
                program.target,
                block=program.threads,
                choices=[program.arguments()],
                function=program.function,
                completions=("late", "random"),
            )
            assert agree(verdict).runs and not verdict.wrong


def test_they_agree_on_random_loops_before_and_after_pipelining() -> None:
    """And on a sample of the mutants of what the pipeline makes."""
    right, wrong = [], []

    @settings(max_examples=5 * SAMPLES, deadline=None, database=None, derandomize=True)
    @given(loops())
    def law(loop: Loop) -> None:
        text = loop.text(annotated=True).replace("WG", WORKGROUP)
        made = pipelined(text, loop.target)
        options: dict[str, Any] = {
            "block": (loop.threads, 1, 1),
            "choices": [loop.arguments()],
            "function": "f",
        }
        for given_text in (text, made):
            if given_text is not None:
                verdict = agree(compare(given_text, loop.target, **options))
                assert verdict.runs and not verdict.wrong and not verdict.not_judged
                right.append(verdict)
        if made is None:
            return
        for mutant in islice(mutants("loop", made), len(right) % 5, 12, 5):
            broken = compare(mutant.text, loop.target, completions=("late",), **options)
            wrong.append(agree(broken).wrong)

    law()
    assert len(right) >= 5 * SAMPLES and wrong


@pytest.mark.parametrize("order", ("forward", "backward", "random"))
@pytest.mark.parametrize("completion", ("eager", "late", "random"))
@pytest.mark.parametrize("name", [*flag_kernels.RIGHT, *flag_kernels.RACY])
def test_the_second_machine_orders_blocks_by_flags(name: str, completion: str, order: str) -> None:
    """A right hand-over gives the row under every schedule; a racy one is a race, and with the
    oldest values that a read may see it gives something else."""
    ends = (flag_kernels.RIGHT | flag_kernels.RACY)[name]
    judged = judge(
        generic(flag_kernels.text(*ends)),
        "k",
        passed(flag_kernels.arguments()),
        threads=(flag_kernels.THREADS, 1, 1),
        grid=(2, 1, 1),
        completion=completion,
        order=order,
        seed=1,
    )
    wanted = flag_kernels.WANTED.tobytes()
    assert judged.codes == (set() if name in flag_kernels.RIGHT else {"cross-block"})
    if name in flag_kernels.RIGHT:
        assert judged.arrays[2] == wanted
    elif completion == "late":
        assert judged.arrays[2] != wanted


def test_the_second_machine_finds_that_a_flag_is_never_set() -> None:
    judged = judge(
        generic(flag_kernels.text(*flag_kernels.STUCK)),
        "k",
        passed(flag_kernels.arguments()),
        threads=(flag_kernels.THREADS, 1, 1),
        grid=(2, 1, 1),
    )
    assert "deadlock" in judged.codes


def copy_and_read(between: str, *, threads: int = 2) -> str:
    """A thread copies one element; another one reads it after `between`."""
    row = f"memref<{threads}xf32, {WORKGROUP}>"
    return f"""
    func.func @k(%from: memref<{threads}xf32>, %to: memref<{threads}xf32>) {{
      %t = gpu.thread_id x
      %last = arith.constant {threads - 1} : index
      %other = arith.subi %last, %t : index
      %tile = memref.alloc() : {row}
      %copy = nvgpu.device_async_copy %from[%t], %tile[%t], 1 : memref<{threads}xf32> to {row}
      nvvm.cp.async.commit.group
      {between}
      %v = memref.load %tile[%other] : {row}
      memref.store %v, %to[%t] : memref<{threads}xf32>
      nvvm.cp.async.wait.group 0
      return
    }}"""


@pytest.mark.parametrize(
    ("between", "codes"),
    [
        ("nvvm.cp.async.wait.group 0\ngpu.barrier", set()),
        ("nvvm.cp.async.wait.group 1\ngpu.barrier", {"read-in-flight", "not-visible"}),
        ("gpu.barrier", {"read-in-flight", "not-visible"}),
        ("gpu.barrier\nnvvm.cp.async.wait.group 0", {"read-in-flight", "not-visible"}),
        ("nvvm.cp.async.wait.group 0\nrocdl.s.barrier", {"not-visible"}),
        (
            "nvvm.cp.async.wait.group 0\ngpu.barrier memfence [#gpu.address_space<global>]",
            {"not-visible"},
        ),
    ],
)
def test_the_second_machine_orders_copies_by_waits_and_barriers(between: str, codes: set) -> None:
    array = np.arange(2, dtype=np.float32)
    given_bytes = [(array.tobytes(), array.shape)] * 2
    judged = judge(generic(copy_and_read(between)), "k", given_bytes, threads=(2, 1, 1))
    assert {finding.code for finding in judged.findings} <= codes
    assert bool(judged.races) == bool(codes)
    if not codes:
        assert judged.arrays[1] == array[::-1].tobytes()
