"""PTX of module text, by way of the package; with how large each kernel's dynamic memory is."""

from __future__ import annotations

from dataclasses import dataclass

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.lower import lower


@dataclass(frozen=True)
class Ptx:
    """`dynamic_bytes` by kernel name, as the package reports them."""

    text: str
    dynamic_bytes: dict[str, int]


def ptx_of(text: str, *, pipelined: bool = True, target: str = "nvvm:sm_80") -> Ptx:
    """Raises AsyncPipeError."""
    with new_context():
        module = ir.Module.parse(text)
        if pipelined:
            mlir_async_pipe.pipeline(module, target=target)
        return lowered(module, target)


def lowered(module: ir.Module, target: str = "nvvm:sm_80") -> Ptx:
    code = lower(module, target=mlir_async_pipe.Target.parse(target), emit="ptx")
    return Ptx(code.text, {kernel.name: kernel.dynamic_shared_bytes for kernel in code.kernels})
