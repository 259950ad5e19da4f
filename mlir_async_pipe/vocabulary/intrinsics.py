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


def is_opaque_code(op: Any) -> bool:
    """Whether an op stands for code of the target that may issue, commit, wait or be a barrier
    without a word in the IR: inline assembly with effects, and calls of intrinsics.

    Assembly that only makes a value of values (no side effects, no clobbered memory, no pointer
    given) cannot. Of intrinsics no name is taken to be harmless.
    """
    if op.name == CALL:
        return True
    if op.name not in _ASSEMBLY:
        return False
    if op.name != "llvm.inline_asm" or "has_side_effects" in op.attributes:
        return True
    constraints = str(ir.StringAttr(op.attributes["constraints"]).value)
    given = [str(operand.type) for operand in op.operands]
    return "{memory}" in constraints or any(kind.startswith("!llvm.ptr") for kind in given)


_ASSEMBLY = ("llvm.inline_asm", "nvvm.inline_ptx")
# The names of all ops that may be such code.
OPAQUE_CODE = (CALL, *_ASSEMBLY)
