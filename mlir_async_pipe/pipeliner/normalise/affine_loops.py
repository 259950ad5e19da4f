"""Pass `async-pipe-normalise-affine`: writes the loops, loads and stores of affine in a loop with `num_stages` as those of scf and memref.

    affine.for %i = 0 to 32 {                      scf.for %i = %c0 to %c32 step %c1 {
      %v = affine.load %A[%i * 4]                    %x = affine.apply (d0) -> (d0 * 4) (%i)
      affine.store %v, %tile[%i]         -->         %v = memref.load %A[%x]
    } {num_stages = 3}                               memref.store %v, %tile[%i]
                                                   } {num_stages = 3}

So their accesses are known by element, and copies among them become asynchronous. An `affine.apply` that
adds parts with divisions or remainders is a sum of such maps, each before the inner loops that do not
change it: `(t, j) -> (t floordiv 4 + j * 32)` moves by 32 with %j, and by nothing else there. A loop with other
ops that ask for a counter of affine (`affine.if`, `affine.parallel`) stays, and so does one whose
statements are numbered, since it would have others. Accesses around the loop are written anew too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    OpWriter,
    Value,
    ancestors,
    as_kind,
    attributes_of,
    before,
    constant,
    create,
    enclosing,
    source_op,
    terminator,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import end_with_yield, write_for
from mlir_async_pipe.facts.loops.annotations import NUM_STAGES, counted_loops
from mlir_async_pipe.facts.values.alignment import element_bytes, static_strides
from mlir_async_pipe.facts.values.domains import OperandPlace, results_of_map
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import is_pure

LOOPS = ("scf.for", "affine.for")
# How many operands stand before those of the map: the memory, and the value that is stored.
ACCESSES = {
    "affine.load": ("memref.load", 1),
    "affine.store": ("memref.store", 2),
    "affine.vector_load": ("vector.load", 1),
    "affine.vector_store": ("vector.store", 2),
}
OF_A_LOOP = ("lowerBoundMap", "upperBoundMap", "step", "operandSegmentSizes")


def write_affine_loops(module: Any) -> None:
    """Rewrite the annotated loops of a module, and the accesses in their functions."""
    loops = walk_named(module, LOOPS.__contains__)
    asked = [op for op in loops if NUM_STAGES in op.attributes and _can_be_written(op)]
    inside = {op: None for loop in asked for op in walk(loop) if op.name == "affine.for"}
    for function in dict.fromkeys(enclosing(loop, FUNCTION_OPS) or loop for loop in asked):
        for op in walk_named(function, ACCESSES.__contains__):
            _write_access(op)
    # Inner loops first: what is in a loop that is written anew moves along.
    for op in reversed(inside):
        _write_loop(op)
    for loop in walk_named(module, "scf.for".__eq__):
        for op in walk_named(loop, "affine.apply".__eq__) if NUM_STAGES in loop.attributes else ():
            _write_sum(op, loop)


def _write_sum(op: Operation, outer: Operation) -> None:
    """A map that adds several parts, one of which rounds, as a sum of maps."""
    whole = ir.AffineMapAttr(op.attributes["map"]).value
    parts = _summands(whole.results[0])
    rounding = [_ROUNDS.search(str(part)) is not None for part in parts]
    if len(parts) < 2 or not any(rounding):
        return
    operands, write = list(op.operands), IntegerWriter.before(op)
    pieces = []
    for part, rounds in zip(parts, rounding, strict=True):
        numbers = [int(n) + whole.n_dims * (s == "s") for s, n in _OPERAND.findall(str(part))]
        used = [operands[number] for number in numbers]
        # What the part does not read may be anything: not what an inner loop changes.
        given = [value if value in used or not used else used[0] for value in operands]
        one = ir.AffineMap.get(whole.n_dims, whole.n_symbols, [part], op.context)
        place = OpWriter(before(_outermost(op, outer, used) if rounds else op), op.location)
        pieces.append(_apply(place, "affine.apply", given, ir.AffineMapAttr.get(one)))
    total = reduce(partial(write.binary, "arith.addi"), pieces)
    op.results[0].replace_all_uses_with(total)
    op.erase()


def _apply(write: OpWriter, name: str, operands: Sequence[Value], affine_map: Any) -> Value:
    """The value of a map, or the largest or smallest one."""
    kind = ir.IndexType.get(write.location.context)
    return write.make(name, operands, kind, {"map": affine_map})


# What rounds in the text of an affine expression, and the dimensions and symbols that it reads.
_ROUNDS = re.compile(r"floordiv|ceildiv|mod")
_OPERAND = re.compile(r"\b([ds])(\d+)\b")


def _summands(expression: Any) -> list[Any]:
    if not isinstance(expression, ir.AffineAddExpr):
        return [expression]
    both = ir.AffineAddExpr(expression)
    return _summands(both.lhs) + _summands(both.rhs)


def _outermost(op: Operation, outer: Operation, used: Sequence[Value]) -> Operation:
    """The outermost loop inside of `outer`, around an op, in which no value of `used` is made; else the op itself."""
    sources = [source_op(value) for value in used]
    inside = {around for source in sources for around in (source, *ancestors(source))}
    while (around := op.parent.operation) != outer and around.name == "scf.for":
        if around in inside:
            return op
        op = around
    return op


def _can_be_written(loop: Operation) -> bool:
    """Whether what else is affine in it, if anything, takes any index."""
    written = (*ACCESSES, "affine.for", "affine.yield")
    affine = (op for op in walk(loop) if op.name.startswith("affine."))
    return all(op.name in written or is_pure(op) for op in affine)


def _write_access(op: Operation) -> None:
    name, kept = ACCESSES[op.name]
    operands = list(op.operands)
    indices = _values(op, "map", operands[kept:])
    kinds = [result.type for result in op.results]
    _replace(op, OpWriter.before(op).op(name, [*operands[:kept], *indices], kinds))


def _write_loop(op: Operation) -> None:
    lower, upper, _ = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    operands = list(op.operands)
    initial = operands[lower + upper :]
    bounds = [
        _bound(op, "lowerBoundMap", "affine.max", operands[:lower]),
        _bound(op, "upperBoundMap", "affine.min", operands[lower : lower + upper]),
        _index(op, ir.IntegerAttr(op.attributes["step"]).value),
    ]
    kinds = [result.type for result in op.results]
    kept = {name: value for name, value in attributes_of(op).items() if name not in OF_A_LOOP}
    ip, loc = before(op), op.location
    made = create("scf.for", [*bounds, *initial], kinds, kept, regions=1, ip=ip, loc=loc)
    op.regions[0].blocks[0].append_to(made.regions[0])
    block = made.regions[0].blocks[0]
    end_with_yield(block, list(terminator(block).operands))
    _replace(op, made)


def _bound(op: Operation, name: str, several: str, operands: Sequence[Value]) -> Value:
    """The largest lower or the smallest upper bound."""
    if len(results_of_map(op.attributes[name])) == 1:
        return _values(op, name, operands)[0]
    return _apply(OpWriter.before(op), several, operands, op.attributes[name])


def _values(op: Operation, name: str, operands: Sequence[Value]) -> list[Value]:
    """The results of a map of `op`, before it."""
    affine_map = ir.AffineMapAttr(op.attributes[name]).value
    made = []
    for number, result in enumerate(results_of_map(op.attributes[name])):
        if isinstance(result, int):
            made.append(_index(op, result))
        elif isinstance(result, OperandPlace):
            made.append(operands[result.operand])
        else:
            one = ir.AffineMapAttr.get(affine_map.get_submap([number]))
            made.append(_apply(OpWriter.before(op), "affine.apply", operands, one))
    return made


def _index(op: Operation, number: int) -> Value:
    return constant(number, ir.IndexType.get(op.context), before(op), op.location)


def _replace(op: Operation, made: Operation) -> None:
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


@register("async-pipe-normalise-affine", "write annotated loops of affine as scf.for")
def run(module: Any, options: NoOptions, session: Session) -> None:
    write_affine_loops(module)


COPIES = ("memref.copy", "linalg.copy")
MOST_PIECES = 32  # of 16 bytes they are 128 registers: more cannot run_copies ahead through those
MOST_BYTES = 64
WIDEST_COPY = 16


def write_tile_copies(loop: Operation) -> None:
    for op in walk_named(loop, COPIES.__contains__):
        if len(op.operands) != 2 or len(op.results) or not _alike(*op.operands):
            continue
        if _is_tile(*op.operands):
            _write_pieces(op)
            op.erase()
        elif op.name == "linalg.copy":
            OpWriter.before(op).op("memref.copy", op.operands)
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
    if prod(rows) * (columns // length) <= MOST_PIECES:
        for numbers in product(*(range(0, size, step) for size, step in extents)):
            indices = [constant(number, index, before(copy), place) for number in numbers]
            _copy_row(source, target, indices, row, OpWriter.before(copy))
        return
    # A loop for each dimension of several pieces.
    ip, indices = before(copy), []
    for size, step in extents:
        bounds = [constant(number, index, ip, place) for number in (0, size, step)]
        if size == step:
            indices.append(bounds[0])
            continue
        block = write_for(bounds, [], ip, place).regions[0].blocks[0]
        indices.append(block.arguments[0])
        ip = before(create("scf.yield", ip=ir.InsertionPoint(block), loc=place))
    _copy_row(source, target, indices, row, OpWriter(ip, place))


def _copy_row(
    source: Value, target: Value, indices: Sequence[Value], row: Any, write: OpWriter
) -> None:
    loaded = write.make("vector.load", [source, *indices], row)
    write.op("vector.store", [loaded, target, *indices])


def _piece(columns: int, size: int) -> int:
    """The elements of the equal pieces that a row is cut into: the whole row, or the longest ones of at most
    `MOST_BYTES`, if possible of whole widest copies, so that each stays aligned as the row is."""
    if columns * size <= MOST_BYTES:
        return columns
    lengths = [n for n in range(1, MOST_BYTES // size + 1) if columns % n == 0]
    return max(lengths, key=lambda n: (n * size % WIDEST_COPY == 0, n), default=1)


@register("async-pipe-normalise-tile-copies", "write copies of tiles as loads and stores of rows")
def run_copies(module: Any, options: NoOptions, session: Session) -> None:
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
    for loop in counted_loops(module):
        write_tile_copies(loop)
