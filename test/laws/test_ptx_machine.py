"""The PTX machine itself: what instructions give, and that each kind of fault is found.

Covers: test/helpers/ptx_machine
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.ptx_machine import COMPLETIONS, Array, Program, PtxFault, launch, parse

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to) .maxntid 64, 1, 1
{
	.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<30>; .reg .b64 %rd<30>;
	.shared .align 16 .b8 tile[1024];
	.shared .align 4 .b8 small[64];
	ld.param.b64 %rd1, [from];
	ld.param.b64 %rd2, [to];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	mul.wide.u32 %rd4, %r1, 16;
	add.s64 %rd5, %rd1, %rd3;
	add.s64 %rd6, %rd2, %rd3;
	mov.b64 %rd7, tile;
	add.s64 %rd8, %rd7, %rd3;
	add.s64 %rd9, %rd7, %rd4;
	add.s64 %rd10, %rd1, %rd4;
	ld.global.b32 %r2, [%rd5];
"""


def run(
    body: str, *, threads: int = 64, words: np.ndarray | None = None, completion: str = "late",
    functions: str = "",
) -> np.ndarray:  # fmt: skip
    """What a kernel with this body leaves in `to`, of 64 words."""
    data = np.arange(256, dtype=np.uint32) * 3 + 1 if words is None else words
    to = Array(np.zeros(64, np.uint32), 4)
    text = HEAD.replace(".visible", functions + "\n.visible", 1) + body + "\nret;\n}\n"
    launch(
        parse(text), "k", [Array(data, 16, read_only=True), to],
        block=(threads, 1, 1), completion=completion,
    )  # fmt: skip
    return to.data


def fault(body: str, **options: object) -> str:
    with pytest.raises(PtxFault) as found:
        run(body, **options)  # type: ignore[arg-type]
    return found.value.kind


