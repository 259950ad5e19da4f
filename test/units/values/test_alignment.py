"""Proven alignment of addresses: from allocations, assertions, strides and subscripts.

Covers: facts/values/alignment.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.alignment import access_alignment
from mlir_async_pipe.vocabulary import accesses

KERNEL = """
gpu.module @kernels {{
  memref.global "private" @tile : memref<64x32xf16, #gpu.address_space<workgroup>> {{alignment = 16 : i64}}
  memref.global "private" @loose : memref<64x32xf16, #gpu.address_space<workgroup>>
  gpu.func @kernel(%A : memref<?x?xf16>, %R : memref<?x64xf16> {{llvm.align = 16 : i64}},
                   %V : memref<?xf32>, %n : index,
                   %bytes : memref<?xi8> {{llvm.align = 16 : i64}},
                   %nibbles : memref<?xi4> {{llvm.align = 16 : i64}})
      workgroup(%w : memref<64x32xf16, #gpu.address_space<workgroup>> {{llvm.align = 16 : i64}})
      kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c3 = arith.constant 3 : index
    %c32 = arith.constant 32 : index
    %tid = gpu.thread_id x
    %chunk = arith.remui %tid, %c4 : index
    %row = arith.divui %tid, %c4 : index
    %column = arith.muli %chunk, %c8 : index
    %odd = arith.muli %chunk, %c3 : index
    %turned = arith.xori %column, %c8 : index
    {body}
    gpu.return
  }}
}}
"""


def alignment_of_the_load(body: str) -> int:
    with new_context():
        module = ir.Module.parse(KERNEL.format(body=body))
        load = next(op for op in walk(module) if op.name == "memref.load")
        access = accesses(load)[0]
        return access_alignment(access.memory, access.indices)


WORKGROUP = "memref<64x32xf16, #gpu.address_space<workgroup>>"


@pytest.mark.parametrize(
    ("body", "alignment"),
    [
        (f"%x = memref.load %w[%row, %column] : {WORKGROUP}", 16),
        (f"%x = memref.load %w[%row, %turned] : {WORKGROUP}", 16),
        (f"%x = memref.load %w[%row, %c0] : {WORKGROUP}", 16),
        (f"%x = memref.load %w[%row, %c4] : {WORKGROUP}", 8),
        (f"%x = memref.load %w[%row, %odd] : {WORKGROUP}", 2),
        (f"%x = memref.load %w[%row, %chunk] : {WORKGROUP}", 2),
        ("%x = memref.load %A[%row, %column] : memref<?x?xf16>", 2),
        ("%x = memref.load %R[%row, %column] : memref<?x64xf16>", 16),
        ("%x = memref.load %R[%row, %n] : memref<?x64xf16>", 2),
        ("%x = memref.load %V[%tid] : memref<?xf32>", 4),
        ("%x = memref.load %bytes[%column] : memref<?xi8>", 8),
        # LLVM packs vectors of i4, not arrays: each element has its byte.
        ("%x = memref.load %nibbles[%column] : memref<?xi4>", 8),
        (
            "%a = memref.assume_alignment %V, 16 : memref<?xf32>\n"
            "%x = memref.load %a[%column] : memref<?xf32>",
            16,
        ),
        (
            f"%g = memref.get_global @tile : {WORKGROUP}\n%x = memref.load %g[%row, %column] : {WORKGROUP}",
            16,
        ),
        (
            f"%g = memref.get_global @loose : {WORKGROUP}\n%x = memref.load %g[%row, %column] : {WORKGROUP}",
            2,
        ),
        (
            "scf.for %i = %c0 to %n step %c32 {\n"
            "  %k = arith.addi %i, %column : index\n"
            "  %x = memref.load %R[%row, %k] : memref<?x64xf16>\n}",
            16,
        ),
        (
            "scf.for %i = %c1 to %n step %c32 {\n"
            "  %k = arith.addi %i, %column : index\n"
            "  %x = memref.load %R[%row, %k] : memref<?x64xf16>\n}",
            2,
        ),
        (
            f"%s = memref.subview %w[%row, 8] [1, 8] [1, 1] : {WORKGROUP} to "
            "memref<1x8xf16, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>\n"
            "%x = memref.load %s[%c0, %c0] : "
            "memref<1x8xf16, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>",
            16,
        ),
        (
            f"%s = memref.subview %w[%row, %tid] [1, 8] [1, 1] : {WORKGROUP} to "
            "memref<1x8xf16, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>\n"
            "%x = memref.load %s[%c0, %c0] : "
            "memref<1x8xf16, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>",
            2,
        ),
        (
            "%d = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>\n"
            f"%v = memref.view %d[%c32][] : memref<?xi8, #gpu.address_space<workgroup>> to {WORKGROUP}\n"
            f"%x = memref.load %v[%row, %column] : {WORKGROUP}",
            16,
        ),
        (
            "%d = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>\n"
            f"%v = memref.view %d[%c8][] : memref<?xi8, #gpu.address_space<workgroup>> to {WORKGROUP}\n"
            f"%x = memref.load %v[%row, %column] : {WORKGROUP}",
            8,
        ),
    ],
)
def test_alignment_is_what_can_be_proven(body: str, alignment: int) -> None:
    found = alignment_of_the_load(body)
    assert min(found, 16) == alignment


@pytest.mark.parametrize(
    ("kind", "stated", "alignment"),
    [
        ("memref<8xf16, strided<[1], offset: 6>>", 0, 2),  # none, whatever the offset
        ("memref<8xf64>", 12, 8),  # a multiple of 8 by its type, so of 24
    ],
)
def test_an_llvm_align_that_is_no_power_of_two(kind: str, stated: int, alignment: int) -> None:
    """Ops verify theirs; that of an argument is not verified before the conversion to LLVM."""
    text = f"""gpu.module @k {{ gpu.func @f(%o : {kind} {{llvm.align = {stated} : i64}}) kernel {{
      %c0 = arith.constant 0 : index
      %x = memref.load %o[%c0] : {kind}
      gpu.return }} }}"""
    with new_context():
        module = ir.Module.parse(text)
        load = next(op for op in walk(module) if op.name == "memref.load")
        access = accesses(load)[0]
        assert access_alignment(access.memory, access.indices) == alignment


BEGINS = "memref<64x32xf16, strided<[32, 1], offset: {}>>"


@pytest.mark.parametrize(
    ("offset", "alignment"), [("0", 16), ("8", 16), ("6", 4), ("4", 8), ("?", 2)]
)
@pytest.mark.parametrize("place", ["argument", "allocation"])
def test_the_first_element_lies_an_offset_after_what_llvm_align_is_about(
    place: str, offset: str, alignment: int
) -> None:
    """`llvm.align` and `alignment` are of the pointer; 16-aligned plus 6 elements of 2 bytes is a
    multiple of 4."""
    kind = BEGINS.format(offset)
    at = f"%o = memref.alloc(){'[%n]' if offset == '?' else ''} {{alignment = 16 : i64}} : {kind}"
    argument = f"%o : {kind} {{llvm.align = 16 : i64}}, " if place == "argument" else ""
    text = f"""gpu.module @k {{ gpu.func @f({argument}%n : index) kernel {{
      %c0 = arith.constant 0 : index
      {at if place == "allocation" else ""}
      %x = memref.load %o[%c0, %c0] : {kind}
      gpu.return }} }}"""
    with new_context():
        module = ir.Module.parse(text)
        load = next(op for op in walk(module) if op.name == "memref.load")
        access = accesses(load)[0]
        assert access_alignment(access.memory, access.indices) == alignment


def test_an_argument_of_another_block_has_no_llvm_align() -> None:
    """`^next` takes either argument of the function, so what the first one of that says is not about %m."""
    text = """gpu.module @k { gpu.func @f(%a : memref<8xf16> {llvm.align = 64 : i64}, %b : memref<8xf16>,
                                          %c : i1) kernel {
      %c0 = arith.constant 0 : index
      cf.cond_br %c, ^next(%a : memref<8xf16>), ^next(%b : memref<8xf16>)
    ^next(%m : memref<8xf16>):
      %x = memref.load %m[%c0] : memref<8xf16>
      gpu.return } }"""
    with new_context():
        module = ir.Module.parse(text)
        load = next(op for op in walk(module) if op.name == "memref.load")
        access = accesses(load)[0]
        assert access_alignment(access.memory, access.indices) == 2
