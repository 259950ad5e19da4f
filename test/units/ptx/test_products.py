"""Registers that products of warpgroups add to in PTX: one variable, so that who writes, reads or adds to them, and
when, is what the PTX says.

Covers: ptx/raise_ptx.py, ptx/function_writer.py, ptx/instructions.py, vocabulary/products.py,
checker/phases/registers_in_flight.py, machine/dialects/warpgroup.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
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


# Left factors in registers --------------------------------------------------------------------

LOADS = """\
ld.global.b32 %a0, [%d2];
  ld.global.b32 %a1, [%d2+256];
  ld.global.b32 %a2, [%d2+16];
  ld.global.b32 %a3, [%d2+272];"""
OF_REGISTERS = {
    "begin": "",
    "factors": LOADS,
    "fence": FENCE,
    "late": "",
    "product": "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%a0, %a1, %a2, %a3}, "
    "%d6, 1, 1, 1, 0;",
    "commit": COMMIT,
    "wait": WAIT,
    "end": "",
}


def with_registers(changes: dict[str, str]) -> str:
    """d (64 x 8) += n times a (64 x 16) by b (16 x 8), with a loaded into registers again each time."""
    parts = OF_REGISTERS | changes
    return f"""\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .u64 .ptr .global .align 16 b,
    .param .u64 .ptr .global .align 16 d, .param .u32 n)
