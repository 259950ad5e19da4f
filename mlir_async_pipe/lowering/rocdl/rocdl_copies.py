"""Per-thread async copies become AMD's copies from global memory to LDS.

    nvgpu.device_async_copy %A[%row, %col], %S[%i, %j], 8
        --> gfx950   amdgpu.gather_to_lds async %A[%row, %col], %S[%wave_i, %wave_j] : vector<8xf16>
        --> gfx942   four of them with 4 bytes a lane
        --> gfx1250  amdgpu.global_load_async_to_lds %A[%row, %col], %S[%i, %j] : vector<8xf16>

A chip that copies to one address a wave (see `wave_layout`) gets the destination of the wave's
first place, computed from scalars. Where a copy is split, or its lanes stand in another order,
lane l of piece k fills place k * lanes + l of the wave's stretch, and so does a part of the
copy of the lane that owns that place: its source index is computed anew for that lane.

Elements that `srcElements` leaves out are zeros on NVIDIA; the LDS DMA has no such fill (see
`zero_fill` for what stands in).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    SYMBOL_TABLES,
    Operation,
    Value,
    as_kind,
    constant_value,
    defining_op,
    enclosing,
    integer_attribute,
    operations,
    symbol_name,
)
from mlir_async_pipe.bindings.structured_ops import (
    address_of,
    at_end_of,
    declare_global,
    write_for,
    write_if,
)
from mlir_async_pipe.chips.table import Chip, CopyForm
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.rocdl.wave_layout import (
    Wave,
    WaveBlock,
    WaveLayout,
    check_follows,
    check_views,
    prove,
)
from mlir_async_pipe.lowering.scopes.scope_copies import CopyPair
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import accesses, groups_of
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size, launched_sizes
from mlir_async_pipe.vocabulary.memory_layout import element_bytes

# The plan ----------------------------------------------------------------------------------------
#
# Decides how an AMD chip issues a per-thread copy: form, width, and where the lanes write.
#
#     nvgpu.device_async_copy %A[%row, %col], %S[%i, %j], 8     gfx950   1 copy of 16 bytes a lane
#                                                               gfx942   4 copies of 4 bytes
#
# What a chip can do is data in `chips`; where the lanes of a wave write is proven in
# `wave_layout`. What does not fit is refused at the copy, before anything is rewritten.


@dataclass(frozen=True)
class ThreadCopy:
    """What a per-thread copy says: memrefs, subscripts, and elements a thread."""

    op: Operation
    source: Value
    source_indices: list[Value]
    destination: Value
    destination_indices: list[Value]
    elements: int
    kept: Value | None

    @property
    def element_type(self) -> Any:
        return ir.MemRefType(self.destination.type).element_type

    @property
    def element_bytes(self) -> int:
        return element_bytes(self.destination.type)


@dataclass(frozen=True)
class CopyPlan:
    """How one copy is issued: `pieces` copies a lane of `piece` elements each; `layout` is
    where the lanes write, None on chips on which each lane names its own address."""

    copy: ThreadCopy
    form: CopyForm
    pieces: int
    piece: int
    layout: WaveLayout | None

    @property
    def moves_lanes(self) -> bool:
        """Whether lanes do work that another lane was written to do."""
        return self.layout is not None and (self.pieces > 1 or self.layout.swapped)


def read_copy(op: Operation) -> ThreadCopy:
    """The parts of an nvgpu.device_async_copy."""
    groups = groups_of(op)
    operands = list(op.operands)
    kept = [operands[i] for i in groups["source_elements"]]
    elements = integer_attribute(op, "dstElements")
    assert elements is not None
    return ThreadCopy(
        op,
        operands[groups["source"][0]],
        [operands[i] for i in groups["source_indices"]],
        operands[groups["destination"][0]],
        [operands[i] for i in groups["destination_indices"]],
        elements,
        kept[0] if kept and constant_value(kept[0]) != elements else None,
    )


def plan_copy(
    copy: ThreadCopy, chip: Chip, block: WaveBlock | None, uniformity: Uniformity
) -> CopyPlan:
    """Decide how `chip` issues a copy.

    Raises LoweringError at the copy: copy-width, copy-space, unknown-block-size, wave-layout,
    dynamic-stride, partial-wave, divergent-copy.
    """
    form = chip.copy_form
    assert form is not None
    op = copy.op
    _check_source(copy, form, chip)
    piece = _piece_elements(copy, chip)
    pieces = copy.elements // piece
    if not form.wave_base:
        return CopyPlan(copy, form, pieces, piece, None)
    if block is None:
        why = f"{chip.name} copies to one LDS address a wave, and the number of threads in a block is not known"
        advice = "give the kernel the attribute known_block_size = array<i32: x, y, z>"
        raise LoweringError(why, code="unknown-block-size", at=op, advice=advice)
    layout = prove(op, copy.destination, copy.destination_indices, copy.elements, block, uniformity)
    plan = CopyPlan(copy, form, pieces, piece, layout)
    check_follows(op, copy.destination_indices, uniformity)
    if plan.moves_lanes:
        _check_can_move(plan, block, uniformity)
    return plan


def _check_source(copy: ThreadCopy, form: CopyForm, chip: Chip) -> None:
    space = space_name(copy.source)
    if {space, space or "global"}.isdisjoint(form.source_spaces):
        raise LoweringError(
            f"{chip.name} cannot copy asynchronously from memory space '{space}'",
            code="copy-space",
            at=copy.op,
            advice="memory spaces it reads: "
            + ", ".join(f"'{name}'" if name else "none" for name in form.source_spaces),
        )


def space_name(memory: Value) -> str:
    """The memory space of a memref: "" (none or 0), "global", "fat_raw_buffer" or its text."""
    space = ir.MemRefType(memory.type).memory_space
    text = "" if space is None else str(space)
    return _SPACES.get(text.split(" ")[0], text)


_SPACES = {
    "0": "",
    **dict.fromkeys(("1", "#gpu.address_space<global>"), "global"),
    **dict.fromkeys(("7", "#amdgpu.address_space<fat_raw_buffer>"), "fat_raw_buffer"),
}


def _piece_elements(copy: ThreadCopy, chip: Chip) -> int:
    """Elements of the widest copy of the chip that divides this one."""
    size = copy.elements * copy.element_bytes
    for width in sorted(chip.copy_bytes, reverse=True):
        fits = size % width == 0 and width % copy.element_bytes == 0
        # Lanes share the places of a wave evenly only if a copy is cut in a power of two.
        if fits and chip.lanes % (size // width) == 0:
            return width // copy.element_bytes
    why = f"{chip.name} cannot copy {size} bytes a lane in elements of {copy.element_bytes} bytes"
    advice = f"sizes that {chip.name} copies: {', '.join(map(str, chip.copy_bytes))} bytes a lane"
    raise LoweringError(why, code="copy-width", at=copy.op, advice=advice)


def _check_can_move(plan: CopyPlan, block: WaveBlock, uniformity: Uniformity) -> None:
    copy = plan.copy
    kept = [] if copy.kept is None else [copy.kept]
    check_follows(copy.op, [*copy.source_indices, *kept], uniformity)
    check_views(copy.op, copy.source, block, uniformity)
    strides, _ = ir.MemRefType(copy.destination.type).get_strides_and_offset()
    assert strides[-1] in (1, DYNAMIC)
    if block.threads % block.lanes:
        why = f"the copy must be shared by whole waves of {block.lanes} lanes, and the block has {block.threads} threads"
        raise LoweringError(why, code="partial-wave", at=copy.op)
    branch = uniformity.divergent_control(copy.op)
    if branch is not None:
        why = "the copy must be shared by whole waves, and some threads may not reach it"
        raise LoweringError(
            why, code="divergent-copy", at=copy.op, notes=(("threads part here", branch),)
        )


class WaveCopies:
    """Whether lanes that copy side by side can issue a copy that is still a load and a store: else it runs in place,
    while a copy that its author wrote as one is refused. Valid as long as nothing below `root` is edited."""

    def __init__(self, root: Operation, chip: Chip) -> None:
        self._launches = launched_sizes(root)
        self._chip = chip
        self._uniformity = Uniformity()

    def refuse(self, pair: CopyPair) -> str | None:
        """Why a wave cannot issue the pair, None if it can.

        Raises LoweringError (unknown-block-size): that is for the user to mend.
        """
        if self._chip.copy_form is None:
            return None
        (source,), (target,) = accesses(pair.loaded.load), accesses(pair.store)
        copy = ThreadCopy(
            pair.store,
            source.memory,
            list(source.indices),
            target.memory,
            list(target.indices),
            pair.width.piece_elements,
            None,
        )
        size = enclosing_launch_size(pair.store, self._launches)
        block = None if size is None else WaveBlock(size, self._chip.lanes)
        try:
            plan_copy(copy, self._chip, block, self._uniformity)
        except LoweringError as refused:
            if refused.code == "unknown-block-size":
                raise
            return refused.diagnostic.message
        return None


def rewrite_copy(plan: CopyPlan, wave: Wave | None) -> None:
    """Issue the planned copies before the old one, which stays (its token has users)."""
    build = IntegerWriter(ir.InsertionPoint(plan.copy.op), plan.copy.op.location)
    for number in range(plan.pieces):
        if plan.layout is None:
            part = _own_part(plan, number, build)
            target = part.destination_indices
        else:
            assert wave is not None
            moved = plan.moves_lanes
            part = _moved_part(plan, number, wave, build) if moved else _own_part(plan, number, build)  # fmt: skip
            target = _wave_base(plan, number, wave, build)
        _issue(plan, part, target, build)


class _Part(NamedTuple):
    """What one lane does in one piece; `kept` counts the elements that it must read."""

    source_indices: list[Value]
    destination_indices: list[Value]
    kept: Value | None


def _own_part(plan: CopyPlan, number: int, build: IntegerWriter) -> _Part:
    """Piece `number` of the running thread's own copy."""
    copy = plan.copy
    offset = number * plan.piece
    return _Part(
        build.advanced(copy.source_indices, offset),
        build.advanced(copy.destination_indices, offset),
        None if copy.kept is None else build.subtract(copy.kept, offset),
    )


