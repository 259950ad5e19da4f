"""What `validate` compares: modules, and the PTX that a module became.

    gpu.func @gemm(%A: memref<?x64xf16>, …)        lowering.lower(module, target, "ptx")
    .entry gemm(.param .u64 …_0, .param .u64 …_1, …)   -->   llvm.func @gemm(%p0: !llvm.ptr<1>, …)      ptx.raise_ptx

A launch hands the same arguments over to both, to machine code in pieces: a memref as its descriptor. A pointer to a tensor map
is cast to the map's type in the module; PTX has no types, so that the box and the swizzle are told beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import raw
from mlir_async_pipe.machine.decode import Decoder, block_types
from mlir_async_pipe.machine.dialects.tma import TENSOR_MAP, box_and_swizzle
from mlir_async_pipe.machine.lane_values import TensorMap
from mlir_async_pipe.machine.memory import Memory
from mlir_async_pipe.machine.run_kernel import Handed, RunOptions, RunResult, run_in
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import UsageError


@dataclass(frozen=True)
class Program:
    """A module, and of machine code how it is `handed` arguments, which of them point to which tensor maps
    (box and swizzle), and its bytes of dynamic workgroup memory."""

    module: Any
    handed: Handed | None = None
    maps: tuple[tuple[int, tuple[int, ...], str], ...] = ()
    shared_bytes: int | None = None

    def run(
        self,
        memory: Memory,
        name: str,
        arguments: Sequence[Any],
        launch: RunOptions,
        around: Any = None,
    ) -> RunResult:
        """Run a function of it in a memory that is empty yet."""
        given = list(arguments)
        for number, box, swizzle in self.maps:
            given[number] = TensorMap(given[number], box, swizzle)
        if launch.dynamic_shared_bytes is None:
            launch = replace(launch, dynamic_shared_bytes=self.shared_bytes)
        return run_in(memory, self.module, name, given, launch, around, self.handed)


def after_of(after: Any, before: Any, name: str) -> Program:
    """The program to compare with: a module, or `lowering.Lowered` of the module before.

    Raises UsageError (bad-argument, no-function), InputError (parse-error).
    """
    emit = getattr(after, "emit", None)
    if emit is None:
        return Program(after)
    if emit != "ptx":
        raise UsageError(
            f"what is compared with a module is PTX, not {emit}",
            code="bad-argument",
            advice='lower with emit="ptx"',
        )
    kernels = {kernel.name: kernel for kernel in after.kernels}
    function = Decoder(raw(before)).entry(name)
    if function is None or name not in kernels:
        where = "the module before" if function is None else "the PTX"
        raise UsageError(f"no kernel '{name}' in {where}", code="no-function")
    types, count = block_types(function)
    maps = tuple(
        (number, *box_and_swizzle(text))
        for number, text in enumerate(map(_map_type, function.regions[0].blocks[0].arguments))
        if text
    )
    module = raise_ptx(after.text, new_context(), f"{name}.ptx")
    handed = Handed(tuple(types[:count]), after.parameters[name])
    return Program(module, handed, maps, kernels[name].dynamic_shared_bytes)


def _map_type(argument: Any) -> str:
    """The type of the tensor map that an argument points to, "" if it points to none."""
    for use in argument.uses:
        for result in use.owner.results:
            if str(result.type).startswith(TENSOR_MAP):
                return str(result.type)
    return ""
