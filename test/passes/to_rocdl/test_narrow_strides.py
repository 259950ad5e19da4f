"""Loops that copy rows of dynamic stride get a version for short rows, which copies the same.

Covers: lowering/rocdl/copy_addresses.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.lowering.rocdl.copy_addresses import give_narrow_versions

# Each of 64 threads copies an element of its row of %A, iteration by iteration, and adds up another one's.
KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: {array}, %B: memref<64xi32>, %n: index)
      workgroup(%tile: memref<64xi32, #gpu.address_space<workgroup>>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %last = arith.constant 63 : index
    %zero = arith.constant 0 : i32
    %tid = gpu.thread_id x
    %block = gpu.block_id x
    %rows = arith.muli %block, %c64 : index
    %row = arith.addi %rows, %tid : index
    %theirs = arith.subi %last, %tid : index
    %lane = rocdl.readfirstlane %c0 : index
    %total:2 = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %zero, %slot = %c0) -> (i32, index) {{
      {body}
      amdgpu.gather_to_lds async %A[{at}], %tile[%c0] : i32, {array}, memref<64xi32, #gpu.address_space<workgroup>>
      rocdl.asyncmark
      rocdl.wait.asyncmark 0
      gpu.barrier
      %v = memref.load %tile[%theirs] : memref<64xi32, #gpu.address_space<workgroup>>
      %next = arith.addi %sum, %v : i32
      gpu.barrier
      scf.yield %next, %slot : i32, index
    }}
    memref.store %total#0, %B[%tid] : memref<64xi32>
    gpu.return
  }}
}}
"""
ROWS = "memref<?x?xi32>"


def kernel(at: str = "%row, %k", array: str = ROWS, body: str = "") -> str:
    text = KERNEL.format(at=at, array=array, body=body)
    return text.replace("    %lane = rocdl.readfirstlane %c0 : index\n", "")


def versions(text: str, chip: str = "gfx942") -> tuple[int, str]:
    """How many loops there are after it, and the module."""
    module = ir.Module.parse(text)
    give_narrow_versions(module.operation, CHIPS[chip])
    assert module.operation.verify()
    return sum(op.name == "scf.for" for op in walk(module)), str(module)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_both_versions_copy_the_same(n: int) -> None:
    a = np.arange(64 * 7, dtype=np.int32).reshape(64, 7)
    with new_context():
        count, text = versions(kernel())
        assert count == 2
        assert "arith.cmpi ult" in text
        # Rows of 7 elements are short; with the condition turned around, the loop as it was runs.
        for changed in (text, text.replace("arith.cmpi ult", "arith.cmpi uge")):
            module = ir.Module.parse(changed)
            done = machine.run(
                module, None, [a, np.zeros(64, np.int32), n], threads=64, target="rocdl:gfx942"
            )
            assert done.races == ()
            assert np.array_equal(done.arrays[1], a[::-1, :n].sum(axis=1))


def test_the_limit_leaves_half_of_32_bits_to_rows() -> None:
    """64 rows of i32: 64 * 4 * 2^23 bytes are 2^31."""
    with new_context():
        _, text = versions(kernel())
        assert f"arith.constant {2**23} : index" in text
        assert f"arith.constant {2**23 - 1} : index" in text


@pytest.mark.parametrize(
    ("text", "chip"),
    [
        # Static strides are proven without.
        (kernel(array="memref<?x64xi32>"), "gfx942"),
        # Buffers have offsets of 32 bits already.
        (kernel(array="memref<?x?xi32, #amdgpu.address_space<fat_raw_buffer>>"), "gfx942"),
        # Lanes that copy 16 bytes copy a quarter as often.
        (kernel(), "gfx950"),
        # A loop without slots is none of a pipeline.
        (
            kernel()
            .replace("iter_args(%sum = %zero, %slot = %c0) -> (i32, index)", "iter_args(%sum = %zero) -> (i32)")
            .replace("scf.yield %next, %slot : i32, index", "scf.yield %next : i32")
            .replace("%total:2", "%total")
            .replace("%total#0", "%total"),
            "gfx942",
        ),
        # Rows that change in the loop.
        (kernel("%moved, %c0", body="%moved = arith.addi %tid, %k : index"), "gfx942"),
        # A row that may lie before the block's first one.
        (kernel("%early, %k", body="%early = arith.subi %tid, %c64 : index"), "gfx942"),
        # A row of which nothing is known but that lanes have different ones.
        (
            kernel(
                "%any, %k",
                body="%p = memref.load %B[%tid] : memref<64xi32>\n%any = arith.index_cast %p : i32 to index",
            ),
            "gfx942",
        ),
        # An array that the loop makes.
        (
            kernel(
                "%tid, %c0",
                body="%w = memref.subview %A[%k, 0] [64, 8] [1, 1] : memref<?x?xi32> to "
                "memref<64x8xi32, strided<[?, 1], offset: ?>>",
            )
            .replace("async %A[", "async %w[")
            .replace(f"i32, {ROWS}, memref<64xi32, #", "i32, memref<64x8xi32, strided<[?, 1], offset: ?>>, memref<64xi32, #"),
            "gfx942",
        ),
    ],
)  # fmt: skip
def test_other_loops_stay(text: str, chip: str) -> None:
    with new_context():
        before = str(ir.Module.parse(text))
        assert versions(text, chip) == (1, before)
