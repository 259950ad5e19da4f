"""Where an access lands: its root, and subscripts as linear forms in the root's own shape.

    %s = memref.subview %buffer[%i, 0] [16, 32] [1, 1]
    vector.load %s[%r, 8] : vector<8xf16>        region: %buffer, [%i + %r, 8], extent (1, 8)

    amdgpu.gather_to_lds … %b[%wave, 0] : vector<8xf16>, memref<4x512xf16, 3>
                                                 region: %b, [%wave, 0], extent (1, 512)

Copies to LDS of gfx9 and gfx10 write one piece a lane from the address of the first lane on. Views that stay in the
coordinates of what they are views of (`values.views`) are followed; any other keeps its own coordinates (`base`), so
that two accesses through different such views cannot be compared.

A call of a known function touches memory that is given to it, and nothing else:

    func.call @put(%C, %i, %v)      writes somewhere in what %C shows; a pure callee touches nothing

A callee that waits, meets other threads, orders memory for them, issues copies, calls on, or
reaches memory of its own or of the module is not followed: it may touch anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    constant_value,
    defining_op,
    parent,
    walk,
)
from mlir_async_pipe.facts.loops.statements import is_synchronisation
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import Root, from_the_start, is_pointer, root_of
from mlir_async_pipe.facts.values.sums import ZERO
from mlir_async_pipe.facts.values.views import BYTES, View, overlaps, region_of, root_view, viewed
from mlir_async_pipe.vocabulary import (
    ALLOCATION_OPS,
    VIEW_OPS,
    Access,
    accesses,
    is_barrier,
    order_of,
    row_of,
)
from mlir_async_pipe.vocabulary.control_flow import (
    CALL_OPS,
    EXIT_OPS,
    REGION_ROWS,
    followed_callee,
    runs_once,
)
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS, global_name
from mlir_async_pipe.vocabulary.rows import UNORDERED, MemoryOrder, both


@dataclass(frozen=True)
class CoveredRegion:
    """What one access of a loop body covers.

    `subscripts` and `extent` have one entry a dimension of `base`; None where the access cannot be described, which
    stands for all of the root. `conditional`: the access happens in some executions of the statement only. `top` is the
    top-level op of the loop body that holds the access and `position` its textual place among all accesses of the body.
    `lanes` is the number of lanes of a wave. `period`: the layout of the buffer repeats after so many elements, and a
    slot must begin where it does. `order`: what the op orders for other threads.
    """

    access: Access | None
    op: Operation
    top: Operation
    position: int
    root: Root | None
    base: Any
    subscripts: tuple[Linear, ...] | None
    extent: tuple[int, ...] | None
    writes: bool
    conditional: bool
    lanes: int = 32
    period: int = 1
    order: MemoryOrder = UNORDERED

    @cached_property
    def opaque(self) -> bool:
        """An op of which nothing is known: it may touch any memory."""
        return self.root is None and not self.is_fence

    @cached_property
    def is_fence(self) -> bool:
        """An op that touches no memory, and orders what others do."""
        return self.root is None and not self.writes

    @property
    def elements_at_once(self) -> int:
        """Neighbouring elements that one thread touches in one go."""
        extent = None if self.access is None else self.access.extent
        return extent[-1] if extent else 1


def regions_of(
    tops: list[Operation], arithmetic: Arithmetic, lanes: int = 32
) -> list[CoveredRegion]:
    """All accesses of top-level ops, in textual order, nested ones included; `lanes` is the
    number of lanes of a wave."""
    found: list[CoveredRegion] = []
    for top in tops:
        for op in walk(top) if len(top.regions) else (top,):
            _regions_of_op(op, top, arithmetic, lanes, found)
    return found


def _regions_of_op(
    op: Operation, top: Operation, arithmetic: Arithmetic, lanes: int, found: list[CoveredRegion]
) -> None:
    own, order = accesses(op), order_of(op)
    if row_of(op).fences_sums and not own:
        # It stays before its products, and behind what fills their registers.
        order = both("thread")
    conditional = op != top and _is_conditional(op, top)
    for access in own:
        where = _coordinates(access, arithmetic, lanes)
        maybe = conditional or not access.certain
        ends = (len(found), root_of(access.memory), *where, access.writes, maybe, lanes)
        found.append(CoveredRegion(access, op, top, *ends, order=order))
    if own or not (is_opaque(op) or (order.orders and not is_barrier(op))):
        return
    called = touched_by_call(op)
    if called is not None:
        order = UNORDERED
    for known, writes in [(None, is_opaque(op))] if called is None else called:
        base = None if known is None else known.key
        maybe = conditional or called is not None
        found.append(
            CoveredRegion(
                *(None, op, top, len(found), known, base, None, None, writes, maybe), order=order
            )
        )


def by_root(regions: Iterable[CoveredRegion]) -> dict[Any, list[CoveredRegion]]:
    """The accesses of each memory that is known, by the identity of its root."""
    found: dict[Any, list[CoveredRegion]] = {}
    for region in regions:
        if region.root is not None:
            found.setdefault(region.root.identity, []).append(region)
    return found


# Branches between blocks are not followed here: an op that holds some is opaque.
_STRUCTURE = frozenset(
    {row.op for row in REGION_ROWS.values() if row.flow != "isolated"}
    | set(EXIT_OPS)
    | {*DEALLOCATION_OPS, *ALLOCATION_OPS}
)


def is_opaque(op: Operation) -> bool:
    """Whether nothing is known of the memory that the op itself touches."""
    row = row_of(op)
    if row.described:
        return row.opaque is not None
    return not row.pure and op.name not in _STRUCTURE


def _is_conditional(op: Operation, top: Operation) -> bool:
    """Whether some region op between `op` and `top` may skip it."""
    current = op
    while current != top:
        above = parent(current)
        assert above is not None
        if above.name == "scf.for":
            lower, upper = map(constant_value, list(above.operands)[:2])
            if lower is None or upper is None or lower >= upper:
                return True
        elif not runs_once(above):
            return True
        current = above
    return False


def _coordinates(
    access: Access, arithmetic: Arithmetic, lanes: int
) -> tuple[Any, tuple[Linear, ...] | None, tuple[int, ...] | None]:
    """The base, subscripts and extent of an access, through subviews, casts and pointers."""
    memory = access.memory
    if is_pointer(memory):
        found = from_the_start(memory, arithmetic)
        if found is None or access.extent is None or len(access.extent) != 1 or access.over_lanes:
            return _base_of(memory), None, None
        return found[0], (found[1],), access.extent
    view = None if access.contiguous else _view_of(memory, arithmetic)
    rank = _rank(memory)
    if view is None or access.extent is None or rank is None or len(access.indices) != rank:
        return _base_of(memory), None, None
    subscripts = [arithmetic.linear(index) for index in access.indices]
    missing = rank - len(access.extent)
    if missing < 0:
        return _base_of(memory), None, None
    extent = [1] * missing + list(access.extent)
    if access.over_lanes:
        spread = _over_lanes(extent, subscripts, memory, lanes)
        if spread is None:
            return _base_of(memory), None, None
        extent = spread
    boxes = [
        (piece.start, piece.length)
        for piece in region_of(view, subscripts, tuple(extent)).pieces
        if piece is not None and not piece.steps
    ]
    frame = view.frame
    if len(boxes) < len(frame.shape) or frame == BYTES or overlaps(frame.shape, frame.strides):
        return _base_of(memory), None, None
    return view.root, tuple(start for start, _ in boxes), tuple(length for _, length in boxes)


def _view_of(memory: Value, arithmetic: Arithmetic) -> View[Value] | None:
    """A memref by the coordinates of what it is a view of; None without a rank. What counts in other
    coordinates than its source has its own."""
    ops: list[Operation] = []
    start = memory
    while (op := defining_op(start)) is not None and VIEW_OPS.get(op.name, "bytes") != "bytes":
        ops.append(op)
        start = op.operands[0]
    name = None if op is None else global_name(op)
    view = root_view(start if name is None else name, start.type)
    for op in reversed(ops):
        if _rank(op.results[0]) is None:
            return None
        found = viewed(op, view, partial(_form_of_operand, op, arithmetic))
        if found.start is None or found.frame != view.frame:
            found = root_view(op.results[0], op.results[0].type)
        view = found
    return view


def _form_of_operand(op: Operation, arithmetic: Arithmetic, position: int) -> Linear:
    return arithmetic.linear(op.operands[position])


def _over_lanes(
    extent: list[int], subscripts: list[Linear], memory: Value, lanes: int
) -> list[int] | None:
    """The box that the pieces of all lanes of a wave cover, which lie one after the other.

    None where they are no box: rows that are not dense, or that do not begin at column 0.
    """
    kind = ir.MemRefType(memory.type)
    strides, _ = kind.get_strides_and_offset()
    shape = list(kind.shape)
    left, box = prod(extent) * lanes, [1] * len(extent)
    expected = 1
    for dimension in reversed(range(len(shape))):
        if strides[dimension] != expected:
            return None
        if left <= shape[dimension] or dimension == 0:
            box[dimension] = left
            return box
        whole = subscripts[dimension] == ZERO
        if not whole or shape[dimension] <= 0 or left % shape[dimension]:
            return None
        box[dimension] = shape[dimension]
        left //= shape[dimension]
        expected *= shape[dimension]
    return box


def _rank(memory: Value) -> int | None:
    memref = as_kind(ir.MemRefType, memory.type)
    return None if memref is None else int(memref.rank)


def _base_of(memory: Value) -> Any:
    return root_of(memory).key


def touched_by_call(call: Operation) -> list[tuple[Root, bool]] | None:
    """The memory that a call touches, each with whether it writes; None: nothing is known."""
    callee = followed_callee(call)
    if callee is None:
        return None
    entry = callee.regions[0].blocks[0]
    passed_in: dict[Value, Value] = dict(zip(entry.arguments, call.operands, strict=True))
    found: dict[tuple[object, bool], tuple[Root, bool]] = {}
    for op in walk(callee):
        if op == callee:
            continue
        orders = is_synchronisation(op) or order_of(op) != UNORDERED
        opaque = op.name not in EXIT_OPS and is_opaque(op)
        if op.name in CALL_OPS or orders or opaque or row_of(op).asynchronous(op):
            return None
        for access in accesses(op):
            inner = root_of(access.memory)
            if inner.value not in passed_in:
                return None
            root = root_of(passed_in[inner.value])
            if root.is_buffer:
                # A buffer of the caller may get versions, and no slot can be forwarded.
                return None
            found[root.identity, access.writes] = (root, access.writes)
    return list(found.values())
