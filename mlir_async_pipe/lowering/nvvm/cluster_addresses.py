"""Addresses of a block's own shared memory, where an op takes one of the cluster.

    %c = llvm.addrspacecast %p : ptr<3> to ptr<7>   -->   %i = llvm.ptrtoint %p : ptr<3> to i64
                                                          %c = llvm.inttoptr %i : i64 to ptr<7>

The window of a block lies in that of its cluster, and the same number names the same byte in both
(PTX ISA, state spaces: shared::cta and shared::cluster). LLVM goes by the generic address instead,
which costs a read of the window's base and 64-bit arithmetic for each tensor copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, before, create

CAST = "llvm.addrspacecast"
_OF_BLOCK, _OF_CLUSTER = "!llvm.ptr<3>", "!llvm.ptr<7>"


def keep_cluster_addresses(casts: Iterable[Operation]) -> None:
    """Write each of the casts that is one of a block's shared memory to its cluster's as the number
    that it is."""
    for op in casts:
        source, cast = op.operands[0], op.results[0]
        if str(source.type) != _OF_BLOCK or str(cast.type) != _OF_CLUSTER:
            continue
        i64 = ir.IntegerType.get_signless(64, op.context)
        number = create("llvm.ptrtoint", [source], [i64], ip=before(op), loc=op.location)
        address = create(
            "llvm.inttoptr", list(number.results), [cast.type], ip=before(op), loc=op.location
        )
        cast.replace_all_uses_with(address.results[0])
        op.erase()
