"""Inline assembly whose instructions have rows is what they are, for the checker; other text may do anything.

Covers: ptx/__init__.py, ptx/assembly.py, checker/check_pass.py, checker/selection.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.check_harness import check_module, codes
from helpers.driver_process import opt
from helpers.machine_programs import parse
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.checker.as_read import as_read
from mlir_async_pipe.ptx import with_assembly_read
from mlir_async_pipe.ptx.assembly import raise_assembly

# As Triton writes its copies: predicated, the number of bytes an operand, all in text.
KERNEL = """\
llvm.mlir.global internal @tile() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<4096 x i8>
llvm.func @k(%from: !llvm.ptr<1> {{llvm.noalias}}, %to: !llvm.ptr<1> {{llvm.noalias}}, %n: i32)
    attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>}} {{
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %c7 = llvm.mlir.constant(7 : i32) : i32
  %c4 = llvm.mlir.constant(4 : i32) : i32
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %bytes = llvm.mul %t, %c16 : i32
  %near = llvm.getelementptr %tile[%bytes] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  %far = llvm.getelementptr %from[%bytes] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
  %more = llvm.icmp "slt" %c7, %n : i32
  llvm.inline_asm has_side_effects "{copy}", "r,l,b" %near, %far, %more : (!llvm.ptr<3>, !llvm.ptr<1>, i1) -> ()
  llvm.inline_asm has_side_effects "cp.async.commit_group ;", "" : () -> ()
  llvm.inline_asm has_side_effects "{wait}", "" : () -> ()
  llvm.inline_asm has_side_effects "bar.sync 0;", "" : () -> ()
  %other = llvm.xor %bytes, %c16 : i32
  %read = llvm.getelementptr %tile[%other] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  %v = llvm.inline_asm has_side_effects "ld.shared.b32 $0, [$1+4];", "=r,r" %read : (!llvm.ptr<3>) -> i32
  %at = llvm.mul %t, %c4 : i32
  %out = llvm.getelementptr %to[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
  llvm.inline_asm has_side_effects "@$2 st.global.b32 [$0], $1;", "l,r,b" %out, %v, %more : (!llvm.ptr<1>, i32, i1) -> ()
  llvm.return
}}
"""
COPY = "@$2 cp.async.cg.shared.global [ $0 + 0 ], [ $1 + 0 ], 0x10, 0x10;"


def kernel(copy: str = COPY, wait: str = "cp.async.wait_group 0x0;") -> str:
    return KERNEL.format(copy=copy, wait=wait)


def verdict(text: str) -> tuple[set[str], int, int]:
    report = check_module(parse(text)).report
    (found,) = report.of("checks")
    return codes(report), found.unsafe, found.unknown


def test_copies_waits_and_accesses_in_assembly_are_proven() -> None:
    assert verdict(kernel()) == (set(), 0, 0)


def test_a_register_may_be_given_as_a_vector_of_one_element() -> None:
    one = '"@$2 st.global.b32 [$0], $1;", "l,r,b" %out, %v, %more : (!llvm.ptr<1>, i32, i1)'
    vector = one.replace("%v", "%w").replace("i32, i1", "vector<1xi32>, i1")
    text = kernel().replace(one, vector)
    text = text.replace("  %at =", "  %w = llvm.bitcast %v : i32 to vector<1xi32>\n  %at =")
    assert vector in text
    assert verdict(text) == (set(), 0, 0)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("wait_group 0x0", "wait_group 1", "read-in-flight"),
        ("bar.sync 0;", "// nothing", "not-visible"),
        ("cp.async.commit_group ;", "// nothing", "read-in-flight"),
        (
            '"@$2 st.global.b32 [$0], $1;"',
            '"st.global.b32 [$0+4], $1; st.global.b32 [$0], $1;"',
            "missing-barrier",
        ),
    ],
)
def test_what_is_broken_in_assembly_is_named(old: str, new: str, code: str) -> None:
    assert old in kernel()
    assert code in verdict(kernel().replace(old, new))[0]


@pytest.mark.parametrize(
    "wait",
    [
        "cp.async.wait_group 0; st.async.b32 [%r1], %r2;",
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];",
        "this is no PTX",
        "cp.async.wait_group 0; @!p bra nowhere;",
        "exit;",
        "{ .reg .pred q; setp.eq.u32 q, 0, 0; @q exit; }",
        "trap;",
        "again: bra again;",
    ],
)
def test_assembly_with_anything_that_is_not_known_may_do_anything(wait: str) -> None:
    _, unsafe, unknown = verdict(kernel(wait=wait))
    assert not unsafe and unknown


def test_the_module_that_is_checked_stays_as_it_is() -> None:
    module = parse(kernel())
    before = str(module)
    check_module(module)
    assert str(module) == before


def test_a_module_without_assembly_is_not_copied() -> None:
    module = parse("llvm.func @f() { llvm.return }")
    assert with_assembly_read(module.operation) == module.operation


def test_straight_assembly_is_written_in_its_place_and_branches_as_a_function() -> None:
    module = parse(kernel())
    assert raise_assembly(module.operation) == 6
    names = [op.name for op in walk(module.operation)]
    assert names.count("llvm.call") == 2 and "llvm.inline_asm" not in names
    assert names.index("nvvm.barrier") > names.index("nvvm.cp.async.wait.group") > 0


def test_several_results_tied_operands_and_numbers() -> None:
    module = parse(
        "llvm.func @f(%p: !llvm.ptr<3>, %q: i32) -> i32 {\n"
        "  %c = llvm.mlir.constant(8 : i32) : i32\n"
        '  %r = llvm.inline_asm has_side_effects "{ ld.shared.v2.b32 {$0, $1}, [$2]; add.s32 $0, $0, $4; }", "=r,=r,r,0,n" '
        "%p, %q, %c : (!llvm.ptr<3>, i32, i32) -> !llvm.struct<(i32, i32)>\n"
        "  %v = llvm.extractvalue %r[1] : !llvm.struct<(i32, i32)>\n  llvm.return %v : i32\n}"
    )
    assert raise_assembly(module.operation) == 1
    assert module.operation.verify() and "llvm.inline_asm" not in str(module)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('"bar.sync 0;", "" : () -> ()', True),
        ('"bar.sync $0, 128;", "r" %n : (i32) -> ()', True),
        # Their op takes a vector of one register.
        (
            '"tcgen05.st.sync.aligned.32x32b.x1.b32 [$0], {$1};", "r,r" %n, %n : (i32, i32) -> ()',
            False,
        ),
    ],
)
def test_bindings_with_other_ops_leave_assembly_as_it_is(
    text: str, read: bool, tmp_path: Path
) -> None:
    """What is not read is unknown, and no error of ours."""
    file = tmp_path / "k.mlir"
    file.write_text(
        "llvm.func @k(%n: i32) attributes {nvvm.kernel} {\n"
        f"  llvm.inline_asm has_side_effects {text}\n  llvm.return\n}}\n"
    )
    ended = opt(file, "--bindings=flydsl", "--check-only", "-o", tmp_path / "out")
    assert ended.code == 0 and "internal" not in ended.err
    assert ("llvm.inline_asm" in ended.err) is not read


def test_the_table_is_loaded_where_there_is_assembly_only() -> None:
    loads = "import sys, mlir_async_pipe.checker.check_pass; print('mlir_async_pipe.ptx.instructions' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", loads], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "False"


def loads(
    between: str = "", text: str = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {$0, $1}, [$2];"
) -> list[str]:
    """The ops of a thread that loads two columns of tensor memory in assembly, as the checker reads them."""
    root = parse(
        f"""
llvm.func @k(%at: i32, %to: !llvm.ptr<1>) attributes {{nvvm.kernel}} {{
  %two = llvm.inline_asm has_side_effects "{text}", "=r,=r,r" %at : (i32) -> !llvm.struct<(i32, i32)>
  %a = llvm.extractvalue %two[0] : !llvm.struct<(i32, i32)>
  %f = llvm.bitcast %a : i32 to f32
  {between}
  nvvm.tcgen05.wait <load>
  llvm.store %f, %to : f32, !llvm.ptr<1>
  llvm.return
}}"""
    ).operation  # fmt: skip
    return [str(op.name) for op in walk(as_read(root))]


def test_what_assembly_loads_is_taken_after_the_wait():
    names = loads()
    wait = names.index("nvvm.tcgen05.wait")
    assert names.index("nvvm.tcgen05.ld") < wait < names.index("llvm.bitcast")
    assert not {"llvm.extractelement", "vector.extract"} & set(names[:wait])


def test_what_is_computed_before_the_wait_stays_there():
    names = loads("%g = llvm.fadd %f, %f : f32")
    add, wait = names.index("llvm.fadd"), names.index("nvvm.tcgen05.wait")
    assert names.index("llvm.extractelement") < add < wait


def test_a_load_under_a_condition_is_not_read():
    text = "{ .reg .pred p; setp.ne.b32 p, $2, 0; @p tcgen05.ld.sync.aligned.32x32b.x2.b32 {$0, $1}, [$2]; }"
    assert "llvm.inline_asm" in loads(text=text) and "nvvm.tcgen05.ld" not in loads(text=text)


SUMS = """
llvm.func @k(%a: i32, %c: f32) -> !llvm.struct<(f32, f32, f32, f32)> attributes {{nvvm.kernel}} {{
  %d = llvm.inline_asm has_side_effects "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{{ $0, $1, $2, $3 }}}}, \
{{{{ $8, $9, $10, $11 }}}}, {{{{ $12, $13 }}}}, {{{{ {sums} }}}};", "=f,=f,=f,=f,0,1,2,3,r,r,r,r,r,r"
      %c, %c, %c, %c, %a, %a, %a, %a, %a, %a
      : (f32, f32, f32, f32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return %d : !llvm.struct<(f32, f32, f32, f32)>
}}"""


@pytest.mark.parametrize("sums", ["$4, $5, $6, $7", "$0, $1, $2, $3"])
def test_a_register_that_goes_in_and_out_has_both_numbers(sums: str) -> None:
    """Of `"=f,0"` $1 is the register of $0, as Triton names the sums that a product adds to."""
    text = SUMS.format(sums=sums).replace("{{", "{").replace("}}", "}").replace("\\\n", "")
    module = parse(text)
    assert raise_assembly(module.operation) == 1
    (product,) = [op for op in walk(module.operation) if op.name == "nvvm.mma.sync"]
    given = module.body.operations[0].regions[0].blocks[0].arguments[1]
    assert [value for value in product.operands].count(given) == 4
