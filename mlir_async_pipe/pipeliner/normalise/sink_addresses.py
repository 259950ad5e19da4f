"""Computes the addresses of tiles in the loop that copies or stores them, where each iteration has its
slot.

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
    Operation,
    Value,
    ancestors,
    before,
    clone,
    defining_op,
    is_used,
    operations,
    source_op,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import computed, post_order
from mlir_async_pipe.facts.loops.annotations import requested_loops
from mlir_async_pipe.facts.loops.transactions import has_transactions, operand
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.memory_roots import root_of, viewed_memref
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import is_pure, use_of
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    ADDRESS_OPS,
    MEMBER_TAKEN,
    POINTER_OF_ADDRESS,
)


def sink_addresses(loop: Operation) -> None:
    """Let the loop compute the addresses of the tiles that its tensor copies fill."""
    if has_transactions(loop):
        filled = [operand(op, "destination") for op in walk(loop) if use_of(op) == "copy"]
        sink_addresses_of([tile for tile in filled if tile is not None], loop)


def sink_addresses_of(memory: list[Value], loop: Operation) -> None:
    """Let the loop compute the addresses of the buffers that these are views of, or pointers to."""
    tiles = {root_of(tile).identity for tile in memory}
    first = operations(loop.regions[0].blocks[0])[0]
    addresses, sunk = _Addresses(tiles), dict[Value, Value]()
    for op in list(walk(loop)):
        for number, value in enumerate(op.operands if op != loop else ()):
            if _is_outside(value, loop) and value in addresses:
                op.operands[number] = _sunk(value, addresses, sunk, first)
    for op in [op for op in walk(loop) if op.name == MEMBER_TAKEN]:
        if op.results[0] in addresses:
            _write_address(op)
    addresses = _Addresses(tiles)
    made = [op for op in (*map(source_op, sunk), *walk(loop)) if len(op.results)]
    for op in reversed([op for op in made if op.results[0] in addresses]):
        if not is_used(op.results[0]):
            op.erase()


def _is_outside(value: Value, loop: Operation) -> bool:
    made = defining_op(value)
    return made is not None and loop not in ancestors(made)


class _Addresses:
    """What is made of the addresses of tiles; each value is looked at once, so nothing may be erased in between."""

    def __init__(self, tiles: set[Any]) -> None:
        self._tiles = tiles
        self._known: dict[Value, bool] = {}

    def __contains__(self, value: Value) -> bool:
        return computed(value, self._known, _sources, self._is_of_tile)

    def _is_of_tile(self, value: Value) -> bool:
        memory = _memref_of(value)
        if memory is None:
            return any(self._known[source] for source in _sources(value))
        return root_of(memory).identity in self._tiles


def _sources(value: Value) -> list[Value]:
    """The numbers and pointers that one is computed of."""
    op = defining_op(value)
    if op is None or len(op.results) != 1 or len(op.regions) or not is_pure(op):
        return []
    return [] if _is_memref(value) or _memref_of(value) is not None else list(op.operands)


def _memref_of(value: Value) -> Value | None:
    """The memref whose address a value is."""
    op = defining_op(value)
    if op is None or op.name not in (*ADDRESS_OPS, *CAST_OPS) or len(op.results) != 1:
        return None
    return op.operands[0] if _is_memref(op.operands[0]) and not _is_memref(value) else None


def _is_memref(value: Value) -> bool:
    return str(value.type).startswith("memref<")


def _sunk(value: Value, addresses: _Addresses, sunk: dict[Value, Value], first: Operation) -> Value:
    """The value, computed before `first` again."""

    def sources(made: Value) -> list[Value]:
        wanted = source_op(made).operands if made not in sunk else ()
        return [source for source in wanted if source in addresses]

    for each in post_order([value], sources):
        if each not in sunk:
            op = source_op(each)
            operands = {source: sunk[source] for source in op.operands if source in sunk}
            sunk[each] = clone(op, operands, before(first)).results[0]
    return sunk[value]


def _write_address(op: Operation) -> None:
    """A pointer to the allocation of a memref, by the memref's address as a number."""
    memory = viewed_memref(op)
    if memory is None:
        return
    write = IntegerWriter.before(op)
    at = write.cast(ADDRESS_OF_MEMREF, memory, write.index)
    number = write.cast("arith.index_cast", at, ir.IntegerType.get_signless(64, op.context))
    pointer = write.cast(POINTER_OF_ADDRESS, number, op.results[0].type)
    op.results[0].replace_all_uses_with(pointer)
    op.erase()


@register(
    "async-pipe-normalise-addresses", "compute the addresses of tiles in the loop that fills them"
)
def run(module: Any, options: NoOptions, session: Session) -> None:
    for loop in requested_loops(module):
        sink_addresses(loop)
