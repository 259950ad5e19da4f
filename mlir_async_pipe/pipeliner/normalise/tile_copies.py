"""Writes a copy of a tile as loads and stores of its rows, which can become asynchronous.

    memref.copy %src, %tile              -->    %v = vector.load %src[%c0, %c0] : vector<8xf16>
        : memref<2x8xf16, …>                    vector.store %v, %tile[%c0, %c0]
                                                … the same for row 1

    memref.copy %src, %tile              -->    scf.for %r = %c0 to %c64 step %c1 {
        : memref<64x32xf16, …>                    %v = vector.load %src[%r, %c0] : vector<32xf16>
                                                  vector.store %v, %tile[%r, %c0] }

`linalg.copy` between memrefs is the same. Only from global to workgroup memory, of static shapes
with rows of neighbours: what each thread copies. A row of more than `MOST_BYTES` is cut into equal
pieces; more than `MOST_PIECES` are loops. Any other `linalg.copy` of memrefs that are alike becomes
a `memref.copy`, whose accesses are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    before,
    constant,
    create,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import write_for
from mlir_async_pipe.facts.loops.annotations import counted_loops
from mlir_async_pipe.facts.values.alignment import element_bytes, static_strides
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session

COPIES = ("memref.copy", "linalg.copy")
MOST_PIECES = 32  # of 16 bytes they are 128 registers: more cannot run ahead through those
MOST_BYTES = 64
WIDEST_COPY = 16


def write_tile_copies(loop: Operation) -> None:
    """Rewrite the copies of tiles in the body of a loop."""
    for op in walk_named(loop, COPIES.__contains__):
        if len(op.operands) != 2 or len(op.results) or not _alike(*op.operands):
            continue
        if _is_tile(*op.operands):
            _write_pieces(op)
        elif op.name == "linalg.copy":
            create("memref.copy", op.operands, ip=before(op), loc=op.location)
        else:
            continue
        op.erase()


def _alike(source: Value, target: Value) -> bool:
    kind, other = as_kind(ir.MemRefType, source.type), as_kind(ir.MemRefType, target.type)
    if kind is None or other is None:
        return False
    return list(kind.shape) == list(other.shape) and kind.element_type == other.element_type


def _is_tile(source: Value, target: Value) -> bool:
    shape = list(ir.MemRefType(source.type).shape)
    spaces = root_of(source).space, root_of(target).space
    if spaces != ("global", "workgroup") or not shape or any(size <= 0 for size in shape):
        return False
    strides = static_strides(source), static_strides(target)
    return all(known and known[-1] == 1 for known in strides) and element_bytes(source) > 0


def _write_pieces(copy: Operation) -> None:
    source, target = copy.operands[0], copy.operands[1]
    kind = ir.MemRefType(source.type)
    place = copy.location
    index = ir.IndexType.get(copy.context)
    *rows, columns = list(kind.shape)
    length = _piece(columns, element_bytes(source))
    row = ir.VectorType.get([length], kind.element_type, loc=place)
    extents = [(size, 1) for size in rows] + [(columns, length)]
    written = _unrolled if prod(rows) * (columns // length) <= MOST_PIECES else _looped
    for ip, indices in written(extents, index, before(copy), place):
        loaded = create("vector.load", [source, *indices], [row], ip=ip, loc=place)
        create("vector.store", [loaded.results[0], target, *indices], ip=ip, loc=place)


def _piece(columns: int, size: int) -> int:
    """The elements of the equal pieces that a row is cut into: the whole row, or the longest ones
    of at most `MOST_BYTES`, if possible of whole widest copies, so that each stays aligned as the row is.
    """
    if columns * size <= MOST_BYTES:
        return columns
    lengths = [n for n in range(1, MOST_BYTES // size + 1) if columns % n == 0]
    return max(lengths, key=lambda n: (n * size % WIDEST_COPY == 0, n), default=1)


def _unrolled(
    extents: list[tuple[int, int]], index: Any, ip: Any, place: Any
) -> Iterator[tuple[Any, list[Value]]]:
    """Where each piece is written, and its first element."""
    for numbers in product(*(range(0, size, step) for size, step in extents)):
        yield ip, [constant(number, index, ip, place) for number in numbers]


def _looped(
    extents: list[tuple[int, int]], index: Any, ip: Any, place: Any
) -> Iterator[tuple[Any, list[Value]]]:
    """One place, inside of a loop for each dimension of several pieces."""
    indices = []
    for size, step in extents:
        bounds = [constant(number, index, ip, place) for number in (0, size, step)]
        if size == step:
            indices.append(bounds[0])
            continue
        block = write_for(bounds, [], ip, place).regions[0].blocks[0]
        indices.append(block.arguments[0])
        ip = before(create("scf.yield", ip=ir.InsertionPoint(block), loc=place))
    yield ip, indices


@register("async-pipe-normalise-tile-copies", "write copies of tiles as loads and stores of rows")
def run(module: Any, options: NoOptions, session: Session) -> None:
    for loop in counted_loops(module):
        write_tile_copies(loop)
