"""AMD's assembly, run lane by lane: no wait leaves a copy in flight that is read.

Random pipelined kernels go through the package and LLVM's back end; `helpers.amd_isa`, which
shares no module with the package, runs what comes out against NumPy, with copies that land as late
and as early as the waits allow. ASYNC_PIPE_SAMPLES sets the number of kernels.

Covers: lowering/rocdl/rocdl_code.py, lowering/rocdl/to_rocdl.py, test/helpers/amd_isa
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace

import numpy as np
import pytest

from helpers.amd_isa.judge import judge
from helpers.amd_isa.kernels import CHIPS, random_kernel
from helpers.amd_isa.machine import GLOBAL_BASE, Hazard, Unsupported, run_block
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


@needs_back_end
def test_an_address_in_lds_may_be_computed_in_vector_registers() -> None:
    """LLVM has no move of it to a scalar register without `readfirstlane`, and wrote "illegal copy" into the code."""
    k = replace(random_kernel("gfx942", 98), product="")
    verdict = judge(k, mutants=False)
    assert verdict.wrong is None
    assert verdict.copies > 0


MOVED = [k for k in (random_kernel("gfx1250", seed) for seed in range(SEED, SEED + 40)) if k.mover]


@needs_back_end
@pytest.mark.parametrize("number", range(max(4, KERNELS // 5)))
def test_so_are_those_of_the_tensor_data_mover(number: int) -> None:
    """The same law of tiles that waves copy by descriptors, for themselves or one for all."""
    verdict = judge(MOVED[number % len(MOVED)], mutants=True)
    assert verdict.wrong is None
    assert verdict.missed == ()
    assert verdict.mutants > 0


BUFFERS = [
    k
    for seed in range(SEED, SEED + 40)
    for k in (random_kernel("gfx942", seed), random_kernel("gfx950", seed))
    if k.buffers
]


@needs_back_end
@pytest.mark.parametrize("number", range(max(2, KERNELS // 7)))
def test_so_are_copies_from_buffers(number: int) -> None:
    """The same law of copies by a descriptor of a buffer and offsets of 32 bits."""
    verdict = judge(BUFFERS[number % len(BUFFERS)], mutants=True)
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
		.amdhsa_private_segment_fixed_size 16
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


def from_buffer(wait: str, *, length: int = 256, name: str = "buffer_load_dword") -> np.ndarray:
    """The data after a copy from a buffer of so many bytes."""
    describe = f"	s_mov_b32 s4, s2\n	s_mov_b32 s5, s3\n	s_mov_b32 s6, {length}\n	s_mov_b32 s7, 0\n"
    return outcome(f"{describe}	{name} v1, s[4:7], 0 offen lds\n{wait}{READ}{STORE}")


@pytest.mark.parametrize("length", [256, 128, 130])
def test_a_buffer_is_copied_as_far_as_it_goes(length: int) -> None:
    """Element 32 is not whole in 130 bytes."""
    wanted = np.where(np.arange(64) < length // 4, np.arange(64), 0)
    assert np.array_equal(from_buffer(WAIT.format(0), length=length), wanted)


def test_a_copy_from_a_buffer_in_flight_is_no_thing_to_read() -> None:
    with pytest.raises(Hazard, match="copy in flight"):
        from_buffer(WAIT.format(1))


def test_a_buffer_is_read_to_lds_only() -> None:
    with pytest.raises(Unsupported, match="buffer_load_ushort"):
        from_buffer(WAIT.format(0), name="buffer_load_ushort")


DESCRIBE = "	s_mov_b32 s4, s2\n	s_mov_b32 s5, s3\n	s_mov_b32 s6, {}\n	s_mov_b32 s7, 0\n"
STORED = STORE.replace("global_store", "	s_waitcnt vmcnt(0)\n	global_store")


@pytest.mark.parametrize("length", [256, 128])
def test_a_buffer_is_loaded_as_far_as_it_goes(length: int) -> None:
    found = outcome(
        DESCRIBE.format(length) + "	buffer_load_dword v2, v1, s[4:7], 0 offen\n" + STORED
    )
    assert np.array_equal(found, np.where(np.arange(64) < length // 4, np.arange(64), 0))


def test_a_buffer_is_written_as_far_as_it_goes() -> None:
    body = DESCRIBE.format(384) + "	buffer_store_dword v1, v1, s[4:7], 0 offen offset:256\n"
    assert np.array_equal(outcome(body), np.where(np.arange(64) < 32, 4 * np.arange(64), 0))


def test_a_vector_that_a_buffer_has_in_part_is_not_followed() -> None:
    body = DESCRIBE.format(132) + "	buffer_load_dwordx2 v[2:3], v1, s[4:7], 0 offen\n"
    with pytest.raises(Unsupported, match="partly inside"):
        outcome(body)


@pytest.mark.parametrize(
    "name", ["buffer_load_dword v2, v1, s[4:7], 0 offen", "scratch_load_dword v2, off, off"]
)
def test_what_is_loaded_from_a_buffer_or_scratch_is_waited_for(name: str) -> None:
    with pytest.raises(Hazard, match="before its load"):
        outcome(DESCRIBE.format(256) + f"	{name}\n" + STORE)


SPILL = "	scratch_store_dword off, v1, off offset:8\n	v_mov_b32_e32 v1, 0\n"


def test_what_is_spilled_comes_back() -> None:
    body = (
        "	v_mov_b32_e32 v3, v1\n" + SPILL + "	scratch_load_dword v2, off, off offset:8\n"
        "	s_waitcnt vmcnt(0)\n	v_mov_b32_e32 v1, v3\n"
    )
    assert np.array_equal(outcome(body + STORE), 4 * np.arange(64))


def test_spills_count_as_copies_do() -> None:
    """The copy is older than what is spilled, so that vmcnt(1) is enough."""
    body = COPY + "	scratch_store_dword off, v1, off offset:8\n" + WAIT.format(1) + READ
    assert np.array_equal(outcome(body + STORE), np.arange(64))
    with pytest.raises(Hazard, match="copy in flight"):
        outcome(body.replace("vmcnt(1)", "vmcnt(2)") + STORE)


def test_a_lane_has_so_many_bytes_of_scratch() -> None:
    with pytest.raises(Hazard, match="scratch out of bounds"):
        outcome("	scratch_store_dword off, v1, off offset:16\n")


TRANSPOSED = "	v_lshlrev_b32_e32 v4, 3, v0\n	ds_read_b64_tr_b16 v[2:3], v4\n"
HALVES = "	v_lshlrev_b32_e32 v5, 3, v0\n	ds_write_b64 v5, v[6:7]\n	s_waitcnt lgkmcnt(0)\n"


def test_a_transposed_read_hands_columns_out() -> None:
    """Rows of 16 halves, four lanes a row: lane l of 16 receives number l of each of four rows."""
    pack = (
        "	v_lshlrev_b32_e32 v6, 2, v0\n	v_add_u32_e32 v7, 2, v6\n"
        # Numbers 4 l to 4 l + 3 in lane l.
        "	v_add_u32_e32 v8, 1, v6\n	v_lshl_or_b32 v6, v8, 16, v6\n"
        "	v_add_u32_e32 v8, 1, v7\n	v_lshl_or_b32 v7, v8, 16, v7\n"
    )
    found = outcome(pack + HALVES + TRANSPOSED + "	s_waitcnt lgkmcnt(0)\n" + STORE)
    lane = np.arange(64)
    first = 64 * (lane // 16) + lane % 16
    assert np.array_equal(found, first | (first + 16) << 16)


def test_a_transposed_read_is_a_read_in_flight() -> None:
    with pytest.raises(Hazard, match="before its load"):
        outcome(TRANSPOSED + STORE)
    with pytest.raises(Hazard, match="read in flight"):
        outcome(TRANSPOSED + COPY)
    with pytest.raises(Hazard, match="copy in flight"):
        outcome(COPY + TRANSPOSED)


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


def moved(body: str, *, rows: int = 1, inside: int = 64) -> np.ndarray:
    """The data after one wave of gfx1250 and a descriptor of `rows` of 64 / rows numbers, of which `inside` columns
    are in the tensor."""
    columns = 64 // rows
    words = [2 << 16, inside << 16, rows << 16, columns << 16, rows, columns, 0, 0]
    describe = "".join(f"	s_mov_b32 s{8 + n}, {word}\n" for n, word in enumerate(words))
    describe += (
        "	s_mov_b32 s4, 1\n	s_mov_b32 s5, 0\n	s_mov_b32 s6, s2\n	s_mov_b32 s7, s3\n"
    )
    text = (
        "	s_load_b64 s[2:3], s[0:1], 0x0\n	v_lshlrev_b32_e32 v1, 2, v0\n	s_wait_kmcnt 0x0\n"
        + describe
        + body
        + "	s_wait_dscnt 0x0\n	global_store_b32 v1, v2, s[2:3] offset:256\n"
    )
    made = parse(
        f"""	.amdgcn_target "amdgcn-amd-amdhsa-unknown-gfx1250"
