"""The tiles of a loop of tensor copies: whether each iteration may have one of its own, and whether it may be
copied before what the input does before it.

It may where nobody but the loop touches the buffer, and the loop only reads what it copies. Then
nothing is left of a tile when its products are over, and V slots take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    KERNEL_OPS,
    Operation,
    Value,
    ancestors,
    defining_op,
    enclosing,
    integer_attribute,
    operations,
    parent,
    remembered,
    walk,
)
from mlir_async_pipe.facts.loops.annotations import INDEPENDENT
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.loops.transactions import Transaction
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, is_pointer, overlapping_windows, root_of
from mlir_async_pipe.facts.values.uniformity import conditions
from mlir_async_pipe.lowering.nvvm.shared_memory import asked_of, tensor_alignments
from mlir_async_pipe.pipeliner.dependence.privatise import SameEachTime, declared_private
from mlir_async_pipe.pipeliner.dependence.regions import (
    CoveredRegion,
    by_root,
    is_opaque,
    regions_of,
)
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.buffer_plan import (
    BufferPlan,
    Pairs,
    buffer_type,
    buffer_value,
    can_move,
    slot_bytes,
)
from mlir_async_pipe.pipeliner.plan.memory_limit import workgroup_bytes
from mlir_async_pipe.session.diagnostics import PipelineError, Refusal
from mlir_async_pipe.vocabulary import (
    ROWS,
    VIEW_OPS,
    Access,
    accesses,
    flag_order,
    groups_of,
    named_row,
    row_of,
    tensor_use,
    use_of,
)
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, is_dense
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, DEALLOCATION_OPS, is_set
from mlir_async_pipe.vocabulary.rows import BULK_STORE

_KINDS = ("allocation", "attribution", "global", "dynamic")


def ring_buffers(
    body: Body, transactions: tuple[Transaction, ...], sharing: tuple[Operation, ...]
) -> tuple[BufferPlan, ...]:
    """The buffers that the copies fill, with one version each; `sharing` are the other loops of the same ring.

    Raises PipelineError (buffer-not-versionable, not-privatisable, escapes)."""
    function = enclosing(body.loop, FUNCTION_OPS)
    assert function is not None
    copies = [copy for transaction in transactions for copy in transaction.copies]
    filled = [region for region in regions_of(copies, Arithmetic()) if region.writes]
    made = tile_buffers(filled, function)
    for buffer in made:
        _check_users(buffer.root, function, (body.loop, *sharing), copies)
    return made


def tile_buffers(
    regions: list[CoveredRegion], function: Operation, versions: int = 1
) -> tuple[BufferPlan, ...]:
    """The buffers that tensor copies fill, or read, with so many versions each.

    Raises PipelineError (buffer-not-versionable)."""
    asked = tensor_alignments(function)
    buffers = []
    for found in map(tuple, by_root(map(_of_window, regions)).values()):
        root = found[0].root
        assert root is not None
        _check_memory(root, found)
        period = asked_of(root.key, asked) // element_bytes(buffer_type(found))
        own = tuple(replace(region, period=max(1, period)) for region in found)
        none: Pairs = frozenset()
        buffers.append(BufferPlan(root, own, versions, slot_bytes(own), False, none, none))
    return tuple(buffers)


def _of_window(region: CoveredRegion) -> CoveredRegion:
    """A region of dynamic shared memory as one of the window that it lies in."""
    if region.root is None or region.root.kind != "dynamic" or region.access is None:
        return region
    memory = region.access.memory
    while (op := defining_op(memory)) is not None and op.name in VIEW_OPS:
        if root_of(op.operands[0]).offset is None:
            return replace(region, base=memory)
        memory = op.operands[0]
    return replace(region, base=region.access.memory)


def _check_memory(root: Root, found: tuple[CoveredRegion, ...]) -> None:
    named = root.kind in _KINDS and not is_pointer(buffer_value(found))
    kind = buffer_type(found) if named else None
    if root.kind == "dynamic" and (root.offset is None or overlapping_windows(found[0].op, root)):
        kind = None
    if kind is None or root.space != "workgroup" or not kind.has_static_shape or not is_dense(kind):
        raise PipelineError(
            f"cannot pipeline: the tiles that go to {root} need slots, and it is no dense buffer "
            "in workgroup memory of static shape",
            code="buffer-not-versionable",
            at=found[0].op,
            advice="make it a workgroup attribution, an allocation or a memref.global",
        )


def _check_users(
    root: Root, function: Operation, loops: tuple[Operation, ...], copies: list[Operation]
) -> None:
    """Every op of the function that names the buffer is in the loop, and can show a slot of it; or
    in a loop of the same ring, of which that is asked too."""
    loop, sharing = loops[0], set(loops[1:])
    for op in users_of_memory(function).get(root.identity, ()):
        above = list(ancestors(op))
        if loop not in above:
            if op.name in DEALLOCATION_OPS or not sharing.isdisjoint(above):
                continue
            raise PipelineError(
                f"cannot pipeline: {root} gets a tile an iteration, and '{op.name}' outside of the "
                "loop uses it too",
                code="not-privatisable",
                at=op,
                notes=(("the loop", loop),),
                advice="give the loop a buffer of its own, and make views of it inside of the loop",
            )
        if op not in copies and any(a.writes for a in accesses(op)):
            why = f"cannot pipeline: '{op.name}' writes to {root}, which tensor copies fill"
            advice = "write to another buffer"
            raise PipelineError(why, code="not-privatisable", at=op, advice=advice)
        if not shows_slots(op):
            how = "names it in a way that cannot take one"
            why = f"cannot pipeline: {root} gets slots, and '{op.name}' {how}"
            raise PipelineError(why, code="escapes", at=op)


@remembered
def users_of_memory(root: Operation) -> dict[Any, list[Operation]]:
    """The ops of `root` of which an operand is a buffer or a view of it, by its identity."""
    found: dict[Any, list[Operation]] = {}
    for op in walk(root):
        memory = (value for value in op.operands if str(value.type).startswith("memref<"))
        for identity in {root_of(value).identity for value in memory}:
            found.setdefault(identity, []).append(op)
    return found


def shows_slots(op: Operation) -> bool:
    """Whether an op that names a buffer can name one slot of it instead."""
    if op.name in VIEW_OPS:
        return can_move(op)
    row = row_of(op)
    return op.name in ADDRESS_OPS or bool(row.accesses or row.swizzled)


def writes_shared(op: Operation) -> bool:
    """Whether it writes memory that another thread can read."""
    return any(a.writes and root_of(a.memory).space != "private" for a in accesses(op))


# What copies read ----------------------------------------------------------------------------
#
# Whether tensor copies may be issued before what the input does before them: that must not write
# what they read.
#
#     store %A                       warps of their own do not wait for it: apart, whatever is asserted
#     scf.for %tile = … {
#       scf.for %k = … {
#         store %B                   before the copy of its own iteration: apart
#         copy %A; store %C          S - 1 iterations ahead: apart, or independent
#       }
#       store %C                     with warps of their own: apart, or both loops independent
#     }
#
# Which tensor a map describes is not to be seen, so only memory that no other pointer reaches is
# apart: not global memory, or an argument with `llvm.noalias`.


@dataclass(frozen=True)
class _Overtaken:
    """`ops` come before copies of later iterations of `loops`, outermost first, or, where there are
    none, before those of the same iteration: of that no loop's independence says anything."""

    ops: list[Operation]
    loops: tuple[Operation, ...]

    @property
    def vouched(self) -> bool:
        """Whether the author says that no two iterations meet."""
        return bool(self.loops) and all(is_set(loop.attributes, INDEPENDENT) for loop in self.loops)


