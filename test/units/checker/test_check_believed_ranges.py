"""What `overflow<nsw>` on products of block ids says of how many blocks there are.

Covers: checker/grid_blocks.py, bindings/raw_ops.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text

KERNEL = """
gpu.module @kernels {{
  gpu.func @f(%to: memref<?xf32> {{llvm.noalias}}) kernel attributes {{known_block_size = array<i32: 8, 1, 1>}} {{
    %one = arith.constant 1.0 : f32
    %c8 = arith.constant 8 : i{bits}
    %c1 = arith.constant 1 : i{bits}
    %tid = gpu.thread_id x
    %bid = gpu.block_id x
    %t = arith.index_cast %tid : index to i{bits}
    %b = arith.index_cast %bid : index to i{bits}
    %start = arith.muli %b, %c8 {flags} : i{bits}
    %sum = arith.addi %start, %t : i{bits}
    %at = arith.index_cast %sum : i{bits} to index
    memref.store %one, %to[%at] : memref<?xf32>
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("bits", "flags", "proven"),
    [
        (32, "overflow<nsw>", True),
        (64, "", True),
        # 2^29 blocks of 8 begin at one place modulo 2^32.
        (32, "", False),
        # A cast to 8 bits leaves nothing of the ids that the product bounds.
        (8, "overflow<nsw>", False),
    ],
)
def test_a_product_that_does_not_overflow_bounds_the_block_id(bits, flags, proven):
    checked = check_text(KERNEL.format(bits=bits, flags=flags), None)
    assert (not checked.unsafe and not checked.unknown_accesses) == proven


LLVM = """
llvm.func @f(%to: !llvm.ptr<1>) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 8>}} {{
  %one = llvm.mlir.constant(1.0 : f32) : f32
  %c8 = llvm.mlir.constant(8 : i32) : i32
  %bid = nvvm.read.ptx.sreg.ctaid.x : i32
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %start = llvm.mul %bid, %c8 {flags} : i32
  {sum}
  %at = llvm.getelementptr %to[%sum] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  llvm.store %one, %at : f32, !llvm.ptr<1>
  llvm.return
}}
"""


@pytest.mark.parametrize(
    ("flags", "sum_", "proven"),
    [
        ("overflow<nsw>", "%sum = llvm.add %start, %tid overflow<nsw> : i32", True),
        ("overflow<nsw, nuw>", "%sum = llvm.or disjoint %start, %tid : i32", True),
        ("", "%sum = llvm.add %start, %tid : i32", False),
        ("overflow<nuw>", "%sum = llvm.add %start, %tid overflow<nuw> : i32", False),
        # What an attribute says is no flag.
        ('{note = " overflow<nsw>"}', "%sum = llvm.add %start, %tid : i32", False),
    ],
)
def test_flags_of_the_llvm_dialect_are_believed(flags: str, sum_: str, proven: bool) -> None:
    """They are properties there, which the bindings show in the text of an op only."""
    checked = check_text(LLVM.format(flags=flags, sum=sum_))
    assert (not checked.unsafe and not checked.unknown_accesses) == proven
