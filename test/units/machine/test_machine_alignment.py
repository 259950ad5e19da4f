"""Addresses that are no multiples of what an access needs are found; accesses that need no more than a byte are not asked.

Covers: machine/access.py, vocabulary/rows.py, vocabulary/memory_ops.py, vocabulary/async_ops.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from helpers.machine_programs import codes, parse
from mlir_async_pipe.machine import Data

# Memory of the machine begins at multiples of 256 bytes; `%place` elements of a float, or bytes, are added.
POINTERS = """llvm.func @f(%from: !llvm.ptr<1>, %to: !llvm.ptr<1>) {{
  %place = llvm.mlir.constant({place} : i64) : i64
  %a = llvm.getelementptr %from[%place] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  %b = llvm.getelementptr %to[%place] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  {body}
  llvm.return
}}"""
OF_POINTERS = {
    "llvm.load": ("%x = llvm.load %a : !llvm.ptr<1> -> vector<4xf32>", 16),
    "llvm.load of two": ("%x = llvm.load %a : !llvm.ptr<1> -> vector<2xf32>", 8),
    "llvm.load, stated": ("%x = llvm.load %a {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4xf32>", 4),
    "llvm.store": ("%x = llvm.mlir.zero : f64\nllvm.store %x, %b : f64, !llvm.ptr<1>", 8),
    "llvm.atomicrmw": (
        "%x = llvm.mlir.zero : i32\n%y = llvm.atomicrmw add %a, %x monotonic : !llvm.ptr<1>, i32", 4,
    ),
}  # fmt: skip
# Of a memref<64xf32>, from element `%place` on.
MEMREFS = """func.func @f(%from: memref<64xf32>, %to: memref<64xf32>) {{
  %place = arith.constant {place} : index
  {body}
  return
}}"""
OF_MEMREFS = {
    "vector.load": ("%x = vector.load %from[%place] : memref<64xf32>, vector<4xf32>", 1),
    "vector.load, stated": (
        "%x = vector.load %from[%place] {alignment = 16 : i64} : memref<64xf32>, vector<4xf32>", 4,
    ),
    "vector.store, stated": (
        "%x = arith.constant dense<0.0> : vector<2xf32>\n"
        "vector.store %x, %from[%place] {alignment = 8 : i64} : memref<64xf32>, vector<2xf32>", 2,
    ),
}  # fmt: skip


def found(frame: str, body: str, place: int) -> set[str]:
    arrays = [np.zeros(64, np.float32)] * 2
    return codes(frame.format(body=body, place=place), *arrays)


@pytest.mark.parametrize("name", OF_POINTERS)
def test_pointers_are_multiples_of_what_is_accessed(name: str) -> None:
    body, size = OF_POINTERS[name]
    assert found(POINTERS, body, 2 * size) == set()
    assert found(POINTERS, body, size // 2) == {"misaligned-access"}


@pytest.mark.parametrize("name", OF_MEMREFS)
def test_of_memrefs_only_what_the_op_says_is_asked(name: str) -> None:
    body, elements = OF_MEMREFS[name]
    assert found(MEMREFS, body, 2 * elements) == set()
    expected = {"misaligned-access"} if elements > 1 else set()
    assert found(MEMREFS, body, elements + 1) == expected


# 64 bytes of workgroup memory, from byte `%place` of each thread's.
NVVM = """llvm.mlir.global internal @shared() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<512 x i8>
llvm.func @f(%from: !llvm.ptr<1>) {{
  %zero = llvm.mlir.zero : i32
  %sixteen = llvm.mlir.constant(16 : i32) : i32
  %place = llvm.mlir.constant({place} : i64) : i64
  %s = llvm.mlir.addressof @shared : !llvm.ptr<3>
  %to = llvm.getelementptr %s[%place] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i8
  %a = llvm.getelementptr %from[%place] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  {body}
  llvm.return
}}"""
WAIT = "\nnvvm.cp.async.commit.group\nnvvm.cp.async.wait.group 0"
BULK_WAIT = "\nnvvm.cp.async.bulk.commit.group\nnvvm.cp.async.bulk.wait_group 0"
OF_NVVM = {
    "cp.async": ("nvvm.cp.async.shared.global %to, %from, 8, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>" + WAIT, 8),
    "the source of cp.async": ("nvvm.cp.async.shared.global %s, %a, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>" + WAIT, 16),
    "a bulk copy": (
        "nvvm.cp.async.bulk.global.shared.cta %a, %s, %sixteen : !llvm.ptr<1>, !llvm.ptr<3>" + BULK_WAIT, 16,
    ),
    "ldmatrix": (
        "%m = nvvm.ldmatrix %to {num = 1 : i32, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : (!llvm.ptr<3>) -> i32",
        16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_NVVM)
def test_instructions_of_ptx_have_places_as_ptx_asks(name: str) -> None:
    body, size = OF_NVVM[name]
    for place, expected in ((2 * size, set()), (size // 2, {"misaligned-access"})):
        made = codes(NVVM.format(body=body, place=place), np.zeros(64, np.float32), threads=32)
        assert made & {"misaligned-access"} == expected


def test_a_copy_of_no_byte_has_no_place() -> None:
    body = (
        "nvvm.cp.async.shared.global %s, %a, 16, cache = cg, %zero : !llvm.ptr<3>, !llvm.ptr<1>, i32"
        + WAIT
    )
    assert "misaligned-access" not in codes(
        NVVM.format(body=body, place=3), np.zeros(64, np.float32)
    )


def test_validation_says_that_the_program_after_is_misaligned() -> None:
    body, _ = OF_POINTERS["llvm.store"]
    before, after = (parse(POINTERS.format(body=body, place=place)) for place in (8, 4))
    data = [Data((64,), "float32")] * 2
    answer = mlir_async_pipe.validate(before, after, None, data)
    assert (answer.verdict, answer.code) == ("different", "misaligned-access")
    answer = mlir_async_pipe.validate(after, after, None, data)
    assert (answer.verdict, answer.code) == ("unknown", "input-race")


def test_where_an_address_is_aligned_in_the_first_iterations_alone_nothing_is_proven_for_all() -> (
    None
):
    """16 bytes from element i & 8 of an array of any size: i is a multiple of 4 until 100."""
    frame = """func.func @f(%from: memref<?xf32>, %to: memref<?xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c100 = arith.constant 100 : index
  scf.for %i = %c0 to %n step %c4 {{
    {place}
    %x = vector.load %from[%j] {{alignment = 16 : i64}} : memref<?xf32>, vector<4xf32>
    vector.store %x, %to[%i] : memref<?xf32>, vector<4xf32>
  }}
  return
}}"""
    same = "%j = arith.addi %i, %c0 : index"
    late = "%f = arith.floordivsi %i, %c100 : index\n%j = arith.addi %i, %f : index"
    arguments = [Data((mlir_async_pipe.machine.From(8, 4),))] * 2 + [
        mlir_async_pipe.machine.From(4, 4)
    ]
    modules = [parse(frame.format(place=place)) for place in (same, late)]
    assert mlir_async_pipe.validate(modules[0], modules[0], None, arguments).up_to is not None
    answer = mlir_async_pipe.validate(*modules, None, arguments)
    assert answer.is_equal and answer.up_to is None
