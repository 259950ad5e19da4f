"""Per-thread async copies become AMD's copies from global memory to LDS.

    nvgpu.device_async_copy %A[%row, %col], %S[%i, %j], 8
        --> gfx950   amdgpu.gather_to_lds async %A[%row, %col], %S[%wave_i, %wave_j] : vector<8xf16>
        --> gfx942   four of them with 4 bytes a lane
        --> gfx1250  amdgpu.global_load_async_to_lds %A[%row, %col], %S[%i, %j] : vector<8xf16>

A chip that copies to one address a wave (see `wave_layout`) gets the destination of the wave's
first place, computed from scalars. Where a copy is split, or its lanes stand in another order,
lane l of piece k fills place k * lanes + l of the wave's stretch, and so does a part of the
copy of the lane that owns that place: its source index is computed anew for that lane.

Elements that `srcElements` leaves out are zeros on NVIDIA; the LDS DMA has no such fill, so
those lanes leave the copy (in an scf.if) and store their zeros themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import LoweringError
from mlir_async_pipe.ir_helpers import (
    Operation,
    Value,
    constant_value,
    create,
    integer_attribute,
)
from mlir_async_pipe.targets.chips import Chip, CopyForm
from mlir_async_pipe.targets.index_builder import IndexBuilder
from mlir_async_pipe.targets.other_lanes import Wave, check_follows
from mlir_async_pipe.targets.uniformity import Uniformity
from mlir_async_pipe.targets.wave_layout import DYNAMIC, Block, WaveLayout, prove
from mlir_async_pipe.targets.zero_fill import advanced, all_or_nothing, fill
from mlir_async_pipe.vocabulary import operand_groups, row_of
from mlir_async_pipe.vocabulary.extents import element_bits

COPY = "nvgpu.device_async_copy"


@dataclass(frozen=True)
class Copy:
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
        """The element type of both memrefs."""
        return ir.MemRefType(self.destination.type).element_type

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return element_bits(self.destination.type) // 8


@dataclass(frozen=True)
class Plan:
    """How one copy is issued: `pieces` copies a lane of `piece` elements each; `layout` is
    where the lanes write, None on chips on which each lane names its own address."""

    copy: Copy
    form: CopyForm
    pieces: int
    piece: int
    layout: WaveLayout | None

    @property
    def moves_lanes(self) -> bool:
        """Whether lanes do work that another lane was written to do."""
        return self.layout is not None and (self.pieces > 1 or self.layout.swapped)


def read_copy(op: Operation) -> Copy:
    """The parts of an nvgpu.device_async_copy."""
    row = row_of(op)
    assert row is not None
    groups = operand_groups(op, row)
    operands = list(op.operands)
    kept = [operands[i] for i in groups["source_elements"]]
    elements = integer_attribute(op, "dstElements")
    assert elements is not None
    return Copy(
        op,
        operands[groups["source"][0]],
        [operands[i] for i in groups["source_indices"]],
        operands[groups["destination"][0]],
        [operands[i] for i in groups["destination_indices"]],
        elements,
        kept[0] if kept and constant_value(kept[0]) != elements else None,
    )


def plan_copy(op: Operation, chip: Chip, block: Block | None, uniformity: Uniformity) -> Plan:
    """Decide how `chip` issues a copy.

    Raises LoweringError at the copy: copy-width, copy-space, unknown-block-size, wave-layout,
    dynamic-stride, divergent-copy.
    """
    form = chip.copy_form
    assert form is not None
    copy = read_copy(op)
    _check_source(copy, form, chip)
    piece = _piece_elements(copy, chip)
    pieces = copy.elements // piece
    if not form.wave_base:
        return Plan(copy, form, pieces, piece, None)
    if block is None:
        raise LoweringError(
            f"{chip.name} copies to one LDS address a wave, and the number of threads in a "
            "block is not known",
            code="unknown-block-size",
            at=op,
            advice="give the kernel the attribute known_block_size = array<i32: x, y, z>",
        )
    layout = prove(op, copy.destination, copy.destination_indices, copy.elements, block, uniformity)
    plan = Plan(copy, form, pieces, piece, layout)
    check_follows(op, copy.destination_indices, uniformity)
    if plan.moves_lanes:
        _check_can_move(plan, block, uniformity)
    return plan


def rewrite_copy(plan: Plan, wave: Wave | None) -> None:
    """Issue the planned copies in front of the old one, which stays (its token has users)."""
    build = IndexBuilder(ir.InsertionPoint(plan.copy.op), plan.copy.op.location)
    for number in range(plan.pieces):
        if plan.moves_lanes:
            assert wave is not None
            part = _moved_part(plan, number, wave, build)
        else:
            part = _own_part(plan, number, build)
        target = part.destination_indices
        if plan.layout is not None:
            assert wave is not None
            target = _wave_base(plan, number, wave, build)
        _issue(plan, part, target, build)


@dataclass(frozen=True)
class _Part:
    """What one lane does in one piece; `kept` counts the elements that it must read."""

    source_indices: list[Value]
    destination_indices: list[Value]
    kept: Value | None


def _check_source(copy: Copy, form: CopyForm, chip: Chip) -> None:
    space = _space_name(copy.source)
    if space not in form.source_spaces and not _casts_to_global(space, form):
        raise LoweringError(
            f"{chip.name} cannot copy asynchronously from memory space '{space}'",
            code="copy-space",
            at=copy.op,
            advice="memory spaces it reads: "
            + ", ".join(f"'{name}'" if name else "none" for name in form.source_spaces),
        )


def _space_name(memory: Value) -> str:
    """The memory space of a memref: "" (none or 0), "global", "fat_raw_buffer" or its text."""
    space = ir.MemRefType(memory.type).memory_space
    text = "" if space is None else str(space)
    number = text.split(" ")[0]
    if number in ("", "0"):
        return ""
    if number == "1" or text == "#gpu.address_space<global>":
        return "global"
    if number == "7" or text == "#amdgpu.address_space<fat_raw_buffer>":
        return "fat_raw_buffer"
    return text


def _casts_to_global(space: str, form: CopyForm) -> bool:
    return space == "" and "global" in form.source_spaces


def _piece_elements(copy: Copy, chip: Chip) -> int:
    """Elements of the widest copy of the chip that divides this one."""
    size = copy.elements * copy.element_bytes
    for width in sorted(chip.copy_bytes, reverse=True):
        fits = size % width == 0 and width % copy.element_bytes == 0
        # Lanes share the places of a wave evenly only if a copy is cut in a power of two.
        if fits and chip.lanes % (size // width) == 0:
            return width // copy.element_bytes
    raise LoweringError(
        f"{chip.name} cannot copy {size} bytes a lane in elements of {copy.element_bytes} bytes",
        code="copy-width",
        at=copy.op,
        advice=f"sizes that {chip.name} copies: {', '.join(map(str, chip.copy_bytes))} bytes a lane",
    )


def _check_can_move(plan: Plan, block: Block, uniformity: Uniformity) -> None:
    copy = plan.copy
    kept = [] if copy.kept is None else [copy.kept]
    check_follows(copy.op, [*copy.source_indices, *kept], uniformity)
    strides, _ = ir.MemRefType(copy.destination.type).get_strides_and_offset()
    assert strides[-1] in (1, DYNAMIC)
    if block.threads % block.lanes:
        raise LoweringError(
            f"the copy must be shared by whole waves of {block.lanes} lanes, and the block has "
            f"{block.threads} threads",
            code="partial-wave",
            at=copy.op,
        )
    branch = uniformity.divergent_control(copy.op)
    if branch is not None:
        raise LoweringError(
            "the copy must be shared by whole waves, and some threads may not reach it",
            code="divergent-copy",
            at=copy.op,
            notes=(("threads part here", branch),),
        )


def _own_part(plan: Plan, number: int, build: IndexBuilder) -> _Part:
    """Piece `number` of the running thread's own copy."""
    copy = plan.copy
    offset = number * plan.piece
    return _Part(
        advanced(copy.source_indices, offset, build),
        advanced(copy.destination_indices, offset, build),
        None if copy.kept is None else build.sub(copy.kept, offset),
    )


