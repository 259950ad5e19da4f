"""Kernels as people write them in CUDA, from the PTX that nvcc made of them: proven where they are right; none that lacks one
of its waits, arrivals, fences or barriers is.

`test/helpers/cuda/kernels.cu` is the text; `kernels.ptx` is what nvcc wrote.

Covers: checker/kernel.py, checker/as_read.py, checker/promises.py, checker/poll_loops.py, checker/phases/block_memory.py,
checker/phases/loop_iterations.py, checker/phases/amounts.py, ptx/instructions.py
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from helpers.nvcc_kernels import kernels_of, verdict
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx

PROMISES: dict[str, Any] = {
    "assume_noalias_arguments": True,
    "assume_no_overflow": True,
    "assume_independent": True,
    "assume_block_size": "128",
}
WRONG = {"handed_back_early", "for_others"}
# Of phases the size of a block must be known; what threads only share among all of them needs no more than its bound.
BY_BOUND = {"pipeline", "products"}
SYNCHRONISES = re.compile(
    r"(@!?%\w+\s+)?(bar(rier)?\.|\{ \.reg \.b64 s; mbarrier|\{ \.reg \.pred p; again|mbarrier\.|cp\.async\.(wait|commit|mbarrier)|fence\.)"
)


def kernels() -> dict[str, str]:
    return kernels_of("kernels.ptx")


@pytest.mark.parametrize("name", kernels())
def test_what_nvcc_writes_of_a_right_kernel_is_proven(name: str) -> None:
    found = verdict(kernels()[name], **PROMISES)
    assert found != "proven" if name in WRONG else found == "proven"


@pytest.mark.parametrize("name", sorted(BY_BOUND))
def test_launch_bounds_are_enough_where_no_phase_counts_threads(name: str) -> None:
    assert verdict(kernels()[name], **{**PROMISES, "assume_block_size": ""}) == "proven"
    unbounded = kernels()[name].replace(".maxntid 128, 1, 1", "")
    assert verdict(unbounded, **{**PROMISES, "assume_block_size": ""}) != "proven"


def mutants(name: str) -> list[str]:
    """The kernel without one of its synchronising lines, and with each wait one weaker."""
    lines = kernels()[name].split("\n")
    found = []
    for number, line in enumerate(lines):
        if SYNCHRONISES.match(line.strip()):
            found.append("\n".join([*lines[:number], "", *lines[number + 1 :]]))
            weaker = re.sub(r"(wait_group )(\d+)", lambda m: f"{m[1]}{int(m[2]) + 1}", line)
            if weaker != line:
                found.append("\n".join([*lines[:number], weaker, *lines[number + 1 :]]))
    return found


# nvcc unrolls the loop of `pipeline` by four. What is left of it, at most three iterations, copies nothing (i + 3 < n never
# holds), so that its last barrier keeps nobody from a slot.
NEEDLESS = {"pipeline": 1}


@pytest.mark.parametrize("name", [name for name in kernels() if name not in WRONG])
def test_none_is_proven_without_one_of_its_waits_arrivals_or_barriers(name: str) -> None:
    broken = mutants(name)
    assert len(broken) >= 2
    proven = [text for text in broken if verdict(text, **PROMISES) == "proven"]
    assert len(proven) == NEEDLESS.get(name, 0)
    for text in proven:
        for trips in range(1, 10):
            for completion in ("eager", "late", "random:3"):
                races, sums = run(text, trips, completion)
                assert races == set() and (sums == run(kernels()[name], trips, "eager")[1]).all()


def run(text: str, trips: int, completion: str) -> tuple[set[str], np.ndarray]:
    module = raise_ptx(text, new_context(), "kernels.ptx")
    tiles = np.arange(trips * 512, dtype=np.float32) % 7
    arguments = [tiles, np.zeros(128, np.float32), trips]
    result = machine.run(module, None, arguments, completion=completion, threads=128)
    return set(result.race_codes), result.arrays[1]


COPIERS_SUMS = {"copiers": (64, 256), "bulk": (128, 512), "pipeline": (128, 512)}


@pytest.mark.parametrize("completion", ["eager", "late", "random:3"])
@pytest.mark.parametrize("name", COPIERS_SUMS)
def test_they_run_right_whenever_copies_arrive(name: str, completion: str) -> None:
    threads, size = COPIERS_SUMS[name]
    races, sums = run(kernels()[name], 5, completion)
    assert races == set()
    tiles = (np.arange(5 * 512, dtype=np.float32) % 7)[: 5 * size].reshape(5, size // 4, 4)
    first = tiles[:, :, 0].sum(0)
    reads = {"copiers": (np.arange(64) + 1) % 64, "bulk": np.arange(128) ^ 1}
    assert (sums[:threads] == first[reads.get(name, (np.arange(128) + 1) % 128)]).all()
