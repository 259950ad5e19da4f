"""The pass `demo-lower`: demo.copy --> nvgpu.device_async_copy."""

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import before, create, walk
from mlir_async_pipe.passes import NoOptions, register


@register("demo-lower", "write NVIDIA's copies for those of demo")
def run(module: Any, options: NoOptions, session: Any) -> None:
    for op in list(walk(module)):
        if op.name != "demo.copy":
            continue
        to, *indices, source, index = op.operands
        sizes = ir.DenseI32ArrayAttr.get([1, len(indices), 1, 1, 0], op.context)
        count = ir.IntegerAttr.get(
            ir.IndexType.get(op.context), ir.IntegerAttr(op.attributes["elements"]).value
        )
        copy = create(
            "nvgpu.device_async_copy",
            [to, *indices, source, index],
            [op.results[0].type],
            {"operandSegmentSizes": sizes, "dstElements": count},
            ip=before(op),
            loc=op.location,
        )
        op.results[0].replace_all_uses_with(copy.results[0])
        op.erase()
