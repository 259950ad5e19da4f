"""`@flyc.kernel`s of flydsl: pipelined between its layouts and its lowering of loops.

    with mlir_async_pipe.hooks.flydsl(num_stages=3, noalias=True) as hook:
        launch(a, b, n)                        with COMPILE_ONLY=1 no GPU is needed

    fly passes, convert-fly-to-rocdl | scf.for is pipelined here | convert-scf-to-cf, … , binary

The stack runs its passes as one pipeline, or one by one where it dumps IR. What first contains
`convert-scf-to-cf` is what has to wait. Buffers are LLVM pointers by then, shared memory is dynamic.
Copies that the chip does asynchronously are lowered here; everything else the stack lowers itself.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import functions, plain_values, symbol_name, walk
from mlir_async_pipe.bindings.run_on_copy import become
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.hooks.pipelined_kernel import (
    Hook,
    KernelReport,
    Stages,
    Wish,
    about_arrays,
    advised,
    pipelined,
)
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.vocabulary import row_of

_LOOPS_GO = "convert-scf-to-cf"
_CHIP = re.compile(r"chipset=(\w+)")


class FlyDsl(Hook):
    """The hook. `num_stages`: a number for all loops that qualify, numbers for a kernel's loops in
    the order of its text (0: none), or either by the names of kernels. `noalias`: no two tensors of
    a kernel overlap.

    `reports` has an entry for each module that was compiled."""

    def __init__(self, num_stages: Stages = 3, *, noalias: bool = False) -> None:
        super().__init__()
        self.num_stages = num_stages
        self.noalias = noalias

    def install(self) -> None:
        stack = importlib.import_module("flydsl.compiler.jit_function")
        in_parts, run = stack._run_pipeline, stack._run_pass_manager

        def in_two(module: Any, fragments: list[str], **options: Any) -> None:
            """Run a pipeline up to where loops go, and the rest."""
            cut = next((n for n, part in enumerate(fragments) if _LOOPS_GO in part), 0)
            for part in filter(None, (fragments[:cut], fragments[cut:])):
                in_parts(module, part, **options)

        def after_ours(manager: Any, module: Any) -> None:
            """Run passes of the stack, after ours if they are those that take the loops away."""
            chip = _CHIP.search(str(manager))
            if _LOOPS_GO in str(manager) and chip is not None:
                self._pipeline(module, chip.group(1))
            run(manager, module)

        self._replace(stack, "_run_pipeline", in_two)
        self._replace(stack, "_run_pass_manager", after_ours)
        # What was compiled elsewhere, or with other wishes, is not found in the stack's caches.
        key = stack.JitFunction._build_full_cache_key
        wishes = ("mlir_async_pipe", str(self.num_stages), self.noalias)
        self._replace(
            stack.JitFunction,
            "_build_full_cache_key",
            lambda function, *given, **options: (*key(function, *given, **options), wishes),
        )

    def _pipeline(self, module: Any, chip: str) -> None:
        text = module.operation.get_asm(enable_debug_info=True)
        with plain_values():
            names = [_named(symbol_name(op)) for op in functions(module) if op.name == "gpu.func"]
        name = ", ".join(names)
        try:
            target = Target.parse(f"rocdl:{chip}")
            wish = Wish(self.num_stages, target, _named, noalias=self.noalias, keep_registers=True)
            made = advised(pipelined(name, text, wish), about_arrays(self.noalias))
            code = _for_the_stack(made.module, target) if made.loops else ""
        except AsyncPipeError as error:
            self.reports.append(KernelReport(name, 0, (error.diagnostic,), before=text))
            return
        self.reports.append(made)
        if code:
            with plain_values(), module.context:
                become(module.operation, ir.Module.parse(code).operation)


def _named(symbol: str) -> str:
    """The name of the Python function: the stack numbers the symbols of its kernels."""
    return re.sub(r"_\d+$", "", symbol)


def _for_the_stack(text: str, target: Target) -> str:
    """The module without ops that the stack cannot lower: those of asynchronous copies."""
    with plain_values(), new_context():
        module = ir.Module.parse(text)
        asynchronous = (
            row.queue is not None or row.wait is not None for row in map(row_of, walk(module))
        )
        if any(asynchronous):
            api.run_pass("async-pipe-to-rocdl", module, target)
        found: str = module.operation.get_asm(enable_debug_info=True)
        return found
