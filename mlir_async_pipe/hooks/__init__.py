"""Pipelines or checks what other Python compilers of kernels compile, from inside of them.

    with mlir_async_pipe.hooks.numba_cuda_mlir(num_stages=3) as hook: …      hook.reports
    with mlir_async_pipe.hooks.cutlass(check=True) as hook: …                hook.reports

MLIR_ASYNC_PIPE_CHECK=triton installs a hook that checks where this package is imported. Nothing of those
stacks is imported before a hook is made, and nothing of them is changed outside of
`with` (or between `install()` and `uninstall()`). May import everything below. Public: the hooks.
"""

from __future__ import annotations

import importlib
from typing import Any

from mlir_async_pipe.bindings import use
from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.diagnostics import UsageError

# The hook of a stack, and the name of its bindings, which this process then has to use ("": any).
_HOOKS = {
    "cutlass": ("Cutlass", "cutlass"),
    "flydsl": ("FlyDsl", "flydsl"),
    "numba_cuda_mlir": ("NumbaCudaMlir", "numba-cuda-mlir"),
    "pallas": ("Pallas", "jaxlib"),
    "triton": ("Triton", ""),
}

# Those that check, which the environment may ask for: "triton,cutlass=warn".
CHECKING = ("cutlass", "pallas", "triton")
ENVIRONMENT_VARIABLE = "MLIR_ASYNC_PIPE_CHECK"

__all__ = [*_HOOKS, "by_environment"]

# The hooks that the environment asked for, until the process ends.
by_environment: list[Any] = []


def install_named(wanted: str) -> None:
    """Install the hooks that a text names, "triton,cutlass=warn". Raises UsageError (bad-option-value)."""
    named = [entry.strip().partition("=") for entry in wanted.split(",")]
    for name, _, _ in named:
        if name not in CHECKING:
            why = f"{ENVIRONMENT_VARIABLE} names '{name}'"
            advice = did_you_mean(name, CHECKING, "hooks that check")
            raise UsageError(why, code="bad-option-value", advice=advice)
    for name, _, how in named:
        hook = __getattr__(name)(how or True)
        hook.install()
        by_environment.append(hook)


def __getattr__(name: str) -> Any:
    if name not in _HOOKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    hook, stack = _HOOKS[name]
    if stack:
        use(stack)
    return getattr(importlib.import_module(f"{__name__}.{name}_hook"), hook)
