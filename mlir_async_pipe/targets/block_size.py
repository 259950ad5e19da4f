"""How many threads a kernel's block has, in x, y and z, where the module says so."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import Operation, constant_value, symbol_name, walk

BlockSize = tuple[int, int, int]

# gpu.func has it as `known_block_size`; on other functions it is the discardable attribute.
_ATTRIBUTES = ("known_block_size", "gpu.known_block_size")


def block_size_of(function: Operation, module: Any) -> BlockSize | None:
    """The block size from the kernel's attribute, else from launches with constant sizes.

    None where neither says it, or where two launches disagree.
    """
    for name in _ATTRIBUTES:
        if name in function.attributes:
            x, y, z = ir.DenseI32ArrayAttr(function.attributes[name])
            return int(x), int(y), int(z)
    sizes = {_launched(op) for op in walk(module) if _launches(op, symbol_name(function))}
    return sizes.pop() if len(sizes) == 1 else None


def _launches(op: Operation, kernel: str) -> bool:
    return (
        op.name == "gpu.launch_func"
        and str(op.attributes["kernel"]).rsplit("@", 1)[-1].strip('"') == kernel
    )


def _launched(launch: Operation) -> BlockSize | None:
    """The block size operands of a gpu.launch_func, as constants."""
    sizes = list(ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"]))
    # Segments: async dependencies, grid x y z, block x y z, …
    first = sum(sizes[:4])
    x, y, z = (constant_value(launch.operands[first + i]) for i in range(3))
    return None if x is None or y is None or z is None else (x, y, z)
