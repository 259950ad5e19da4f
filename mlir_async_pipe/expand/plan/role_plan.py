"""Whether the threads of a block may be parted into those that copy and those that compute.

    … mbarriers, fence, barrier            kept: all threads run it
    %at = …                         -->    kept: pure
    scf.for %tile { loop; store }          moved: the threads of the input run it, and the producer
    …                                      has a nest of its own with the copies of the loop

The block gets more threads after those of the input, whose numbers stay (docs/hopper.md).
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    is_function,
    operations,
    parent,
    terminator,
    walk,
)
from mlir_async_pipe.expand.plan.cluster_plan import ClusterPlan
from mlir_async_pipe.expand.plan.issue_slice import IssueSlice, conjunction
from mlir_async_pipe.expand.plan.mbarrier_setup import MbarrierSetup
from mlir_async_pipe.expand.plan.product_role import ProductRole, plan_products
from mlir_async_pipe.expand.plan.role_block import RoleBlock, role_block
from mlir_async_pipe.expand.plan.role_nest import Nest, producer_nest
from mlir_async_pipe.expand.plan.role_refusal import refuse
from mlir_async_pipe.expand.plan.role_turns import GROUPS, Turns, is_free, plan_turns
from mlir_async_pipe.expand.plan.sum_versions import address_loads, takes_columns
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.loops.products_in_flight import Products
from mlir_async_pipe.loops.statements import Body
from mlir_async_pipe.loops.transactions import Transaction, operand, use_of
from mlir_async_pipe.session.light_dataclass import dataclass
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.values.uniformity import Uniformity, conditions
from mlir_async_pipe.vocabulary import accesses, is_barrier, row_of
from mlir_async_pipe.vocabulary.control_flow import EXIT_OPS, REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import CLUSTER_BARRIER
from mlir_async_pipe.vocabulary.mbarrier_ops import PROXY_FENCES
from mlir_async_pipe.vocabulary.pure_ops import is_harmless
from mlir_async_pipe.vocabulary.queues import WGMMA
from mlir_async_pipe.vocabulary.vendor_memory import HINTS


@dataclass(frozen=True)
class RolePlan:
    """`block` says what becomes of the block; `moved` are the ops of the function's block that the
    threads of the input run alone, in textual order, `nest` what the producer runs instead.
    `meets_lanes`: lanes read tiles one by one, so that a warp meets before one arrives for all.
    `cluster`: which blocks copy into which, if they do; `turns`: two groups take the tiles of the
    loop around in turn; `products`: what a warp of its own runs that issues products of tensor memory."""

    block: RoleBlock
    moved: tuple[Operation, ...]
    nest: Nest
    meets_lanes: bool
    cluster: ClusterPlan | None = None
    turns: Turns | None = None
    products: ProductRole | None = None


def plan_roles(
    body: Body,
    transactions: tuple[Transaction, ...],
    setups: tuple[MbarrierSetup, ...],
    outer: tuple[Operation, ...],
    issue: IssueSlice,
    products: Products,
    dropped: tuple[Operation, ...],
    size: tuple[int, int, int] | None,
    tiles: frozenset[object],
    cluster: ClusterPlan | None,
    *,
    in_turn: bool,
) -> RolePlan:
    """Decide how a block is parted; raises PipelineError (roles-unsupported, roles-values,
    roles-block)."""
    loop = body.loop
    kernel = parent(setups[0].create)
    assert kernel is not None
    _check_kernel(kernel, loop)
    _check_issuer(issue, transactions, (*outer, loop))
    meetings = cluster.ops if cluster is not None else ()
    found = _moved(kernel, setups, outer[0] if outer else loop, size[0] if size else 0)
    moved = tuple(op for op in found if op not in meetings)
    if products.completions and (cluster is not None or in_turn):
        refuse(
            "the commits of products give slots back to one block, and one group of loads",
            products.completions[0].commit,
            loop,
            code="roles-unsupported",
        )
    turns = None
    if in_turn:
        if cluster is not None:
            refuse(
                "two groups that take tiles in turn do not copy for other blocks of a cluster",
                transactions[0].copies[0],
                loop,
                code="roles-unsupported",
            )
        turns = plan_turns(body, transactions, outer, issue, moved, tiles)
    groups = GROUPS if in_turn else 1
    issuer = None
    if products.completions:
        issuer = plan_products(body, transactions, outer, issue, products, dropped, moved, kernel)
    return RolePlan(
        role_block(kernel, moved, (*dropped, *meetings), products, size, groups, loop),
        moved,
        producer_nest(body, outer, issue, moved),
        _lanes_read(loop, products),
        cluster,
        turns,
        issuer,
    )


def _check_kernel(kernel: Operation, loop: Operation) -> None:
    if not (is_function(kernel) or kernel.name == "gpu.launch"):
        refuse(
            f"their mbarriers are made inside of this '{kernel.name}'",
            kernel,
            loop,
            code="roles-unsupported",
            advice="make and initialise them in the kernel's own block",
        )
    blocks = list(kernel.regions[0].blocks)
    if len(blocks) > 1 or len(terminator(blocks[0]).operands):
        refuse(
            "the kernel branches between blocks, or returns something",
            kernel,
            loop,
            code="roles-unsupported",
        )
    for op in walk(kernel):
        if op != loop and op.name == "scf.for" and names.is_requested(op):
            refuse(
                "the kernel has another loop to be pipelined", op, loop, code="roles-unsupported"
            )


def _check_issuer(
    issue: IssueSlice, transactions: tuple[Transaction, ...], loops: tuple[Operation, ...]
) -> None:
    """Any thread may issue: what it issues, and how often, is the same in all."""
    loop = loops[-1]
    if issue.leader is None:
        refuse(
            "the copies are not issued by thread 0 of a block along x",
            transactions[0].expect,
            loop,
            code="roles-unsupported",
            advice="give all of them the predicate `gpu.thread_id x == 0`, or that and more, and the "
            "kernel a known_block_size",
        )
    decisive = [(op, value) for op in loops for value in conditions(op)]
    for op in (op for t in transactions for op in (t.expect, *t.copies)):
        predicate = operand(op, "predicate")
        assert predicate is not None
        parts = [part for part in conjunction(predicate) if part != issue.leader]
        others = [value for value in op.operands if value != predicate]
        decisive += [(op, value) for value in (*parts, *others)]
    uniform = Uniformity()
    for op, value in decisive:
        if uniform.differs_by_thread(value):
            refuse(
                f"what is copied depends on the thread, by '{op.name}'",
                op,
                loop,
                code="roles-values",
                advice="let coordinates, bytes and conditions be the same in all threads",
            )


def _moved(
    kernel: Operation, setups: tuple[MbarrierSetup, ...], start: Operation, threads: int
) -> tuple[Operation, ...]:
    """The ops of the kernel's block from the first mbarriers' barrier on that only the threads of
    the input run: all but what is pure, and needs nothing of these."""
    order = operations(kernel.regions[0].blocks[0])
    ready = max(order.index(setup.meeting or setup.last_init) for setup in setups)
    for op in order[: ready + 1]:
        for inner in walk(op):
            if not (_any_thread_may(inner) or takes_columns(inner, threads)):
                refuse(
                    f"'{inner.name}' comes before the barrier that follows the mbarriers' "
                    "initialisation, and threads that are added would run it too",
                    inner,
                    start,
                    code="roles-unsupported",
                    advice="initialise the mbarriers before it",
                )
    addresses = address_loads(kernel)
    moved: list[Operation] = []
    made: set[Value] = set()
    for op in order[ready + 1 : -1]:
        free = (is_free(op) or op in addresses) and not made.intersection(op.operands)
        if op != start and free:
            continue
        moved.append(op)
        made.update(op.results)
    return tuple(moved)


def _any_thread_may(op: Operation) -> bool:
    """Whether it changes nothing that more threads do it too."""
    use = use_of(op)
    if use is not None:
        return use in ("handle", "init")
    if is_barrier(op):
        return not len(op.operands)
    if (
        op.name in CLUSTER_BARRIER
        or op.name in REGION_ROWS
        or op.name in EXIT_OPS
        or op.name in HINTS
    ):
        return True
    return is_free(op) or op.name in PROXY_FENCES or is_harmless(op.name)


def _lanes_read(loop: Operation, products: Products) -> bool:
    """Whether anything but a product reads workgroup memory in the loop."""
    if not products.groups:
        return True
    for op in walk(loop):
        row = row_of(op)
        if row is not None and row.queue == WGMMA:
            continue
        for access in accesses(op):
            if not access.writes and root_of(access.memory).space != "global":
                return True
    return False
