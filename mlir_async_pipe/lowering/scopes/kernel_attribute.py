"""Kernels built through the op classes carry `gpu.kernel`, parsed ones the op's own `kernel`.

    gpu.func @f() attributes {gpu.kernel}  -->  gpu.func @f() kernel

MLIR's conversions write `gpu.kernel` again, beside the one that is there: text with the same
attribute twice, which no parser reads.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, walk

_BUILT, _PARSED = "gpu.kernel", "kernel"


def name_kernels(root: Operation) -> None:
    """Give every gpu.func that was built as a kernel the attribute of a parsed one."""
    for op in walk(root):
        if op.name == "gpu.func" and _BUILT in op.attributes:
            op.attributes[_PARSED] = op.attributes[_BUILT]
            del op.attributes[_BUILT]