def check_independent(
    loop: Operation,
    outer: tuple[Operation, ...],
    ready: tuple[Operation, ...],
    transactions: tuple[Transaction, ...],
    noalias_arguments: bool,
    meetings: tuple[Operation, ...],
    by_others: str,
) -> None:
    """Nothing that copies overtake writes what they read; `outer` are the ops between the mbarriers,
    of which the last of `ready` are the initialisation, and the loop; `by_others`: which
    others copy than the threads that run the loop, if some do. Of a loop without writes `meetings` of the cluster order nothing.
    Raises PipelineError (unproven-independence)."""
    copies = [copy for transaction in transactions for copy in transaction.copies]
    parts = _overtaken(loop, outer, ready, copies) if by_others else _inside(loop, (loop,), copies)
    for part in parts:
        for op in (op for top in part.ops for op in _ordering(top)):
            if op not in meetings:
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' orders memory for other threads, and a tensor "
                    "copy of a later iteration would run before it",
                    code="memory-order",
                    at=op,
                    notes=(("the copy", transactions[0].copies[0]),),
                )
        if part.vouched:
            continue
        for op in (op for top in part.ops for op in _writers(top)):
            if op not in meetings and _may_write_tensor(op, noalias_arguments):
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' may write what a tensor copy "
                    + ("of a later iteration reads" if part.loops else "after it reads")
                    + (f", which {by_others} do not order" if by_others else ""),
                    code="unproven-independence",
                    at=op,
                    notes=(("the copy", transactions[0].copies[0]),),
                    advice=_advice(part, loop),
                )


