"""Tiles that front ends copy piece by piece: a swizzle of thread ids, and an iteration split into row and column.

    place = 512 (t div 64) + x ^ ((x & 448) >> 3) + 1024 (k mod 8) + 8192 (k div 8)      x = 8 (t mod 8) + 64 (t div 8 mod 8)

Covers: checker/forms.py, checker/path_values.py, checker/arithmetic.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse

# The swizzle of an index, and that of an address: bits 7 to 9 of the bytes are bits 6 to 8 of the elements.
INDEX = """
    %own = arith.addi %swizzled, %eighth512 overflow<nsw> : i32
    %first = llvm.getelementptr %base[%own] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f16
"""
ADDRESS = """
    %own = arith.addi %x, %eighth512 overflow<nsw> : i32
    %plain = llvm.getelementptr %base[%own] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f16
    %address = llvm.ptrtoint %plain : !llvm.ptr<3> to i64
    %mask = arith.constant 896 : i64
    %by = arith.constant 3 : i64
    %taken = arith.andi %address, %mask : i64
    %shifted = arith.shrui %taken, %by : i64
    %changed = arith.xori %address, %shifted : i64
    %first = llvm.inttoptr %changed : i64 to !llvm.ptr<3>
"""


def tile(
    *,
    column: int = 1024,
    row: int = 8192,
    wait: int = 0,
    threads: int = 128,
    swizzle: str = INDEX,
    alignment: int = 1024,
) -> str:
    """Copies of 16 bytes by 128 threads, 16 pieces each; the tile is read after the wait."""
    return f"""
gpu.module @m {{
  llvm.mlir.global external @tile() {{addr_space = 3 : i32, alignment = {alignment} : i64}} : !llvm.array<32768 x i8>
  gpu.func @k(%from: !llvm.ptr<1>) kernel attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %c8 = arith.constant 8 : i32
    %c16 = arith.constant 16 : i32
    %c64 = arith.constant 64 : i32
    %c448 = arith.constant 448 : i32
    %c512 = arith.constant 512 : i32
    %column = arith.constant {column} : i32
    %row = arith.constant {row} : i32
    %base = llvm.mlir.addressof @tile : !llvm.ptr<3>
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %high = arith.divsi %t, %c8 : i32
    %low = arith.remsi %t, %c8 : i32
    %low8 = arith.muli %low, %c8 overflow<nsw> : i32
    %middle = arith.remsi %high, %c8 : i32
    %middle64 = arith.muli %middle, %c64 overflow<nsw> : i32
    %x = arith.addi %low8, %middle64 overflow<nsw> : i32
    %bits = arith.andi %x, %c448 : i32
    %moved = arith.shrui %bits, %c3 : i32
    %swizzled = arith.xori %x, %moved : i32
    %eighth = arith.divsi %high, %c8 : i32
    %eighth512 = arith.muli %eighth, %c512 overflow<nsw> : i32
{swizzle}
    scf.for %k = %c0 to %c16 step %c1 : i32 {{
      %q = arith.divsi %k, %c8 : i32
      %r = arith.remsi %k, %c8 : i32
      %a = arith.muli %r, %column overflow<nsw> : i32
      %b = arith.muli %q, %row overflow<nsw> : i32
      %place = arith.addi %a, %b overflow<nsw> : i32
      %to = llvm.getelementptr %first[%place] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f16
      nvvm.cp.async.shared.global %to, %from, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    }}
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group {wait}
    nvvm.barrier
    %read = llvm.load %first : !llvm.ptr<3> -> f16
    gpu.return
  }}
}}"""


@pytest.mark.parametrize("swizzle", [INDEX, ADDRESS])
@pytest.mark.parametrize("size", [{}, {"column": 2048, "row": 16384, "threads": 256}])
def test_pieces_of_a_swizzled_tile_are_apart(size: dict[str, int], swizzle: str) -> None:
    checked = check_module(parse(tile(**size, swizzle=swizzle)))
    assert not checked.unsafe and not checked.unknown and checked.accesses


@pytest.mark.parametrize("size", [{"column": 512, "row": 4096}, {"threads": 256}, {"wait": 1}])
@pytest.mark.parametrize("swizzle", [INDEX, ADDRESS])
def test_pieces_that_meet_are_found(size: dict[str, int], swizzle: str) -> None:
    assert check_module(parse(tile(**size, swizzle=swizzle))).unsafe


def test_bits_of_an_address_that_its_alignment_leaves_open_are_not_known() -> None:
    checked = check_module(parse(tile(swizzle=ADDRESS, alignment=16)))
    assert checked.unknown and not checked.unsafe


@pytest.mark.parametrize("size", [{"column": 512}, {"row": 4096}])
def test_pieces_that_are_no_multiple_of_the_iteration_are_not_proven(size: dict[str, int]) -> None:
    checked = check_module(parse(tile(**size)))
    assert checked.unknown and not checked.unsafe
