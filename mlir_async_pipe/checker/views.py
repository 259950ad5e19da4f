"""Memory values as views of roots: which bytes a memref or pointer stands for.

    %v = memref.subview %ring[%slot, 0, 0] [1, 64, 32] [1, 1, 1]
    access %v[%r, %c]     ->   root %ring, box [slot, r, c]

A *frame* is a coordinate system on a root (shape and strides of the memref that names it).
Two accesses in the same frame are compared dimension by dimension: other slot, other memory,
whatever the rest of the subscripts is (subscripts are in bounds). Views that leave the frame
(`memref.view`, reshapes, pointers) are compared as byte ranges of the root.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import DYNAMIC
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_bytes,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.rows import Share

# What MLIR prints as `?` in sizes, strides and offsets.


class Frame(NamedTuple):
    """A coordinate system on a root: `base` in bytes, `shape` and `strides` in elements.

    None stands for what is not static. `bits` is the size of one element.
    """

    base: Form
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    bits: int


class Axis(NamedTuple):
    """One dimension of a memref: steps of `step` along dimension `dimension` of its frame."""

    dimension: int
    step: int


class View(NamedTuple):
    """A memref or pointer value: `root` is a number of the root table.

    `start` is the position of its first element in the frame; `axes` one a dimension of the
    memref, `sizes` its extents. `start` is None where it is not known. `unit` is the length of
    one element in the frame: 1, or its bytes where the frame counts bytes.
    """

    root: int
    frame: Frame
    start: tuple[Form, ...] | None
    axes: tuple[Axis, ...]
    sizes: tuple[int | None, ...]
    unit: int = 1


class Piece(NamedTuple):
    """Positions along one frame dimension: start + sum of step * i + j, i < count, j < length."""

    start: Form
    steps: tuple[tuple[int, int], ...]
    length: int


class Region(NamedTuple):
    """What one access touches; a piece that is None is the whole dimension.

    `lanes`: only lanes of a warp below this number access (None: all).
    """

    root: int
    frame: Frame
    pieces: tuple[Piece | None, ...]
    certain: bool
    lanes: int | None


def whole_root(root: int) -> Region:
    """All of a root."""
    return Region(root, BYTES, (None,), False, None)


BYTES = Frame(forms.ZERO, (None,), (1,), 8)


def root_view(root: int, kind: Any) -> View:
    """The view of a root by its own type (a memref or a pointer)."""
    try:
        memref = ir.MemRefType(kind)
    except ValueError:
        return View(root, BYTES, (forms.ZERO,), (), ())
    frame = frame_of(forms.ZERO, memref)
    rank = len(frame.shape)
    return View(
        root,
        frame,
        (forms.ZERO,) * rank,
        tuple(Axis(d, 1) for d in range(rank)),
        frame.shape,
    )


def somewhere(root: int, kind: Any) -> View:
    """A memref or pointer into a root: where is not known."""
    return root_view(root, kind)._replace(start=None)


def frame_of(base: Form, memref: Any) -> Frame:
    """The frame of a memref type whose first element is at byte `base`."""
    shape = tuple(None if s < 0 else int(s) for s in memref.shape)
    try:
        return Frame(base, shape, _strides(memref), 8 * element_bytes(memref))
    except UnknownLayoutError:
        # How far apart elements lie is not known, which dynamic strides say too.
        return Frame(base, shape, (None,) * len(shape), 8)


def _strides(memref: Any) -> tuple[int | None, ...]:
    """Raises UnknownLayoutError."""
    strides, _ = strides_and_offset(memref)
    return tuple(strides)


def subview(source: View, op: Any, operand: Any) -> View:
    """The view of memref.subview; `operand` gives the form of an operand by its position."""
    memref = ir.MemRefType(op.results[0].type)
    offsets = mixed(op, "static_offsets", 1, operand)
    sizes = mixed(op, "static_sizes", 2, operand)
    strides = mixed(op, "static_strides", 3, operand)
    if source.start is None or any(not s.is_constant for s in strides):
        return unknown_view(source, memref)
    start = list(source.start)
    for axis, offset in zip(source.axes, offsets, strict=True):
        start[axis.dimension] = forms.add(start[axis.dimension], forms.scale(offset, axis.step))
    kept = _kept_dimensions(sizes, memref)
    if kept is None:
        return unknown_view(source, memref)
    axes = tuple(
        Axis(source.axes[d].dimension, source.axes[d].step * strides[d].constant) for d in kept
    )
    return View(source.root, source.frame, tuple(start), axes, _sizes(memref), source.unit)


def mixed(op: Any, static: str, group: int, operand: Any) -> list[Form]:
    """Offsets, sizes or strides of a subview: static numbers, operands where dynamic."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    position = sum(segments[:group])
    result = []
    for number in ir.DenseI64ArrayAttr(op.attributes[static]):
        if number == DYNAMIC:
            result.append(operand(position))
            position += 1
        else:
            result.append(Form(int(number)))
    return result


