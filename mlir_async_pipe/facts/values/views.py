"""Views of memory over any domain of numbers: root, where in it, and how subscripts lead on.

    %v = memref.subview %ring[%slot, 0, 0] [1, 64, 32] [1, 1, 1]
    access %v[%r, %c]     ->   root %ring, box [slot, r, c]
    llvm.getelementptr %p[%i] : f32     ->   4 %i bytes after %p

One table says where what an op names begins, without a number being known (`beginning`): some steps
after the first element of operand 0, or after its aligned pointer. Intervals (`byte_places`),
divisors (`alignment`) and linear forms add these steps up, each in its own way.

Linear forms, of values or of a path's atoms, know more: a *frame* is a coordinate system on a root
(shape and strides of the memref that names it). Two accesses in one frame are compared dimension
by dimension: another slot is other memory whatever the rest of the subscripts is (subscripts
are in bounds). Views that leave the frame (`memref.view`, pointers, another layout) are compared
as byte ranges of the root. Byte 0 of a root is its first element; its aligned pointer, from which
a `memref.reinterpret_cast` counts, may lie before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import prod
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import DYNAMIC, Operation, as_kind, remembered
from mlir_async_pipe.facts.values.sums import ZERO, Form, S, add, scale
from mlir_async_pipe.vocabulary.memory_layout import (
    element_bytes,
    if_known,
    offset_bytes,
    steps_of,
    strides_and_bytes,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.memory_names import POINTER_STEPS, VIEW_OPS, Shown
from mlir_async_pipe.vocabulary.rows import Share

T = TypeVar("T")


class Operand(NamedTuple):
    """A number that an op is given, by its position."""

    position: int


Number: TypeAlias = "int | Operand"


class ViewStep(NamedTuple):
    """`amount` times `stride` elements of `size` bytes; a stride of None is not known.

    `last`: the largest amount that stays in bounds, None if that is not known.
    """

    amount: Number
    stride: int | None
    size: int
    last: int | None = None


class Beginning(NamedTuple):
    """Where what an op names begins: after the first element of operand 0, or after its aligned pointer."""

    steps: tuple[ViewStep, ...] = ()
    of_aligned: bool = False


@remembered
def beginning(op: Operation) -> Beginning:
    """Where the first element of a view, or the byte of a pointer, lies. Raises UnknownLayoutError."""
    if op.name in POINTER_STEPS:
        return _of_pointer(op) if POINTER_STEPS[op.name] == "window" else Beginning()
    rule = _BEGINNINGS.get(VIEW_OPS[op.name])
    return Beginning() if rule is None else rule(op)


def reached(
    start: T | None,
    steps: Iterable[ViewStep],
    of: Callable[[ViewStep], T | None],
    plus: Callable[[T, T], T],
) -> T | None:
    """The sum of a start and of steps in some domain, None where a part is not known."""
    for step in steps:
        more = of(step)
        if start is None or more is None:
            return None
        start = plus(start, more)
    return start


class Window(NamedTuple):
    """Offsets, sizes and strides of memref.subview and memref.reinterpret_cast."""

    offsets: tuple[Number, ...]
    sizes: tuple[Number, ...]
    strides: tuple[Number, ...]


@remembered
def window_of(op: Operation) -> Window:
    """Static numbers, operands where they are dynamic."""
    position = 1
    parts = []
    for name in ("static_offsets", "static_sizes", "static_strides"):
        numbers: list[Number] = []
        for number in ir.DenseI64ArrayAttr(op.attributes[name]):
            if number == DYNAMIC:
                numbers.append(Operand(position))
                position += 1
            else:
                numbers.append(int(number))
        parts.append(tuple(numbers))
    return Window(*parts)


def _of_window(op: Operation) -> Beginning:
    kind = ir.MemRefType(op.operands[0].type)
    strides, _ = strides_and_offset(kind)
    size = element_bytes(kind)
    window = window_of(op)
    steps = []
    for offset, taken, whole, stride in zip(
        window.offsets, window.sizes, kind.shape, strides, strict=True
    ):
        last = None if whole < 0 else int(whole) - (taken if isinstance(taken, int) else 1)
        if offset != 0:
            steps.append(ViewStep(offset, stride, size, last))
    return Beginning(tuple(steps))


def _of_layout(op: Operation) -> Beginning:
    (offset,) = window_of(op).offsets
    return Beginning((ViewStep(offset, 1, element_bytes(op.results[0].type)),), of_aligned=True)


def _of_pointer(op: Operation) -> Beginning:
    constant, dynamic = steps_of(op)
    return Beginning(
        (
            ViewStep(constant, 1, 1),
            *(ViewStep(Operand(operand), 1, size) for operand, size in dynamic),
        )
    )


# What leaves the first element where it is has no rule.
_BEGINNINGS: dict[Shown, Callable[[Operation], Beginning]] = {
    "window": _of_window,
    "bytes": lambda op: Beginning((ViewStep(Operand(1), 1, 1),)),
    "layout": _of_layout,
}


class ViewFrame(NamedTuple, Generic[S]):
    """A coordinate system on a root: `base` in bytes, `shape` and `strides` in elements.

    None stands for what is not static. `bits` is the size of one element.
    """

    base: Form[S]
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    bits: int


class Axis(NamedTuple):
    """One dimension of a memref: steps of `step` along dimension `dimension` of its frame."""

    dimension: int
    step: int


class View(NamedTuple, Generic[S]):
    """A memref or pointer value. `root` names the memory.

    `start` is the position of its first element in the frame; `axes` one a dimension of the
    memref, `sizes` its extents. `start` is None where it is not known. `unit` is the length of
    one element in the frame: 1, or its bytes where the frame counts bytes. `aligned` is the byte
    of its aligned pointer, None where that is not known.
    """

    root: Any
    frame: ViewFrame[S]
    start: tuple[Form[S], ...] | None
    axes: tuple[Axis, ...]
    sizes: tuple[int | None, ...]
    unit: int = 1
    aligned: Form[S] | None = ZERO

    @property
    def forms(self) -> tuple[Form[S], ...]:
        """All numbers that it is made of."""
        aligned = () if self.aligned is None else (self.aligned,)
        return (self.frame.base, *(self.start or ()), *aligned)


class Piece(NamedTuple, Generic[S]):
    """Positions along one frame dimension: start + sum of step * i + j, i < count, j < length."""

    start: Form[S]
    steps: tuple[tuple[int, int], ...]
    length: int


class Region(NamedTuple, Generic[S]):
    """What one access touches; a piece that is None is the whole dimension.

    `lanes`: only lanes of a warp below this number access (None: all).
    """

    root: Any
    frame: ViewFrame[S]
    pieces: tuple[Piece[S] | None, ...]
    certain: bool
    lanes: int | None


BYTES: ViewFrame[Any] = ViewFrame(ZERO, (None,), (1,), 8)


def whole_root(root: Any) -> Region[Any]:
    return Region(root, BYTES, (None,), False, None)


def pointer_view(root: Any, at: Form[S] | None) -> View[S]:
    """The pointer to a byte of a root, to any of them if that is None."""
    return View(root, BYTES, None if at is None else (at,), (), (), aligned=at)


def root_view(root: Any, kind: Any) -> View[Any]:
    """The view of a root by its own type (a memref or a pointer)."""
    memref = as_kind(ir.MemRefType, kind)
    if memref is None:
        return pointer_view(root, ZERO)
    offset = offset_bytes(memref)
    return _whole(root, frame_of(ZERO, memref), None if offset is None else Form(-offset))


def _whole(root: Any, frame: ViewFrame[S], aligned: Form[S] | None) -> View[S]:
    rank = len(frame.shape)
    axes = tuple(Axis(d, 1) for d in range(rank))
    return View(root, frame, (ZERO,) * rank, axes, frame.shape, aligned=aligned)


def somewhere(root: Any, kind: Any) -> View[Any]:
    """A memref or pointer into a root: where is not known."""
    return root_view(root, kind)._replace(start=None, aligned=None)


def frame_of(base: Form[S], memref: Any) -> ViewFrame[S]:
    """The frame of a memref type whose first element is at byte `base`."""
    shape = _sizes(memref)
    # Where it is not known how far apart elements lie, dynamic strides say that too.
    strides, unit = strides_and_bytes(memref) or ([None] * len(shape), 1)
    return ViewFrame(base, shape, tuple(strides), 8 * unit)


def _sizes(memref: Any) -> tuple[int | None, ...]:
    return tuple(None if s < 0 else int(s) for s in memref.shape)


Read: TypeAlias = Callable[[int], Form[S]]
"""The form of an op's operand, by its position."""


