"""What ops do with mbarriers: a table beside that of `async_ops`, which machine and checker read.

Ops that stand here only have no row, so that analyses that know no phases take them for what they
cannot see through, and refuse. Copies that complete on an mbarrier have a row as well
(`completion="mbarrier"`).

| use     | what it does (PTX ISA, mbarrier)                                            |
|---------|-----------------------------------------------------------------------------|
| handle  | makes a name of mbarriers, or of one of them                                 |
| init    | sets the arrivals of each phase                                              |
| arrive  | `arrivals` arrive (one, where the op names no number)                        |
| expect  | one arrives, and announces `bytes`                                           |
| wait    | stops until the phase of parity `phase` is over                              |
| test    | asks whether the phase of `phase`, a parity or what an arrival gave, is over |
| copy    | lands later, and takes its bytes off those announced                         |
| commit  | one arrives when all products of tensor memory that the thread issued are over |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import defining_op
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.launch_ids import CLUSTER_BARRIER, MAPA
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, layout_of

# Bytes of an mbarrier, and what it is aligned to (PTX ISA: an object of 64 bits).
MBARRIER_BYTES = 8

Use = Literal["handle", "init", "arrive", "expect", "wait", "test", "copy", "commit"]


@dataclass(frozen=True)
class MbarrierRule:
    """One op kind. `operands` names its ODS operand groups in order as a row does; `barrier` is a
    group of mbarriers with the number `index`, or a pointer to one where there is no `index`."""

    op: str
    use: Use
    operands: tuple[str, ...]


_NVGPU = (
    MbarrierRule("nvgpu.mbarrier.create", "handle", ()),
    MbarrierRule("nvgpu.mbarrier.get", "handle", ("barrier", "index")),
    MbarrierRule("nvgpu.mbarrier.init", "init", ("barrier", "arrivals", "index", "predicate?")),
    MbarrierRule("nvgpu.mbarrier.arrive", "arrive", ("barrier", "index")),
    MbarrierRule("nvgpu.mbarrier.arrive.nocomplete", "arrive", ("barrier", "index", "arrivals")),
    MbarrierRule(
        "nvgpu.mbarrier.arrive.expect_tx", "expect", ("barrier", "bytes", "index", "predicate?")
    ),
    MbarrierRule("nvgpu.mbarrier.try_wait.parity", "wait", ("barrier", "phase", "ticks", "index")),
    MbarrierRule("nvgpu.mbarrier.test.wait", "test", ("barrier", "phase", "index")),
    MbarrierRule(
        "nvgpu.tma.async.load",
        "copy",
        (
            "destination",
            "barrier",
            "tensor_map",
            "coordinates*",
            "index",
            "multicast?",
            "predicate?",
        ),
    ),
)
_NVVM = (
    MbarrierRule("nvvm.mbarrier.init", "init", ("barrier", "arrivals", "predicate?")),
    MbarrierRule("nvvm.mbarrier.arrive", "arrive", ("barrier", "arrivals?", "+multicast?")),
    MbarrierRule("nvvm.mbarrier.arrive.nocomplete", "arrive", ("barrier", "arrivals")),
    MbarrierRule(
        "nvvm.mbarrier.arrive.expect_tx",
        "expect",
        ("barrier", "bytes", "+multicast?", "predicate?"),
    ),
    MbarrierRule("nvvm.mbarrier.try_wait.parity", "wait", ("barrier", "phase", "ticks")),
    MbarrierRule("nvvm.mbarrier.try_wait", "test", ("barrier", "phase", "ticks?")),
    MbarrierRule("nvvm.mbarrier.test.wait", "test", ("barrier", "phase")),
    MbarrierRule(
        "nvvm.cp.async.bulk.shared.cluster.global",
        "copy",
        ("destination", "source", "barrier", "bytes", "multicast?", "l2_cache_hint?"),
    ),
    MbarrierRule("nvvm.tcgen05.commit", "commit", ("barrier", "multicast?")),
    MbarrierRule(
        "nvvm.cp.async.bulk.tensor.shared.cluster.global",
        "copy",
        (
            "destination",
            "tensor_map",
            "coordinates*",
            "barrier",
            "im2col*",
            "multicast?",
            "l2_cache_hint?",
            "predicate?",
        ),
    ),
)

MBARRIER_OPS = {rule.op: rule for rule in _NVGPU + _NVVM}

# Makes a tensor map of a memref in global memory, its first operand.
MAKES_TENSOR_MAP = "nvgpu.tma.create.descriptor"
TENSOR_LOADS = ("nvgpu.tma.async.load", "nvvm.cp.async.bulk.tensor.shared.cluster.global")

# Fences after which the async proxy sees what the thread has written: all of it, or the mbarriers
# that it initialised.
PROXY_FENCES: dict[str, Literal["all", "mbarriers"]] = {
    "nvvm.fence.proxy": "all",
    "nvvm.fence.mbarrier.init": "mbarriers",
}
FENCES = ("llvm.fence", *PROXY_FENCES)
_ASYNC_FENCE = re.compile(r"async(?:\.(shared|global))?>")


def fenced_by(op: Any) -> frozenset[str]:
    """What a fence shows to the async proxy: the mbarriers that its thread initialised, and what it
    wrote in workgroup and global memory, or in one of them."""
    if PROXY_FENCES[op.name] == "mbarriers":
        return frozenset({"mbarriers"})
    kind = _ASYNC_FENCE.search(str(op.attributes["kind"]))
    if kind is None:
        return frozenset()
    near, far = {"mbarriers", "workgroup"}, {"global"}
    return frozenset({"shared": near, "global": far}.get(kind[1], near | far))


# What reaches other blocks of a cluster, tensor memory, or counts bytes and arrivals in a way that
# the table above does not have: who follows phases does not follow these.
_UNFOLLOWED = (
    "nvgpu.mbarrier.",
    "nvvm.mbarrier.",
    "nvvm.cp.async.mbarrier.",
    "nvvm.cluster.",
    "nvvm.clusterlaunchcontrol.",
    "nvvm.mapa",
    "nvvm.tcgen05.",
    "nvvm.cp.async.bulk.",
    "nvvm.st.bulk",
    "nvvm.tensormap.replace",
)
_FOLLOWED = (
    *CLUSTER_BARRIER,
    MAPA,
    "nvvm.cp.async.bulk.commit.group",
    "nvvm.cp.async.bulk.wait_group",
    "nvvm.cp.async.bulk.global.shared.cta",
    "nvvm.cp.async.bulk.tensor.global.shared.cta",
    "nvvm.cp.async.bulk.prefetch",
    "nvvm.cp.async.bulk.tensor.prefetch",
)


def is_unfollowed(op: Any) -> bool:
    """Whether an op has to do with mbarriers, clusters or bulk copies, and no rule says what."""
    name = op.name
    return name.startswith(_UNFOLLOWED) and name not in MBARRIER_OPS and name not in _FOLLOWED


_GROUP = re.compile(r"num_barriers = (\d+)")


def number_of_mbarriers(group: Any) -> int:
    """How many mbarriers a type of groups says that it has; one where it says nothing."""
    given = _GROUP.search(str(group))
    return int(given[1]) if given else 1


def is_im2col(op: Any) -> bool:
    """Whether a tensor copy is in im2col mode: pixels and channels of the map say what it moves, and
    the shape of a box does not."""
    return "mode" in op.attributes and "im2col" in str(op.attributes["mode"])


def tensor_map_type(value: Any) -> str:
    """The type of a tensor map, or of that which a pointer is cast from; "" for other values."""
    text = str(value.type)
    if text.startswith("!llvm.ptr"):
        made = defining_op(value)
        if made is None or made.name not in CAST_OPS:
            return ""
        text = str(made.operands[0].type)
    return text if "tensormap" in text else ""


_BOX = re.compile(r"tensor = memref<((?:\d+x)+)(\w+)")


def box_of(op: Any) -> tuple[tuple[int, ...], int] | None:
    """The shape of the box of a tensor map that a copy names, and the bytes of its elements. None
    where no operand's type says it."""
    if is_im2col(op):
        return None
    for operand in op.operands:
        found = _BOX.search(tensor_map_type(operand))
        if found is None:
            continue
        try:
            size = layout_of(ir.Type.parse(found[2], op.context)).stride_bytes
        except UnknownLayoutError:
            return None
        return tuple(map(int, found[1].split("x")[:-1])), size
    return None


def box_bytes(op: Any) -> int | None:
    """The bytes of the box of a tensor map that a copy names: whole, also where it leaves the
    tensor. None where no operand's type says it."""
    box = box_of(op)
    return None if box is None else prod(box[0]) * box[1]