def _wave_base(plan: Plan, number: int, wave: Wave, build: IndexBuilder) -> list[Value]:
    """The subscripts of the lowest address that the wave fills in piece `number`."""
    assert plan.layout is not None
    # Piece k begins at place k * lanes / pieces; the order of places is its own inverse.
    owner = plan.layout.places[number * (wave.block.lanes // plan.pieces)]
    thread = build.add(wave.first(), owner)
    known: dict[Value, Value] = {}
    return [wave.in_thread(i, thread, build, known) for i in plan.copy.destination_indices]


def _moved_part(plan: Plan, number: int, wave: Wave, build: IndexBuilder) -> _Part:
    """What the running lane does in piece `number`: the part that belongs to its place."""
    copy, pieces = plan.copy, plan.pieces
    place = build.add(build.div(wave.lane(), pieces), number * (wave.block.lanes // pieces))
    offset = build.mul(build.rem(wave.lane(), pieces), plan.piece) if pieces > 1 else 0
    thread = _lane_at(plan, place, wave, build)
    known: dict[Value, Value] = {}

    def there(indices: list[Value]) -> list[Value]:
        moved = [wave.in_thread(index, thread, build, known) for index in indices]
        return advanced(moved, offset, build)

    kept = None
    if copy.kept is not None:
        kept = build.sub(wave.in_thread(copy.kept, thread, build, known), offset)
    return _Part(there(copy.source_indices), there(copy.destination_indices), kept)


def _lane_at(plan: Plan, place: Value, wave: Wave, build: IndexBuilder) -> Value:
    """The thread that writes at `place`: the order is its own inverse, so it is the place at
    which thread `place` of the wave writes, read off that thread's destination."""
    assert plan.layout is not None
    thread = build.add(wave.first(), place)
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
            distance = build.add(distance, build.mul(build.sub(here, base), stride))
    return build.add(wave.first(), build.div(distance, copy.elements))


def _issue(plan: Plan, part: _Part, target: list[Value], build: IndexBuilder) -> None:
    """One copy op, in an scf.if where lanes may have to fill zeros instead."""
    source = _source_in_space(plan, build)
    if part.kept is None:
        _copy_op(plan, source, part, target, build)
        return
    whole = build.compare("sge", part.kept, plan.piece)
    choice = create("scf.if", (whole,), (), regions=2, ip=build.ip, loc=build.loc)
    for region, leaves in zip(choice.regions, (False, True), strict=True):
        block = region.blocks.append()
        inner = IndexBuilder(ir.InsertionPoint(block), build.loc)
        if leaves:
            copy = plan.copy
            fill(
                (copy.source, copy.destination),
                (part.source_indices, part.destination_indices),
                plan.piece,
                part.kept,
                inner,
                all_or_nothing=copy.kept is not None and all_or_nothing(copy.kept, copy.elements),
            )
        else:
            _copy_op(plan, source, part, target, inner)
        create("scf.yield", ip=ir.InsertionPoint(block), loc=build.loc)


def _source_in_space(plan: Plan, build: IndexBuilder) -> Value:
    """The source memref; without a memory space it is cast to global where the op wants it."""
    source = plan.copy.source
    if _space_name(source) in plan.form.source_spaces:
        return source
    kind = ir.MemRefType(source.type)
    space = ir.Attribute.parse("#gpu.address_space<global>", build.loc.context)
    cast = ir.MemRefType.get(kind.shape, kind.element_type, kind.layout, space, loc=build.loc)
    return create(
        "memref.memory_space_cast", (source,), (cast,), ip=build.ip, loc=build.loc
    ).results[0]


def _copy_op(
    plan: Plan, source: Value, part: _Part, target: list[Value], build: IndexBuilder
) -> None:
    copy = plan.copy
    context = build.loc.context
    element = copy.element_type
    moved = element if plan.piece == 1 else ir.VectorType.get([plan.piece], element, loc=build.loc)
    row = row_of(copy.op)
    assert row is not None
    sizes = [1, len(part.source_indices), 1, len(target)]
    attributes: dict[str, Any] = {"transferType": ir.TypeAttr.get(moved, context)}
    if plan.form.wave_base:
        attributes["async"] = ir.UnitAttr.get(context)
    else:
        sizes.append(0)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, context)
    operands = (source, *part.source_indices, copy.destination, *target)
    create(plan.form.op, operands, (), attributes, ip=build.ip, loc=build.loc)
