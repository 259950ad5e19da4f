"""PTX files: their loops, guards, waits and parameters as ops; what is no PTX, with its line and column.

Covers: ptx/raise_ptx.py, ptx/syntax.py, ptx/divisions.py, tool/inputs.py, tool/parsing.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlir_async_pipe as ap
from helpers.check_harness import codes
from helpers.driver_process import opt
from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import constant_value, walk
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.ptx.divisions import divisor
from mlir_async_pipe.ptx.function_writer import promoted
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.tool.inputs import Source

RING = (ROOT / "examples" / "handwritten" / "ring.ptx").read_text()


def check(text: str):
    module = raise_ptx(text, new_context(), "sum.ptx")
    return ap.check(module, assume_noalias_arguments=True)


def names(text: str) -> list[str]:
    return [op.name for op in walk(raise_ptx(text, new_context(), "k.ptx").operation)]


def kernel(
    body: str, registers: str = ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;"
) -> str:
    head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x)\n"
    return f"{head}{{\n{registers}\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("mov.b32 %r0, 1; add.s32 %r1, %r0, %r0; st.global.b32 [%d1], %r1;", 1),
        ("mov.b32 %r0, 1; bra l; l: st.global.b32 [%d1], %r0;", 2),
        ("again: add.s32 %r0, %r0, 1; setp.lt.s32 %p0, %r0, 9; @%p0 bra again;", 1),
        ("mov.b32 %r0, 1; @%p0 mov.b32 %r0, 2; st.global.b32 [%d1], %r0;", 2),
        ("mov.b32 %r0, 1; @%p0 st.global.b32 [%d1], %r0; st.global.b32 [%d1], %r0;", 3),
    ],
)
def test_only_registers_that_a_block_takes_from_another_have_variables(
    body: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mem2reg looks at all ops for each: 5000 variables took it 3.7 s."""
    seen: list[str] = []
    monkeypatch.setattr(
        "mlir_async_pipe.ptx.raise_ptx.promoted",
        lambda text, context: seen.append(text) or promoted(text, context),
    )
    raise_ptx(kernel(body + " ret;"), new_context(), "k.ptx")
    assert seen[0].count('"llvm.alloca"') == count


def test_a_ring_by_hand_is_proven() -> None:
    (found,) = check(RING).of("checks")
    assert (found.unsafe, found.unknown) == (0, 0) and found.accesses >= 4


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("wait_group 1", "wait_group 2", "read-in-flight", 45),
        ("bar.sync 0;", "", "not-visible", 45),
        ("%r9, 3;\n  shl.b32 %r11", "%r9, 0;\n  shl.b32 %r11", "read-in-flight", 45),
    ],
)
def test_what_is_broken_is_reported_at_the_line_of_the_instruction(
    old: str, new: str, code: str, line: int
) -> None:
    """One more group in flight; no barrier behind the wait; the copies ahead in the slot that is read."""
    assert RING.count(old) == 1
    report = check(RING.replace(old, new))
    assert code in codes(report)
    places = [one.place for one in report.diagnostics if one.severity == "error"]
    assert ("sum.ptx", line) in [(place.file, place.line) for place in places]


# Bits of the slots, 2048 bytes each, that a compiler does not know: of copy 4 k + 7 + u, and of tile 4 k + u.
COPIED, READ = (7, 4, 5, 6), (4, 5, 6, 7)


def unrolled_ring(
    left: int = 6, copied: tuple[int, ...] = COPIED, barrier: str = "bar.sync 0;"
) -> str:
    """A ring of eight slots, seven tiles ahead, whose loop is unrolled four times: where bits of a slot are known to be 0 they
    are left out of its mask, as NVRTC writes it."""
    fill = "".join(
        f"cp.async.cg.shared.global [%t+{2048 * s}], [%x+{2048 * s}], 16; cp.async.commit_group;\n"
        for s in range(7)
    )
    bodies = "".join(
        f"""cp.async.wait_group {left}; {barrier}
        add.s32 %a, %i, {7 + u}; setp.lt.s32 %p1, %a, %n; shl.b32 %b, %a, 11; and.b32 %b, %b, {copied[u] << 11};
        add.s32 %b, %t, %b; mul.wide.s32 %o, %a, 2048; add.s64 %o, %x, %o;
        @%p1 cp.async.cg.shared.global [%b], [%o], 16; cp.async.commit_group;
        shl.b32 %b, %i, 11; add.s32 %b, %b, {2048 * u}; and.b32 %b, %b, {READ[u] << 11}; add.s32 %b, %r, %b;
        ld.shared.f32 %v, [%b]; add.f32 %sum, %sum, %v;
        """
        for u in range(4)
    )
    return f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 x, .param .u64 y, .param .u32 n)
