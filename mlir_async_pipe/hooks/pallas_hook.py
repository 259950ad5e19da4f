"""Pallas kernels on Mosaic GPU: checked where JAX has their whole module, before it is serialised.

    with mlir_async_pipe.hooks.pallas(check=True) as hook:
        jax.jit(call)(x)                with .trace(…).lower(lowering_platforms=("cuda",)) no GPU is needed

JAX has no extension point there; the one step that every kernel takes, `core._run_serde_pass` with
`serialize`, is wrapped. The kernel is the `gpu.launch` in the module, whose name is the kernel's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.hooks.checked_kernel import CheckingHook

# What Mosaic GPU says of the chip on the module.
_MAJOR, _MINOR = "mosaic_gpu.arch_major", "mosaic_gpu.arch_minor"


class Pallas(CheckingHook):
    """The hook. What JAX has lowered before and keeps in its caches is not lowered again, so not checked."""

    def install(self) -> None:
        if not self.check:
            return
        stack = importlib.import_module("jax.experimental.mosaic.gpu.core")
        self._replace(stack, "_run_serde_pass", self._checking(stack._run_serde_pass))

    def _checking(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step, with a check of what it serialises."""

        def checked(module: Any, **options: Any) -> Any:
            if options["serialize"]:
                attributes = module.operation.attributes
                name = ir.StringAttr(attributes["sym_name"]).value
                major, minor = (ir.IntegerAttr(attributes[n]).value for n in (_MAJOR, _MINOR))
                self._check(name, f"nvvm:sm_{major}{minor}a", lambda: module)
            return step(module, **options)

        return checked
