"""Zeros for the elements that a copy leaves out, on chips whose copies have no such fill.

    %p = nvgpu.device_async_copy %A[%i], %S[%j], 8, %kept

A copy that keeps all elements or none reads from a constant of zeros where it keeps none, so
that it is issued on every path, and the back end can leave it in flight:

    %from = arith.select %whole, %A, %zeros;  copy %from[select %whole, %i, 0], %S[%j]

Any other leaves the copy to the lanes that keep all:

    scf.if %kept >= 8 { the copy } else { store zeros; for k < %kept: S[j + k] = A[i + k] }

These stores are synchronous and done by the lane that would have copied. They come no earlier
than the copy would have been issued, so what orders the copy after earlier reads orders them.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    Operation,
    Value,
    ancestors,
    constant_value,
    create,
    defining_op,
    operations,
    symbol_name,
)
from mlir_async_pipe.bindings.structured_ops import address_of, declare_global, write_for
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter


def can_read_zeros(source: Value, kept: Value, elements: int) -> bool:
    """Whether `kept` is 0 or `elements`, and a constant of zeros can have the source's type."""
    kind = ir.MemRefType(source.type)
    dynamic = all(kind.is_dynamic_dim(axis) for axis in range(kind.rank))
    strides, _ = kind.get_strides_and_offset()
    simple = strides[-1] == 1 and all(stride < 0 for stride in strides[:-1])
    return dynamic and simple and all_or_nothing(kept, elements)


def zeros_or(
    source: Value, indices: list[Value], elements: int, whole: Value, build: IntegerWriter
) -> tuple[Value, list[Value]]:
    """Memref and subscripts that are the source's where `whole` is true, else those of zeros."""
    first = build.constant(0)
    chosen = [build.select(whole, index, first) for index in indices]
    return build.select(whole, source, _zeros_like(source, elements, build)), chosen


def _zeros_like(source: Value, elements: int, build: IntegerWriter) -> Value:
    """A constant global of zeros, `elements` in its last dimension, cast to the source's type."""
    kind = ir.MemRefType(source.type)
    context = build.location.context
    shape = [1] * (kind.rank - 1) + [elements]
    space = ir.Attribute.parse("#gpu.address_space<global>", context)
    extents = "x".join(map(str, shape))
    made = ir.Type.parse(f"memref<{extents}x{kind.element_type}, {space}>", context)
    table = _symbol_table(build.ip.block.owner.operation)
    name = f"async_pipe_zeros_{extents}x{kind.element_type}"
    if not any(symbol_name(op) == name for op in operations(table.regions[0].blocks[0])):
        splat = _zero(kind.element_type, build.location)
        value_text = f"dense<{str(splat).split(' ')[0]}> : tensor<{extents}x{kind.element_type}>"
        initial = ir.Attribute.parse(value_text, context)
        declared = declare_global(table, name, made, initial, 16, build.location)
        declared.attributes["constant"] = ir.UnitAttr.get(context)
    value = address_of(name, made, build.ip, build.location)
    if str(kind.memory_space) != str(space):
        own = "" if kind.memory_space is None else f", {kind.memory_space}"
        plain = ir.Type.parse(f"memref<{extents}x{kind.element_type}{own}>", context)
        value = create(
            "memref.memory_space_cast", (value,), (plain,), ip=build.ip, loc=build.location
        ).results[0]
    return create("memref.cast", (value,), (source.type,), ip=build.ip, loc=build.location).results[
        0
    ]


def _symbol_table(op: Operation) -> Operation:
    around = (op, *ancestors(op))
    return next(above for above in around if above.name in SYMBOL_TABLES)


def fill(
    memories: tuple[Value, Value],
    indices: tuple[list[Value], list[Value]],
    elements: int,
    kept: Value,
    build: IntegerWriter,
    *,
    all_or_nothing: bool,
) -> None:
    """Store zeros to `elements` elements, then the first `kept` of the source.

    `memories` and `indices` are those of source and destination. With `all_or_nothing` the
    copy keeps all elements or none, and only the zeros are stored.
    """
    source, destination = memories
    element = ir.MemRefType(destination.type).element_type
    vector = ir.VectorType.get([elements], element, loc=build.location)
    zero = ir.DenseElementsAttr.get_splat(vector, _zero(element, build.location))
    zeros = create(
        "arith.constant", (), (vector,), {"value": zero}, ip=build.ip, loc=build.location
    ).results[0]
    create("vector.store", (zeros, destination, *indices[1]), ip=build.ip, loc=build.location)
    if all_or_nothing:
        return
    bounds = (build.constant(0), kept, build.constant(1))
    body = write_for(bounds, (), build.ip, build.location).regions[0].blocks[0]
    inner = IntegerWriter(ir.InsertionPoint(body), build.location)
    at = body.arguments[0]
    value = create(
        "memref.load",
        (source, *inner.advanced(indices[0], at)),
        (element,),
        ip=inner.ip,
        loc=build.location,
    ).results[0]
    create(
        "memref.store",
        (value, destination, *inner.advanced(indices[1], at)),
        ip=inner.ip,
        loc=build.location,
    )
    create("scf.yield", ip=inner.ip, loc=build.location)


def all_or_nothing(kept: Value, elements: int) -> bool:
    """Whether `kept` is either 0 or `elements`: a constant, or a select of the two."""
    op = defining_op(kept)
    if op is None or op.name != "arith.select":
        return constant_value(kept) in (0, elements)
    return {constant_value(value) for value in list(op.operands)[1:]} <= {0, elements}


def _zero(element: Any, loc: Any) -> Any:
    try:
        return ir.IntegerAttr.get(ir.IntegerType(element), 0)
    except ValueError:
        return ir.FloatAttr.get(element, 0.0, loc=loc)
