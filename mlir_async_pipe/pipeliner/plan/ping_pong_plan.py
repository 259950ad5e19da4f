"""What two groups of threads need that take turns: at the iterations of the loop around, or at products.

    scf.for %tile = … iter_args(%phase) {        shared: what says how long each tile's loop is, and
      %m = arith.muli %tile, %c128                       what the loop around carries: both compute it
      scf.for %k = … { copy, wait, use }   -->   own:    the rest, which the group runs whose tile it is
      store %m
      scf.yield %end                             idle:   phases of the input, which nobody needs any more
    }

Group g runs iterations g, g + 2, … of the loop around as the threads of the input would have: a
thread id is the number in the group. Workgroup memory beside the ring's has a version for each of them.

    wait for the tiles                          both groups, when they like
    fence; products; commit; products; commit   a turn: one group after the other
    wait 1; largest; products; commit           while the other one has its turn, beside whose products these come
    weights; wait 0; scale

So the tensor cores work for one group while the other one computes its softmax (Shah and others,
FlashAttention-3, 2024, section 3.1). Nothing else is ordered: it is right without the turns.
"""

from __future__ import annotations

from functools import partial

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    ancestors,
    captured,
    defining_op,
    enclosing,
    is_used,
    operations,
    source_op,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import made_from, needed_values
