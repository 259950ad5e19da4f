"""A loop of tensor copies that writes what it sums up to a tile, which a tensor store takes away."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from helpers.tensor_loops import Box, TensorLoop

STORED_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
WAIT = "nvvm.cp.async.bulk.wait_group 0 {read}"
LOOP = TensorLoop((Box(2, 32),), trips=7)


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
    text = loop.text().replace("%out: memref<?x64xf32> {llvm.noalias}", "%out_: !llvm.ptr")
    text = text.replace(
        "%leader =",
        f"%out = builtin.unrealized_conversion_cast %out_ : !llvm.ptr to {STORED_MAP}\n"
        "%o = memref.alloc() : memref<64xf32, WG>\n%leader =",
        1,
    )
    stored = re.search(r"memref.store (%\w+), %out\[%tile, %t\] : .*", text)
    assert stored is not None
    instead = f"""memref.store {stored[1]}, %o[%t] : memref<64xf32, WG>
{fence}
{meet}
%row = arith.muli %tile, %i64 : index
nvgpu.tma.async.store %o to %out[%row], predicate = %leader : memref<64xf32, WG> -> {STORED_MAP}
nvvm.cp.async.bulk.commit.group
{wait}"""
    text = text.replace(stored[0], instead).replace("return", f"{end}\nreturn")
    return text.replace("async_pipe.num_stages", "async_pipe.independent, async_pipe.num_stages")


def stores_arguments(loop: TensorLoop = LOOP) -> list[Any]:
    """The arguments of the loop, its output as one row."""
    arguments = loop.arguments()
    at = len(loop.boxes)
    arguments[at] = np.zeros(arguments[at].size, np.float32)
    return arguments


PERSISTENT = TensorLoop((Box(2, 32),), trips=3, executions=5)


def epilogue_text(loop: TensorLoop = PERSISTENT, *, wait: str = f"{WAIT}\ngpu.barrier") -> str:
    """The loop in an outer one, whose tile it sums up: row e of the output is what execution e
    added up, stored by TMA after the loop."""
    text = stores_text(loop)
    start, end = text.index("memref.store "), text.index(WAIT) + len(f"{WAIT}\ngpu.barrier")
    epilogue = text[start:end].replace(f"{WAIT}\ngpu.barrier", wait)
    stored = re.match(r"memref.store (%\w+),", epilogue)
    assert stored is not None
    text = text[:start] + f"%acc = arith.addf %sum, {stored[1]} : f32" + text[end:]
    text = text.replace("%sum = %i0) -> (index, i1, index)", "%sum = %zero) -> (index, i1, f32)")
    text = text.replace("%flip, %sum : index, i1, index", "%flip, %acc : index, i1, f32")
    epilogue = epilogue.replace(f"memref.store {stored[1]}", "memref.store %r#2", 1)
    return text.replace(
        "scf.yield %r#1 : i1", epilogue.replace("%tile", "%e") + "\nscf.yield %r#1 : i1"
    )


def epilogue_expected(loop: TensorLoop = PERSISTENT) -> Any:
    """Its output."""
    rows = loop.expected(loop.arguments()).reshape(loop.executions, loop.trips, -1)
    return rows.sum(axis=1).reshape(-1)


def plain_text(stores: str, *, wait: str = f"{WAIT}\ngpu.barrier", trips: int = 7) -> str:
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
    {wait}
  }} {{{stores}}}
  return
}}"""
