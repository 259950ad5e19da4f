"""Calls of ROCm's device libraries that LLVM's back end for AMD does itself.

    llvm.call @__ocml_exp2_f32(%x)          llvm.intr.exp2(%x)
    llvm.call @__ocml_expm1_f32(%x)    -->  llvm.fsub(llvm.intr.exp(%x), 1.0)
    llvm.call @__ockl_get_num_groups(d)     the d-th word of the hidden arguments

MLIR makes nearly every `math` op a call, and a size of the grid too. What the chip has an
instruction for, or LLVM a proven expansion of, needs no library to link. Of f64 LLVM has none, and
of tanh, erf, sin and the like none for any type: these stay calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    constant_value,
    erase,
    symbol_name,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.lowering.rocdl.copy_addresses import split_for_rocdl
from mlir_async_pipe.lowering.scopes.dense_buffers import join_dynamic_globals
from mlir_async_pipe.vocabulary.control_flow import callee_name

# Bytes into the hidden arguments (code object 5 and newer): the blocks in x, y and z, 32 bits each,
# then the threads of a block in x, y and z, 16 bits each.
_BLOCKS, _THREADS = 0, 12

# From a builder and the call to the value that it stands for, None to leave it.
Writer = Callable[[LlvmBuilder, Any], Any]


def finish(root: Operation, chip: str) -> None:
    """What is done to the LLVM dialect before it becomes code for the chip of that name."""
    for gpu_module in walk_named(root, "gpu.module".__eq__):
        join_dynamic_globals(gpu_module)
    split_for_rocdl(root, chip)
    calls_to_intrinsics(root)


def calls_to_intrinsics(root: Operation) -> None:
    """Replace the calls, and erase the declarations that nobody calls any more."""
    replaced = []
    for op in walk(root):
        name = callee_name(op)
        write = WRITERS.get(name or "")
        value = None if write is None else write(LlvmBuilder(before(op), op.location), op)
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            replaced.append((op, name))
    erase(op for op, _ in replaced)
    left = set(map(callee_name, walk(root)))
    names = {name for _, name in replaced} - left
    erase(op for op in walk_named(root, "llvm.func".__eq__) if symbol_name(op) in names)


def _intrinsic(name: str, build: LlvmBuilder, call: Operation) -> Value:
    (argument,) = call.operands
    return build.make(f"llvm.intr.{name}", [argument], argument.type)


def _rsqrt(build: LlvmBuilder, call: Operation) -> Value:
    root = _intrinsic("sqrt", build, call)
    return build.binary("llvm.fdiv", _one(build, root.type), root)


def _expm1(build: LlvmBuilder, call: Operation) -> Value:
    power = _intrinsic("exp", build, call)
    return build.binary("llvm.fsub", power, _one(build, power.type))


def _log1p(build: LlvmBuilder, call: Operation) -> Value:
    (argument,) = call.operands
    more = build.binary("llvm.fadd", _one(build, argument.type), argument)
    return build.make("llvm.intr.log", [more], more.type)


def _one(build: LlvmBuilder, kind: ir.Type) -> Value:
    return build.make("llvm.mlir.constant", [], kind, {"value": ir.FloatAttr.get(kind, 1.0)})


def _hidden(first: int, bits: int, build: LlvmBuilder, call: Operation) -> Value | None:
    """The number of a dimension, among the arguments that every launch adds."""
    dimension = constant_value(call.operands[0])
    if dimension is None:
        return None
    context = call.context
    intrinsic = ir.StringAttr.get("llvm.amdgcn.implicitarg.ptr", context)
    none = ir.DenseI32ArrayAttr.get([], context)
    segments = ir.DenseI32ArrayAttr.get([0, 0], context)
    start = build.make(
        "llvm.call_intrinsic",
        [],
        ir.Type.parse("!llvm.ptr<4>", context),
        {"intrin": intrinsic, "op_bundle_sizes": none, "operandSegmentSizes": segments},
    )
    place = build.at(start, first + dimension * bits // 8)
    read = build.make("llvm.load", [place], build.integer(bits))
    return build.cast("llvm.zext", read, call.results[0].type)


# 16 and 32 bits: LLVM expands them with the instructions of the chip, to the same precision.
_SHORT = ("f32", "f16")
WRITERS: dict[str, Writer] = {
    **{
        f"__ocml_{name}_{kind}": partial(_intrinsic, name)
        for name in ("exp", "exp2", "log", "log2", "log10")
        for kind in _SHORT
    },
    **{
        f"__ocml_{name}_{kind}": partial(_intrinsic, name)
        for name in ("floor", "ceil", "sqrt")
        for kind in (*_SHORT, "f64")
    },
    **{f"__ocml_rsqrt_{kind}": _rsqrt for kind in (*_SHORT, "f64")},
    **{f"__ocml_expm1_{kind}": _expm1 for kind in _SHORT},
    **{f"__ocml_log1p_{kind}": _log1p for kind in _SHORT},
    "__ockl_get_num_groups": partial(_hidden, _BLOCKS, 32),
    "__ockl_get_local_size": partial(_hidden, _THREADS, 16),
}
