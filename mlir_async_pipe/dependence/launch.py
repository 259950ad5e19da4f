"""How many threads a kernel is launched with: from the function, or from its launch."""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import (
    Operation,
    ancestors,
    constant_value,
    is_function,
    outermost,
    symbol_name,
    walk,
)

Size = tuple[int, int, int]


def block_size(function: Operation) -> Size | None:
    """Threads in x, y, z of the block that runs `function`, None where nothing says so.

    Sources, first one that answers: `known_block_size`, a gpu.launch around the code, the
    gpu.launch_func of the module that names the kernel (all of them must agree).
    """
    for name in ("known_block_size", "gpu.known_block_size", "nvvm.reqntid"):
        if name in function.attributes:
            sizes = [int(size) for size in ir.DenseI32ArrayAttr(function.attributes[name])]
            x, y, z = [*sizes, 1, 1, 1][:3]
            return x, y, z
    return _launched_size(function)


def _launched_size(function: Operation) -> Size | None:
    name = symbol_name(function)
    found: set[Size | None] = set()
    for op in walk(outermost(function)):
        if op.name == "gpu.launch_func" and str(op.attributes["kernel"]).endswith(f"@{name}"):
            found.add(_constant_sizes(op))
    return found.pop() if len(found) == 1 else None


def _constant_sizes(launch: Operation) -> Size | None:
    """The block operands of a gpu.launch_func: asynchronous tokens, grid x y z, block x y z."""
    segments = list(ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"]))
    first = segments[0] + 3
    sizes = [constant_value(launch.operands[first + axis]) for axis in range(3)]
    if any(size is None for size in sizes):
        return None
    x, y, z = (int(size) for size in sizes if size is not None)
    return x, y, z


def enclosing_launch_size(op: Operation) -> Size | None:
    """The constant block size of a gpu.launch around `op`."""
    for above in ancestors(op):
        if above.name == "gpu.launch":
            return _constant_sizes(above)
        if is_function(above):
            return block_size(above)
    return None
