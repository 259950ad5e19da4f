"""The synchronous rows of the vocabulary: what plain memory ops read and write.

Ops without any row are pure if `pure_ops` says so, else *opaque*: they may touch any memory. Never
guess: an op that is not listed is opaque.

An `extent` says how many elements an access covers. Each returns the number of elements in the trailing dimensions, counted from the subscripts
on: (8,) is 8 neighbours in the last dimension, (4, 8) a box of 4 rows and 8 columns; () is
the single element; None is "not known, take the whole buffer".

An op of a whole wave that moves one tile names it in every lane. Its reads count in each of them;
its writes are those of lane 0, since the lanes share them out and none overwrites another's. Where the
sums of a warpgroup go the dialect's lowering says (NVGPUToNVVM): by the thread id x in the block, so that
each warpgroup has 64 rows after those of the one before.

Rows without accesses touch no memory, yet have a place in the program: a hint for the scheduler
that stands between two loads means something there only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    CONSTANT_OPS,
    as_kind,
    constant_value,
    defining_op,
    integer_attribute,
    is_function,
    parent,
    source_op,
)
from mlir_async_pipe.vocabulary.memory_layout import (
    TypeLayout,
    element_bytes,
    if_known,
    layout_of,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.memory_names import MEMORY_NAMES, RESOURCE_ACCESSES
from mlir_async_pipe.vocabulary.rows import (
    AccessKind,
    AccessRule,
    Extent,
    Row,
    Share,
    acquire_release,
    attribute_order,
    relaxed,
    volatile_order,
)

Certain = Callable[[Any], bool]


def element(op: Any) -> tuple[int, ...]:
    """The single element at the subscripts."""
    return ()


def whole(op: Any) -> None:
    """The op does not bound what it touches."""
    return None


def neighbours(size: str | int) -> Extent:
    """As many neighbours, or bytes after a pointer, as a constant or the integer attribute `size` says."""

    def extent(op: Any) -> tuple[int, ...] | None:
        count = size if isinstance(size, int) else integer_attribute(op, size)
        return None if count is None else (count,)

    return extent


bytes_of = neighbours


def _elements(vector: Any, memory: Any) -> tuple[int, ...]:
    """The elements that a vector is made of: one, where the memref holds such vectors."""
    return () if ir.MemRefType(memory).element_type == vector else shape_of(vector)


def transfer_type(op: Any) -> tuple[int, ...] | None:
    """The shape of the type in `transferType` (elements a lane moves)."""
    return shape_of(ir.TypeAttr(op.attributes["transferType"]).value)


def bytes_at(size: str | int) -> Extent:
    """The same, where an immediate `offset` may move both ends of a copy (LLVM, AMDGPU intrinsics):
    the copy is then somewhere in their memory."""
    extent = bytes_of(size)
    return lambda op: None if integer_attribute(op, "offset") else extent(op)


def bytes_given(offset: int, size: int | None = None) -> Extent:
    """The same of a call whose operand `offset` is the immediate; without a `size` in bytes operand 2
    is that."""

    def extent(op: Any) -> tuple[int, ...] | None:
        count = constant_value(op.operands[2]) if size is None else size
        moved = constant_value(op.operands[offset])
        return None if count is None or moved != 0 else (count,)

    return extent


def _layout(op: Any, number: int | None) -> TypeLayout | None:
    """The layout of operand `number`, or of result 0."""
    value = op.results[0] if number is None else op.operands[number]
    return if_known(layout_of, value.type)


def bytes_held(number: int | None = None) -> Extent:
    """Bytes after a pointer that hold operand `number`, or result 0."""

    def extent(op: Any) -> tuple[int, ...] | None:
        layout = _layout(op, number)
        return None if layout is None else (-(-layout.bits // 8),)

    return extent


def matrix_tile(op: Any) -> tuple[int, ...] | None:
    """The rows and columns of a matrix that a wave loads or stores at subscripts in two dimensions;
    None where its lines are not those of the memref, or where it is transposed."""
    store = not len(op.results)
    shape = _MATRIX.match(str(op.operands[0].type if store else op.results[0].type))
    memory = ir.MemRefType(op.operands[1 if store else 0].type)
    if shape is None or "transpose" in op.attributes or memory.rank < 2:
        return None
    strides, _ = strides_and_offset(memory)
    if strides[-2:] != [integer_attribute(op, "leadDimension"), 1]:
        return None
    return int(shape[1]), int(shape[2])


_MATRIX = re.compile(r"!gpu\.mma_matrix<(\d+)x(\d+)x")


def shape_of(kind: Any) -> tuple[int, ...]:
    """The static shape of a vector type, () for any scalar."""
    vector = as_kind(ir.VectorType, kind)
    return () if vector is None else tuple(vector.shape)


# Masks: which elements of its box an access keeps.
#
#     vector.maskedstore %m[%i], %mask, %v     %mask = vector.constant_mask [3]: as a store of 3 elements
#     vector.mask %mask { transfer_write … }   the op in it is masked like that
#
# Where a mask is no constant, or keeps nothing, an access may leave out any part of its box.


def _kept(mask: Any, size: tuple[int, ...]) -> tuple[int, ...] | None:
    """How many elements from the first one on a mask keeps in each dimension; None: not known, or none."""
    made = defining_op(mask)
    kept: tuple[int, ...] = ()
    if made is None:
        return None
    if made.name == "vector.constant_mask":
        kept = tuple(ir.DenseI64ArrayAttr(made.attributes["mask_dim_sizes"]))
    elif made.name == "vector.create_mask":
        given = zip(map(constant_value, made.operands), size, strict=True)
        kept = tuple(min(n, most) if n is not None else 0 for n, most in given)
    elif made.name in CONSTANT_OPS and str(made.attributes["value"]).startswith("dense<true>"):
        kept = size
    return kept if len(kept) == len(size) and all(n > 0 for n in kept) else None


def _masks(op: Any) -> list[Any]:
    """The masks of a transfer: its own, and that of the `vector.mask` around it."""
    around = parent(op)
    own = [op.operands[len(op.operands) - 1]] if size_of_last_group(op) else []
    if around is not None and around.name == "vector.mask":
        own.append(around.operands[0])
    return own


def _transferred(op: Any) -> tuple[tuple[int, ...], bool]:
    """The box of memory that a transfer touches, as its permutation map says, and whether certainly all of it."""
    moved = ir.AffineMapAttr(op.attributes["permutation_map"]).value
    vector = shape_of((op.results[0] if len(op.results) else op.operands[0]).type)
    lengths = {
        int(ir.AffineDimExpr(dimension).position): length
        for dimension, length in zip(moved.results, vector, strict=False)
        if isinstance(dimension, ir.AffineDimExpr)
    }
    certain = _is_inside(op, moved, lengths)
    # A mask has the dimensions of memory that are moved, in their order.
    for mask in _masks(op):
        size = tuple(lengths[d] for d in sorted(lengths))
        kept = _kept(mask, size)
        certain = certain and kept is not None
        lengths = dict(zip(sorted(lengths), map(min, size, kept or size), strict=True))
    # As loads have it: no more dimensions than the vector, where those before are of one element.
    first = min([*lengths, moved.n_dims - len(vector)])
    return tuple(lengths.get(d, 1) for d in range(max(first, 0), moved.n_dims)), certain


def _is_inside(op: Any, moved: Any, lengths: dict[int, int]) -> bool:
    """Whether no element that a transfer leaves out, since it lies beyond the memref, is memory of others:
    as the op says, as constants show, or since the memref is no view of a larger one."""
    first = 1 if len(op.results) else 2
    memory = op.operands[first - 1]
    made = source_op(memory)
    if made.name in MEMORY_NAMES or (is_function(made) and "sym_visibility" not in made.attributes):
        return True
    said = list(ir.ArrayAttr(op.attributes["in_bounds"])) if "in_bounds" in op.attributes else []
    inside = [bool(ir.BoolAttr(flag).value) for flag in said] or [False] * len(moved.results)
    sizes = ir.MemRefType(memory.type).shape
    for flag, dimension in zip(inside, moved.results, strict=True):
        if flag or not isinstance(dimension, ir.AffineDimExpr):
            continue
        at = int(ir.AffineDimExpr(dimension).position)
        start = constant_value(op.operands[first + at])
        if start is None or not 0 <= start <= sizes[at] - lengths[at]:
            return False
    return True


def _masked_row(op: str, kind: AccessKind, value: str, packed: bool = False) -> Row:
    """Neighbours in the last dimension, those that a mask keeps; if they are `packed`, as many as it keeps, which is
    not followed."""

    def kept(op: Any) -> tuple[int, ...] | None:
        if packed:
            return None
        mask = op.operands[len(op.operands) - 2]
        return _kept(mask, shape_of(mask.type))

    def extent(op: Any) -> tuple[int, ...]:
        return kept(op) or shape_of(op.operands[len(op.operands) - 1].type)

    rule = _rule(kind, extent, lambda op: kept(op) is not None, contiguous=True)
    return Row(op, ("memory", "indices*", "mask", value), (rule,))


def size_of_last_group(op: Any) -> int:
    """How many operands the last group has of an op that says it."""
    sizes = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    # By index: to unpack it would make an iterator of the bindings (docs/speed.md).
    return int(sizes[len(sizes) - 1])


def never(op: Any) -> bool:
    """The op may leave elements out."""
    return False


def _rule(
    kind: AccessKind, extent: Extent, certain: Certain | None = None, **more: Any
) -> AccessRule:
    """An access to a memref at subscripts."""
    return AccessRule(kind, "memory", "indices", extent, certain, **more)


def _pointer_rule(
    kind: AccessKind, extent: Extent, certain: Certain | None = None, **more: Any
) -> AccessRule:
    """An access from a pointer on."""
    return AccessRule(kind, "memory", "", extent, certain, takes_slot_index=False, **more)


def _load(op: str, extent: Extent, **more: Any) -> Row:
    return Row(op, _PLACE, (_rule("read", extent, **more),))


def _store(op: str, extent: Extent) -> Row:
    return Row(op, ("value", *_PLACE), (_rule("write", extent),), stores=True)


def _transfer(op: str, operands: tuple[str, ...], kind: AccessKind) -> Row:
    rule = _rule(
        kind, lambda op: _transferred(op)[0], lambda op: _transferred(op)[1], takes_slot_index=False
    )
    return Row(op, operands, (rule,), stores=kind == "write")


def _copy(op: str) -> Row:
    """From one memory to another, all of both."""
    ends: tuple[tuple[AccessKind, str], ...] = (("read", "source"), ("write", "destination"))
    rules = [AccessRule(kind, memory, "", whole, takes_slot_index=False) for kind, memory in ends]
    return Row(op, ("source", "destination"), tuple(rules))


_PLACE = ("memory", "indices*")
_OFFSETS = (*_PLACE, "offsets", "mask", "value")


def _somewhere(op: str, operands: tuple[str, ...], kind: AccessKind) -> Row:
    """An op whose mask, vector of offsets or map says which elements it accesses."""
    return Row(op, operands, (_rule(kind, whole, never),))


def _bulk(op: str, source: str, size: int | str) -> Row:
    """An intrinsic that fills as many bytes as operand `size`, or the attribute of that name, says: from a
    `source`, or with a value. Where that is no constant it touches some of both memories."""

    def covered(op: Any) -> tuple[int, ...] | None:
        if isinstance(size, str):
            count = integer_attribute(op, size)
        else:
            count = constant_value(op.operands[size])
        return (count,) if count and count > 0 else None

    def rule(kind: AccessKind, memory: str) -> AccessRule:
        known = lambda op: covered(op) is not None  # noqa: E731
        return AccessRule(kind, memory, "", covered, known, takes_slot_index=False)

    reads = (rule("read", "source"),) if source == "source" else ()
    operands = ("destination", source, *(("size",) if isinstance(size, int) else ()))
    return Row(op, operands, (*reads, rule("write", "destination")), order=volatile_order)


def _of_pointer(op: str, operands: tuple[str, ...], kind: AccessKind, number: int | None) -> Row:
    """An access of what operand `number` is, or the result: aligned to what its type is, if it does not say otherwise
    (LangRef, load)."""

    def alignment(op: Any) -> int:
        layout = _layout(op, number)
        return integer_attribute(op, "alignment") or (1 if layout is None else layout.alignment)

    return Row(
        op,
        operands,
        (_pointer_rule(kind, bytes_held(number)),),
        order=attribute_order,
        stores=kind == "write",
        alignment=alignment,
    )


MEMORY_ROWS = {
    row.op: row
    for row in (
        _load("memref.load", element),
        _store("memref.store", element),
        _somewhere("affine.load", _PLACE, "read"),
        _somewhere("affine.store", ("value", *_PLACE), "write"),
        _load("vector.load", lambda op: _elements(op.results[0].type, op.operands[0].type)),
        _store("vector.store", lambda op: _elements(op.operands[0].type, op.operands[1].type)),
        _transfer("vector.transfer_read", (*_PLACE, "padding", "mask?"), "read"),
        _transfer("vector.transfer_write", ("value", *_PLACE, "mask?"), "write"),
        _masked_row("vector.maskedload", "read", "padding"),
        _masked_row("vector.maskedstore", "write", "value"),
        _masked_row("vector.expandload", "read", "value", packed=True),
        _masked_row("vector.compressstore", "write", "value", packed=True),
        _somewhere("vector.gather", _OFFSETS, "read"),
        _somewhere("vector.scatter", _OFFSETS, "write"),
        *(
            Row(op, operands, (_rule("atomic", element),), order=acquire_release)
            for op, operands in (
                ("memref.atomic_rmw", ("value", *_PLACE)),
                ("memref.generic_atomic_rmw", _PLACE),
            )
        ),
        _copy("memref.copy"),
        _bulk("llvm.intr.memcpy", "source", 2),
        _bulk("llvm.intr.memmove", "source", 2),
        _bulk("llvm.intr.memset", "value", 2),
        _bulk("llvm.intr.memcpy.inline", "source", "len"),
        _bulk("llvm.intr.memset.inline", "value", "len"),
        _of_pointer("llvm.load", ("memory",), "read", None),
        _of_pointer("llvm.store", ("value", "memory"), "write", 0),
        _of_pointer("llvm.atomicrmw", ("memory", "value"), "atomic", 1),
        _of_pointer("llvm.cmpxchg", ("memory", "expected", "value"), "atomic", 2),
    )
}


def to_sixteen_bytes(op: Any) -> int:
    """Rows of ldmatrix and stmatrix, and both ends of bulk copies (PTX ISA, cp.async.bulk)."""
    return 16


def matrix_lanes(op: Any) -> int | None:
    """ldmatrix reads at the addresses of lanes below 8 * numTiles, of matrices of 16 rows 16 * num (PTX ISA, ldmatrix)."""
    tiles = integer_attribute(op, "numTiles" if op.name == "nvgpu.ldmatrix" else "num")
    rows = 16 if "shape" in op.attributes and "m = 16" in str(op.attributes["shape"]) else 8
    return None if tiles is None else rows * tiles


def stored_matrix_lanes(op: Any) -> int:
    """stmatrix writes at the addresses of 8 lanes for each of its registers."""
    return 8 * (len(op.operands) - 1)


def first_lane(op: Any) -> int:
    """One access for the whole wave."""
    return 1


# Bytes of an element of a tile that a warp loads or stores as a whole (PTX ISA, wmma.load); others are parts of bytes.
_WMMA_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s32": 4, "s8": 1, "u8": 1}


def _wmma_lines(op: Any) -> tuple[int, int, int] | None:
    """The lines of a tile, the elements of each, and how many these are apart; None where that is not constant."""
    m, n, k = (integer_attribute(op, name) or 0 for name in "mnk")
    fragment = _word(op, "frag") if "frag" in op.attributes else "d"
    lines, length = {"a": (m, k), "b": (k, n)}.get(fragment, (m, n))
    if _word(op, "layout") == "col":
        lines, length = length, lines
    apart = constant_value(op.operands[len(op.operands) - 1])
    return None if apart is None or apart < length else (lines, length, apart)


def _wmma_tile(kind: AccessKind) -> AccessRule:
    """The bytes from the first element of a tile to its last: all of them where its lines follow each other without a
    gap."""

    def extent(op: Any) -> tuple[int, ...] | None:
        found, size = _wmma_lines(op), _WMMA_BYTES.get(_word(op, "eltype"))
        if found is None or size is None:
            return None
        lines, length, apart = found
        return (((lines - 1) * apart + length) * size,)

    def is_dense(op: Any) -> bool:
        lines = _wmma_lines(op)
        return lines is not None and lines[1] == lines[2]

    return _pointer_rule(kind, extent, is_dense, active_lanes=first_lane)


def _word(op: Any, name: str) -> str:
    """The word in #nvvm.mma_frag<a>."""
    return str(op.attributes[name]).partition("<")[2].rstrip(">")


