"""Lets all names of dynamic shared memory be one external array, after MLIR's conversions.

    llvm.mlir.global internal @a : array<0 x f32>            llvm.mlir.global external @a …
    llvm.mlir.global internal @__dynamic_shmem__0     -->
    addressof @a … addressof @__dynamic_shmem__0             addressof @a … addressof @a

LLVM takes two globals for distinct memory and drops what only one of them is written by. An array
of no bytes that is not external overlaps static memory: only the external one begins after it and
is sized at launch (CUDA and HIP, `extern __shared__`).
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    attribute,
    erase,
    integer_attribute,
    operations,
    set_integer,
    symbol_name,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import fresh_name
from mlir_async_pipe.vocabulary.memory_names import global_name, is_dynamic_global


def join_dynamic_globals(gpu_module: Operation, alignment: int = 1) -> None:
    """Keep one of the globals without bytes, aligned as all of them and to `alignment`."""
    found = [op for op in operations(gpu_module.regions[0].blocks[0]) if is_dynamic_global(op)]
    if not found:
        return
    kept, *others = found
    kept.attributes["linkage"] = attribute("#llvm.linkage<external>", kept.context)
    asked = [integer_attribute(op, "alignment") or 1 for op in found]
    set_integer(kept, "alignment", max(alignment, *asked), 64)
    names, name = {symbol_name(op) for op in found}, symbol_name(kept)
    if not name.isidentifier():
        # Of external symbols LLVM changes no letter that PTX does not know.
        name = fresh_name(gpu_module, "__dynamic_shmem__")
        kept.attributes["sym_name"] = ir.StringAttr.get(name, kept.context)
    for op in walk_named(gpu_module, "llvm.mlir.addressof".__eq__):
        if global_name(op) in names:
            op.attributes["global_name"] = ir.FlatSymbolRefAttr.get(name, kept.context)
    erase(others)
