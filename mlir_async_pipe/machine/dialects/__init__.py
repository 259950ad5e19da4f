"""The semantics of each dialect, one small file each; importing this fills the table."""

from mlir_async_pipe.machine.dialects import (  # noqa: F401
    amd,
    amd_lanes,
    amd_matrix,
    amd_tensor,
    arith,
    async_ops,
    async_pipe,
    atomics,
    clusters,
    constants_casts,
    control,
    gpu,
    hints,
    intrinsics,
    llvm,
    llvm_arith,
    math,
    mbarriers,
    memref,
    memref_views,
    named_barriers,
    nvgpu,
    nvvm,
    scf,
    tcgen05,
    tensor_products,
    tma,
    vector,
    vector_elements,
    vector_sums,
    warpgroup,
    wave_matrix,
    wgmma,
)
from mlir_async_pipe.session import plugins

for _entry in plugins.entries("machine").values():
    _entry.load()
