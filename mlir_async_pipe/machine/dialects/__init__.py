"""The semantics of each dialect, one small file each; importing this fills the table."""

from mlir_async_pipe.machine.dialects import (  # noqa: F401
    amd,
    arith,
    async_ops,
    async_pipe,
    control,
    gpu,
    llvm,
    memref,
    nvgpu,
    nvvm,
    scf,
    tma,
    vector,
)