def viewed(op: Operation, source: View[S], read: Read[S]) -> View[S]:
    """What an op makes of the view that operand 0 is; a cast that no table has shows the same."""
    if op.name in POINTER_STEPS:
        same = POINTER_STEPS[op.name] == "same"
        return source if same else pointer_view(source.root, _begun(op, source, read))
    return _RULES[VIEW_OPS.get(op.name, "same")](op, source, read)


def _begun(op: Operation, source: View[S], read: Read[S]) -> Form[S] | None:
    """The byte of the root at which the result of an op begins, None where it is not known."""
    begin = if_known(beginning, op)
    if begin is None:
        return None

    def of(step: ViewStep) -> Form[S] | None:
        amount = _form(step.amount, read)
        if amount == ZERO:
            return ZERO
        return None if step.stride is None else scale(amount, step.stride * step.size)

    return reached(
        source.aligned if begin.of_aligned else start_bytes(source), begin.steps, of, add
    )


def _form(number: Number, read: Read[S]) -> Form[S]:
    return Form(number) if isinstance(number, int) else read(number.position)


def _subview(op: Operation, source: View[S], read: Read[S]) -> View[S]:
    memref = ir.MemRefType(op.results[0].type)
    window = window_of(op)
    strides = [_form(stride, read) for stride in window.strides]
    kept = _kept_dimensions(window.sizes, memref)
    if source.start is None or kept is None or not all(s.is_constant for s in strides):
        return _unknown(source, memref)
    start = list(source.start)
    for axis, offset in zip(source.axes, window.offsets, strict=True):
        moved = scale(_form(offset, read), axis.step)
        start[axis.dimension] = add(start[axis.dimension], moved)
    axes = tuple(
        Axis(source.axes[d].dimension, source.axes[d].step * strides[d].constant) for d in kept
    )
    return source._replace(start=tuple(start), axes=axes, sizes=_sizes(memref))


