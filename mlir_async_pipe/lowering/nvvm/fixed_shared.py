"""Workgroup memory that a kernel has beside its buffers, and that stays static.

nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<…, num_barriers = 3>     24 bytes, aligned to 8
llvm.mlir.addressof @g, a global in address space 3                      what its type takes
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.values.memory_roots import space_of
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES, number_of_mbarriers
from mlir_async_pipe.vocabulary.memory_layout import TypeLayout, UnknownLayoutError, layout_of


def fixed_layout(op: Operation, globals_: dict[str, Operation]) -> TypeLayout | None:
    """What the memory takes that `op` makes or names; None if it names none that is fixed.

    Raises LoweringError (element-layout).
    """
    if op.name == "nvgpu.mbarrier.create":
        size = MBARRIER_BYTES * number_of_mbarriers(op.results[0].type)
        return TypeLayout(8 * size, size, MBARRIER_BYTES)
    if op.name != "llvm.mlir.addressof" or space_of(op.results[0]) != "workgroup":
        return None
    declared = globals_.get(str(ir.FlatSymbolRefAttr(op.attributes["global_name"]).value))
    if declared is None:
        return None
    try:
        return layout_of(ir.TypeAttr(declared.attributes["global_type"]).value)
    except UnknownLayoutError as error:
        raise LoweringError(
            f"cannot lower this: {error}", code="element-layout", at=declared
        ) from error
