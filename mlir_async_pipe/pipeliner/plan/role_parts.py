"""What is decided about the roles of a block, of one of the loops whose copies warps of their own issue."""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.pipeliner.plan.cluster_plan import ClusterPlan
from mlir_async_pipe.pipeliner.plan.product_role import ProductRole
from mlir_async_pipe.pipeliner.plan.role_block import RoleBlock
from mlir_async_pipe.pipeliner.plan.role_turns import Turns


@dataclass(frozen=True)
class RolePlan:
    """`loops` are all loops of the kernel whose copies these warps issue, in textual order, and share
    `block`, which says what becomes of the block, `moved`, the ops of the function's block that the
    threads of the input run alone, in textual order.
    `meets_lanes`: lanes read tiles one by one, so that a warp meets before one arrives for all.
    `cluster`: which blocks copy into which, if they do; `turns`: two groups take the tiles of the
    loop around in turn; `products`: what a warp of its own runs that issues products of tensor memory.
    """

    loops: tuple[Operation, ...]
    block: RoleBlock
    moved: tuple[Operation, ...]
    meets_lanes: bool
    cluster: ClusterPlan | None = None
    turns: Turns | None = None
    products: ProductRole | None = None