def _kept_dimensions(sizes: list[Form], memref: Any) -> list[int] | None:
    """Which source dimensions a rank-reducing subview keeps; None if that is not clear."""
    result = _sizes(memref)
    dropped = len(sizes) - len(result)
    kept: list[int] = []
    for dimension, size in enumerate(sizes):
        wanted = result[len(kept)] if len(kept) < len(result) else None
        is_unit = size.is_constant and size.constant == 1
        if dropped and is_unit and (wanted != 1 or len(kept) == len(result)):
            dropped -= 1
        else:
            kept.append(dimension)
    if len(kept) > len(result):
        # Units are left over where the result has units too: the leading ones were dropped.
        units = [d for d in kept if sizes[d].is_constant and sizes[d].constant == 1]
        for dimension in units[: len(kept) - len(result)]:
            kept.remove(dimension)
    return kept if len(kept) == len(result) else None


def _sizes(memref: Any) -> tuple[int | None, ...]:
    return tuple(None if s < 0 else int(s) for s in memref.shape)


def unknown_view(source: View, memref: Any) -> View:
    """Some part of the root of `source`: where is not known."""
    rank = len(list(memref.shape))
    return View(source.root, source.frame, None, (Axis(0, 1),) * rank, _sizes(memref))


def byte_view(source: View, op: Any, extra_bytes: Form, absolute: bool) -> View:
    """A memref view by bytes of the root: strides of the result's type count.

    `extra_bytes` is added to the start of `source`, or to the frame's base if `absolute`.
    """
    memref = ir.MemRefType(op.results[0].type)
    start = source.frame.base if absolute else start_bytes(source)
    try:
        strides, unit = _strides(memref), element_bytes(memref)
    except UnknownLayoutError:
        return unknown_view(source, memref)
    if start is None or any(s is None for s in strides):
        return unknown_view(source, memref)
    axes = tuple(Axis(0, s * unit) for s in strides if s is not None)
    return View(source.root, BYTES, (forms.add(start, extra_bytes),), axes, _sizes(memref), unit)


