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

from mlir_async_pipe.vocabulary.memory_ops import bytes_of, whole
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
    release,
    unordered,
)

# Bytes of a tensor map (PTX ISA, tensormap: an object of 1024 bits).
MAP_BYTES = 128
# Bytes of an mbarrier, and what it is aligned to (PTX ISA: an object of 64 bits).
MBARRIER_BYTES = 8


def is_relaxed(op: Any) -> bool:
    """Whether an arrival or a wait counts, and orders nothing else (PTX ISA, mbarrier.arrive: .relaxed)."""
    given = {
        name: str(op.attributes[name]) for name in ("relaxed", "order") if name in op.attributes
    }
    return given.get("relaxed") == "true" or "relaxed" in given.get("order", "")


def _unless_relaxed(order: MemoryOrder) -> Callable[[Any], MemoryOrder]:
    return lambda op: unordered(op) if is_relaxed(op) else order


_ORDERS = {
    # A thread releases by arriving, and acquires by waiting (PTX ISA, mbarrier.arrive and try_wait).
    **dict.fromkeys(("arrive", "expect", "commit"), _unless_relaxed(release("cluster"))),
    **dict.fromkeys(("wait", "test"), _unless_relaxed(acquire("cluster"))),
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
        "expect",
        ("barrier", "bytes", "+multicast?", "predicate?"),
    ),
    _phase("nvvm.mbarrier.expect_tx", "announce", ("barrier", "bytes")),
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

PHASE_ROWS = (*_NVGPU, *_NVVM, _CANCEL, _REPLACE)

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