def _overtaken(
    loop: Operation,
    outer: tuple[Operation, ...],
    ready: tuple[Operation, ...],
    copies: list[Operation],
) -> Iterator[_Overtaken]:
    """What warps that only copy may be ahead of: all that comes before the loop, and, in a loop
    around, all that comes after it, too."""
    before = list(operations((*outer, loop)[0].block))
    first = max((before.index(op) + 1 for op in ready if op in before), default=0)
    before = before[first:]
    loops: tuple[Operation, ...] = ()
    above = [op.block for op in (*outer, loop)]
    for holder in (*outer, loop):
        place = before.index(holder)
        yield _Overtaken(before[:place], ())
        if loops:
            yield _Overtaken(before[place + 1 :], loops)
        if holder.name == "scf.for":
            loops = (*loops, holder)
        if holder == loop:
            break
        for block in (block for region in holder.regions for block in region.blocks):
            if block in above:
                before = operations(block)
            elif loops:
                yield _Overtaken(operations(block), loops)
    yield from _inside(loop, loops, copies)


def _inside(
    loop: Operation, loops: tuple[Operation, ...], copies: list[Operation]
) -> Iterator[_Overtaken]:
    """What copies are ahead of in their loop: what comes before one of them in its iteration, too."""
    body = list(operations(loop.regions[0].blocks[0]))
    copying = {op for copy in copies for op in (copy, *ancestors(copy))}
    last = max(number for number, op in enumerate(body) if op in copying)
    yield _Overtaken(body[: last + 1], ())
    yield _Overtaken([loop], loops)


@remembered
def _ordering(top: Operation) -> list[Operation]:
    """What nothing moves above, of an op and all in it."""
    return [op for op in walk(top) if flag_order(op).acquire]


@remembered
def _writers(top: Operation) -> list[Operation]:
    """What may write some map's tensor, of an op and all in it: of loops in a row each is asked for all before it."""
    return [op for op in walk(top) if _may_write_tensor(op, False)]


def _may_write_tensor(op: Operation, noalias_arguments: bool) -> bool:
    """Whether it may write what a tensor map describes."""
    written = [root_of(a.memory) for a in accesses(op) if a.writes]
    harmless = noalias_arguments or all(r.space != "global" or r.noalias for r in written)
    row = row_of(op)
    stores = row.queue == BULK_STORE and bool(row.swizzled)
    return not harmless or stores or (is_opaque(op) and not touches_no_tensor(op))


def touches_no_tensor(op: Operation) -> bool:
    """Ops that no row describes, and that leave global memory alone."""
    return use_of(op) is not None or tensor_use(op) is not None


def _advice(part: _Overtaken, loop: Operation) -> str:
    if not part.loops:
        return (
            "write it after the copies, or through an argument with `llvm.noalias` that no tensor map "
            "describes"
        )
    if part.loops == (loop,):
        return f"assert `{INDEPENDENT}` on this loop if they never overlap"
    return f"assert `{INDEPENDENT}` on each loop around this op if they never overlap"


# Which loops may leave tensor stores in flight, how many, and which tiles get slots for that.
#
#     for %i { write %o; fence; barrier; store %o; commit; wait 0 {read}; barrier }
#
# q stores may read their tiles while later iterations write theirs if the tiles have q + 1 slots
# (docs/phases.md). An iteration must write all that its store reads. It does if it writes the same
# elements as all others: no condition and no subscript of its writes changes in the loop.


_refuse = Refusal(
    "cannot leave its stores in flight:",
    code="store-not-overlapped",
    advice="write each iteration as if it were alone: the tile, a fence, a barrier, its stores and one commit, "
    "`wait_group 0 {read}`, a barrier (docs/hopper.md)",
)


