"""Gives a block the threads of a producer, and lets the others be as many as they were.

known_block_size = 128                       256, nvvm.maxnreg = 136
gpu.launch_func … threads in (%c128, …)      %c256
gpu.barrier                         -->      nvvm.barrier id = 1 number_of_threads = 128
gpu.block_dim x                              %c128
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    attribute,
    before,
    constant,
    create,
    is_function,
    operations,
    set_integer,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.pipeliner.plan.role_block import RoleBlock
from mlir_async_pipe.vocabulary.barriers import write_named_barrier
from mlir_async_pipe.vocabulary.launch_ids import BLOCK_SIZES, first_size


def elect(ip: Any, loc: Any) -> Value:
    """An i1 that holds in one thread of a warp, which ptxas knows to be one."""
    i1 = ir.IntegerType.get_signless(1, loc.context)
    return create("nvvm.elect.sync", (), [i1], ip=ip, loc=loc).results[0]


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


def thread_along_x(kernel: Operation, build: IntegerWriter) -> Value:
    """The number of a thread in a block along x."""
    if not is_function(kernel):
        # Blocks, then threads, each along x, y, z.
        return kernel.regions[0].blocks[0].arguments[3]
    return build.thread_id("x")


def name_barriers(block: RoleBlock, group: Value | None = None) -> None:
    """Let those of the block after the roles part be met at by the threads of the input, each
    `group` at one of its own."""
    # One that has a number and a count is named already.
    for barrier in (op for op in block.barriers if len(op.operands) < 2):
        i32 = ir.IntegerType.get_signless(32, barrier.context)
        ip, loc = before(barrier), barrier.location
        threads = constant(block.threads, i32, ip, loc)
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
        # Handed around in the warp: so ptxas knows that all lanes have the same.
        self.group = _of_first_lane(build.cast("arith.index_cast", group, i32), build.ip, loc)
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


def _of_first_lane(number: Value, ip: Any, loc: Any) -> Value:
    context = number.type.context
    i32, i1 = (ir.IntegerType.get_signless(bits, context) for bits in (32, 1))
    build = IntegerWriter(ip, loc)
    operands = [number, build.constant(0, i32), build.constant(32, i32)]
    mode = {"mode": ir.Attribute.parse("#gpu<shuffle_mode idx>", context)}
    return create("gpu.shuffle", operands, [i32, i1], mode, ip=ip, loc=loc).results[0]
