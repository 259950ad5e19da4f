"""Refuses async copies between memories that the chip cannot copy between.

    nvgpu.device_async_copy %tile[…], %other[…]     copy-spaces: cp.async reads global memory only

MLIR verifies the destination; a source in workgroup or private memory becomes an address that
the instruction takes for one of global memory.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.queues import CP_ASYNC


def check_copy_spaces(root: Operation) -> None:
    """Raise LoweringError (copy-spaces) at the first cp.async that does not read global memory."""
    for op in walk(root):
        row = row_of(op)
        if row is None or row.queue != CP_ASYNC or not row.accesses:
            continue
        for access in accesses(op):
            source = root_of(access.memory)
            if access.kind == "read" and source.space != "global":
                raise LoweringError(
                    f"'{op.name}' reads {source.space} memory: the chip copies from global memory",
                    code="copy-spaces",
                    at=op,
                    notes=(("the memory that it reads", source.value.owner),),
                    advice="load and store instead",
                )
