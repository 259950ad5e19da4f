"""Kernels of many stored loops, of many stores in an iteration, and of many statements of one."""

from __future__ import annotations

from helpers.stored_loops import FENCE, STORED_MAP, WAIT

TILE = "memref<64xf32, #gpu.address_space<workgroup>>"
IN_FLIGHT = "async_pipe.stores_in_flight = 1 : i64"


def stored_loop(tiles: range, statements: int = 1) -> str:
    """A loop that writes its tiles one after the other, then stores them all; each statement adds to
    what is written and to where."""
    sums = "".join(
        f"""
    %x{n + 1} = arith.addf %x{n}, %x{n} : f32
    %t{n + 1} = arith.xori %t{n}, %leading : index"""
        for n in range(statements)
    )
    written = "".join(
        f"memref.store %x{statements}, %o{n}[%t{statements}] : {TILE}\n" for n in tiles
    )
    stored = "".join(
        f"nvgpu.tma.async.store %o{n} to %out[%row], predicate = %leader : {TILE} -> {STORED_MAP}\n"
        for n in tiles
    )
    return f"""
  scf.for %i = %c0 to %n step %c1 {{
    %row = arith.muli %i, %c64 : index
    %whole = arith.index_cast %row : index to i32
    %x0 = arith.sitofp %whole : i32 to f32{sums}
    {written}{FENCE}
    gpu.barrier
    {stored}nvvm.cp.async.bulk.commit.group
    {WAIT}
    gpu.barrier
  }} {{{IN_FLIGHT}}}"""


def stores_kernel(tiles: int, body: str) -> str:
    """A kernel with so many tiles, `body` in a loop around."""
    made = "".join(f"\n  %o{n} = memref.alloc() : {TILE}" for n in range(tiles))
    return f"""
func.func @f(%out_: !llvm.ptr, %n: index) attributes {{gpu.known_block_size = array<i32: 64, 1, 1>}} {{
  %out = builtin.unrealized_conversion_cast %out_ : !llvm.ptr to {STORED_MAP}{made}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %t0 = gpu.thread_id x
  %leader = arith.cmpi eq, %t0, %c0 : index
  %leading = arith.index_castui %leader : i1 to index
  scf.for %tile = %c0 to %n step %c1 {{{body}
  }}
  return
}}"""
