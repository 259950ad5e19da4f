"""Refuses values that no code of a GPU has, before MLIR's conversions leave them over.

gpu.func @k(%x: !nvgpu.tensormap.descriptor<…>)        argument-type: a launch hands over a pointer
%v = … : vector<[4]xf32>                               element-layout: no GPU has scalable vectors
arith.extf %v : vector<4xf8E4M3FN> to vector<4xf32>    narrow-float: chips convert by ops of their own
"""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, type_text, walk
from mlir_async_pipe.lowering.nvvm.shared_memory import module_functions
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary.pure_ops import computes

# What a function of LLVM can be given.
_GIVEN = re.compile(
    r"[su]?i\d+$|index$|b?f16$|f(32|64|128)$|f\dE|(memref|vector|complex|!gpu\.mma_matrix)<|!(llvm|ptr)\."
)
_SCALABLE = re.compile(r"(memref<(\?x|\d+x)*)?vector<[^>]*\[")
_NARROW = re.compile(r"(vector<[^>]*x)?(tf32|f[468]E\w+)>?$")


def check_types(gpu_module: Operation) -> None:
    """Raise LoweringError (argument-type, element-layout, narrow-float) at the first op of which a
    value has a type that is not lowered."""
    for function in module_functions(gpu_module):
        if function.name != "llvm.func":
            _check_arguments(function)
    fine: set[tuple[str, bool]] = set()
    for op in walk(gpu_module):
        computed = computes(op)
        for value in (*op.operands, *op.results) if computed else op.results:
            key = (type_text(value.type), computed)
            if key not in fine:
                _check(*key, op)
                fine.add(key)


def _check_arguments(function: Operation) -> None:
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for given in (*kind.inputs, *kind.results):
        if _GIVEN.match(type_text(given)) is None:
            raise LoweringError(
                f"a function cannot be handed a value of type {given}",
                code="argument-type",
                at=function,
                advice=_advice(given),
            )


def _advice(given: Any) -> str:
    if "tensormap" in type_text(given):
        return "take !llvm.ptr, and make it one by builtin.unrealized_conversion_cast"
    return "hand over numbers, vectors, memrefs and pointers"


def _check(kind: str, computed: bool, op: Operation) -> None:
    if _SCALABLE.match(kind):
        raise LoweringError(
            f"no GPU has vectors of scalable length: {kind}",
            code="element-layout",
            at=op,
            advice="give the vector a fixed length",
        )
    if computed and _NARROW.match(kind):
        raise LoweringError(
            f"'{op.name}' computes with {kind}, and no conversion of MLIR lowers that",
            code="narrow-float",
            at=op,
            advice="convert by ops of the target (nvvm.convert…, amdgpu.ext_packed_fp8, rocdl.cvt…); "
            "loads, stores, bitcasts and matrix products take these types",
        )