@dataclass(frozen=True)
class StorePlan:
    """`wait` is that of the loop, and leaves the groups of `in_flight` iterations; `buffers` get
    one slot more than that. Where the writes and the stores stand in one branch, only iterations that
    take it count, and the slot goes on there."""

    wait: Operation
    # How many ops around the wait stand inside of what holds all of an iteration's writes and stores.
    depth: int
    buffers: tuple[BufferPlan, ...]
    in_flight: int


def plan_stores(loop: Operation, asked: int, limit: int | None, around: Surroundings) -> StorePlan:
    """What becomes of the stores of a loop; raises PipelineError (store-not-overlapped and what
    buffers that cannot have versions raise)."""
    stores, commit, wait = _group(loop)
    # The slot can be carried to where the kernel begins.
    for above in takewhile(lambda op: op.name not in KERNEL_OPS, ancestors(loop)):
        if not carries_slots(above):
            _refuse(f"the slot cannot be carried through this '{above.name}'", above, loop)
    releasing = next((op for op in walk(loop) if flag_order(op).release), None)
    if releasing is not None:
        why = f"'{releasing.name}' tells other threads that what comes before it is over"
        _refuse(why, releasing, loop)
    function = enclosing(loop, FUNCTION_OPS)
    assert function is not None
    buffers = tile_buffers(regions_of(stores, Arithmetic()), function)
    places = {op: place for place, op in enumerate(walk(loop))}
    of_tiles = _writes(loop, buffers, function, stores)
    parts = {*stores, commit, wait, *(access.op for writes in of_tiles for access in writes)}
    holder, same = _holder(loop, parts), SameEachTime(loop)
    for op in (*stores, commit, wait):
        _check_conditions(op, holder, loop, same)
    for buffer, writes in zip(buffers, of_tiles, strict=True):
        # Writes, stores, commit; the wait comes after these, or before them.
        first, last = (places[access.op] for access in (writes[0], writes[-1]))
        in_order = last < places[stores[0]] and places[stores[-1]] < places[commit]
        if not in_order or first < places[wait] < places[commit]:
            why = "what it does with its tile is in another order than writes, stores, commit"
            _refuse(why, commit, commit)
        if not declared_private(buffer.root):
            _check_the_same(holder, loop, writes, same)
    _check_met(holder, wait, [writes[0].op for writes in of_tiles])
    depth = list(ancestors(wait)).index(holder)
    planned = {buffer.root.identity for buffer in buffers}
    free = None if limit is None else limit - around.workgroup_bytes_beside(loop, planned)
    left = asked
    while left and free is not None and workgroup_bytes(buffers) * (left + 1) > free:
        left -= 1
    with_slots = tuple(replace(buffer, versions=left + 1) for buffer in buffers)
    return StorePlan(wait, depth, with_slots, left)


def waits_of_stores(top: Operation) -> Iterator[Operation]:
    return (op for op in walk(top) if _queued(op) and ROWS[op.name].wait is not None)


def carries_slots(op: Operation) -> bool:
    return op.name == "scf.for" or op.name == "scf.if"


def stored_tiles(top: Operation) -> Iterator[Value]:
    return (a.memory for op in walk(top) if _queued(op) for a in accesses(op) if not a.writes)


def is_tensor_store(op: Operation) -> bool:
    return _queued(op) and bool(ROWS[op.name].accesses)


def _queued(op: Operation) -> bool:
    return named_row(op.name).queue == BULK_STORE


def _group(loop: Operation) -> tuple[list[Operation], Operation, Operation]:
    """The stores of an iteration, their commit, and the wait for them."""
    found = [op for op in walk(loop) if _queued(op)]
    waits = list(waits_of_stores(loop))
    commits = [op for op in found if ROWS[op.name].commits]
    stores = [op for op in found if is_tensor_store(op)]
    if not stores or len(commits) != 1 or len(waits) != 1:
        _refuse(
            f"an iteration has {len(stores)} stores in {len(commits)} groups, and waits for them "
            f"{len(waits)} times",
            (found or [loop])[0],
            loop,
        )
    (commit,), (wait,) = commits, waits
    rule = ROWS[wait.name].wait
    assert rule is not None
    if integer_attribute(wait, rule.count) != 0:
        _refuse("its wait leaves groups in flight already", wait, loop)
    if rule.completes(wait) != "read":
        why = "its wait is for what they write, too, which somebody may read"
        _refuse(why, wait, loop, advice="add `{read}` if only the tile is written anew")
    return stores, commit, wait


