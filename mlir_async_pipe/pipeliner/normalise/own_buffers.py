"""Gives a loop buffers of its own where it uses parts of a larger one, so that each can have versions.

    %bytes = memref.alloc() : memref<8192xi8, …>
    %a = memref.view %bytes[%c0][] : … to memref<1024xf32, …>       %a = memref.alloc() : memref<1024xf32, …>
    %b = memref.view %bytes[%c4096][] …                       -->   %b = memref.alloc() …

    %v = memref.subview %tile[0, 4] [8, 8] …                        scf.for … {
    scf.for … { … %v[%i, %j] … }                              -->     %v = memref.subview … ; … %v[%i, %j] … }

Windows become buffers if all views of the bytes have constant places, and none overlaps another
(the same place and type twice is one buffer). A view of a buffer is made again in the loop, where it
can show a slot; what cannot show one stays outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    FUNCTION_OPS,
    Operation,
    OpWriter,
    Value,
    again,
    ancestors,
    before,
    clone,
    constant_value,
    defining_op,
    enclosing,
    erase,
    grow_group,
    is_used,
    operations,
    outermost,
    remap,
    source_op,
    symbol_name,
    unchanged,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.chips.target import target_for
from mlir_async_pipe.facts.flow.algorithms import computed, post_order
from mlir_async_pipe.facts.loops.annotations import (
    carried_attributes,
    counted_loops,
    in_latency_form,
    in_op_form,
    read_loop,
    requested_loops,
    retyped,
    static_trip_count,
)
from mlir_async_pipe.facts.loops.statements import Body, read_body
from mlir_async_pipe.facts.loops.transactions import has_transactions, operand
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, root_of, viewed_memref
from mlir_async_pipe.facts.values.sums import ZERO
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.privatise import SameEachTime, unproven_read
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, by_root, regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.normalise.normalise_pass import NormaliseOptions
from mlir_async_pipe.pipeliner.plan.buffer_plan import can_move
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import (
    VIEW_OPS,
    accesses,
    groups_of,
    is_barrier,
    is_pure,
    row_of,
    use_of,
)
from mlir_async_pipe.vocabulary.barriers import write_fence
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_layout import if_known, is_dense, span_bytes, strided_type
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    ADDRESS_OPS,
    DEALLOCATION_OPS,
    MEMBER_TAKEN,
    POINTER_OF_ADDRESS,
    global_name,
)

VIEW = "memref.view"
# What a copy of 16 bytes needs; a buffer at a place with less stays where it is.
ALIGNMENT = 16


def own_buffers(loop: Operation) -> None:
    """Rewrite the windows that the loop touches, then make its views again inside of it."""
    with unchanged():
        touched = _touched(loop)
        sources = _bytes_of_windows(touched)
    for source in sources:
        windows = _windows(source)
        if windows:
            _allocate(windows)
            _forget(source, windows)
    _make_views_again(loop, _touched(loop) if sources else touched)


@dataclass(frozen=True)
class OwnWindow:
    """A memref.view of a constant place: its bytes begin at `start` and end before `end`."""

    view: Operation
    start: int
    end: int


def _touched(loop: Operation) -> list[Value]:
    """The workgroup memory that a loop accesses, each value once."""
    found = dict.fromkeys(access.memory for op in walk(loop) for access in accesses(op))
    return [memory for memory in found if root_of(memory).space == "workgroup"]


def _bytes_of_windows(touched: list[Value]) -> list[Operation]:
    """The allocations and globals that a loop uses through memref.view, each once."""
    found: dict[Any, Operation] = {}
    for memory in touched:
        root = root_of(memory)
        source = defining_op(root.value)
        through = any(view.name == VIEW for view in _chain(memory))
        if through and source is not None and root.kind in ("allocation", "global"):
            found.setdefault(root.identity, source)
    return list(found.values())


def _chain(memory: Value) -> Iterator[Operation]:
    """The views from a value to its root, last first."""
    op = defining_op(memory)
    while op is not None and op.name in VIEW_OPS:
        yield op
        op = defining_op(op.operands[0])


def _windows(source: Operation) -> list[OwnWindow]:
    """The windows of an allocation, or of a global in its function; none if they are not all that names these bytes."""
    name = global_name(source)
    names = [source]
    if name is not None:
        names = [op for op in walk(outermost(source)) if global_name(op) == name]
        if len({enclosing(op, FUNCTION_OPS) for op in names}) > 1:
            return []
    found = []
    for op in (user for each in names for user in users(each.results[0])):
        window = _window(op)
        if window is None:
            return []
        found.append(window)
    found.sort(key=lambda window: (window.start, window.end))
    for one, other in pairwise(found):
        same = (one.start, one.view.results[0].type) == (other.start, other.view.results[0].type)
        if one.end > other.start and not same:
            return []
    return found


def _window(op: Operation) -> OwnWindow | None:
    if op.name != VIEW or len(op.operands) != 2:
        return None
    start, size = constant_value(op.operands[1]), if_known(span_bytes, op.results[0].type)
    if start is None or size is None or start % ALIGNMENT:
        return None
    return OwnWindow(op, start, start + size)


def _allocate(windows: list[OwnWindow]) -> None:
    """One allocation for each place, before all of the function's other ops."""
    function = enclosing(windows[0].view, FUNCTION_OPS)
    assert function is not None
    first = operations(function.regions[0].blocks[0])[0]
    i64 = ir.IntegerType.get_signless(64, function.context)
    attributes = {
        "alignment": ir.IntegerAttr.get(i64, ALIGNMENT),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0], function.context),
    }
    made: dict[int, Value] = {}
    for window in windows:
        result = window.view.results[0]
        if window.start not in made:
            write = OpWriter(ir.InsertionPoint(first), window.view.location)
            made[window.start] = write.make("memref.alloc", (), result.type, attributes)
        result.replace_all_uses_with(made[window.start])


