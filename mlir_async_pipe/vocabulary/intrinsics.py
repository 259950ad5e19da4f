"""LLVM intrinsics, called by `llvm.call_intrinsic`, that mean the same as a row's op.

    llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%n) : (i16) -> ()   is   rocdl.wait.asyncmark

Overloaded intrinsics carry their types after the name (`….p1`), so the longest name that an
intrinsic begins with counts.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir

CALL = "llvm.call_intrinsic"

INTRINSICS: dict[str, str] = {
    "llvm.amdgcn.asyncmark": "rocdl.asyncmark",
    "llvm.amdgcn.wait.asyncmark": "rocdl.wait.asyncmark",
    "llvm.amdgcn.load.async.to.lds": "rocdl.load.async.to.lds",
    "llvm.amdgcn.global.load.async.lds": "rocdl.load.async.to.lds",
    "llvm.amdgcn.raw.ptr.buffer.load.async.lds": "rocdl.raw.ptr.buffer.load.async.lds",
    "llvm.amdgcn.s.wait.asynccnt": "rocdl.s.wait.asynccnt",
    "llvm.amdgcn.s.wait.tensorcnt": "rocdl.s.wait.tensorcnt",
    "llvm.amdgcn.s.barrier": "rocdl.s.barrier",
    "llvm.nvvm.cp.async.commit.group": "nvvm.cp.async.commit.group",
    "llvm.nvvm.cp.async.wait.group": "nvvm.cp.async.wait.group",
    **{
        f"llvm.amdgcn.global.load.async.to.lds.b{bits}": f"rocdl.global.load.async.to.lds.b{bits}"
        for bits in (8, 32, 64, 128)
    },
    **{
        f"llvm.nvvm.cp.async.{cache}.shared.global.{size}": "nvvm.cp.async.shared.global"
        for cache, sizes in (("ca", (4, 8, 16)), ("cg", (16,)))
        for size in sizes
    },
}


def intrinsic_name(op: Any) -> str:
    """The intrinsic that a call names, "" for other ops."""
    if op.name != CALL:
        return ""
    return str(ir.StringAttr(op.attributes["intrin"]).value)


def known_intrinsic(name: str) -> str | None:
    """The entry of `INTRINSICS` that an intrinsic belongs to, None if there is none."""
    fits = [known for known in INTRINSICS if name == known or name.startswith(known + ".")]
    return max(fits, key=len) if fits else None
