"""AMD's assembly, run lane by lane: no wait leaves a copy in flight that is read.

Random pipelined kernels go through the package and LLVM's back end; `helpers.amd_isa`, which
shares no module with the package, runs what comes out against NumPy, with copies that land as late
and as early as the waits allow. ASYNC_PIPE_SAMPLES sets the number of kernels.

Covers: lowering/rocdl/rocdl_code.py, lowering/rocdl/to_rocdl.py, test/helpers/amd_isa
"""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from helpers.amd_isa.judge import judge
from helpers.amd_isa.kernels import CHIPS, random_kernel
from helpers.amd_isa.machine import GLOBAL_BASE, Hazard, run_block
from helpers.amd_isa.program import Program, parse

KERNELS = int(os.environ.get("ASYNC_PIPE_SAMPLES", "15"))
SEED = int(os.environ.get("ASYNC_PIPE_SEED", "100"))

needs_back_end = pytest.mark.skipif(
    importlib.util.find_spec("flydsl") is None, reason="needs the AMDGPU back end of flydsl"
)


@needs_back_end
@pytest.mark.parametrize("number", range(KERNELS))
def test_random_kernels_are_right_and_weaker_waits_are_not(number: int) -> None:
    """Law: every order gives NumPy's result; a wait that leaves a copy more in flight is wrong."""
    chip = list(CHIPS)[number % len(CHIPS)]
    verdict = judge(random_kernel(chip, SEED + number // len(CHIPS)), mutants=True)
    assert verdict.wrong is None
    assert verdict.missed == ()
    assert verdict.copies > 0


def program(body: str, chip: str = "gfx942") -> Program:
    """A hand-written kernel of one wave; the address of its data is the first argument."""
    return parse(
        f"""	.amdgcn_target "amdgcn-amd-amdhsa-unknown-{chip}"
k:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_mov_b32 m0, 0
	s_waitcnt lgkmcnt(0)
{body}
	s_endpgm
	.section .rodata
		.amdhsa_group_segment_fixed_size 512
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
"""
    )


def outcome(body: str, *, late: bool = True) -> np.ndarray:
    """The data after one wave: 64 numbers that are copied, 64 that are written."""
    memory = np.zeros(1024, np.uint8)
    memory[:256] = np.arange(64, dtype=np.uint32).view(np.uint8)
    memory[768:776] = np.array([GLOBAL_BASE], np.uint64).view(np.uint8)
    found = run_block(program(body), memory, GLOBAL_BASE + 768, (64, 1), late=late, backward=False)
    return found.memory[256:512].view(np.uint32)


COPY = "	global_load_lds_dword v1, s[2:3]\n"
READ = "	ds_read_b32 v2, v1\n	s_waitcnt lgkmcnt(0)\n"
STORE = "	global_store_dword v1, v2, s[2:3] offset:256\n"
WAIT = "	s_waitcnt vmcnt({})\n"


def test_a_copy_that_is_waited_for_is_read() -> None:
    result = outcome(COPY + WAIT.format(0) + READ + STORE)
    assert np.array_equal(result, np.arange(64))


@pytest.mark.parametrize("late", [True, False])
def test_a_copy_in_flight_is_no_thing_to_read(late: bool) -> None:
    with pytest.raises(Hazard, match="copy in flight"):
        outcome(COPY + WAIT.format(1) + READ + STORE, late=late)


def test_a_read_in_flight_is_not_overwritten() -> None:
    body = (
        COPY
        + WAIT.format(0)
        + "	ds_read_b32 v2, v1\n"
        + COPY
        + "	s_waitcnt vmcnt(0) lgkmcnt(0)\n"
    )
    with pytest.raises(Hazard, match="read in flight"):
        outcome(body + STORE)


def test_stores_count_on_gfx9() -> None:
    """The store is younger than the copy, so that vmcnt(1) is enough."""
    body = COPY + "	global_store_dword v1, v0, s[2:3] offset:256\n" + WAIT.format(1) + READ
    assert np.array_equal(outcome(body), np.arange(64))


def test_a_register_is_not_used_before_its_load_is_waited_for() -> None:
    with pytest.raises(Hazard, match="before its load"):
        outcome(COPY + WAIT.format(0) + "	ds_read_b32 v2, v1\n" + STORE)


def test_nothing_outside_of_the_memory_is_touched() -> None:
    with pytest.raises(Hazard, match="out of bounds"):
        outcome("	global_load_dword v2, v1, s[2:3] offset:4000\n" + WAIT.format(0) + STORE)