def _wave_base(plan: CopyPlan, number: int, wave: Wave, build: IntegerWriter) -> list[Value]:
    """The subscripts of the lowest address that the wave fills in piece `number`."""
    assert plan.layout is not None
    # Piece k begins at place k * lanes / pieces; the order of places is its own inverse.
    owner = plan.layout.places[number * (wave.block.lanes // plan.pieces)]
    thread = build.add(wave.first, owner)
    known: dict[Value, Value] = {}
    return [wave.in_thread(i, thread, build, known) for i in plan.copy.destination_indices]


def _moved_part(plan: CopyPlan, number: int, wave: Wave, build: IntegerWriter) -> _Part:
    """What the running lane does in piece `number`: the part that belongs to its place."""
    copy, pieces = plan.copy, plan.pieces
    place = build.add(build.divide(wave.lane, pieces), number * (wave.block.lanes // pieces))
    offset = build.multiply(build.remainder(wave.lane, pieces), plan.piece) if pieces > 1 else 0
    thread = _lane_at(plan, place, wave, build)
    known: dict[Value, Value] = {}

    def there(indices: list[Value]) -> list[Value]:
        moved = [wave.in_thread(index, thread, build, known) for index in indices]
        return build.advanced(moved, offset)

    kept = None
    if copy.kept is not None:
        kept = build.subtract(wave.in_thread(copy.kept, thread, build, known), offset)
    return _Part(there(copy.source_indices), there(copy.destination_indices), kept)


def _lane_at(plan: CopyPlan, place: Value, wave: Wave, build: IntegerWriter) -> Value:
    """The thread that writes at `place`: the order is its own inverse, so it is the place at
    which thread `place` of the wave writes, read off that thread's destination."""
    assert plan.layout is not None
    thread = build.add(wave.first, place)
    if not plan.layout.swapped:
        return thread
    copy = plan.copy
    lowest = _wave_base(plan, 0, wave, build)
    strides, _ = ir.MemRefType(copy.destination.type).get_strides_and_offset()
    known: dict[Value, Value] = {}
    distance = build.constant(0)
    for index, base, stride in zip(copy.destination_indices, lowest, strides, strict=True):
        here = wave.in_thread(index, thread, build, known)
        if here != base:
            distance = build.add(distance, build.multiply(build.subtract(here, base), stride))
    return build.add(wave.first, build.divide(distance, copy.elements))


def _issue(plan: CopyPlan, part: _Part, target: list[Value], build: IntegerWriter) -> None:
    """One copy op; where lanes may keep nothing they read zeros, or leave the copy and fill."""
    copy = plan.copy
    if part.kept is None or copy.kept is None:
        _copy_op(plan, copy.source, part.source_indices, target, build)
        return
    whole = build.compare("sge", part.kept, plan.piece)
    if can_read_zeros(copy.source, copy.kept, copy.elements):
        source, indices = zeros_or(copy.source, part.source_indices, plan.piece, whole, build)
        _copy_op(plan, source, indices, target, build)
        return
    choice = write_if(whole, (), (), build.ip, build.location)
    copies, leaves = (IntegerWriter(at_end_of(region), build.location) for region in choice.regions)
    _copy_op(plan, copy.source, part.source_indices, target, copies)
    fill(
        (copy.source, copy.destination),
        (part.source_indices, part.destination_indices),
        plan.piece,
        part.kept,
        leaves,
        all_or_nothing=all_or_nothing(copy.kept, copy.elements),
    )


def _in_space(plan: CopyPlan, source: Value, build: IntegerWriter) -> Value:
    """The source memref; without a memory space it is cast to global where the op wants it."""
    if space_name(source) in plan.form.source_spaces:
        return source
    kind = ir.MemRefType(source.type)
    space = ir.Attribute.parse("#gpu.address_space<global>", build.location.context)
    cast = ir.MemRefType.get(kind.shape, kind.element_type, kind.layout, space, loc=build.location)
    return build.make("memref.memory_space_cast", (source,), cast)


def _copy_op(
    plan: CopyPlan, source: Value, indices: list[Value], target: list[Value], build: IntegerWriter
) -> None:
    copy = plan.copy
    context = build.location.context
    element = copy.element_type
    moved = (
        element if plan.piece == 1 else ir.VectorType.get([plan.piece], element, loc=build.location)
    )
    sizes = [1, len(indices), 1, len(target)]
    attributes: dict[str, Any] = {"transferType": ir.TypeAttr.get(moved, context)}
    if plan.form.wave_base:
        attributes["async"] = ir.UnitAttr.get(context)
    else:
        sizes.append(0)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, context)
    operands = (_in_space(plan, source, build), *indices, copy.destination, *target)
    build.op(plan.form.op, operands, (), attributes)


# Zeros for the elements that a copy leaves out, on chips whose copies have no such fill.
#
#     %p = nvgpu.device_async_copy %A[%i], %S[%j], 8, %kept
#
# A copy that keeps all elements or none reads from a constant of zeros where it keeps none, so
# that it is issued on every path, and the back end can leave it in flight:
#
#     %from = arith.select %whole, %A, %zeros;  copy %from[select %whole, %i, 0], %S[%j]
#
# Any other leaves the copy to the lanes that keep all:
#
#     scf.if %kept >= 8 { the copy } else { store zeros; for k < %kept: S[j + k] = A[i + k] }
#
# These stores are synchronous and done by the lane that would have copied. They come no earlier
# than the copy would have been issued, so what orders the copy after earlier reads orders them.


def can_read_zeros(source: Value, kept: Value, elements: int) -> bool:
    """Whether `kept` is 0 or `elements`, and a constant of zeros can have the source's type."""
    kind = ir.MemRefType(source.type)
    dynamic = all(kind.is_dynamic_dim(axis) for axis in range(kind.rank))
    strides, _ = kind.get_strides_and_offset()
    simple = strides[-1] == 1 and all(stride < 0 for stride in strides[:-1])
    return dynamic and simple and all_or_nothing(kept, elements)


def zeros_or(
    source: Value, indices: list[Value], elements: int, whole: Value, build: IntegerWriter
) -> tuple[Value, list[Value]]:
    """Memref and subscripts that are the source's where `whole` is true, else those of zeros."""
    first = build.constant(0)
    chosen = [build.select(whole, index, first) for index in indices]
    return build.select(whole, source, _zeros_like(source, elements, build)), chosen


def _zeros_like(source: Value, elements: int, build: IntegerWriter) -> Value:
    """A constant global of zeros, `elements` in its last dimension, cast to the source's type."""
    kind = ir.MemRefType(source.type)
    context = build.location.context
    shape = [1] * (kind.rank - 1) + [elements]
    space = ir.Attribute.parse("#gpu.address_space<global>", context)
    extents = "x".join(map(str, shape))
    made = ir.Type.parse(f"memref<{extents}x{kind.element_type}, {space}>", context)
    table = enclosing(build.ip.block.owner.operation, SYMBOL_TABLES)
    assert table is not None
    name = f"async_pipe_zeros_{extents}x{kind.element_type}"
    if not any(symbol_name(op) == name for op in operations(table.regions[0].blocks[0])):
        splat = _zero(kind.element_type, build.location)
        value_text = f"dense<{str(splat).split(' ')[0]}> : tensor<{extents}x{kind.element_type}>"
        initial = ir.Attribute.parse(value_text, context)
        declared = declare_global(table, name, made, initial, 16, build.location)
        declared.attributes["constant"] = ir.UnitAttr.get(context)
    value = address_of(name, made, build.ip, build.location)
    if str(kind.memory_space) != str(space):
        own = "" if kind.memory_space is None else f", {kind.memory_space}"
        plain = ir.Type.parse(f"memref<{extents}x{kind.element_type}{own}>", context)
        value = build.make("memref.memory_space_cast", (value,), plain)
    return build.make("memref.cast", (value,), source.type)


def fill(
    memories: tuple[Value, Value],
    indices: tuple[list[Value], list[Value]],
    elements: int,
    kept: Value,
    build: IntegerWriter,
    *,
    all_or_nothing: bool,
) -> None:
    """Store zeros to `elements` elements, then the first `kept` of the source.

    `memories` and `indices` are those of source and destination. With `all_or_nothing` the
    copy keeps all elements or none, and only the zeros are stored.
    """
    source, destination = memories
    element = ir.MemRefType(destination.type).element_type
    vector = ir.VectorType.get([elements], element, loc=build.location)
    zero = ir.DenseElementsAttr.get_splat(vector, _zero(element, build.location))
    zeros = build.make("arith.constant", (), vector, {"value": zero})
    build.op("vector.store", (zeros, destination, *indices[1]))
    if all_or_nothing:
        return
    bounds = (build.constant(0), kept, build.constant(1))
    body = write_for(bounds, (), build.ip, build.location).regions[0].blocks[0]
    inner = IntegerWriter(ir.InsertionPoint(body), build.location)
    at = body.arguments[0]
    value = inner.make("memref.load", (source, *inner.advanced(indices[0], at)), element)
    inner.op("memref.store", (value, destination, *inner.advanced(indices[1], at)))
    inner.op("scf.yield")


def all_or_nothing(kept: Value, elements: int) -> bool:
    """Whether `kept` is either 0 or `elements`: a constant, or a select of the two."""
    op = defining_op(kept)
    if op is None or op.name != "arith.select":
        return constant_value(kept) in (0, elements)
    return {constant_value(value) for value in list(op.operands)[1:]} <= {0, elements}


def _zero(element: Any, loc: Any) -> Any:
    integer = as_kind(ir.IntegerType, element)
    return ir.FloatAttr.get(element, 0.0, loc=loc) if integer is None else ir.IntegerAttr.get(integer, 0)  # fmt: skip