STORE = "st.global.b32 [%rd6], %r3;"
X = (np.arange(256, dtype=np.uint32) * 3 + 1)[:64]
T = np.arange(64, dtype=np.uint32)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("add.s32 %r3, %r2, -1;", X - 1),
        ("mad.lo.s32 %r3, %r2, %r1, %r1;", X * T + T),
        ("mul.hi.u32 %r3, %r2, 0x80000000;", X >> 1),
        ("div.s32 %r3, %r2, -3;", (-(X.astype(np.int32) // 3)).astype(np.uint32)),
        ("rem.u32 %r3, %r2, 7;", X % 7),
        ("shl.b32 %r3, %r2, 33;", X * 0),
        ("bfe.u32 %r3, %r2, 1, 3;", X >> 1 & 7),
        ("bfi.b32 %r3, %r1, %r2, 8, 4;", X & ~np.uint32(0xF00) | (T & 15) << 8),
        ("prmt.b32 %r3, %r2, %r1, 0x0014;", T | X >> 8 << 8 | (X & 255) * 0x01010000),
        ("lop3.b32 %r3, %r2, %r1, 15, 0x96;", X ^ T ^ 15),
        ("setp.lt.s32 %p1, %r1, 9; selp.b32 %r3, %r2, 5, %p1;", np.where(T < 9, X, 5)),
        ("setp.gt.u32 %p1, %r1, 9; @!%p1 mov.b32 %r2, 5; mov.b32 %r3, %r2;", np.where(T > 9, X, 5)),
        ("cvt.rn.f32.u32 %r3, %r2;", X.astype(np.float32).view(np.uint32)),
        ("cvt.rn.f32.u32 %r3, %r2; add.rn.f32 %r3, %r3, 0f3F800000; cvt.rzi.u32.f32 %r3, %r3;", X + 1),
        ("cvt.rn.f32.u32 %r3, %r2; fma.rn.f32 %r3, %r3, 0f40000000, %r3; cvt.rzi.s32.f32 %r3, %r3;", 3 * X),
        # 2^24 + 1 lies between two numbers of f32: nearest even and downwards are one, + 3 are two.
        ("mov.b32 %r4, 0f4B800000; fma.rm.f32 %r3, %r4, 0f3F800000, 0f40400000;", X * 0 + 0x4B800001),
        ("mov.b32 %r4, 0f4B800000; fma.rn.f32 %r3, %r4, 0f3F800000, 0f40400000;", X * 0 + 0x4B800002),
        ("ex2.approx.ftz.f32 %r3, 0fC3020000;", X * 0),
        ("mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r3, {%rs2, %rs1};", X << 16 | X >> 16),
        ("cvt.u16.u32 %rs1, %r2; cvt.s32.s8 %r3, %rs1;", X.astype(np.int8).astype(np.int32).view(np.uint32)),
        ("shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;", X[T ^ 1]),
        ("shfl.sync.down.b32 %r3|%p1, %r2, 1, 31, -1; @!%p1 mov.b32 %r3, 0;", np.where(T % 32 == 31, 0, X + 3)),
        ("{ .reg .b32 %r2; mov.b32 %r2, 7; } mov.b32 %r3, %r2;", X),
    ],
)  # fmt: skip
def test_what_an_instruction_gives(instruction: str, expected: np.ndarray) -> None:
    assert np.array_equal(run(instruction + STORE), expected)


def test_halves_are_rounded_to_nearest_even() -> None:
    body = "cvt.rn.f32.u32 %r4, %r2; cvt.rn.bf16x2.f32 %r3, %r4, %r4;" + STORE
    odd = np.resize(np.array([257, 259, 255, 513], np.uint32), 256)
    # bf16 has 8 bits of mantissa: 257 lies between 256 and 258, 259 between 258 and 260.
    bits = np.resize(np.array([256, 260, 255, 512], np.float32), 64).view(np.uint32) >> 16
    assert np.array_equal(run(body, words=odd), bits | bits << 16)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_copy_is_there_after_its_wait_and_a_barrier(completion: str) -> None:
    body = """
      cp.async.ca.shared.global [%rd9], [%rd10], 16;
      cp.async.commit_group;
      cp.async.wait_group 0;
      bar.sync 0;
      ld.shared.b32 %r3, [%rd8];
    """
    assert np.array_equal(run(body + STORE, completion=completion), X)


def test_a_copy_fills_up_with_zeros() -> None:
    body = """
      setp.lt.u32 %p1, %r1, 3; selp.b32 %r5, 4, 0, %p1;
      cp.async.ca.shared.global [%rd8], [%rd5], 4, %r5;
      cp.async.wait_all;
      ld.shared.b32 %r3, [%rd8];
    """
    assert np.array_equal(run(body + STORE), np.where(T < 3, X, 0))


ISSUE = "cp.async.ca.shared.global [%rd8], [%rd5], 4; cp.async.commit_group;"
READ = "ld.shared.b32 %r3, [%rd8];" + STORE
OTHERS = "xor.b32 %r9, %r1, 63; mul.wide.u32 %rd11, %r9, 4; add.s64 %rd12, %rd7, %rd11;"


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (ISSUE + READ, "in-flight"),
        (ISSUE + "cp.async.wait_group 1;" + READ, "in-flight"),
        (ISSUE + "st.shared.b32 [%rd8], %r1;", "in-flight"),
        ("cp.async.ca.shared.global [%rd8], [%rd5], 4; cp.async.wait_group 0;" + READ, "in-flight"),
        (ISSUE + ISSUE, "in-flight"),
        (ISSUE.replace("%rd5", "%rd6") + STORE.replace("%r3", "%r1"), "in-flight"),
        (ISSUE + "cp.async.wait_all;" + OTHERS + READ.replace("%rd8", "%rd12"), "race"),
        ("st.shared.b32 [%rd8], %r1; bar.sync 0;" + OTHERS + "ld.shared.b32 %r3, [%rd12];"
         + ISSUE, "race"),
        (OTHERS + "st.shared.b32 [%rd8], %r1; ld.shared.b32 %r3, [%rd12];", "race"),
        ("st.shared.b32 [%rd7], %r1;", "race"),
        ("st.global.b32 [%rd2], %r1;", "race"),
        ("ld.shared.b32 %r3, [%rd8];", "uninitialised"),
        ("st.global.b32 [%rd5], %r1;", "read-only"),
        ("st.global.b32 [%rd6+4], %r1;", "out-of-bounds"),
        ("st.shared.b32 [%rd8+1024], %r1;", "out-of-bounds"),
        ("ld.global.b32 %r3, [%rd5+1022];", "misaligned"),
        ("ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd6];", "misaligned"),
        ("cp.async.ca.shared.global [%rd9], [%rd10+4], 16;", "misaligned"),
        ("setp.lt.u32 %p1, %r1, 9; @%p1 bar.sync 0;", "diverged"),
        ("bar.sync 1, 96;", "deadlock"),
        ("frobnicate.b32 %r3, %r2;", "unknown-instruction"),
        ("$again: bra $again;", "step-limit"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(body: str, kind: str, completion: str) -> None:
    assert fault(body, completion=completion) == kind


def test_threads_that_part_meet_again() -> None:
    body = """
      mov.b32 %r3, 0;
      and.b32 %r4, %r1, 7;
    $loop:
      setp.eq.u32 %p1, %r4, 0;
      @%p1 bra $done;
      add.s32 %r3, %r3, %r4;
      sub.s32 %r4, %r4, 1;
      bra.uni $loop;
    $done:
      bar.sync 0;
    """
    small = T % 8
    assert np.array_equal(run(body + STORE), small * (small + 1) // 2)


def test_threads_choose_cases_of_a_table() -> None:
    body = """
      and.b32 %r4, %r1, 1;
      $cases: .branchtargets $even, $odd;
      brx.idx %r4, $cases;
    $even: mov.b32 %r3, 10; bra.uni $out;
    $odd: mov.b32 %r3, 11;
    $out:
    """
    assert np.array_equal(run(body + STORE), 10 + T % 2)


def test_calls_hand_over_arguments_and_results() -> None:
    function = """
    .func (.param .b32 result) twice(.param .b32 x)
    { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.s32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
    """
    body = """
      mov.b32 %r3, %r1;
      setp.lt.u32 %p1, %r1, 9;
      @!%p1 bra $out;
      { .param .b32 param0; .param .b32 retval0;
        st.param.b32 [param0], %r2;
        call.uni (retval0), twice, (param0);
        ld.param.b32 %r3, [retval0]; }
    $out:
    """
    assert np.array_equal(run(body + STORE, functions=function), np.where(T < 9, 2 * X, T))


HALVES = """
      setp.lt.u32 %p1, %r1, 32;
      @!%p1 bra $second;
      st.shared.b32 [%rd8], %r2;
      bar.arrive 1, 64;
      bra.uni $out;
    $second:
      {}
      ld.shared.b32 %r3, [%rd8+-128];
      st.global.b32 [%rd6], %r3;
    $out:
"""


def test_named_barriers_order_those_that_meet_there() -> None:
    found = run(HALVES.format("bar.sync 1, 64;").replace("{}", ""))
    assert np.array_equal(found[32:], X[:32])


def test_a_barrier_of_one_half_does_not_order_the_other() -> None:
    body = HALVES.replace("bar.arrive 1, 64;", "bar.sync 2, 32;").format("bar.sync 1, 32;")
    assert fault(body) == "race"


# Lane l reads what its warp's lane 31 - l stored, or what that of the other warp did.
OF_WARP = OTHERS.replace("63", "31") + "st.shared.b32 [%rd8], %r2; {} ld.shared.b32 %r3, [%rd12];"


def test_where_a_warp_meets_its_lanes_see_each_other() -> None:
    found = run(OF_WARP.format("bar.warp.sync -1;") + STORE)
    assert np.array_equal(found, X[T ^ 31])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (OF_WARP.format(""), "race"),
        (OF_WARP.replace("31", "63").format("bar.warp.sync -1;"), "race"),
        (OF_WARP.format("bar.warp.sync 65535;"), "unknown-instruction"),
        ("setp.lt.u32 %p1, %r1, 9; @%p1 bra $in; bra $out; $in: bar.warp.sync -1; exit; $out:"
         " bar.sync 0;", "diverged"),
    ],
)  # fmt: skip
def test_a_warp_that_does_not_meet_is_found(body: str, kind: str) -> None:
    assert fault(body) == kind


def test_atomics_do_not_race_with_each_other() -> None:
    body = """
      setp.eq.u32 %p1, %r1, 0;
      @%p1 st.shared.b32 [%rd7], %r1;
      bar.sync 0;
      red.shared.add.u32 [%rd7], 2;
      bar.sync 0;
      ld.shared.b32 %r3, [%rd7];
    """
    assert np.array_equal(run(body + STORE), np.full(64, 128))
    assert fault(body.replace("bar.sync 0;\n      ld", "ld")) == "race"


def test_static_shared_memory_has_a_limit() -> None:
    text = HEAD.replace("tile[1024]", "tile[49152]") + "ret; }"
    with pytest.raises(PtxFault, match="static-limit"):
        launch(parse(text.replace("tile;", "tile; mov.b64 %rd13, small;")), "k",
               [Array(np.zeros(64, np.uint32), 16), Array(np.zeros(64, np.uint32), 4)],
               block=(64, 1, 1))  # fmt: skip


def test_a_program_with_a_looser_wait_is_another_program() -> None:
    wait = "cp.async.wait_group 0;"
    text = HEAD + ISSUE + wait + READ + wait + "\nret;\n}\n"
    program = Program(parse(text), "k")

    def reads(program: Program) -> None:
        arrays = [Array(np.zeros(64, np.uint32), 16) for _ in range(2)]
        launch(program.module, "k", arrays, block=(64, 1, 1), program=program)

    reads(program)
    # After the read a wait may leave the copy in flight.
    before, after = program.with_looser_waits()
    with pytest.raises(PtxFault) as found:
        reads(before)
    assert found.value.kind == "in-flight"
    reads(after)
    reads(program)