def start_bytes(view: View) -> Form | None:
    """The byte of the root at which a view starts."""
    if view.start is None:
        return None
    total = view.frame.base
    for position, stride in zip(view.start, view.frame.strides, strict=True):
        if position == forms.ZERO:
            continue
        if stride is None or (stride * view.frame.bits) % 8:
            return None
        total = forms.add(total, forms.scale(position, stride * view.frame.bits // 8))
    return total


def reframed(source: View, op: Any, base: Form) -> View:
    """memref.view: a new frame of the result's type, `base` bytes into the source."""
    memref = ir.MemRefType(op.results[0].type)
    start = start_bytes(source)
    if start is None:
        return unknown_view(source, memref)
    frame = frame_of(forms.add(start, base), memref)
    rank = len(frame.shape)
    axes = tuple(Axis(d, 1) for d in range(rank))
    return View(source.root, frame, (forms.ZERO,) * rank, axes, frame.shape)


def region_of(
    view: View,
    indices: list[Form],
    extent: tuple[int, ...] | None,
    *,
    certain: bool = True,
    lanes: int | None = None,
    pointer_bytes: int | None = None,
    shares: tuple[Share, ...] | None = None,
) -> Region:
    """The region of an access: from `indices` on `extent` elements in the trailing dimensions, or a
    thread's part of `shares`.

    Without subscripts on a memref, or with extent None, the whole view is touched.
    """
    if view.start is None:
        return Region(view.root, view.frame, (None,) * len(view.frame.shape), False, None)
    if not view.axes and view.frame == BYTES:
        size: int | None = extent[0] if extent else None
        size = size if pointer_bytes is None else pointer_bytes
        piece = None if size is None else Piece(view.start[0], (), size)
        return Region(view.root, BYTES, (piece,), certain and piece is not None, lanes)
    counts: list[int | None]
    counts = [1] * len(view.axes)
    more: list[tuple[tuple[int, int], ...]] = [()] * len(view.axes)
    if shares is not None:
        counts = [share.length for share in shares]
        more = [share.steps for share in shares]
    elif extent is None or (not indices and view.axes):
        counts = list(view.sizes)
        indices = [forms.ZERO] * len(view.axes)
    else:
        for number, length in enumerate(reversed(extent)):
            if number < len(counts):
                counts[len(counts) - 1 - number] = length
    starts = list(view.start)
    steps: list[list[tuple[int, int]] | None] = [[] for _ in view.frame.shape]
    for axis, index, count, apart in zip(view.axes, indices, counts, more, strict=True):
        dimension = axis.dimension
        starts[dimension] = forms.add(starts[dimension], forms.scale(index, axis.step))
        row = steps[dimension]
        if count is None:
            steps[dimension] = None
        elif row is not None:
            row.extend((axis.step * s, n) for s, n in ((1, count), *apart) if n != 1)
    pieces = tuple(
        None if row is None else _piece(start, row, view.unit)
        for start, row in zip(starts, steps, strict=True)
    )
    return Region(view.root, view.frame, pieces, certain, lanes)


def _piece(start: Form, steps: list[tuple[int, int]], length: int) -> Piece:
    """Fold steps as long as the piece so far into its length."""
    kept = []
    for step, count in sorted(steps):
        if step == length:
            length *= count
        else:
            kept.append((step, count))
    return Piece(start, tuple(kept), length)


def as_bytes(region: Region) -> Region | None:
    """The same region in bytes of the root; None where strides are not static."""
    frame = region.frame
    if frame == BYTES:
        return region
    start = frame.base
    steps: list[tuple[int, int]] = []
    for piece, stride, size in zip(region.pieces, frame.strides, frame.shape, strict=True):
        if stride is None or (stride * frame.bits) % 8:
            return None
        unit = stride * frame.bits // 8
        if piece is None:
            if size is None:
                return None
            steps.append((unit, size))
            continue
        start = forms.add(start, forms.scale(piece.start, unit))
        steps.extend((step * unit, count) for step, count in piece.steps)
        if piece.length != 1:
            steps.append((unit, piece.length))
    return Region(
        region.root,
        BYTES,
        (_piece(start, steps, max(1, frame.bits // 8)),),
        region.certain,
        region.lanes,
    )


def spread_over_lanes(region: Region) -> Region:
    """The part of a wave's stretch that one lane writes: its length times the lane further on."""
    flat = as_bytes(region)
    piece = None if flat is None else flat.pieces[0]
    if flat is None or piece is None or piece.steps:
        return whole_root(region.root)
    behind = forms.scale(forms.of_atom(forms.Atom("tid", "lane")), piece.length)
    return flat._replace(pieces=(Piece(forms.add(piece.start, behind), (), piece.length),))