def _kept_dimensions(sizes: Sequence[Number], memref: Any) -> list[int] | None:
    """Which source dimensions a rank-reducing subview keeps; None if that is not clear."""
    result = _sizes(memref)
    kept: list[int] = []
    dropped = len(sizes) - len(result)
    for dimension, size in enumerate(sizes):
        wanted = result[len(kept)] if len(kept) < len(result) else None
        if dropped and size == 1 and wanted != 1:
            dropped -= 1
        else:
            kept.append(dimension)
    return None if dropped else kept


def _unknown(source: View[S], memref: Any) -> View[S]:
    """Some part of the root of `source`: where is not known."""
    rank = len(list(memref.shape))
    return View(
        source.root,
        source.frame,
        None,
        (Axis(0, 1),) * rank,
        _sizes(memref),
        aligned=source.aligned,
    )


def _in_bytes(op: Operation, source: View[S], start: Form[S] | None) -> View[S]:
    """A memref view by bytes of the root: strides of the result's type count."""
    memref = ir.MemRefType(op.results[0].type)
    known = strides_and_bytes(memref)
    if known is None or start is None or None in known[0]:
        return _unknown(source, memref)
    strides, unit = known
    axes = tuple(Axis(0, s * unit) for s in strides if s is not None)
    return View(source.root, BYTES, (start,), axes, _sizes(memref), unit, source.aligned)


def _byte_window(op: Operation, source: View[S], read: Read[S]) -> View[S]:
    """memref.view: a new frame of the result's type, which is its own aligned pointer."""
    memref = ir.MemRefType(op.results[0].type)
    base = _begun(op, source, read)
    if base is None:
        return _unknown(source, memref)._replace(aligned=None)
    return _whole(source.root, frame_of(base, memref), base)


