"""`@cute.kernel`s of CUTLASS' Python: checked where layouts have become addresses and loops are loops.

    with mlir_async_pipe.hooks.cutlass(check=True) as hook:
        cute.compile(launch, a, b)                  so does a launch; with CUTE_DSL_ARCH no GPU is needed

    traced module --copy, the first passes of its pipeline--> scf, llvm, nvvm --check--> traced module, as it was

The language calls `register_trace_finalize_hook`'s hooks with each module that it has traced. It makes an
error of its own of what they raise, with ours as the cause: at the end of `with` the cause is raised.
"""

from __future__ import annotations

import importlib
from typing import Any

from mlir_async_pipe.bindings import passmanager
from mlir_async_pipe.bindings.raw_ops import functions, is_kernel, plain_values, symbol_name
from mlir_async_pipe.hooks.checked_kernel import CheckingHook
from mlir_async_pipe.session.diagnostics import HazardError
from mlir_async_pipe.session.pipeline_text import parse

# The pass before loops become blocks, and structs of many registers their addresses.
_LAST = "loop-invariant-code-motion"
# Passes that the language runs, and that its bindings do not let others name: they make ranges exact, and
# what is left of vectors and of mathematics scalar.
_NOT_NAMED = (
    "int-range-optimizations",
    "convert-vector-to-scf",
    "arith-expand",
    "convert-math-to-funcs",
)


class Cutlass(CheckingHook):
    """The hook. Code that is compiled inside has line information, since only then ops have places."""

    def install(self) -> None:
        if not self.check:
            return
        for language in _languages():
            language.register_trace_finalize_hook(self._check_trace)
            self._replace(language.envar, "lineinfo", True)

    def uninstall(self) -> None:
        for language in _languages():
            if self._check_trace in language._trace_finalize_hooks:
                language._trace_finalize_hooks.remove(self._check_trace)
        super().uninstall()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if error is not None and isinstance(error.__cause__, HazardError):
            raise error.__cause__ from None

    def _check_trace(self, language: Any, module: Any, name: str) -> None:
        """Check what was traced, on a copy."""
        with plain_values():
            kernels = [symbol_name(op) for op in functions(module) if is_kernel(op)]
        chip = language.get_arch_enum().to_string()
        self._check(
            ", ".join(kernels) or name, f"nvvm:{chip}", lambda: _lowered(module, language, chip)
        )


def _languages() -> list[Any]:
    """CuTe DSL, and what of it is experimental: one object each."""
    stack = importlib.import_module("cutlass.cutlass_dsl")
    return [language._get_dsl() for language in (stack.CuTeDSL, stack.CuteExperimentalDSL)]


def _lowered(module: Any, language: Any, chip: str) -> Any:
    """A copy after the language's own passes up to `_LAST`, less `_NOT_NAMED`. Raises ValueError for a
    pipeline without `_LAST`, and where another pass cannot be named."""
    copy = module.operation.clone(ip=False).operation
    pipeline = language.preprocess_pipeline(language._get_pipeline(None), chip)
    with copy.context:
        elements = [*map(str, parse(str(passmanager.PassManager.parse(pipeline))).elements)]
        manager = passmanager.PassManager("builtin.module")
        for element in elements[: elements.index(_LAST)]:
            if not element.startswith(_NOT_NAMED):
                manager.add(element)
        manager.enable_verifier(False)
        manager.run(copy)
    return copy