def _holder(loop: Operation, parts: set[Operation]) -> Operation:
    """The loop or branch, or the innermost branch in it, in one block of which all of these stand."""
    around = {_child(part, loop) for part in parts}
    branch = next(iter(around))
    if len(around) > 1 or branch.name != "scf.if" or branch in parts:
        return loop
    if len({_child(part, branch).block for part in parts}) > 1:
        return loop
    return _holder(branch, parts)


def _child(op: Operation, holder: Operation) -> Operation:
    """The op in a block of `holder` that is the op, or is around it."""
    return next(each for each in (op, *ancestors(op)) if parent(each) == holder)


def _check_conditions(
    op: Operation, holder: Operation, loop: Operation, same: SameEachTime
) -> None:
    """An op happens whenever the holder's block is run, or never: for each thread."""
    for above in ancestors(op):
        if above == holder:
            return
        if above.name != "scf.if":
            _refuse(f"it stands inside of '{above.name}'", op, loop)
        if same.what_changes(above.operands[:1]) is not None:
            _refuse("it stands under a condition that changes in the loop", op, loop)


def _writes(
    loop: Operation, buffers: tuple[BufferPlan, ...], function: Operation, stores: list[Operation]
) -> list[list[Access]]:
    """The writes of each tile; all else that uses it is the stores, and views in the loop."""
    writes: dict[object, list[Access]] = {buffer.root.identity: [] for buffer in buffers}
    for op in (op for tile in writes for op in users_of_memory(function).get(tile, ())):
        if loop not in ancestors(op):
            if op.name in DEALLOCATION_OPS:
                continue
            _refuse(f"'{op.name}' uses its tile outside of the loop", op, loop)
        if not shows_slots(op):
            _refuse(f"'{op.name}' names its tile in a way that cannot take a slot", op, loop)
    storing = set(stores)
    for op in (op for op in walk(loop) if op not in storing):
        for access in accesses(op):
            of_tile = writes.get(root_of(access.memory).identity)
            if of_tile is None:
                continue
            if access.kind != "write" or access.asynchronous or row_of(op).by_proxy:
                why = f"'{op.name}' does more to its tile than to write it before the store"
                _refuse(why, op, loop)
            of_tile.append(access)
    if not all(writes.values()):
        _refuse("nothing in the loop writes its tile", stores[0], loop)
    return list(writes.values())


def _check_met(holder: Operation, wait: Operation, writes: list[Operation]) -> None:
    """Threads meet after the wait, before one of them writes a tile again."""
    start = _child(wait, holder)
    order = operations(start.block)
    first = order.index(start)
    since = {op: number for number, op in enumerate([*order[first:], *order[:first]])}
    rules = ((named_row(op.name).barrier, op) for op in since)
    meeting = (op for rule, op in rules if rule is not None and "workgroup" in rule(op))
    met = next(map(since.__getitem__, meeting), len(since))
    # 0: the wait and the write stand in one op, and the next iteration's comes after all others.
    if any(met >= (since[_child(write, holder)] or len(since)) for write in writes):
        why = "no barrier stands between its wait and the next iteration's writes"
        _refuse(why, wait, holder)


def _check_the_same(
    holder: Operation, loop: Operation, writes: Iterable[Access], same: SameEachTime
) -> None:
    for access in writes:
        where, inside = where_written(access, holder)
        if inside is not None:
            _refuse("a write of its tile stands inside of it", inside, loop)
        changing = same.what_changes(where)
        if changing is not None:
            raise PipelineError(
                f"cannot leave its stores in flight: which elements '{access.op.name}' writes may "
                "change in the loop, so that the store may read some that an earlier iteration wrote",
                code="store-not-overlapped",
                at=access.op,
                notes=(("what changes", changing),),
                advice="`async_pipe.private` on the allocation says that each iteration writes all "
                "that its store reads",
            )


def where_written(access: Access, holder: Operation) -> tuple[list[Value], Operation | None]:
    """What says which elements a write touches each time that the holder's block is run, and an op around
    it there, if there is one, of which that is not known."""
    stored = {
        number
        for name, numbers in groups_of(access.op).items()
        if name.startswith("value")
        for number in numbers
    }
    where = [value for n, value in enumerate(access.op.operands) if n not in stored]
    for above in ancestors(access.op):
        if above == holder:
            break
        if not carries_slots(above):
            return where, above
        where += conditions(above)
    return where, None
