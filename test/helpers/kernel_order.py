"""The ops of a kernel loop in their order, by short names."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import operations, walk

NAMES = {
    "nvgpu.device_async_wait": "wait",
    "async_pipe.wait_queue": "wait",
    "gpu.barrier": "barrier",
    "nvgpu.device_async_copy": "copy",
    "nvgpu.device_async_create_group": "commit",
    "async_pipe.scope": "copy",
    "async_pipe.commit_queue": "commit",
    "nvgpu.ldmatrix": "load",
    "vector.contract": "product",
    "nvgpu.mma.sync": "product",
    "memref.load": "load",
    "memref.store": "store",
}


def kernel_order(module: Any) -> list[str]:
    """The ops of the module's first scf.for that have such a name."""
    loop = next(op for op in walk(module) if op.name == "scf.for")
    body = operations(loop.regions[0].blocks[0])
    return [NAMES[op.name] for op in body if op.name in NAMES]
