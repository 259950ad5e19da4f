"""How memory holds structs, and what a getelementptr adds.

Covers: vocabulary/memory_layout.py, facts/values/memory_roots.py, checker/path_values.py,
checker/phases/byte_places.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, verdict
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, layout_of, steps_of

# Bytes and alignment by LLVM's StructLayout, with the natural alignments that NVPTX and AMDGPU share.
KNOWN = [
    ("!llvm.struct<()>", 0, 1),
    ("!llvm.struct<(i8, i32)>", 8, 4),
    ("!llvm.struct<(ptr<1>, i32)>", 16, 8),
    ("!llvm.struct<(i8, struct<(i16, f64)>, i8)>", 32, 8),
    ("!llvm.struct<packed (i8, i32, i16)>", 7, 1),
    ('!llvm.struct<"a", (i32, array<3 x struct<(i8, i16)>>)>', 16, 4),
    ("!llvm.struct<(vector<3xf32>, i8)>", 32, 16),
    ("!llvm.array<4 x ptr>", 32, 8),
    ("!llvm.array<2 x array<3 x struct<(i8, f16)>>>", 24, 2),
]


@pytest.mark.parametrize(("text", "size", "alignment"), KNOWN)
def test_a_struct_is_as_large_as_its_members_and_padding(text, size, alignment) -> None:
    with new_context():
        found = layout_of(ir.Type.parse(text))
    assert (found.stride_bytes, found.alignment) == (size, alignment)


@pytest.mark.parametrize(
    "text",
    [
        "!llvm.struct<(ptr<3>, i32)>",
        "!llvm.struct<(i128, i8)>",
        "!llvm.struct<(i8, struct<(ptr<7>)>)>",
        '!llvm.struct<"unknown", opaque>',
        '!llvm.target<"spirv.Image">',
    ],
)
def test_what_chips_lay_out_in_ways_of_their_own_has_no_layout(text: str) -> None:
    with new_context(), pytest.raises(UnknownLayoutError):
        layout_of(ir.Type.parse(text))


STEPS = [
    ("%p[%i]", "!llvm.struct<(ptr, i32)>", 0, [(1, 16)]),
    ("%p[%i, 1]", "!llvm.struct<(ptr, i32)>", 8, [(1, 16)]),
    ("%p[2, 1, %i]", "!llvm.struct<(i8, array<4 x i32>)>", 2 * 20 + 4, [(1, 4)]),
    ("%p[%i, %i, 2]", "!llvm.array<4 x array<8 x f16>>", 4, [(1, 64), (2, 16)]),
    ("%p[0, %i]", "!llvm.array<4 x vector<4xf32>>", 0, [(1, 16)]),
    ("%p[-1]", "i32", -4, []),
    ("%p[0, 0, 0]", "!llvm.struct<(struct<(ptr<3>)>)>", 0, []),
]


@pytest.mark.parametrize(("place", "kind", "constant", "dynamic"), STEPS)
def test_a_step_leads_into_structs_and_arrays(place, kind, constant, dynamic) -> None:
    kinds = ", ".join(["!llvm.ptr", *["i64"] * place.count("%i")])
    text = f"""llvm.func @f(%p: !llvm.ptr, %i: i64) {{
      %q = llvm.getelementptr {place} : ({kinds}) -> !llvm.ptr, {kind}
      llvm.return
    }}"""
    with new_context():
        module = ir.Module.parse(text)
        (gep,) = [op for op in walk(module.operation) if op.name == "llvm.getelementptr"]
        assert steps_of(gep) == (constant, tuple(dynamic))


STORE = """
llvm.func @k(%p: !llvm.ptr<1> {{llvm.noalias}}) attributes {{nvvm.kernel,
    nvvm.reqntid = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %i = llvm.zext %t : i32 to i64
  %q = llvm.getelementptr %p[%i, {member}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, !llvm.struct<{kind}>
  %r = llvm.getelementptr %q[{more}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %i, %r : i64, !llvm.ptr<1>
  llvm.return
}}"""


@pytest.mark.parametrize(
    ("kind", "member", "more", "said"),
    [
        ("(i32, array<2 x i32>)", "0", 0, "safe"),
        ("(i32, array<2 x i32>)", "1, 1", 0, "safe"),
        ("(i64, i32)", "1", 4, "safe"),
        ("(i16, i8, i32)", "2", 0, "safe"),
        # 8 bytes in structs of 4, or of 7: those of the next thread too.
        ("(i16, i8)", "1", 0, "unsafe"),
        ("packed (i16, i8, i32)", "2", 0, "unsafe"),
    ],
)
def test_each_thread_stores_to_its_own_struct(kind, member, more, said) -> None:
    text = STORE.format(kind=kind, member=member, more=more)
    assert verdict(check_text(text).report) == said
