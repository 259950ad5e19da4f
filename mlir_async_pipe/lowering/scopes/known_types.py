"""Refuses values, memory and symbols that no code of a GPU has, before MLIR's conversions leave them
over, or a back end dies of them.

gpu.func @k(%x: !nvgpu.tensormap.descriptor<…>)        argument-type: a launch hands over a pointer
%v = … : vector<[4]xf32>                               element-layout: no GPU has scalable vectors
arith.extf %v : vector<4xf8E4M3FN> to vector<4xf32>    narrow-float: chips convert by ops of their own

memref<64xtf32>                               element-layout: memory holds f32
nvgpu.device_async_copy of memref<64xi24>     copy-width: 3 bytes of every 4 are no row of bytes
vector.load memref<64xi4>, vector<8xi4>       element-layout: 8 bytes in memory, 4 in a vector
memref.global @g : memref<4xf32, 3> = dense…  lost-values: workgroup memory holds what it held before

gpu.func @"my.kernel-1"        symbol-name: PTX knows letters, digits, _ and $
memref.global @__wg_k_0        symbol-taken: MLIR calls the first attribution of gpu.func @k so
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    as_kind,
    function_type,
    symbol_name,
    type_text,
    walk,
)
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    attributed,
    has_layout,
    module_functions,
    top_level,
)
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import Access, accesses
from mlir_async_pipe.vocabulary.async_ops import DEVICE_COPY
from mlir_async_pipe.vocabulary.memory_layout import element_layout, is_packed, strides_and_offset
from mlir_async_pipe.vocabulary.memory_names import lost_values
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
                _check_value(*key, op)
                fine.add(key)


def _check_arguments(function: Operation) -> None:
    kind = function_type(function)
    for given in (*kind.inputs, *kind.results):
        if _GIVEN.match(type_text(given)) is None:
            why = f"a function cannot be handed a value of type {given}"
            raise LoweringError(why, code="argument-type", at=function, advice=_advice(given))


def _advice(given: Any) -> str:
    if "tensormap" in type_text(given):
        return "take !llvm.ptr, and make it one by builtin.unrealized_conversion_cast"
    return "hand over numbers, vectors, memrefs and pointers"


def _check_value(kind: str, computed: bool, op: Operation) -> None:
    if _SCALABLE.match(kind):
        why = f"no GPU has vectors of scalable length: {kind}"
        raise LoweringError(
            why, code="element-layout", at=op, advice="give the vector a fixed length"
        )
    if computed and _NARROW.match(kind):
        raise LoweringError(
            f"'{op.name}' computes with {kind}, and no conversion of MLIR lowers that",
            code="narrow-float",
            at=op,
            advice="convert by ops of the target (nvvm.convert…, amdgpu.ext_packed_fp8, rocdl.cvt…); "
            "loads, stores, bitcasts and matrix products take these types",
        )


def check_layouts(root: Operation) -> None:
    """Raise LoweringError (element-layout) at the first op that makes or takes memory of unknown
    layout or moves a row whose elements a vector would hold closer together, (copy-width) at
    such a copy, (lost-values) at a workgroup global with values."""
    for declared in lost_values(root):
        why = f"workgroup memory has no initial values, and {symbol_name(declared)!r} is declared with some"
        advice = "declare it uninitialized, and let the kernel store them"
        raise LoweringError(why, code="lost-values", at=declared, advice=advice)
    known: set[Any] = set()
    for op in walk(root):
        for kind in _types(op):
            if kind not in known:
                known.add(kind)
                _check(kind, op)
        apart = [access for access in accesses(op) if _moves_row(access)]
        if apart and op.name != DEVICE_COPY:
            kind = ir.MemRefType(apart[0].memory.type).element_type
            why = f"the elements that '{op.name}' moves, {kind}, lie further apart in memory than in a vector"
            advice = "move them one by one, or as elements of 1, 2, 4 or 8 bytes"
            raise LoweringError(why, code="element-layout", at=op, advice=advice)
        if apart:
            why = "the elements of this copy are no whole number of bytes, or lie apart in memory"
            raise LoweringError(
                why, code="copy-width", at=op, advice="copy elements of 1, 2, 4, 8 or 16 bytes"
            )


def _moves_row(access: Access) -> bool:
    """Whether several elements are moved at once that memory holds further apart than a vector:
    LLVM would read and write the packed bits of the vector. A copy is refused for one, too."""
    several = access.extent is not None and prod(access.extent) > 1
    if not several and access.op.name != DEVICE_COPY:
        return False
    return str(access.memory.type).startswith("memref<") and not is_packed(access.memory)


def _types(op: Operation) -> Iterator[Any]:
    blocks = (block for region in op.regions for block in region.blocks)
    for value in chain(op.results, *(block.arguments for block in blocks)):
        yield value.type


def _check(kind: Any, op: Operation) -> None:
    memref = as_kind(ir.MemRefType, kind)
    if memref is not None:
        with has_layout(op):
            element_layout(memref)
            strides_and_offset(memref)


# PTX ISA, identifiers.
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+")
# Intrinsics are instructions.
_OF_LLVM = "llvm."
_LOCAL = re.compile(r'"private"|#llvm\.linkage<(internal|private)>')


def check_symbols(gpu_module: Operation) -> None:
    """Raise LoweringError (symbol-taken) at a symbol that MLIR's conversions make too."""
    made = {
        f"__wg_{symbol_name(function)}_{number}": function
        for function in top_level(gpu_module)
        for number in range(len(attributed(function)))
    }
    for op in top_level(gpu_module):
        name = symbol_name(op)
        if (function := made.get(name)) is not None:
            raise LoweringError(
                f"'{name}' is what MLIR calls workgroup memory of '{symbol_name(function)}'",
                code="symbol-taken",
                at=op,
                notes=(("the function with this memory", function),),
                advice="give it another name",
            )


def check_ptx_names(gpu_module: Operation) -> None:
    """Raise LoweringError (symbol-name) at a symbol that is no identifier of PTX. Those of local
    variables LLVM changes."""
    for op in top_level(gpu_module):
        name = symbol_name(op)
        known = _IDENTIFIER.fullmatch(name) or name.startswith(_OF_LLVM)
        if name and not known and not _is_local_variable(op):
            why = f"PTX cannot call anything '{name}'"
            advice = "name it with letters, digits, _ and $, and begin with a letter"
            raise LoweringError(why, code="symbol-name", at=op, advice=advice)


def _is_local_variable(op: Operation) -> bool:
    stated = [str(op.attributes[n]) for n in ("sym_visibility", "linkage") if n in op.attributes]
    return "function_type" not in op.attributes and any(map(_LOCAL.match, stated))
