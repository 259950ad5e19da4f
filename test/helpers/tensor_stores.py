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