k:
{text}
	s_endpgm
	.section .rodata
		.amdhsa_group_segment_fixed_size 512
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
"""
    )
    memory = np.zeros(1024, np.uint8)
    memory[:256] = np.arange(64, dtype=np.uint32).view(np.uint8)
    memory[768:776] = np.array([GLOBAL_BASE], np.uint64).view(np.uint8)
    found = run_block(made, memory, GLOBAL_BASE + 768, (32, 1), late=True, backward=False)
    return found.memory[256:384].view(np.uint32)


TENSOR, READ_TILE = "	tensor_load_to_lds s[4:7], s[8:15]\n", "	ds_load_b32 v2, v1\n"


def test_a_tile_that_is_waited_for_is_read() -> None:
    assert np.array_equal(moved(TENSOR + "	s_wait_tensorcnt 0x0\n" + READ_TILE), np.arange(32))


def test_columns_outside_of_the_tensor_are_zeros() -> None:
    found = moved(TENSOR + "	s_wait_tensorcnt 0x0\n" + READ_TILE, rows=8, inside=6)
    wanted = np.arange(32).reshape(4, 8)
    wanted[:, 6:] = 0
    assert np.array_equal(found, wanted.reshape(-1))


@pytest.mark.parametrize("wait", ["", "	s_wait_tensorcnt 0x1\n", "	s_wait_asynccnt 0x0\n"])
def test_a_tile_in_flight_is_no_thing_to_read(wait: str) -> None:
    with pytest.raises(Hazard, match="copy in flight"):
        moved(TENSOR + wait + READ_TILE + "	s_wait_tensorcnt 0x0\n")


def test_a_wait_leaves_the_youngest_tiles_in_flight() -> None:
    """The second tile goes to byte 256 on: the first one is there, the second is not yet."""
    second = "	s_movk_i32 s5, 0x100\n" + TENSOR + "	s_wait_tensorcnt 0x1\n"
    end = "	s_wait_tensorcnt 0x0\n"
    assert np.array_equal(moved(TENSOR + second + READ_TILE + end), np.arange(32))
    with pytest.raises(Hazard, match="copy in flight"):
        moved(TENSOR + second + "	ds_load_b32 v2, v1 offset:256\n" + end)


def test_a_tile_is_not_copied_over_a_read_in_flight() -> None:
    with pytest.raises(Hazard, match="read in flight"):
        moved(TENSOR + "	s_wait_tensorcnt 0x0\n" + READ_TILE + TENSOR)
