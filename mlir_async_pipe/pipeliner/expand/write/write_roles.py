"""Writes a loop of tensor copies as two: warps of their own copy, all others compute.

                                              scf.if %thread < threads {
    for k {                                     for k, slot, phase, earlier {
      expect, copy, wait, use, barrier            wait for full[slot]; use; leave p products
    }                                  -->        arrive at empty[earlier] if k has p before it
    store                                       }
                                                arrive for the last p tiles; store
                                              } else {
                                                for k, slot, phase {
                                                  wait for empty[slot]; expect, copy
                                                }
                                              }

Each loop is lowered where it stands; then those that copy get a copy of all that the threads of the input run
alone, without the statements of other partitions and what only these need. The producer's first wait is for parity 1, which an mbarrier in its first phase lets pass: all slots
are free. Each warp arrives once for a tile, after the wait that covers its products
(docs/phases.md); in a cluster, in each block that copies into its own (`SlotReturns`). Products that add up
in tensor memory are issued by another warp of their own (`ProductsWriter`); two groups may take the tiles of
the loop around alternately (`PingPongWriter`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    after,
    attribute,
    before,
    captured,
    clone,
    constant,
    create,
    defining_op,
    integer_attribute,
    is_used,
    operations,
    parent,
    remap,
    set_integer,
    source_op,
    terminator,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, end_of, write_if, yield_values
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.transactions import (
    mbarrier_pointer,
    only_computes,
    write_mbarrier_wait,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry, drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer, show_slot
from mlir_async_pipe.pipeliner.expand.write.write_ring import (
    COPIES,
    TILE,
    Blocks,
    RingLoop,
    SlotReturns,
    drop_unused,
    elect,
    first_lane,
    thread_along_x,
    write_empty,
    write_mbarriers,
    write_partition,
)
from mlir_async_pipe.pipeliner.plan.ring_plan import (
    WARP,
    PartedLoop,
    ProductRole,
    ProductTurn,
    RingPlan,
    RoleBlock,
    RolePlan,
    SharedRing,
    roles_of,
)
from mlir_async_pipe.pipeliner.plan.ring_stages import RingStages
from mlir_async_pipe.pipeliner.plan.role_block import GROUPS, WARPGROUP
from mlir_async_pipe.vocabulary import tensor_use, use_of
from mlir_async_pipe.vocabulary.barriers import write_named_barrier
from mlir_async_pipe.vocabulary.control_flow import EXIT_OPS
from mlir_async_pipe.vocabulary.launch_ids import BLOCK_SIZES, first_size
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.tensor_memory import FENCE_OP, fence_side


class _Loop(NamedTuple):
    """A loop, the mbarriers that say which slots of its ring are free, from which number on, and the numbers of
    its slot and phase in the state of all rings."""

    loop: RingLoop
    empty: Value
    first_empty: int
    values: tuple[int, int]


def write_roles(rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]]) -> None:
    """Write the planned loops of a kernel, ring by ring with their buffers."""
    first = rings[0][0]
    roles, loc = roles_of(first), first.loop.location
    blocks = Blocks(first.cluster, roles.block.warps)
    blocks.meet_first(first.setups)
    products: ProductsWriter | PartedWriter | None = None
    if isinstance(roles.products, PartedLoop):
        products = PartedWriter(first, roles, roles.products)
    elif roles.products is not None:
        products = ProductsWriter(first, roles, roles.products)
    loops = _loops(rings, buffers, blocks)
    branch, thread = _part_threads(first, roles)
    copying, others = _producer_region(branch.regions[1], thread, roles, loc)
    end = end_of(branch.regions[0])
    for op in roles.moved:
        op.move_before(end)
    start = before(roles.moved[0])
    if roles.block.registers is not None:
        set_registers("increase", roles.block.registers.consumer, start, loc)
    build = IntegerWriter(start, loc)
    arrives = first_lane(thread, build)
    blocks.read_rank(build)
    for one in loops:
        if products is None:
            meets_lanes = one.loop.plan.meets_lanes
            one.loop.returns = SlotReturns(one.empty, blocks, arrives, meets_lanes)
        one.loop.lower_apart(one.empty, one.first_empty)
    copies = [(one.loop, one.values) for one in loops]
    there = IntegerWriter(at_end_of(copying), loc)
    free = [value for _ in rings for value in Ring.start(there, phase=1)]
    write_partition(copying, roles.moved, COPIES, copies, RingLoop.expand, free)
    if products is not None:
        products.write(loops[0].loop, others, arrives)
    if isinstance(products, PartedWriter) and products.role.groups is not None:
        _write_groups(loops[0], roles, products, branch.regions[0], thread)
    else:
        _write_uses(loops, roles, products, thread, build)
    for setup in (setup for ring in rings for setup in ring[0].setups):
        setup.create.erase()
    blocks.meet_last(terminator(roles.block.kernel.regions[0].blocks[0]))


def _write_uses(
    loops: list[_Loop],
    roles: RolePlan,
    products: ProductsWriter | PartedWriter | None,
    thread: Value,
    build: IntegerWriter,
) -> None:
    """Expand the lowered loops of the threads of the input, which begin where `build` writes, or write what is
    left of one whose products another warp issues."""
    for one in loops:
        drop_unused(one.loop.loop)
    groups = None
    if roles.ping_pong is not None:
        groups = PingPongWriter(loops[0].loop, roles, thread, build)
    rings = dict.fromkeys(one.values for one in loops)
    state = [value for _ in rings for value in Ring.start(build)]
    paths = [
        RingPath((*one.loop.plan.outer, one.loop.loop), one.loop.write_uses, one.values)
        for one in loops
    ]
    if roles.turn is not None:
        _write_turns(loops[0].loop, roles, roles.turn, thread, build)
    if groups is not None:
        paths = [paths[0]._replace(write=groups.write_tile, values=(0, 1, 2, 3))]
        state += groups.start(build)
    else:
        if isinstance(products, ProductsWriter):
            paths = [path._replace(write=products.write_loads) for path in paths]
        # The first op of these threads may be a barrier.
        name_barriers(roles.block)
    ends = carry(paths, state)
    # What a loop forwards to the next one is idle when that one does without.
    for one in reversed([] if isinstance(products, ProductsWriter) else loops):
        drop_idle_values(one.loop.loop)
    if groups is not None:
        groups.end(ends[2])


def _write_groups(
    one: _Loop, roles: RolePlan, products: PartedWriter, region: Any, thread: Value
) -> None:
    """Let each group of threads run what it owns of what stands in a region, after which nothing of that is left."""
    loc, role = one.loop.plan.loop.location, products.role.groups
    assert role is not None
    name_barriers(roles.block)
    # The barriers among them are new; ops are found by what they are now, and asked before that changes.
    moved, owners = tuple(operations(region.blocks[0])[:-1]), dict(products.owners)
    run = [(op, owners.get(op)) for top in moved for op in _run_by_threads(top)]
    for group in range(role.count):
        if group < role.count - 1:
            last = roles.block.threads * (group + 1)
            build = IntegerWriter(at_end_of(region), loc)
            mine = build.compare("ult", thread, last)
            own, region = write_if(mine, (), (), at_end_of(region), loc).regions
        else:
            own = region
        for op, owning in run:
            names.remove(op, (names.PARTITION,))
            if owning is None or group in owning:
                set_integer(op, names.PARTITION, THREADS, 64)
        there = IntegerWriter(at_end_of(own), loc)
        values = [(one.loop, one.values)]
        start = Ring.start(there)
        # Numbers of threads are those of the input.
        number = there.remainder(thread, roles.block.threads)
        numbers = {value: _as_type(number, value.type, there) for value in role.ids}
        for op in role.of_ids:
            clone(op, numbers, there.ip)
        kept = operations(own.blocks[0])
        awaited = [
            each
            for each in one.loop.plan.products.completions
            if group in owners.get(each.wait, {group})
        ]
        write = partial(RingLoop.write_uses, awaited=awaited)
        write_partition(own, moved, THREADS, values, write, start)
        for op in operations(own.blocks[0])[len(kept) - 1 :]:
            remap(op, numbers)
    for op in reversed(moved):
        op.erase()


def _run_by_threads(op: Operation) -> Iterator[Operation]:
    """What an op, and all it holds, does, but for other partitions, and for what only computes."""
    if op.name == TILE or integer_attribute(op, names.PARTITION) in (COPIES, PRODUCTS, NOBODY):
        return
    if not len(op.regions):
        if not only_computes(op) and op.name not in EXIT_OPS:
            yield op
        return
    for block in (block for region in op.regions for block in region.blocks):
        for inner in operations(block):
            yield from _run_by_threads(inner)


def _write_turns(
    ring: RingLoop, roles: RolePlan, turn: ProductTurn, thread: Value, build: IntegerWriter
) -> None:
    """Let two warpgroups issue their products in turn: the body still is that of the input."""
    plan, known = ring.plan, {*operations(turn.first.block)}
    order = GroupOrder(build.divide(thread, WARPGROUP), roles.block, build, plan.loop.location)
    order.begin_turn(before(turn.first))
    order.end_turn(after(turn.last) if turn.following is None else before(turn.following))
    if plan.stages is not None:
        # Both groups leave out as many turns before and after the kernel.
        ring.turn = tuple(op for op in operations(turn.first.block) if op not in known)
    # Both have as many turns, and the first group had the first one.
    order.end(order.is_first, (*plan.outer, plan.loop)[0])


def _loops(
    rings: list[SharedRing], buffers: list[list[list[VersionedBuffer]]], blocks: Blocks
) -> list[_Loop]:
    """The loops in textual order; writes the mbarriers."""
    found = []
    roles = roles_of(rings[0][0])
    for number, (ring, of_ring) in enumerate(zip(rings, buffers, strict=True)):
        first, values, first_empty = ring[0], (2 * number, 2 * number + 1), 0
        if roles.completion is None:
            empty = write_empty(first.setups[0], first.versions, blocks.arrivals)
        full = {s.create.results[0]: write_mbarriers(s, first.versions) for s in first.setups}
        if (completion := roles.completion) is not None:
            # The commit of an iteration gives its slot back.
            empty, first_empty = full[completion.barriers], completion.number
        found += [
            _Loop(RingLoop(plan, own, full), empty, first_empty, values)
            for plan, own in zip(ring, of_ring, strict=True)
        ]
    place = {loop: number for number, loop in enumerate(roles.loops)}
    return sorted(found, key=lambda each: place[each.loop.loop])


def _part_threads(plan: RingPlan, roles: RolePlan) -> tuple[Operation, Value]:
    """The branch of the threads of the input, which grow by others, and the number of a thread."""
    add_threads(roles.block)
    kernel = roles.block.kernel
    end = terminator(kernel.regions[0].blocks[0])
    build = IntegerWriter(before(end), plan.loop.location)
    thread = thread_along_x(kernel, build)
    mine = build.compare("ult", thread, roles.block.computing)
    return write_if(mine, (), (), before(end), plan.loop.location), thread


def _producer_region(region: Any, thread: Value, roles: RolePlan, loc: Any) -> tuple[Any, Any]:
    """Where the first warp of those that are added runs, which copies, and where the others do (None if
    nobody does)."""
    block = roles.block
    if block.registers is not None:
        set_registers("decrease", block.registers.producer, at_end_of(region), loc)
    if block.copying == WARP:
        return region, None
    build = IntegerWriter(at_end_of(region), loc)
    first = build.compare("ult", thread, block.computing + WARP)
    others = () if roles.products is not None else None
    branch = write_if(first, (), others, at_end_of(region), loc)
    copying, region = branch.regions
    if others is not None and block.copying > 2 * WARP:
        build = IntegerWriter(at_end_of(region), loc)
        second = build.compare("ult", thread, block.computing + 2 * WARP)
        region = write_if(second, (), None, build.ip, loc).regions[0]
    return copying, region


# Threads --------------------------------------------------------------------------------------
#
#     known_block_size = 128                       256, nvvm.maxnreg = 136
#     gpu.launch_func … threads in (%c128, …)      %c256
#     gpu.barrier                         -->      nvvm.barrier id = 1 number_of_threads = 128
#     gpu.block_dim x                              %c128


def add_threads(block: RoleBlock) -> None:
    """Change what the kernel and its launches say about their threads."""
    kernel = block.kernel
    entry = operations(kernel.regions[0].blocks[0])[0]
    for value, known in block.sizes:
        number = block.threads if known.axis == 0 else 1
        value.replace_all_uses_with(constant(number, value.type, before(entry), entry.location))
    grown = block.grown
    for name in BLOCK_SIZES:
        if name in kernel.attributes:
            kernel.attributes[name] = ir.DenseI32ArrayAttr.get([grown, 1, 1], kernel.context)
    if block.registers is not None:
        set_integer(kernel, "nvvm.maxnreg", block.registers.entry, 32)
    for launch in block.launches:
        place = first_size(launch, "block")
        kind = launch.operands[place].type
        launch.operands[place] = constant(grown, kind, before(launch), launch.location)


def name_barriers(block: RoleBlock, group: Value | None = None) -> None:
    """Let those of the block after the roles part be met at by the threads of the input, each
    `group` at one of its own."""
    # One that has a number and a count is named already.
    met = block.computing if group is None else block.threads
    for barrier in (op for op in block.barriers if len(op.operands) < 2):
        i32 = ir.IntegerType.get_signless(32, barrier.context)
        ip, loc = before(barrier), barrier.location
        threads = constant(met, i32, ip, loc)
        given = list(barrier.operands)
        number = given[0] if given else constant(block.barrier, i32, ip, loc)
        if group is not None:
            number = create("arith.addi", [number, group], [i32], ip=ip, loc=loc).results[0]
        write_named_barrier(number, threads, ip, loc)
        barrier.erase()


def set_registers(action: str, count: int, ip: Any, loc: Any) -> None:
    """Registers move between the roles: each warp says how many its threads keep."""
    attributes = {
        "action": attribute(f"#nvvm<action {action}>", loc.context),
        "regCount": ir.IntegerAttr.get(ir.IntegerType.get_signless(32, loc.context), count),
    }
    create("nvvm.setmaxregister", (), (), attributes, ip=ip, loc=loc)


# Two groups that take turns ------------------------------------------------------------------
#
#     if second group: arrive at order[0]         the first turn is the first group's
#     …
#     order[group]                                wait until the other one has had its turn
#     …                                           the turn
#     arrive at order[other]
#     …
#     who would be next: order[group]             takes the last arrival
#
# `order[g]` is a named barrier at which group g waits and the other one arrives (docs/phases.md).


class GroupOrder:
    """The turns of two groups. `group` is the number of a thread's own one, an index; `build` writes where both
    begin, and the second group lets the first one go ahead there."""

    def __init__(self, group: Value, block: RoleBlock, build: IntegerWriter, loc: Any) -> None:
        self.loc = loc
        i32 = ir.IntegerType.get_signless(32, loc.context)
        number = build.cast("arith.index_cast", group, i32)
        # Handed around in the warp: so ptxas knows that all lanes have the same.
        here = IntegerWriter(build.ip, loc)
        operands = [number, here.constant(0, i32), here.constant(32, i32)]
        mode = {"mode": attribute("#gpu<shuffle_mode idx>", loc.context)}
        i1 = ir.IntegerType.get_signless(1, loc.context)
        self.group = here.op("gpu.shuffle", operands, [i32, i1], mode).results[0]
        self.is_first, second = (build.compare("eq", self.group, number) for number in (0, 1))
        self.own = build.add(self.group, block.order)
        self.other = build.subtract(build.constant(block.order + 1, i32), self.group)
        self.meeting = build.constant(block.computing, i32)
        begins = write_if(second, (), None, build.ip, loc)
        self._arrive(build.constant(block.order, i32), before(end_of(begins.regions[0])))

    def begin_turn(self, ip: Any) -> None:
        """Wait until the other group has had its turn."""
        write_named_barrier(self.own, self.meeting, ip, self.loc)

    def end_turn(self, ip: Any) -> None:
        """Let the other group have its turn."""
        self._arrive(self.other, ip)

    def end(self, is_next: Value, last: Operation) -> None:
        """After the op that has the last turn, the group that would be next takes the last arrival."""
        ends = write_if(is_next, (), None, after(last), self.loc)
        self.begin_turn(before(end_of(ends.regions[0])))

    def _arrive(self, number: Value, ip: Any) -> None:
        create("nvvm.barrier.arrive", [number, self.meeting], ip=ip, loc=self.loc)


# Products in tensor memory -------------------------------------------------------------------
#
#                                           scf.if %thread < threads {
#                                             for tile, sums, phase {
#     for tile {                                wait for filled[sums]; load; arrive at drained[sums]; store
#       for k {                               }
#         expect, copy, wait,               } else if the first warp of the others {
#         product, commit, wait     -->       for tile { for k, slot { wait for empty[slot]; expect, copy } }
#       }                                   } else {
#       load; store                           for tile, sums {
#     }                                         wait for drained[sums]
#                                               for k, slot { wait for full[slot]; product, commit empty[slot] }
#                                               commit filled[sums]
#                                             } }
#
# The commit of an iteration gives its slot back, so the input's mbarrier of products is `empty`. Of two
# versions the sums of one are loaded while the other adds up (docs/phases.md).


# The partition of the statements that issue products; the input's threads run what is in none, and each of several groups
# of them what is in the second one while it is written. Nobody runs what is in the last one.
PRODUCTS, THREADS, NOBODY = 1, 2, 3


class ProductsWriter:
    """Writes what the warp runs that issues products, and what the threads of the input run instead of the loop. They
    wait for each other by the mbarriers of the versions of the sums, which are made here, with room for these."""

    def __init__(self, plan: RingPlan, roles: RolePlan, role: ProductRole) -> None:
        self.plan, self.roles, self.role = plan, roles, role
        self.ring = Ring(role.sums.versions)
        setup, count = plan.setups[0], role.sums.versions
        self.filled = write_empty(setup, count, 1)
        self.drained = write_empty(setup, count, roles.block.warps)
        for op in role.sums.sized if count > 1 else ():
            columns = op.operands[1]
            grown = count * role.sums.columns
            op.operands[1] = constant(grown, columns.type, before(op), op.location)

    def write(self, loop: RingLoop, region: Any, arrives: Value) -> None:
        """Write the products of a lowered loop at the end of a region; `arrives` holds in one lane of each warp of
        the threads of the input, which `write_loads` is for."""
        _name_products(self.plan, (self.role.branch,))
        # The first slot and its phase; the first version, which is free.
        there = IntegerWriter(at_end_of(region), self.plan.loop.location)
        state = [*Ring.start(there), *Ring.start(there, phase=1)]
        values = [(loop, (0, 1, 2, 3))]
        write_partition(region, self.roles.moved, PRODUCTS, values, self._write_products, state)
        self.returns = SlotReturns(self.drained, Blocks(None, 0), arrives, meets_lanes=True)

    def _write_products(
        self, ring: RingLoop, slot: Value, phase: Value, version: Value, phase_of_sums: Value
    ) -> list[Value]:
        """The products of one tile of the loop around, into a version that was loaded; returns the state after
        them."""
        loop = ring.loop
        # Not the constants of the input's loop, which stand with other threads.
        write = IntegerWriter.before(loop)
        # What others did to a version counts after the next fence.
        write_mbarrier_wait(write, self.drained, version, phase_of_sums)
        fence("after", write.ip, write.location)
        offset = self._offset(version, write)
        for op in list(walk(loop)):
            if tensor_use(op) == "product":
                show_version(op, offset)
        following = ring.expand(slot, phase)
        write = IntegerWriter(after(ring.loop), write.location)
        # The sums are there when all products of the thread are over.
        branch = write_if(elect(write), (), None, write.ip, write.location)
        made = clone(self.role.completion.commit, {}, at_end_of(branch.regions[0]))
        inside = IntegerWriter(before(made), write.location)
        made.operands[0] = mbarrier_pointer(inside, self.filled, version, made.operands[0].type)
        return [*following, *self.ring.advance(version, phase_of_sums, write)]

    def write_loads(self, version: Value, phase: Value) -> list[Value]:
        """The wait in the place of the loop, and the arrivals after the loads."""
        loop, role = self.plan.loop, self.role
        write = IntegerWriter.before(loop)
        write_mbarrier_wait(write, self.filled, version, phase)
        if fence_following(loop, "after") is None:
            fence("after", write.ip, write.location)
        offset = self._offset(version, write)
        for op in role.loads:
            show_version(op, offset)
        last = role.last or loop
        fenced = fence_following(last, "before")
        write = IntegerWriter(after(fenced or last), loop.location)
        if fenced is None:
            fence("before", write.ip, loop.location)
        self.returns.write(version, None, write)
        for number, result in enumerate(loop.results):
            result.replace_all_uses_with(loop.operands[3 + number])
        loop.erase()
        return self.ring.advance(version, phase, write)

    def _offset(self, version: Value, write: IntegerWriter) -> Value | None:
        """The columns before a version, None where there is one."""
        if self.ring.slots == 1:
            return None
        i32 = ir.IntegerType.get_signless(32, write.context)
        number = write.cast("arith.index_cast", version, i32)
        return write.multiply(number, write.constant(self.role.sums.columns, i32))


def _name_products(plan: RingPlan, branches: tuple[Operation, ...]) -> None:
    """Let one thread of the warp that multiplies run the branches, after the tiles are there."""
    for branch in branches:
        elected = elect(OpWriter(before(branch), plan.loop.location))
        names.remove(branch, names.OP_NAMES)
        branch.operands[0] = elected
        for op in (source_op(elected), branch):
            set_integer(op, names.PARTITION, PRODUCTS, 64)
    for transaction in plan.transactions:
        set_integer(transaction.wait, names.PARTITION, PRODUCTS, 64)


# The threads of the input run the loop, too, where they work in tensor memory between its products:
#
#     for k {                                  arrive at entered                  wait entered; fence
#       copy; wait                             for k, slot {                      for k, slot {
#       product; commit; wait                    wait done[slot]                    wait full[slot]; product, commit done[slot]
#       load; …; store; barrier        -->       load; …; store                     wait ready[slot]; fence
#       product; commit; wait; barrier           fence; arrive at ready[slot]       product, commit last[slot]
#     }                                          wait last[slot]                  }
#                                              }
#
# `entered` shows what the threads did before the loop, `ready` what they did in an iteration. Both sides of the other mbarriers
# have waited for each phase before its successor can end: the next commit comes after arrivals that come after the waits.


class PartedWriter:
    """Writes what the warp runs that issues the products of a loop which the threads of the input run, too."""

    def __init__(self, plan: RingPlan, roles: RolePlan, role: PartedLoop) -> None:
        assert roles.order is not None
        self.plan, self.roles, self.role, self.order = plan, roles, role, roles.order
        setup, warps = plan.setups[0], roles.block.warps
        self.owners = [] if role.groups is None else [*role.groups.owners.items()]
        count = 1 if role.groups is None else role.groups.count
        self.entered = write_empty(setup, 1, warps * count)
        # Where threads arrive, each once for all that wait for it, and of which group.
        self.places = list(dict.fromkeys((one.at, one.group) for one in self.order.arrivals))
        self.arrived = [write_empty(setup, plan.versions, warps) for _ in self.places]
        ops, numbers = zip(*self.order.step, strict=True)
        self.stages = RingStages(ops, numbers, {}) if max(numbers) else None
        for completion, place in self.order.late:
            for op in _with_fence(completion.wait):
                op.move_before(place)

    def write(self, loop: RingLoop, region: Any, arrives: Value) -> None:
        """Write the products of a lowered loop at the end of a region, and the arrivals of the threads of the input."""
        order, loc = self.order, self.plan.loop.location
        slot, phase, earlier = loop.held
        branches = [(op, stage) for op, stage in order.step if len(op.regions)]
        _name_products(self.plan, tuple(op for op, _ in branches))
        for number, (op, _) in enumerate(order.step):
            set_integer(op, names.ORDER, number, 64)
        for branch, stage in branches:
            elected = source_op(branch.operands[0])
            write, known = IntegerWriter.before(elected), {*operations(branch.block)}
            arrivals = (one for one in order.arrivals if one.place == branch)
            waits = [(self.arrived[self.places.index((o.at, o.group))], 0, o.lag) for o in arrivals]
            fenced = bool(waits)
            for completion, place, lag in order.awaited:
                if place == branch:
                    waits.append((loop.full[completion.barriers], completion.number, lag))
            for group, first, lag in waits:
                at, parity = slot, phase
                if lag:
                    at, parity = earlier, loop.ring.earlier_phase(phase, slot, earlier, write)
                write_mbarrier_wait(write, group, loop.ring.mbarrier(first, at, write), parity)
            if fenced:
                fence("after", write.ip, loc)
            written = [op for op in operations(branch.block) if op not in known]
            for op in (*(op for op in written if not only_computes(op)), elected):
                set_integer(op, names.PARTITION, PRODUCTS, 64)
                set_integer(op, names.STAGE, stage, 64)
        for (at, owner), group in zip(self.places, self.arrived, strict=True):
            beside = operations(at.block)
            made = _arrive(group, slot, arrives, beside[beside.index(at) + 1])
            self.owners += [(op, frozenset((owner,))) for top in made for op in walk(top)]
        for completion, _ in order.late:
            if fence_following(completion.wait, "after") is None:
                fence("after", after(completion.wait), loc)
        for op in (op for each in order.left_out for op in _with_fence(each.wait)):
            set_integer(op, names.PARTITION, NOBODY, 64)
        if order.drained:
            fence("after", after(loop.loop), loc)
        for barrier in self.role.barriers:
            barrier.erase()
        there = IntegerWriter(at_end_of(region), loc)
        state = [*Ring.start(there), *Ring.start(there)]
        values = [(loop, (0, 1, 2, 3))]
        write_partition(region, self.roles.moved, PRODUCTS, values, self._write_products, state)
        write = self._integers(loop.loop)
        runs = self._runs(write)
        if runs is not None:
            arrives = write.binary("arith.andi", runs, arrives)
        _arrive(self.entered, write.constant(0), arrives, loop.loop)

    def _write_products(
        self, ring: RingLoop, slot: Value, phase: Value, entry: Value, entered: Value
    ) -> list[Value]:
        """The products of one execution of the loop; returns the state after them."""
        write = self._integers(ring.loop)
        runs = self._runs(write)
        inside: IntegerWriter = write
        if runs is not None:
            branch = write_if(runs, (), None, write.ip, write.location)
            inside = IntegerWriter(at_end_of(branch.regions[0]), write.location)
        write_mbarrier_wait(inside, self.entered, entry, entered)
        fence("after", write.ip, write.location)
        flips = runs if runs is not None else write.constant(1, entered.type)
        following = write.binary("arith.xori", entered, flips)
        return [*ring.expand(slot, phase, stages=self.stages), entry, following]

    def _integers(self, loop: Operation) -> Integers:
        return Integers(loop, 0, self.plan.trip_count, before(loop))

    def _runs(self, write: Integers) -> Value | None:
        """Whether this execution has iterations, None where it has, or is the only one. Of one without any the warp waits for
        nothing, and the threads, which it would not stop either, might be two phases ahead."""
        again_and_again = any(op.name == "scf.for" for op in self.plan.outer)
        return write.has_iteration(0) if again_and_again and not self.plan.trip_count else None


def _arrive(group: Value, slot: Value, arrives: Value, place: Operation) -> list[Operation]:
    """Each warp tells, before an op, what it did in tensor memory; returns the ops for that."""
    order, write = operations(place.block), IntegerWriter.before(place)
    number = order.index(place)
    if not number or fence_side(order[number - 1]) != "before":
        fence("before", write.ip, write.location)
    SlotReturns(group, Blocks(None, 0), arrives, meets_lanes=True).write(slot, None, write)
    return [op for op in operations(place.block) if op not in order]


def fence_following(op: Operation, side: str) -> Operation | None:
    """The fence that the input has right after an op, if it is of that side."""
    order = operations(op.block)
    following = order[order.index(op) + 1]
    return following if fence_side(following) == side else None


def _with_fence(wait: Operation) -> list[Operation]:
    """A wait of the input, with the fence after it, unless that is one for waits before it, too."""
    order, fenced = operations(wait.block), fence_following(wait, "after")
    earlier = [op for op in order[: order.index(wait)] if not only_computes(op)]
    shared = bool(earlier) and use_of(earlier[-1]) == "wait"
    return [wait] if fenced is None or shared else [wait, fenced]


def fence(side: str, ip: Any, loc: Any) -> None:
    """What others did counts for tensor ops `after` it, or what these did for others `before`."""
    kind = {"kind": attribute(f"#nvvm.tcgen05_fence<{side}>", loc.context)}
    create(FENCE_OP, (), (), kind, ip=ip, loc=loc)


def show_version(op: Operation, offset: Value | None) -> None:
    """Let an op use the columns of a version."""
    if offset is None:
        return
    address, write = op.operands[0], IntegerWriter.before(op)
    made = defining_op(address)
    if (
        made is not None
        and made.name == POINTER_OF_ADDRESS
        and made.operands[0].type == offset.type
    ):
        number = made.operands[0]
    else:
        number = write.cast("llvm.ptrtoint", address, offset.type)
    op.operands[0] = write.cast(POINTER_OF_ADDRESS, write.add(number, offset), address.type)


# Tiles alternately ---------------------------------------------------------------------------
#
#                                        scf.for %tile … iter_args(slot, phase, mine, count) {
#       scf.for %tile {                    scf.if %mine {
#         front                              front
#         loop                     -->       order[group]; loop; arrive at order[other]
#         store                              drain; store
#       }                                  } else { slot and phase after the tile of the others }
#                                        }
#                                        if %mine: order[group]
#
# By `order` (`GroupOrder`) a loop begins when the one before has waited for all of its tiles
# (docs/phases.md). The number of a tile is written as 2 x + group: from that everybody can see that the
# groups have tiles of their own.


class PingPongWriter:
    """Puts both groups into the loop around, and between them slot and phase through it. `build` writes where
    these threads begin."""

    def __init__(
        self, loop: RingLoop, roles: RolePlan, thread: Value, build: IntegerWriter
    ) -> None:
        assert roles.ping_pong is not None
        self.loop, self.ping_pong, self.block = loop, roles.ping_pong, roles.block
        self.loc, block = loop.plan.loop.location, roles.block
        own_number = build.remainder(thread, block.threads)
        self.own_group = build.divide(thread, block.threads)
        self.order = GroupOrder(self.own_group, block, build, self.loc)
        # Threads of the second group get the numbers that the input's threads have.
        numbers = {i: _as_type(own_number, i.type, build) for i in self.ping_pong.ids}
        again = [clone(op, numbers, build.ip) for op in self.ping_pong.of_ids]
        for op in roles.moved:
            remap(op, numbers)
        for op in reversed(again):
            # Who copies is another one by now.
            if not any(map(is_used, op.results)):
                op.erase()

    def start(self, build: IntegerWriter) -> list[Value]:
        """Whether the first tile is the group's own, and how many were before it."""
        kind = self.ping_pong.around.regions[0].blocks[0].arguments[0].type
        return [self.order.is_first, build.constant(0, kind)]

    def end(self, mine: Value) -> None:
        """The group that would be next takes the last arrival."""
        around = source_op(mine)
        self.order.end(mine, around)
        drop_idle_values(around)

    # -- one tile ------------------------------------------------------------------------------

    def write_tile(self, slot: Value, phase: Value, mine: Value, count: Value) -> list[Value]:
        """What a group runs if the tile is its own, and else."""
        ping_pong, loc = self.ping_pong, self.loc
        around = parent(self.loop.loop)
        assert around is not None
        block = around.regions[0].blocks[0]
        end = terminator(block)
        for number in ping_pong.idle:
            end.operands[number] = block.arguments[number + 1]
        drop_unused(around)
        ops = [op for op in operations(block)[:-1] if op not in ping_pong.shared]
        branch = write_if(mine, (slot, phase), (slot, phase), before(end), loc)
        ours, theirs = (end_of(region) for region in branch.regions)
        for op in ops:
            op.move_before(ours)
        name_barriers(self.block, self.order.group)
        own = operations(branch.regions[0].blocks[0])
        self._number_tile(around, count, own)
        beside = {buffer.root.identity for buffer in ping_pong.tiles}
        tiles = [buffer for buffer in self.loop.buffers if buffer.plan.root.identity in beside]
        show_slot(tiles, self.own_group, own)
        others = Integers(self.loop.loop, 0, self.loop.plan.trip_count, before(theirs))
        trips = others.trips_as_index()
        yield_values(theirs, self.loop.ring.after(slot, phase, trips, others))
        yield_values(ours, self.loop.write_uses(slot, phase))
        self.order.begin_turn(before(self.loop.loop))
        self.order.end_turn(after(self.loop.loop))
        build = IntegerWriter(before(end), loc)
        flipped = build.binary("arith.xori", mine, build.constant(1, mine.type))
        return [*branch.results, flipped, build.add(count, 1)]

    def _number_tile(self, around: Operation, count: Value, ops: list[Operation]) -> None:
        """lower + (2 (count div 2) + group) step, which is the number of a tile of the group."""
        variable = around.regions[0].blocks[0].arguments[0]
        if not any(variable in captured(op) for op in ops):
            return
        build = IntegerWriter(before(ops[0]), self.loc)
        lower, _, step = list(around.operands)[:3]
        group = _as_type(self.own_group, count.type, build)
        pairs = build.multiply(build.divide(count, GROUPS), GROUPS)
        tile = build.add(lower, build.multiply(build.add(pairs, group), step))
        for op in ops:
            remap(op, {variable: tile})


def _as_type(number: Value, kind: Any, build: IntegerWriter) -> Value:
    if number.type == kind:
        return number
    return build.cast("arith.index_cast", number, kind)
