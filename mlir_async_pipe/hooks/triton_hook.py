"""`@triton.jit` and Gluon kernels: checked in the LLVM dialect, before it becomes LLVM IR.

    with mlir_async_pipe.hooks.triton(check=True) as hook:
        kernel[grid](a, b)                          so does triton.compile(…), which needs no GPU

Triton lowers a module in place, in its own MLIR: what its stage `llir` was given is the LLVM dialect once
the stage is over. Its text goes to our bindings; those of flydsl know AMD's ops. The stages are reached by
`triton.knobs.runtime.add_stages_inspection_hook`, which also has a key for Triton's own caches.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.hooks.checked_kernel import CheckingHook

_STAGE = "llir"
# An installation's part of Triton's keys: what another one has checked is checked anew.
_INSTALLED = itertools.count()
# Code for these and later chips is made with what only that very chip has (wgmma, tcgen05).
_CHIP_ITSELF = 90
# A location may be read as the reduction of a barrier that has none, so the op is spelled out.
_BARRIER = re.compile(
    r"nvvm\.barrier(?: id = (?P<id>%[\w$.#-]+))?(?: number_of_threads = (?P<threads>%[\w$.#-]+))?"
    r"(?= loc\()"
)


class Triton(CheckingHook):
    """The hook. What is compiled inside comes from no cache."""

    def install(self) -> None:
        if not self.check:
            return
        knobs = importlib.import_module("triton.knobs")
        before = knobs.runtime.add_stages_inspection_hook
        number = next(_INSTALLED)

        def inspect(*given: Any) -> tuple[str, str] | None:
            """Answer for the caches, or change the stages of a backend."""
            keys = before(*given) if before is not None else ("", "")
            if not given:
                # The first is a part of keys on disk, where nothing is looked up, the second of those in
                # memory.
                return keys[0], f"{keys[1]}mlir_async_pipe_{number}"
            backend, stages = given[:2]
            stages[_STAGE] = self._checking(stages[_STAGE], _target(backend.target))
            return None

        self._replace(knobs.runtime, "add_stages_inspection_hook", inspect)
        self._replace(knobs.compilation, "always_compile", True)

    def _checking(self, stage: Callable[[Any, Any], Any], target: str) -> Callable[[Any, Any], Any]:
        """The stage, with a check of the module that it has lowered."""

        def checked(module: Any, metadata: Any) -> Any:
            kernel = module.get_entry_func_name()
            code = stage(module, metadata)
            self._check(kernel, target, lambda: _read(str(module)))
            return code

        return checked


def _target(target: Any) -> str:
    if target.backend == "hip":
        return f"rocdl:{target.arch}"
    return f"nvvm:sm_{target.arch}{'a' if target.arch >= _CHIP_ITSELF else ''}"


def _read(text: str) -> Any:
    return ir.Module.parse(_BARRIER.sub(_spelled_out, text), new_context())


def _spelled_out(found: re.Match[str]) -> str:
    """nvvm.barrier id = %i loc(…)  -->  "nvvm.barrier"(%i) <{segments: 1, 0, 0}> : (i32) -> () loc(…)"""
    given = [found["id"], found["threads"]]
    there = [value for value in given if value]
    sizes = ", ".join(str(int(value is not None)) for value in (*given, None))
    types = ", ".join("i32" for _ in there)
    segments = f"operandSegmentSizes = array<i32: {sizes}>"
    return f'"nvvm.barrier"({", ".join(there)}) <{{{segments}}}> : ({types}) -> ()'
