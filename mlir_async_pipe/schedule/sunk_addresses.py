"""Computes the addresses of tiles in the loop that copies them, where each iteration has its slot.

    %p = llvm.inttoptr (pointer of %tile)          scf.for … {
    scf.for … {                              -->     %p = llvm.inttoptr (pointer of %tile)
      nvvm.cp.async.bulk… %p                         nvvm.cp.async.bulk… %p
    }                                              }

Clean-ups take such addresses out of loops, since all iterations share one tile. What a conversion
made of a memref's descriptor becomes its address, too.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    ancestors,
    before,
    clone,
    defining_op,
    enclosing,
    is_used,
    operations,
    source_op,
    walk,
)
from mlir_async_pipe.loops.transactions import has_transactions, operand, use_of
from mlir_async_pipe.values.integer_writer import IntegerWriter
from mlir_async_pipe.values.memory_roots import memref_behind, root_of
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS


def sink_addresses(loop: Operation) -> None:
    """Let the loop compute the addresses of the tiles that its tensor copies fill."""
    function = enclosing(loop, FUNCTION_OPS) if has_transactions(loop) else None
    if function is None:
        return
    filled = [operand(op, "destination") for op in walk(loop) if use_of(op) == "copy"]
    tiles = {root_of(tile).identity for tile in filled if tile is not None}
    first = operations(loop.regions[0].blocks[0])[0]
    sunk: dict[Value, Value] = {}
    for op in list(walk(loop)):
        for number, value in enumerate(op.operands if op != loop else ()):
            if _is_outside(value, loop) and _is_address(value, tiles):
                op.operands[number] = _sunk(value, tiles, sunk, first)
    for op in list(walk(loop)):
        if op.name == "llvm.extractvalue" and _is_address(op.results[0], tiles):
            _write_address(op)
    for op in reversed(list(walk(function))):
        if len(op.results) and not is_used(op.results[0]) and _is_address(op.results[0], tiles):
            op.erase()


def _is_outside(value: Value, loop: Operation) -> bool:
    made = defining_op(value)
    return made is not None and loop not in ancestors(made)


def _is_address(value: Value, tiles: set[Any]) -> bool:
    """Whether a pointer, a descriptor or a number is made of the address of a tile."""
    op = defining_op(value)
    if op is None or len(op.results) != 1 or len(op.regions) or _is_memref(value):
        return False
    if op.name in (*ADDRESS_OPS, *CAST_OPS) and _is_memref(op.operands[0]):
        return root_of(op.operands[0]).identity in tiles
    return is_pure(op) and any(_is_address(source, tiles) for source in op.operands)


def _is_memref(value: Value) -> bool:
    return str(value.type).startswith("memref<")


def _sunk(value: Value, tiles: set[Any], sunk: dict[Value, Value], first: Operation) -> Value:
    """The value, computed before `first` again."""
    if value not in sunk:
        op = source_op(value)
        for source in op.operands:
            if _is_address(source, tiles):
                _sunk(source, tiles, sunk, first)
        sunk[value] = clone(op, dict(sunk), before(first)).results[0]
    return sunk[value]


def _write_address(op: Operation) -> None:
    """A pointer to the allocation of a memref, by the memref's address as a number."""
    memory = memref_behind(op)
    if memory is None:
        return
    write = IntegerWriter(before(op), op.location)
    at = write.cast("memref.extract_aligned_pointer_as_index", memory, write.index)
    number = write.cast("arith.index_cast", at, ir.IntegerType.get_signless(64, op.context))
    pointer = write.cast("llvm.inttoptr", number, op.results[0].type)
    op.results[0].replace_all_uses_with(pointer)
    op.erase()
