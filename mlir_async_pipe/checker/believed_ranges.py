"""What `overflow<nsw>` says of block ids: a kernel that always multiplies one has few blocks.

    %b = arith.index_cast %block_id_x : index to i32
    %s = arith.muli %b, %c4 overflow<nsw> : i32       block_id x <= (2^31 - 1) / 4
    %h = arith.divui %b, %c2 : i32
    %r = arith.muli %h, %c4 overflow<nsw> : i32       block_id x / 2 <= (2^31 - 1) / 4

Only ops of the first block count, which every thread runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    defining_op,
)
from mlir_async_pipe.checker.forms import Atom, AtomRange
from mlir_async_pipe.checker.grid_blocks import GridBlocks, block_axis
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.checker.thread_grid import Threads
from mlir_async_pipe.checker.thread_ids import argument_form, id_form
from mlir_async_pipe.facts.values.domains import typed
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.vocabulary.launch_ids import LAUNCH_SYMBOLS, Kind
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, is_operator


def believed(flow: Flow, threads: Threads, grid: GridBlocks) -> dict[Atom, AtomRange]:
    """The ranges of what a launch gives, of block ids those whose products with constants do not
    overflow."""
    facts = launch_facts(grid)
    for step in flow.blocks[0].steps:
        if not isinstance(step, Run) or not is_operator(step.name, "mul"):
            continue
        product, factor = typed(step.op), _constant(step.op)
        if not product.nsw or product.bits < 32 or factor is None or factor < 1:
            continue
        quotient = ((1 << (product.bits - 1)) - 1) // factor
        for atom, divisor in _block_ids(step.op, threads):
            most = quotient * divisor + divisor - 1
            known = facts[atom]
            if known.high is None or most < known.high:
                facts[atom] = AtomRange(0, most)
    return facts


def _constant(op: Operation) -> int | None:
    constants = [constant_value(operand) for operand in op.operands]
    return next((constant for constant in constants if constant is not None), None)


def _block_ids(op: Operation, threads: Threads) -> Iterator[tuple[Atom, int]]:
    """The block ids that an op reads through casts and divisions by a constant, which is given."""
    for operand in op.operands:
        source: Value = operand
        above = defining_op(source)
        divisor = 1
        while above is not None and (found := _divided_by(above)) is not None:
            divisor *= found
            source = above.operands[0]
            above = defining_op(source)
        form = argument_form(source, threads) if above is None else id_form(above, threads)
        if form is None or form.constant or len(form.terms) != 1 or divisor < 1:
            continue
        ((atom, _),) = form.terms
        if block_axis(atom) is not None:
            yield atom, divisor


def _divided_by(op: Operation) -> int | None:
    """1 for a cast that keeps the 31 bits of an id, the constant of a division, 0 for another
    divisor; None for other ops."""
    row = OPERATORS.get(op.name)
    if row is None or row.method not in ("cast", "div") or row.rounding == "up":
        return None
    if row.method == "div":
        return max(constant_value(op.operands[1]) or 0, 0)
    return 1 if bits_of(op.results[0].type) >= 32 else None


# What hardware allows of the sizes of a launch, and of a kernel's arguments of type index.
#
#     gpu.block_dim x         1 … 1024 threads a block
#     gpu.grid_dim x          1 … 2^31 - 1 blocks, gpu.block_id from 0; of 16 blocks 16, and 0 … 15
#     func.func @f(%n: index)     a size: 0 or more
#
# CUDA C++ Programming Guide, compute capabilities; HIP's limits are the same in x, smaller in y, z.

SIZE = AtomRange(0, None)

_LARGEST_GRID = (1 << 31) - 1
_BLOCK_ID = AtomRange(0, _LARGEST_GRID - 1)
_GRID_SIZE = AtomRange(1, _LARGEST_GRID)
_BLOCK_SIZE = AtomRange(1, 1024)

_OF_KINDS: dict[Kind, AtomRange] = {
    "block": _BLOCK_ID,
    "grid_size": _GRID_SIZE,
    "block_size": _BLOCK_SIZE,
}
# The symbols of `thread_ids` for these.
_LAUNCH_FACTS: Mapping[Atom, AtomRange] = {
    Atom("symbol", (LAUNCH_SYMBOLS[kind], axis)): known
    for kind, known in _OF_KINDS.items()
    for axis in range(3)
}


def launch_facts(grid: GridBlocks) -> dict[Atom, AtomRange]:
    """The same, and what the size of a grid says where it is stated."""
    found = dict(_LAUNCH_FACTS)
    for axis, size in enumerate(grid.sizes):
        if size is not None and grid.stated:
            found[Atom("symbol", (LAUNCH_SYMBOLS["block"], axis))] = AtomRange(0, size - 1)
            found[Atom("symbol", (LAUNCH_SYMBOLS["grid_size"], axis))] = AtomRange(size, size)
    return found