.reqntid 128, 1, 1
{{
  .reg .pred %p<4>; .reg .b32 %n, %t, %r, %i, %a, %b; .reg .b64 %x, %y, %o; .reg .f32 %v, %sum;
  .shared .align 16 .b8 tile[16384];
  ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u32 %n, [n];
  cvta.to.global.u64 %x, %x; cvta.to.global.u64 %y, %y;
  mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 16; add.s64 %x, %x, %o; mul.wide.u32 %o, %i, 4; add.s64 %y, %y, %o;
  shl.b32 %i, %i, 4; mov.u32 %t, tile; xor.b32 %r, %i, 16; add.s32 %r, %t, %r; add.s32 %t, %t, %i;
  mov.f32 %sum, 0f00000000; and.b32 %n, %n, 0xfffc; setp.eq.s32 %p2, %n, 0;
  {fill}
  mov.u32 %i, 0; @%p2 bra $done;
$again:
  {bodies}
  add.s32 %i, %i, 4; setp.ne.s32 %p3, %i, %n; @%p3 bra $again;
$done:
  st.global.f32 [%y], %sum; ret;
}}
"""


def test_a_ring_whose_masks_leave_bits_out_is_proven() -> None:
    (summary,) = check(unrolled_ring()).of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)
    module = raise_ptx(unrolled_ring(), new_context(), "k.ptx")
    x = np.arange(12 * 512, dtype=np.float32) % 7
    result = machine.run(module, "sum", [x, np.zeros(128, np.float32), 12], threads=128)
    threads = np.arange(128)
    assert not result.races
    np.testing.assert_array_equal(
        result.arrays[1], x.reshape(12, 128, 4)[:, threads ^ 1, 0].sum(axis=0)
    )


@pytest.mark.parametrize(
    "changes", [{"left": 7}, {"copied": (7, 4, 1, 6)}, {"copied": (3, 4, 5, 6)}, {"barrier": ""}]
)
def test_a_ring_with_another_mask_or_a_weaker_wait_is_not(changes: dict) -> None:
    text = unrolled_ring(**changes)
    (summary,) = check(text).of("checks")
    assert summary.unsafe + summary.unknown
    module = raise_ptx(text, new_context(), "k.ptx")
    arguments = [np.zeros(20 * 512, np.float32), np.zeros(128, np.float32), 20]
    assert machine.run(module, "sum", arguments, threads=128, completion="late").races


def test_a_guarded_copy_is_a_branch_and_a_guarded_number_a_choice() -> None:
    guarded = kernel("@%p1 st.shared.u32 [%r1], %r2;\n@%p1 st.shared.u32 [%r1+4], %r2;\nret;")
    assert names(guarded).count("llvm.cond_br") == 1
    chosen = kernel("mov.u32 %r1, 1;\n@!%p1 mov.u32 %r1, 2;\nst.shared.u32 [%r2], %r1;\nret;")
    assert "llvm.select" in names(chosen) and "llvm.cond_br" not in names(chosen)


@pytest.mark.parametrize(
    "loop",
    [
        "$w:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;\n@!%p1 bra $w;",
        "{\n.reg .pred q;\nw:\nmbarrier.try_wait.parity.shared::cta.b64 q, [%r1], %r2;\n@q bra done;\nbra w;\ndone:\n}",
    ],
)
def test_a_loop_that_asks_an_mbarrier_is_a_wait(loop: str) -> None:
    found = names(kernel(f"{loop}\nret;"))
    assert "nvvm.mbarrier.try_wait.parity" in found and "llvm.cond_br" not in found


def test_labels_and_registers_of_a_scope_are_its_own() -> None:
    one = "{\n.reg .b32 t;\nmov.u32 t, {};\nst.shared.u32 [%r1], t;\nbra out;\nout:\n}\n"
    found = names(kernel(one.replace("{}", "1", 1) + one.replace("{}", "2", 1) + "ret;"))
    assert found.count("llvm.store") == 2


def test_a_switch_by_a_table_of_labels() -> None:
    text = "$t: .branchtargets $a, $b;\nbrx.idx %r1, $t;\n$a:\nret;\n$b:\nbar.sync 0;\nret;"
    assert "llvm.switch" in names(kernel(text))


@pytest.mark.parametrize(
    ("parameter", "body", "kind"),
    [
        (".u64 .ptr .global .align 16 x", "", "!llvm.ptr<1>"),
        (".u64 x", "cvta.to.global.u64 %d1, %d1; ld.global.u32 %r1, [%d1];", "!llvm.ptr<1>"),
        (".u64 x", "ld.u32 %r1, [%d1];", "!llvm.ptr"),
        (".u64 x", "shl.b64 %d2, %d1, 2; st.shared.u64 [%r1], %d2;", "i64"),
    ],
)
def test_a_parameter_is_a_pointer_where_it_leads_to_memory(
    parameter: str, body: str, kind: str
) -> None:
    text = kernel(f"ld.param.u64 %d1, [x];\n{body}\nret;").replace(".u64 x", parameter)
    module = raise_ptx(text, new_context(), "k.ptx")
    (function,) = [op for op in walk(module.operation) if op.name == "llvm.func"]
    assert str(function.regions[0].blocks[0].arguments[0].type) == kind


def test_of_an_address_and_an_offset_that_are_both_parameters_the_converted_one_is_the_pointer() -> (
    None
):
    text = kernel(
        "ld.param.u64 %d1, [x];\nld.param.u64 %d2, [o];\ncvta.to.global.u64 %d3, %d1;\n"
        "add.s64 %d4, %d3, %d2;\nld.global.u32 %r1, [%d4];\nret;"
    ).replace(".param .u64 x", ".param .u64 x, .param .u64 o")
    module = raise_ptx(text, new_context(), "k.ptx")
    (function,) = [op for op in walk(module.operation) if op.name == "llvm.func"]
    kinds = [str(one.type) for one in function.regions[0].blocks[0].arguments]
    assert kinds == ["!llvm.ptr<1>", "i64"]


@pytest.mark.parametrize(
    ("factor", "shift", "bits", "wanted"),
    [
        (2863311531, 33, 32, 3),
        (3435973837, 34, 32, 5),
        (2863311531, 32, 32, None),
        (1431655766, 32, 31, 3),
        (1431655766, 32, 32, None),
        (7, 4, 8, None),
    ],
)
def test_the_divisor_of_a_product_and_a_shift(
    factor: int, shift: int, bits: int, wanted: int | None
) -> None:
    assert divisor(factor, shift, bits) == wanted
    if wanted is not None:
        for x in (0, 1, wanted - 1, wanted, 2**bits - wanted, 2**bits - 1):
            assert factor * x >> shift == x // wanted


def test_a_remainder_that_is_written_as_products_is_one_again() -> None:
    text = kernel(
        "mul.wide.u32 %d1, %r1, -1431655765;\nshr.u64 %d2, %d1, 33;\ncvt.u32.u64 %r2, %d2;\n"
        "mul.lo.s32 %r3, %r2, 3;\nsub.s32 %r4, %r1, %r3;\nst.shared.u32 [%r5], %r4;\nret;"
    )
    assert "llvm.urem" in names(text)


def test_a_division_of_64_bits_leaves_no_product_of_128() -> None:
    text = kernel(
        "mul.hi.u64 %d2, %d1, -6148914691236517205;\nshr.u64 %d3, %d2, 1;\nst.shared.u64 [%r5], %d3;\nret;"
    )
    module = str(raise_ptx(text, new_context(), "k.ptx"))
    assert "llvm.udiv" in module and "i128" not in module


@pytest.mark.parametrize(
    ("text", "line", "reported"),
    [
        ("add.s32 %r1, %r2, 4;", 1, "PTX begins with '.version'"),
        (".version 8.0\n.target sm_80\n.tile x;", 3, "'.tile' is no directive"),
        (kernel("mov.u32 %q1, 4;"), 7, "'%q1' is declared nowhere"),
        (kernel("mov.u32 %r1, nobody;"), 7, "'nobody' is declared nowhere"),
        (kernel("mov.u32 %r1, %tid.w;"), 7, "'%tid.w' is no register"),
        (kernel("bra $nowhere;"), 4, "no label '$nowhere'"),
        (kernel("ld.shared.u32 %r1, [%r2"), 8, "expected ']', found '}'"),
        (kernel("ret;").rstrip("}\n"), 7, "the end of the file"),
        (kernel("ret;", ".reg .v4f32 %v<2>;"), 4, "registers of type .v4f32"),
    ],
)
def test_what_is_no_ptx_is_one_located_error(text: str, line: int, reported: str) -> None:
    with pytest.raises(InputError) as refused:
        raise_ptx(text, new_context(), "k.ptx")
    assert reported in refused.value.diagnostic.message
    assert (refused.value.diagnostic.place.file, refused.value.diagnostic.place.line) == (
        "k.ptx",
        line,
    )


def test_the_tool_takes_ptx_for_what_it_is(tmp_path: Path) -> None:
    """By its first word, whatever its name; an error shows the line of the instruction."""
    file = tmp_path / "sum.txt"
    file.write_text("// a comment\n" + RING.replace("wait_group 1", "wait_group 2"))
    ended = opt(file, "--check-only", "-o", tmp_path / "out")
    assert ended.code == 1
    assert "read-in-flight" in ended.err and "ld.shared.f32 %f2, [%r15];" in ended.err


def test_bindings_with_another_nvvm_dialect_are_refused(tmp_path: Path) -> None:
    """A store of one register to tensor memory takes a vector there."""
    path = tmp_path / "store.ptx"
    path.write_text(
        ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<3>;\n"
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2};\nret;\n}\n"
    )
    ended = opt(path, "--bindings=flydsl")
    assert ended.code == 1 and "[ptx-bindings]" in ended.err and not ended.out


def test_other_bindings_read_what_their_dialect_has() -> None:
    ended = opt(ROOT / "examples" / "handwritten" / "ring.ptx", "--bindings=flydsl", "--check-only")
    assert ended.code == 0, ended.err


def test_many_lines_and_comments_before_mlir_are_not_read_again_and_again() -> None:
    """Where each could be one blank or many, asking for PTX behind them would take for ever."""
    blank = b"\n" * 5000 + b"//  a b  // c\n" * 200
    assert not Source("k", blank + b"module {}").is_ptx
    assert Source("k", blank + b"/* no */ .version 8.0\n").is_ptx


COUNTED = """ld.param.u64 %d1, [x];
cvta.to.global.u64 %d2, %d1;
mov.u32 %r1, %ctaid.x;
{first}
$again:
shl.b64 %d4, %d3, 2;
add.s64 %d5, %d4, %d2;
st.global.u32 [%d5], %r1;
add.s64 %d3, %d3, {step};
setp.lt.s64 %p1, %d3, 100;
@%p1 bra $again;
ret;"""


@pytest.mark.parametrize(
    ("first", "step", "kind"),
    [
        ("cvt.u64.u32 %d3, %r1;", "4", "argument"),
        ("mov.u64 %d3, 0;", "%d6", "argument"),
        # Nobody says what is loaded; an address is added again and again.
        ("ld.global.u64 %d3, [%d2];", "4", "unknown"),
        ("cvt.u64.u32 %d3, %r1;", "%d2", "unknown"),
    ],
)
def test_an_address_may_count_by_a_number_that_a_loop_carries(
    first: str, step: str, kind: str
) -> None:
    """If what it begins with holds no address, and what is added to it holds none."""
    count = "mov.u32 %r2, %nctaid.x;\ncvt.u64.u32 %d6, %r2;\n"
    text = kernel(count + COUNTED.format(first=first, step=step))
    module = raise_ptx(text, new_context(), "k.ptx")
    (store,) = [op for op in walk(module.operation) if op.name == "llvm.store"]
    assert root_of(store.operands[1]).kind == kind


BOTH_WIDTHS = """ld.param.u64 %d1, [x];
mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 16;
add.s64 %d3, %d1, %d2;
ld.global.v2.u64 {{%d4, %d5}}, [%d3];
or.b64 %d6, %d4, %d5;
and.b64 %d6, %d6, {mask};
setp.ne.b64 %p1, %d6, 0;
@{guard} bra $narrow;
div.u64 %d7, %d4, %d5;
bra.uni $done;
$narrow:
cvt.u32.u64 %r2, {a};
cvt.u32.u64 %r3, %d5;
div.u32 %r4, %r2, %r3;
cvt.u64.u32 %d7, %r4;
$done:
st.global.u64 [%d3], %d7;
ret;"""
WIDTHS = {"mask": "-4294967296", "guard": "!%p1", "a": "%d4"}


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [({}, True), ({"guard": "%p1"}, False), ({"mask": "-65536"}, False), ({"a": "%d5"}, False)],
)
def test_a_division_of_one_of_two_widths_is_one_division(changes: dict, is_one: bool) -> None:
    text = kernel(BOTH_WIDTHS.format(**(WIDTHS | changes)))
    module = raise_ptx(text, new_context(), "k.ptx")
    branch = next(op for op in walk(module.operation) if op.name == "llvm.cond_br")
    assert (constant_value(branch.operands[0]) is not None) is is_one
    if is_one:
        pairs = np.random.default_rng(5).integers(1, 2**40, (32, 2), dtype=np.uint64)
        pairs[:9] %= 1000
        pairs += 1
        wanted = pairs[:, 0] // pairs[:, 1]
        result = machine.run(module, "k", [pairs], threads=32)
        assert np.array_equal(result.arrays[0][:, 0], wanted)
