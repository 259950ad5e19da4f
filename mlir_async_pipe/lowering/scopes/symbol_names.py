"""Refuses symbols that the code cannot have, where they are declared.

gpu.func @"my.kernel-1"        symbol-name: PTX knows letters, digits, _ and $
memref.global @__wg_k_0        symbol-taken: MLIR calls the first attribution of gpu.func @k so
"""

from __future__ import annotations

import re

from mlir_async_pipe.bindings.raw_ops import Operation, operations, symbol_name
from mlir_async_pipe.lowering.nvvm.shared_memory import attributed
from mlir_async_pipe.session.diagnostics import LoweringError

# PTX ISA, identifiers.
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+")
# Intrinsics are instructions.
_OF_LLVM = "llvm."
_LOCAL = re.compile(r'"private"|#llvm\.linkage<(internal|private)>')


def check_symbols(gpu_module: Operation) -> None:
    """Raise LoweringError (symbol-taken) at a symbol that MLIR's conversions make too."""
    tops = operations(gpu_module.regions[0].blocks[0])
    made = {
        f"__wg_{symbol_name(function)}_{number}": function
        for function in tops
        for number in range(len(attributed(function)))
    }
    for op in tops:
        if symbol_name(op) in made:
            function = made[symbol_name(op)]
            raise LoweringError(
                f"'{symbol_name(op)}' is what MLIR calls workgroup memory of "
                f"'{symbol_name(function)}'",
                code="symbol-taken",
                at=op,
                notes=(("the function with this memory", function),),
                advice="give it another name",
            )


def check_ptx_names(gpu_module: Operation) -> None:
    """Raise LoweringError (symbol-name) at a symbol that is no identifier of PTX. Those of local
    variables LLVM changes."""
    for op in operations(gpu_module.regions[0].blocks[0]):
        name = symbol_name(op)
        known = _IDENTIFIER.fullmatch(name) or name.startswith(_OF_LLVM)
        if name and not known and not _is_local_variable(op):
            raise LoweringError(
                f"PTX cannot call anything '{name}'",
                code="symbol-name",
                at=op,
                advice="name it with letters, digits, _ and $, and begin with a letter",
            )


def _is_local_variable(op: Operation) -> bool:
    told = [str(op.attributes[n]) for n in ("sym_visibility", "linkage") if n in op.attributes]
    return "function_type" not in op.attributes and any(map(_LOCAL.match, told))