def _forget(source: Operation, windows: list[OwnWindow]) -> None:
    """Erase the views, and what nobody names any more."""
    name = global_name(source)
    module = outermost(source)
    sources = {defining_op(window.view.operands[0]) for window in windows}
    erase(window.view for window in windows)
    erase(op for op in sources if op is not None)
    if name is not None:
        named = walk_named(module, "memref.global".__eq__)
        erase(op for op in named if symbol_name(op) == name)


def _make_views_again(loop: Operation, touched: list[Value]) -> None:
    """Clone the views outside of the loop that its accesses use to its beginning."""
    body = operations(loop.regions[0].blocks[0])
    made: dict[Value, Value] = {}
    for memory in touched:
        outside = [op for op in _chain(memory) if loop not in list(ancestors(op))]
        if not all(map(can_move, outside)):
            continue
        for op in reversed(outside):
            if op.results[0] not in made:
                clone(op, made, ir.InsertionPoint(body[0]))
    for op in body if made else ():
        remap(op, made)
    dead = [defining_op(value) for value in made if not users(value)]
    erase(op for op in dead if op is not None)


@register(
    "async-pipe-normalise-buffers", "give loops buffers of their own for windows of larger ones"
)
def run(module: Any, options: NoOptions, session: Session) -> None:
    for loop in counted_loops(module):
        own_buffers(loop)


# Addresses of tiles --------------------------------------------------------------------------


def sink_addresses_of(memory: list[Value], loop: Operation) -> None:
    """Let the loop compute the addresses of the buffers that these are views of, or pointers to."""
    tiles = {root_of(tile).identity for tile in memory}
    first = operations(loop.regions[0].blocks[0])[0]
    addresses, sunk = _Addresses(tiles), dict[Value, Value]()
    for op in list(walk(loop)):
        for number, value in enumerate(op.operands if op != loop else ()):
            if _is_outside(value, loop) and value in addresses:
                op.operands[number] = _sunk(value, addresses, sunk, first)
    for op in [op for op in walk(loop) if op.name == MEMBER_TAKEN]:
        if op.results[0] in addresses:
            _write_address(op)
    addresses = _Addresses(tiles)
    made = [op for op in (*map(source_op, sunk), *walk(loop)) if len(op.results)]
    for op in reversed([op for op in made if op.results[0] in addresses]):
        if not is_used(op.results[0]):
            op.erase()


def _is_outside(value: Value, loop: Operation) -> bool:
    made = defining_op(value)
    return made is not None and loop not in ancestors(made)


