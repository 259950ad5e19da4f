"""Loops of tensor copies whose rows go out by TMA, from one tile: each iteration waits for its store.

memref.store %s, %out[%tile, %t]   -->   memref.store %s, %o[%t]; fence; barrier
                                         store %o; commit; wait; barrier
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from helpers.tensor_loop_text import text_of

if TYPE_CHECKING:
    from helpers.tensor_loops import TensorLoop

STORED_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
WAIT = "nvvm.cp.async.bulk.wait_group 0 {read}"


def stored_text(
    loop: TensorLoop,
    fence: str = FENCE,
    meet: str = "gpu.barrier",
    wait: str = f"{WAIT}\ngpu.barrier",
) -> str:
    """The annotated module; `stored` says whether each iteration stores its row, or what all of
    them add up is stored after the loop."""
    width = f"memref<?x{loop.output[1]}xf32>"
    text = text_of(loop).replace(f"%out: {width} {{llvm.noalias}}", "%out_: !llvm.ptr")
    text = text.replace(
        "%leader =",
        f"%out = builtin.unrealized_conversion_cast %out_ : !llvm.ptr to {STORED_MAP}\n"
        "%o = memref.alloc() : memref<64xf32, WG>\n%leader =",
        1,
    )
    text = text.replace("async_pipe.num_stages", "async_pipe.independent, async_pipe.num_stages")
    # What it stores is none of what it copies.
    text = text.replace("attributes {", "attributes {async_pipe.independent, ", 1)
    if loop.roles:
        # Warps that only copy are ahead of the stores of a tile, too.
        text = re.sub(
            r"(%end = scf.for[\s\S]*?\n})\nreturn", r"\1 {async_pipe.independent}\nreturn", text
        )
    stored = re.search(r"memref.store (%\w+), %out\[%tile, %t\] : .*", text)
    assert stored is not None
    row, value = ("%e", "%r#2") if loop.stored == "after" else ("%tile", stored[1])
    lines = f"""memref.store {value}, %o[%t] : memref<64xf32, WG>
{fence}
{meet}
%row = arith.muli {row}, %i64 : index
nvgpu.tma.async.store %o to %out[%row], predicate = %leader : memref<64xf32, WG> -> {STORED_MAP}
nvvm.cp.async.bulk.commit.group
{wait}"""
    if loop.stored != "after":
        return text.replace(stored[0], lines)
    text = text.replace(stored[0], f"%acc = arith.addf %sum, {stored[1]} : f32")
    text = text.replace("%sum = %i0) -> (index, i1, index)", "%sum = %zero) -> (index, i1, f32)")
    text = text.replace("%flip, %sum : index, i1, index", "%flip, %acc : index, i1, f32")
    return text.replace("scf.yield %r#1 : i1", f"{lines}\nscf.yield %r#1 : i1")
