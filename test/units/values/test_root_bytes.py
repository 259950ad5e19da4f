"""Roots of addresses that are counted on, and bytes of roots: static shapes, globals of LLVM, and nothing where
that is not known.

Covers: facts/values/memory_roots.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.memory_roots import root_of, static_bytes

WORKGROUP = "#gpu.address_space<workgroup>"
MODULE = """
llvm.mlir.global internal @g() {{addr_space = 3 : i32}} : !llvm.array<128 x f32>
llvm.mlir.global external @any() {{addr_space = 3 : i32}} : !llvm.array<0 x i8>
func.func @f(%n: index) {{
  %c0 = arith.constant 0 : index
  %m = {made}
  return
}}"""


@pytest.mark.parametrize(
    ("made", "size"),
    [
        (f"memref.alloca() : memref<3x5xf16, {WORKGROUP}>", 30),
        (f"memref.alloc() : memref<i8, {WORKGROUP}>", 1),
        (f"memref.alloc(%n) : memref<?x4xf32, {WORKGROUP}>", 0),
        (f"gpu.dynamic_shared_memory : memref<?xi8, {WORKGROUP}>", 0),
        ("llvm.mlir.addressof @g : !llvm.ptr<3>", 512),
        ("llvm.mlir.addressof @any : !llvm.ptr<3>", 0),
    ],
)
def test_static_bytes(made: str, size: int) -> None:
    with new_context():
        module = ir.Module.parse(MODULE.format(made=made))
        (value,) = [
            op.results[0] for op in walk(module) if op.name == made.split("(")[0].split()[0]
        ]
        assert static_bytes(root_of(value)) == size


COUNTED = """
llvm.mlir.global internal @g() {{addr_space = 3 : i32}} : !llvm.array<128 x f32>
llvm.mlir.global internal @h() {{addr_space = 3 : i32}} : !llvm.array<128 x f32>
llvm.func @f(%n: i64) {{
  %g = llvm.mlir.addressof @g : !llvm.ptr<3>
  %at = llvm.ptrtoint %g : !llvm.ptr<3> to i64
  %h = llvm.mlir.addressof @h : !llvm.ptr<3>
  %other = llvm.ptrtoint %h : !llvm.ptr<3> to i64
  %sum = llvm.add %at, {added} : i64
  %low = llvm.trunc %sum : i64 to {kind}
  %p = llvm.inttoptr %low : {kind} to {pointer}
  llvm.return
}}"""


@pytest.mark.parametrize(
    ("added", "kind", "pointer", "root"),
    [
        ("%n", "i32", "!llvm.ptr<3>", "@g"),
        ("%n", "i32", "!llvm.ptr<7>", "@g"),
        # Two addresses in one sum lead anywhere, and so does one that has lost bits.
        ("%other", "i32", "!llvm.ptr<3>", "unknown"),
        ("%n", "i16", "!llvm.ptr<3>", "unknown"),
        # Global memory may be counted to from any address.
        ("%n", "i32", "!llvm.ptr<1>", "unknown"),
    ],
)
def test_an_address_that_is_counted_on_stays_in_its_shared_memory(
    added: str, kind: str, pointer: str, root: str
) -> None:
    with new_context():
        module = ir.Module.parse(COUNTED.format(added=added, kind=kind, pointer=pointer))
        (value,) = [op.results[0] for op in walk(module) if op.name == "llvm.inttoptr"]
        assert str(root_of(value)).startswith(root)


ROUNDED = """
llvm.func @f(%given: !llvm.ptr<1>, %n: i64, %other: !llvm.ptr<1>, %m: i32) {{
  %at = llvm.ptrtoint %given : !llvm.ptr<1> to i64
  %q = llvm.ptrtoint %other : !llvm.ptr<1> to i64
  %apart = llvm.sub %q, %n : i64
  %loaded = llvm.load %other : !llvm.ptr<1> -> i64
  %small = llvm.load %other : !llvm.ptr<1> -> i32
  %wide = llvm.sext %small : i32 to i64
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  %row = llvm.mul %block, %m : i32
  %rows = llvm.zext %row : i32 to i64
  %c15 = llvm.mlir.constant(15 : i64) : i64
  %mask = llvm.mlir.constant({mask} : i64) : i64
  %sum = llvm.add %at, {added} : i64
  %down = llvm.and %sum, %mask : i64
  %p = llvm.inttoptr %down : i64 to !llvm.ptr<1>
  llvm.return
}}"""


@pytest.mark.parametrize(
    ("added", "mask", "kind"),
    [
        ("%c15", -16, "argument"),
        # What is left of an address without its upper bits is none.
        ("%c15", 15, "unknown"),
        # A pointer is based on those that its address is made of (LLVM, pointer aliasing rules): on one, if no number
        # that is added to it is an address, or is made of one, or 64 bits of which nobody says what they are.
        ("%n", -16, "argument"),
        ("%rows", -16, "argument"),
        ("%wide", -16, "argument"),
        ("%q", -16, "unknown"),
        ("%apart", -16, "unknown"),
        ("%loaded", -16, "unknown"),
    ],
)
def test_an_address_that_is_rounded_stays_in_its_memory(added: str, mask: int, kind: str) -> None:
    with new_context():
        module = ir.Module.parse(ROUNDED.format(added=added, mask=mask))
        (value,) = [op.results[0] for op in walk(module) if op.name == "llvm.inttoptr"]
        assert root_of(value).kind == kind
