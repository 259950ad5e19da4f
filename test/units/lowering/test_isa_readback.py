"""Waits are found in AMDGCN assembly, and what became of each is told.

Covers: lowering/rocdl/isa.py
"""

from __future__ import annotations

from mlir_async_pipe.lowering.rocdl.isa import MarkedWait, explain, loop_bodies, read
from mlir_async_pipe.session.diagnostics import Place

ASSEMBLY = """
	.text
	.globl	f
	.type	f,@function
f:
	s_load_dwordx2 s[0:1], s[4:5], 0x0
	s_waitcnt lgkmcnt(0)
	global_load_lds_dwordx4 v[2:3], off
.LBB0_1:
	;;#ASMSTART
	; async_pipe.wait 0
	;;#ASMEND
	s_add_u32 s2, s2, 1
	s_waitcnt vmcnt(LOOP)
	s_barrier
	global_load_lds_dwordx4 v[2:3], off
	ds_read_b128 v[4:7], v1
	s_cbranch_scc1 .LBB0_1
	;;#ASMSTART
	; async_pipe.wait 1
	;;#ASMEND
	s_waitcnt vmcnt(0) lgkmcnt(0)
	s_barrier
	s_endpgm
.Lfunc_end0:
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .name:           A
        .offset:         0
        .size:           8
    .group_segment_fixed_size: 4096
    .name:           f
    .private_segment_fixed_size: 0
    .sgpr_count:     12
    .sgpr_spill_count: 0
    .vgpr_count:     34
    .vgpr_spill_count: 2
...
	.end_amdgpu_metadata
"""


def _kernel(loop: str = "8"):
    (kernel,) = read(ASSEMBLY.replace("LOOP", loop))
    return kernel


def _wait(number: int, count: int, copies: int, certain: int | None = None) -> MarkedWait:
    certain = copies if certain is None else certain
    return MarkedWait(number, "f", "rocdl.wait.asyncmark", count, copies, certain, Place())


def test_waits_are_distinguished_by_marker_and_loop():
    kernel = _kernel()
    assert [(w.counter, w.left, w.marker, bool(w.loop)) for w in kernel.waits] == [
        ("vmcnt", 8, 0, True),
        ("vmcnt", 0, 1, False),
    ]
    assert list(kernel.loop_counts().values()) == [(8,)]


def test_a_wait_for_other_counters_alone_is_no_wait_of_ours():
    assert all(wait.reason == "s_barrier" for wait in _kernel().waits)


def test_copies_and_barriers_in_loops_are_counted():
    kernel = _kernel()
    assert (kernel.copies, kernel.copies_in_loops, kernel.barriers_in_loops) == (2, 1, 1)


def test_what_the_kernel_needs_is_its_own_entry_not_an_arguments():
    kernel = _kernel()
    assert (kernel.name, kernel.workgroup_bytes, kernel.vector_registers) == ("f", 4096, 34)
    assert (kernel.vector_spills, kernel.scalar_spills, kernel.scratch_bytes) == (2, 0, 0)


def test_gfx12_counters_are_read_in_hexadecimal():
    text = ASSEMBLY.replace("s_waitcnt vmcnt(LOOP)", "s_wait_asynccnt 0x1f")
    (kernel,) = read(text)
    assert (kernel.waits[0].counter, kernel.waits[0].left) == ("asynccnt", 31)


def test_lds_copies_of_older_chips_are_loads_with_a_modifier():
    text = ASSEMBLY.replace("global_load_lds_dwordx4 v[2:3], off", "global_load_dword v3, off lds")
    (kernel,) = read(text)
    assert kernel.copies == 2


def test_as_many_left_as_the_count_says_is_kept():
    first, last = explain((_wait(0, 2, 4), _wait(1, 0, 4)), (_kernel("8"),))
    assert (first.verdict, first.left_in_loops, last.verdict) == ("kept", (8,), "kept")


def test_more_left_because_of_other_memory_operations_is_kept():
    (first,) = explain((_wait(0, 2, 4),), (_kernel("11"),))
    assert first.verdict == "kept"


def test_fewer_left_is_stricter():
    (first,) = explain((_wait(0, 2, 4),), (_kernel("5"),))
    assert first.verdict == "stricter" and "5 are in flight" in first.reason


def test_fewer_left_because_of_conditions_says_so():
    (first,) = explain((_wait(0, 2, 4, certain=0),), (_kernel("0"),))
    assert first.verdict == "stricter" and "outside conditions" in first.reason


def test_what_the_counter_cannot_express_says_so():
    (first,) = explain((_wait(0, 4, 16),), (_kernel("62"),))
    assert first.verdict == "stricter" and "64 copies" in first.reason


def test_a_barrier_that_waits_for_more_is_named():
    text = ASSEMBLY.replace("LOOP)", "8)\n\ts_waitcnt vmcnt(0)", 1)
    (first,) = explain((_wait(0, 2, 4),), read(text))
    assert first.verdict == "stricter" and "barrier" in first.reason


def test_a_wait_without_an_instruction_had_nothing_to_wait_for():
    (missing,) = explain((_wait(7, 1, 1),), (_kernel(),))
    assert (missing.verdict, missing.left) == ("none", ())


MOVED = """\
\t.type\tk,@function
k:
\ts_branch .LBB0_2
.LBB0_1:
\ts_waitcnt vmcnt(0)
\ts_endpgm
.LBB0_2:
\ts_waitcnt vmcnt(4)
\tglobal_load_lds_dword v[0:1], off
\ts_cbranch_scc1 .LBB0_2
\ts_branch .LBB0_1
.Lfunc_end0:
"""


def test_a_block_that_jumps_back_to_what_was_moved_before_it_is_in_no_loop():
    (found,) = read(MOVED)
    assert [(wait.left, wait.loop) for wait in found.waits] == [(0, 0), (4, 7)]
    assert loop_bodies(MOVED)["k"] == (
        ("s_waitcnt vmcnt(4)", "global_load_lds_dword v[0:1], off", "s_cbranch_scc1 .LBB0_2"),
    )
