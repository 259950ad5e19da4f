"""LLVM intrinsics: the rows of those that copy, commit, wait or are a barrier.

    llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%n) : (i16) -> ()   waits as rocdl.wait.asyncmark
    llvm.call @llvm.amdgcn.wait.asyncmark(%n) : (i16) -> ()              is not looked into
    llvm.call @llvm.nvvm.barrier0() : () -> ()                           a barrier

What is an attribute of the op is an operand of the call. Overloaded intrinsics carry their types
after the name (`….p1`). An intrinsic without a row may do anything.
"""

from __future__ import annotations

from dataclasses import replace

from mlir_async_pipe.vocabulary import extents
from mlir_async_pipe.vocabulary.async_ops import ASYNC_ROWS
from mlir_async_pipe.vocabulary.barriers import BARRIER_INTRINSICS
from mlir_async_pipe.vocabulary.rows import Extent, Row
from mlir_async_pipe.vocabulary.vendor_memory import VENDOR_ROWS

_BITS = (8, 32, 64, 128)


def _called(
    intrinsic: str, op: str, operands: tuple[str, ...] = (), extent: Extent | None = None
) -> Row:
    """The row of `op` for the call of an intrinsic: its `operands`, what a copy covers, and the
    count of a wait in operand 0."""
    row = {**ASYNC_ROWS, **VENDOR_ROWS}[op]
    rules = row.accesses
    if extent is not None:
        rules = tuple(replace(rule, extent=extent) for rule in rules)
    wait = None if row.wait is None else replace(row.wait, operand=0)
    return replace(row, op=intrinsic, operands=operands or row.operands, accesses=rules, wait=wait)


_ENDS = ("source", "destination")
_WAVE_COPY = (*_ENDS, "size", "offset", "aux")
_LANE_COPY = (*_ENDS, "offset", "aux")

INTRINSIC_ROWS = {
    row.op: row
    for row in (
        *BARRIER_INTRINSICS,
        *(
            _called(f"llvm.amdgcn.{name}", f"rocdl.{name}", _WAVE_COPY, extents.bytes_given(3))
            for name in ("load.async.to.lds", "global.load.async.lds")
        ),
        *(
            _called(f"llvm.amdgcn.{name}", f"rocdl.{name}", _WAVE_COPY)
            for name in ("load.to.lds", "global.load.lds")
        ),
        *(
            _called(f"llvm.amdgcn.{name}", f"rocdl.{name}")
            for name in ("raw.ptr.buffer.load.async.lds", "raw.ptr.buffer.load.lds")
        ),
        *(
            _called(
                f"llvm.amdgcn.{name}.b{bits}",
                f"rocdl.{name}.b{bits}",
                operands,
                extents.bytes_given(2, bits // 8),
            )
            for bits in _BITS
            for name, operands in (
                ("global.load.async.to.lds", _LANE_COPY),
                ("global.store.async.from.lds", ("destination", "source", "offset", "aux")),
            )
        ),
        *(
            _called(f"llvm.amdgcn.{name}", f"rocdl.{name}")
            for name in (
                "asyncmark",
                "wait.asyncmark",
                "s.wait.asynccnt",
                "s.wait.tensorcnt",
                "s.barrier",
            )
        ),
        *(
            _called(f"llvm.nvvm.{name}", f"nvvm.{name}")
            for name in ("cp.async.commit.group", "cp.async.wait.group")
        ),
        *(
            _called(
                f"llvm.nvvm.cp.async.{cache_kind}.shared.global.{size}{sized}",
                "nvvm.cp.async.shared.global",
                extent=extents.bytes_of(size),
            )
            for cache_kind, sizes in (("ca", (4, 8, 16)), ("cg", (16,)))
            for size in sizes
            for sized in ("", ".s")
        ),
    )
}