class _Addresses:
    """What is made of the addresses of tiles; each value is looked at once, so nothing may be erased in between."""

    def __init__(self, tiles: set[Any]) -> None:
        self._tiles = tiles
        self._known: dict[Value, bool] = {}

    def __contains__(self, value: Value) -> bool:
        return computed(value, self._known, _sources, self._is_of_tile)

    def _is_of_tile(self, value: Value) -> bool:
        memory = _memref_of(value)
        if memory is None:
            return any(self._known[source] for source in _sources(value))
        return root_of(memory).identity in self._tiles


def _sources(value: Value) -> list[Value]:
    """The numbers and pointers that one is computed of."""
    op = defining_op(value)
    if op is None or len(op.results) != 1 or len(op.regions) or not is_pure(op):
        return []
    return [] if _is_memref(value) or _memref_of(value) is not None else list(op.operands)


def _memref_of(value: Value) -> Value | None:
    op = defining_op(value)
    if op is None or op.name not in (*ADDRESS_OPS, *CAST_OPS) or len(op.results) != 1:
        return None
    return op.operands[0] if _is_memref(op.operands[0]) and not _is_memref(value) else None


def _is_memref(value: Value) -> bool:
    return str(value.type).startswith("memref<")


def _sunk(value: Value, addresses: _Addresses, sunk: dict[Value, Value], first: Operation) -> Value:
    """The value, computed before `first` again."""

    def sources(made: Value) -> list[Value]:
        wanted = source_op(made).operands if made not in sunk else ()
        return [source for source in wanted if source in addresses]

    for each in post_order([value], sources):
        if each not in sunk:
            op = source_op(each)
            operands = {source: sunk[source] for source in op.operands if source in sunk}
            sunk[each] = clone(op, operands, before(first)).results[0]
    return sunk[value]


def _write_address(op: Operation) -> None:
    """A pointer to the allocation of a memref, by the memref's address as a number."""
    memory = viewed_memref(op)
    if memory is None:
        return
    write = IntegerWriter.before(op)
    at = write.cast(ADDRESS_OF_MEMREF, memory, write.index)
    number = write.cast("arith.index_cast", at, ir.IntegerType.get_signless(64, op.context))
    pointer = write.cast(POINTER_OF_ADDRESS, number, op.results[0].type)
    op.results[0].replace_all_uses_with(pointer)
    op.erase()


@register(
    "async-pipe-normalise-addresses", "compute the addresses of tiles in the loop that fills them"
)
def run_addresses(module: Any, options: NoOptions, session: Session) -> None:
    """Computes the addresses of tiles in the loop that copies or stores them, where each iteration has its
    slot.

        %p = llvm.inttoptr (pointer of %tile)          scf.for … {
        scf.for … {                              -->     %p = llvm.inttoptr (pointer of %tile)
          nvvm.cp.async.bulk… %p                         nvvm.cp.async.bulk… %p
        }                                              }

    Clean-ups take such addresses out of loops, since all iterations share one tile. What a conversion
    made of a memref's descriptor becomes its address, too.
    """
    for loop in filter(has_transactions, requested_loops(module)):
        filled = [operand(op, "destination") for op in walk(loop) if use_of(op) == "copy"]
        sink_addresses_of([tile for tile in filled if tile is not None], loop)


# Buffers whose slots a loop counts itself ----------------------------------------------------


@register(
    "async-pipe-normalise-slots",
    "take the slots off buffers whose slots a loop counts itself",
    NormaliseOptions,
)
def run_slots(module: Any, options: NormaliseOptions, session: Session) -> None:
    """Buffers whose slots a loop counts itself: recognised, and reduced to one slot.

        %s = arith.remui %i, %c2                       (gone)
        copy %A[%i] -> %b[%s, %t]                      copy %A[%i] -> %b[%t]
        wait, barrier                          -->     wait, barrier
        use %b[%s, %u]                                 use %b[%u]
                                                       barrier

    The leading subscript of all accesses of an iteration is a slot if it moves with the iteration and is
    the same in all threads, however it is computed. If every iteration overwrites what it reads, nothing
    depends on which slot that is, and one is enough; the pipeliner gives it as many versions as its
    schedule needs. A second slot had made the barrier at the end unnecessary: without it the copy of the
    next iteration would overwrite what is still being read.
    """
    # All are recognised before the first rewrite.
    target = target_for(options, session)
    around = Surroundings(None if target is None else target.chip)
    with unchanged():
        bodies = [read_body(loop) for loop in requested_loops(module) if _is_to_run(loop, options)]
        found = [(b.loop, _recognise(b, around)) for b in bodies if _may_have_slots(b)]
    for loop, roots in found:
        for root in roots:
            _reduce_to_one(root, loop, session)


