"""Workgroup buffers reserve what their elements span, and all dynamic memory is one array.

    workgroup(%a : memref<32x32xf16, strided<[40, 1]>>)
      -->  workgroup(%f : memref<1272xf16>)
           %a = memref.reinterpret_cast %f to offset: [0], sizes: [32, 32], strides: [40, 1]

MLIR reserves the product of the sizes, 1024 elements here, and the last element is number 1271.

After MLIR's conversions all names of dynamic shared memory become one external array:

    llvm.mlir.global internal @a : array<0 x f32>            llvm.mlir.global external @a …
    llvm.mlir.global internal @__dynamic_shmem__0     -->
    addressof @a … addressof @__dynamic_shmem__0             addressof @a … addressof @a

LLVM takes two globals for distinct memory and drops what only one of them is written by. An array
of no bytes that is not external overlaps static memory: only the external one begins after it and
is sized at launch (CUDA and HIP, `extern __shared__`).
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    after,
    attribute,
    before,
    erase,
    integer_attribute,
    operations,
    retype,
    set_integer,
    symbol_name,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import fresh_name
from mlir_async_pipe.facts.values.memory_roots import space_of_type
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    attributed,
    buffer_bytes,
    module_functions,
    top_level,
)
from mlir_async_pipe.vocabulary.memory_layout import (
    element_bytes,
    is_dense,
    strided_type,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.memory_names import global_name, is_dynamic_global


def flatten_buffers(gpu_module: Operation) -> None:
    """Give every workgroup attribution and global that is not dense a dense buffer of its span.

    Raises LoweringError (element-layout) where the span is not known.
    """
    for function in module_functions(gpu_module):
        for argument in attributed(function):
            if not _is_plain(argument.type, function):
                _flatten_attribution(argument, function)
    renewed = set()
    for op in top_level(gpu_module):
        if op.name != "memref.global":
            continue
        kind = ir.TypeAttr(op.attributes["type"]).value
        if space_of_type(kind) == "workgroup" and not _is_plain(kind, op):
            op.attributes["type"] = ir.TypeAttr.get(_flat(kind, op), op.context)
            renewed.add(symbol_name(op))
    for op in walk_named(gpu_module, "memref.get_global".__eq__) if renewed else []:
        if global_name(op) in renewed:
            _flatten_address(op)


def _is_plain(kind: Any, at: Operation) -> bool:
    # The span first: it refuses what has no strides at all.
    return buffer_bytes(kind, at) == 0 or is_dense(kind)


def _flat(kind: Any, at: Operation) -> Any:
    memref = ir.MemRefType(kind)
    elements = buffer_bytes(kind, at) // element_bytes(kind)
    return ir.MemRefType.get(
        [elements], memref.element_type, memory_space=memref.memory_space, loc=at.location
    )


def _flatten_attribution(argument: Value, function: Operation) -> None:
    kind, ip = argument.type, before(operations(function.regions[0].blocks[0])[0])
    retype(argument, _flat(kind, function), lambda: _seen_as(kind, argument, ip, function.location))


def _flatten_address(get_global: Operation) -> None:
    kind = get_global.results[0].type
    named = {"name": get_global.attributes["name"]}
    flat = OpWriter.before(get_global).op("memref.get_global", (), [_flat(kind, get_global)], named)
    seen = _seen_as(kind, flat.results[0], after(flat), get_global.location)
    get_global.results[0].replace_all_uses_with(seen)
    get_global.erase()


def _seen_as(kind: Any, flat: Value, ip: Any, loc: Any) -> Value:
    """The flat buffer with the sizes, strides and offset of `kind`, as that type."""
    memref = ir.MemRefType(kind)
    strides, offset = strides_and_offset(memref)
    context = flat.context
    strided = strided_type(memref, memref.shape, strides, offset)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get([offset], context),
        "static_sizes": ir.DenseI64ArrayAttr.get(list(memref.shape), context),
        "static_strides": ir.DenseI64ArrayAttr.get(strides, context),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0], context),
    }
    write = OpWriter(ip, loc)
    view = write.make("memref.reinterpret_cast", [flat], strided, attributes)
    return view if strided == kind else write.make("memref.cast", [view], kind)


def join_dynamic_globals(gpu_module: Operation, alignment: int = 1) -> None:
    """Keep one of the globals without bytes, aligned as all of them and to `alignment`."""
    found = [op for op in top_level(gpu_module) if is_dynamic_global(op)]
    if not found:
        return
    kept, *others = found
    kept.attributes["linkage"] = attribute("#llvm.linkage<external>", kept.context)
    asked = [integer_attribute(op, "alignment") or 1 for op in found]
    set_integer(kept, "alignment", max(alignment, *asked), 64)
    names, name = {symbol_name(op) for op in found}, symbol_name(kept)
    if not name.isidentifier():
        # Of external symbols LLVM changes no letter that PTX does not know.
        name = fresh_name(gpu_module, "__dynamic_shmem__")
        kept.attributes["sym_name"] = ir.StringAttr.get(name, kept.context)
    for op in walk_named(gpu_module, "llvm.mlir.addressof".__eq__):
        if global_name(op) in names:
            op.attributes["global_name"] = ir.FlatSymbolRefAttr.get(name, kept.context)
    erase(others)