_SUMS = re.compile(r"!nvgpu\.warpgroup\.accumulator<fragmented = vector<(\d+)x(\d+)xf32>>")
# No block has as many threads.
_ANY_THREAD = 1 << 16


def shares_of_sums(op: Any) -> tuple[Share, Share] | None:
    """The rows and columns of a thread's sums (PTX ISA, wgmma.mma_async: register fragments of D): row
    16 warp + lane / 4, the one 8 below, and the same 64 below; columns 2 (lane mod 4) and the next one, every
    8 columns. None for sums of other types."""
    found = _SUMS.match(str(op.operands[0].type))
    if found is None:
        return None
    rows, columns = map(int, found.groups())
    return (
        Share(((16, 32, _ANY_THREAD), (1, 4, 8)), ((8, 2), (64, rows // 64)), 1),
        Share(((2, 1, 4),), ((8, columns // 8),), 2),
    )


def _reads(op: str, *operands: str) -> Row:
    """Loads as many bytes as its result has, from its first operand on, or (with more operands:
    offsets, strides) from somewhere in that memory."""
    rule = _pointer_rule("read", *((whole, never) if operands else (bytes_held(),)))
    return Row(op, ("memory", *operands), (rule,))


LDMATRIX = "nvvm.ldmatrix"
_ROWS_OF_16_BYTES: tuple[
    tuple[str, tuple[str, ...], AccessKind, Callable[[Any], int | None]], ...
] = (
    (LDMATRIX, ("memory",), "read", matrix_lanes),
    ("nvvm.stmatrix", ("memory", "values*"), "write", stored_matrix_lanes),
)
BUFFER_RESOURCE = "!llvm.ptr<8>"


def by_resource(kind: AccessKind, memory: int, size: Extent, name: str = "memory") -> AccessRule:
    """Touches so many bytes at an offset from what the resource in operand `memory`, the group `name`, points to, if
    they are in its range. Which these are is not followed, unless their place stands there instead
    (`checker.as_read`)."""

    def extent(op: Any) -> tuple[int, ...] | None:
        return None if str(op.operands[memory].type) == BUFFER_RESOURCE else size(op)

    return AccessRule(kind, name, "", extent, never, takes_slot_index=False)


_TRANSPOSING = (
    "ds.load.tr16.b128 ds.load.tr4.b64 ds.load.tr6.b96 ds.load.tr8.b64 ds.read.tr16.b64 ds.read.tr4.b64 "
    "ds.read.tr6.b96 ds.read.tr8.b64 global.load.tr.b128 global.load.tr.b64 global.load.tr4.b64 global.load.tr6.b96"
)
_WAVE_TILES = (
    _load("gpu.subgroup_mma_load_matrix", matrix_tile),
    Row(
        "gpu.subgroup_mma_store_matrix",
        ("value", *_PLACE),
        (_rule("write", matrix_tile, active_lanes=first_lane),),
    ),
    Row("nvvm.wmma.load", ("memory", "stride"), (_wmma_tile("read"),)),
    Row("nvvm.wmma.store", ("memory", "values*", "stride"), (_wmma_tile("write"),)),
    # Each active lane names one row of 16 bytes.
    _load(
        "nvgpu.ldmatrix",
        lambda op: (16 // element_bytes(op.operands[0].type),),
        active_lanes=matrix_lanes,
        contiguous=True,
    ),
    *(
        Row(
            op,
            operands,
            (_pointer_rule(kind, bytes_of(16), active_lanes=lanes),),
            alignment=to_sixteen_bytes,
        )
        for op, operands, kind, lanes in _ROWS_OF_16_BYTES
    ),
    Row(
        "nvgpu.warpgroup.mma.store",
        ("value", "memory"),
        (
            _pointer_rule(
                *("write", whole, lambda op: shares_of_sums(op) is not None), shares=shares_of_sums
            ),
        ),
    ),
    # Each lane reads at the address it names; what it read goes to other lanes.
    *(
        _load(op, lambda op: shape_of(op.results[0].type), contiguous=True)
        for op in ("amdgpu.transpose_load", "amdgpu.global_transpose_load")
    ),
    *(_reads(f"rocdl.{name}") for name in _TRANSPOSING.split()),
)


def in_buffer(op: Any) -> tuple[int, ...] | None:
    """Elements in a row of a buffer of one dimension. Of several a subscript may leave its own and be in the
    next line; offsets beside the subscripts are not followed."""
    store = not len(op.results)
    moved = size_of_last_group(op) or integer_attribute(op, "indexOffset")
    if moved or ir.MemRefType(op.operands[store].type).rank != 1:
        return None
    return shape_of((op.operands if store else op.results)[0].type)


def unchecked(op: Any) -> bool:
    """Whether an access to a buffer touches what its subscripts name: none is out of bounds."""
    checked = "boundsCheck" not in op.attributes or ir.BoolAttr(op.attributes["boundsCheck"]).value
    return not checked and in_buffer(op) is not None


_ATOMICS = {"cmpswap": ("value", "expected")} | dict.fromkeys(
    ("fadd", "fmax", "smax", "umin"), ("value",)
)
_in_buffer = partial(AccessRule, takes_slot_index=False, contiguous=True)

# A buffer's range decides what is read and written: 0, and nothing, outside of it. Offsets in
# bytes are not followed.
_RAW = "amdgpu.raw_buffer_"
_IN_RESOURCE = ("memory", "offset", "scalar_offset", "flags")
# A buffer's range decides what is read and written: 0, and nothing, outside of it. Offsets in
# bytes are not followed.
_BUFFERS = (
    Row(
        f"{_RAW}load",
        (*_PLACE, "sgpr_offset?"),
        (_in_buffer("read", "memory", "indices", in_buffer, unchecked),),
    ),
    Row(
        f"{_RAW}store",
        ("value", *_PLACE, "sgpr_offset?"),
        (_in_buffer("write", "memory", "indices", in_buffer, unchecked),),
    ),
    *(
        Row(
            f"{_RAW}atomic_{name}",
            (*values, *_PLACE, "sgpr_offset?"),
            (_in_buffer("atomic", "memory", "", whole, never),),
            order=relaxed,
        )
        for name, values in _ATOMICS.items()
    ),
    Row(f"{RESOURCE_ACCESSES}load", _IN_RESOURCE, (by_resource("read", 0, bytes_held()),)),
    _reads("rocdl.ptr.s.buffer.load", "offset", "flags"),
    Row(
        f"{RESOURCE_ACCESSES}store",
        ("value", *_IN_RESOURCE),
        (by_resource("write", 1, bytes_held(0)),),
    ),
    *(
        Row(
            f"{RESOURCE_ACCESSES}atomic.{name}",
            (*values, *_IN_RESOURCE),
            (by_resource("atomic", len(values), bytes_held(0)),),
            order=relaxed,
        )
        for name, values in _ATOMICS.items()
    ),
)


HINTS = tuple(
    "amdgpu.global_prefetch amdgpu.sched_barrier gpu.printf memref.prefetch nvgpu.tma.prefetch.descriptor "
    "nvvm.breakpoint nvvm.cp.async.bulk.prefetch nvvm.cp.async.bulk.tensor.prefetch nvvm.nanosleep nvvm.pmevent "
    "nvvm.prefetch nvvm.setmaxregister rocdl.flat.prefetch rocdl.global.prefetch rocdl.iglp.opt rocdl.s.nop "
    "rocdl.s.setprio rocdl.s.sleep rocdl.sched.agpr rocdl.sched.bank rocdl.sched.barrier rocdl.sched.group.barrier "
    "rocdl.sched.sgpr rocdl.sched.vgpr vector.print".split()
)

# Of what a wave loads together each lane gets another part.
_TILES = (replace(row, agree="differs") for row in _WAVE_TILES)
VENDOR_ROWS = {row.op: row for row in (*_TILES, *_BUFFERS, *map(Row, HINTS))}
