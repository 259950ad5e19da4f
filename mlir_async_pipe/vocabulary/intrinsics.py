"""LLVM intrinsics: the rows of those that copy, commit, wait or are a barrier.

    llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%n) : (i16) -> ()   waits as rocdl.wait.asyncmark
    llvm.call @llvm.amdgcn.wait.asyncmark(%n) : (i16) -> ()              is not looked into
    llvm.call @llvm.nvvm.barrier0() : () -> ()                           a barrier

What is an attribute of the op is an operand of the call. Overloaded intrinsics carry their types
after the name (`….p1`). An intrinsic without a row may do anything.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.vocabulary import extents
from mlir_async_pipe.vocabulary.async_ops import ASYNC_ROWS
from mlir_async_pipe.vocabulary.barriers import BARRIER_INTRINSICS
from mlir_async_pipe.vocabulary.callees import callee_name
from mlir_async_pipe.vocabulary.operand_groups import CALL
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


def intrinsic_name(op: Any) -> str:
    """The intrinsic that a call names, "" for other ops. Of calls by symbol those of a target count."""
    if op.name == CALL:
        return str(ir.StringAttr(op.attributes["intrin"]).value)
    name = callee_name(op) or "" if op.name == "llvm.call" else ""
    return name if name.startswith(_TARGETS) else ""


def row_name(op: Any) -> str:
    """The name of the row of an op: the intrinsic that it calls, if that has one, else its own. Of
    calls by symbol barriers and fences count: no queue is followed through them."""
    name = op.name
    if name not in CALLS:
        return name
    known = known_intrinsic(intrinsic_name(op))
    followed = known is not None and (name == CALL or INTRINSIC_ROWS[known].queue is None)
    return known if known is not None and followed else str(name)


@cache
def known_intrinsic(name: str) -> str | None:
    """The intrinsic of `INTRINSIC_ROWS` that a name, with its types, stands for; None if there is
    none."""
    plain = name if name in INTRINSIC_ROWS else _TYPES.sub("", name)
    return plain if plain in INTRINSIC_ROWS else None


# What follows the name of an overloaded intrinsic: pointers, integers, floats, vectors of them.
_TYPES = re.compile(r"(\.(v\d+)?(p\d+|i\d+|b?f\d+))+$")
# The ops that may call an intrinsic.
CALLS = frozenset({CALL, "llvm.call"})
_TARGETS = ("llvm.amdgcn.", "llvm.nvvm.")
