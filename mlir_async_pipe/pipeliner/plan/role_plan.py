"""Whether the threads of a block may be parted into those that copy and those that compute.

    … mbarriers, fence, barrier            kept: all threads run it
    %at = …                         -->    kept: pure
    scf.for %tile { loop; store }          moved: the threads of the input run it, and the producer
    …                                      has a nest of its own with the copies of the loop

The block gets more threads after those of the input, whose numbers stay (docs/hopper.md). Loops one
after the other are run in that order by both. Where all warps copy and compute, in blocks of a cluster that
copy for each other, it says how slots go back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    Value,
    defining_op,
    operations,
    terminator,
    walk,
)
from mlir_async_pipe.chips.occupancy import resident_blocks
from mlir_async_pipe.chips.target import Chip
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import needed_values
from mlir_async_pipe.facts.loops.transactions import only_computes, operand
from mlir_async_pipe.facts.values.uniformity import Uniformity, conditions, conjunction
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.cluster_plan import refuse as refuse_blocks
from mlir_async_pipe.pipeliner.plan.memory_limit import registers_of, workgroup_bytes
from mlir_async_pipe.pipeliner.plan.ping_pong_plan import is_free, plan_ping_pong, product_turn
from mlir_async_pipe.pipeliner.plan.product_role import (
    PartedLoop,
    address_loads,
    issue_order,
    plan_products,
    takes_columns,
)
from mlir_async_pipe.pipeliner.plan.ring_plan import (
    WARP,
    IssueSlice,
    RingPlan,
    RoleBlock,
    RolePlan,
    RoleRegisters,
    SharedRing,
    roles_of,
)
from mlir_async_pipe.pipeliner.plan.role_block import (
    GROUPS,
    UNIT,
    refuse,
    registers_of_roles,
    role_block,
)
from mlir_async_pipe.session.diagnostics import refusing
from mlir_async_pipe.vocabulary import is_barrier, meets_cluster, row_of, shows_writes, use_of
from mlir_async_pipe.vocabulary.control_flow import EXIT_OPS, REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_ops import HINTS


def part_kernels(plans: list[RingPlan], around: Surroundings) -> list[RingPlan]:
    """The plans, with their roles. Raises PipelineError (roles-unsupported, roles-values, roles-block, cluster-unsupported,
    dependence-violated)."""
    return [in_order(plan) for plan in with_roles(plans, around)]


def in_order(plan: RingPlan) -> RingPlan:
    """The plan with what its roles do in the order of its products. Raises PipelineError (roles-unsupported,
    dependence-violated)."""
    roles = plan.roles
    if roles is None:
        return plan
    with refusing(plan.loop):
        if plan.asked == "alternating":
            roles = replace(roles, turn=product_turn(plan, roles.block.threads))
        if isinstance(roles.products, PartedLoop):
            roles = replace(roles, order=issue_order(plan, roles.products))
    return replace(plan, roles=roles)


def with_roles(plans: list[RingPlan], around: Surroundings) -> list[RingPlan]:
    """The plans, with what roles do in any order of products, where warps of their own copy: those of one kernel for all its
    loops; else with what all warps do for other blocks, where these copy for each other.

    Raises PipelineError (roles-unsupported, roles-values, roles-block, cluster-unsupported)."""
    kernels: dict[Operation, list[RingPlan]] = {}
    for plan in plans:
        if plan.asked in names.APART:
            kernels.setdefault(plan.kernel, []).append(plan)
    parted: dict[Operation, RingPlan] = {}
    for kernel, together in kernels.items():
        with refusing(together[0].loop):
            roles = _parted(kernel, together, around.launch_size(together[0].loop))
        parted.update((plan.loop, replace(plan, roles=roles)) for plan in together)
    made = [parted.get(plan.loop, plan) for plan in plans]
    for number, plan in enumerate(made):
        if plan.cluster is not None and plan.roles is None:
            with refusing(plan.loop):
                made[number] = replace(plan, returning=_warps_of_cluster(plan, around))
    return made


def _parted(kernel: Operation, plans: list[RingPlan], size: Size | None) -> RolePlan:
    first, loops = plans[0], tuple(plan.loop for plan in plans)
    check_kernel(kernel, loops, refuse)
    _check_together(plans)
    for plan in plans:
        _check_issuer(plan)
    cluster, products, is_ping_pong = first.cluster, first.products, first.asked == "ping-pong"
    meetings = cluster.ops if cluster is not None else ()
    found = _moved(kernel, plans, size[0] if size else 0)
    moved = tuple(op for op in found if op not in meetings)
    if products.completions and (cluster is not None or is_ping_pong):
        why = "the commits of products give slots back to one block, and one group of loads"
        refuse(why, products.completions[0].commit, first.loop)
    ping_pong = None
    if is_ping_pong:
        if cluster is not None:
            why = "two groups that take tiles in turn do not copy for other blocks of a cluster"
            refuse(why, first.transactions[0].copies[0], first.loop)
        ping_pong = plan_ping_pong(first, moved, size)
    issuer = None
    if products.completions:
        issuer = plan_products(first, moved, size)
        _check_needed([first], [issuer.slice], moved)
    parted = issuer if isinstance(issuer, PartedLoop) else None
    if first.asked == "grouped" and parted is None:
        why = "groups would share what threads do in tensor memory between products, and they do nothing there"
        refuse(why, first.loop, first.loop)
    barriers = parted.barriers if parted is not None else ()
    count = GROUPS if is_ping_pong else 1
    if parted is not None and parted.groups is not None:
        count = parted.groups.count
    dropped = (*(op for plan in plans for op in plan.dropped), *meetings, *barriers)
    block = role_block(plans, moved, dropped, size, count)
    _check_needed(plans, [plan.issue for plan in plans], moved)
    return RolePlan(loops, block, moved, ping_pong, issuer)


def _check_together(plans: list[RingPlan]) -> None:
    """Of several loops, each slot is given back by the same warps of one block."""
    for number, plan in enumerate(plans if len(plans) > 1 else ()):
        obstacles = {
            "this one copies for other blocks of a cluster": plan.cluster is not None,
            "two groups take the tiles of this one in turn": plan.asked == "ping-pong",
            "two warpgroups issue the products of this one in turn": plan.asked == "alternating",
            "commits give the slots of this one back": len(plan.products.completions) > 0,
        }
        for why in (why for why, holds in obstacles.items() if holds):
            what = f"the kernel has another loop to be pipelined, and {why}"
            refuse(what, plans[number - 1].loop, plan.loop)


def check_kernel(
    kernel: Operation, loops: tuple[Operation, ...], refuse: Callable[..., NoReturn]
) -> None:
    """What makes the mbarriers is a kernel of one block, in which no others than `loops` are to be
    pipelined; `refuse` tells where not."""
    loop = loops[0]
    if kernel.name not in KERNEL_OPS:
        why = f"their mbarriers are made inside of this '{kernel.name}'"
        refuse(why, kernel, loop, advice="make and initialise them in the kernel's own block")
    blocks = list(kernel.regions[0].blocks)
    if len(blocks) > 1 or len(terminator(blocks[0]).operands):
        refuse("the kernel branches between blocks, or returns something", kernel, loop)
    theirs = set(loops)
    for op in walk(kernel):
        if op not in theirs and op.name == "scf.for" and names.is_requested(op):
            why = "the kernel has another loop to be pipelined, whose copies are not theirs"
            refuse(why, op, loop)


def _check_issuer(plan: RingPlan) -> None:
    """Any thread may issue: what it issues, and how often, is the same in all."""
    loop, leader = plan.loop, plan.issue.leader
    if leader is None:
        refuse(
            "the copies are not issued by thread 0 of a block along x",
            plan.transactions[0].expect,
            loop,
            advice="give all of them the predicate `gpu.thread_id x == 0`, or that and more, and the "
            "kernel a known_block_size",
        )
    decisive = [(op, value) for op in (*plan.outer, loop) for value in conditions(op)]
    for op in plan.issuing:
        predicate = operand(op, "predicate")
        assert predicate is not None
        parts = [part for part in conjunction(predicate) if part != leader]
        others = [value for value in op.operands if value != predicate]
        decisive += [(op, value) for value in (*parts, *others)]
    uniform = Uniformity()
    for op, value in decisive:
        if uniform.differs_by_thread(value):
            why = f"what is copied depends on the thread, by '{op.name}'"
            advice = "let coordinates, bytes and conditions be the same in all threads"
            refuse(why, op, loop, code="roles-values", advice=advice)


def _check_needed(
    plans: list[RingPlan], issues: list[IssueSlice], moved: tuple[Operation, ...]
) -> None:
    """What warps of their own run of the loops, and how often, needs nothing that they cannot compute again:
    integer arithmetic, and what the loops carry for it, from what is made before the roles part."""
    inside = {op: None for top in moved for op in walk(top)}
    loops = {op for plan in plans for op in (*plan.outer, plan.loop) if op.name == "scf.for"}
    for plan, issue in zip(plans, issues, strict=True):
        used = list(issue.used)
        for op in (*plan.outer, plan.loop):
            used += conditions(op)
        made = {defining_op(value) for value in needed_values(used, inside)} - loops
        for op in inside:
            if op in made and not only_computes(op):
                refuse(
                    f"they would need what '{op.name}' gives the others",
                    op,
                    plan.loop,
                    code="roles-values",
                    advice="compute what decides what is copied from arguments, ids of blocks and "
                    "counters of loops, or load it before the mbarriers are initialised",
                )


def _moved(kernel: Operation, plans: list[RingPlan], threads: int) -> tuple[Operation, ...]:
    """The ops of the kernel's block from the last mbarriers' barrier on that only the threads of
    the input run: all but what is pure, and needs nothing of these."""
    order = operations(kernel.regions[0].blocks[0])
    starts = dict.fromkeys((*plan.outer, plan.loop)[0] for plan in plans)
    setups = [setup for plan in plans for setup in plan.setups]
    ready = max(order.index(setup.meeting or setup.last_init) for setup in setups)
    for op in order[: ready + 1]:
        for inner in walk(op):
            if not (_any_thread_may(inner) or takes_columns(inner, threads)):
                refuse(
                    f"'{inner.name}' comes before the barrier that follows the mbarriers' "
                    "initialisation, and threads that are added would run it too",
                    inner,
                    next(iter(starts)),
                    advice="initialise the mbarriers before it",
                )
    addresses = address_loads(kernel)
    moved: list[Operation] = []
    made: set[Value] = set()
    for op in order[ready + 1 : -1]:
        free = (is_free(op) or op in addresses) and not made.intersection(op.operands)
        if op not in starts and free:
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
    if meets_cluster(op) or op.name in REGION_ROWS or op.name in EXIT_OPS or op.name in HINTS:
        return True
    return is_free(op) or shows_writes(op) or row_of(op).harmless


# What a consumer computes with beside its sums: the GEMMs of docs/code.md take 26 registers.
BESIDE_SUMS = 80


def share_registers(
    rings: list[SharedRing], chip: Chip | None, around: Surroundings
) -> list[SharedRing]:
    """The rings, with the registers of their roles by how many blocks `chip` runs at once.

        increase 232, one block of 34816 registers at a time      tiles of 96 KiB: two fit 228 KiB
        increase 216, two of 32768                          -->   where 128 sums and 80 more are enough

    A multiprocessor runs as many blocks at once as its memory and its 64 K registers hold. A consumer gets fewer
    registers for that only if its sums, and what it computes beside them, fit. On an H100 the GEMM 128x128x64 in f16
    on three slots is 1.2 times as fast (docs/gpu.md): one block stores while the other one multiplies."""
    parted: dict[Operation, list[RingPlan]] = {}
    for plan in (plan for ring in rings for plan in ring):
        # What threads load of tensor memory they do not carry.
        if plan.asked != "grouped" and plan.roles and plan.roles.block.registers is not None:
            parted.setdefault(plan.roles.block.kernel, []).append(plan)
    if chip is None or not parted:
        return rings
    found: dict[Operation, RolePlan] = {}
    for plans in parted.values():
        roles = roles_of(plans[0])
        registers = _registers(plans, roles.block, chip, around)
        roles = replace(roles, block=replace(roles.block, registers=registers))
        found |= dict.fromkeys(roles.loops, roles)
    return [
        tuple(replace(plan, roles=found.get(plan.loop, plan.roles)) for plan in ring)
        for ring in rings
    ]


def _registers(
    plans: list[RingPlan], block: RoleBlock, chip: Chip, around: Surroundings
) -> RoleRegisters:
    """Those of a block, for all loops of its kernel."""
    tiles = {buffer.root.identity: buffer for plan in plans for buffer in plan.buffers}
    memory = around.workgroup_bytes_beside(plans[0].loop, set(tiles))
    memory += workgroup_bytes(list(tiles.values()))
    fitting = resident_blocks(chip, block.grown, UNIT, memory) or 1
    # What a loop carries is what it adds up.
    sums = (registers_of((each.type for each in plan.loop.results), ()) for plan in plans)
    needed = BESIDE_SUMS + max(sums)
    for blocks in range(fitting, 1, -1):
        split = registers_of_roles(block.computing, block.copying, blocks)
        if split.consumer >= needed:
            return split
    return registers_of_roles(block.computing, block.copying)


# Blocks of a cluster that copy for each other ------------------------------------------------
#
#     block 0: copy, wait, use  -+-> arrive at `empty` of each block that copies into this one
#     block 1: copy, wait, use  -+-> and before the next copy into a slot, warp 0 waits for its own
#
# Each warp of the input arrives once for a tile, so a block must be of whole warps, along x.


def _warps_of_cluster(plan: RingPlan, around: Surroundings) -> int:
    """Raises PipelineError (cluster-unsupported)."""
    loop, completions = plan.loop, plan.products.completions
    check_kernel(plan.kernel, (loop,), refuse_blocks)
    if completions:
        why = "commits of products give slots back to one block"
        refuse_blocks(why, completions[0].commit, loop)
    size = around.launch_size(loop)
    if plan.issue.leader is None or size is None or size[0] % WARP:
        refuse_blocks(
            "the copies are not issued by thread 0 of a block of whole warps along x",
            plan.transactions[0].expect,
            loop,
            advice="give all of them the predicate `gpu.thread_id x == 0`, or that and more, and the kernel "
            f"a known_block_size along x, a multiple of {WARP}",
        )
    return size[0] // WARP
