"""Which values say where in the launch a thread stands, whatever writes them.

    %t = gpu.thread_id x                           LaunchId("thread", 0)
    gpu.launch blocks(…) threads(%tx, %ty, %tz)    %ty is LaunchId("thread", 1)

A `gpu.launch` gives as block arguments what ops give in an outlined kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    defining_op,
    is_block_argument,
    is_used,
    walk,
)

Kind = Literal[
    "thread",
    "block",
    "block_size",
    "grid_size",
    "lane",
    "subgroup",
    "cluster",
    "cluster_count",
    "cluster_block",
    "cluster_size",
    "cluster_rank",
    "cluster_blocks",
]


@dataclass(frozen=True)
class LaunchId:
    """`axis` is 0, 1, 2 for x, y, z, and 0 for what has none."""

    kind: Kind
    axis: int = 0

    @property
    def differs(self) -> bool:
        """Whether threads of one block have different values."""
        return self.kind in ("thread", "lane", "subgroup")


# Ops that name their axis in an attribute.
_WITH_DIMENSION: dict[str, Kind] = {
    "gpu.thread_id": "thread",
    "gpu.block_id": "block",
    "gpu.block_dim": "block_size",
    "gpu.grid_dim": "grid_size",
    "gpu.cluster_id": "cluster",
    "gpu.cluster_block_id": "cluster_block",
    "gpu.cluster_dim": "cluster_count",
    "gpu.cluster_dim_blocks": "cluster_size",
}
# Ops that name it in their own name.
_BY_AXIS: dict[str, Kind] = {
    "nvvm.read.ptx.sreg.tid": "thread",
    "nvvm.read.ptx.sreg.ctaid": "block",
    "nvvm.read.ptx.sreg.ntid": "block_size",
    "nvvm.read.ptx.sreg.nctaid": "grid_size",
    "nvvm.read.ptx.sreg.clusterid": "cluster",
    "nvvm.read.ptx.sreg.cluster.ctaid": "cluster_block",
    "nvvm.read.ptx.sreg.nclusterid": "cluster_count",
    "nvvm.read.ptx.sreg.cluster.nctaid": "cluster_size",
    "rocdl.workitem.id": "thread",
    "rocdl.workgroup.id": "block",
    "rocdl.workgroup.dim": "block_size",
    "rocdl.grid.dim": "grid_size",
}
_OPS: dict[str, LaunchId] = {
    **{
        f"{name}.{axis}": LaunchId(kind, number)
        for name, kind in _BY_AXIS.items()
        for number, axis in enumerate("xyz")
    },
    "gpu.lane_id": LaunchId("lane"),
    "gpu.subgroup_id": LaunchId("subgroup"),
    "nvvm.read.ptx.sreg.laneid": LaunchId("lane"),
    "nvvm.read.ptx.sreg.warpid": LaunchId("subgroup"),
    "nvvm.read.ptx.sreg.cluster.ctarank": LaunchId("cluster_rank"),
    "nvvm.read.ptx.sreg.cluster.nctarank": LaunchId("cluster_blocks"),
}
# Every op that gives one, and what it gives.
ID_OPS: dict[str, Kind] = _WITH_DIMENSION | {name: found.kind for name, found in _OPS.items()}
# Ops that hand a number from lane to lane of a warp, and the operand that it is.
SHUFFLES = {"gpu.shuffle": 0, "nvvm.shfl.sync": 1}
# The number of a block in its cluster, x fastest.
CLUSTER_RANK = "nvvm.read.ptx.sreg.cluster.ctarank"
# Gives the address of a variable of workgroup memory in another block of the cluster.
MAPA = "nvvm.mapa"
# What all threads of a block do together, or count, beside barriers and the ids above.
OF_THE_BLOCK = ("gpu.all_reduce", "gpu.global_id", "gpu.num_subgroups")
# True in one active lane of each warp.
ELECT = "nvvm.elect.sync"
# The ops that stand for all others of their kind, as symbols of the checker.
LAUNCH_SYMBOLS: dict[Kind, str] = {
    "block": "gpu.block_id",
    "grid_size": "gpu.grid_dim",
    "block_size": "gpu.block_dim",
}
# The block arguments of gpu.launch, three of each; attributions come after them.
_ARGUMENTS: tuple[Kind, ...] = ("block", "thread", "grid_size", "block_size")


def launch_id(value: Value) -> LaunchId | None:
    """What `value` says about the launch; None if it is computed, loaded or given otherwise."""
    if is_block_argument(value):
        argument = ir.BlockArgument(value)
        kind, axis = divmod(int(argument.arg_number), 3)
        if argument.owner.owner.name != "gpu.launch" or kind >= len(_ARGUMENTS):
            return None
        return LaunchId(_ARGUMENTS[kind], axis)
    op = defining_op(value)
    assert op is not None
    return id_of(op)


def thread_dimension(op: Any) -> int:
    """0, 1, 2 for the dimension x, y, z of a gpu id op."""
    # #gpu<dim x>, in younger stacks #gpu<dim<x>>.
    text = str(op.attributes["dimension"]).rstrip(">")
    return "xyz".index(text[-1])


def id_of(op: Operation) -> LaunchId | None:
    """What an op says about the launch; None if it says nothing."""
    kind = _WITH_DIMENSION.get(op.name)
    return LaunchId(kind, thread_dimension(op)) if kind is not None else _OPS.get(op.name)


def is_id(name: str) -> bool:
    """Whether the ops called `name` say where in the launch a thread stands."""
    return name in ID_OPS or name == "gpu.global_id"


def is_id_of_threads(name: str) -> bool:
    """Whether the ops called `name` tell threads of one block apart."""
    known = ID_OPS.get(name)
    return name == "gpu.global_id" or (known is not None and LaunchId(known).differs)


def axes_read(roots: Iterable[Operation]) -> frozenset[int]:
    """The axes along which code below `roots` asks where a thread stands, or how many there are."""
    found: set[int] = set()
    for root in roots:
        for op in walk(root):
            known = id_of(op)
            if op.name == "gpu.global_id":
                found.add(thread_dimension(op))
            elif known is not None and known.kind in ("thread", "block_size"):
                found.add(known.axis)
            elif op.name == "gpu.launch":
                arguments = op.regions[0].blocks[0].arguments
                found |= {n % 3 for n in (3, 4, 5, 9, 10, 11) if is_used(arguments[n])}
    return frozenset(found)


def axis_attribute(axis: str, context: Any) -> Any:
    """The attribute of `gpu.thread_id` and its like for an axis, in the words of this stack."""
    try:
        return ir.Attribute.parse(f"#gpu<dim {axis}>", context)
    except (ValueError, ir.MLIRError):
        return ir.Attribute.parse(f"#gpu<dim<{axis}>>", context)
