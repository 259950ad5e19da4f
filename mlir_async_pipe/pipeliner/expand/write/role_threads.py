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
    attribute,
    before,
    constant,
    create,
    is_function,
    operations,
    set_integer,
)
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
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
    for barrier in block.barriers:
        _name_barrier(barrier, block, group)


def _name_barrier(barrier: Operation, block: RoleBlock, group: Value | None) -> None:
    """The threads of the input meet; one that has a number and a count is named already."""
    i32 = ir.IntegerType.get_signless(32, barrier.context)
    ip, loc = before(barrier), barrier.location
    if len(barrier.operands) > 1:
        return
    threads = constant(block.threads, i32, ip, loc)
    number = barrier.operands[0] if len(barrier.operands) else constant(block.barrier, i32, ip, loc)
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
