"""States the block size of a kernel once, in the words of its vendor.

    known_block_size = array<i32: 64, 1, 1>    -->   NVIDIA  .reqntid 64, 1, 1
                                                     AMD     rocdl.reqd_work_group_size

MLIR writes the first as `nvvm.maxntid`, which also allows smaller blocks, and it writes a second
attribute beside one of the same meaning, of which its verifier or ptxas dies.
"""

from __future__ import annotations

from math import prod

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, symbol_name, walk
from mlir_async_pipe.lowering.nvvm.shared_memory import kernels, top_level
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary.launch_ids import (
    LIMITS_OF_THREADS,
    Size,
    stated_size,
    threads_allowed,
)

_KNOWN = "known_block_size"
_SAME = ("nvvm.reqntid", "rocdl.reqd_work_group_size")
_LARGEST_SIZES = "nvvm.maxntid"

BlockSizes = dict[str, Size]
"""The block size of each kernel of a gpu.module that states one, by name."""


def state_once(gpu_module: Operation) -> BlockSizes:
    """Drop the attributes that `known_block_size` makes superfluous; the sizes that it states.

    Raises LoweringError (block-size-conflict) where one says something else.
    """
    found: BlockSizes = {}
    for kernel in kernels(gpu_module):
        if _KNOWN not in kernel.attributes:
            continue
        sizes = stated_size(kernel, _KNOWN)
        for name in (*_SAME, *LIMITS_OF_THREADS):
            if name in kernel.attributes:
                if not _agrees(kernel, name, sizes):
                    raise LoweringError(
                        f"kernel '{symbol_name(kernel)}' has blocks of "
                        f"{' x '.join(map(str, sizes))} threads, and {name} = "
                        f"{kernel.attributes[name]}",
                        code="block-size-conflict",
                        at=kernel,
                        advice="state the block size once",
                    )
                del kernel.attributes[name]
        found[symbol_name(kernel)] = sizes
    return found


def require_sizes(gpu_module: Operation, sizes: BlockSizes) -> None:
    """nvvm.maxntid  -->  nvvm.reqntid, on the functions that the kernels became."""
    for op in top_level(gpu_module):
        if op.name == "llvm.func" and symbol_name(op) in sizes:
            if _LARGEST_SIZES in op.attributes:
                del op.attributes[_LARGEST_SIZES]
            exact = ir.DenseI32ArrayAttr.get(sizes[symbol_name(op)], op.context)
            op.attributes["nvvm.reqntid"] = exact


def _agrees(kernel: Operation, name: str, sizes: Size) -> bool:
    if name in _SAME:
        return stated_size(kernel, name) == sizes
    first, last = threads_allowed(kernel, name)
    return first <= prod(sizes) <= last


# Kernels built through the op classes carry `gpu.kernel`, parsed ones the op's own `kernel`.
#
#     gpu.func @f() attributes {gpu.kernel}  -->  gpu.func @f() kernel
#
# MLIR's conversions write `gpu.kernel` again, beside the one that is there: text with the same
# attribute twice, which no parser reads.

_BUILT, _PARSED = "gpu.kernel", "kernel"


def name_kernels(root: Operation) -> None:
    """Give every gpu.func that was built as a kernel the attribute of a parsed one."""
    for op in walk(root):
        if op.name == "gpu.func" and _BUILT in op.attributes:
            op.attributes[_PARSED] = op.attributes[_BUILT]
            del op.attributes[_BUILT]
