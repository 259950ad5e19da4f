"""From a module after `async-pipe-to-nvvm` to PTX: LLVM's NVPTX back end in a child process."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mlir_async_pipe.bindings import back_end_process
from mlir_async_pipe.bindings.back_end_child import Request
from mlir_async_pipe.bindings.back_ends import back_end
from mlir_async_pipe.bindings.raw_ops import Operation, operations, symbol_name
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.nvvm.cache_hints import with_whole_lines
from mlir_async_pipe.lowering.nvvm.cuda_tools import find_libdevice
from mlir_async_pipe.lowering.nvvm.known_predicates import settle_predicates
from mlir_async_pipe.lowering.nvvm.ptx import check_calls
from mlir_async_pipe.lowering.ordered_steps import one_gpu_module


def ptx_text(
    module: Any, chip: Chip, seconds: dict[str, float] | None = None
) -> Generator[None, None, str]:
    """The PTX of the module's kernels; yields while the back end works, whose steps' times are
    added to `seconds`.

    Raises LoweringError (no-kernels, several-gpu-modules, codegen-failed, unresolved-call),
    UsageError (back-end-missing).
    """
    # Alone, since ops of host code may not be parsed again (they need not even be registered).
    found = one_gpu_module(module.operation)
    # Code is made for each target, and the one that is asked for would come last.
    if "targets" in found.attributes:
        del found.attributes["targets"]
    stack = back_end("nvvm")
    text = back_end_process.handed_over(found, stack)
    # `async-pipe-to-nvvm` leaves no op of another dialect.
    request = Request(stack, text, (), _pipeline(found, chip), "object", checked=True)
    ptx = (yield from back_end_process.run(request, seconds)).decode().rstrip("\0")
    check_calls(ptx)
    return with_whole_lines(settle_predicates(ptx), found)


def _pipeline(gpu_module: Operation, chip: Chip) -> str:
    # CUDA's math functions, which MLIR's math ops become calls of.
    tops = operations(gpu_module.regions[0].blocks[0])
    calls_math = any(symbol_name(op).startswith("__nv_") for op in tops if op.name == "llvm.func")
    libdevice = find_libdevice() if calls_math else None
    link = f" l={libdevice}" if libdevice else ""
    return (
        f"builtin.module(nvvm-attach-target{{chip={chip.name} features={chip.features} O=3{link}}},"
        "gpu-module-to-binary{format=isa})"
    )