from mlir_async_pipe.facts.loops.transactions import only_computes, operand_number
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.pipeliner.dependence.privatise import (
    SameEachTime,
    declared_private,
    unproven_read,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, by_root, regions_of
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan, buffer_value
from mlir_async_pipe.pipeliner.plan.ring_plan import PingPong, ProductTurn, RingPlan
from mlir_async_pipe.pipeliner.plan.role_block import GROUPS, WARPGROUP, refuse
from mlir_async_pipe.pipeliner.plan.tensor_tiles import (
    is_tensor_store,
    shows_slots,
    tile_buffers,
    users_of_memory,
    where_written,
)
from mlir_async_pipe.vocabulary import (
    VIEW_OPS,
    accesses,
    flag_order,
    given_count,
    is_barrier,
    is_pure,
    row_of,
    use_of,
)
from mlir_async_pipe.vocabulary.launch_ids import Size, launch_id
from mlir_async_pipe.vocabulary.memory_names import ALLOCATION_OPS, DEALLOCATION_OPS, is_set
from mlir_async_pipe.vocabulary.rows import UNORDERED, WGMMA


def plan_ping_pong(plan: RingPlan, moved: tuple[Operation, ...], block: Size | None) -> PingPong:
    """How the iterations of the loop around are shared out. Raises PipelineError (roles-unsupported, roles-values)."""
    loop, outer = plan.loop, plan.outer
    if len(outer) != 1 or outer[0].name != "scf.for":
        refuse(
            "no loop, or more than one op, stands between the mbarriers and this one, and two groups "
            "would take the iterations of a loop around in turn",
            outer[0] if outer else loop,
            loop,
            advice="write a persistent kernel: one loop over tiles, the loop of copies in its body",
        )
    (around,) = outer
    for op in (inner for top in moved if top != around for inner in walk(top)):
        if not (is_barrier(op) or row_of(op).harmless or is_free(op)):
            why = f"both groups would run '{op.name}', which stands beside the loop around"
            advice = "put it into the loop over tiles, or before the mbarriers' barrier"
            refuse(why, op, loop, advice=advice)
    idle = _idle(around, plan)
    shared = _shared(around, loop, idle)
    own = tuple(op for op in operations(around.regions[0].blocks[0])[:-1] if op not in shared)
    parts = {op for t in plan.transactions for op in t.ops}
    for op in (inner for top in own for inner in walk(top)):
        if use_of(op) not in (None, "handle") and op not in parts:
            refuse(f"'{op.name}' is about an mbarrier that both groups would use", op, loop)
        if flag_order(op) != UNORDERED:
            why = "orders memory for other threads, and tiles of two groups are not in order"
            refuse(f"'{op.name}' {why}", op, loop, code="memory-order")
    if not is_set(around.attributes, names.INDEPENDENT):
        _check_reads(own, loop)
    ids, of_ids = thread_values(moved, loop)
    tiles = _ping_pong_tiles(plan, own, block)
    return PingPong(around, shared, idle, tiles, ids, of_ids)


def _idle(around: Operation, plan: RingPlan) -> tuple[int, ...]:
    """What is carried around for phases, which the ring has its own of, and for copies, which the
    producer carries itself."""
    loop, block = plan.loop, around.regions[0].blocks[0]
    phases = {t.wait: operand_number(t.wait, "phase") for t in plan.transactions}
    ops = [op for op in (*operations(block)[:-1], *plan.body.ops) if op != loop]
    used = [*list(around.operands)[:3], *list(loop.operands)[:3], *filter(is_used, around.results)]
    for op in ops:
        if op not in plan.issuing and (not is_pure(op) or len(op.regions)):
            used += [value for n, value in enumerate(captured(op)) if n != phases.get(op)]
    needed = needed_values(used, {around, loop, *ops})
    arguments = list(block.arguments)[1:]
    return tuple(n for n, argument in enumerate(arguments) if argument not in needed)


def _shared(around: Operation, loop: Operation, idle: tuple[int, ...]) -> frozenset[Operation]:
    """The ops of the body around that both groups run: how many iterations the loop has, and what
    is carried around."""
    *ops, end = operations(around.regions[0].blocks[0])
    used = [value for number, value in enumerate(end.operands) if number not in idle]
    needed = needed_values([*used, *list(loop.operands)[:3]], ops)
    shared = frozenset(op for op in ops if not needed.isdisjoint(op.results))
    for op in ops:
        if op in shared and not is_free(op):
            refuse(
                f"both groups would need what '{op.name}' gives in the tile of one",
                op,
                loop,
                code="roles-values",
                advice="let the loop over tiles carry nothing that a tile's loop, a load or a store "
                "has a part in",
            )
    return shared


def _check_reads(own: tuple[Operation, ...], loop: Operation) -> None:
    """No tile reads what another one writes to global memory."""
    found = [(op, a) for top in own for op in walk(top) for a in accesses(op)]
    there = [(op, a.writes, root_of(a.memory)) for op, a in found]
    written = [root for _, writes, root in there if writes and root.space == "global"]
    kept = {root.identity for root in written}
    apart = all(root.noalias for root in written)
    for op, writes, root in there:
        if writes or root.space != "global":
            continue
        if root.identity in kept or not (apart or root.noalias or not written):
            why = f"'{op.name}' may read what the tile of the other group writes"
            advice = f"assert '{names.INDEPENDENT}' on the loop around if tiles never do"
            refuse(why, op, loop, advice=advice)


def thread_values(
    moved: tuple[Operation, ...], loop: Operation
) -> tuple[tuple[Value, ...], tuple[Operation, ...]]:
    """The thread ids along x that the ops name, and in textual order the ops before the roles part that compute with
    them, which threads can do again by their number in the group: pure ones. Raises PipelineError."""
    inside = {op: None for top in moved for op in walk(top)}
    uniform = Uniformity()
    for op in inside:
        known = [launch_id(result) for result in op.results]
        shared_out = any(access.shares is not None for access in accesses(op))
        if shared_out or any(k and k.kind == "subgroup" for k in known):
            refuse(
                f"'{op.name}' asks for the number of a warp in the block, which is another one in the "
                "second group",
                op,
                loop,
                code="roles-values",
                advice="compute it from gpu.thread_id, and store sums by 'vector.store' or the like",
            )
    seen: dict[Operation, None] = {}
    ids: dict[Value, None] = {}
    waiting = [value for op in inside for value in op.operands]
    while waiting:
        value = waiting.pop()
        made, known_id = defining_op(value), launch_id(value)
        if known_id is not None and known_id.kind != "subgroup":
            if (known_id.kind, known_id.axis) == ("thread", 0):
                ids[value] = None
        elif made is None or made in inside or made in seen:
            continue
        elif known_id is None and is_pure(made) and not len(made.regions):
            seen[made] = None
            waiting += captured(made)
        elif known_id is not None or uniform.differs_by_thread(value):
            refuse(
                f"'{made.name}' gives threads of the second group numbers that the input's do not have",
                made,
                loop,
                code="roles-values",
                advice="compute it from gpu.thread_id by arithmetic",
            )
    among = filter(seen.__contains__, operations(moved[0].block))
    return tuple(ids), tuple(made_from(ids, among))


def is_free(op: Operation) -> bool:
    """Whether it changes nothing that more threads run an op, or the same ones again."""
    return only_computes(op) or op.name in ALLOCATION_OPS


# Tiles of each group -------------------------------------------------------------------------
#
# A group runs every other iteration of the loop around, so it may have memory of its own where no
# iteration reads what another one wrote. Plain reads show that as those of any pipelined loop do. A tensor store
# reads all of its tile, and nobody says which elements a box leaves out: there each iteration must write the
# same elements, before the store.


_ADVICE = (
    "let each tile write all that it reads, in memory that is allocated before the loop over tiles and "
    f"that nothing else uses, or declare '{names.PRIVATE}' on it"
)


def _ping_pong_tiles(
    plan: RingPlan, own: tuple[Operation, ...], block: Size | None
) -> tuple[BufferPlan, ...]:
    """The buffers that `own`, what one group runs of an iteration of the loop around, uses beside those of the
    ring. Raises PipelineError (roles-unsupported, buffer-not-versionable)."""
    loop, (around,) = plan.loop, plan.outer
    ring = {buffer.root.identity for buffer in plan.buffers}
    regions = [
        region
        for region in regions_of(list(own), Arithmetic(block))
        if region.root is not None
        and region.root.space == "workgroup"
        and region.root.identity not in ring
    ]
    if not regions:
        return ()
    function = enclosing(around, FUNCTION_OPS)
    assert function is not None
    of_roots = by_root(regions)
    found = tile_buffers(regions, function, GROUPS)
    users = users_of_memory(function)
    for buffer in found:
        identity, made = buffer.root.identity, source_op(buffer_value(buffer.regions))
        if buffer.root.kind != "global" and around in ancestors(made):
            _refuse_tiles(buffer, "it is made in the loop around", made, loop)
        for op in users.get(identity, ()):
            inside = around in ancestors(op)
            if (inside and shows_slots(op)) or op.name in DEALLOCATION_OPS:
                continue
            why = "in a way that cannot take a slot" if inside else "beside the loop around"
            _refuse_tiles(buffer, f"'{op.name}' uses it {why}", op, loop)
        if declared_private(buffer.root):
            continue
        for op in users.get(identity, ()):
            # A product reads by a descriptor, a number that is no access to any memory.
            if not accesses(op) and op.name not in (*VIEW_OPS, *DEALLOCATION_OPS):
                why = f"who reads it by what '{op.name}' gives is not known"
                _refuse_tiles(buffer, why, op, loop)
        # No iteration of the loop around reads what another one wrote.
        stores = [region for region in of_roots[identity] if is_tensor_store(region.op)]
        others = [region for region in of_roots[identity] if not is_tensor_store(region.op)]
        missing = unproven_read(buffer.root, others, block, written_elsewhere=False)
        if missing is not None:
            why = f"'{missing.op.name}' may read what the tile of the other group wrote"
            _refuse_tiles(buffer, why, missing.op, loop)
        if stores:
            _check_stores(buffer, stores, [r for r in others if r.writes], plan)
    return found


def _check_stores(
    buffer: BufferPlan, stores: list[CoveredRegion], writes: list[CoveredRegion], plan: RingPlan
) -> None:
    """In each of the loops around the stores the same elements are written, before these."""
    loop, (around,) = plan.loop, plan.outer
    first = min(store.position for store in stores)
    # The loops around each store, innermost first, up to the one over tiles.
    above = [list(ancestors(store.op)) for store in stores]
    nests = [[op for op in ops[: ops.index(around) + 1] if op.name == "scf.for"] for ops in above]
    innermost = {nest[0] for nest in nests}
    same = {each: SameEachTime(each) for nest in nests for each in nest}
    for write in writes:
        if write.position > first or not innermost <= set(ancestors(write.op)):
            _refuse_tiles(buffer, f"'{write.op.name}' writes it after its store", write.op, loop)
        assert write.access is not None
        for each, values in same.items():
            where, holder = where_written(write.access, each)
            if holder is not None:
                why = f"a write of it stands inside of '{holder.name}'"
                _refuse_tiles(buffer, why, holder, loop)
            if values.what_changes(where) is not None:
                why = f"which elements '{write.op.name}' writes may change from tile to tile"
                _refuse_tiles(buffer, why, write.op, loop)


def _refuse_tiles(buffer: BufferPlan, why: str, at: Operation, loop: Operation) -> None:
    what = f"{buffer.root} would get a version for each of two groups, and {why}"
    refuse(what, at, loop, advice=_ADVICE)


# Products in turn ----------------------------------------------------------------------------

_refuse_turn = partial(
    refuse, advice='roles = "specialised" lets both issue their products when they like'
)


def product_turn(plan: RingPlan, threads: int) -> ProductTurn:
    """What two warpgroups issue in turn: the products of a step, until it waits for some of them. Those that follow a wait
    that leaves others in flight, as a second half does, come beside the other group's.

    Raises PipelineError (roles-unsupported)."""
    loop, stages = plan.loop, plan.stages
    if threads != GROUPS * WARPGROUP:
        _refuse_turn(f"{threads} threads are not two warpgroups that could take turns", loop, loop)
    order = operations(loop.regions[0].blocks[0]) if stages is None else list(stages.order)
    for op in walk(loop):
        if row_of(op).queue == WGMMA and op not in order:
            _refuse_turn("some products do not stand in the loop itself", op, loop)
        if row_of(op).queue == WGMMA and row_of(op).commits == "self":
            _refuse_turn(f"'{op.name}' waits for products in the turn that it would end", op, loop)
    found = [(n, op) for n, op in enumerate(order) if row_of(op).queue == WGMMA]
    issued = [n for n, op in found if row_of(op).wait is None]
    if not issued:
        _refuse_turn("no products of a warpgroup could be issued in turn", loop, loop)
    end, in_flight = issued[-1], list[int]()
    for number, op in found:
        if row_of(op).commits:
            in_flight.append(number)
        if row_of(op).wait is None or not issued[0] < number < issued[-1]:
            continue
        kept = given_count(op) or 0
        if stages is not None:
            kept = sum(group > stages.awaited[number] for group in in_flight)
        if not kept:
            why = "products stand before and after this wait, which leaves none: they would be two turns"
            _refuse_turn(why, op, loop)
        in_flight = in_flight[-kept:]
        end = min(end, max(n for n in issued if n < number))
    following = order[end + 1] if stages is not None and end + 1 < len(order) else None
    return ProductTurn(order[issued[0]], order[end], following)
