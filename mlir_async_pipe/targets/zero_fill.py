"""Zeros for the elements that a copy leaves out, on chips whose copies have no such fill.

    %p = nvgpu.device_async_copy %A[%i], %S[%j], 8, %kept
        --> scf.if %kept >= 8 { the copy } else { store zeros; for k < %kept: S[j + k] = A[i + k] }

The stores are synchronous and done by the lane that would have copied. They come no earlier
than the copy would have been issued, so what orders the copy after earlier reads orders them.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import Value, constant_value, create, defining_op
from mlir_async_pipe.targets.index_builder import IndexBuilder


def fill(
    memories: tuple[Value, Value],
    indices: tuple[list[Value], list[Value]],
    elements: int,
    kept: Value,
    build: IndexBuilder,
    *,
    all_or_nothing: bool,
) -> None:
    """Store zeros to `elements` elements, then the first `kept` of the source.

    `memories` and `indices` are those of source and destination. With `all_or_nothing` the
    copy keeps all elements or none, and only the zeros are stored.
    """
    source, destination = memories
    element = ir.MemRefType(destination.type).element_type
    vector = ir.VectorType.get([elements], element, loc=build.loc)
    zero = ir.DenseElementsAttr.get_splat(vector, _zero(element, build.loc))
    zeros = create(
        "arith.constant", (), (vector,), {"value": zero}, ip=build.ip, loc=build.loc
    ).results[0]
    create("vector.store", (zeros, destination, *indices[1]), ip=build.ip, loc=build.loc)
    if all_or_nothing:
        return
    bounds = (build.constant(0), kept, build.constant(1))
    loop = create("scf.for", bounds, (), regions=1, ip=build.ip, loc=build.loc)
    body = loop.regions[0].blocks.append(ir.IndexType.get(kept.context), arg_locs=[build.loc])
    inner = IndexBuilder(ir.InsertionPoint(body), build.loc)
    at = body.arguments[0]
    value = create(
        "memref.load",
        (source, *advanced(indices[0], at, inner)),
        (element,),
        ip=inner.ip,
        loc=build.loc,
    ).results[0]
    create(
        "memref.store",
        (value, destination, *advanced(indices[1], at, inner)),
        ip=inner.ip,
        loc=build.loc,
    )
    create("scf.yield", ip=inner.ip, loc=build.loc)


def all_or_nothing(kept: Value, elements: int) -> bool:
    """Whether `kept` is either 0 or `elements`: a constant, or a select of the two."""
    op = defining_op(kept)
    if op is None or op.name != "arith.select":
        return constant_value(kept) in (0, elements)
    return {constant_value(value) for value in list(op.operands)[1:]} <= {0, elements}


def advanced(indices: list[Value], offset: Value | int, build: IndexBuilder) -> list[Value]:
    """The subscripts `offset` elements further on in the last dimension."""
    return [*indices[:-1], build.add(indices[-1], offset)]


def _zero(element: Any, loc: Any) -> Any:
    try:
        return ir.IntegerAttr.get(ir.IntegerType(element), 0)
    except ValueError:
        return ir.FloatAttr.get(element, 0.0, loc=loc)
