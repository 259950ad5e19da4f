"""Which bindings hold the back end of a target; light enough to be asked before any import."""

from __future__ import annotations

from mlir_async_pipe import bindings
from mlir_async_pipe.bindings import back_end_process
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.plugins import install

# Stacks with LLVM's back end for the vendor built in, best first, and the extra that brings one.
_STACKS = {"nvvm": ("numba-cuda-mlir", "mlir"), "rocdl": ("flydsl",)}
_EXTRAS = {"nvvm": "nvidia", "rocdl": "amd"}


def back_end(lowering: str) -> str:
    """The name of an installed stack with the back end of "nvvm" or "rocdl".

    Raises UsageError (back-end-missing).
    """
    installed = {stack.name for stack in bindings.installed()}
    for name in _STACKS[lowering]:
        if name in installed:
            return name
    raise UsageError(
        f"no back end for '{lowering}' targets is installed",
        code="back-end-missing",
        advice=install(_EXTRAS[lowering]),
    )


def warm_up(lowering: str) -> None:
    """Start the process that will make code, so that it imports its bindings meanwhile.

    Does nothing for an unknown target or without a back end; asking for code says so.
    """
    if lowering not in _STACKS:
        return
    try:
        back_end_process.warm_up(back_end(lowering))
    except UsageError:
        return