.reqntid 128, 1, 1
{{
  .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<4>; .reg .b32 %a<4>;
  .shared .align 128 .b8 tile[256];
  ld.param.u64 %d1, [a];
  ld.param.u64 %d9, [b];
  ld.param.u64 %d10, [d];
  ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 1;
  cvt.u64.u32 %d4, %r3;
  add.s64 %d5, %d9, %d4;
  ld.global.u16 %h1, [%d5];
  add.u32 %r4, %r2, %r3;
  st.shared.u16 [%r4], %h1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r5, %r1, 5;
  shl.b32 %r5, %r5, 4;
  shr.u32 %r6, %r1, 2;
  and.b32 %r6, %r6, 7;
  add.u32 %r5, %r5, %r6;
  and.b32 %r7, %r1, 3;
  mul.wide.u32 %d2, %r5, 32;
  mul.wide.u32 %d3, %r7, 4;
  add.s64 %d2, %d2, %d3;
  add.s64 %d2, %d2, %d1;
  shr.u32 %r10, %r2, 4;
  cvt.u64.u32 %d6, %r10;
  and.b64 %d6, %d6, 16383;
  or.b64 %d6, %d6, 0x0000001000080000;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;
  mov.u32 %r8, 0;
  {parts["begin"]}
$again:
  {parts["factors"]}
  {parts["fence"]}
  {parts["late"]}
  {parts["product"]}
  {parts["commit"]}
  {parts["wait"]}
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p1, %r8, %r9;
  @%p1 bra $again;
  {parts["end"]}
  mul.wide.u32 %d7, %r5, 32;
  mul.wide.u32 %d8, %r7, 8;
  add.s64 %d7, %d7, %d8;
  add.s64 %d7, %d7, %d10;
  st.global.f32 [%d7], %f0;
  st.global.f32 [%d7+4], %f1;
  st.global.f32 [%d7+256], %f2;
  st.global.f32 [%d7+260], %f3;
  ret;
}}
"""


GOOD = {
    "as it is": {},
    "the factors are loaded once, and a product is in flight into the next iteration": {
        "begin": LOADS,
        "factors": "",
        "wait": WAIT.replace("0;", "1;"),
        "end": WAIT,
    },
    "two products of one shape in a row": {"late": OF_REGISTERS["product"]},
}
BAD = {
    "no fence": ({"fence": ""}, {"missing-register-fence"}),
    "the factors are written after the fence": ({"factors": "", "late": LOADS}, {"missing-register-fence"}),
    "a factor is written while a product reads it": (
        {"wait": WAIT.replace("0;", "1;"), "end": WAIT},
        {"source-overwritten"},
    ),
    "a factor is written after the product": (
        {"begin": LOADS, "factors": "", "commit": f"{LOADS}\n{COMMIT}"},
        {"source-overwritten"},
    ),
    "threads store the sums in flight": ({"wait": WAIT.replace("0;", "1;")}, {"read-in-flight", "source-overwritten"}),
}  # fmt: skip


def checked_with_registers(changes: dict[str, str]) -> tuple[str, set[str]]:
    text = with_registers(changes)
    options = {"assume_noalias_arguments": True}
    report = check_module(raise_ptx(text, new_context(), "k.ptx"), **options).report
    return verdict(report), codes(report)


@pytest.mark.parametrize("name", GOOD)
def test_products_with_factors_in_registers_are_proven(name: str) -> None:
    assert checked_with_registers(GOOD[name]) == ("safe", set())


@pytest.mark.parametrize("name", BAD)
def test_factors_and_sums_that_are_touched_in_flight_are_named(name: str) -> None:
    changes, found = BAD[name]
    told, named = checked_with_registers(changes)
    assert told == "unsafe"
    assert named <= found


def test_the_right_factor_is_read_while_the_product_is_in_flight() -> None:
    text = with_registers({"commit": f"st.shared.u16 [%r4], %h1;\n{COMMIT}"})
    report = check_module(
        raise_ptx(text, new_context(), "k.ptx"), assume_noalias_arguments=True
    ).report
    assert verdict(report) == "unsafe"
    assert "source-overwritten" in codes(report)


def test_a_product_in_assembly_is_one_instruction_with_its_registers() -> None:
    module = raise_ptx(with_registers({}), new_context(), "k.ptx")
    (product,) = [op for op in walk(module.operation) if op.name == "llvm.inline_asm"]
    assert str(product.attributes["constraints"]) == '"=f,=f,=f,=f,0,1,2,3,r,r,r,r,l"'
    text = str(product.attributes["asm_string"])
    assert "{$0,$1,$2,$3}, {$8,$9,$10,$11}, $12, p, 1, 1, 0; }" in text


@pytest.mark.parametrize("completion", machine.COMPLETIONS)
@pytest.mark.parametrize("steps", [1, 3])
def test_the_machine_multiplies_what_lanes_have(completion: str, steps: int) -> None:
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (64, 16)).astype(np.float16)
    b = random.integers(-4, 5, (16, 8)).astype(np.float16)
    # Chunks of 8 k, in each a line for each column.
    laid = np.ascontiguousarray(b.reshape(2, 8, 8).transpose(0, 2, 1))
    module = raise_ptx(with_registers({}), new_context(), "k.ptx")
    given = [a, laid, np.zeros((64, 8), np.float32), steps]
    result = machine.run(module, "k", given, threads=(128, 1, 1), grid=1, completion=completion)
    assert not result.races
    assert np.array_equal(result.arrays[2], steps * (a.astype(np.float32) @ b.astype(np.float32)))


# Registers that are no fields of a struct, as Triton writes them ----------------------------------

ALONE = """\
llvm.mlir.global internal @tile() {{addr_space = 3 : i32, alignment = 128 : i64}} : !llvm.array<4096 x i8>
llvm.func @k(%s: f32, %p: i32, %n: i32, %to: !llvm.ptr<1> {{llvm.noalias}})
    attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>}} {{
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %c4 = llvm.mlir.constant(4 : i32) : i32
  %low = llvm.mlir.constant(16383 : i64) : i64
  %layout = llvm.mlir.constant(68720001024 : i64) : i64
  %yes = llvm.mlir.constant(true) : i1
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %first = llvm.ptrtoint %tile : !llvm.ptr<3> to i32
  %chunk = llvm.lshr %first, %c4 : i32
  %wide = llvm.zext %chunk : i32 to i64
  %named = llvm.and %wide, %low : i64
  %d = llvm.or %named, %layout : i64
  llvm.br ^again(%n, %s, %s, %s, %s : i32, f32, f32, f32, f32)
^again(%k: i32, %s0: f32, %s1: f32, %s2: f32, %s3: f32):
  {before}
  nvvm.wgmma.fence.aligned
  {after}
  %x = llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{$0,$1,$2,$3}}, {{$8,$9,$10,$11}}, $12, $13, 1, 1, 0;", "=f,=f,=f,=f,0,1,2,3,r,r,r,r,l,b" %q0, %q1, %q2, %q3, %a, %b, %a, %b, %d, %yes : (f32, f32, f32, f32, i32, i32, i32, i32, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  nvvm.wgmma.commit.group.sync.aligned
  nvvm.wgmma.wait.group.sync.aligned {left}
  %x0 = llvm.extractvalue %x[0] : !llvm.struct<(f32, f32, f32, f32)>
  %x1 = llvm.extractvalue %x[1] : !llvm.struct<(f32, f32, f32, f32)>
  %x2 = llvm.extractvalue %x[2] : !llvm.struct<(f32, f32, f32, f32)>
  %x3 = llvm.extractvalue %x[3] : !llvm.struct<(f32, f32, f32, f32)>
  %next = llvm.sub %k, %c1 : i32
  %more = llvm.icmp "sgt" %next, %c1 : i32
  llvm.cond_br %more, ^again(%next, %x0, %x1, %x2, %x3 : i32, f32, f32, f32, f32), ^end
^end:
  llvm.return
}}
"""
SCALED = "\n  ".join(f"%q{n} = llvm.fmul %s{n}, %s : f32" for n in range(4))
MADE = "%a = llvm.add %p, %k : i32\n  %b = llvm.add %a, %k : i32"


def alone(before: str, after: str = "", left: int = 0) -> tuple[str, set[str]]:
    report = check_module(parse(ALONE.format(before=before, after=after, left=left))).report
    return verdict(report), codes(report)


def test_registers_that_are_computed_before_the_fence_are_proven() -> None:
    assert alone(f"{SCALED}\n  {MADE}") == ("safe", set())


@pytest.mark.parametrize(("before", "after"), [(SCALED, MADE), (MADE, SCALED)])
def test_registers_that_are_computed_after_the_fence_are_named(before: str, after: str) -> None:
    """Factors of integers, and sums of floats, on which no address depends."""
    assert alone(before, after) == ("unsafe", {"missing-register-fence"})


def test_registers_that_are_handed_on_while_a_product_is_in_flight_are_named() -> None:
    found, named = alone(f"{SCALED}\n  {MADE}", left=1)
    assert found == "unsafe"
    assert named == {"read-in-flight"}


def carried(end: str) -> str:
    """Sums that a product adds to as the iteration before left them, scaled at its end; `end` follows."""
    before = f"{MADE}"
    text = ALONE.format(before=before, after="", left=0)
    for n in range(4):
        text = text.replace(f"%q{n}", f"%s{n}").replace(f"%k, %x{n}", f"%k, %y{n}")
    scaled = "".join(f"  %y{n} = llvm.fmul %x{n}, %s : f32\n" for n in range(4))
    given = "^again(%next, %y0, %y1, %y2, %y3"
    text = text.replace("  %next =", f"{scaled}  {end}\n  %next =")
    return text.replace("^again(%next, %x0, %x1, %x2, %x3", given)


FENCED = "nvvm.wgmma.fence.aligned"


def test_registers_that_a_branch_hands_on_are_those_of_the_next_product() -> None:
    """Where a fence comes since they were computed, before the branch or after it."""
    for text in (carried(""), carried(FENCED)):
        report = check_module(parse(text)).report
        assert (verdict(report), codes(report)) == ("safe", set())


@pytest.mark.parametrize("loop", ["branches", "scf"])
def test_registers_that_are_handed_on_without_a_fence_are_named(loop: str) -> None:
    """That of the first iteration stands before the loop, and the factors are made there, too."""
    text = carried("").replace(f"  {MADE}\n  {FENCED}\n", "")
    made = f"  %a = llvm.add %p, %n : i32\n  %b = llvm.add %a, %n : i32\n  {FENCED}\n"
    text = text.replace("  llvm.br ^again", made + "  llvm.br ^again")
    assert text.count(FENCED) == 1
    if loop == "scf":
        names, kinds = "%y0, %y1, %y2, %y3", "f32, f32, f32, f32"
        start = ", ".join(f"%s{n} = %s" for n in range(4))
        body = text[text.index("^again(%k") :].split("\n", 1)[1].split("  %next =")[0]
        head = text[: text.index("  llvm.br ^again")]
        loop_of = (
            f"  %r:4 = scf.for %k = %c1 to %n step %c1 iter_args({start}) -> ({kinds}) : i32 {{\n"
        )
        text = f"{head}{loop_of}{body}  scf.yield {names} : {kinds}\n  }}\n  llvm.return\n}}\n"
    report = check_module(parse(text)).report
    assert (verdict(report), codes(report)) == ("unsafe", {"missing-register-fence"})


# Both factors in memory: the registers are put into a struct, where they are computed.
DESCRIBED = ALONE.replace(
    "{{$8,$9,$10,$11}}, $12, $13, 1, 1, 0;", "$8, $9, $10, 1, 1, 0, 0;"
).replace("r,r,r,r,l,b", "l,l,b")
DESCRIBED = DESCRIBED.replace("%a, %b, %a, %b, %d, %yes", "%d, %d, %yes").replace(
    "i32, i32, i32, i32, i64, i1", "i64, i64, i1"
)


def described(before: str, after: str = "") -> tuple[str, set[str]]:
    report = check_module(parse(DESCRIBED.format(before=before, after=after, left=0))).report
    return verdict(report), codes(report)


def test_sums_that_are_computed_before_the_fence_are_proven() -> None:
    assert described(SCALED) == ("safe", set())
    carried = "\n  ".join(f"%q{n} = llvm.bitcast %s{n} : f32 to f32" for n in range(4))
    assert described(carried) == ("safe", set())


def test_sums_that_are_computed_after_the_fence_are_named() -> None:
    assert described("", SCALED) == ("unsafe", {"missing-register-fence"})
    first, *rest = SCALED.split("\n")
    assert described("\n".join(rest), first) == ("unsafe", {"missing-register-fence"})