def _laid_out(op: Operation, source: View[S], read: Read[S]) -> View[S]:
    """memref.reinterpret_cast: bytes after the aligned pointer, unless it changes nothing."""
    start = _begun(op, source, read)
    strides = [source.frame.strides[axis.dimension] for axis in source.axes]
    own = tuple(
        None if stride is None else stride * axis.step
        for stride, axis in zip(strides, source.axes, strict=True)
    )
    memref = ir.MemRefType(op.results[0].type)
    frame = frame_of(ZERO, memref)
    if (
        (frame.strides, frame.shape, frame.bits) == (own, source.sizes, source.frame.bits)
        and None not in (*own, *source.sizes)
        and start is not None
        and start == start_bytes(source)
    ):
        return source
    return _in_bytes(op, source, start)


def _regrouped(op: Operation, source: View[S], read: Read[S]) -> View[S]:
    """memref.expand_shape and collapse_shape: in the frame of the source where each new dimension
    goes along one of it.

    %v = memref.expand_shape %b [[0, 1]] output_shape [2, 8]      %v[i, j]  -->  %b[8 i + j]
    %v = memref.collapse_shape %b [[0, 1]]  of memref<1x16xf32>   %v[i]     -->  %b[0, i]
    """
    groups = [[int(ir.IntegerAttr(n)) for n in ir.ArrayAttr(g)] for g in _groups(op)]
    sizes = _sizes(ir.MemRefType(op.results[0].type))
    joins = len(sizes) < len(source.sizes)
    axes = _joined(groups, source) if joins else _split(groups, source, sizes)
    if axes is None or source.start is None:
        return _in_bytes(op, source, start_bytes(source))
    return source._replace(axes=axes, sizes=sizes)


def _groups(op: Operation) -> Any:
    return ir.ArrayAttr(op.attributes["reassociation"])


def _split(
    groups: list[list[int]], source: View[S], sizes: tuple[int | None, ...]
) -> tuple[Axis, ...] | None:
    axes: list[Axis] = []
    for axis, group in zip(source.axes, groups, strict=True):
        inner = 1
        row = []
        for number in reversed(group):
            row.append(Axis(axis.dimension, axis.step * inner))
            size = sizes[number]
            if size is None and number != group[0]:
                return None
            inner *= size or 1
        axes += reversed(row)
    return tuple(axes)


def _joined(groups: list[list[int]], source: View[S]) -> tuple[Axis, ...] | None:
    axes = []
    for group in groups:
        long = [number for number in group if source.sizes[number] != 1] or group[-1:]
        if not long:
            return None
        axis, length = source.axes[long[-1]], source.sizes[long[-1]]
        for number in reversed(long[:-1]):
            outer = source.axes[number]
            if length is None or outer != Axis(axis.dimension, axis.step * length):
                return None
            size = source.sizes[number]
            length = None if size is None else length * size
        axes.append(axis)
    return tuple(axes)


def _permuted(op: Operation, source: View[S], read: Read[S]) -> View[S]:
    order = [
        int(ir.AffineDimExpr(result).position)
        for result in ir.AffineMapAttr(op.attributes["permutation"]).value.results
    ]
    return source._replace(
        axes=tuple(source.axes[number] for number in order),
        sizes=tuple(source.sizes[number] for number in order),
    )


def _same(op: Operation, source: View[S], read: Read[S]) -> View[S]:
    memref = ir.MemRefType(op.results[0].type)
    return source if memref.rank == len(source.sizes) else _unknown(source, memref)


_RULES: dict[Shown, Callable[..., View[Any]]] = {
    "window": _subview,
    "bytes": _byte_window,
    "layout": _laid_out,
    "regrouped": _regrouped,
    "permuted": _permuted,
    "same": _same,
}


