"""Rows of ops of the GPU dialects that stay opaque on purpose, and why.

An opaque op may touch any memory: a loop that holds one keeps its order around it, or is refused.
Names that end in "." or "_" stand for all ops that begin with them.
"""

from __future__ import annotations

from dataclasses import replace

from mlir_async_pipe.vocabulary.memory_order import EVERYTHING, unordered
from mlir_async_pipe.vocabulary.rows import Opaque, Phase, Row, Tensor

_UNQUEUED = Opaque(
    "it copies asynchronously in a direction, or with a completion, that no queue here has",
    orders=False,
    copies=True,
)
_NAMED_BARRIER = Opaque(
    "it is a part of a barrier, at which only some threads may meet", meets=True
)
_CLUSTER = "it reaches shared memory of other blocks, or waits for them"

_OPS = {
    Opaque("it belongs to the host's side of a launch"): "gpu.binary gpu.host_register "
    "gpu.host_unregister gpu.memcpy gpu.memset gpu.set_default_device gpu.wait memref.realloc "
    "nvgpu.tma.create.descriptor",
    Opaque("it belongs to the host's side of a launch", orders=False): "gpu.launch_func",
    Opaque("it calls a library for sparse matrices on the host", orders=False): "gpu.create_ "
    "gpu.destroy_ gpu.sddmm gpu.sddmm_ gpu.set_csr_pointers gpu.spgemm_ gpu.spmat_ gpu.spmm gpu.spmm_ "
    "gpu.spmv gpu.spmv_",
    Phase.opaque: "amdgpu.ds_barrier_arrive amdgpu.ds_barrier_init amdgpu.ds_barrier_poll_state "
    "rocdl.ds.atomic.barrier.",
    replace(Phase.opaque, phases=True): "nvvm.mbarrier. nvvm.cp.async.mbarrier.",
    replace(Phase.opaque, orders=False, phases=True): "nvgpu.mbarrier.",
    Opaque(
        "it arrives at a barrier when copies are over, which no queue here counts", ends_copies=True
    ): "amdgpu.ds_async_barrier_arrive rocdl.ds.atomic.async.barrier.",
    Opaque(
        "it waits for a hardware counter that belongs to no queue here",
        orders=False,
        ends_copies=True,
    ): "amdgpu.memory_counter_wait rocdl.s.wait.dscnt rocdl.s.wait.expcnt rocdl.s.wait.loadcnt "
    "rocdl.s.wait.storecnt rocdl.s.waitcnt",
    Opaque(_CLUSTER, meets=True): "nvvm.griddepcontrol",
    Opaque(_CLUSTER, meets=True, phases=True): "nvvm.cluster. nvvm.clusterlaunchcontrol. "
    "nvvm.cp.async.bulk.shared.cluster.shared.cta",
    replace(Tensor.opaque, phases=True): "nvvm.tcgen05.ld. nvvm.tcgen05.mma. nvvm.tcgen05.mma_",
    _NAMED_BARRIER: "nvvm.barrier.reduction gpu.initialize_named_barrier rocdl.s.barrier. "
    "rocdl.s.get. rocdl.s.wakeup.barrier rocdl.wave.barrier",
    Opaque(
        "nobody has looked at what it does", meets=True, phases=True
    ): "nvvm.cp.async.bulk. nvvm.tcgen05.",
    _UNQUEUED: "amdgpu.tensor_store_from_lds memref.dma_ rocdl.cluster.load. rocdl.tensor.",
    replace(_UNQUEUED, phases=True): "nvvm.cp.async.bulk.tensor.reduce",
    Opaque(
        "the address is a descriptor of four words, of which no memory can be told", orders=False
    ): "rocdl.raw.buffer.",
    Opaque(
        "it sums over the block, through workgroup memory and barriers of its own", meets=True
    ): "gpu.all_reduce",
    Opaque("it reads its shape from memory", orders=False): "memref.reshape",
    Opaque("it may end the thread", meets=True): "nvvm.exit llvm.intr.debugtrap llvm.intr.trap "
    "llvm.intr.ubsantrap",
    Opaque("how much it touches behind its pointers no row says"): "llvm.intr.experimental.vp. "
    "llvm.intr.masked. llvm.intr.matrix.column.major. "
    "llvm.intr.vp.load llvm.intr.vp.store",
    Opaque("it keeps notes for somebody else beside a value"): "llvm.intr.annotation "
    "llvm.intr.ptr.annotation",
    Opaque(
        "it is about the stack, the arguments or the exceptions of the host"
    ): "llvm.intr.coro. llvm.intr.eh.typeid.for llvm.intr.stackrestore llvm.intr.stacksave "
    "llvm.intr.vacopy llvm.intr.vaend llvm.intr.vastart",
    Opaque("its text may do anything", meets=True): "nvvm.inline_ptx",
    Opaque(
        "it changes a descriptor in memory", orders=False, phases=True
    ): "nvvm.tensormap.replace",
    Opaque(
        "it fills shared memory through a port of its own", orders=False, phases=True
    ): "nvvm.st.bulk",
}


OPAQUE_ROWS = tuple(
    Row(op, effects=(opaque,), order=(lambda op: EVERYTHING) if opaque.orders else unordered)
    for opaque, ops in _OPS.items()
    for op in ops.split()
)
