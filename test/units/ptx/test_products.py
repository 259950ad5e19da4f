"""Registers that products of warpgroups add to in PTX: one variable, so that who writes, reads or adds to them, and
when, is what the PTX says.

Covers: ptx/raise_ptx.py, ptx/function_writer.py, ptx/instructions.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_module, codes, verdict
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx

SUMS = 32
NAMES = [f"%f{n}" for n in range(SUMS)]
OTHERS = [f"%g{n}" for n in range(SUMS)]


def listed(names: list[str]) -> str:
    return f"{{{', '.join(names)}}}"


def each(line: str, *names: list[str]) -> str:
    return "\n".join(line.format(*some) for some in zip(*names, strict=True))


PRODUCT = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
FENCE, COMMIT, WAIT = (
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
)
FACTORS = "%d3, %d3, {}, 1, 1, 0, 0"
PARTS = {
    "zeros": each("mov.f32 {}, 0f00000000;", NAMES),
    "before": "",
    "fence": FENCE,
    "first": f"{PRODUCT} {listed(NAMES)}, {FACTORS.format(1)};",
    "between": "",
    "second": f"{PRODUCT} {listed(NAMES)}, {FACTORS.format(1)};",
    "wait": WAIT,
    "after": "",
    "end": "",
}


def kernel(changes: dict[str, str]) -> str:
    """A loop that adds two products to 32 registers."""
    parts = PARTS | changes
    return f"""\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 x, .param .u32 n)
.reqntid 128, 1, 1
{{
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .f32 %f<{SUMS}>; .reg .f32 %g<{SUMS}>;
  .shared .align 128 .b8 tile[16384];
  ld.param.u64 %d1, [x];
  ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  shr.u32 %r3, %r2, 4;
  cvt.u64.u32 %d2, %r3;
  and.b64 %d2, %d2, 16383;
  or.b64 %d3, %d2, 0x4000004000010000;
  mov.u32 %r8, 0;
  {parts["zeros"]}
$again:
  {parts["before"]}
  {parts["fence"]}
  {parts["first"]}
  {parts["between"]}
  {parts["second"]}
  {COMMIT}
  {parts["wait"]}
  {parts["after"]}
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p1, %r8, %r9;
  @%p1 bra $again;
  {parts["end"]}
  mul.wide.u32 %d4, %r1, 128;
  add.s64 %d5, %d1, %d4;
  {"".join(f"st.global.f32 [%d5+{4 * n}], {name};" for n, name in enumerate(NAMES))}
  ret;
}}
"""


HALVES = each("mul.rn.f32 {0}, {0}, 0f3F000000;", NAMES)
MOVED = each("mov.f32 {0}, {1};", OTHERS, NAMES)
BACK = each("mov.f32 {0}, {1};", NAMES, OTHERS)
RIGHT = {
    "as it is": {},
    "one group is in flight into the next iteration": {"wait": WAIT.replace("0;", "1;"), "end": WAIT},
    "threads scale the sums before the fence": {"before": HALVES},
    "threads scale them after the wait": {"after": HALVES},
    "a number says whether the sums begin at 0": {
        "zeros": "",
        "before": "setp.ne.u32 %p2, %r8, 0;",
        "first": PARTS["first"].replace(", 1, 1, 1,", ", %p2, 1, 1,"),
    },
    "they begin at 0 always": {
        "zeros": "",
        "first": PARTS["first"].replace(", 1, 1, 1,", ", 0, 1, 1,"),
    },
    "they are moved between two products": {
        "between": MOVED,
        "second": PARTS["second"].replace("%f", "%g"),
        "after": BACK,
    },
}  # fmt: skip
WRONG = {
    "no fence": ({"fence": ""}, {"missing-register-fence"}),
    "threads scale them after the fence": ({"before": FENCE, "fence": HALVES}, {"missing-register-fence"}),
    "threads scale them between products": ({"between": HALVES}, {"read-in-flight", "missing-register-fence"}),
    "a group is in flight at the end": ({"wait": WAIT.replace("0;", "1;")}, {"read-in-flight"}),
    "threads scale what is in flight": (
        {"wait": WAIT.replace("0;", "1;"), "after": HALVES, "end": WAIT},
        {"read-in-flight"},
    ),
}  # fmt: skip


def checked(changes: dict[str, str]) -> tuple[str, set[str]]:
    report = check_module(raise_ptx(kernel(changes), new_context(), "k.ptx")).report
    return verdict(report), codes(report)


@pytest.mark.parametrize("name", RIGHT)
def test_products_between_fence_and_wait_are_proven(name: str) -> None:
    assert checked(RIGHT[name]) == ("safe", set())


@pytest.mark.parametrize("name", WRONG)
def test_registers_that_threads_touch_too_late_or_too_early_are_named(name: str) -> None:
    changes, found = WRONG[name]
    told, named = checked(changes)
    assert told == "unsafe"
    assert named <= found


def test_lists_that_share_some_registers_are_not_read() -> None:
    half = f"wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {listed(NAMES[:16])}, {FACTORS.format(1)};"
    assert checked({"second": half})[0] == "unknown"
