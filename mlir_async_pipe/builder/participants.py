"""The kernel around the current insertion point: its first block, its threads and their numbers.

known_block_size = array<i32: 16, 16, 1>      256 threads, %thread_id x + 16 * %thread_id y
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, ancestors, is_function, operations
from mlir_async_pipe.builder.caller import here, misuse, point
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.vocabulary.launch_ids import block_size, constant_sizes

BLOCK_SIZE = "known_block_size"
Threads = int | tuple[int, ...]


@dataclass(frozen=True)
class Participants:
    """Those who copy a tile together: how many, and the number of the one that runs."""

    count: int
    number: Value | int


def kernel() -> Operation:
    """The function or gpu.launch around the current insertion point."""
    owner = point().operation
    for op in (owner, *ancestors(owner)):
        if op.name == "gpu.launch" or is_function(op):
            return op
    raise misuse("a pipeline stands in a function or a gpu.launch", code="no-insertion-point")


def entry(op: Operation) -> Any:
    """The insertion point before everything that stands in a kernel."""
    block = op.regions[0].blocks[0]
    ops = operations(block)
    return ir.InsertionPoint(ops[0]) if ops else ir.InsertionPoint(block)


def threads_of(op: Operation, given: Threads | None) -> tuple[int, ...]:
    """The threads of a block in x, y, z: as the kernel says, else as they are given, which it
    then says too, for proofs need it.

    Raises UsageError (threads-unknown) where nobody says it, (threads-differ) where both do.
    """
    known = constant_sizes(op, "block") if op.name == "gpu.launch" else block_size(op)
    asked = (given,) if isinstance(given, int) else given
    if known is None and asked is None:
        if op.name == "func.func":
            return (1, 1, 1)
        raise misuse(
            "how many threads copy a tile is not known",
            code="threads-unknown",
            advice="threads=128, or known_block_size on the kernel",
        )
    if asked is None:
        assert known is not None
        return known
    x, y, z = [*asked, 1, 1][:3]
    if known is not None and (x, y, z) != known:
        raise misuse(f"{asked} threads, in a kernel of blocks of {known}", code="threads-differ")
    if known is None and op.name == "gpu.func":
        op.attributes[BLOCK_SIZE] = ir.DenseI32ArrayAttr.get([x, y, z], op.context)
    return x, y, z


def writer() -> IntegerWriter:
    """Writes integer arithmetic at the current insertion point."""
    return IntegerWriter(ir.InsertionPoint.current, here())