def _is_to_run(loop: Operation, options: NormaliseOptions) -> bool:
    """Whether a loop has as many iterations as its schedule, at most, keeps in flight."""
    found = read_loop(loop)
    if found.num_stages is not None:
        last = (options.num_stages or found.num_stages) - 1
        if last == 0:
            return False
    elif found.in_loop_form:
        last = max(found.stage or (), default=0)
    elif in_latency_form(loop) and not in_op_form(loop):
        last = options.max_stages - 1
    else:
        return False
    trips = static_trip_count(loop)
    return trips is None or trips >= last


# Tiles have more rows than pipelines have slots: most loops need no closer look.
MOST_SLOTS = 16


def _may_have_slots(body: Body) -> bool:
    """Whether some buffer of the loop has a leading dimension that may be one of slots."""
    ops = (op for statement in body.statements for op in walk(statement.op))
    writing = (op for op in ops if any(rule.kind != "read" for rule in row_of(op).accesses))
    written = {access.memory for op in writing for access in accesses(op) if access.writes}
    return any(_shape_has_slots(root) for root in map(root_of, written) if _is_ours(root))


def _is_ours(root: Root) -> bool:
    return root.is_buffer and root.kind in ("allocation", "attribution") and root.space != "global"


def _recognise(body: Body, around: Surroundings) -> list[Root]:
    """The buffers of a loop that have slots of the author's."""
    loop = body.loop
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    tops = list(dict.fromkeys(statement.op for statement in body.statements))
    regions = regions_of(tops, arithmetic, around.lanes(loop))
    if any(region.opaque for region in regions):
        return []
    found = []
    for own in by_root(regions).values():
        root = own[0].root
        assert root is not None
        if (
            _is_ours(root)
            and _shape_has_slots(root)
            and _rotate_together(own, index)
            and not any(side for side in around.touches_outside(loop, root.identity))
            and _can_lose_slot(root.value, loop)
            and _overwrites(own, root, arithmetic)
        ):
            found.append(root)
    return found


def _shape_has_slots(root: Root) -> bool:
    kind = ir.MemRefType(root.value.type)
    return bool(kind.has_static_shape and kind.rank >= 2 and 2 <= kind.shape[0] <= MOST_SLOTS)


def _rotate_together(own: list[CoveredRegion], index: LoopIndex) -> bool:
    """Whether all have one leading subscript, which moves with the iteration only."""
    if not any(region.writes for region in own):
        return False
    leading = []
    for region in own:
        if region.subscripts is None or region.extent is None or region.extent[0] != 1:
            return False
        if region.root is None or region.base != region.root.value:
            return False
        leading.append(region.subscripts[0])
    first, uniformity = leading[0], Uniformity()
    rotates = SameEachTime(index.loop).what_changes(first.symbols) is not None
    uniform = all(uniformity.difference(symbol) is None for symbol in first.symbols)
    return rotates and uniform and all(each == first for each in leading)


def _overwrites(own: list[CoveredRegion], root: Root, arithmetic: Arithmetic) -> bool:
    """Whether an iteration writes what it reads; inside of its slot, wherever that is."""
    inside = [replace(each, subscripts=(ZERO, *(each.subscripts or ())[1:])) for each in own]
    return unproven_read(root, inside, arithmetic.block_size, written_elsewhere=False) is None


