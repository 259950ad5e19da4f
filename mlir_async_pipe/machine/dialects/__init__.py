"""The semantics of each dialect, one small file each; importing this fills the table."""

from mlir_async_pipe.machine.dialects import (  # noqa: F401
    amd,
    arith,
    async_ops,
    control,
    gpu,
    llvm,
    mbarriers,
    memref,
    nvvm,
    scf,
    tcgen05,
    tma,
    vector,
    warpgroup,
)
from mlir_async_pipe.session import plugins

for _entry in plugins.entries("machine").values():
    _entry.load()
