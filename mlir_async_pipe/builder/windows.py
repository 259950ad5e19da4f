"""Views of a part of a memref, by where it begins.

window(%A : memref<?x512xf32>, [%i, 0], (128,))
  -->  memref.subview %A[%i, 0] [1, 128] [1, 1] : … to memref<128xf32, strided<[1], offset: ?>>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, create
from mlir_async_pipe.builder.caller import here
from mlir_async_pipe.facts.values.alignment import static_strides
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter


def window(memory: Value, offsets: Sequence[Value | int], shape: Sequence[int]) -> Value:
    """The elements of `shape` from `offsets` on, along the last dimensions; one along the others."""
    ip, loc = ir.InsertionPoint.current, here()
    places = list(offsets)
    if all(isinstance(place, int) for place in places):
        # One that is no constant of the op makes the offset in the type a question mark.
        places[0] = IntegerWriter(ip, loc).constant(int(str(places[0])))
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    dynamic = [place for place in places if not isinstance(place, int)]
    static = [place if isinstance(place, int) else marker for place in places]
    outer = len(places) - len(shape)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(static),
        "static_sizes": ir.DenseI64ArrayAttr.get([*[1] * outer, *shape]),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(places)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(dynamic), 0, 0]),
    }
    kind = _type(ir.MemRefType(memory.type), static_strides(memory)[outer:], shape)
    made = create("memref.subview", [memory, *dynamic], [kind], attributes, ip=ip, loc=loc)
    return made.results[0]


def _type(whole: Any, strides: list[int | None], shape: Sequence[int]) -> Any:
    sizes = "x".join(map(str, shape))
    steps = ", ".join("?" if stride is None else str(stride) for stride in strides)
    space = f", {whole.memory_space}" if whole.memory_space is not None else ""
    return ir.Type.parse(
        f"memref<{sizes}x{whole.element_type}, strided<[{steps}], offset: ?>{space}>"
    )
