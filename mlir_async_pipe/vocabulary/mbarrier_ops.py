"""Rows of what works on mbarriers: their phases, copies that complete on them, tensor maps.

nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes     Phase("expect"), which announces bytes
nvgpu.tma.async.load … to %tile, %full[%slot]            a write, and Phase("copy"), which lands them
nvvm.tensormap.replace field = global_address …          an access to all bytes of a tensor map
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import KERNEL_OPS, enclosing, operations, walk_named
from mlir_async_pipe.vocabulary.memory_layout import if_known, strides_and_offset
from mlir_async_pipe.vocabulary.memory_ops import bytes_of, to_sixteen_bytes, whole
from mlir_async_pipe.vocabulary.op_table import row_of
from mlir_async_pipe.vocabulary.rows import (
    EVERYTHING,
    AccessRule,
    Fence,
    MemoryOrder,
    Opaque,
    Phase,
    PhaseUse,
    Row,
    acquire,
    attribute_order,
    covers,
    release,
    unordered,
)

# Bytes of a tensor map (PTX ISA, tensormap: an object of 1024 bits).
MAP_BYTES = 128
# Bytes of an mbarrier, and what it is aligned to (PTX ISA: an object of 64 bits).
MBARRIER_BYTES = 8


# Arrives at an mbarrier in LDS, reads its state, and takes the parity of the running phase from that (gfx1250).
ARRIVAL_IN_LDS, POLL = "amdgpu.ds_barrier_arrive", "amdgpu.ds_barrier_poll_state"
PARITY_OF_STATE = "amdgpu.ds_barrier_state_phase_parity"
FENCE = "llvm.fence"


def released_before(op: Any) -> frozenset[str] | None:
    """The address spaces that an arrival at an mbarrier in LDS releases: those of the fence before it, after which its thread
    touched no memory; none without a fence, and None where another one of the function may come before it. The
    instruction itself is a relaxed atomic (LLVM, AMDGPU: llvm.amdgcn.ds.atomic.barrier.arrive.rtn.b64)."""
    ops = operations(op.block)
    for one in reversed(ops[: ops.index(op)]):
        if _releases(one):
            return attribute_order(one).spaces
        row = row_of(one)
        if row.accesses or row.opaque or len(one.regions) or not row.known:
            break
    function = enclosing(op, KERNEL_OPS)
    some = function is None or any(map(_releases, walk_named(function, FENCE.__eq__)))
    return None if some else frozenset()


def _releases(op: Any) -> bool:
    order = attribute_order(op) if op.name == FENCE else None
    return order is not None and order.release and covers(order.scope, "block")


def is_counted(op: Any) -> bool:
    """Whether an arrival after copies is one of those that its phase counts (PTX ISA, cp.async.mbarrier.arrive: .noinc);
    else the phase counts one more."""
    return "noinc" in op.attributes and str(op.attributes["noinc"]) == "true"


def is_relaxed(op: Any) -> bool:
    """Whether an arrival or a wait counts, and orders nothing else (PTX ISA, mbarrier.arrive: .relaxed)."""
    if op.name == ARRIVAL_IN_LDS:
        return released_before(op) == frozenset()
    given = {
        name: str(op.attributes[name]) for name in ("relaxed", "order") if name in op.attributes
    }
    return given.get("relaxed") == "true" or "relaxed" in given.get("order", "")


def _unless_relaxed(order: MemoryOrder) -> Callable[[Any], MemoryOrder]:
    return lambda op: unordered(op) if is_relaxed(op) else order


_ORDERS = {
    # A thread releases by arriving, and acquires by waiting (PTX ISA, mbarrier.arrive and try_wait).
    **dict.fromkeys(("arrive", "expect", "commit"), _unless_relaxed(release("cluster"))),
    **dict.fromkeys(("wait", "test", "poll"), _unless_relaxed(acquire("cluster"))),
}


def _phase(op: str, use: PhaseUse, operands: tuple[str, ...], **options: Any) -> Row:
    order, inside = _ORDERS.get(use, unordered), op.startswith("nvgpu.mbarrier.")
    return Row(op, operands, effects=(Phase(use),), order=order, harmless=inside, **options)


def _copy(op: str, operands: tuple[str, ...], *read: AccessRule, **options: Any) -> Row:
    """A copy into `destination` that completes on an mbarrier."""
    write = AccessRule("write", "destination", "", whole)
    asynchronous = {"asynchronous": lambda op: True, "completion": "mbarrier"}
    return _phase(op, "copy", operands, accesses=(*read, write), **asynchronous, **options)


_OPTIONAL = ("multicast?", "predicate?")
_NVGPU = (
    _phase("nvgpu.mbarrier.create", "handle", ()),
    _phase("nvgpu.mbarrier.get", "handle", ("barrier", "index")),
    _phase("nvgpu.mbarrier.init", "init", ("barrier", "arrivals", "index", "predicate?")),
    _phase("nvgpu.mbarrier.arrive", "arrive", ("barrier", "index")),
    _phase("nvgpu.mbarrier.arrive.nocomplete", "arrive", ("barrier", "index", "arrivals")),
    _phase(
        "nvgpu.mbarrier.arrive.expect_tx", "expect", ("barrier", "bytes", "index", "predicate?")
    ),
    _phase("nvgpu.mbarrier.try_wait.parity", "wait", ("barrier", "phase", "ticks", "index")),
    _phase("nvgpu.mbarrier.test.wait", "test", ("barrier", "phase", "index")),
    _copy(
        "nvgpu.tma.async.load",
        ("destination", "barrier", "tensor_map", "coordinates*", "index", *_OPTIONAL),
        swizzled="destination",
    ),
)
_NVVM = (
    _phase("nvvm.mbarrier.init", "init", ("barrier", "arrivals", "predicate?")),
    _phase("nvvm.mbarrier.arrive", "arrive", ("barrier", "arrivals?", "+multicast?")),
    _phase("nvvm.mbarrier.arrive.nocomplete", "arrive", ("barrier", "arrivals")),
    _phase(
        "nvvm.mbarrier.arrive.expect_tx",
        *("expect", ("barrier", "bytes", "+multicast?", "predicate?")),
    ),
    _phase("nvvm.mbarrier.expect_tx", "announce", ("barrier", "bytes")),
    _phase("nvvm.cp.async.mbarrier.arrive", "arrive_after", ("barrier",)),
    _phase("nvvm.mbarrier.try_wait.parity", "wait", ("barrier", "phase", "ticks")),
    _phase("nvvm.mbarrier.try_wait", "test", ("barrier", "phase", "ticks?")),
    _phase("nvvm.mbarrier.test.wait", "test", ("barrier", "phase")),
    # As CuTe DSL has them; `kind` says whether the hardware may let the thread sleep a while before it answers.
    _phase("nvvm.mbarrier.wait.parity", "test", ("barrier", "phase")),
    _phase("nvvm.mbarrier.wait", "test", ("barrier", "phase")),
    _phase("nvvm.mbarrier.try_wait.parity.timelimit", "test", ("barrier", "phase", "ticks")),
    _phase("nvvm.mbarrier.try_wait.timelimit", "test", ("barrier", "phase", "ticks")),
    _copy(
        "nvvm.cp.async.bulk.shared.cluster.global",
        ("destination", "source", "barrier", "bytes", "multicast?", "l2_cache_hint?"),
        AccessRule("read", "source", "", whole),
        alignment=to_sixteen_bytes,
    ),
    _phase("nvvm.tcgen05.commit", "commit", ("barrier", "multicast?")),
    _copy(
        "nvvm.cp.async.bulk.tensor.shared.cluster.global",
        (
            *("destination", "tensor_map", "coordinates*", "barrier", "im2col*"),
            *("multicast?", "l2_cache_hint?", "predicate?"),
        ),
        swizzled="destination",
    ),
)

_TO_ALL_BLOCKS = Row(
    "",
    effects=(Opaque("blocks of a cluster are told together which one need not run", phases=True),),
    order=lambda op: EVERYTHING,
)
# The numbers of a block, or that there is none: 16 bytes (PTX ISA, clusterlaunchcontrol.try_cancel).
_TO_ONE_BLOCK = _phase(
    "nvvm.clusterlaunchcontrol.try.cancel",
    "copy",
    ("destination", "barrier"),
    accesses=(AccessRule("write", "destination", "", bytes_of(16), takes_slot_index=False),),
    asynchronous=lambda op: True,
    completion="mbarrier",
)
_CANCEL = replace(
    _TO_ONE_BLOCK,
    by_op=lambda op: _TO_ALL_BLOCKS if "multicast" in op.attributes else _TO_ONE_BLOCK,
)

# The whole map is read and written, as by a weak access of its thread (PTX ISA, tensormap.replace).
_REPLACE = Row(
    "nvvm.tensormap.replace",
    ("address", "value?"),
    tuple(
        AccessRule(*(kind, "address", "", bytes_of(MAP_BYTES)), takes_slot_index=False)
        for kind in ("read", "write")
    ),
)

# What compares the parity of a state asks for a phase (`checker/as_read`), and then its poll gives a bit.
_ASKS = _phase(POLL, "test", ("barrier", "index*", "phase"))
_POLLS = _phase(POLL, "poll", ("barrier", "index*"))
_OF_ROWS = Row("", effects=(Opaque("the mbarrier is none of a row of them", phases=True),))


def _in_lds(row: Row) -> Row:
    """The row of an op that names an mbarrier by a subscript, or by none."""

    def by_op(op: Any) -> Row:
        known = if_known(strides_and_offset, ir.MemRefType(op.operands[0].type))
        if known is None or known[0] not in ([], [1]):
            return _OF_ROWS
        return _ASKS if row is _POLLS and str(op.results[0].type) == "i1" else row

    return replace(row, by_op=by_op)


_LDS = (
    _in_lds(_phase("amdgpu.ds_barrier_init", "init", ("barrier", "index*", "arrivals"))),
    _in_lds(_phase(ARRIVAL_IN_LDS, "arrive", ("barrier", "index*", "arrivals"))),
    _in_lds(_POLLS),
)

PHASE_ROWS = (*_NVGPU, *_NVVM, *_LDS, _CANCEL, _REPLACE)

# Makes a tensor map of a memref in global memory, its first operand.
MAKES_TENSOR_MAP = "nvgpu.tma.create.descriptor"
TENSOR_LOADS = ("nvgpu.tma.async.load", "nvvm.cp.async.bulk.tensor.shared.cluster.global")

_ASYNC_FENCE = re.compile(r"async(?:\.(shared|global))?>")


def fenced_by(op: Any, fence: Fence) -> frozenset[str]:
    """What a fence shows to the async proxy: the mbarriers that its thread initialised, and what it
    wrote in workgroup and global memory, or in one of them; or tensor maps to copies."""
    if fence.maps:
        return frozenset({"maps"})
    if fence.shows != "all":
        return frozenset({fence.shows} - {"nothing"})
    kind = _ASYNC_FENCE.search(str(op.attributes["kind"]))
    if kind is None:
        return frozenset()
    inside, outside = {"mbarriers", "workgroup"}, {"global"}
    return frozenset({"shared": inside, "global": outside}.get(kind[1], inside | outside))


_GROUP = re.compile(r"num_barriers = (\d+)")


def number_of_mbarriers(group: Any) -> int:
    """How many mbarriers a type of groups says that it has; one where it says nothing."""
    given = _GROUP.search(str(group))
    return int(given[1]) if given else 1
