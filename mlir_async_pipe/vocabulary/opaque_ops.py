"""Ops of the GPU dialects that stay opaque on purpose, and why nobody gives them a row.

An opaque op may touch any memory: a loop that holds one keeps its order around it, or is refused.
Names that end in "." stand for all ops that begin with them.
"""

from __future__ import annotations

from functools import cache

_HOST = "it belongs to the host's side of a launch"
_SPARSE = "it calls a library for sparse matrices on the host"
_MBARRIER = "what completes with an mbarrier is not counted, and the barrier itself is memory"
_COUNTER = "it waits for a hardware counter that belongs to no queue here"
_ARRIVAL = "it arrives at a barrier when copies are over, which no queue here counts"
_CLUSTER = "it reaches shared memory of other blocks, or waits for them"
_TENSOR_MEMORY = "what it does with tensor memory stands in a table of its own, `tensor_memory`"
_NAMED_BARRIER = "it is a part of a barrier, at which only some threads may meet"
_UNQUEUED = "it copies asynchronously in a direction, or with a completion, that no queue here has"
_SUMS = "it sums over the block, through workgroup memory and barriers of its own"
_ENDS = "it may end the thread"
_TEXT = "its text may do anything"
_DESCRIPTOR = "the address is a descriptor of four words, of which no memory can be told"

_REASONS = {
    _HOST: "gpu.binary gpu.host_register gpu.host_unregister gpu.launch_func "
    "gpu.memcpy gpu.memset gpu.set_default_device gpu.wait memref.realloc nvgpu.tma.create.descriptor",
    _SPARSE: "gpu.create_ gpu.destroy_ gpu.sddmm gpu.sddmm_ gpu.set_csr_pointers gpu.spgemm_ "
    "gpu.spmat_ gpu.spmm gpu.spmm_ gpu.spmv gpu.spmv_",
    _MBARRIER: "nvgpu.mbarrier. nvvm.mbarrier. nvvm.cp.async.mbarrier. "
    "amdgpu.ds_barrier_arrive amdgpu.ds_barrier_init amdgpu.ds_barrier_poll_state "
    "rocdl.ds.atomic.barrier.",
    _ARRIVAL: "amdgpu.ds_async_barrier_arrive rocdl.ds.atomic.async.barrier.",
    _COUNTER: "amdgpu.memory_counter_wait rocdl.s.wait.dscnt rocdl.s.wait.expcnt "
    "rocdl.s.wait.loadcnt rocdl.s.wait.storecnt rocdl.s.waitcnt",
    _CLUSTER: "nvvm.clusterlaunchcontrol. nvvm.griddepcontrol "
    "nvvm.cp.async.bulk.shared.cluster.shared.cta",
    _TENSOR_MEMORY: "nvvm.tcgen05.commit nvvm.tcgen05.cp nvvm.tcgen05.dealloc nvvm.tcgen05.fence "
    "nvvm.tcgen05.ld nvvm.tcgen05.ld. nvvm.tcgen05.mma nvvm.tcgen05.mma. nvvm.tcgen05.mma_ "
    "nvvm.tcgen05.relinquish_alloc_permit nvvm.tcgen05.shift nvvm.tcgen05.st nvvm.tcgen05.wait",
    _NAMED_BARRIER: "nvvm.barrier.reduction gpu.initialize_named_barrier rocdl.s.barrier. "
    "rocdl.s.get. rocdl.s.wakeup.barrier rocdl.wave.barrier",
    _UNQUEUED: "amdgpu.tensor_store_from_lds nvvm.cp.async.bulk.tensor.reduce "
    "memref.dma_ rocdl.cluster.load. rocdl.tensor.",
    _DESCRIPTOR: "rocdl.raw.buffer.",
    _SUMS: "gpu.all_reduce",
    "it reads its shape from memory": "memref.reshape",
    _ENDS: "nvvm.exit llvm.intr.debugtrap llvm.intr.trap llvm.intr.ubsantrap",
    "how much it touches behind its pointers no row says": "llvm.intr.experimental.vp. "
    "llvm.intr.masked. llvm.intr.matrix.column.major. llvm.intr.vp.load llvm.intr.vp.store",
    "it keeps notes for somebody else beside a value": "llvm.intr.annotation "
    "llvm.intr.ptr.annotation",
    "it is about the stack, the arguments or the exceptions of the host": "llvm.intr.coro. "
    "llvm.intr.eh.typeid.for llvm.intr.stackrestore llvm.intr.stacksave llvm.intr.vacopy "
    "llvm.intr.vaend llvm.intr.vastart",
    _TEXT: "nvvm.inline_ptx",
    "it changes a descriptor in memory": "nvvm.tensormap.replace",
    "it fills shared memory through a port of its own": "nvvm.st.bulk",
}

# They touch memory, or wait for something; other accesses of their thread may pass them.
_UNORDERED = {
    _SPARSE,
    _TENSOR_MEMORY,
    _UNQUEUED,
    _DESCRIPTOR,
    "it reads its shape from memory",
    "it changes a descriptor in memory",
    "it fills shared memory through a port of its own",
}

OPAQUE_OPS = {name: reason for reason, names in _REASONS.items() for name in names.split()}


@cache
def opaque_reason(name: str) -> str | None:
    """Why ops of this name are opaque; None for those that nobody has looked at."""
    exact = OPAQUE_OPS.get(name)
    if exact is not None:
        return exact
    return next((why for known, why in OPAQUE_OPS.items() if _covers(known, name)), None)


def orders_nothing(name: str) -> bool:
    """Whether ops of this name are opaque for what they touch, and not for what they order."""
    return opaque_reason(name) in _UNORDERED


def is_unqueued_copy(name: str) -> bool:
    """Whether ops of this name copy asynchronously, and nobody here knows until when."""
    return opaque_reason(name) == _UNQUEUED


def may_end_copies(name: str) -> bool:
    """Whether ops of this name, or who waits for their barrier, wait for copies of AMD's queues in a
    way that no group tells."""
    return opaque_reason(name) in (_COUNTER, _ARRIVAL)


def may_be_barrier(name: str) -> bool:
    """Whether threads may wait for each other at ops of this name, or end there: those that nobody
    has looked at may do anything."""
    reason = opaque_reason(name)
    return reason is None or reason in _MEETINGS


_MEETINGS = {_CLUSTER, _NAMED_BARRIER, _SUMS, _ENDS, _TEXT}


def _covers(known: str, name: str) -> bool:
    return known[-1] in "._" and name.startswith(known)
