"""Writes what two groups of threads run that take tiles alternately (ping-pong).

                                     scf.for %tile … iter_args(slot, phase, mine, count) {
    scf.for %tile {                    scf.if %mine {
      front                              front
      loop                     -->       order[group]; loop; hand on to order[other]
      store                              drain; store
    }                                  } else { slot and phase after the tile of the others }
                                     }
                                     if %mine: order[group]

`order[g]` is a named barrier at which group g waits and the other one arrives, so a loop begins
when the one before has waited for all of its tiles (docs/phases.md). The second group arrives once
before all tiles; who would be next after all tiles takes the last arrival. The number of a tile is written
as 2 x + group: from that everybody can see that the groups have tiles of their own.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    before,
    captured,
    clone,
    create,
    defining_op,
    operations,
    parent,
    source_op,
    terminator,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import end_of, hand_on, write_if
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath, carry
from mlir_async_pipe.pipeliner.expand.write.idle_values import drop_idle_values
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.ring_slots import show_slot
from mlir_async_pipe.pipeliner.expand.write.role_threads import name_barriers
from mlir_async_pipe.pipeliner.expand.write.write_ring import RingLoop
from mlir_async_pipe.pipeliner.plan.ping_pong_plan import GROUPS, PingPong
from mlir_async_pipe.pipeliner.plan.ring_plan import RolePlan
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.barriers import write_named_barrier
from mlir_async_pipe.vocabulary.launch_ids import launch_id


class PingPongWriter:
    """Writes the loop around with both groups in it, slot and phase through it. `start` is where these
    threads begin."""

    def __init__(
        self, loop: RingLoop, roles: RolePlan, ping_pong: PingPong, thread: Value, start: Any
    ) -> None:
        self.loop, self.roles, self.ping_pong = loop, roles, ping_pong
        self.start, self.loc = start, loop.plan.loop.location
        block, self.build = roles.block, IntegerWriter(start, self.loc)
        build, i32 = self.build, ir.IntegerType.get_signless(32, self.loc.context)
        self.own_number = build.remainder(thread, block.threads)
        self.own_group = build.divide(thread, block.threads)
        # Handed around in the warp: so ptxas knows that all lanes have the same.
        narrow = build.cast("arith.index_cast", self.own_group, i32)
        self.group = _of_first_lane(narrow, start, self.loc)
        self.first, self.second = (
            build.compare("eq", self.group, number) for number in range(GROUPS)
        )
        self.order = build.add(self.group, block.order)
        self.other = build.subtract(build.constant(block.order + 1, i32), self.group)
        self.meeting = build.constant(block.computing, i32)

    def write(self) -> None:
        ping_pong, build, block = self.ping_pong, self.build, self.roles.block
        self._renumber()
        begins = write_if(self.second, (), None, self.start, self.loc)
        i32 = self.group.type
        self._arrive(build.constant(block.order, i32), before(end_of(begins.regions[0])))
        kind = ping_pong.around.regions[0].blocks[0].arguments[0].type
        state = [*Ring.start(build), self.first, build.constant(0, kind)]
        path = RingPath((ping_pong.around, self.loop.loop), self.write_tile, (0, 1, 2, 3))
        mine = carry([path], state)[2]
        around = source_op(mine)
        ends = write_if(mine, (), None, after(around), self.loc)
        self._meet(before(end_of(ends.regions[0])))
        self.loop.loop = drop_idle_values(self.loop.loop)
        drop_idle_values(around)

    # -- thread ids ----------------------------------------------------------------------------

    def _renumber(self) -> None:
        """Threads of the second group get the numbers that the input's threads have."""
        inside = {op: None for top in self.roles.moved for op in walk(top)}
        own, build = self.own_number, self.build
        mapping: dict[Value, Value] = {}
        before_roles: set[Operation] = set()
        waiting = [value for op in inside for value in op.operands]
        while waiting:
            value = waiting.pop()
            known, op = launch_id(value), defining_op(value)
            if known is not None:
                if known.kind == "thread" and known.axis == 0 and value not in mapping:
                    mapping[value] = _as_type(own, value.type, build)
            elif op is not None and op not in inside and op not in before_roles and is_pure(op):
                before_roles.add(op)
                waiting += captured(op)
        for op in operations(self.roles.block.kernel.regions[0].blocks[0]):
            if op in before_roles and any(value in mapping for value in captured(op)):
                copy = clone(op, mapping, self.start)
                mapping.update(zip(op.results, copy.results, strict=True))
        for op in inside:
            for number, value in enumerate(list(op.operands)):
                if value in mapping:
                    op.operands[number] = mapping[value]

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
        branch = write_if(mine, (slot, phase), (slot, phase), before(end), loc)
        ours, theirs = (end_of(region) for region in branch.regions)
        for op in ping_pong.own:
            op.move_before(ours)
        name_barriers(self.roles.block, self.group)
        own = operations(branch.regions[0].blocks[0])
        self._number_tile(around, count, own)
        beside = {buffer.root.identity for buffer in ping_pong.tiles}
        tiles = [buffer for buffer in self.loop.buffers if buffer.plan.root.identity in beside]
        show_slot(tiles, self.own_group, own)
        hand_on(theirs, self._after_others(slot, phase, before(theirs)))
        hand_on(ours, self.loop.write_uses(slot, phase))
        self._meet(before(self.loop.loop))
        self._arrive(self.other, after(self.loop.loop))
        build = IntegerWriter(before(end), loc)
        i1 = mine.type
        flipped = build.binary("arith.xori", mine, build.constant(1, i1))
        return [*branch.results, flipped, build.add(count, 1)]

    def _number_tile(self, around: Operation, count: Value, ops: list[Operation]) -> None:
        """lower + (2 (count div 2) + group) step, which is the number of a tile of the group."""
        variable = around.regions[0].blocks[0].arguments[0]
        using = [op for top in ops for op in walk(top) if variable in list(op.operands)]
        if not using:
            return
        build = IntegerWriter(before(ops[0]), self.loc)
        lower, _, step = list(around.operands)[:3]
        group = _as_type(self.own_group, count.type, build)
        pairs = build.multiply(build.divide(count, GROUPS), GROUPS)
        tile = build.add(lower, build.multiply(build.add(pairs, group), step))
        for op in using:
            for number, value in enumerate(list(op.operands)):
                if value == variable:
                    op.operands[number] = tile

    def _after_others(self, slot: Value, phase: Value, ip: Any) -> list[Value]:
        """Slot and phase after a tile of the others."""
        plan = self.loop.plan
        integers = Integers(self.loop.loop, plan.ahead, 0, plan.trip_count, ip)
        count = plan.trip_count
        trips = integers.as_index(integers.trips()) if count is None else integers.constant(count)
        return self.loop.ring.after(slot, phase, trips, integers)

    # -- order ---------------------------------------------------------------------------------

    def _meet(self, ip: Any) -> None:
        """Wait until the other group has issued its products."""
        write_named_barrier(self.order, self.meeting, ip, self.loc)

    def _arrive(self, number: Value, ip: Any) -> None:
        loc = self.loc
        create("nvvm.barrier.arrive", [number, self.meeting], ip=ip, loc=loc)


def _as_type(number: Value, kind: Any, build: IntegerWriter) -> Value:
    if number.type == kind:
        return number
    return build.cast("arith.index_cast", number, kind)


def _of_first_lane(number: Value, ip: Any, loc: Any) -> Value:
    context = number.type.context
    i32, i1 = (ir.IntegerType.get_signless(bits, context) for bits in (32, 1))
    build = IntegerWriter(ip, loc)
    operands = [number, build.constant(0, i32), build.constant(32, i32)]
    mode = {"mode": ir.Attribute.parse("#gpu<shuffle_mode idx>", context)}
    return create("gpu.shuffle", operands, [i32, i1], mode, ip=ip, loc=loc).results[0]
