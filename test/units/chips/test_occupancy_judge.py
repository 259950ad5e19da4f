"""Blocks of a multiprocessor beside NVIDIA's own calculator, the header that comes with its runtime.

Covers: chips/occupancy.py, chips/table.py
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from mlir_async_pipe.chips.occupancy import block_limits
from mlir_async_pipe.chips.table import CHIPS, Chip

KIB = 1024
CALCULATOR = r"""
#include "cuda_occupancy.h"
#include <stdio.h>
int main() {
  int major, minor, threads_of_sm, threads, registers;
  long of_block, of_sm, memory;
  while (scanf("%d %d %d %ld %ld %d %d %ld", &major, &minor, &threads_of_sm, &of_block, &of_sm,
               &threads, &registers, &memory) == 8) {
    cudaOccDeviceProp chip;
    memset(&chip, 0, sizeof chip);
    chip.computeMajor = major; chip.computeMinor = minor;
    chip.maxThreadsPerBlock = 1024; chip.maxThreadsPerMultiprocessor = threads_of_sm;
    chip.regsPerBlock = chip.regsPerMultiprocessor = 65536; chip.warpSize = 32;
    chip.sharedMemPerBlock = 49152; chip.sharedMemPerBlockOptin = of_block;
    chip.sharedMemPerMultiprocessor = of_sm; chip.reservedSharedMemPerBlock = 1024; chip.numSms = 1;
    cudaOccFuncAttributes kernel;
    memset(&kernel, 0, sizeof kernel);
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = of_block;
    cudaOccDeviceState state;
    memset(&state, 0, sizeof state);
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &chip, &kernel, &state, threads, memory);
    printf("%d %d %d %d %d %d\n", error, result.activeBlocksPerMultiprocessor, result.blockLimitSharedMem,
           result.blockLimitRegs, result.blockLimitWarps, result.blockLimitBlocks);
  }
}
"""


def header() -> Path | None:
    """The folder of NVIDIA's header, where its runtime is installed."""
    found = importlib.util.find_spec("nvidia")
    roots = [] if found is None else list(found.submodule_search_locations or [])
    files = (file for root in roots for file in Path(root).glob("*/include/cuda_occupancy.h"))
    return next((file.parent for file in files), None)


def compute_capability(chip: Chip) -> tuple[int, int]:
    number = int(chip.name.removeprefix("sm_").rstrip("a"))
    return divmod(number, 10)


NVIDIA = [name for name, chip in CHIPS.items() if chip.lowering == "nvvm"]


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, compiler = header(), shutil.which("g++")
    if folder is None or compiler is None:
        pytest.skip("needs cuda_occupancy.h and a C++ compiler")
    made = tmp_path_factory.mktemp("occupancy")
    source = made / "calculator.cc"
    source.write_text(CALCULATOR)
    subprocess.run([compiler, "-I", folder, source, "-o", made / "calculator"], check=True)
    return made / "calculator"


@pytest.mark.parametrize("name", NVIDIA)
def test_each_limit_is_that_of_nvidias_calculator(name: str, calculator: Path) -> None:
    chip, draw = CHIPS[name], Random(name)
    major, minor = compute_capability(chip)
    sizes = f"{major} {minor} {chip.resident_threads} {chip.workgroup_bytes} {chip.workgroup_bytes + KIB}"
    cases = []
    for _ in range(300):
        threads = draw.choice([32, 64, 96, 128, 160, 256, 384, 512, 1024, draw.randint(1, 1024)])
        registers = draw.randint(16, min(255, 65536 // (-(-threads // 32) * 32)))
        cases.append((threads, registers, draw.choice([0, draw.randint(1, chip.workgroup_bytes)])))
    asked = "\n".join(f"{sizes} {t} {r} {m}" for t, r, m in cases)
    done = subprocess.run([calculator], input=asked, capture_output=True, text=True, check=True)
    answers = [[int(n) for n in line.split()] for line in done.stdout.splitlines()]
    assert len(answers) == len(cases)
    for (threads, registers, memory), (error, held, *limits) in zip(cases, answers, strict=True):
        assert error == 0
        ours = block_limits(chip, threads, registers, memory)
        assert min(ours.values()) == held, (threads, registers, memory, limits)
        if memory:
            assert ours["workgroup memory"] == limits[0]
        assert [ours["registers"], ours["threads"], ours["blocks"]] == limits[1:]
