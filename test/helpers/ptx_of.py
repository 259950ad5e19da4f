"""PTX of module text, by way of the package; with how large each kernel's dynamic memory is.

And whether a run reads what is still in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mlir_async_pipe
from helpers.ptx_machine import PtxFault
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.lower import lower


@dataclass(frozen=True)
class Ptx:
    """`dynamic_bytes` by kernel name, as the package reports them."""

    text: str
    dynamic_bytes: dict[str, int]


def ptx_of(
    text: str, *, pipelined: bool = True, target: str = "nvvm:sm_80", **options: object
) -> Ptx:
    """`options` are those of `pipeline`. Raises AsyncPipeError."""
    with new_context():
        module = ir.Module.parse(text)
        if pipelined:
            mlir_async_pipe.pipeline(module, target=target, **options)
        return lowered(module, target)


def lowered(module: ir.Module, target: str = "nvvm:sm_80") -> Ptx:
    code = lower(module, target=mlir_async_pipe.Target.parse(target), emit="ptx")
    return Ptx(code.text, {kernel.name: kernel.dynamic_shared_bytes for kernel in code.kernels})


def reads_in_flight(run: Callable[[], None]) -> bool:
    """Whether a run ends because a thread reads what has not arrived."""
    try:
        run()
    except PtxFault as fault:
        assert fault.kind == "in-flight"
        return True
    return False
