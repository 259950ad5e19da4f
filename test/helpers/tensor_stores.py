"""Loops that write rows to a tile, which a tensor store takes away: with tensor copies, and without."""

from __future__ import annotations

from helpers.stored_loops import FENCE, STORED_MAP, WAIT, stored_text
from helpers.tensor_loops import Box, TensorLoop

LOOP = TensorLoop((Box(2, 32),), trips=7, stored="each")
PERSISTENT = TensorLoop((Box(2, 32),), trips=3, executions=5, stored="after")


def stores_text(
    loop: TensorLoop = LOOP,
    *,
    fence: str = FENCE,
    meet: str = "gpu.barrier",
    wait: str = f"{WAIT}\ngpu.barrier",
    end: str = "",
) -> str:
    """The loop, annotated: its fence before the store, the barrier after that, its wait for the
    store, and what stands at the end of the kernel."""
    return stored_text(loop, fence, meet, wait).replace("return", f"{end}\nreturn")


def plain_text(stores: str) -> str:
    """A loop without copies: row i of the output is i * 64 + thread, with what `stores` says on it."""
    return f"""
func.func @f(%out_: !llvm.ptr, %n: index) attributes {{gpu.known_block_size = array<i32: 64, 1, 1>}} {{
  %out = builtin.unrealized_conversion_cast %out_ : !llvm.ptr to {STORED_MAP}
  %o = memref.alloc() : memref<64xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  scf.for %i = %c0 to %n step %c1 {{
    %row = arith.muli %i, %c64 : index
    %number = arith.addi %row, %t : index
    %whole = arith.index_cast %number : index to i32
    %value = arith.sitofp %whole : i32 to f32
    memref.store %value, %o[%t] : memref<64xf32, WG>
    {FENCE}
    gpu.barrier
    nvgpu.tma.async.store %o to %out[%row], predicate = %leader : memref<64xf32, WG> -> {STORED_MAP}
    nvvm.cp.async.bulk.commit.group
    {WAIT}\ngpu.barrier
  }} {{{stores}}}
  return
}}"""


def sums_text(stores: str) -> str:
    """A loop whose tile a warpgroup's sums, zeros, are stored to: 64 rows of the output an iteration."""
    sums = "!nvgpu.warpgroup.accumulator<fragmented = vector<64x16xf32>>"
    stored_map = STORED_MAP.replace("64xf32", "64x16xf32")
    return f"""
func.func @f(%out_: !llvm.ptr, %n: index) attributes {{gpu.known_block_size = array<i32: 128, 1, 1>}} {{
  %out = builtin.unrealized_conversion_cast %out_ : !llvm.ptr to {stored_map}
  %o = memref.alloc() : memref<64x16xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  scf.for %i = %c0 to %n step %c1 {{
    %row = arith.muli %i, %c64 : index
    %zero = nvgpu.warpgroup.mma.init.accumulator -> {sums}
    nvgpu.warpgroup.mma.store %zero, %o : {sums} to memref<64x16xf32, WG>
    {FENCE}
    gpu.barrier
    nvgpu.tma.async.store %o to %out[%c0, %row], predicate = %leader : memref<64x16xf32, WG> -> {stored_map}
    nvvm.cp.async.bulk.commit.group
    {WAIT}\ngpu.barrier
  }} {{{stores}}}
  return
}}"""