def _reduce_to_one(root: Root, loop: Operation, session: Session) -> None:
    """Take the slots away. Handles to accesses of the buffer are dead afterwards."""
    slots = ir.MemRefType(root.value.type).shape[0]
    said = f"the loop counts {slots} slots of a buffer itself; they go, the pipeline makes as many as it needs"
    notes = (("the buffer", root.value),)
    session.diagnostics.remark(said, code="hand-made-slots", at=loop, notes=notes)
    _lose_slot(root.value, loop)
    *body, end = operations(loop.regions[0].blocks[0])
    barriers = [op for op in body if is_barrier(op)]
    if barriers and barriers[-1] != body[-1]:
        write_fence([root.space], before(end), loop.location)


# The buffer without its leading dimension ----------------------------------------------------

_SUBVIEW = "memref.subview"


def _can_lose_slot(buffer: Value, loop: Operation) -> bool:
    """Whether every user of a buffer can do without its leading subscript: accesses and views in the loop, deallocs."""
    return if_known(is_dense, buffer.type) is True and all(
        user.name in DEALLOCATION_OPS or _can_do_without(user, buffer, loop)
        for user in users(buffer)
    )


def _can_do_without(user: Operation, buffer: Value, loop: Operation) -> bool:
    if loop not in list(ancestors(user)):
        return False
    if user.name == _SUBVIEW:
        sizes = list(ir.DenseI64ArrayAttr(user.attributes["static_sizes"]))
        strides = list(ir.DenseI64ArrayAttr(user.attributes["static_strides"]))
        shape = list(ir.MemRefType(user.results[0].type).shape)
        return sizes[0] == 1 and strides[0] == 1 and shape == sizes[1:]
    own = [access for access in accesses(user) if access.memory == buffer]
    return bool(own) and all(a.takes_slot_index and len(a.index_operands) > 1 for a in own)


def _lose_slot(buffer: Value, loop: Operation) -> None:
    """Rewrite the buffer and all its users. Their handles are dead afterwards."""
    kind = ir.MemRefType(buffer.type)
    reduced = ir.MemRefType.get(
        list(kind.shape)[1:], kind.element_type, memory_space=kind.memory_space, loc=loop.location
    )
    old = defining_op(buffer)
    new = buffer if old is None else retyped(old, reduced)
    for user in users(buffer):
        if user.name in DEALLOCATION_OPS:
            user.operands[len(user.operands) - 1] = new
        elif user.name == _SUBVIEW:
            _rewrite_subview(user, new)
        else:
            _rewrite_access(user, buffer, new)
    if old is None:
        buffer.set_type(reduced)
    else:
        old.erase()


def _rewrite_access(op: Operation, buffer: Value, new: Value) -> None:
    own = [access for access in accesses(op) if access.memory == buffer]
    operands: list[Any] = list(op.operands)
    for access in own:
        operands[access.memory_operand] = new
    gone = {access.index_operands.start for access in own}
    attributes = carried_attributes(op)
    if "operandSegmentSizes" in attributes:
        sizes = [len(group) - len(gone.intersection(group)) for group in groups_of(op).values()]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    kept = [operand for number, operand in enumerate(operands) if number not in gone]
    again(op, kept, attributes=attributes)


def _rewrite_subview(op: Operation, new: Value) -> None:
    attributes = carried_attributes(op)
    offsets = list(ir.DenseI64ArrayAttr(attributes["static_offsets"]))
    operands = [new, *list(op.operands)[1:]]
    if offsets[0] == DYNAMIC:
        del operands[1]
        grow_group(attributes, 1, -1)
    for name in ("static_offsets", "static_sizes", "static_strides"):
        rest = list(ir.DenseI64ArrayAttr(attributes[name]))[1:]
        attributes[name] = ir.DenseI64ArrayAttr.get(rest, op.context)
    old, write = op.results[0].type, OpWriter.before(op)
    value = write.make(_SUBVIEW, operands, _view_type(op, offsets[1:]), attributes)
    if value.type != old:
        value = write.make("memref.cast", [value], old)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _view_type(op: Operation, offsets: list[int]) -> Any:
    """What a subview without the leading dimension infers as its type."""
    old = ir.MemRefType(op.results[0].type)
    source = list(ir.MemRefType(op.operands[0].type).shape)[1:]
    strides, _ = old.get_strides_and_offset()
    start: int | str = "?"
    if DYNAMIC not in offsets:
        start = sum(o * prod(source[n + 1 :]) for n, o in enumerate(offsets))
    return strided_type(old, old.shape, strides, start)
