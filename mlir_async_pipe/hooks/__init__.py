"""Pipelines or checks what other Python compilers of kernels compile, from inside of them.

    with mlir_async_pipe.hooks.numba_cuda_mlir(num_stages=3) as hook: …      hook.reports
    with mlir_async_pipe.hooks.cutlass(check=True) as hook: …                hook.reports

Nothing of those stacks is imported before a hook is made, and nothing of them is changed outside of
`with` (or between `install()` and `uninstall()`). May import everything below. Public: the hooks.
"""

from __future__ import annotations

import importlib
from typing import Any

from mlir_async_pipe.bindings import use

# The hook of a stack, and the name of its bindings, which this process then has to use ("": any).
_HOOKS = {
    "cutlass": ("Cutlass", "cutlass"),
    "flydsl": ("FlyDsl", "flydsl"),
    "numba_cuda_mlir": ("NumbaCudaMlir", "numba-cuda-mlir"),
    "pallas": ("Pallas", "jaxlib"),
    "triton": ("Triton", ""),
}

__all__ = [*_HOOKS]


def __getattr__(name: str) -> Any:
    if name not in _HOOKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    hook, stack = _HOOKS[name]
    if stack:
        use(stack)
    return getattr(importlib.import_module(f"{__name__}.{name}_hook"), hook)
