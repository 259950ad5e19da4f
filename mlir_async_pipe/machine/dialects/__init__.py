"""The semantics of each dialect, one small file each; importing this fills the table."""

from mlir_async_pipe.machine.dialects import (  # noqa: F401
    arith,
    async_ops,
    async_pipe,
    control,
    gpu,
    memref,
    nvgpu,
    scf,
    vector,
)
