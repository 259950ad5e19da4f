"""How a loop with multicasts gives slots back where all warps copy and compute.

    block 0: copy, wait, use  -+-> arrive at `empty` of each block that copies into this one
    block 1: copy, wait, use  -+-> and before the next copy into a slot, warp 0 waits for its own

Each warp of the input arrives once for a tile, so a block must be of whole warps, along x.
"""

from __future__ import annotations

from dataclasses import replace

from mlir_async_pipe.bindings.raw_ops import parent
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.cluster_plan import ClusterPlan, Together, refuse
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.role_block import WARP
from mlir_async_pipe.pipeliner.plan.role_plan import check_kernel, lanes_read
from mlir_async_pipe.session.diagnostics import AsyncPipeError


def join_blocks(plans: list[RingPlan], around: Surroundings) -> list[RingPlan]:
    """The plans, with what all warps do for other blocks where these copy for each other.

    Raises PipelineError (cluster-unsupported)."""
    made = []
    for plan in plans:
        if plan.cluster is None or plan.asked in names.APART:
            made.append(plan)
            continue
        try:
            made.append(replace(plan, together=_together(plan, plan.cluster, around)))
        except AsyncPipeError as error:
            error.loop = plan.loop
            raise
    return made


def _together(plan: RingPlan, cluster: ClusterPlan, around: Surroundings) -> Together:
    loop, completions = plan.loop, plan.products.completions
    kernel = parent(plan.setups[0].create)
    assert kernel is not None
    check_kernel(kernel, (loop,), refuse)
    if completions:
        refuse("commits of products give slots back to one block", completions[0].commit, loop)
    size = around.launch_size(loop)
    if plan.issue.leader is None or size is None or size[0] % WARP:
        refuse(
            "the copies are not issued by thread 0 of a block of whole warps along x",
            plan.transactions[0].expect,
            loop,
            "give all of them the predicate `gpu.thread_id x == 0`, or that and more, and the kernel "
            f"a known_block_size along x, a multiple of {WARP}",
        )
    return Together(cluster, kernel, size[0] // WARP, lanes_read(loop, plan.products))
