"""What `overflow<nsw>` on products of block ids says of how many blocks there are.

Covers: checker/believed_ranges.py
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
