"""Random loops of products in tensor memory with roles, as a front end writes them, and what is wrong with
their pipelines: NumPy's result in every order of warps and completions, and nothing that the checker calls
unsafe."""

from __future__ import annotations

import random

from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import run_gemm
from helpers.tensor_memory_mutants import pipelined, random_gemm, versions
from mlir_async_pipe import check, machine

SUMS = {1: "one version of the sums", 2: "two versions of the sums"}


def judge_tensor_memory(seed: int) -> tuple[str, list[str]]:
    """What the loop has become, and what is wrong with it."""
    draw = random.Random(f"tensor memory {seed}")
    gemm = random_gemm(draw)
    text = pipelined(gemm)
    kind = f"products in tensor memory, by warps of their own, {SUMS[versions(text, gemm)]}"
    # Of three slots and more in tile after tile there are more states than the checker follows.
    checked = [] if gemm.persistent and gemm.stages > 2 else check(parse(text)).of("checks")
    wrong = [f"the checker calls it unsafe: {gemm}" for found in checked if found.unsafe]
    for completion in machine.COMPLETIONS:
        schedule = draw.choice(machine.SCHEDULES)
        depth = draw.choice((0, 1, gemm.stages, draw.randint(0, 3 * gemm.stages)))
        k = max(0, depth * gemm.line - draw.choice((0, 0, 16)))
        beside = draw.choice((1, 2, 3)) if gemm.persistent else 1
        try:
            right, result = run_gemm(
                parse(text),
                gemm,
                k,
                tiles=(1, beside),
                grid=1,
                completion=completion,
                schedule=schedule,
                seed=seed,
            )
            found = "" if right else "another result"
            found = " ".join(sorted(result.race_codes)) or found
        except machine.MachineError as error:
            found = str(error)
        wrong += [f"{gemm}, k = {k}, {completion}, {schedule}: {found}"] if found else []
    return kind, wrong
