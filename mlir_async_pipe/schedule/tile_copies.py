"""Writes a copy of a small tile as loads and stores of its rows, which can become asynchronous.

    memref.copy %src, %tile              -->    %v = vector.load %src[%c0, %c0] : vector<8xf16>
        : memref<2x8xf16, …>                    vector.store %v, %tile[%c0, %c0]
                                                … the same for row 1

`linalg.copy` between memrefs is the same. Only from global to workgroup memory, of static shapes
with rows of neighbours, at most `MOST_ROWS` rows of at most `MOST_BYTES`: what one thread copies of a
tile. A larger one stays, and so does one between other spaces.
"""

from __future__ import annotations

from itertools import product
from math import prod

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, before, constant, create, walk
from mlir_async_pipe.values.alignment import element_bytes, static_strides
from mlir_async_pipe.values.memory_roots import root_of

COPIES = ("memref.copy", "linalg.copy")
MOST_ROWS = 16
MOST_BYTES = 64


def write_tile_copies(loop: Operation) -> None:
    """Rewrite the small copies in the body of a loop."""
    for op in [inner for inner in walk(loop) if inner.name in COPIES]:
        if len(op.operands) == 2 and len(op.results) == 0 and _is_small_tile(*op.operands):
            _write_rows(op)


def _is_small_tile(source: Value, target: Value) -> bool:
    try:
        kind, other = ir.MemRefType(source.type), ir.MemRefType(target.type)
    except ValueError:
        return False
    shape = list(kind.shape)
    spaces = root_of(source).space, root_of(target).space
    if spaces != ("global", "workgroup") or not shape or any(size <= 0 for size in shape):
        return False
    if shape != list(other.shape) or kind.element_type != other.element_type:
        return False
    strides = static_strides(source), static_strides(target)
    if any(not known or known[-1] != 1 for known in strides):
        return False
    row_bytes = shape[-1] * element_bytes(source)
    return prod(shape[:-1]) <= MOST_ROWS and 0 < row_bytes <= MOST_BYTES


def _write_rows(copy: Operation) -> None:
    source, target = copy.operands[0], copy.operands[1]
    shape = list(ir.MemRefType(source.type).shape)
    row = ir.VectorType.get([shape[-1]], ir.MemRefType(source.type).element_type, loc=copy.location)
    index = ir.IndexType.get(copy.context)
    at, place = before(copy), copy.location
    for numbers in product(*(range(size) for size in shape[:-1])):
        indices = [constant(number, index, at, place) for number in (*numbers, 0)]
        loaded = create("vector.load", [source, *indices], [row], ip=at, loc=place)
        create("vector.store", [loaded.results[0], target, *indices], ip=at, loc=place)
    copy.erase()