def start_bytes(view: View[S]) -> Form[S] | None:
    """The byte of the root at which a view starts."""
    if view.start is None:
        return None
    total = view.frame.base
    for position, stride in zip(view.start, view.frame.strides, strict=True):
        if position == ZERO:
            continue
        if stride is None or (stride * view.frame.bits) % 8:
            return None
        total = add(total, position, stride * view.frame.bits // 8)
    return total


def region_of(
    view: View[S],
    indices: Sequence[Form[S]],
    extent: tuple[int, ...] | None,
    *,
    certain: bool = True,
    lanes: int | None = None,
    shares: tuple[Share, ...] | None = None,
    contiguous: bool = False,
) -> Region[S]:
    """The region of an access: from `indices` on `extent` elements in the trailing dimensions, or a
    thread's part of `shares`.

    Without subscripts on a memref, or with extent None, the whole view is touched. A `contiguous` access
    has its elements side by side, whatever strides the view has:

        2 of f32 at [t] of strided<[4]>    bytes 16 t to 16 t + 8
    """
    if contiguous:
        return _side_by_side(view, indices, extent, certain, lanes)
    if view.start is None:
        return Region(view.root, view.frame, (None,) * len(view.frame.shape), False, None)
    if not view.axes and view.frame == BYTES:
        size = extent[0] if extent else None
        byte = None if size is None else Piece(view.start[0], (), size)
        return Region(view.root, BYTES, (byte,), certain and byte is not None, lanes)
    counts: list[int | None]
    counts = [1] * len(view.axes)
    more: list[tuple[tuple[int, int], ...]] = [()] * len(view.axes)
    if shares is not None:
        counts = [share.length for share in shares]
        more = [share.steps for share in shares]
    elif extent is None or (not indices and view.axes):
        counts = list(view.sizes)
        indices = [ZERO] * len(view.axes)
    else:
        for number, length in enumerate(reversed(extent)):
            if number < len(counts):
                counts[len(counts) - 1 - number] = length
    starts = list(view.start)
    steps: list[list[tuple[int, int]] | None] = [[] for _ in view.frame.shape]
    for axis, index, count, apart in zip(view.axes, indices, counts, more, strict=True):
        dimension = axis.dimension
        starts[dimension] = add(starts[dimension], index, axis.step)
        row = steps[dimension]
        if count is None:
            steps[dimension] = None
        elif row is not None:
            row.extend((axis.step * s, n) for s, n in ((1, count), *apart) if n != 1)
    pieces = tuple(
        None if row is None else _piece(start, row, view.unit)
        for start, row in zip(starts, steps, strict=True)
    )
    region = Region(view.root, view.frame, pieces, certain, lanes)
    if not overlaps(view.frame.shape, view.frame.strides):
        return region
    return as_bytes(region) or whole_root(view.root)


def _side_by_side(
    view: View[S],
    indices: Sequence[Form[S]],
    extent: tuple[int, ...] | None,
    certain: bool,
    lanes: int | None,
) -> Region[S]:
    flat = None
    if extent and prod(extent[:-1]) == 1:
        flat = as_bytes(region_of(view, indices, (1,), certain=certain, lanes=lanes))
    piece = flat.pieces[0] if flat is not None else None
    if extent is None or flat is None or piece is None or piece.steps:
        return whole_root(view.root)
    return flat._replace(pieces=(piece._replace(length=piece.length * extent[-1]),))


@cache
def overlaps(shape: tuple[int | None, ...], strides: tuple[int | None, ...]) -> bool:
    """Whether static strides give two subscripts one element, so that dimensions may not be compared one by
    one: [64, 2] with strides [1, 1] has element 1 at [1, 0] and at [0, 1]. What is not static is taken
    to be apart, as a memref of dynamic strides is."""
    known = zip(strides, shape, strict=True)
    reach = 0
    for stride, size in sorted(
        (t, n) for t, n in known if t is not None and n is not None and n > 1
    ):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _piece(start: Form[S], steps: list[tuple[int, int]], length: int) -> Piece[S]:
    """Fold steps as long as the piece so far into its length."""
    kept = []
    for step, count in sorted(steps):
        if step == length:
            length *= count
        else:
            kept.append((step, count))
    return Piece(start, tuple(kept), length)


def as_bytes(region: Region[S]) -> Region[S] | None:
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
        start = add(start, piece.start, unit)
        steps.extend((step * unit, count) for step, count in piece.steps)
        if piece.length != 1:
            steps.append((unit, piece.length))
    whole = _piece(start, steps, max(1, frame.bits // 8))
    return Region(region.root, BYTES, (whole,), region.certain, region.lanes)
