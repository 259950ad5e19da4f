"""Addresses of all threads of a block at once.

Covers: facts/values/thread_numbers.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.thread_numbers import ThreadAddresses
from mlir_async_pipe.vocabulary import accesses

# 32 rows of 64 bytes, of which each has its 16-byte chunks exchanged by its number.
TEXT = """
#wg = #gpu.address_space<workgroup>
#chunk = affine_map<(c, r) -> (c * 8)>
gpu.module @m {
gpu.func @k(%n : index, %tile : memref<64x32xf16, #wg>, %rows : memref<?x?xf16, #wg>, %p : !llvm.ptr<3>) kernel
    attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %t = gpu.thread_id x
  %row = affine.apply affine_map<(t) -> (t mod 16)>(%t)
  %chunk = affine.apply affine_map<(t) -> (t floordiv 16)>(%t)
  %key = affine.apply affine_map<(r) -> ((r floordiv 2) mod 4)>(%row)
  %x = arith.xori %chunk, %key : index
  %column = arith.muli %x, %c8 : index
  %first = memref.load %tile[%row, %column] : memref<64x32xf16, #wg>

  %row1 = arith.addi %row, %c16 : index
  %key1 = affine.apply affine_map<(r) -> ((r floordiv 2) mod 4)>(%row1)
  %x1 = arith.xori %chunk, %key1 : index
  %column1 = arith.muli %x1, %c8 : index
  %rows_further = memref.load %tile[%row1, %column1] : memref<64x32xf16, #wg>

  %chunk2 = arith.addi %chunk, %c2 : index
  %x2 = arith.xori %chunk2, %key : index
  %column2 = arith.muli %x2, %c8 : index
  %chunks_further = memref.load %tile[%row, %column2] : memref<64x32xf16, #wg>

  %view = memref.subview %tile[16, 0] [16, 32] [1, 1]
      : memref<64x32xf16, #wg> to memref<16x32xf16, strided<[32, 1], offset: 512>, #wg>
  %in_view = memref.load %view[%row, %column] : memref<16x32xf16, strided<[32, 1], offset: 512>, #wg>

  %of_n = memref.load %tile[%n, %column] : memref<64x32xf16, #wg>
  %dynamic = memref.load %rows[%row, %c0] : memref<?x?xf16, #wg>
  %pointed = llvm.load %p : !llvm.ptr<3> -> f16
  gpu.return
}
}
"""


@pytest.fixture
def addresses():
    """The memory, and the bytes from the first thread's address, of each load in turn."""
    with new_context():
        module = ir.Module.parse(TEXT)
        numbers = ThreadAddresses((32, 1, 1), 32)
        yield [numbers.of(access) for op in walk(module) for access in accesses(op)]


def test_swizzled_rows_further_on_differ_by_a_constant(addresses) -> None:
    (memory, first), (other, further) = addresses[:2]
    assert memory == other
    assert set(further - first) == {16 * 64}
    rows = np.arange(32) % 16
    expected = 64 * rows + 16 * (np.arange(32) // 16 ^ rows // 2 % 4)
    np.testing.assert_array_equal(first, expected)


def test_swizzled_chunks_further_on_do_not(addresses) -> None:
    assert len(set(addresses[2][1] - addresses[0][1])) > 1


def test_a_view_begins_where_its_source_does(addresses) -> None:
    memory, bytes_ = addresses[3]
    assert memory == addresses[0][0]
    assert set(bytes_ - addresses[0][1]) == {16 * 64}


def test_what_ids_do_not_decide_is_the_same_number_in_all_threads(addresses) -> None:
    _, with_row = addresses[0]
    _, with_n = addresses[4]
    rows = np.arange(32) % 16
    assert len(set(with_n - with_row + 64 * rows)) == 1


def test_rows_of_a_dynamic_stride_are_apart_and_not_by_a_stride_that_occurs(addresses) -> None:
    _, bytes_ = addresses[5]
    assert len(set(bytes_)) == 16
    assert np.diff(bytes_[:16]).min() > 1 << 20


def test_a_pointer_is_its_own_memory(addresses) -> None:
    memory, bytes_ = addresses[6]
    assert str(memory.type) == "!llvm.ptr<3>"
    assert bytes_.tolist() == [0]
