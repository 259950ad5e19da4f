"""Decides how an AMD chip issues a per-thread copy: form, width, and where the lanes write.

    nvgpu.device_async_copy %A[%row, %col], %S[%i, %j], 8     gfx950   1 copy of 16 bytes a lane
                                                              gfx942   4 copies of 4 bytes

What a chip can do is data in `chips`; where the lanes of a wave write is proven in
`wave_layout`. What does not fit is refused at the copy, before anything is rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    Operation,
    Value,
    constant_value,
    integer_attribute,
)
from mlir_async_pipe.chips.table import Chip, CopyForm
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.rocdl.other_lanes import check_follows
from mlir_async_pipe.lowering.rocdl.wave_layout import (
    WaveBlock,
    WaveLayout,
    prove,
)
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.memory_layout import element_bytes

COPY = "nvgpu.device_async_copy"


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
        raise LoweringError(
            f"{chip.name} copies to one LDS address a wave, and the number of threads in a "
            "block is not known",
            code="unknown-block-size",
            at=op,
            advice="give the kernel the attribute known_block_size = array<i32: x, y, z>",
        )
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
    number = text.split(" ")[0]
    if number in ("", "0"):
        return ""
    if number == "1" or text == "#gpu.address_space<global>":
        return "global"
    if number == "7" or text == "#amdgpu.address_space<fat_raw_buffer>":
        return "fat_raw_buffer"
    return text


def _piece_elements(copy: ThreadCopy, chip: Chip) -> int:
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


def _check_can_move(plan: CopyPlan, block: WaveBlock, uniformity: Uniformity) -> None:
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
